"""Evaluation of scores against the true labels or values, block by block, for any number of rows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import Label
from daskfs.selection.baselines import Baseline, FeatureSample, class_baseline, target_baseline, value_baseline
from daskfs.selection.column_slices import ColumnSlices
from daskfs.selection.curves import CalibrationBins, Confusion, RocCurve, Scatter
from daskfs.selection.intervals import Interval, mean_interval
from daskfs.selection.metrics import (
    ClassTally,
    MeanTally,
    ScoreTally,
    ValueTally,
    log_losses,
    log_odds,
    mean_known,
    predicted_classes,
)
from daskfs.selection.ranking import RankQuality, SortedScores, mean_area_interval, rank_quality
from daskfs.selection.records import without_nan
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.regroup import RowRegrouper

if TYPE_CHECKING:
    import xarray

WINDOW_CELLS = 1 << 18  # scores that are judged in one go

Scores = Iterator[tuple[slice, NDArray[np.float64]]]
"""Slices of rows, in order and without gaps, with scores ``(rows,)``, ``(rows, classes)`` or ``(rows, targets)``."""
CountProgress = Callable[[int, int], None]
"""A function that is called with the amount done and the total amount."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics of predictions with 95 % intervals, where an undefined metric is NaN.

    For classes, `metrics` has "accuracy", "balanced_accuracy", "log_loss", "roc_auc" and "average_precision"; for a
    real target "r2", "mse" and "mae", for several targets their means over the targets. The areas "roc_auc" and
    "average_precision" are exact and count ties as scikit-learn does. For two classes, "roc_auc" and
    "average_precision" are the areas of the second class. For more than two classes, "roc_auc" and "average_precision"
    are means over the classes that occur, each class against all other rows.

    The log loss takes scores for log-odds: a single score goes through the logistic function, several go through
    softmax. Models fitted one class against the rest (loss "logistic") have logistic probabilities divided by their sum
    over the classes. The losses "squared" and "squared_hinge" do not fit log-odds, so that their log loss is usually
    high.

    An interval covers the metric of the whole population in 95 of 100 cases, if the rows are independent draws.
    Accuracy and recall have Wilson's score interval, and balanced accuracy has Zou and Donner's interval (MOVER) from
    the recalls. The interval of ROC AUC uses DeLong's exact variance, that of average precision the infinitesimal
    jackknife, both on the scale of log-odds. For several classes, the mean of the classes' standard errors is used,
    which makes their intervals too wide. The intervals of log loss and errors use the variance over rows on a
    logarithmic scale, that of R² the delta method for log(1 - R²). The interval of the mean R² of several targets has
    the means of the ends of their intervals, which makes it too wide. Uneven weights of rows make intervals wider.

    A row whose label is not among the selection's classes counts as predicted wrongly, and makes the log loss NaN.

    Parameters
    ----------
    rows
        The number of rows.
    unknown_rows
        The number of rows whose label is not among the selection's classes.
    weighted
        Whether rows have weights, which count in all metrics (but not in `rows`).
    metrics
        The metrics by name.
    intervals
        The 95 % interval of each metric, low and high; NaN if unknown.
    class_columns
        The variables of `per_class` by name, "class" first; None where the target is a real number.
    baseline
        What the predictions have to beat: the same answer for all rows, and the best single feature.
    target_columns
        The variables of `per_target` by name, "target" first; None unless there are several targets.
    curves
        Lists of numbers for plots, which `record` leaves out: for up to 30 classes "confusion" (see `Confusion`), for
        two classes "roc" (`RocCurve`) and "calibration" (`CalibrationBins`), for one real target "scatter" (`Scatter`).
    """

    rows: int
    unknown_rows: int
    weighted: bool
    metrics: dict[str, float]
    intervals: dict[str, Interval]
    class_columns: dict[str, NDArray[Any]] | None
    baseline: Baseline
    target_columns: dict[str, NDArray[Any]] | None = None
    curves: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def per_class(self) -> xarray.Dataset | None:
        """Along the dimension "class": "rows", "precision", "recall", "roc_auc" and "average_precision".

        The variable "recall_interval" also has the dimension "end", "low" and "high". The property is None for a real
        target.
        """
        return _labelled(self.class_columns)

    @cached_property
    def per_target(self) -> xarray.Dataset | None:
        """Along the dimension "target": "r2", "mse", "mae", and "r2_interval", which also has the dimension "end".

        The property is None unless there are several targets.
        """
        return _labelled(self.target_columns)

    @property
    def is_useless(self) -> bool:
        """Whether the predictions may be no better than the same answer for all rows, by the 95 % intervals."""
        return self.baseline.verdict(self.metrics, self.intervals)[0]

    @property
    def verdict(self) -> str:
        """A sentence if the predictions may be no better than the same answer for all rows, else ""."""
        return self.baseline.verdict(self.metrics, self.intervals)[1]

    def record(self) -> dict[str, Any]:
        """Return all fields but `curves` for JSON, with None for NaN, and `per_class` and `per_target` as lists."""
        record: dict[str, Any] = {"rows": self.rows, "unknown_rows": self.unknown_rows, "weighted": self.weighted}
        record |= {"metrics": self.metrics, "intervals": self.intervals, "baseline": self.baseline.record()}
        record |= {"is_useless": self.is_useless, "verdict": self.verdict}
        if self.class_columns is not None:
            record["per_class"] = _lines(self.class_columns)
        if self.target_columns is not None:
            record["per_target"] = _lines(self.target_columns)
        plain: dict[str, Any] = without_nan(record)
        return plain


def _lines(columns: dict[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """Return columns of the same length as one record for every line."""
    values = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, line, strict=True)) for line in zip(*values, strict=True)]


def _labelled(columns: dict[str, NDArray[Any]] | None) -> xarray.Dataset | None:
    """Return columns as variables along a dimension, the first column; intervals have the dimension "end", too."""
    if columns is None:
        return None
    import xarray  # here, since it takes half a second with pandas, and `record` does without

    dim = next(iter(columns))
    variables = {name: ((dim, "end")[: column.ndim], column) for name, column in columns.items() if name != dim}
    return xarray.Dataset(variables, coords={dim: columns[dim], "end": ["low", "high"]})


class Truth:
    """Reader of the true class numbers or values of rows, and of the rows' weights, in step with the scores.

    Parameters
    ----------
    source
        A dataset, or the target of every row.
    classes
        The labels that the scores tell apart; None for a real target.
    n_rows
        The number of rows with scores.
    targets
        The names of several targets, of which every row has a value; None for one.
    """

    def __init__(
        self,
        source: Dataset | NDArray[Any],
        classes: Sequence[Label] | None,
        n_rows: int,
        targets: Sequence[str] | None = None,
    ) -> None:
        if isinstance(source, Dataset):
            _check_target_names(source, targets)
        several = () if targets is None else (len(targets),)
        shape = (source.n_samples, *several) if isinstance(source, Dataset) else source.shape
        if shape != (n_rows, *several) or n_rows == 0:
            each = "one a row" if targets is None else f"{len(targets)} targets a row"
            raise OptionError(f"labels of shape {shape} for {n_rows} rows: {each}, please, and one row at least")
        self.rows, self.n_labels = n_rows, 0
        if classes is None:
            self._targets = RowRegrouper(_values(source))
        else:
            labels, codes = _labels(source)
            positions = _positions(labels, classes)
            self.n_labels = max(len(classes), int(positions.max()) + 1)
            self._targets = RowRegrouper(positions[piece] for piece in codes)
        self.weighted = isinstance(source, Dataset) and "weight" in source.arrays
        self._weights = RowRegrouper(source.weights() if isinstance(source, Dataset) else ())

    def beside(self, scores: Scores) -> Iterator[tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float32] | None]]:
        """Yield windows of scores with the targets and weights (None without weights) of their rows."""
        for rows, block in scores:
            step = max(1, WINDOW_CELLS // max(block[:1].size, 1))
            for start in range(0, len(block), step):
                window = block[start : start + step]
                if not np.isfinite(window).all():
                    bad = rows.start + start + int(np.argmin(np.isfinite(window.reshape(len(window), -1)).all(axis=1)))
                    raise OptionError(f"row {bad}: its score is not finite, its values are too large for the weights")
                yield window, *self.take(len(window))

    def take(self, count: int) -> tuple[NDArray[Any], NDArray[np.float32] | None]:
        """Return targets and weights of the next `count` rows, at least one row."""
        return self._targets.take(count), self._weights.take(count) if self.weighted else None


def linear_scores(columns: ColumnSlices, weights: NDArray[np.float64], intercept: NDArray[np.float64]) -> Scores:
    """Yield the scores of a linear model for every group of rows, once all columns of the group are read."""
    done, (n_rows, _) = 0, columns.shape
    for rows, pieces in groupby(columns.slices, attrgetter("rows")):
        assert rows.start == done  # rows come in order
        scores = np.empty((rows.stop - rows.start, *weights.shape[1:]))
        scores[...] = intercept
        for piece in pieces:
            scores += piece.cells @ weights[piece.columns]
        yield rows, scores
        done = rows.stop
    if done < n_rows:  # the data have none of the columns
        yield slice(done, n_rows), np.tile(intercept, (n_rows - done, 1)).reshape(n_rows - done, *weights.shape[1:])


def class_shares(dataset: Dataset) -> NDArray[np.float64]:
    """Return the share of each of a dataset's classes in the weight of all rows, read without the features."""
    classes = dataset.classes or ()
    truth, totals = Truth(dataset, classes, dataset.n_samples), np.zeros(len(classes))
    for start in range(0, truth.rows, WINDOW_CELLS):
        numbers, weight = truth.take(min(WINDOW_CELLS, truth.rows - start))
        totals += np.bincount(numbers, weight, len(classes))
    shares: NDArray[np.float64] = totals / totals.sum()
    return shares


