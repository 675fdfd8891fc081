"""Ridge least squares on the first s columns, for many s at once. numpy and scipy only.

For every size s, with columns centred and scaled to variance 1, and rows of weight w,

    minimise  Σᵢ wᵢ |yᵢ − b − βᵀxᵢ|² / Σᵢ wᵢ + λ |β|²    over β with s entries.

One look at the rows gives the correlations R of the columns, and r with the targets. One Cholesky factor L of R + λI
serves all sizes, since the factor of a leading block is the leading block of the factor: with u = L⁻¹r, the weights of
size s are L[:s, :s]⁻ᵀ u[:s]. λ is one of a few, chosen for every size by generalised cross-validation (Golub, Heath and
Wahba, 1979), for which the trace of (R + λI)⁻¹ is a sum over the first s rows of L⁻¹. Memory is a few times k².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cholesky, lapack

RIDGES = (1e-6, 1e-3, 1e-2, 1e-1, 1.0)
CONSTANT = 1e-12  # a standard deviation that is so small a share of the mean is rounding
CANCELLED = 1e-7  # and one that is so small a share of the distance from where distances are taken from

Floats = NDArray[np.float64]


class CrossSums:
    """Sums over rows of products of columns with each other and with targets, added up window by window.

    Distances are from the mean of the first rows (sparse columns: from 0), so that few digits are lost to a mean far
    from 0.
    """

    def __init__(self) -> None:
        self.rows, self.squares = 0, 0.0
        self._weight = 0.0

    def add(self, X: Any, Y: Floats, weight: NDArray[np.floating] | None) -> None:
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
        if sp.issparse(X):
            heavy = X.multiply(each[:, None]).tocsr()
            products = (heavy.T @ X).tocoo()
            self._xx[products.coords] += products.data  # each cell is there once
        else:
            X = X - self._origin_x
            heavy = X * each[:, None]
            self._xx += heavy.T @ X
        self._sum_x += np.asarray(heavy.sum(axis=0)).reshape(-1)
        self._xy += heavy.T @ Y

    def _begin(self, X: Any, Y: Floats) -> None:
        width, targets = X.shape[1], Y.shape[1]
        self._origin_x = np.zeros(width) if sp.issparse(X) else X.mean(axis=0)
        self._origin_y = Y.mean(axis=0)
        self._sum_x, self._sum_y, self._yy = np.zeros(width), np.zeros(targets), np.zeros(targets)
        self._xx, self._xy = np.zeros((width, width)), np.zeros((width, targets))

    def correlated(self) -> Correlated:
        """What a fit needs to know of the rows; constant columns are uncorrelated with everything."""
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
        return Correlated(R, r, float(spread.sum()), rows, scale, self._origin_x + mean_x, self._origin_y + mean_y)

    def _scale(self, variance: Floats, mean: Floats, about_origin: Floats) -> Floats:
        """One over the standard deviation; 0 where this is nothing but rounding."""
        deviation = np.sqrt(np.maximum(variance, 0.0))
        varies = (deviation > CANCELLED * np.sqrt(np.maximum(about_origin, 0.0))) & (
            deviation > CONSTANT * np.abs(mean)
        )
        return np.divide(1.0, deviation, where=varies, out=np.zeros_like(deviation))


class Correlated(NamedTuple):
    """Correlations of columns, and how to come back from scaled columns to the columns themselves."""

    R: Floats
    r: Floats
    """(k, t): mean products of scaled columns and centred targets."""
    spread: float
    """The variances of the targets together."""
    rows: float
    """How many rows; of weighted ones, how many without weights vary as much (Kish)."""
    scale: Floats
    mean_x: Floats
    mean_y: Floats


class PrefixFit(NamedTuple):
    """A linear model over the first columns, on their own scale."""

    weights: Floats
    """(s, t)"""
    intercept: Floats
    ridge: float


def prefix_fits(of: Correlated, sizes: Sequence[int], ridges: Sequence[float] = RIDGES) -> list[PrefixFit]:
    """The fit of every size, each with the ridge that generalised cross-validation prefers.

    >>> rng = np.random.default_rng(0)
    >>> X, sums = rng.normal(size=(500, 3)), CrossSums()
    >>> sums.add(X, X[:, :1] + 2 * X[:, 1:2] + 5, None)
    >>> one, two = prefix_fits(sums.correlated(), [1, 2])
    >>> two.weights.round(3).ravel(), two.intercept.round(3)
    (array([1., 2.]), array([5.]))
    """
    best: list[tuple[float, Floats, float]] = [(np.inf, np.zeros((size, of.r.shape[1])), ridges[-1]) for size in sizes]
    for ridge in ridges:
        try:
            inverse = _inverse_factor(of.R, ridge)
        except np.linalg.LinAlgError:  # columns as good as copies of each other: a larger ridge will do
            continue
        u, traces = inverse @ of.r, np.cumsum(np.square(inverse).sum(axis=1))
        for at, size in enumerate(sizes):
            weights = inverse[:size, :size].T @ u[:size]
            missed = max(of.spread - float(np.square(u[:size]).sum() + ridge * np.square(weights).sum()), 0.0)
            free = 1 - (size - ridge * traces[size - 1] + 1) / of.rows if of.rows else 0.0
            score = missed / free**2 if free > 1e-3 else np.inf
            if score < best[at][0] or (ridge == ridges[-1] and not np.isfinite(best[at][0])):
                best[at] = (score, weights, ridge)
    return [_on_their_scale(of, weights, ridge) for _, weights, ridge in best]


def _inverse_factor(R: Floats, ridge: float) -> Floats:
    """L⁻¹, where LLᵀ = R + λI."""
    A = R.copy()
    A.flat[:: len(A) + 1] += ridge
    inverse, _ = lapack.dtrtri(cholesky(A, lower=True, overwrite_a=True), lower=1, overwrite_c=1)
    found: Floats = inverse
    return found


def _on_their_scale(of: Correlated, weights: Floats, ridge: float) -> PrefixFit:
    size = len(weights)
    own = weights * of.scale[:size, None]
    return PrefixFit(own, of.mean_y - of.mean_x[:size] @ own, ridge)
