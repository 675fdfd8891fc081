"""Scores, p-values and q-values of columns from their moments, with the values of scikit-learn's functions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.univariate.moments import Moments
from daskfs.errors import OptionError

Score = Literal["f_classif", "f_regression", "chi2", "variance"]


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
    """Return the mean and the variance of every column over the rows of all groups; NaN for a column of gaps alone."""
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
    """Return the q-values of Benjamini and Hochberg (1995) of all p-values; NaN, which counts for nothing, stays NaN.

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
