"""How good predictions are, added up block by block. numpy only; tests hold these equal to scikit-learn's.

Rows may have weights, which count as so many rows. What cannot be said (the recall of a class that does not occur) is
NaN. Every measure has its 95 % interval (see `intervals`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from daskfs.selection.intervals import (
    UNKNOWN,
    Interval,
    effective_rows,
    mean_error,
    mean_of_shares,
    on_log_scale,
    wilson,
)

Weights = NDArray[np.floating] | None


class ClassTally:
    """How many rows of which class there are, are predicted, and are both.

    Parameters
    ----------
    n_classes
        Classes that can be predicted, numbered from 0.
    n_labels
        Labels that rows can have: the classes, and behind them those nobody predicts.

    Examples
    --------
    >>> tally = ClassTally(n_classes=2, n_labels=2)
    >>> tally.add(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]))
    >>> tally.accuracy, tally.balanced_accuracy
    (0.75, 0.5)
    """

    def __init__(self, n_classes: int, n_labels: int) -> None:
        self.rows = np.zeros(n_labels, np.int64)
        self._weight, self._right = np.zeros(n_labels), np.zeros(n_labels)
        self._squares, self._squares_right = np.zeros(n_labels), np.zeros(n_labels)
        self._predicted = np.zeros(n_classes)

    def add(self, truth: NDArray[np.integer], predicted: NDArray[np.integer], weight: Weights = None) -> None:
        """Count some rows."""
        right = truth == predicted
        self.rows += np.bincount(truth, minlength=len(self.rows))
        self._weight += np.bincount(truth, weight, len(self._weight))
        self._right += np.bincount(truth[right], None if weight is None else weight[right], len(self._right))
        square = None if weight is None else np.square(weight, dtype=np.float64)
        self._squares += np.bincount(truth, square, len(self._squares))
        self._squares_right += np.bincount(truth[right], None if square is None else square[right], len(self._right))
        self._predicted += np.bincount(predicted, weight, len(self._predicted))

    @property
    def weight(self) -> float:
        """What all rows weigh together; where they have no weights, how many there are."""
        return float(self._weight.sum())

    @property
    def accuracy(self) -> float:
        """The share of rows that are right."""
        return float(_ratio(self._right.sum(), self.weight))

    @property
    def accuracy_interval(self) -> Interval:
        """Wilson's, for the effective number of rows."""
        sums = (sums.sum() for sums in (self._weight, self._right, self._squares, self._squares_right))
        weight, right, squares, squares_right = (np.array([total]) for total in sums)
        rows = effective_rows(np.stack([weight, right]), squares, squares_right)
        low, high = wilson(_ratio(right, weight), rows)
        return float(low[0]), float(high[0])

    @property
    def balanced_accuracy(self) -> float:
        """The share of rows that are right, of every class that occurs, averaged over classes."""
        return mean_known(_ratio(self._right, self._weight))

    @property
    def balanced_accuracy_interval(self) -> Interval:
        """From Wilson's of the recalls, which are independent; that of a label nobody predicts is 0 for sure."""
        recalls, ends = _ratio(self._right, self._weight), self.recall_intervals
        low, high = np.zeros((2, len(recalls)))
        low[: len(ends)], high[: len(ends)] = ends.T
        there = ~np.isnan(recalls)
        return mean_of_shares(recalls[there], low[there], high[there])

    @property
    def precision(self) -> NDArray[np.float64]:
        """Of the rows that are predicted to be of a class, the share that is."""
        return _ratio(self._right[: len(self._predicted)], self._predicted)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Of the rows that are of a class, the share that is predicted so."""
        return _ratio(self._right, self._weight)[: len(self._predicted)]

    @property
    def recall_intervals(self) -> NDArray[np.float64]:
        """Wilson's, low and high of every class: ``(classes, 2)``."""
        rows = effective_rows(np.stack([self._weight, self._right]), self._squares, self._squares_right)
        return np.stack(wilson(_ratio(self._right, self._weight), rows), axis=1)[: len(self._predicted)]


