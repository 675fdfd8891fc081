"""Sparse Random Features where a straight line is the truth: they are not worse than one, whatever the shape."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import daskfs
from daskfs.algorithms.random_features import scale
from daskfs.basis import is_linear


def lines(rows, columns, classes=False, seed=0):
    """Rows to learn from and as many unseen rows, whose target is the sum of five columns and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * rows, columns))
    y = X[:, :5].sum(axis=1) + 2 * rng.normal(size=2 * rows)
    y = np.where(y > 0, "yes", "no") if classes else y
    return X[:rows], y[:rows], np.clip(X[rows:], X[:rows].min(axis=0), X[:rows].max(axis=0)), y[rows:]


@pytest.mark.parametrize("more", [-1, 1])
def test_a_straight_line_is_found_on_both_sides_of_the_most_linear_terms_in_a_fit(monkeypatch, more):
    monkeypatch.setattr(scale, "_MOST_LINEAR", 100)
    X, y, unseen, target = lines(rows=200, columns=100 + more)
    selection = daskfs.select(X, daskfs.SparseRandomFeatures(), y=y)
    assert is_linear(selection.features).all()
    assert selection.score(unseen, target) > RidgeCV(np.logspace(-2, 4, 13)).fit(X, y).score(unseen, target)


def test_a_straight_line_between_many_rows_of_classes_gets_no_waves():
    X, y, *_ = lines(rows=2300, columns=120, classes=True)  # the sample has fewer
    assert len(X) > scale.sample_rows(X.shape[1])
    selection = daskfs.select(X, daskfs.SparseRandomFeatures(rounds=4, per_round=100), y=y)
    assert is_linear(selection.features).all()
    assert {"x0", "x1", "x2", "x3", "x4"} <= {*selection.names}


def test_what_is_no_straight_line_gets_waves():
    X, *_ = lines(rows=300, columns=3)
    assert not is_linear(daskfs.select(X, daskfs.SparseRandomFeatures(), y=np.cos(3 * X[:, 0])).features).all()
