"""What the template of the report shows: the records of a run, and all that is computed from them."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import tomli_w

from daskfs.errors import without_secrets
from daskfs.observe.report import plots as report_plots
from daskfs.observe.report.text import counted, interval, label, number, seconds, size, visible
from daskfs.observe.tables import (
    TITLES,
    ValueTable,
    baseline_lines,
    class_table,
    kept_table,
    metric_table,
    size_table,
    target_table,
)
from daskfs.protocol import Words
from daskfs.selection.records import Record
from daskfs.selection.selection import Selection

ENGINE_COLUMNS = {"objective": "objective", "seconds": "time", "bytes": "read"}
"""Titles of the columns that the history of every algorithm has."""
MOST_NAMED = 3  # classes that a sentence names
MOST_CLASSES = 200  # lines of a table
MOST_PARENTS = 10
MOST_PASSES = 200
LONGEST_COMMAND = 4_000


@dataclass(frozen=True, eq=False)
class RunRecords:
    """A selection and the records of metrics, sizes, stability and costs in the same folder."""

    selection: Selection
    words: Words
    """The algorithm's title, titles of history columns, and explanation of the history."""
    record: Record
    """The record of time, memory and versions of the selection run; empty if there is no record."""
    metrics: Record | None
    sizes: Record | None
    stability: Record | None

    @property
    def times(self) -> dict[int, int] | None:
        """The number of selections under several seeds that have each feature, by feature id; None if unknown."""
        record = self.stability
        if record is None or record.get("of") == "inputs" or record.get("identical"):
            return None
        return {feature["id"]: feature["times"] for feature in record["features"]}

    def total(self, name: str, column: str) -> float | None:
        """Return a recorded total, or the sum of a column of the history if there is no record, or None."""
        if self.record.get(name) is not None:
            return float(self.record[name])
        history = self.selection.history
        return float(history[column].sum(skipna=True)) if column in history else None


def default_words(selection: Selection) -> Words:
    """Return the `Words` of an algorithm that is not registered, with its class name and column names as titles."""
    columns = {str(name): str(name).replace("_", " ") for name in selection.history if name not in ENGINE_COLUMNS}
    return Words(str(selection.algorithm.get("name", "")), columns)


def content(run: RunRecords) -> dict[str, Any]:
    """Return the values of the template's variables; texts of datasets and records are still to be escaped."""
    selection, history = run.selection, run.selection.history
    titles = {"objective": ENGINE_COLUMNS["objective"], **run.words.columns, **ENGINE_COLUMNS}
    finite = {str(name): column.values[np.isfinite(column.values)] for name, column in history.items()}
    curves = {
        name: visible(titles[name])
        for name in ("objective", *run.words.curves)
        if len(values := finite.get(name, ())) > 1 and (name == "objective" or np.ptp(values) > 0)
    }
    metrics = None if run.metrics is None else metric_table(run.metrics, selection.classes)
    packages = sorted((run.record.get("packages") or {}).items())
    versions = {"daskfs": run.record.get("daskfs"), "Python": run.record.get("python"), **dict(packages)}
    importance = None if selection.inputs is None else selection.input_importance
    return {
        "run": run,
        "selection": selection,
        "record": run.record,
        "title": headline(selection),
        "score": score(run),
        "seen": seen(run),
        "took": run.total("seconds", "seconds"),
        "read": run.total("bytes_read", "bytes"),
        "metrics": metrics and replace(metrics, rows=[row for row in metrics.rows if row[1] is not None]),
        "baseline": [visible(line, 300) for line in baseline_lines(run.metrics or {})],
        "classes": class_table(run.metrics or {}, MOST_CLASSES, "metrics.json"),
        "targets": target_table(run.metrics or {}, MOST_CLASSES, "metrics.json"),
        "metric": TITLES.get(run.sizes["metric"], "score") if run.sizes else "",
        "sizes": run.sizes and size_table(run.sizes),
        "curves": curves,
        "about_passes": run.words.explain_history({name: values.tolist() for name, values in finite.items()}),
        "passes": pass_table(run, titles),
        "inputs": None if importance is None else list(zip(importance.input.values, importance.values, strict=True)),
        "kept": kept_table(selection, MOST_CLASSES, "selection.json"),
        "pairs": pair_table(selection),
        "command": command(run),
        "fields": [f"{name}={label(value)}" for name, value in selection.algorithm.items() if name != "name"],
        "versions": [f"{name} {version}" for name, version in versions.items() if version],
        "plots": report_plots.plots(run.sizes, run.stability, history, curves),
    }