def score(scores: Scores, truth: Truth, classes: Sequence[Label] | None, targets: Sequence[str] | None = None) -> float:
    """Return the balanced accuracy of scores, or R² for a real target, without regard to weights of rows."""
    tally = ScoreTally(None if classes is None else len(classes), truth.n_labels, len(targets or (0,)))
    for window, values, _ in truth.beside(scores):
        tally.add(values, window)
    return tally.score


def evaluate(
    scores: Scores,
    truth: Truth,
    classes: Sequence[Label] | None,
    targets: Sequence[str] | None,
    sample: FeatureSample | None,
    progress: CountProgress,
    predict: Callable[[NDArray[np.float64]], NDArray[np.int64]] = predicted_classes,
    odds_of: Callable[[NDArray[np.float64]], NDArray[np.float64]] = log_odds,
) -> Evaluation:
    """Return the metrics of classes, or those of one or several real targets if `classes` is None.

    `predict` returns the class numbers for scores, and `odds_of` their log-odds.
    """
    if targets is not None:
        evaluation = _evaluate_targets(scores, truth, targets, sample, progress)
    elif classes is None:
        evaluation = _evaluate_values(scores, truth, sample, progress)
    else:
        evaluation = _evaluate_classes(scores, truth, classes, sample, progress, predict, odds_of)
    if sample is None:
        return evaluation
    best = sample.best(None if classes is None else len(classes))
    return replace(evaluation, baseline=replace(evaluation.baseline, best_feature=best))


