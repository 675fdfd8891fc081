"""Pictures of predictions in bounded memory: ROC curve, calibration, confusion, and predicted against true values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.selection.intervals import FloatArray
from daskfs.selection.metrics import Weights

ROC_GAP = 1 / 128  # the least distance between two points of the curve, both rates added
CALIBRATION_BINS = 10
MOST_CONFUSED = 30  # classes of a confusion matrix
SCATTER_ROWS = 1000


class RocCurve:
    """Some points of the ROC curve of a class, each of them exact.

    Two neighbours differ by `ROC_GAP` or less in the sum of both rates, unless more rows than that share a score.

    Parameters
    ----------
    members, others
        The weight of all rows of the class, and of all other rows.

    Examples
    --------
    >>> curve = RocCurve(members=2, others=1)
    >>> curve.add(np.array([1, 0, 1]), np.array([0, 1, 0]))
    >>> curve.record()
    {'false_positive': [0.0, 0.0, 1.0, 1.0], 'true_positive': [0.0, 0.5, 0.5, 1.0]}
    """

    def __init__(self, members: float, others: float) -> None:
        self._totals, self._sums = np.array([others, members], np.float64), np.zeros(2)
        self._points, self._step = [np.zeros((2, 1))], 0.0

    def add(self, members: FloatArray, others: FloatArray) -> None:
        """Add groups of rows that share a score, in descending order of scores: the weight of both kinds of rows."""
        if not len(members) or not self._totals.all():
            return
        sums = self._sums[:, None] + np.cumsum([others, members], axis=1)
        rates = sums / self._totals[:, None]
        steps = np.floor(rates.sum(axis=0) / ROC_GAP)
        self._points.append(rates[:, np.diff(steps, prepend=self._step) > 0])
        self._sums, self._step = sums[:, -1], float(steps[-1])

    def record(self) -> dict[str, list[float]] | None:
        """Return both rates from (0, 0) to (1, 1), or None if one kind of rows is missing."""
        if not self._totals.all():
            return None
        points = np.concatenate(self._points, axis=1)
        if points[:, -1].min() < 1:
            points = np.append(points, np.ones((2, 1)), axis=1)
        return {"false_positive": points[0].tolist(), "true_positive": points[1].tolist()}


class CalibrationBins:
    """Mean predicted probability of a class, and the share of rows that are of the class, in bins of the probability.

    >>> bins = CalibrationBins()
    >>> bins.add(np.array([-9.0, 9.0, 9.0]), np.array([False, True, False]))
    >>> bins.record()["share"], bins.record()["rows"]
    ([0.0, 0.5], [1.0, 2.0])
    """

    def __init__(self) -> None:
        self._sums = np.zeros((3, CALIBRATION_BINS))

    def add(self, odds: FloatArray, is_member: NDArray[np.bool_], weight: Weights = None) -> None:
        """Add rows by the log-odds of the class."""
        probability = scipy.special.expit(odds)
        edges = np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1]
        each = np.ones(len(odds)) if weight is None else weight.astype(np.float64)
        at = np.searchsorted(edges, probability)
        for sums, values in zip(self._sums, (each, each * probability, each * is_member), strict=True):
            sums += np.bincount(at, values, CALIBRATION_BINS)

    def record(self) -> dict[str, list[float]]:
        """Return the means and the weight of rows ("rows") of all bins that are not empty."""
        rows, probability, members = self._sums[:, self._sums[0] > 0]
        return {
            "predicted": (probability / rows).tolist(),
            "share": (members / rows).tolist(),
            "rows": rows.tolist(),
        }


class Confusion:
    """Weight of rows by true and predicted class.

    >>> confusion = Confusion(2)
    >>> confusion.add(np.array([0, 1, 1]), np.array([0, 0, 1]))
    >>> confusion.record()
    [[1.0, 0.0], [1.0, 1.0]]
    """

    def __init__(self, n_classes: int) -> None:
        self._n_classes = n_classes
        self._cells = np.zeros(n_classes**2 if n_classes <= MOST_CONFUSED else 0)

    def add(self, truth: NDArray[np.integer], predicted: NDArray[np.integer], weight: Weights = None) -> None:
        """Add rows; a row whose label is none of the classes is left out."""
        known = truth < self._n_classes
        if len(self._cells):
            at = truth[known] * self._n_classes + predicted[known]
            self._cells += np.bincount(at, None if weight is None else weight[known], len(self._cells))

    def record(self) -> list[list[float]] | None:
        """Return a list for every true class with a number for every predicted class, or None of too many classes."""
        cells: list[list[float]] = self._cells.reshape(-1, self._n_classes).tolist()
        return cells or None


class Scatter:
    """True and predicted values of evenly spaced rows.

    Parameters
    ----------
    n_rows
        The number of all rows.
    """

    def __init__(self, n_rows: int) -> None:
        self._step, self._row = max(1, math.ceil(n_rows / SCATTER_ROWS)), 0
        self._pairs: list[FloatArray] = []

    def add(self, truth: FloatArray, predicted: FloatArray) -> None:
        """Keep the targets and predictions of some of the next rows."""
        some = slice(-self._row % self._step, None, self._step)
        self._pairs.append(np.stack([truth[some], predicted[some]]).astype(np.float64))
        self._row += len(truth)

    def record(self) -> dict[str, Any]:
        """Return the "true" and the "predicted" values of every "step"-th row."""
        truth, predicted = np.concatenate(self._pairs, axis=1)
        return {"true": truth.tolist(), "predicted": predicted.tolist(), "step": self._step}
