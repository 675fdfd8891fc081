"""What `daskfs evaluate` shows of an evaluation: tables for people."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from daskfs.observe.selected import shown_label
from daskfs.selection.evaluation import Evaluation
from daskfs.selection.intervals import Interval
from daskfs.selection.sizes import SizePath

TITLES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "r2": "R²",
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "precision": "precision",
    "recall": "recall",
}
MOST_CLASSES = 50  # lines of a table; `Evaluation.record` has all


def metric_table(evaluation: Evaluation) -> Table:
    """The metrics and their intervals for a terminal."""
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column("95 % interval", justify="right")
    for name, value in evaluation.metrics.items():
        # Text, so that nothing in a label is taken for markup
        title = Text(TITLES[name] + _of_what(name, evaluation))
        table.add_row(title, _number(value), _interval(evaluation.intervals[name]))
    return table


def class_table(evaluation: Evaluation) -> Table | None:
    """A line for every class, where there are more than two: of two, the metrics say it all."""
    columns = evaluation.per_class
    if columns is None or columns.sizes["class"] <= 2:
        return None
    shown = columns.isel({"class": slice(MOST_CLASSES)})
    names = [str(name) for name in columns.data_vars if name in TITLES]
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("class", overflow="fold")
    for title in ("rows", *(TITLES[name] for name in names), "95 % interval of recall"):
        table.add_column(title, justify="right")
    for number, label in enumerate(shown["class"].values.tolist()):
        values = [_number(float(shown[name].values[number])) for name in names]
        low, high = shown.recall_interval.values[number].tolist()
        table.add_row(Text(shown_label(label)), f"{int(shown.rows.values[number]):,}", *values, _interval((low, high)))
    if columns.sizes["class"] > MOST_CLASSES:
        table.caption = f"… and {columns.sizes['class'] - MOST_CLASSES:,} more; --json has all"
    return table


def size_table(path: SizePath) -> Table:
    """The score of the first features, by their number, and of all as they were selected."""
    table = Table(box=None, padding=(0, 2), header_style="bold")
    for title in ("first features", TITLES[path.metric], "95 % interval"):
        table.add_column(title, justify="right")
    for size, score, ends in zip(path.sizes, path.scores, path.intervals, strict=True):
        table.add_row(f"{size:,}", _number(score), _interval(ends))
    score, ends = path.as_selected
    table.add_row(f"as selected, {path.n_features:,}", _number(score), _interval(ends))
    if path.n_features > path.sizes[-1]:
        table.caption = f"no more than the first {path.sizes[-1]:,} are refitted"
    return table


def evaluation_line(evaluation: Evaluation, dataset: str, run: str) -> str:
    """What was evaluated, on what."""
    unknown = f", {evaluation.unknown_rows:,} with labels it does not know" if evaluation.unknown_rows else ""
    return f"{run} on {dataset}: {evaluation.rows:,} rows{', weighted' if evaluation.weighted else ''}{unknown}"


def _of_what(name: str, evaluation: Evaluation) -> str:
    """Whose area it is: the second of two classes, or the mean of several."""
    if name not in ("roc_auc", "average_precision") or evaluation.per_class is None:
        return ""
    labels = evaluation.per_class["class"].values.tolist()
    return f" ({shown_label(labels[1])})" if len(labels) == 2 else " (mean over classes)"


def _interval(ends: Interval) -> str:
    return "-" if math.isnan(ends[0]) else f"{_number(ends[0])} to {_number(ends[1])}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 100 else f"{value:.6g}"