def headline(selection: Selection) -> str:
    """Return a line on the number of selected features, the number of all features, and the target they predict."""
    selected, features = len(selection.features), selection.source["n_features"]
    s = "s" if selected == 1 else ""
    if selection.targets is not None:
        some = ", ".join(visible(name, 40) for name in selection.targets[:MOST_NAMED])
        more = ", …" if len(selection.targets) > MOST_NAMED else ""
        purpose = f"predict{s} {len(selection.targets):,} numbers ({some}{more})"
    elif selection.classes is None:
        purpose = f"predict{s} a number"
    elif len(selection.classes) > MOST_NAMED:
        purpose = f"tell{s} {len(selection.classes):,} classes apart"
    else:
        *first, last = [visible(label(name), 40) for name in selection.classes]
        purpose = f"tell{s} the classes {', '.join(first)} and {last} apart"
    if selection.inputs is not None:
        return f"{counted(selected, 'random feature')} of {counted(len(selection.inputs.names), 'column')} {purpose}"
    if selection.products is not None:
        return f"{counted(selected, 'feature')} and pairs of {features:,} {purpose}"
    return f"{selected:,} of {counted(features, 'feature')} {purpose}"


def score(run: RunRecords) -> tuple[str, str, str, Any] | None:
    """Return the label, the value and a note on the main score, and low end, value and high end to draw, if known."""
    if run.metrics is None:
        history = run.selection.history
        held_back = history["held_back"].dropna("step").values.tolist() if "held_back" in history else []
        note = "while it was selected; daskfs evaluate says how good it is on unseen data"
        return ("Score on held-back rows", number(held_back[-1]), note, None) if held_back else None
    name = "r2" if run.selection.classes is None else "balanced_accuracy"
    value, ends = run.metrics["metrics"].get(name), run.metrics["intervals"].get(name)
    if value is None:
        return None
    known = interval(ends)
    band = (ends[0], value, ends[1]) if known and min(*ends, value) >= 0 and max(*ends, value) <= 1 else None
    title = TITLES[name] if run.selection.targets is None else f"{TITLES[name]}, mean over targets"
    note = f"{title}, 95 % interval {known}" if known else title
    return f"Score on {seen(run)}", number(value), note, band


def seen(run: RunRecords) -> str:
    """Return a phrase for the data of the evaluation: the selection's own data, unseen data, or test data."""
    metrics = run.metrics or {}
    if metrics.get("digest") == run.selection.source["digest"]:
        return "the data it was selected from"
    return "unseen data" if metrics.get("held_back") is True else "test data"


def pass_table(run: RunRecords, titles: dict[str, str]) -> ValueTable | None:
    """Return a table with a row for every pass, or None if the selection has no history."""
    history = run.selection.history
    columns = {name: history[name].values for name in titles if name in history}
    columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    if not columns:
        return None
    cells = [[_cell(name, value) for value in values[:MOST_PASSES].tolist()] for name, values in columns.items()]
    more = history.sizes["step"] - MOST_PASSES
    note = f"… and {more:,} more; history.zarr has all." if more > 0 else ""
    rows = [(str(number), *row) for number, row in enumerate(zip(*cells, strict=True), 1)]
    return ValueTable(["pass", *(titles[name] for name in columns)], rows, note)


def _cell(name: str, value: float) -> str:
    if name in ("seconds", "bytes"):
        return seconds(value) if name == "seconds" else size(value)
    is_count = name != "objective" and value.is_integer() and abs(value) < 1e15
    return number(value, "{:,.0f}" if is_count else "{:,.6g}")


def pair_table(selection: Selection) -> ValueTable | None:
    """Return a table of the features that take part in most products, or None if there are no products."""
    if selection.products is None:
        return None
    pairs = list(compress(selection.products.names, selection.products.is_product))
    taking_part = Counter(name for pair in pairs for name in set(pair)).most_common(MOST_PARENTS)
    note = f"{len(pairs):,} of the {counted(len(selection.features), 'feature')} are products of two others."
    return ValueTable(("feature", "pairs it is in"), taking_part, note)


def command(run: RunRecords) -> list[str]:
    """Return lines that repeat the selection run: the recorded command or job file, or else a line of Python."""
    recorded = without_secrets(run.record.get("command") or run.record.get("job"))
    if isinstance(recorded, list):
        recorded = shlex.join(map(str, recorded))
    elif isinstance(recorded, dict):
        recorded = tomli_w.dumps(recorded)
    selection = run.selection
    fields = ", ".join(f"{name}={value!r}" for name, value in selection.algorithm.items() if name != "name")
    algorithm = f"daskfs.{selection.algorithm.get('name', '')}({fields})"
    python = f"daskfs.select({selection.source['url']!r}, {algorithm}, seed={selection.seed})"
    return str(recorded or python)[:LONGEST_COMMAND].rstrip().split("\n")
