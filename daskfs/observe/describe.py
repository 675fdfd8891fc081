"""The facts on a dataset that `daskfs info` shows: a dict for JSON and a table for a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from daskfs.engine.sizes import format_bytes
from daskfs.errors import public_url
from daskfs.observe.terminal import printable
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.ingest.formats.dates import FIRST_DAY, first_day_of, in_words, other_order
from daskfs.store.ingest.gaps import GAP, indicator_name

NAMES = {
    "ids": "the feature's number",
    "columns": "the source's column names",
    "table": "hashed strings, kept in a table on disk",
    "kmers": "decoded from the id",
}

ORDER = {True: "mixed", False: "labels come in runs", None: "unknown"}


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return facts on a dataset, such as size, labels and storage, without reading features."""
    main = dataset.arrays["X" if dataset.kind == "dense" else "ids" if dataset.layout == "rows" else "rows"]
    values = dataset.arrays.get("X" if dataset.kind == "dense" else "values")
    cells = dataset.n_samples * dataset.n_features
    return {
        "url": public_url(dataset.url),
        "kind": dataset.kind,
        "layout": dataset.layout,
        "samples": dataset.n_samples,
        "features": dataset.n_features,
        "entries": dataset.n_entries,
        "entries_per_row": dataset.n_entries / dataset.n_samples,
        "density": dataset.n_entries / max(cells, 1),
        "values": str(values.dtype) if values else "all ones",
        "labels": _labels(dataset),
        "mixed": dataset.attributes.get("mixed"),
        "sorted": dataset.is_sorted,
        "weights": "weight" in dataset.arrays,
        "tags": "tag" in dataset.arrays,
        "names": dataset.attributes["names"]["from"],
        "blocks": dataset.n_blocks(),
        "chunks": sum(spec.n_chunks for spec in dataset.content.values()),
        "chunk_bytes": math.prod(main.chunks) * main.dtype.itemsize,
        "compression": main.codec.compression,
        "stored_bytes": dataset.stored_bytes,
        "digest": dataset.digest,
        "missing": dataset.attributes.get("missing"),
        "columns": dataset.attributes.get("columns"),
        "made": dataset.attributes.get("made", {}),
    }


def order_remark(dataset: Dataset) -> str | None:
    """Return a line on rows that came in runs of labels, or are sorted: what was done, or what to do; else None."""
    origin = dataset.attributes.get("made", {})
    if origin.get("by") == "ingest" and "autocorrelation" in origin:
        runs = f"labels came in runs (autocorrelation {origin['autocorrelation']:.2f})"
        return f"{runs}: the rows were shuffled; --order as-is keeps them as they came"
    if dataset.layout != "columns" and dataset.is_sorted:
        return (
            "rows are sorted by label: MISSION, which learns row by row, makes a copy in random order for every run; "
            "daskfs shuffle makes one that stays"
        )
    return None


def _labels(dataset: Dataset) -> dict[str, Any]:
    if dataset.target_names is not None:
        return {"kind": "targets", "targets": dict(zip(dataset.target_names, _ranges(dataset), strict=True))}
    if dataset.classes is None:
        return {"kind": "real", **_ranges(dataset)[0]}
    counts = np.zeros(len(dataset.classes), np.int64)
    meta = dataset.meta
    for y in dataset.targets():
        counts += np.bincount(meta.class_codes(y), minlength=len(counts))
    names = [label if isinstance(label, str) else f"{label:g}" for label in dataset.classes]
    return {"kind": "classes", "counts": dict(zip(names, counts.tolist(), strict=True))}


def _ranges(dataset: Dataset) -> list[dict[str, float]]:
    """Return smallest, largest and mean value of every target."""
    count = len(dataset.target_names or ("",))
    low, high, total = np.full(count, math.inf), np.full(count, -math.inf), np.zeros(count)
    for y in dataset.targets():
        values = y.reshape(len(y), -1)
        low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
        total += values.sum(axis=0)
    ranges = zip(low.tolist(), high.tolist(), (total / dataset.n_samples).tolist(), strict=True)
    return [dict(zip(("min", "max", "mean"), values, strict=True)) for values in ranges]


