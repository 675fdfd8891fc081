"""Score against size for classes: discriminants with equal priors, over shares of classes and kinds of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from reference import prefix_discriminant
from selections import selection_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import daskfs
from daskfs.selection.prefix_fits import NEVER, RIDGES, Correlations, CrossSums, PrefixFit, prefix_discriminants

SIZES = [1, 2, 3, 4]


Drawn = tuple[np.ndarray, np.ndarray]
"""Columns, and the number of every row's class."""


def unbalanced(rng: np.random.Generator, rows: int) -> Drawn:
    codes = (rng.random(rows) < 0.15).astype(int)
    return rng.normal(size=(rows, 4)) + np.outer(codes, [1.5, 1.0, 0.7, 0.0]), codes


def ring(rng: np.random.Generator, rows: int) -> Drawn:
    codes = rng.integers(0, 4, rows)
    angle = codes * np.pi / 2 + 0.3
    places = 2 * np.stack([np.cos(angle), np.sin(angle), 0 * angle, 0 * angle], axis=1)
    return rng.normal(size=(rows, 4)) + places, codes


def line(rng: np.random.Generator, rows: int) -> Drawn:
    """Least squares would hardly ever predict the classes in the middle."""
    codes = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    return rng.normal(size=(rows, 4)) + np.outer(codes, [3.0, 0.0, 1.0, 0.0]), codes


def blobs(rng: np.random.Generator, rows: int) -> Drawn:
    codes, mixed = rng.choice(4, rows, p=[0.6, 0.2, 0.15, 0.05]), rng.normal(size=(4, 4)) / 2 + np.eye(4)
    return rng.normal(size=(rows, 4)) @ mixed + 1.5 * rng.normal(size=(4, 4))[codes], codes


def drawn(make: Callable[[np.random.Generator, int], Drawn], rows: int = 4000) -> Drawn:
    return make(np.random.default_rng(7), rows)


def fitted(
    X: Any, codes: np.ndarray, n_classes: int, weight: Any = None, cuts: tuple[int, ...] = ()
) -> list[PrefixFit]:
    sums = CrossSums()
    for rows in np.split(np.arange(len(codes)), cuts):
        sums.add(X[rows], np.eye(n_classes)[codes[rows]], None if weight is None else weight[rows])
    return prefix_discriminants(sums.correlations(), range(1, X.shape[1] + 1))


def predicted(fit: PrefixFit, X: np.ndarray) -> np.ndarray:
    return (X[:, : len(fit.weights)] @ fit.weights + fit.intercept).argmax(axis=1)


@pytest.mark.parametrize(
    ("make", "outputs"), [(unbalanced, ()), (unbalanced, (2,)), (ring, (4,)), (line, (4,)), (blobs, (4,))]
)
def test_the_curve_is_that_of_logistic_regression(tmp_path, make, outputs):
    X, codes = drawn(make)
    train, test = slice(0, 2000), slice(2000, None)
    for name, rows in (("train.zarr", train), ("test.zarr", test)):
        daskfs.write_dataset(tmp_path / name, X[rows], codes[rows])
    classes, intercept = tuple(range(codes.max() + 1)), np.zeros(outputs or 1)
    selection = selection_of(range(4), np.ones((4, *outputs)), intercept=intercept, classes=classes)
    path = daskfs.size_path(selection, tmp_path / "train.zarr", tmp_path / "test.zarr", SIZES)
    assert "by linear discriminant analysis with equal weight for every class" in path.record()["how"]
    for size, score in zip(SIZES, path.scores, strict=True):
        model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(X[train, :size], codes[train])
        assert score == pytest.approx(balanced_accuracy_score(codes[test], model.predict(X[test, :size])), abs=0.03)


def test_predictions_are_those_of_scikit_learn():
    """Which pools the covariances of classes by their priors, so that the classes must have equally many rows here."""
    rng = np.random.default_rng(3)
    codes = np.arange(600) % 3
    X = rng.normal(size=(600, 4)) @ rng.normal(size=(4, 4)) * [1, 10, 0.1, 1] + rng.normal(size=(3, 4))[codes] + 20
    inside = np.sqrt(np.mean([X[codes == c].var(axis=0) for c in range(3)], axis=0))
    for size, fit in enumerate(fitted(X, codes, 3), 1):
        model = LinearDiscriminantAnalysis("lsqr", shrinkage=fit.ridge / (1 + fit.ridge), priors=[1 / 3] * 3)
        Z = X[:, :size] / inside[:size]
        np.testing.assert_array_equal(predicted(fit, X), model.fit(Z, codes).predict(Z))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("cuts", [(), (1, 2, 77, 900), (500,)])
