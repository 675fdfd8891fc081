"""Estimators of Online Substitution with several numeric targets, the columns of y."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

import daskfs
from daskfs.errors import OptionError
from daskfs.sklearn import (
    MissionRegressor,
    OnlineSubstitutionClassifier,
    OnlineSubstitutionRegressor,
    OnlineSubstitutionSelector,
    SparseRandomFeaturesRegressor,
)

RNG = np.random.default_rng(2)
X = RNG.normal(size=(200, 30))
Y = X[:, [4, 9]] @ [[1.0, 0.0, 300.0], [0.0, 2.0, 100.0]] + [0, 7, -1e4] + 0.01 * RNG.normal(size=(200, 3))
FORMS = {
    "array": (X, Y),
    "lists": (X.tolist(), Y.tolist()),
    "dask": (da.from_array(X, (70, 30)), Y),
    "sparse": (sp.csr_array(X), Y),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_regressor_predicts_all_targets(form):
    model = OnlineSubstitutionRegressor(2).fit(*FORMS[form])
    assert sorted(model.selection_.features.tolist()) == [4, 9]
    assert model.selection_.targets == ("y0", "y1", "y2")
    assert model.coef_.shape == (3, 30)
    assert model.intercept_.shape == (3,)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_.T + model.intercept_, rtol=1e-4)
    plain = LinearRegression().fit(X[:, [4, 9]], Y)
    np.testing.assert_allclose(model.coef_[:, [4, 9]], plain.coef_, rtol=1e-2, atol=1e-2)
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)))


def test_names_of_a_frame():
    frame = pd.DataFrame(Y, columns=["a", "b", "c"])
    for form in (X, da.from_array(X)):
        assert OnlineSubstitutionRegressor(2).fit(form, frame).selection_.targets == ("a", "b", "c")


def test_a_dataset_brings_its_targets(tmp_path):
    daskfs.write_dataset(tmp_path / "d", X, Y)
    model = OnlineSubstitutionRegressor(2).fit(tmp_path / "d")
    assert model.score(tmp_path / "d") == pytest.approx(r2_score(Y, model.predict(X)))
    assert model.predict(tmp_path / "d").shape == (200, 3)


def test_one_column_is_one_target():
    one, column = (OnlineSubstitutionRegressor(2).fit(X, y) for y in (Y[:, 0], Y[:, :1]))
    assert column.selection_.targets is None
    assert np.array_equal(one.coef_, column.coef_)
    assert column.predict(X).shape == (200,)


def test_weights_of_rows():
    weight = RNG.integers(0, 3, 200)
    model = OnlineSubstitutionRegressor(2, ridge=1e-6).fit(X, Y, sample_weight=weight)
    plain = LinearRegression().fit(X[:, [4, 9]], Y, sample_weight=weight)
    np.testing.assert_allclose(model.coef_[:, [4, 9]], plain.coef_, rtol=1e-4, atol=1e-6)


def test_the_selector_keeps_the_columns_of_all_targets():
    selector = OnlineSubstitutionSelector(2).fit(X, Y)
    assert np.flatnonzero(selector.get_support()).tolist() == [4, 9]
    assert selector.transform(X).shape == (200, 2)


def test_in_a_search():
    model = clone(OnlineSubstitutionRegressor(2))
    assert cross_val_score(model, X, Y, cv=3).min() > 0.99


@pytest.mark.parametrize("estimator", [MissionRegressor(2), SparseRandomFeaturesRegressor(rounds=1)])
def test_other_regressors_take_one_target(estimator, tmp_path):
    with pytest.raises(ValueError, match=r"y should be a 1d array|takes one target"):
        estimator.fit(X, Y)
    with pytest.raises(ValueError, match=r"y has shape \(200, 3\), and .*Regressor takes one target"):
        clone(estimator).fit(da.from_array(X), Y)
    daskfs.write_dataset(tmp_path / "d", X, Y, layout="rows")
    with pytest.raises(OptionError, match="takes one target"):
        clone(estimator).fit(tmp_path / "d")


def test_classifiers_refuse_numbers(tmp_path):
    with pytest.raises(ValueError, match=r"y should be a 1d array"):
        OnlineSubstitutionClassifier(2).fit(X, (Y > 0).astype(int))
    with pytest.raises(OptionError, match=r"y has shape \(200, 3\), and OnlineSubstitutionClassifier takes one target"):
        OnlineSubstitutionClassifier(2).fit(da.from_array(X), (Y > 0).astype(int))
    daskfs.write_dataset(tmp_path / "d", X, Y)
    with pytest.raises(OptionError, match="real number, not a class: use a regressor"):
        OnlineSubstitutionClassifier(2).fit(tmp_path / "d")


def test_sparse_targets_are_refused():
    with pytest.raises(OptionError, match=r"y is sparse: give several targets as a dense array, y.toarray\(\)"):
        OnlineSubstitutionRegressor(2).fit(X, sp.csr_matrix(Y))
