"""What the weights of rows do."""

from __future__ import annotations

import numpy as np
import pytest
from estimators.problems import PLANTED, score_of, thinned, wide

from daskfs.sklearn import (
    MissionClassifier,
    OnlineSubstitutionClassifier,
    OnlineSubstitutionRegressor,
    SparseRandomFeaturesClassifier,
    SparseRandomFeaturesRegressor,
)


@pytest.mark.parametrize("kind", [np.asarray, thinned], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "estimator",
    [
        OnlineSubstitutionClassifier(2),
        MissionClassifier(2, width=2**10, passes=4),
        SparseRandomFeaturesClassifier(rounds=2, per_round=50),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_rows_of_no_weight_do_not_mislead(estimator, kind):
    """Two rows of three have the wrong label: with the weights nearly all are told apart, without them nearly none."""
    X, misled = kind(wide(900, 8)), np.arange(900) % 3 > 0
    y = score_of(X.toarray() if hasattr(X, "toarray") else X) > 0
    told = y ^ misled
    assert estimator.fit(X, told, sample_weight=np.where(misled, 0, 1)).score(X, y) > 0.85
    assert estimator.fit(X, told).score(X, y) < 0.3


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [(OnlineSubstitutionRegressor(6, ridge=1e-6), 1e-5), (OnlineSubstitutionClassifier(6, ridge=1e-6), 1e-3)],
    ids=["numbers", "classes"],
)
def test_a_weight_is_a_row_repeated(estimator, tolerance):
    """To what float32 can tell, and with a ridge too small to matter."""
    rng, X = np.random.default_rng(5), wide(300, 6)
    y, weight = score_of(np.hstack([X, X])) + rng.normal(size=300), rng.integers(0, 4, 300)
    y = y if estimator._numeric_target else y > 0
    rows = np.repeat(np.arange(300), weight)
    repeated = estimator.fit(X[rows], y[rows]).coef_
    np.testing.assert_allclose(
        estimator.fit(X, y, sample_weight=weight).coef_, repeated, rtol=tolerance, atol=tolerance
    )
    assert np.abs(estimator.fit(X, y).coef_ - repeated).max() > 10 * tolerance


def test_weights_of_random_features():
    """A line of slope 1 in half of the rows and of slope -1 in the others: the heavier half is followed."""
    X = np.random.default_rng(0).uniform(size=(600, 2))
    up = np.arange(600) % 2 == 0
    y = np.where(up, X[:, 0], -X[:, 0])
    model = SparseRandomFeaturesRegressor(rounds=2, per_round=50, penalty=0.1)
    assert model.fit(X, y, sample_weight=np.where(up, 1, 1e-4)).score(X, X[:, 0]) > 0.9
    assert model.fit(X, y, sample_weight=np.where(up, 1e-4, 1)).score(X, -X[:, 0]) > 0.9


def test_weights_that_are_none():
    X, y = wide(), score_of(wide())
    for weight, words in ((np.zeros(240), "zero"), (-np.ones(240), "[Nn]egative"), (np.ones(3), "240")):
        with pytest.raises(ValueError, match=words):
            OnlineSubstitutionRegressor(2).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="method='block'"):
        OnlineSubstitutionRegressor(2, method="paper").fit(X, y, sample_weight=np.ones(240))
    assert sorted(OnlineSubstitutionRegressor(2).fit(X, y, np.ones(240)).selection_.features.tolist()) == list(PLANTED)
