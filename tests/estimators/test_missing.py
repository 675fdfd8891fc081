"""Estimators with `missing`: NaN is filled as scikit-learn's imputer would, in `fit` and in predictions."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.impute import SimpleImputer

from daskfs.errors import OptionError
from daskfs.sklearn import MissionClassifier, OnlineSubstitutionRegressor, OnlineSubstitutionSelector


def data(rows=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 8)) + 3
    y = X[:, 1] - 2 * X[:, 5]
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda X: da.from_array(X, chunks=(50, 3))])
def test_the_mean_is_that_of_an_imputer(form):
    X, y = data()
    whole = SimpleImputer().fit_transform(X)
    ours = OnlineSubstitutionRegressor(3, missing="mean").fit(form(X), y)
    theirs = OnlineSubstitutionRegressor(3).fit(whole, y)
    assert set(ours.selection_.features) == set(theirs.selection_.features) >= {1, 5}
    np.testing.assert_allclose(ours.predict(form(X)), theirs.predict(whole), rtol=1e-4, atol=1e-5)


def test_rows_are_dropped_in_fit_and_columns_filled_in_transform():
    X, y = data()
    complete = ~np.isnan(X).any(axis=1)
    dropped = OnlineSubstitutionRegressor(2, missing="drop").fit(X, y)
    plain = OnlineSubstitutionRegressor(2).fit(X[complete], y[complete])
    np.testing.assert_array_equal(dropped.coef_, plain.coef_)
    selector = OnlineSubstitutionSelector(2, missing="mean").fit(X, y)
    np.testing.assert_allclose(selector.transform(X), SimpleImputer().fit_transform(X)[:, [1, 5]])


def test_without_a_choice_nan_is_refused_and_partial_fit_knows_no_mean():
    X, y = data()
    with pytest.raises(ValueError, match="contains NaN"):
        OnlineSubstitutionRegressor(2).fit(X, y)
    with pytest.raises(OptionError, match="missing: needs to know all rows"):
        MissionClassifier(2, missing="mean").partial_fit(np.nan_to_num(X), y > 0, classes=[False, True])
    with pytest.raises(OptionError, match="missing: 'average' is none of"):
        OnlineSubstitutionRegressor(2, missing="average").fit(X, y)
