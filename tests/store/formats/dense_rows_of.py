"""Run a format of dense tables over files in memory, as `rows_of` does for sparse ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.ingest.rows import BadLines, DenseBuilder
from daskfs.store.ingest.sources import find_sources


class DenseRows(NamedTuple):
    """Everything a format made of some files, its batches concatenated."""

    X: NDArray[Any]
    y: NDArray[np.float64]
    columns: list[str]
    labels: list[str]
    bad: BadLines


def dense_rows_of(
    format: Any,
    paths: Sequence[str | Path],
    *,
    part_bytes: int = 1 << 20,
    window_bytes: int = 1 << 16,
    skip_bad: bool = False,
) -> DenseRows:
    """Find, resolve, cut and read `paths` as an ingest in one process would."""
    sources = find_sources([str(path) for path in paths])
    format = format.resolve(sources)
    assert format.kind == "dense"
    assert format.names_from == {"from": "columns"}
    batches: list[tuple[NDArray[Any], NDArray[np.float64]]] = []
    bad = BadLines(skip=skip_bad)
    builder = DenseBuilder(lambda X, y: batches.append((X.copy(), y.copy())), bad_lines=bad)
    for source in sources:
        for part in format.parts(source, part_bytes):
            format.read_dense(part, builder, window_bytes)
    if not batches:
        batches.append((np.empty((0, len(format.column_names()))), np.empty(0)))
    X, y = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    return DenseRows(X, y, format.column_names(), builder.label_strings(), bad)
