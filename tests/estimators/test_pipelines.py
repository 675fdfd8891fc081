"""Estimators among others: pipelines, grid searches in other processes, pandas out, copies."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from estimators.problems import PLANTED, differences, score_of, thinned, wide
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from daskfs.sklearn import (
    MissionClassifier,
    MissionRegressor,
    MissionSelector,
    OnlineSubstitutionClassifier,
    OnlineSubstitutionRegressor,
    OnlineSubstitutionSelector,
    SparseRandomFeaturesTransformer,
)

NAMES = [f"gene {column}" for column in range(40)]


@pytest.mark.slow
def test_a_grid_search_finds_the_planted_features():
    """In processes of its own; five columns count, and more than five would cost on rows that are left out."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 60))
    planted = [5, 17, 23, 31, 44]
    y = X[:, planted] @ [2, -2, 2, 2, -2] + rng.normal(size=120)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), OnlineSubstitutionSelector(), LinearRegression()),
        {"onlinesubstitutionselector__n_select": [1, 3, 5, 30]},
        cv=4,
        n_jobs=2,
    ).fit(X, y)
    selector = search.best_estimator_[1]
    assert search.best_params_ == {"onlinesubstitutionselector__n_select": 5}
    assert selector.get_support(indices=True).tolist() == planted
    assert search.best_score_ > cross_val_score(LinearRegression(), X, y, cv=4).mean()


@pytest.mark.parametrize(
    "selector", [OnlineSubstitutionSelector(2), MissionSelector(2, width=2**10, passes=3)], ids=repr
)
def test_a_selector_keeps_names_and_order(selector):
    X, y = pd.DataFrame(wide(), columns=NAMES), score_of(wide())
    selector.set_output(transform="pandas").fit(X, y)
    assert selector.get_support(indices=True).tolist() == list(PLANTED)
    pd.testing.assert_frame_equal(selector.transform(X), X[["gene 3", "gene 7"]])
    assert selector.selection_.names == ["gene 7", "gene 3"]  # most important first
    assert selector.get_feature_names_out().tolist() == ["gene 3", "gene 7"]
    back = selector.inverse_transform(selector.transform(X).to_numpy())
    assert back.shape == (240, 40)
    np.testing.assert_array_equal(back[:, 7], X["gene 7"])
    with pytest.raises(ValueError, match="feature names should match"):
        selector.transform(X.rename(columns={"gene 3": "gene III"}))


def test_how_many_where_nobody_says():
    y = score_of(wide(60, 300))
    counts = {
        name: len(kind(**options).fit(wide(60, width), y).selection_.features)
        for name, kind, options, width in [
            ("half", OnlineSubstitutionSelector, {}, 21),
            ("a hundred", OnlineSubstitutionSelector, {}, 300),
            ("all", OnlineSubstitutionRegressor, {}, 21),
            ("a hundred of many", OnlineSubstitutionRegressor, {}, 300),
        ]
    }
    with pytest.warns(UserWarning, match="21 features of the 50 asked for: the data have no more"):
        few = OnlineSubstitutionRegressor(n_select=50).fit(wide(60, 21), y)
    counts["no more than there are"] = len(few.selection_.features)
    assert counts == {
        "half": 10,
        "a hundred": 100,
        "all": 21,
        "a hundred of many": 100,
        "no more than there are": 21,
    }


@pytest.mark.parametrize(
    "estimator",
    [
        OnlineSubstitutionClassifier(4),
        MissionClassifier(4, width=2**10),
        MissionClassifier(4, loss="softmax", width=2**10),
    ],
    ids=repr,
)
def test_coefficients_are_the_model(estimator):
    X, y = wide(), score_of(wide()) > 0
    for matrix in (X, thinned(X)):
        estimator.fit(matrix, y)
        assert estimator.coef_.shape == (1, 40)
        assert np.count_nonzero(estimator.coef_) == 4
        scores = (matrix @ estimator.coef_.T + estimator.intercept_)[:, 0]
        np.testing.assert_allclose(estimator.decision_function(matrix), scores, atol=1e-5)
        np.testing.assert_allclose(estimator.predict_proba(matrix)[:, 1], 1 / (1 + np.exp(-scores)), atol=1e-6)
    assert estimator.fit(X, y).score(X, y) > 0.8


def test_coefficients_of_several_classes_and_of_numbers():
    X = wide(600, 8)
    model = MissionClassifier(4, width=2**10, passes=3).fit(X, np.argmax(X[:, :3], axis=1))
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, atol=1e-5)
    number = MissionRegressor(2, width=2**10).fit(X, 5 + score_of(X))
    assert number.coef_.shape == (8,)
    assert isinstance(number.intercept_, float)
    np.testing.assert_allclose(number.predict(X), X @ number.coef_ + number.intercept_, atol=1e-5)


def test_copies_and_pickles():
    X, y = wide(), score_of(wide()) > 0
    model = OnlineSubstitutionClassifier(n_select=2, passes=2, random_state=4)
    assert repr(model) == "OnlineSubstitutionClassifier(n_select=2, passes=2, random_state=4)"
    assert repr(clone(model)) == repr(model)
    again = pickle.loads(pickle.dumps(model.fit(X, y)))
    assert differences(again.selection_, model.selection_) == []
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "selection_")


def test_chance_comes_from_random_state():
    X, y = wide(400, 3), np.sin(3 * wide(400, 3)[:, 0])
    options = {"rounds": 2, "per_round": 20}

    def drawn(random_state):
        return (
            SparseRandomFeaturesTransformer(**options, random_state=random_state).fit(X, y).selection_.features.tolist()
        )

    assert drawn(3) == drawn(np.int64(3)) != drawn(4)
    assert drawn(np.random.RandomState(0)) == drawn(np.random.RandomState(0))
    assert drawn(None) != drawn(None)


def test_random_features_before_another_model():
    X, names = wide(600, 3), ["a", "b", "c"]
    y = np.hypot(X[:, 0], X[:, 1]) < 1
    waves = SparseRandomFeaturesTransformer(n_select=40, rounds=3, per_round=100).set_output(transform="pandas")
    model = make_pipeline(waves, LogisticRegression(max_iter=1000)).fit(pd.DataFrame(X, columns=names), y)
    assert model.score(pd.DataFrame(X, columns=names), y) > 0.9 > LogisticRegression().fit(X, y).score(X, y)
    assert list(model[0].get_feature_names_out())[:2] == [
        "sparserandomfeaturestransformer0",
        "sparserandomfeaturestransformer1",
    ]


def test_several_classes_one_against_the_rest():
    X = wide(300, 8)
    y = np.argmax(X[:, :3], axis=1)
    assert OneVsRestClassifier(OnlineSubstitutionClassifier(3)).fit(X, y).score(X, y) > 0.85