def info_table(facts: dict[str, Any]) -> Table:
    """Return the facts of `describe` as a table for a terminal."""
    table = Table(
        title=Text(printable(facts["url"])), title_justify="left", show_header=False, box=None, padding=(0, 2)
    )
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    stored = format_bytes(facts["stored_bytes"])
    left_out = facts["made"].get("bad_lines")
    lines = {
        "kind": f"{facts['kind']}, in {facts['layout'] if facts['layout'] != 'both' else 'columns and rows'}",
        "shape": f"{facts['samples']:,} samples x {facts['features']:,} features"
        + (" (ids below that)" if facts["kind"] == "sparse" and facts["names"] in ("ids", "kmers") else ""),
        "labels": _label_line(facts["labels"]),
        "order": "sorted by label" if facts["sorted"] else ORDER[facts["mixed"]],
        "density": f"{facts['density']:.3g}  ({facts['entries']:,} entries, {facts['entries_per_row']:,.1f} a row)",
        "values": facts["values"],
        "stored": f"{stored} in {facts['chunks']:,} chunks, {facts['compression']} + crc32c",
        "blocks": f"{facts['blocks']:,}, chunks of {format_bytes(facts['chunk_bytes'])}",
        "names": NAMES[facts["names"]],
        "rows have": ", ".join(what for what in ("weights", "tags") if facts[what]),
        "left out": f"{left_out:,} bad lines" if left_out else "",
        "digest": facts["digest"][:16],
    }
    for label, value in lines.items():
        if value:
            table.add_row(label, Text(printable(value)))  # Text, so that nothing in a name is taken for markup
    return table


MOST_LINES = 40  # of a table of columns in a terminal
KINDS = {
    "label": "label",
    "numeric": "number",
    "boolean": "boolean: 0 or 1",
    "date": "date: seconds since",
    "time": "time: seconds",
    "categorical": "category: 0 or 1 a text",
    "identifier": "identifier: left out",
    "ignored": "left out",
}


FILLED = {
    "auto": "filled with the mean",
    "mean": "filled with the mean",
    "median": "filled with the median",
    "indicator": f"filled with the mean, and marked by a feature {indicator_name('NAME')}",
    "drop": "whose rows are left out",
    "zero": "taken for 0",
}
"""What becomes of a missing number, by the choice of `Missing`."""


def columns_table(facts: Mapping[str, Any]) -> Table | None:
    """Return what an ingest decided for every column as a table for a terminal, or None for data without columns.

    In a wide table, columns of numbers without gaps are only counted.
    """
    columns = facts.get("columns")
    if not columns:
        return None
    plain = [row for row in columns if row["kind"] == "numeric" and "gaps" not in row]
    special = [row for row in columns if len(columns) <= MOST_LINES or row not in plain]
    table = Table("column", "what it is", "gaps", box=None, padding=(0, 2))
    for row in special[:MOST_LINES]:
        table.add_row(*(Text(printable(cell)) for cell in (row["column"], _kind_line(row), _gap_line(row, facts))))
    if len(special) > MOST_LINES:
        table.add_row("…", f"{len(special) - MOST_LINES:,} more (daskfs info --json)", "")
    if len(columns) > MOST_LINES and plain:
        table.add_row("…", f"{len(plain):,} columns of numbers without gaps", "")
    return table


def decision_lines(dataset: Dataset) -> list[str]:
    """Return lines on what an ingest decided: columns, what was left out, gaps, and order of rows."""
    columns = dataset.attributes.get("columns") or []
    lines = []
    if columns:
        counts = Counter(row["kind"] for row in columns)
        words = {"numeric": "number", "categorical": "category", "date": "date", "time": "time", "boolean": "boolean"}
        lines.append(
            "columns: " + ", ".join(_counted(counts[kind], word) for kind, word in words.items() if counts[kind])
        )
    lines += _date_lines(columns)
    if unused := [row["column"] for row in columns if row["kind"] == "identifier"]:
        what = "looks like an identifier" if len(unused) == 1 else "look like identifiers"
        lines.append(f"left out: {_some(unused)}, which {what} (--include)")
    if gaps := [row for row in columns if "gaps" in row and row["kind"] not in ("identifier", "ignored")]:
        how = str((dataset.attributes.get("missing") or {}).get("how"))
        lines.append(f"gaps: {_gap_decision(gaps, how)} (--missing; daskfs info {public_url(dataset.url)})")
    lines += _gap_number_lines(columns)
    if n_bad := (dataset.attributes.get("made") or {}).get("bad_lines"):
        lines.append(f"bad lines: {n_bad:,} were left out (--set ingest.on_bad_line=error shows the first)")
    if (remark := order_remark(dataset)) is not None:
        lines.append(f"order: {remark}")
    return lines


