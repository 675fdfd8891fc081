"""All that a parser of lines makes of a text, to compare parsers bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.names_kernels import NameSet, name_list
from daskfs.store.ingest.formats.base import LineFormat
from daskfs.store.ingest.formats.vw import VowpalWabbit
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import AT, ENTRIES, FULL, ROWS, TAG_BYTES, RowArrays
from daskfs.store.ingest.sources import Source, Window


class Parsed(NamedTuple):
    """All that a parser makes of a text; floats by their bits."""

    lengths: list[int]
    ids: bytes
    values: bytes
    y: bytes
    weight: bytes
    tags: bytes
    tag_ends: list[int]
    names: list[bytes]
    labels: list[str]
    bad: list[tuple[int, str]]


class _AllBadLines(BadLines):
    """Notes every bad line by the byte where it begins."""

    def __init__(self) -> None:
        super().__init__(skip=True)
        self.seen: list[tuple[int, str]] = []

    def report_at(self, source: Source, offset: int, reason: str) -> None:
        self.seen.append((offset, reason))


def is_read_fast(kind: LineFormat, line: bytes) -> bool:
    """Whether the fast path reads the features of a line; the parser without it notes where each feature begins."""
    rows = RowBuilder(
        lambda arrays: None,
        lambda names: None,
        block_rows=1,
        block_entries=100,
        collected=NameCollector(1 << 16),
        bad_lines=BadLines(),
    )
    text = np.frombuffer(bytearray(line * 99), np.uint8)  # the last lines of a window are not read by the fast path
    assert kind.parser(rows)(text) == FULL
    label_end = line.index(b"|") if isinstance(kind, VowpalWabbit) else 1
    return bool(rows.arrays.progress[AT] < label_end)


def parsed(
    windows: Sequence[bytes],
    step: Callable[[NDArray[np.uint8], RowBuilder], int],
    reasons: dict[int, str],
    *,
    block_rows: int = 100,
    block_entries: int = 1000,
    names_bytes: int = 1 << 20,
) -> Parsed:
    """What the parser kernel `step` makes of windows of whole lines."""
    blocks: list[tuple[list[int], bytes, bytes, bytes, bytes, bytes, list[int]]] = []
    names: list[bytes] = []

    def emit(arrays: RowArrays) -> None:
        rows, entries = arrays.progress[ROWS], arrays.progress[ENTRIES]
        blocks.append(
            (
                np.diff(arrays.indptr[: rows + 1]).tolist(),
                arrays.ids[:entries].tobytes(),
                arrays.values[:entries].tobytes(),
                arrays.y[:rows].tobytes(),
                arrays.weight[:rows].tobytes(),
                arrays.tags[: arrays.progress[TAG_BYTES]].tobytes(),
                np.diff(arrays.tag_ends[:rows], prepend=0).tolist(),
            )
        )

    def emit_names(found: NameSet) -> None:
        names.extend(name_list(found))

    bad = _AllBadLines()
    builder = RowBuilder(
        emit,
        emit_names,
        block_rows=block_rows,
        block_entries=block_entries,
        collected=NameCollector(names_bytes),
        bad_lines=bad,
    )
    offset = 0
    for window in windows:
        text = np.frombuffer(bytearray(window), np.uint8)  # writable, as windows are
        builder.parse(Window(text, offset), Source("x.txt", 0, ""), partial(step, text, builder), reasons)
        offset += len(window)
    builder.finish()
    columns = list(zip(*blocks, strict=True)) or [()] * 7
    lists = [[number for numbers in columns[i] for number in numbers] for i in (0, 6)]
    joined = [b"".join(column) for column in columns[1:6]]
    return Parsed(lists[0], *joined, lists[1], names, builder.label_strings(), bad.seen)