def ignore_progress(done: int, total: int) -> None:
    """Do nothing, as the default of functions that report progress."""


def _evaluate_values(scores: Scores, truth: Truth, sample: FeatureSample | None, progress: CountProgress) -> Evaluation:
    tally, scatter = ValueTally(), Scatter(truth.rows)
    for window, values, weight in truth.beside(scores):
        tally.add(values, window, weight)
        scatter.add(values, window)
        if sample is not None:
            sample.add(values)
        progress(tally.rows, truth.rows)
    metrics = {"r2": tally.r_squared, "mse": tally.squared.mean, "mae": tally.absolute.mean}
    intervals = {"r2": tally.r_squared_interval, "mse": tally.squared.interval, "mae": tally.absolute.interval}
    baseline = value_baseline(tally.target_mean, tally.target_variance)
    curves = {"scatter": scatter.record()}
    return Evaluation(tally.rows, 0, truth.weighted, metrics, intervals, None, baseline, curves=curves)


def _evaluate_targets(
    scores: Scores, truth: Truth, targets: Sequence[str], sample: FeatureSample | None, progress: CountProgress
) -> Evaluation:
    """Return the metrics of several real targets: means over the targets, and those of every target."""
    tallies, squared, absolute = [ValueTally() for _ in targets], MeanTally(), MeanTally()
    for window, values, weight in truth.beside(scores):
        squared.add(((values - window) ** 2).mean(axis=1), weight)
        absolute.add(np.abs(values - window).mean(axis=1), weight)
        for number, tally in enumerate(tallies):
            tally.add(values[:, number], window[:, number], weight)
        if sample is not None:
            sample.add(values)
        progress(tallies[0].rows, truth.rows)
    ends = np.array([tally.r_squared_interval for tally in tallies])
    columns = {
        "r2": [tally.r_squared for tally in tallies],
        "mse": [tally.squared.mean for tally in tallies],
        "mae": [tally.absolute.mean for tally in tallies],
    }
    metrics = {name: float(np.mean(values)) for name, values in columns.items()}
    intervals = {"r2": mean_interval(ends), "mse": squared.interval, "mae": absolute.interval}
    numbers = {name: np.array(values) for name, values in columns.items()}
    per_target = {"target": np.array(targets, object), **numbers, "r2_interval": ends}
    baseline = target_baseline(float(np.mean([tally.target_variance for tally in tallies])))
    rows = tallies[0].rows
    return Evaluation(rows, 0, truth.weighted, metrics, intervals, None, baseline, per_target)


