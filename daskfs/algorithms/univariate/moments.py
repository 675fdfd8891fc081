"""The moments of columns, and the scores that follow from them.

Moments are computed block by block, and blocks of rows are merged by the formulas of Chan et al. (1979). Scores,
p-values and q-values have the values of scikit-learn's functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.univariate.kernels import column_moments, row_moments, sparse_moments
from daskfs.errors import OptionError
from daskfs.jit import read_only

Groups = NDArray[np.int32]
Score = Literal["f_classif", "f_regression", "chi2", "variance"]


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
        """Return the moments of no rows; `numbers` is True for a target of numbers, which has one group."""
        mean, target = np.zeros((n_groups, width)), np.zeros(3 if numbers else 0)
        cross = np.zeros(width if numbers else 0)
        return cls(np.zeros(width), np.zeros((n_groups, 1)), mean, np.zeros(width), cross, target)

    @property
    def n_rows(self) -> int:
        """The number of rows; where missing values are left out, the largest count of any column."""
        return int(self.count.sum(axis=0).max(initial=0))

    @property
    def target_mean(self) -> float:
        """The mean of a target of numbers; 0 if the target is a class."""
        return float(self.target[:2].sum())

    def merge(self, other: Moments) -> Moments:
        """Return the moments of the rows of `self` and `other`, without changing either."""
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
    """Return the moments of X (numpy or CSC) as one group without a target, where missing values (NaN) are left out."""
    n, p = X.shape
    matrix = scipy.sparse.csc_array(X)
    is_there, columns = ~np.isnan(matrix.data), np.repeat(np.arange(p), np.diff(matrix.indptr))
    gaps, values = np.bincount(columns[~is_there], minlength=p), matrix.data[is_there].astype(np.float64)
    columns, count = columns[is_there], (n - gaps).astype(np.float64)
    mean: Floats = np.bincount(columns, values, p) / np.maximum(count, 1)
    within: Floats = np.bincount(columns, (values - mean[columns]) ** 2, p).astype(np.float64)
    within += (count - np.bincount(columns, minlength=p)) * mean**2  # of zeros
    return Moments(np.zeros(p), count[None], mean[None], within, np.empty(0), np.empty(0))


def column_scores(score: Score, moments: Moments) -> Floats:
    """Return the score of every column.

    A constant column has the score NaN for "f_classif", and a column of zeros for "chi2"; otherwise their score is 0.
    "f_classif" is infinite for a column that is constant within every class, and "f_regression" is the largest float64
    for a linear function of the target.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if score == "variance":
            _, variance = mean_and_variance(moments)
            return variance
        if score == "f_regression":
            square = moments.cross**2 / (moments.within * moments.target[2])
            scores = square / (1 - square) * (moments.n_rows - 2)
            return np.nan_to_num(np.where(scores < 0, np.inf, scores), nan=0.0)  # a square above 1 is rounding
        count, mean = _present(moments)
        total = count.sum()
        if score == "f_classif":
            f: Floats = (_between(moments) / (len(count) - 1)) / (moments.within / (total - len(count)))
            return f
        observed = count * (mean + moments.origin)
        expected = count / total * observed.sum(axis=0)
        chi2: Floats = ((observed - expected) ** 2 / expected).sum(axis=0)
        return chi2


def mean_and_variance(moments: Moments) -> tuple[Floats, Floats]:
    """Return the mean and the variance of every column over the rows of all groups; NaN for a column of only gaps."""
    total = moments.count.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean: Floats = moments.origin + (moments.count * moments.mean).sum(axis=0) / total
        variance: Floats = (moments.within + _between(moments)) / total
    return mean, variance


def _between(moments: Moments) -> Floats:
    """Return the sum of squared deviations of the groups' means from the mean of all rows, over all rows."""
    grand = (moments.count * moments.mean).sum(axis=0) / moments.count.sum(axis=0)
    between: Floats = (moments.count * (moments.mean - grand) ** 2).sum(axis=0)
    return between


def _present(moments: Moments) -> tuple[Floats, Floats]:
    """Return the count and mean of the classes that have rows; raise OptionError if there are fewer than two."""
    is_present = moments.count[:, 0] > 0
    if is_present.sum() < 2:
        raise OptionError("the rows have one class only: there is nothing to tell apart")
    return moments.count[is_present], moments.mean[is_present]


def p_values(score: Score, scores: Floats, n_rows: int, n_classes: int) -> Floats:
    """Return the p-value of every score, by the F or chi-squared distribution; NaN for the score "variance"."""
    if score == "f_classif":
        values = scipy.special.fdtrc(n_classes - 1, n_rows - n_classes, scores)
    elif score == "f_regression":
        values = scipy.special.fdtrc(1, n_rows - 2, scores)
    elif score == "chi2":
        values = scipy.special.chdtrc(n_classes - 1, scores)
    else:
        values = np.full(len(scores), np.nan)
    return np.asarray(values)


def q_values(p: Floats) -> Floats:
    """Return the q-values of Benjamini and Hochberg (1995) of all p-values; NaN is not counted and stays NaN.

    The features with q-values of at most 0.05 are a selection with a false discovery rate of at most 5 %.

    >>> q_values(np.array([0.01, 0.5, np.nan, 0.02]))
    array([0.03, 0.5 , nan, 0.03])
    """
    q = np.full(len(p), np.nan)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # NaN is last
    raised = p[order] * (len(order) / np.arange(1, len(order) + 1))
    q[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1)
    return q


def best_columns(scores: Floats, k: int) -> NDArray[np.intp]:
    """Return the positions of the k best scores, best first; NaN is worst, and of equal scores the last is best.

    These are the columns that scikit-learn's `SelectKBest` keeps.

    >>> best_columns(np.array([1.0, np.nan, 3.0, 1.0]), 3)
    array([2, 3, 0])
    """
    return np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable")[::-1][:k]
