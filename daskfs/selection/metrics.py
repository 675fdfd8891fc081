"""Metrics of predictions, added up block by block, equal to scikit-learn's, with 95 % intervals (see `intervals`).

Rows may have weights: a row of weight 2 counts as two rows. Undefined metrics, such as the recall of a class that does
not occur, are NaN.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.selection.intervals import (
    UNKNOWN,
    Interval,
    effective_rows,
    mean_error,
    mean_interval,
    mean_of_shares,
    on_log_scale,
    wilson,
)

Weights = NDArray[np.floating] | None


class ClassTally:
    """Counts of the rows of each class, of rows predicted to be of the class, and of rows predicted correctly.

    Parameters
    ----------
    n_classes
        The number of classes that can be predicted.
    n_labels
        The number of labels that rows can have: the classes, then labels that are never predicted.

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
        """Add rows to the counts."""
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
        """The sum of the rows' weights, or the number of rows if they have no weights."""
        return float(self._weight.sum())

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of the rows of every label."""
        return self._weight

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of every label in the weight of all rows."""
        return self._weight / max(self.weight, sys.float_info.min)

    @property
    def accuracy(self) -> float:
        """The share of rows that are predicted correctly."""
        return float(ratio(self._right.sum(), self.weight))

    @property
    def accuracy_interval(self) -> Interval:
        """Wilson's 95 % interval of the accuracy, for the effective number of rows."""
        sums = (sums.sum() for sums in (self._weight, self._right, self._squares, self._squares_right))
        weight, right, squares, squares_right = (np.array([total]) for total in sums)
        rows = effective_rows(np.stack([weight, right]), squares, squares_right)
        low, high = wilson(ratio(right, weight), rows)
        return float(low[0]), float(high[0])

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall over all labels that occur."""
        return mean_known(ratio(self._right, self._weight))

    @property
    def balanced_accuracy_interval(self) -> Interval:
        """The 95 % interval of the balanced accuracy, from the independent intervals of the labels' recalls."""
        recalls, ends = ratio(self._right, self._weight), self.recall_intervals
        low, high = np.zeros((2, len(recalls)))
        low[: len(ends)], high[: len(ends)] = ends.T
        occurs = ~np.isnan(recalls)
        return mean_of_shares(recalls[occurs], low[occurs], high[occurs])

    @property
    def precision(self) -> NDArray[np.float64]:
        """For every class, the share of correct rows among the rows predicted to be of the class."""
        return ratio(self._right[: len(self._predicted)], self._predicted)

    @property
    def recall(self) -> NDArray[np.float64]:
        """For every class, the share of correctly predicted rows among the rows of the class."""
        return ratio(self._right, self._weight)[: len(self._predicted)]

    @property
    def recall_intervals(self) -> NDArray[np.float64]:
        """Wilson's intervals of the classes' recalls, low and high ends: ``(classes, 2)``."""
        rows = effective_rows(np.stack([self._weight, self._right]), self._squares, self._squares_right)
        return np.stack(wilson(ratio(self._right, self._weight), rows), axis=1)[: len(self._predicted)]