def _evaluate_classes(
    scores: Scores,
    truth: Truth,
    classes: Sequence[Label],
    sample: FeatureSample | None,
    progress: CountProgress,
    predict: Callable[[NDArray[np.float64]], NDArray[np.int64]],
    odds_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Evaluation:
    """Return the metrics of classes; progress counts every row once, and once more for each class."""
    tally, loss, count = ClassTally(len(classes), truth.n_labels), MeanTally(), len(classes)
    confusion, calibration = Confusion(count), CalibrationBins()
    with tempfile.TemporaryFile() as file:  # it has no name: a killed process leaves nothing behind
        ranks = SortedScores(file, count)
        for window, numbers, weight in truth.beside(scores):
            odds, predicted = odds_of(window), predict(window)
            tally.add(numbers, predicted, weight)
            confusion.add(numbers, predicted, weight)
            if count == 2:
                calibration.add(odds[:, 1], numbers == 1, weight)
            loss.add(_known_losses(odds, numbers), weight)
            ranks.add(odds, numbers, weight)
            if sample is not None:
                sample.add(numbers)
            progress(int(tally.rows.sum()), truth.rows * (1 + count))
        qualities, members = [], tally.weights
        roc = RocCurve(members[1], members.sum() - members[1]) if count == 2 else None
        for number in range(count):
            qualities.append(rank_quality(ranks.merge(number), roc if number == 1 else None))
            progress(truth.rows * (2 + number), truth.rows * (1 + count))
    per_class = _per_class(tally, qualities, classes)
    overall = qualities[1:] if count == 2 else qualities
    metrics = {
        "accuracy": tally.accuracy,
        "balanced_accuracy": tally.balanced_accuracy,
        "log_loss": loss.mean,
        "roc_auc": mean_known(np.array([quality.roc_auc for quality in overall])),
        "average_precision": mean_known(np.array([quality.average_precision for quality in overall])),
    }
    intervals = {
        "accuracy": tally.accuracy_interval,
        "balanced_accuracy": tally.balanced_accuracy_interval,
        "log_loss": loss.interval,
        "roc_auc": mean_area_interval("roc_auc", overall),
        "average_precision": mean_area_interval("average_precision", overall),
    }
    unknown = int(tally.rows[count:].sum())
    baseline = class_baseline(tally.shares, classes)
    curves: dict[str, Any] = {"confusion": confusion.record()}
    if roc is not None:
        curves |= {"roc": roc.record(), "calibration": calibration.record()}
    return Evaluation(truth.rows, unknown, truth.weighted, metrics, intervals, per_class, baseline, curves=curves)


def _known_losses(odds: NDArray[np.float64], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log losses of rows, or only NaN if a label is not among the classes and so has no probability."""
    return log_losses(odds, numbers) if numbers.max() < odds.shape[1] else np.full(len(odds), math.nan)


def _per_class(
    tally: ClassTally, qualities: Sequence[RankQuality], classes: Sequence[Label]
) -> dict[str, NDArray[Any]]:
    return {
        "class": np.array(classes),
        "rows": tally.rows[: len(classes)],
        "precision": tally.precision,
        "recall": tally.recall,
        "roc_auc": np.array([quality.roc_auc for quality in qualities]),
        "average_precision": np.array([quality.average_precision for quality in qualities]),
        "recall_interval": tally.recall_intervals,
    }


def _check_target_names(dataset: Dataset, targets: Sequence[str] | None) -> None:
    """Raise OptionError unless the targets of a dataset are those that the selection predicts."""
    own = dataset.target_names
    if own == (None if targets is None else tuple(targets)):
        return
    has = "one target" if own is None else f"the targets {', '.join(own[:5])}{', …' if len(own) > 5 else ''}"
    wants = "one" if targets is None else f"{', '.join(targets[:5])}{', …' if len(targets) > 5 else ''}"
    raise OptionError(f"{dataset.url}: has {has}, the selection predicts {wants}: write the data with the same targets")


def _values(source: Dataset | NDArray[Any]) -> Iterable[NDArray[np.float64]]:
    """Return the values of a real target as an iterable of arrays of consecutive rows."""
    if isinstance(source, Dataset):
        numbers = source.classes is None or not isinstance(source.classes[0], str)
    else:
        numbers = source.dtype.kind in "biuf"
    if not numbers:
        raise OptionError("the selection predicts numbers, and these labels are none")
    return source.targets() if isinstance(source, Dataset) else [source.astype(np.float64)]


def _labels(source: Dataset | NDArray[Any]) -> tuple[Sequence[Label], Iterable[NDArray[np.int64]]]:
    """Return the distinct labels of a target, and arrays of the label numbers of consecutive rows."""
    if not isinstance(source, Dataset):
        labels, codes = np.unique(source, return_inverse=True)
        return labels.tolist(), [codes]
    if source.classes is None:
        raise OptionError(f"{source.url}: its labels are real numbers, the selection tells classes apart")
    return source.classes, map(source.meta.class_codes, source.targets())


def _positions(labels: Sequence[Label], classes: Sequence[Label]) -> NDArray[np.int64]:
    """Return the positions of labels among the classes; labels of no class get numbers beyond the last class."""
    known = {label: number for number, label in enumerate(classes)}
    if not any(label in known for label in labels):
        raise OptionError(
            f"labels such as {labels[0]!r:.80} are none of the selection's classes, such as {classes[0]!r:.80}"
        )
    return np.array([known.get(label, len(classes) + number) for number, label in enumerate(labels)])
