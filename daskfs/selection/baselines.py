"""What a selection has to beat: always giving the same answer, and the best of its features alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Label
from daskfs.selection.column_slices import ColumnSlice, ColumnSlices
from daskfs.selection.intervals import Interval
from daskfs.selection.ranking import mean_ranks
from daskfs.selection.row_sample import RowSample

if TYPE_CHECKING:
    from daskfs.selection.selection import Selection

SAMPLE_ROWS = 1 << 14  # rows on which single features are compared
SAMPLE_FEATURES = 10  # the most important features, which are compared
EACH_MEAN = "the mean of each target"


@dataclass(frozen=True, slots=True)
class SingleFeature:
    """The best of the most important features alone.

    Parameters
    ----------
    name
        The name of the feature.
    metric
        "roc_auc", of rows ordered by the feature (for several classes the mean over classes, each against the rest), or
        "r2" of the best straight line through the feature (for several targets the mean over targets).
    value
        The value of the metric.
    rows
        The number of rows, evenly spaced among all rows, that the value was computed on.
    """

    name: str
    metric: str
    value: float
    rows: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """Metrics of a prediction that is the same for all rows, and the best single feature.

    Parameters
    ----------
    answer
        The prediction: the most frequent class, or the mean of a real target, of the rows that are evaluated; for
        several targets the words of `EACH_MEAN`.
    metrics
        The metrics of that prediction, as far as they are known.
    best_feature
        The best single feature, or None if the features are random features.
    """

    answer: Label
    metrics: dict[str, float]
    best_feature: SingleFeature | None = None

    def record(self) -> dict[str, Any]:
        """Return all fields as values for JSON."""
        return asdict(self)

    def verdict(self, metrics: Mapping[str, float], intervals: Mapping[str, Interval]) -> tuple[bool, str]:
        """Return whether a model may be no better than the same answer for all rows, and a sentence that says so or "".

        Classes need both: a balanced accuracy and a ROC AUC whose 95 % intervals include those of the same answer.
        A model of rare classes may always predict the frequent class, and still order the rows well.
        """
        includes = {
            name: intervals[name][0] <= self.metrics[name]
            for name in ("r2", "balanced_accuracy", "roc_auc")
            if name in metrics and not math.isnan(intervals[name][0])
        }
        answer = f"{self.answer:.4g}" if isinstance(self.answer, float) else repr(self.answer)
        if not includes or not any(includes.values()):
            return False, ""
        if "r2" in includes and self.answer == EACH_MEAN:
            return True, f"no better than always saying {EACH_MEAN}: {_shown('r2', intervals)}"
        if "r2" in includes:
            return True, f"no better than always saying {answer}, the mean of the target: {_shown('r2', intervals)}"
        if all(includes.values()):
            shown = " and ".join(_shown(name, intervals) for name in includes)
            return True, f"no better than always saying {answer}, the most frequent class: {shown}"
        if includes.get("balanced_accuracy"):
            same = f"no better than always saying {answer} ({_shown('balanced_accuracy', intervals)})"
            return False, f"predicts classes {same}, but its scores order rows: see balanced=True"
        return False, ""


def _shown(name: str, intervals: Mapping[str, Interval]) -> str:
    title = {"r2": "R²", "balanced_accuracy": "balanced accuracy", "roc_auc": "ROC AUC"}[name]
    low, high = intervals[name]
    return f"the 95 % interval of {title} is {low:.3f} to {high:.3f}"


def class_baseline(shares: NDArray[np.float64], classes: Sequence[Label]) -> Baseline:
    """Return the baseline of classes.

    Parameters
    ----------
    shares
        The share of every label in the weight of all rows; labels beyond the classes are unknown to the selection.
    classes
        The labels that the selection tells apart.
    """
    known, occurring = shares[: len(classes)], shares[shares > 0]
    of_classes = known[1:] if len(classes) == 2 else known[known > 0]
    metrics = {
        "accuracy": float(known.max()),
        "balanced_accuracy": 1 / len(occurring) if len(occurring) else math.nan,
        "log_loss": float(-(occurring * np.log(occurring)).sum()) if len(occurring) else math.nan,
        "roc_auc": 0.5,
        "average_precision": float(of_classes.mean()) if len(of_classes) else math.nan,
    }
    return Baseline(classes[int(known.argmax())], metrics)


def value_baseline(mean: float, variance: float) -> Baseline:
    """Return the baseline of a real target with this mean and variance."""
    return Baseline(mean, {"r2": 0.0, "mse": variance})


def target_baseline(variance: float) -> Baseline:
    """Return the baseline of several real targets with this mean of their variances."""
    return Baseline(EACH_MEAN, {"r2": 0.0, "mse": variance})


class FeatureSample:
    """Collector of the most important features' values, and of the target, in evenly spaced rows.

    Parameters
    ----------
    selection
        The selection whose first features are collected.
    """

    def __init__(self, selection: Selection) -> None:
        self._names, self._weights = selection.names[:SAMPLE_FEATURES], selection.weights[:SAMPLE_FEATURES]
        self._first = 0 if selection.kept is None else len(selection.kept.features)  # these stand before the others
        self._sample, self._row = RowSample(0, len(self._names), SAMPLE_ROWS), 0
        self._targets: list[NDArray[Any]] = []

    @property
    def _cells(self) -> NDArray[np.float64]:
        return self._sample.cells

    def collect(self, columns: ColumnSlices) -> ColumnSlices:
        """Return the columns of a model unchanged; their values are collected when their slices are read."""
        self._sample = RowSample(columns.shape[0], len(self._names), SAMPLE_ROWS)
        return replace(columns, slices=self._collect_slices(columns.slices))

    def _collect_slices(self, slices: Iterable[ColumnSlice]) -> Iterator[ColumnSlice]:
        for part in slices:
            self._sample.add(part, self._first)
            yield part

    def add(self, targets: NDArray[Any]) -> None:
        """Keep the targets (class numbers or real values) of those of the next rows that are in the sample."""
        self._targets.append(self._sample.of(targets, self._row))
        self._row += len(targets)

    def best(self, n_classes: int | None) -> SingleFeature | None:
        """Return the best single feature for a real target (`n_classes` is None) or for classes."""
        if not len(self._names):
            return None
        target = np.concatenate(self._targets)
        by = self._mean_r_squared(target) if n_classes is None else self._areas(target, n_classes)
        if np.isnan(by).all():
            return None
        best = int(np.nanargmax(by))
        metric = "r2" if n_classes is None else "roc_auc"
        return SingleFeature(self._names[best], metric, float(by[best]), len(target))

    def _mean_r_squared(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return R² of every feature, averaged over several targets; a constant target does not count."""
        if target.ndim == 1:
            return self._r_squared(target)
        each = [self._r_squared(values) for values in target.T if np.ptp(values) > 0]
        return np.mean(each, axis=0) if each else np.full(len(self._names), math.nan)

    def _r_squared(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        cells, target = self._cells - self._cells.mean(axis=0), target - target.mean()
        whole = np.sqrt((cells**2).sum(axis=0)) * math.sqrt(target @ target)
        result: NDArray[np.float64] = np.divide(
            cells.T @ target, whole, out=np.full(len(whole), math.nan), where=whole > 0
        )
        return result**2

    def _areas(self, target: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
        """Return the area under the ROC curve of each feature, in the direction of its weight."""
        numbers = [1] if self._weights.ndim == 1 else list(range(n_classes))
        signs = np.sign(self._weights.reshape(len(self._weights), -1))
        rows = np.array([np.count_nonzero(target == number) for number in numbers])
        occurs = (rows > 0) & (rows < len(target))
        areas = np.full(len(self._names), math.nan)
        for feature in range(len(self._names) if occurs.any() else 0):
            ranks = mean_ranks(self._cells[:, feature])
            sums = np.array([ranks[target == number].sum() for number in numbers])[occurs]
            members = rows[occurs]
            area = (sums - members * (members + 1) / 2) / members / (len(target) - members)
            areas[feature] = (0.5 + signs[feature, occurs] * (area - 0.5)).mean()
        return areas
