"""What `daskfs evaluate` shows of an evaluation: tables for people."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from daskfs.evaluation import Evaluation
from daskfs.observe.selected import shown_label

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
    """The metrics for a terminal."""
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, value in evaluation.metrics.items():
        # Text, so that nothing in a label is taken for markup
        table.add_row(Text(TITLES[name] + _of_what(name, evaluation)), _number(value))
    return table


def class_table(evaluation: Evaluation) -> Table | None:
    """A line for every class, where there are more than two: of two, the metrics say it all."""
    columns = evaluation.per_class
    if columns is None or columns.sizes["class"] <= 2:
        return None
    shown = columns.isel({"class": slice(MOST_CLASSES)})
    names = [str(name) for name in columns.data_vars if name != "rows"]
    table = Table(box=None, padding=(0, 2), header_style="bold")
    table.add_column("class", overflow="fold")
    for title in ("rows", *(TITLES[name] for name in names)):
        table.add_column(title, justify="right")
    for number, label in enumerate(shown["class"].values.tolist()):
        values = [_number(float(shown[name].values[number])) for name in names]
        table.add_row(Text(shown_label(label)), f"{int(shown.rows.values[number]):,}", *values)
    if columns.sizes["class"] > MOST_CLASSES:
        table.caption = f"… and {columns.sizes['class'] - MOST_CLASSES:,} more; --json has all"
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


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}" if abs(value) < 100 else f"{value:.6g}"