def _gap_number_lines(columns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each number that seems to stand for gaps."""
    columns_with: dict[float, list[str]] = {}
    for row in columns:
        if "gap_number" in row:
            columns_with.setdefault(row["gap_number"], []).append(row["column"])
    for number, names in columns_with.items():
        yield f"numbers: {number:.15g} in {_some(names)} is read as a number; leave these cells empty if it means a gap"


def _gap_decision(rows: Sequence[Mapping[str, Any]], how: str) -> str:
    """Return what becomes of the gaps in columns of numbers, and of those in columns of texts."""
    numbers = [row["column"] for row in rows if row["kind"] != "categorical"]
    texts = [row["column"] for row in rows if row["kind"] == "categorical"]
    as_text = "in no category" if how == "zero" else f"a category of its own, {GAP}"
    parts = [f"in {_some(numbers)}, {FILLED.get(how, how)}"] if numbers else []
    return "; ".join(parts + ([f"in {_some(texts)}, {as_text}"] if texts else []))


def _date_lines(columns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each form of dates other than ISO 8601, and for each of which the order is unsure."""
    forms: dict[tuple[str, bool], list[str]] = {}
    for row in columns:
        if form := first_day_of(row.get("format", ""))[0]:
            forms.setdefault((form, "unsure" in row), []).append(row["column"])
    for (form, unsure), names in forms.items():
        what = f"dates: {_some(names)}, read as {in_words(form)}"
        if unsure:
            reason = "since no day is above 12 in the first rows"
            yield f"{what}, {reason} (--date-format {other_order(form)} for the other order)"
        else:
            yield f"{what} (--date-format)"


def _counted(count: int, word: str) -> str:
    """Return a number with its noun.

    >>> _counted(1, "date"), _counted(2, "category")
    ('1 date', '2 categories')
    """
    if count != 1:
        word = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count:,} {word}"


def _some(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(printable(name) or "''" for name in names[:most]) + (
        f" and {len(names) - most:,} more" if len(names) > most else ""
    )


def _kind_line(row: Mapping[str, Any]) -> str:
    day = first_day_of(row.get("format", ""))[1]
    since = f" {2000 if day == FIRST_DAY else day}" if row["kind"] == "date" else ""
    return f"{KINDS[row['kind']]}{since}"


def _gap_line(row: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if "gaps" not in row:
        return ""
    how = (facts.get("missing") or {}).get("how")
    if row["kind"] == "categorical":
        done = "" if how == "zero" else f", {row['column']}=(missing)"
    elif "fill" in row:
        fill = f"{row['fill']:.6g}"
        done = f", filled with the {'median' if how == 'median' else 'mean'} {fill}"
        done += f" and {row['column']}=(missing)" if how == "indicator" else ""
    else:
        done = {"zero": ", taken for 0", "drop": ", rows left out"}.get(str(how), "")
    return f"{row['gaps']:,}{done}"


def _range_line(facts: Mapping[str, float]) -> str:
    return f"{facts['min']:.4g} … {facts['max']:.4g}, mean {facts['mean']:.4g}"


def _label_line(labels: dict[str, Any]) -> str:
    if labels["kind"] == "real":
        return f"real, {_range_line(labels)}"
    if labels["kind"] == "targets":
        targets = list(labels["targets"].items())
        shown = "; ".join(f"{name}, {_range_line(facts)}" for name, facts in targets[:8])
        more = f" and {len(targets) - 8} more" if len(targets) > 8 else ""
        return f"{len(targets)} real targets: {shown}{more}"
    counts = list(labels["counts"].items())
    shown = ", ".join(f"{label} ({count:,})" for label, count in counts[:8])
    more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
    return f"{len(counts)} classes: {shown}{more}"
