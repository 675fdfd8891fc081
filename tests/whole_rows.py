"""All rows of a small dataset as plain Python records, to compare datasets cut in different ways."""

from __future__ import annotations

import daskfs
from daskfs.protocol import RowBlock

Row = tuple[tuple[int, ...], tuple[float, ...], str, float, str]


def rows_of(ds: daskfs.Dataset) -> list[Row]:
    """Ids, values, label, weight and tag of every row, in order."""
    rows: list[Row] = []
    for number, block in enumerate(ds.blocks(axis="rows")):
        labels = [str(ds.classes[int(y)]) if ds.attributes["labels"]["kind"] == "strings" else str(y) for y in block.y]
        weights = [1.0] * len(labels) if block.weight is None else block.weight.tolist()
        if isinstance(block, RowBlock):
            rows += [((), tuple(x), *rest, "") for x, *rest in zip(block.X.tolist(), labels, weights, strict=True)]
            continue
        for i, (label, weight, tag) in enumerate(zip(labels, weights, ds.tags(number), strict=True)):
            here = slice(block.indptr[i], block.indptr[i + 1])
            rows.append((tuple(block.ids[here].tolist()), tuple(block.values[here].tolist()), label, weight, tag))
    return rows
