"""Linear models on the first s columns, for many s at once: ridge least squares, and discriminants of classes.

Real targets yᵢ are fitted for every size s by ridge least squares, with weights wᵢ of rows and with columns xᵢ centred
and scaled to variance 1:

    minimise  Σᵢ wᵢ |yᵢ − b − βᵀxᵢ|² / Σᵢ wᵢ + λ |β|²    over β with s entries.

One pass over the rows gives the correlations R of the columns with each other, and r of the columns with the targets.
One Cholesky factor L of R + λI serves all sizes, since the Cholesky factor of a leading block is the leading block of
L. With u = L⁻¹r, the weights of the first s columns are L[:s, :s]⁻ᵀ u[:s]. Generalised cross-validation (Golub, Heath
and Wahba, 1979) chooses the ridge penalty λ for every size. Memory is a few times k² numbers for k columns.

Classes are told apart by linear discriminant analysis with equal priors, which suits balanced accuracy: a row x belongs
to the class c with the largest

    (x − μ)ᵀ w_c − ½ (μ_c − μ)ᵀ w_c    where    w_c = (W + λI)⁻¹ (μ_c − μ)    over the first s columns,

for means μ of all rows and μ_c of the class, and W = R − Σ_c π_c (μ_c − μ)(μ_c − μ)ᵀ. This W is the covariance within
classes, pooled by the classes' shares π_c of the weight, with columns scaled to variance 1 within classes. Targets of 0
or 1 for every class c give π_c (μ_c − μ) as their correlations r in the same pass. One Cholesky factor of W + λI serves
all sizes. The ridge penalty λ is the choice of generalised cross-validation for least squares on the classes'
indicators over √π_c, whose penalised fit spans the discriminants with the same λ (Hastie, Buja and Tibshirani, 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.selection.intervals import FloatArray

RIDGES = (1e-6, 1e-3, 1e-2, 1e-1, 1.0)
CONSTANT = 1e-12  # a standard deviation below this share of the mean is rounding
CANCELLED = 1e-7  # and so is one below this share of the distance from the origin of the sums
WITHIN = 1e-6  # the least share of a column's variance within classes, even if it separates them perfectly
ABSENT = 1e-12  # a class with a smaller share of the weight has no rows, but for rounding
NEVER = -1e300  # the score of a class without rows: finite, and lower than any other


class CrossSums:
    """Sums over rows of products of columns with each other and with targets.

    Dense columns are taken relative to the mean of the first rows, so that columns far from 0 lose few digits.
    """

    def __init__(self) -> None:
        self.rows, self.squares = 0, 0.0
        self._weight = 0.0

    def add(self, X: Any, Y: FloatArray, weight: NDArray[np.floating] | None) -> None:
        """Add rows: columns ``(rows, k)``, dense or CSR, targets ``(rows, t)``, and weights unless all are 1."""
        if self.rows == 0:
            self._begin(X, Y)
        each = np.ones(len(Y)) if weight is None else weight.astype(np.float64)
        Y = Y - self._origin_y
        self.rows += len(Y)
        self._weight += float(each.sum())
        self.squares += float(each @ each)
        self._sum_y += each @ Y
        self._yy += each @ Y**2
        if scipy.sparse.issparse(X):
            heavy = X.multiply(each[:, None]).tocsr()
            products = (heavy.T @ X).tocoo()
            self._xx[products.coords] += products.data  # every index occurs once
        else:
            X = X - self._origin_x
            heavy = X * each[:, None]
            self._xx += heavy.T @ X
        self._sum_x += np.asarray(heavy.sum(axis=0)).reshape(-1)
        self._xy += heavy.T @ Y

    def _begin(self, X: Any, Y: FloatArray) -> None:
        width, targets = X.shape[1], Y.shape[1]
        self._origin_x = np.zeros(width) if scipy.sparse.issparse(X) else X.mean(axis=0)
        self._origin_y = Y.mean(axis=0)
        self._sum_x, self._sum_y, self._yy = np.zeros(width), np.zeros(targets), np.zeros(targets)
        self._xx, self._xy = np.zeros((width, width)), np.zeros((width, targets))

    def correlations(self, standardise: bool = False) -> Correlations:
        """Return correlations for `prefix_fits`, where a constant column has correlation 0 with every other column.

        With `standardise`, targets are divided by their standard deviations, so that one ridge penalty suits all.
        """
        total = self._weight or 1.0
        mean_x, mean_y = self._sum_x / total, self._sum_y / total
        R = self._xx / total
        R -= np.outer(mean_x, mean_x)
        scale = self._scale(R.diagonal(), self._origin_x + mean_x, self._xx.diagonal() / total)
        R *= scale
        R *= scale[:, None]
        np.fill_diagonal(R, 1.0)
        r = (self._xy / total - np.outer(mean_x, mean_y)) * scale[:, None]
        spread = np.maximum(self._yy / total - mean_y**2, 0.0)
        rows = total**2 / self.squares if self.squares else 0.0
        mean_x, mean_y, unit = self._origin_x + mean_x, self._origin_y + mean_y, np.ones(len(spread))
        if standardise:
            varies = np.sqrt(spread) > CONSTANT * np.abs(mean_y)
            unit[varies] = np.sqrt(spread[varies])
        spread = spread / unit**2
        return Correlations(R, r / unit, float(spread.sum()), rows, scale, mean_x, mean_y / unit, unit)

    def _scale(self, variance: FloatArray, mean: FloatArray, about_origin: FloatArray) -> FloatArray:
        """Return one over the standard deviation of each column, or 0 if the deviation is only rounding."""
        deviation = np.sqrt(np.maximum(variance, 0.0))
        varies = (deviation > CANCELLED * np.sqrt(np.maximum(about_origin, 0.0))) & (
            deviation > CONSTANT * np.abs(mean)
        )
        return np.divide(1.0, deviation, where=varies, out=np.zeros_like(deviation))


class Correlations(NamedTuple):
    """Correlations of scaled columns, and the scales and means that turn weights into those of unscaled columns."""

    R: FloatArray
    r: FloatArray
    """(k, t): mean products of scaled columns and centred targets."""
    spread: float
    """The sum of the variances of the targets."""
    rows: float
    """The number of rows, or with weights Kish's effective number of rows."""
    scale: FloatArray
    mean_x: FloatArray
    mean_y: FloatArray
    unit: FloatArray = np.ones(1)
    """What targets were divided by."""


