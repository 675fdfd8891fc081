"""The linear model of the selected columns, from one pass: ridge least squares, or linear discriminants of classes.

Columns z are centred and scaled to variance 1. With R = Σ zzᵀ / n, numbers y are predicted by

    ȳ + wᵀz    where    w = (R + λI)⁻¹ Σ z (y − ȳ) / n

Classes c have the log-odds of linear discriminant analysis, with the shares π_c and the means m_c of z in the classes:

    log π_c + wᵀz − ½ wᵀm_c    where    w = (R − Σ_c π_c m_c m_cᵀ + λI)⁻¹ m_c

Generalised cross-validation (Golub, Heath and Wahba, 1979) chooses the ridge penalty λ, for classes with the indicators
of the classes as targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats

_RIDGES = 10.0 ** np.arange(-5, 1)  # for columns of variance 1
_TILE = 4096  # rows that are multiplied at a time
_LEAST_SHARE = 1e-300  # of a class without rows, whose logarithm is finite
_CONSTANT = 1e-12  # a standard deviation below this share of the mean is rounding


@dataclass(slots=True)
class FitSums:
    """Sums over rows of products of the k selected columns with each other and with the targets."""

    origin: Floats
    """(k,): the means of the columns."""
    scale: Floats
    """(k,): the standard deviations of the columns; 1 for a constant column."""
    gram: Floats  # (k, k)
    cross: Floats  # (k, targets): one target of numbers, or an indicator of each class

    @classmethod
    def zero(cls, k: int, n_targets: int) -> FitSums:
        """Return the sums of no rows."""
        return cls(np.zeros(k), np.ones(k), np.zeros((k, k)), np.zeros((k, n_targets)))

    def zero_like(self) -> FitSums:
        """Return the sums of no rows, for columns of the same means and standard deviations."""
        return replace(self, gram=np.zeros_like(self.gram), cross=np.zeros_like(self.cross))

    def scale_by(self, mean: Floats, variance: Floats) -> None:
        """Set the means and standard deviations of the columns, before rows are added."""
        deviation = np.sqrt(variance)
        self.origin, self.scale = mean, np.where(deviation > _CONSTANT * np.abs(mean), deviation, 1.0)

    def add(self, X: NDArray[Any], Y: Floats, columns: NDArray[np.intp] | slice) -> None:
        """Add rows: some columns of X, and the targets (rows, targets), numbers with mean 0 or indicators."""
        for start in range(0, len(X), _TILE):
            Z = X[start : start + _TILE, columns] - self.origin
            Z /= self.scale
            self.gram += Z.T @ Z
            self.cross += Z.T @ Y[start : start + _TILE]

    def merge(self, other: FitSums) -> FitSums:
        """Return the sums over the rows of both, which have the same means and deviations; neither is changed."""
        return replace(self, gram=self.gram + other.gram, cross=self.cross + other.cross)


def fit_numbers(sums: FitSums, n: int, mean: float, square: float) -> tuple[Floats, Floats]:
    """Return weights (k,) and intercept (1,) for a target with this mean and sum of squared deviations over n rows."""
    R, r = sums.gram / n, sums.cross / n
    ridge = _best_ridge(R, r, square / n, n)
    w = np.linalg.solve(R + ridge * np.eye(len(R)), r)
    weights = w[:, 0] / sums.scale
    return weights, np.array([mean - weights @ sums.origin])


def fit_classes(sums: FitSums, count: Floats) -> tuple[Floats, Floats]:
    """Return weights (k, classes) and intercept (classes,) for classes with these numbers of rows.

    Two classes have one score, the log-odds of the second class, with weights (k,) and intercept (1,).
    """
    n = count.sum()
    R, share = sums.gram / n, count / n
    m = sums.cross / np.maximum(count, 1)
    ridge = _best_ridge(R, sums.cross / n, float((share * (1 - share)).sum()), int(n))
    within = R - (m * share) @ m.T
    w = np.linalg.solve(within + ridge * np.eye(len(R)), m)
    weights = w / sums.scale[:, None]
    intercept = np.log(np.maximum(share, _LEAST_SHARE)) - (w * m).sum(axis=0) / 2 - weights.T @ sums.origin
    if len(count) == 2:
        return weights[:, 1] - weights[:, 0], intercept[1:] - intercept[:1]
    return weights, intercept


def _best_ridge(R: Floats, r: Floats, variance: float, n: int) -> float:
    """Return the ridge penalty with the least error by generalised cross-validation.

    Parameters
    ----------
    R, r
        Correlations of the columns with each other, and products with the targets, as means over rows.
    variance
        The sum of the targets' variances.
    n
        The number of rows.
    """
    d, V = np.linalg.eigh(R)
    d, z = np.maximum(d, 0), ((V.T @ r) ** 2).sum(axis=1)
    errors = []
    for ridge in _RIDGES:
        left = max(variance - float((z * (d + 2 * ridge) / (d + ridge) ** 2).sum()), 0.0)
        freedom = 1 - (1 + float((d / (d + ridge)).sum())) / n
        errors.append(left / freedom**2 if freedom > 0 else np.inf)
    return float(_RIDGES[int(np.argmin(errors))])


def fit_nbytes(k: int, n_targets: int) -> int:
    """Return an upper bound of the memory of the sums and the fit of k columns."""
    return 8 * (8 * k * k + 6 * k * n_targets + _TILE * (3 * k + n_targets))