class MeanTally:
    """Weighted mean, with its standard error, of values that are never negative, such as losses.

    >>> tally = MeanTally()
    >>> tally.add(np.array([1.0, 2.0, 6.0]))
    >>> tally.mean, round(tally.error, 3)
    (3.0, 1.528)
    """

    def __init__(self) -> None:
        self._weight, self._sum = 0.0, 0.0
        self.squares, self.moments = 0.0, np.zeros(2)
        """Sums of squared weights, and of squared weights times the values and times the squared values."""

    def add(self, values: NDArray[np.float64], weight: Weights = None) -> None:
        """Add the values of rows to the mean."""
        each = np.ones(len(values)) if weight is None else weight.astype(np.float64)
        square = each * each
        self._weight += float(each.sum())
        self._sum += float(each @ values)
        self.squares += float(square.sum())
        with np.errstate(over="ignore", invalid="ignore"):  # beyond 1e77 the error is NaN
            self.moments += square @ values, (square * values) @ values

    @property
    def mean(self) -> float:
        """The weighted mean of the values."""
        return float(ratio(self._sum, self._weight))

    @property
    def error(self) -> float:
        """The standard error of the weighted mean."""
        (first, second), mean = self.moments, np.float64(self.mean)
        with np.errstate(over="ignore", invalid="ignore"):
            deviations = second - 2 * mean * first + mean**2 * self.squares
        return mean_error(self._weight, self.squares, float(deviations))

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the weighted mean."""
        return on_log_scale(self.mean, self.error)


class ValueTally:
    """Errors of predictions of a real target, and the variance of the target.

    `squared` and `absolute` are the tallies of squared and of absolute errors.

    Examples
    --------
    >>> tally = ValueTally()
    >>> tally.add(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    >>> tally.add(np.array([3.0]), np.array([2.0]))
    >>> tally.r_squared, tally.absolute.mean
    (0.5, 0.3333333333333333)
    """

    def __init__(self) -> None:
        self.rows, self._weight, self._mean, self._spread = 0, 0.0, 0.0, 0.0
        self.squared, self.absolute = MeanTally(), MeanTally()
        self._moments, self._shared = np.zeros(5), np.zeros(3)
        """Sums over rows of w² dⁿ for n = 0 … 4, and of w² e² dⁿ for n = 0 … 2, with weight w,
        error e, and distance d of the target from its mean."""

    def add(self, truth: NDArray[np.float64], predicted: NDArray[np.float64], weight: Weights = None) -> None:
        """Add one or more rows to the errors and to the variance of the target."""
        each = np.ones(len(truth)) if weight is None else weight.astype(np.float64)
        squared = (truth - predicted) ** 2
        self.rows += len(truth)
        self.squared.add(squared, each)
        self.absolute.add(np.abs(truth - predicted), each)
        before = self._mean
        self._add_target(truth, each, float(each.sum()))
        with np.errstate(over="ignore", invalid="ignore"):
            self._moments, self._shared = (
                _shift_moments(sums, self._mean - before) for sums in (self._moments, self._shared)
            )
            powers = np.vander(truth - self._mean, 5, increasing=True)
            self._moments += (each * each) @ powers
            self._shared += (each * each * squared) @ powers[:, :3]

    @property
    def target_mean(self) -> float:
        """The weighted mean of the target."""
        return self._mean

    @property
    def target_variance(self) -> float:
        """The weighted variance of the target, NaN without any weight."""
        return self._spread / self._weight if self._weight else math.nan

    def _add_target(self, truth: NDArray[np.float64], weight: NDArray[np.float64], total: float) -> None:
        """Update the target's mean and sum of squared distances from the mean (Chan, Golub and LeVeque)."""
        if total == 0:
            return
        mean = float(truth[0] + weight @ (truth - truth[0]) / total)  # exact where the target is constant
        step = mean - self._mean if self._weight else 0.0
        before, self._weight = self._weight, self._weight + total
        self._mean = self._mean + step * total / self._weight if before else mean
        self._spread += float(weight @ (truth - mean) ** 2) + step**2 * before * total / self._weight

    @property
    def r_squared(self) -> float:
        """R² of the predictions; for a constant target, 1 if all rows are predicted exactly and 0 if not."""
        if self._weight and self._spread == 0:
            return float(self.squared.mean == 0)
        return 1 - self._unexplained

    @property
    def _unexplained(self) -> float:
        """The mean squared error divided by the variance of the target, which is 1 - R²."""
        return float(ratio(self.squared.mean, self.target_variance)) if self._weight else math.nan

    @property
    def r_squared_interval(self) -> Interval:
        """The 95 % interval of R² by the delta method, if the logarithm of 1 - R² is normal.

        Estimating the mean of the target has no first-order effect on R².
        """
        if not self._spread > 0:
            return UNKNOWN
        share = np.float64(self._unexplained)
        with np.errstate(over="ignore", invalid="ignore"):
            deviations = self.squared.moments[1] - 2 * share * self._shared[2] + share**2 * self._moments[4]
        error = mean_error(self._weight, self.squared.squares, float(deviations))
        low, high = on_log_scale(float(share), error * self._weight / self._spread)
        return 1 - high, 1 - low


class ScoreTally:
    """Tally of the metric by which selections are compared: balanced accuracy of classes, or R² of a real target.

    Parameters
    ----------
    n_classes
        The number of classes that scores tell apart; None for a real target.
    n_labels
        The number of labels that rows can have (see `ClassTally`).
    n_targets
        The number of real targets. Of several, scores and targets are ``(rows, targets)``, and R² is the mean of each.
    """

    def __init__(self, n_classes: int | None, n_labels: int, n_targets: int = 1) -> None:
        self._values = [ValueTally() for _ in range(n_targets)]
        self._classes = None if n_classes is None else ClassTally(n_classes, n_labels)

    def add(self, truth: NDArray[Any], scores: NDArray[np.float64], weight: Weights = None) -> None:
        """Add one or more rows to the metric."""
        if self._classes is None:
            columns = zip(self._values, truth.reshape(len(truth), -1).T, scores.reshape(len(scores), -1).T, strict=True)
            for tally, values, predicted in columns:
                tally.add(values, predicted, weight)
        else:
            self._classes.add(truth, predicted_classes(scores), weight)

    @property
    def score(self) -> float:
        """The balanced accuracy of classes, or R² of a real target."""
        if self._classes is not None:
            return self._classes.balanced_accuracy
        return float(np.mean([tally.r_squared for tally in self._values]))

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the balanced accuracy or of R²."""
        if self._classes is not None:
            return self._classes.balanced_accuracy_interval
        return mean_interval(np.array([tally.r_squared_interval for tally in self._values]))


def predicted_classes(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the class with the highest score of each row; with one score a row, class 1 if the score is above 0."""
    return (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)


def constant_scores(loss: str, shares: NDArray[np.float64], one_score: bool) -> NDArray[np.float64]:
    """Return the score of every class, or with `one_score` of the second of two, in rows without any features.

    A row is predicted to be of the class whose score exceeds this constant score by most. If the scores are those of
    the Bayes classifier, no other prediction has a better expected balanced accuracy.

    Parameters
    ----------
    loss
        The loss that the model minimised: scores are log-odds, or with the squared losses expected targets of ±1.
    shares
        The share of each class in the weight of the rows that the model was fitted to.
    one_score
        Whether the model has one score for two classes.

    Examples
    --------
    >>> constant_scores("logistic", np.array([0.75, 0.25]), one_score=True).round(3)
    array([-1.099])
    >>> constant_scores("squared", np.array([0.75, 0.25]), one_score=True)
    array([-0.5])
    """
    known = np.clip(shares, sys.float_info.min, 1 - sys.float_info.epsilon)  # a class may have no row with a weight
    if loss == "softmax" and not one_score:
        scores = np.log(known)
    else:
        scores = np.log(known / (1 - known)) if loss in ("logistic", "softmax") else 2 * known - 1
    return scores[1:] if one_score else scores


def against_the_rest(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores whose softmax gives the probabilities of models fitted one against the rest.

    The probability of a class is its logistic function over the sum of all classes' logistic functions, as in
    scikit-learn.

    >>> scores = against_the_rest(np.array([[0.0, 0.0, 50.0]]))
    >>> np.exp(scores) / np.exp(scores).sum()
    array([[0.25, 0.25, 0.5 ]])
    """
    log_sigmoid: NDArray[np.float64] = -np.logaddexp(0, -scores)
    return log_sigmoid


def log_odds(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log p - log(1 - p) of the probability p of each class: ``(rows, classes)``.

    The probability p is the logistic function of a single score, or the softmax of several scores. Log-odds order rows
    as probabilities do, without rounding to 1. (Scores do not compare from row to row, since softmax is the same if a
    number is added to all scores of a row.)

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
        return np.full_like(scores, np.inf)  # a single class has probability 1
    rows, best = np.arange(len(scores)), scores.argmax(axis=1)
    highest = scores[rows, best]
    below = scores - highest[:, None]
    parts = np.exp(below)
    total = parts.sum(axis=1, keepdims=True)
    parts[rows, best] = 0  # for the best class, total - parts would cancel: see below
    odds: NDArray[np.float64] = below - np.log(total - parts)
    below[rows, best] = -np.inf
    second = below.max(axis=1)
    odds[rows, best] = -second - np.log(np.exp(below - second[:, None]).sum(axis=1))
    return odds


def log_losses(odds: NDArray[np.float64], truth: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return minus the logarithm of the probability of the true class, from `log_odds` and class numbers.

    >>> np.exp(-log_losses(log_odds(np.array([0.0, np.log(3)])), np.array([0, 1])))
    array([0.5 , 0.75])
    """
    losses: NDArray[np.float64] = np.logaddexp(0, -odds[np.arange(len(truth)), truth])
    return losses


def mean_known(values: NDArray[np.float64]) -> float:
    """Return the mean of the values that are not NaN, or NaN if all values are NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def ratio(part: float | NDArray[Any], whole: float | NDArray[Any]) -> NDArray[np.float64]:
    """Return part / whole, NaN where the whole is 0."""
    share = np.full(np.shape(whole), np.nan)
    np.divide(part, whole, out=share, where=np.asarray(whole) > 0)
    return share


def _shift_moments(sums: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Return the sums of (d - step)ⁿ for n = 0, 1, 2, … from the sums of dⁿ."""
    powers = (-step) ** np.arange(len(sums))
    return np.array(
        [sum(math.comb(n, k) * powers[n - k] * sums[k] for k in range(n + 1)) for n in range(len(sums))], np.float64
    )