class PrefixFit(NamedTuple):
    """A linear model of the first s columns, with weights ``(s, t)`` for t targets."""

    weights: FloatArray
    intercept: FloatArray
    ridge: float


def prefix_fits(of: Correlations, sizes: Sequence[int], ridges: Sequence[float] = RIDGES) -> list[PrefixFit]:
    """Return the fit of every size, each with the ridge penalty that generalised cross-validation prefers.

    >>> rng = np.random.default_rng(0)
    >>> X, sums = rng.normal(size=(500, 3)), CrossSums()
    >>> sums.add(X, X[:, :1] + 2 * X[:, 1:2] + 5, None)
    >>> _, fit = prefix_fits(sums.correlations(), [1, 2])
    >>> fit.weights.round(3).ravel(), fit.intercept.round(3)
    (array([1., 2.]), array([5.]))
    """
    best: list[tuple[float, FloatArray, float]] = [
        (np.inf, np.zeros((size, of.r.shape[1])), ridges[-1]) for size in sizes
    ]
    for ridge in ridges:
        try:
            inverse = _inverse_factor(of.R, ridge)
        except np.linalg.LinAlgError:  # columns that are nearly copies of each other need a larger ridge
            continue
        u, traces = inverse @ of.r, np.cumsum(np.square(inverse).sum(axis=1))
        for at, size in enumerate(sizes):
            weights = inverse[:size, :size].T @ u[:size]
            missed = max(of.spread - float(np.square(u[:size]).sum() + ridge * np.square(weights).sum()), 0.0)
            free = 1 - (size - ridge * traces[size - 1] + 1) / of.rows if of.rows else 0.0
            score = missed / free**2 if free > 1e-3 else np.inf
            if score < best[at][0] or (ridge == ridges[-1] and not np.isfinite(best[at][0])):
                best[at] = (score, weights, ridge)
    return [_unscale(of, weights, of.mean_y, ridge) for _, weights, ridge in best]


