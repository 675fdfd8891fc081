"""Tables and lines about a selection and its evaluation for a terminal, and the JSON of `daskfs show`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from daskfs.observe.terminal import printable
from daskfs.selection.evaluation import Evaluation
from daskfs.selection.intervals import Interval
from daskfs.selection.selection import Selection
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
MOST_CLASSES = 50  # rows of a table; `Evaluation.record` has all classes

STEP = {
    "objective": "objective {:.6g}",
    "changes": "{:,.0f} changes",
    "held_back": "score on held-back rows {:.3f}",
    "seconds": "{:.1f} s",
}
"""Columns of the history that the terminal shows, with their formats."""
MOST_INPUTS = 8  # inputs of random features that a line names
LONGEST_NAME = 100  # characters of a name or a label that a table shows


def selection_record(selection: Selection, top: int | None = None) -> dict[str, Any]:
    """Return a selection and its history as a dict for JSON, with all features or the first `top`."""
    record = selection.record()
    history = {str(name): [_finite(x) for x in column.values.tolist()] for name, column in selection.history.items()}
    return {"features": record.pop("features")[:top], "score": _score(selection), **record, "history": history}


def selection_lines(selection: Selection) -> list[str]:
    """Return lines of text on the features, the dataset, the algorithm and every pass."""
    fields = [f"{name}={value}" for name, value in selection.algorithm.items() if name != "name"]
    pairs = "" if selection.products is None else "and pairs "
    size = f"{len(selection.features):,} {pairs}of {selection.source['n_features']:,} features"
    wanted = selection.algorithm.get("n_select") or 0
    if len(selection.features) < wanted:
        size += f" (the {wanted:,} asked for are not there)"
    if selection.inputs is not None:
        size = f"{len(selection.features):,} random features"
    return [
        f"{size} of {selection.source['url']}, {selection.source['n_samples']:,} samples",
        f"{selection.algorithm.get('name', '')}({', '.join(fields)}), seed {selection.seed}",
        *(f"{name} chosen by the data: {value}" for name, value in selection.chosen.items()),
        *_step_lines(selection),
        *_input_lines(selection),
    ]


def feature_table(selection: Selection, top: int) -> Table:
    """Return a table of the most important features for a terminal."""
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("rank", justify="right")
    table.add_column("feature", overflow="fold")
    table.add_column("importance", justify="right")
    table.add_column(_weight_title(selection))
    # Text, so that nothing in a name or label is taken for markup
    rows = zip(selection.names[:top], selection.importance[:top], selection.weights[:top], strict=True)
    for rank, (name, share, weight) in enumerate(rows, 1):
        table.add_row(str(rank), Text(_short(name)), f"{share:.2%}", Text(_weight(weight, selection)))
    for record in () if selection.kept is None else zip(selection.kept.names, selection.kept.weights, strict=True):
        table.add_row("kept", Text(_short(record[0])), "", Text(_weight(record[1], selection)))
    return table


def metric_table(evaluation: Evaluation) -> Table:
    """Return a table of the metrics and their intervals for a terminal."""
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
    """Return a table of metrics with a row for every class, or None for two classes or a real target."""
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
    """Return a table of scores of the first n features for several n, and of all features as selected."""
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
    """Return a line on the selection run, the dataset and the number of rows of an evaluation."""
    unknown = f", {evaluation.unknown_rows:,} with labels it does not know" if evaluation.unknown_rows else ""
    return f"{run} on {dataset}: {evaluation.rows:,} rows{', weighted' if evaluation.weighted else ''}{unknown}"


def _of_what(name: str, evaluation: Evaluation) -> str:
    """Return the class that an area under a curve is about, as text; empty for other metrics."""
    if name not in ("roc_auc", "average_precision") or evaluation.per_class is None:
        return ""
    labels = evaluation.per_class["class"].values.tolist()
    return f" ({shown_label(labels[1])})" if len(labels) == 2 else " (mean over classes)"


def _interval(ends: Interval) -> str:
    return "-" if math.isnan(ends[0]) else f"{_number(ends[0])} to {_number(ends[1])}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 100 else f"{value:.6g}"


def _weight_title(selection: Selection) -> Text:
    if selection.classes is None:
        return Text("weight")
    if selection.weights.ndim == 2:
        return Text("largest weight, of class")
    return Text(f"weight (above 0: {shown_label(selection.classes[1])})")


def _weight(weight: NDArray[np.float64], selection: Selection) -> str:
    if weight.ndim == 0 or selection.classes is None:
        return f"{weight:+.4g}"
    largest = int(np.abs(weight).argmax())
    return f"{weight[largest]:+.4g}  {shown_label(selection.classes[largest])}"


def shown_label(label: float | str) -> str:
    """Return a class label as text for a terminal."""
    return _short(label) if isinstance(label, str) else f"{label:g}"


def _short(text: str) -> str:
    return printable(text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…")


def _step_lines(selection: Selection) -> list[str]:
    known = [name for name in STEP if name in selection.history]
    lines = []
    for step in range(selection.history.sizes["step"]):
        values = {name: float(selection.history[name].values[step]) for name in known}
        parts = [STEP[name].format(value) for name, value in values.items() if not math.isnan(value)]
        lines.append(f"step {step + 1}: {', '.join(parts)}")
    return lines


def _input_lines(selection: Selection) -> list[str]:
    """Return a line on the most important inputs of random features, or no line for other features."""
    if selection.inputs is None:
        return []
    shares = selection.input_importance[:MOST_INPUTS]
    parts = [f"{_short(str(name))} {share:.1%}" for name, share in zip(shares.input.values, shares.values, strict=True)]
    return [f"inputs that matter: {', '.join(parts)}{', …' if len(selection.inputs.names) > MOST_INPUTS else ''}"]


def _score(selection: Selection) -> float | None:
    """Return the last score on held-back rows in the history, or None if the algorithm held no rows back."""
    held_back = selection.history.get("held_back")
    return None if held_back is None or not held_back.size else _finite(float(held_back.values[-1]))


def _finite(value: float) -> float | None:
    """Return a number, or None for NaN and infinity, which JSON lacks."""
    return value if math.isfinite(value) else None
