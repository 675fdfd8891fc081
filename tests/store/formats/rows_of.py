"""Run a source format over files in memory: what the tests of every format look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.names_kernels import COUNT, NameSet, name_list
from daskfs.store.ingest.formats.base import Format
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import ENTRIES, ROWS, RowArrays
from daskfs.store.ingest.sources import SourceLimits, find_sources


@dataclass(frozen=True)
class Rows:
    """Everything a format made of some files, its blocks concatenated."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.uint64]
    values: NDArray[np.float32]
    y: NDArray[np.float64]
    labels: list[str]
    names: dict[int, bytes]
    bad: int

    def as_dicts(self) -> list[dict[int, float]]:
        """One {id: value} per row."""
        edges = zip(self.indptr[:-1], self.indptr[1:], strict=True)
        return [dict(zip(self.ids[a:b].tolist(), self.values[a:b].tolist(), strict=True)) for a, b in edges]

    def named(self) -> list[dict[str, float]]:
        """One {name: value} per row, for formats whose names come from a table."""
        return [{self.names[i].decode(): value for i, value in row.items()} for row in self.as_dicts()]

    def assert_equal(self, other: Rows) -> None:
        """Same rows, labels and names, bit for bit."""
        for field in ("indptr", "ids", "values", "y"):
            np.testing.assert_array_equal(getattr(self, field), getattr(other, field), err_msg=field)
        assert (self.labels, self.names, self.bad) == (other.labels, other.names, other.bad)


def rows_of(
    format: Format,
    paths: Sequence[str | Path],
    *,
    part_bytes: int = 1 << 20,
    window_bytes: int = 1 << 16,
    block_rows: int = 1000,
    block_entries: int = 10_000,
    names_bytes: int = 1 << 20,
    skip_bad: bool = False,
    line_bytes: int = 1 << 28,
) -> Rows:
    """Find, resolve, cut and read `paths` as an ingest in one process would."""
    limits = SourceLimits(line_bytes)
    sources = [replace(source, limits=limits) for source in find_sources([str(path) for path in paths])]
    format = format.resolve(sources)
    blocks: list[tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32], NDArray[np.float64]]] = []
    names: dict[int, bytes] = {}

    def emit(arrays: RowArrays) -> None:
        rows, entries = arrays.progress[ROWS], arrays.progress[ENTRIES]
        assert arrays.indptr[rows] == entries
        blocks.append(
            (
                np.diff(arrays.indptr[: rows + 1]),
                arrays.ids[:entries].copy(),
                arrays.values[:entries].copy(),
                arrays.y[:rows].copy(),
            )
        )

    def emit_names(found: NameSet) -> None:
        new = dict(zip(found.ids[: found.used[COUNT]].tolist(), name_list(found), strict=True))
        assert all(names.get(i, name) == name for i, name in new.items()), "one id, two names"
        names.update(new)

    bad_lines = BadLines(skip=skip_bad)
    builder = RowBuilder(
        emit,
        emit_names,
        block_rows=block_rows,
        block_entries=block_entries,
        collected=NameCollector(names_bytes),
        bad_lines=bad_lines,
    )
    for source in sources:
        for part in format.parts(source, part_bytes):
            format.read(part, builder, window_bytes)
    builder.finish()
    counts, ids, values, y = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True)) if blocks else _NOTHING
    return Rows(
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        ids=ids,
        values=values,
        y=y,
        labels=builder.label_strings(),
        names=names,
        bad=bad_lines.count,
    )


_NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.float32), np.zeros(0))