def prefix_discriminants(of: Correlations, sizes: Sequence[int]) -> list[PrefixFit]:
    """Return the linear discriminants of every size, from correlations with targets of 0 or 1 for every class.

    A class without rows is never predicted.

    >>> X, sums = np.array([[0.0], [1.0], [4.0], [5.0], [4.0], [5.0]]), CrossSums()
    >>> sums.add(X, np.eye(2)[[0, 0, 1, 1, 1, 1]], None)
    >>> [fit] = prefix_discriminants(sums.correlations(), [1])
    >>> (X @ fit.weights + fit.intercept).argmax(axis=1)
    array([0, 0, 1, 1, 1, 1])
    >>> (-np.diff(fit.intercept) / np.diff(fit.weights)).round(3)  # halfway, for any number of rows of a class
    array([[2.5]])
    """
    present = of.mean_y > ABSENT
    W, scoring = _within(of, present)
    wanted = [fit.ridge for fit in prefix_fits(scoring, sizes)]
    means = np.zeros_like(of.r)
    means[:, present] = scoring.r / scoring.mean_y
    fits: dict[int, PrefixFit] = {}
    for least in sorted(set(wanted)):
        ridge, inverse = _inverse_factor_from(W, least)
        u = inverse @ means
        for size in (size for size, each in zip(sizes, wanted, strict=True) if each == least):
            level = np.where(present, -np.square(u[:size]).sum(axis=0) / 2, NEVER)
            fits[size] = _unscale(scoring, inverse[:size, :size].T @ u[:size], level, ridge)
    return [fits[size] for size in sizes]


def _within(of: Correlations, present: NDArray[np.bool_]) -> tuple[FloatArray, Correlations]:
    """Return the covariance W within classes, and the least squares problem that chooses the ridge penalty λ.

    Columns are scaled to variance 1 within classes, where the variance has a lower bound so that weights stay finite.
    """
    root = np.sqrt(of.mean_y[present])
    r = of.r[:, present] / root
    W = of.R - r @ r.T
    narrow = 1 / np.sqrt(np.maximum(W.diagonal(), WITHIN))
    W *= narrow
    W *= narrow[:, None]
    np.fill_diagonal(W, 1.0)
    r *= narrow[:, None]
    spread = float(np.sum(1 - root**2))
    scale, unit = of.scale * narrow, np.ones(1)
    return W, of._replace(R=W + r @ r.T, r=r, spread=spread, scale=scale, mean_y=root, unit=unit)


def _inverse_factor(R: FloatArray, ridge: float) -> FloatArray:
    """Return the inverse of the Cholesky factor L, where LLᵀ = R + λI."""
    A = R.copy()
    A.flat[:: len(A) + 1] += ridge
    inverse, _ = scipy.linalg.lapack.dtrtri(
        scipy.linalg.cholesky(A, lower=True, overwrite_a=True), lower=1, overwrite_c=1
    )
    result: FloatArray = inverse
    return result


def _inverse_factor_from(W: FloatArray, least: float) -> tuple[float, FloatArray]:
    """Return the first ridge penalty λ from `least` on for which W + λI has a Cholesky factor L, and L⁻¹."""
    for ridge in (ridge for ridge in RIDGES if ridge >= least):
        try:
            return ridge, _inverse_factor(W, ridge)
        except np.linalg.LinAlgError:  # λ was chosen for another matrix
            continue
    return RIDGES[-1], np.eye(len(W)) / np.sqrt(1 + RIDGES[-1])


def _unscale(of: Correlations, weights: FloatArray, at_mean: FloatArray, ridge: float) -> PrefixFit:
    """Return the linear model of unscaled columns, where `at_mean` is the model's value at the means of the columns."""
    size = len(weights)
    own = weights * of.scale[:size, None] * of.unit
    return PrefixFit(own, at_mean * of.unit - of.mean_x[:size] @ own, ridge)
