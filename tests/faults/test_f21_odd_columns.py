"""F21: constant, empty, doubled and huge columns, and sizes at the edge: no NaN comes out, constants never win."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import daskfs
from daskfs.errors import DatasetError, OptionError

ROWS = 400
RNG = np.random.default_rng(3)
SIGNAL = RNG.normal(size=(ROWS, 2))
COLUMNS = {
    "signal": SIGNAL[:, 0],
    "zero": np.zeros(ROWS),
    "constant": np.full(ROWS, 7.0),
    "huge constant": np.full(ROWS, 1e30),
    "other signal": SIGNAL[:, 1],
    "noise": RNG.normal(size=ROWS),
    "more noise": RNG.normal(size=ROWS),
}
X = np.column_stack(list(COLUMNS.values()))
Y = 2 * SIGNAL[:, 0] - SIGNAL[:, 1] + 0.1 * RNG.normal(size=ROWS)
ALGORITHMS: dict[str, Any] = {
    "substitution": daskfs.OnlineSubstitution,
    "paper": lambda k: daskfs.OnlineSubstitution(k, method="paper"),
    "mission": daskfs.Mission,
    "univariate": daskfs.Univariate,
}


def select(data: Any, y: Any, algorithm: Any) -> daskfs.Selection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is not the point here
        return daskfs.select(data, algorithm, y=y)


def check_finite(selection: daskfs.Selection) -> None:
    for numbers in (selection.weights, selection.intercept, selection.importance):
        assert np.isfinite(numbers).all()


@pytest.mark.parametrize("labels", [Y, (Y > 0).astype(int)], ids=["real", "classes"])
@pytest.mark.parametrize("name", ["substitution", "paper", "univariate"])
def test_f21_constants_never_beat_information(name, labels):
    selection = select(X, labels, ALGORITHMS[name](2))
    check_finite(selection)
    assert set(selection.features.tolist()) == {0, 4}
    assert np.isfinite(selection.decision_function(X)).all()


@pytest.mark.parametrize("labels", [Y, (Y > 0).astype(int)], ids=["real", "classes"])
def test_f21_constants_never_beat_information_in_rows(labels):
    """MISSION reads rows; values that float32 steps cannot square are refused by row and name."""
    selection = select(np.delete(X, 3, axis=1), labels, daskfs.Mission(2))
    check_finite(selection)
    assert set(selection.features.tolist()) == {0, 3}
    with pytest.raises(DatasetError, match=r"row 0: feature 'x3': the value 1\.0\d*e\+30 is not finite, or too"):
        select(X, labels, daskfs.Mission(2))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_f21_nothing_but_constants(name):
    """Any of them is as good as any other, and MISSION selects none; none has a weight."""
    selection = select(X[:, [1, 2, 1]], Y, ALGORITHMS[name](2))
    check_finite(selection)
    assert len(selection.features) == (0 if name == "mission" else 2)
    assert not selection.weights.any()
    if len(selection.features):
        with pytest.warns(UserWarning, match="no feature has a weight"):
            daskfs.select(X[:, [1, 2, 1]], ALGORITHMS[name](2), y=Y)


@pytest.mark.parametrize(
    ("name", "scale"),
    [("substitution", 1e-30), ("substitution", 1e30), ("univariate", 1e-30), ("univariate", 1e30), ("mission", 1e-30)],
)
def test_f21_a_scale_changes_nothing(name, scale):
    scaled = X[:, [0, 4, 5, 6]] * np.array([scale, 1, 1, 1])
    selection = select(scaled, Y, ALGORITHMS[name](2))
    check_finite(selection)
    assert set(selection.features.tolist()) == {0, 1}


@pytest.mark.parametrize("name", ["substitution", "paper", "univariate"])
def test_f21_columns_that_are_there_twice(name):
    twice = np.column_stack([SIGNAL[:, 0], SIGNAL[:, 0], SIGNAL[:, 1], X[:, 5]])
    selection = select(twice, Y, ALGORITHMS[name](3))
    check_finite(selection)
    assert len(set(selection.features.tolist())) == 3
    assert {0, 1} & set(selection.features.tolist())


@pytest.mark.parametrize("k", [0, -1, 1.5, None])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_f21_no_features_is_an_error(name, k):
    with pytest.raises((daskfs.DaskfsError, TypeError)):
        select(X, Y, ALGORITHMS[name](k))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_f21_one_row(name):
    """As all rows have the same target: whatever were selected would be arbitrary."""
    with pytest.raises(OptionError, match="nothing to tell apart"):
        select(X[:1, :3], Y[:1], ALGORITHMS[name](1))


@pytest.mark.parametrize("labels", [Y, (Y > 0).astype(int)], ids=["real", "classes"])
def test_f21_random_features_of_odd_columns(labels):
    """Inputs are scaled by their range: a constant has none, and a doubled one counts twice in distances."""
    odd = np.column_stack([np.delete(X, 3, axis=1), SIGNAL[:, 0], 1e30 * SIGNAL[:, 1]])
    selection = select(odd, labels, daskfs.SparseRandomFeatures(rounds=2, per_round=20))
    check_finite(selection)
    assert selection.weights.any()
    assert np.isfinite(selection.decision_function(odd)).all()


def test_f21_random_features_of_nothing_but_constants():
    selection = select(X[:, [1, 2, 1]], Y, daskfs.SparseRandomFeatures(rounds=2, per_round=20))
    check_finite(selection)
    assert np.isfinite(selection.decision_function(X[:, [1, 2, 1]])).all()