def test_weights_windows_and_sparse_columns(form, cuts):
    X, codes = drawn(blobs, 1000)
    X[np.abs(X) < 0.7] = 0
    weight = np.random.default_rng(0).integers(0, 4, 1000) / 2
    for size, fit in enumerate(fitted(form(X), codes, 4, weight, cuts), 1):
        predict, ridge = prefix_discriminant.fitted(X[:, :size], codes, 4, weight, RIDGES)
        expected, found = predict(X[:, :size]), X[:, :size] @ fit.weights + fit.intercept
        np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-7, atol=1e-9)
        assert fit.ridge == ridge


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_column_that_is_constant_within_classes(form, n_classes):
    """It tells classes apart alone, whatever stands before, beside or behind it, a copy of itself too."""
    rng = np.random.default_rng(1)
    codes = rng.choice(n_classes, 900, p=[0.5, 0.3, 0.2] if n_classes == 3 else [0.9, 0.1])
    noise, label = rng.normal(size=(900, 2)), codes * 3.0 + 1e3
    X = np.column_stack([noise[:, 0], label, noise[:, 1], label, np.full(900, 2.0)])
    fits = fitted(form(X), codes, n_classes, cuts=(100,))
    assert balanced_accuracy_score(codes, predicted(fits[0], X)) < 0.6
    for fit in fits[1:]:
        assert np.abs(fit.weights).max() < 1e8  # much, but not one over rounding
        np.testing.assert_array_equal(predicted(fit, X), codes)
        np.testing.assert_array_equal(predicted(fit, X + 0.01 * rng.normal(size=X.shape)), codes)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_class_without_rows_is_never_predicted(weighted):
    """There may be none, or none of a weight above 0; the others are told apart as if it did not exist."""
    X, codes = drawn(ring)
    rows = np.flatnonzero(codes != 1) if not weighted else np.arange(len(codes))
    weight = (codes[rows] != 1).astype(np.float32)
    rest = codes != 1
    others = fitted(X[rest], np.searchsorted([0, 2, 3], codes[rest]), 3)
    for fit, other in zip(fitted(X[rows], codes[rows], 4, weight, cuts=(50,)), others, strict=True):
        assert np.isfinite(fit.weights).all()
        assert fit.intercept[1] == NEVER
        np.testing.assert_array_equal(predicted(fit, X), np.array([0, 2, 3])[predicted(other, X)])


def test_one_of_two_classes_is_missing(tmp_path):
    X, codes = drawn(unbalanced, 400)
    daskfs.write_dataset(tmp_path / "train.zarr", X[codes == 1], np.full((codes == 1).sum(), "yes"))
    daskfs.write_dataset(tmp_path / "test.zarr", X, np.where(codes == 1, "yes", "no"))
    selection = selection_of(range(4), classes=("no", "yes"))
    path = daskfs.size_path(selection, tmp_path / "train.zarr", tmp_path / "test.zarr")
    assert path.scores == [0.5] * 4


def test_no_row_has_weight():
    X, codes = drawn(ring, 50)
    for fit in fitted(X, codes, 4, np.zeros(50)):
        assert np.isfinite(fit.weights).all()
        assert np.isfinite(fit.intercept).all()


def test_more_features_than_rows():
    rng = np.random.default_rng(4)
    codes = np.arange(1060) % 3
    X = rng.normal(size=(1060, 80)) + np.pad(3 * np.eye(3), ((0, 0), (0, 77)))[codes]
    fits = fitted(X[:60], codes[:60], 3)
    assert all(balanced_accuracy_score(codes[60:], predicted(fit, X[60:])) > 0.7 for fit in fits[2:])


def test_sums_too_rough_for_a_factor():
    """Correlations above 1, which only rounding can make: columns count each on its own."""
    R, r = np.array([[1.0, 3.0], [3.0, 1.0]]), np.array([[-0.1, 0.1], [-0.2, 0.2]])
    fits = prefix_discriminants(Correlations(R, r, 0.5, 100.0, np.ones(2), np.zeros(2), np.full(2, 0.5)), [1, 2])
    np.testing.assert_array_equal(predicted(fits[1], np.array([[-1.0, -1.0], [1.0, 1.0]])), [0, 1])