class MeanTally:
    """The mean of a value that is never negative, such as a loss, and how sure it is.

    >>> tally = MeanTally()
    >>> tally.add(np.array([1.0, 2.0, 6.0]))
    >>> tally.mean, round(tally.error, 3)
    (3.0, 1.528)
    """

    def __init__(self) -> None:
        self._weight, self._sum = 0.0, 0.0
        self.squares, self.moments = 0.0, np.zeros(2)
        """The sum of squared weights; and of their products with the value, and with its square."""

    def add(self, values: NDArray[np.float64], weight: Weights = None) -> None:
        """Count the values of some rows."""
        each = np.ones(len(values)) if weight is None else weight.astype(np.float64)
        square = each * each
        self._weight += float(each.sum())
        self._sum += float(each @ values)
        self.squares += float(square.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # of numbers beyond 1e77 it can only say NaN
            self.moments += square @ values, (square * values) @ values

    @property
    def mean(self) -> float:
        return float(_ratio(self._sum, self._weight))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        (first, second), mean = self.moments, np.float64(self.mean)
        with np.errstate(over="ignore", invalid="ignore"):
            deviations = second - 2 * mean * first + mean**2 * self.squares
        return mean_error(self._weight, self.squares, float(deviations))

    @property
    def interval(self) -> Interval:
        return on_log_scale(self.mean, self.error)


class ValueTally:
    """How far values are from a real target, and the target from its mean.

    Examples
    --------
    >>> tally = ValueTally()
    >>> tally.add(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    >>> tally.add(np.array([3.0]), np.array([2.0]))
    >>> tally.r_squared, tally.absolute_error
    (0.5, 0.3333333333333333)
    """

    def __init__(self) -> None:
        self.rows, self._weight, self._mean, self._spread = 0, 0.0, 0.0, 0.0
        self._squared, self._absolute = MeanTally(), MeanTally()
        self._moments, self._shared = np.zeros(5), np.zeros(3)
        """Sums over rows of squared weight times d⁰ … d⁴, and times squared error times d⁰ … d², where d is the
        distance of the target from its mean."""

    def add(self, truth: NDArray[np.float64], predicted: NDArray[np.float64], weight: Weights = None) -> None:
        """Count some rows, one at least."""
        each = np.ones(len(truth)) if weight is None else weight.astype(np.float64)
        squared = (truth - predicted) ** 2
        self.rows += len(truth)
        self._squared.add(squared, each)
        self._absolute.add(np.abs(truth - predicted), each)
        before = self._mean
        self._add_target(truth, each, float(each.sum()))
        with np.errstate(over="ignore", invalid="ignore"):
            self._moments, self._shared = (_moved(sums, self._mean - before) for sums in (self._moments, self._shared))
            powers = np.vander(truth - self._mean, 5, increasing=True)
            self._moments += (each * each) @ powers
            self._shared += (each * each * squared) @ powers[:, :3]

    def _add_target(self, truth: NDArray[np.float64], weight: NDArray[np.float64], total: float) -> None:
        """The target's mean, and its squared distances from it (Chan, Golub and LeVeque)."""
        if total == 0:
            return
        mean = float(truth[0] + weight @ (truth - truth[0]) / total)  # exact where the target is constant
        step = mean - self._mean if self._weight else 0.0
        before, self._weight = self._weight, self._weight + total
        self._mean = self._mean + step * total / self._weight if before else mean
        self._spread += float(weight @ (truth - mean) ** 2) + step**2 * before * total / self._weight

    @property
    def r_squared(self) -> float:
        """The share of the target's variance that is explained; of a constant target, 1 if all is right, else 0."""
        if self._weight and self._spread == 0:
            return float(self._squared.mean == 0)
        return 1 - self._unexplained

    @property
    def _unexplained(self) -> float:
        """Squared errors against the target's own spread."""
        return float(_ratio(self._squared.mean, self._spread / self._weight)) if self._weight else math.nan

    @property
    def r_squared_interval(self) -> Interval:
        """By the delta method: squared errors over the target's spread vary as if normal in the logarithm.

        Both are means over rows; that the target's own mean is an estimate makes no difference of first order.
        """
        if not self._spread > 0:
            return UNKNOWN
        share = np.float64(self._unexplained)
        with np.errstate(over="ignore", invalid="ignore"):
            deviations = self._squared.moments[1] - 2 * share * self._shared[2] + share**2 * self._moments[4]
        error = mean_error(self._weight, self._squared.squares, float(deviations))
        low, high = on_log_scale(float(share), error * self._weight / self._spread)
        return 1 - high, 1 - low

    @property
    def squared_error(self) -> float:
        """The mean of squared errors."""
        return self._squared.mean

    @property
    def squared_error_interval(self) -> Interval:
        return self._squared.interval

    @property
    def absolute_error(self) -> float:
        """The mean of errors without their sign."""
        return self._absolute.mean

    @property
    def absolute_error_interval(self) -> Interval:
        return self._absolute.interval


def predicted_classes(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class each row's scores speak for; of two, which share one score, the second above zero."""
    return (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)


def against_the_rest(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of classes that were each told apart from the rest, as softmax would have them.

    The probability of a class is then its logistic function over the sum of all of them; scikit-learn has it so, too.

    >>> scores = against_the_rest(np.array([[0.0, 0.0, 50.0]]))
    >>> np.exp(scores) / np.exp(scores).sum()
    array([[0.25, 0.25, 0.5 ]])
    """
    log_sigmoid: NDArray[np.float64] = -np.logaddexp(0, -scores)
    return log_sigmoid


def log_odds(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """How sure scores are of each class against all others: ``(rows, classes)``, in the order of probabilities.

    The probability p of a class is the logistic function of one score, or the softmax of several; this is
    log p - log(1 - p), which does not run into 1 as p does. (Scores themselves do not compare from row to row: softmax
    is the same if all of a row's are raised by one number.)

    Examples
    --------
    >>> log_odds(np.array([2.0, -1.0]))
    array([[-2.,  2.],
           [ 1., -1.]])
    >>> 1 / (1 + np.exp(-log_odds(np.log([[1.0, 2.0, 5.0]]))))
    array([[0.125, 0.25 , 0.625]])
    """
    if scores.ndim == 1:
        return np.stack([-scores, scores], axis=1)
    if scores.shape[1] == 1:
        return np.full_like(scores, np.inf)  # of one class alone everything is sure
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    highest = scores[rows, best]
    below = scores - highest[:, None]
    parts = np.exp(below)
    total = parts.sum(axis=1, keepdims=True)
    parts[rows, best] = 0  # what is left without it may be nothing at all: it has another way, from the second best
    odds: NDArray[np.float64] = below - np.log(total - parts)
    below[rows, best] = -np.inf
    second = below.max(axis=1)
    odds[rows, best] = -second - np.log(np.exp(below - second[:, None]).sum(axis=1))
    return odds


def log_losses(odds: NDArray[np.float64], truth: NDArray[np.integer]) -> NDArray[np.float64]:
    """Minus the logarithm of the true class's probability, from `log_odds` and class numbers.

    >>> np.exp(-log_losses(log_odds(np.array([0.0, np.log(3)])), np.array([0, 1])))
    array([0.5 , 0.75])
    """
    losses: NDArray[np.float64] = np.logaddexp(0, -odds[np.arange(len(truth)), truth])
    return losses


def mean_known(values: NDArray[np.float64]) -> float:
    """The mean of what is not NaN; NaN if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _ratio(part: float | NDArray[np.float64], whole: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """part / whole, NaN where there is nothing to be a part of."""
    share = np.full(np.shape(whole), np.nan)
    np.divide(part, whole, out=share, where=np.asarray(whole) > 0)
    return share


def _moved(sums: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Sums of d⁰, d¹, d², … as they are if every d becomes d - step."""
    powers = (-step) ** np.arange(len(sums))
    return np.array(
        [sum(math.comb(n, k) * powers[n - k] * sums[k] for k in range(n + 1)) for n in range(len(sums))], np.float64
    )
