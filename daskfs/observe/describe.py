"""The facts on a dataset that `daskfs info` shows: a dict for JSON and a table for a terminal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dask.utils import format_bytes
from rich.table import Table
from rich.text import Text

from daskfs.errors import public_url
from daskfs.observe.terminal import printable
from daskfs.store.dataset.dataset import Dataset

NAMES = {
    "ids": "the feature's number",
    "columns": "the source's column names",
    "table": "hashed strings, kept in a table on disk",
    "kmers": "decoded from the id",
}


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
        "weights": "weight" in dataset.arrays,
        "tags": "tag" in dataset.arrays,
        "names": dataset.attributes["names"]["from"],
        "blocks": dataset.n_blocks(),
        "chunks": sum(spec.n_chunks for spec in dataset.content.values()),
        "chunk_bytes": math.prod(main.chunks) * main.dtype.itemsize,
        "compression": main.codec.compression,
        "stored_bytes": dataset.stored_bytes,
        "digest": dataset.digest,
        "made": dataset.attributes.get("made", {}),
    }


def _labels(dataset: Dataset) -> dict[str, Any]:
    if dataset.classes is None:
        low, high, total = math.inf, -math.inf, 0.0
        for y in dataset.targets():
            low, high, total = min(low, float(y.min())), max(high, float(y.max())), total + float(y.sum())
        return {"kind": "real", "min": low, "max": high, "mean": total / dataset.n_samples}
    counts = np.zeros(len(dataset.classes), np.int64)
    meta = dataset.meta
    for y in dataset.targets():
        counts += np.bincount(meta.class_codes(y), minlength=len(counts))
    names = [label if isinstance(label, str) else f"{label:g}" for label in dataset.classes]
    return {"kind": "classes", "counts": dict(zip(names, counts.tolist(), strict=True))}


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


def _label_line(labels: dict[str, Any]) -> str:
    if labels["kind"] == "real":
        return f"real, {labels['min']:.4g} … {labels['max']:.4g}, mean {labels['mean']:.4g}"
    counts = list(labels["counts"].items())
    shown = ", ".join(f"{label} ({count:,})" for label, count in counts[:8])
    more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
    return f"{len(counts)} classes: {shown}{more}"
