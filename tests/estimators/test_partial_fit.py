"""Batch by batch, MISSION learns what it learns from all rows at once."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from estimators.problems import differences, score_of, thinned
from sklearn.base import clone

import daskfs
from daskfs.errors import OptionError, RowError
from daskfs.sklearn import MissionClassifier, MissionRegressor, MissionSelector

ROWS = 9000  # more than wait until a rate is found
WIDTH = 2**10
ONCE = {"width": WIDTH, "passes": 1, "refit": 0}


@pytest.fixture(scope="module", name="X")
def many_rows():
    return np.random.default_rng(0).normal(size=(ROWS, 12)).astype(np.float32)


def labels(X):
    return np.array(["a", "b", "c"])[np.argmax(X[:, 2:5], axis=1)]


def cuts(seed: int) -> list[np.ndarray]:
    edges = np.sort(np.random.default_rng(seed).choice(np.arange(1, ROWS), 6, replace=False))
    return np.split(np.arange(ROWS), edges)


CASES = {
    "rate by a race": (MissionClassifier(3, **ONCE), daskfs.Mission(3, **ONCE), lambda X: score_of(X) > 0),
    "a rate": (
        MissionClassifier(3, **ONCE, learning_rate=0.5),
        daskfs.Mission(3, **ONCE, learning_rate=0.5),
        lambda X: np.where(score_of(X) > 0, "up", "down"),
    ),
    "three classes": (
        MissionClassifier(3, **ONCE, learning_rate=0.5),
        daskfs.Mission(3, "softmax", **ONCE, learning_rate=0.5),
        labels,
    ),
    "paper": (
        MissionClassifier(3, **ONCE, learning_rate=0.2, method="paper"),
        daskfs.Mission(3, **ONCE, learning_rate=0.2, method="paper"),
        lambda X: score_of(X) > 0,
    ),
    "batch-iht": (
        MissionClassifier(3, **ONCE, learning_rate=0.2, method="batch-iht"),
        daskfs.Mission(3, **ONCE, learning_rate=0.2, method="batch-iht"),
        lambda X: score_of(X) > 0,
    ),
    "numbers": (MissionRegressor(2, **ONCE), daskfs.Mission(2, "squared", **ONCE), score_of),
    "selector of numbers": (MissionSelector(2, **ONCE), daskfs.Mission(2, "squared", **ONCE), score_of),
    "selector of classes": (MissionSelector(3, **ONCE), daskfs.Mission(3, "softmax", **ONCE), labels),
}


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("kind", [np.asarray, thinned], ids=["dense", "sparse"])
@pytest.mark.parametrize("case", CASES)
def test_batches_are_select(case, kind, X, tmp_path):
    """Also where batches are cut anew, and where somebody looks at it in between."""
    estimator, algorithm, target = CASES[case]
    y, matrix = target(X), kind(X)
    daskfs.write_dataset(tmp_path / "X.zarr", matrix, y, layout="rows")
    expected = daskfs.select(tmp_path / "X.zarr", algorithm)
    takes_classes = not isinstance(estimator, MissionRegressor) and case != "selector of numbers"
    classes = {"classes": np.unique(y)} if takes_classes else {}
    for seed in range(2):
        estimator = clone(estimator)
        for rows in cuts(seed):
            estimator.partial_fit(matrix[rows], y[rows], **classes)
            if seed:
                assert len(estimator.selection_.features)
        found = estimator.selection_
        assert differences(found, expected) == []
        assert (found.source["n_samples"], found.source["n_features"]) == (ROWS, 12)
    assert differences(estimator.fit(matrix, y).selection_, expected) == []


def test_any_time_is_the_selection_of_the_rows_so_far(X):
    y, batches = score_of(X) > 0, MissionClassifier(3, **ONCE)
    for start, stop in pairwise((0, 10, 200, 8500)):
        batches.partial_fit(X[start:stop], y[start:stop], classes=[False, True])
        whole = MissionClassifier(3, **ONCE).fit(X[:stop], y[:stop])
        assert differences(batches.selection_, whole.selection_) == []


def test_memory_does_not_grow_with_rows(X):
    y, estimator, sizes = score_of(X) > 0, MissionClassifier(3, **ONCE, learning_rate=0.5), []
    for _ in range(4):
        for rows in np.split(np.arange(ROWS), 3):
            estimator.partial_fit(X[rows], y[rows], classes=[False, True])
        sizes.append(len(pickle.dumps(estimator)))
    assert max(sizes) - min(sizes) < 100
    assert sizes[0] < 100_000 < X.nbytes


def test_it_goes_on_after_a_pickle(X):
    y, classes = score_of(X) > 0, [False, True]
    one = MissionClassifier(3, **ONCE).partial_fit(X[:5000], y[:5000], classes)
    other = pickle.loads(pickle.dumps(one))
    for estimator in (one, other):
        estimator.partial_fit(X[5000:], y[5000:])
    assert differences(one.selection_, other.selection_) == []


def test_weights_count_in_batches_too(X):
    y, weight = score_of(X) > 0, np.random.default_rng(1).random(ROWS)
    whole = MissionClassifier(3, **ONCE).fit(X, y, sample_weight=weight)
    batches = MissionClassifier(3, **ONCE)
    for rows in cuts(3):
        batches.partial_fit(X[rows], y[rows], [False, True], sample_weight=weight[rows])
    assert differences(batches.selection_, whole.selection_) == []
    assert differences(batches.selection_, MissionClassifier(3, **ONCE).fit(X, y).selection_) != []


def test_what_cannot_be(X):
    y = score_of(X) > 0
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        MissionClassifier().partial_fit(X, y)
    with pytest.raises(OptionError, match="none of the classes"):
        MissionClassifier().partial_fit(X, labels(X), classes=["a", "b"])
    with pytest.raises(OptionError, match="give all labels"):
        MissionSelector().partial_fit(X, labels(X))
    for option in ({"refit": 1}, {"idf": True}, {"fading": 0.1}):
        with pytest.raises(OptionError, match="use fit"):
            MissionRegressor(**option).partial_fit(X, score_of(X))
    with pytest.raises(ValueError, match="12 features"):
        MissionRegressor(**ONCE).partial_fit(X, score_of(X)).partial_fit(sp.csr_array(X[:, :5]), score_of(X))


def test_a_value_that_is_too_large_is_named_by_its_row_among_all(X):
    estimator, y = MissionRegressor(2, **ONCE).partial_fit(X[:5], score_of(X[:5])), score_of(X)
    bad = X[5:10].copy()
    bad[2, 3] = 1e30
    with pytest.raises(RowError, match="row 7, feature 3"):
        estimator.partial_fit(bad, y[5:10])
    estimator.partial_fit(X[5:], y[5:])
    assert differences(estimator.selection_, MissionRegressor(2, **ONCE).fit(X, y).selection_) == []
