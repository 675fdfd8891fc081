"""The moments of columns: of one block, and merged from blocks of rows by the formulas of Chan et al. (1979)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.univariate.kernels import column_moments, row_moments, sparse_moments
from daskfs.jit import read_only

Groups = NDArray[np.int32]


@dataclass(slots=True)
class Moments:
    """Sums over the rows of each group, from which the scores of p columns follow."""

    origin: Floats
    """(p,): a value of every column, to which means are relative."""
    count: Floats
    """(groups, 1): the number of rows; (1, p) where missing values are left out."""
    mean: Floats  # (groups, p)
    within: Floats
    """(p,): the sum of squared deviations from the mean of the row's group."""
    cross: Floats
    """(p,): the sum of products of the deviations of column and target; empty if the target is a class."""
    target: Floats
    """Origin, mean relative to the origin, and sum of squared deviations of a target of numbers; else empty."""

    @classmethod
    def zero(cls, width: int, n_groups: int, numbers: bool) -> Moments:
        """Return the moments of no rows; `numbers` says whether the target is a number, and there is one group."""
        mean, target = np.zeros((n_groups, width)), np.zeros(3 if numbers else 0)
        cross = np.zeros(width if numbers else 0)
        return cls(np.zeros(width), np.zeros((n_groups, 1)), mean, np.zeros(width), cross, target)

    @property
    def n_rows(self) -> int:
        """The number of rows; without missing values, the largest number of a column."""
        return int(self.count.sum(axis=0).max(initial=0))

    @property
    def target_mean(self) -> float:
        """The mean of a target of numbers; 0 if the target is a class."""
        return float(self.target[:2].sum())

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the rows of both; neither is changed."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean + (other.origin - self.origin) - self.mean
        mean = self.mean + apart * share
        within = self.within + other.within + (apart**2 * (self.count * share)).sum(axis=0)
        cross, target = self.cross, self.target
        if len(target):
            y_apart = other.target[1] + (other.target[0] - target[0]) - target[1]
            weight = float(self.count[0, 0] * share[0, 0])
            cross = cross + other.cross + apart[0] * y_apart * weight
            y_mean = target[1] + y_apart * share[0, 0]
            target = np.array([target[0], y_mean, target[2] + other.target[2] + y_apart**2 * weight])
        return Moments(self.origin, count, mean, within, cross, target)


def group_sizes(groups: Groups, n_groups: int) -> Floats:
    """Return the number of rows of each group."""
    return np.bincount(groups, minlength=n_groups).astype(np.float64)


def dense_moments(X: NDArray[Any], groups: Groups, n_groups: int, y: Floats) -> Moments:
    """Return the moments of rows X (r, p) of float32 or float64; the target y is empty if it is a class."""
    moments = Moments.zero(X.shape[1], n_groups, len(y) > 0)
    if not len(X):
        return moments
    moments.origin, count, y = X[0].astype(np.float64), group_sizes(groups, n_groups), _centre(moments, y)
    moments.count[:, 0] = count
    X, groups = read_only(X if X.flags.forc else np.asfortranarray(X)), read_only(groups)
    kernel: Any = row_moments if X.flags.c_contiguous else column_moments
    kernel(X, moments.origin, groups, count, y, moments.mean, moments.within, moments.cross)
    return moments


def sparse_column_moments(
    indptr: NDArray[Any], rows: NDArray[Any], values: NDArray[Any], groups: NDArray[Any], n_groups: int, y: Floats
) -> Moments:
    """Return the moments of all rows of sparse columns in CSC form; the target y is empty if it is a class."""
    moments = Moments.zero(len(indptr) - 1, n_groups, len(y) > 0)
    count, y = group_sizes(groups, n_groups), _centre(moments, y)
    moments.count[:, 0] = count
    indptr, rows, values, groups = map(read_only, (indptr, rows, values, groups))
    sparse_moments(indptr, rows, values, groups, count, y, moments.mean, moments.within, moments.cross)
    return moments


def _centre(moments: Moments, y: Floats) -> Floats:
    """Return the target minus its mean, and write the moments of the target."""
    if len(y):
        apart: Floats = y - y[0]
        mean = apart.mean()
        apart -= mean
        moments.target[:] = y[0], mean, apart @ apart
        return apart
    return y


def moments_without_gaps(X: Any) -> Moments:
    """Return the moments of rows of one group and no target, numpy or CSC, where missing values (NaN) are left out."""
    n, p = X.shape
    matrix = scipy.sparse.csc_array(X)
    is_there, columns = ~np.isnan(matrix.data), np.repeat(np.arange(p), np.diff(matrix.indptr))
    gaps, values = np.bincount(columns[~is_there], minlength=p), matrix.data[is_there].astype(np.float64)
    columns, count = columns[is_there], (n - gaps).astype(np.float64)
    mean: Floats = np.bincount(columns, values, p) / np.maximum(count, 1)
    within: Floats = np.bincount(columns, (values - mean[columns]) ** 2, p).astype(np.float64)
    within += (count - np.bincount(columns, minlength=p)) * mean**2  # of zeros
    return Moments(np.zeros(p), count[None], mean[None], within, np.empty(0), np.empty(0))
