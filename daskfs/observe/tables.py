"""Tables about a selection and its evaluation for terminal and report, and the texts and JSON of `daskfs show`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from daskfs.observe.terminal import printable
from daskfs.selection.records import Record, without_nan
from daskfs.selection.selection import Selection

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
STEP = {
    "objective": "objective {:.6g}",
    "changes": "{:,.0f} changes",
    "held_back": "score on held-back rows {:.3f}",
    "seconds": "{:.1f} s",
}
"""Columns of the history that the terminal shows, with their formats."""
MOST_TARGETS = 4  # targets whose weights a table of features shows
MOST_INPUTS = 8  # inputs of random features that a line names
LEAST_SHARE = 0.0005  # of an input that is named; a smaller one is 0.0 % with one digit
LONGEST_NAME = 100  # characters of a name or a label that a table shows


@dataclass(frozen=True, slots=True)
class ValueTable:
    """A table of texts, numbers, intervals (pairs of numbers) and unknown values (None), not formatted yet."""

    titles: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


def metric_table(record: Record, classes: Sequence[float | str] | None) -> ValueTable:
    """Return a table of the metrics in a record of `Evaluation` with their intervals and those of the baseline."""
    of = "" if classes is None else f" ({shown(classes[1])})" if len(classes) == 2 else " (mean over classes)"
    about = {"roc_auc": of, "average_precision": of}
    if record.get("per_target"):
        about = dict.fromkeys(("r2", "mse", "mae"), " (mean over targets)")
    rows = [
        [TITLES.get(name, name) + about.get(name, ""), value, record["intervals"].get(name)]
        for name, value in record["metrics"].items()
    ]
    titles, others = ["metric", "value", "95 % interval"], []
    if (baseline := record.get("baseline")) is not None:
        others.append((f"always {shown(baseline['answer'])}", baseline["metrics"]))
    if (univariate := record.get("univariate")) is not None:
        others.append((f"{univariate['features']:,} chosen one by one", univariate["metrics"]))
    for title, metrics in others:
        titles.append(title)
        for row, name in zip(rows, record["metrics"], strict=True):
            row.append(metrics.get(name))
    return ValueTable(titles, rows)


def baseline_lines(record: Record) -> list[str]:
    """Return sentences on a record of `Evaluation`: the best single feature, and whether the metrics mean anything."""
    best = (record.get("baseline") or {}).get("best_feature")
    lines = []
    if best:
        rows = "" if best["rows"] == record["rows"] else f", on {best['rows']:,} of the rows"
        lines.append(
            f"the best single feature, {shown(best['name'])}: {TITLES[best['metric']]} {best['value']:.4f}{rows}"
        )
    return [*lines, record["verdict"]] if record.get("verdict") else lines


def class_table(record: Record, most: int, where: str) -> ValueTable | None:
    """Return a table of metrics for the first `most` classes, or None for two classes or a real target.

    A table that is cut says `where` the metrics of all classes are.
    """
    lines = record.get("per_class") or []
    if len(lines) <= 2:
        return None
    titles = {"class": "class", "rows": "rows", **TITLES, "recall_interval": "95 % interval of recall"}
    known = [name for name in titles if any(line.get(name) is not None for line in lines)]
    rows = [(shown(line["class"]), *(line.get(name) for name in known[1:])) for line in lines[:most]]
    note = f"… and {len(lines) - most:,} more; {where} has all" if len(lines) > most else ""
    return ValueTable([titles[name] for name in known], rows, note)


def target_table(record: Record, most: int, where: str) -> ValueTable | None:
    """Return a table of metrics for the first `most` of several targets, or None for one target and for classes."""
    lines = record.get("per_target") or []
    if not lines:
        return None
    titles = {name: TITLES[name] for name in ("r2", "mse", "mae")} | {"r2_interval": "95 % interval of R²"}
    rows = [(shown(line["target"]), *(line.get(name) for name in titles)) for line in lines[:most]]
    note = f"… and {len(lines) - most:,} more; {where} has all" if len(lines) > most else ""
    return ValueTable(["target", *titles.values()], rows, note)


def size_table(record: Record) -> ValueTable:
    """Return a table of scores of the first n features for several n, and of all features as selected."""
    rows = list(zip(record["sizes"], record["scores"], record["intervals"], strict=True))
    note = ""
    if own := record.get("as_selected"):
        rows.append((f"as selected, {own['size']:,}", own["score"], own["interval"]))
        note = f"no more than the first {rows[-2][0]:,} are refitted" if own["size"] > rows[-2][0] else ""
    return ValueTable(("first features", TITLES.get(record["metric"], "score"), "95 % interval"), rows, note)


def feature_table(selection: Selection, top: int) -> ValueTable:
    """Return a table of the most important features, and of the features that were kept whatever their importance."""
    lines = zip(selection.names[:top], selection.importance[:top], selection.weights[:top], strict=True)
    statistics = list(zip(*(values[:top].tolist() for values in selection.statistics.values()), strict=True))
    rows: list[tuple[Any, ...]] = [
        (rank, name, f"{share:7.2%}", *_weights(weight, selection), *(f"{number:.3g}" for number in numbers))
        for rank, ((name, share, weight), numbers) in enumerate(zip(lines, statistics or repeat(()), strict=False), 1)
    ]
    if selection.kept is not None:
        kept = zip(selection.kept.names, selection.kept.weights, strict=True)
        rows += [("kept", name, "", *_weights(weight, selection)) for name, weight in kept]
    more = len(selection.targets or ()) - MOST_TARGETS
    note = f"… and weights of {more:,} more targets; --json has all" if more > 0 else ""
    titles = ("rank", "feature", "importance", *_weight_titles(selection))
    return ValueTable((*titles, *(name.replace("_", "-") for name in selection.statistics)), rows, note)


def kept_table(selection: Selection, most: int, where: str) -> ValueTable | None:
    """Return a table of the first `most` features that the user asked to keep, or None if there are none."""
    kept = selection.kept
    if kept is None:
        return None
    lines = zip(kept.names[:most], kept.weights[:most], strict=True)
    rows = [(name, *_weights(weight, selection)) for name, weight in lines]
    note = f"… and {len(kept.names) - most:,} more; {where} has all" if len(kept.names) > most else ""
    return ValueTable(("feature", *_weight_titles(selection)), rows, note)


def _weight_titles(selection: Selection) -> list[str]:
    if selection.targets is not None:
        return [f"weight of {shown(name)}" for name in selection.targets[:MOST_TARGETS]]
    if selection.classes is None:
        return ["weight"]
    is_binary = selection.weights.ndim == 1
    return [f"weight (above 0: {shown(selection.classes[1])})" if is_binary else "largest weight, of class"]


def _weights(weight: NDArray[np.float64], selection: Selection) -> list[str]:
    if selection.targets is not None:  # in different units: none is the largest
        return [f"{number:+.4g}" for number in weight[:MOST_TARGETS].tolist()]
    if weight.ndim == 0 or selection.classes is None:
        return [f"{weight:+.4g}"]
    largest = int(np.abs(weight).argmax())
    return [f"{weight[largest]:+.4g}  {shown(selection.classes[largest])}"]


def terminal_table(table: ValueTable) -> Table:
    """Return a table for a terminal, with numbers on the right."""
    padding = 0, 2 if len(table.titles) < 5 else 1  # for terminals of 80 columns
    result = Table(box=None, padding=padding, header_style="bold", caption=table.note or None)
    for title, value in zip(table.titles, table.rows[0] if table.rows else table.titles, strict=True):
        result.add_column(Text(title), justify="left" if isinstance(value, str) else "right", overflow="fold")
    for row in table.rows:
        result.add_row(*(Text(_cell(value)) for value in row))  # Text, so that nothing in a name is taken for markup
    return result


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return " to ".join(map(_cell, value)) if None not in value else "-"
    return "-" if value is None else f"{value:.4f}" if abs(value) < 100 else f"{value:.6g}"


def shown(label: float | str) -> str:
    """Return a name or a class label as text for a terminal, cut if it is long."""
    if not isinstance(label, str):
        return f"{label:g}"
    return printable(label if len(label) <= LONGEST_NAME else label[: LONGEST_NAME - 1] + "…")


def selection_record(selection: Selection, top: int | None = None) -> dict[str, Any]:
    """Return a selection and its history as a dict for JSON, with all features or the first `top`.

    The score is the last one on held-back rows in the history, or None if the algorithm held no rows back.
    """
    record = selection.record()
    history = without_nan(selection.steps)
    score = (history.get("held_back") or [None])[-1]
    return {"features": record.pop("features")[:top], "score": score, **record, "history": history}


def selection_lines(selection: Selection) -> list[str]:
    """Return lines of text on the features, the dataset, the algorithm and every pass."""
    fields = [f"{name}={value}" for name, value in selection.algorithm.items() if name != "name"]
    pairs = "" if selection.products is None else "and pairs "
    size = f"{len(selection.features):,} {pairs}of {selection.source['n_features']:,} features"
    wanted = selection.algorithm.get("n_select") or 0
    if len(selection.features) < wanted and selection.error_control is None:
        size += f" (the {wanted:,} asked for are not there)"
    if selection.inputs is not None:
        size = f"{len(selection.features):,} random features"
    return [
        *error_lines(selection),
        f"{size} of {selection.source['url']}, {selection.source['n_samples']:,} samples",
        f"{selection.algorithm.get('name', '')}({', '.join(fields)}), seed {selection.seed}",
        *(f"{name} chosen by the data: {value}" for name, value in selection.chosen.items()),
        *_step_lines(selection),
        *input_lines(selection),
    ]


def _step_lines(selection: Selection) -> list[str]:
    lines = []
    for step in range(len(selection.steps["objective"])):
        values = {name: float(selection.steps[name][step]) for name in STEP if name in selection.steps}
        parts = [STEP[name].format(value) for name, value in values.items() if not math.isnan(value)]
        lines.append(f"step {step + 1}: {', '.join(parts)}")
    return lines


def error_lines(selection: Selection) -> list[str]:
    """Return a line on how many features are expected to be false, or no line without error control."""
    return [] if selection.error_control is None else [f"error control: {selection.error_control.sentence}"]


def input_lines(selection: Selection) -> list[str]:
    """Return a line on the most important inputs of random features, or no line for other features."""
    if selection.inputs is None:
        return []
    inputs, n_zero = inputs_that_matter(selection)
    parts = [f"{shown(name)} {share:.1%}" for name, share in inputs[:MOST_INPUTS]]
    parts += [f"{len(inputs) - MOST_INPUTS:,} more"] if len(inputs) > MOST_INPUTS else []
    parts += [f"{n_zero:,} other{'s' if n_zero > 1 else ''} 0.0%"] if n_zero else []
    return [f"inputs that matter: {', '.join(parts)}"]


def inputs_that_matter(selection: Selection) -> tuple[list[tuple[str, float]], int]:
    """Return the inputs of random features with their importance, and the number of those that would show as 0.0 %."""
    shares = selection.input_importance
    pairs = [(str(name), float(share)) for name, share in zip(shares.input.values, shares.values, strict=True)]
    inputs = [(name, share) for name, share in pairs if share >= LEAST_SHARE]
    return inputs, len(pairs) - len(inputs)
