"""From rows in a new order, such as runs of them have by their keys, to a complete dataset.

Once all rows are in runs it is known how many each slot of keys has; by that the new order is cut into blocks, and
these are written in parts, each by itself, straight to their place.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ArraySpec, target_spec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.dataset.writer import ChunkRecords, DatasetWriter, write_chunk
from daskfs.store.ingest.publish import OPTIONAL, write_block, write_block_index
from daskfs.store.ingest.staging import BlockShape, StagedBlock
from daskfs.store.places.location import Location
from daskfs.store.reorder.row_keys import Keys
from daskfs.store.reorder.row_runs import Lines, Ordered, Section
from daskfs.store.reorder.same_features import close_like

SLOTS_PER_BLOCK = 8  # a block consists of whole slots: with more of them it is fuller, and the index is longer


class RowBytes(NamedTuple):
    """What rows take in memory while they are moved."""

    row: int
    entry: int

    @classmethod
    def of_source(cls, source: Dataset) -> RowBytes:
        """Heads, keys and places of rows, and 200 bytes for a tag as a string and as bytes; ids and values."""
        row = 128 + (200 if "tag" in source.arrays else 0)
        if source.kind == "dense":
            return cls(row, int(source.arrays["X"].dtype.itemsize))
        return cls(row, 12 if "values" in source.arrays else 8)

    def of(self, rows: Any, entries: Any) -> Any:
        """Bytes of so many; numbers or arrays."""
        return self.row * rows + self.entry * entries


def block_rows(source: Dataset) -> NDArray[np.int64]:
    """How many rows every block of rows has."""
    if source.kind == "dense":
        height = _row_chunks(source).chunks[0]
        return np.minimum(height, source.n_samples - height * np.arange(source.n_blocks("rows")))
    rows: NDArray[np.int64] = ArrayReader(source.location, source.arrays["block_rows"]).read_all()
    return rows


def block_bytes(source: Dataset, each: RowBytes) -> NDArray[np.int64]:
    """What every block of rows takes."""
    rows = block_rows(source)
    entries = rows * source.n_features if source.kind == "dense" else source.block_entries()
    return each.of(rows, entries)  # type: ignore[no-any-return]


def slot_bits(source: Dataset) -> int:
    """Into how many slots (2 to that power) the keys are cut: some for every block, as large as the source has them."""
    if source.kind == "dense":
        blocks = source.n_samples / _row_chunks(source).chunks[0]
    else:
        shape = _shape(source)
        blocks = max(source.n_entries / shape.entries, source.n_samples / shape.rows)
    return max(1, math.ceil(math.log2(SLOTS_PER_BLOCK * blocks)))


def _row_chunks(source: Dataset) -> ArraySpec:
    return source.arrays["X_rows" if source.layout == "both" else "X"]


def row_chunks(source: Dataset, rows: int) -> ArraySpec:
    """The array of a dense dataset's rows, as it is for so many of them."""
    found = _row_chunks(source)
    height, p = found.chunks
    return replace(found, shape=(rows, p), chunks=(min(rows, height), p))


def _shape(source: Dataset) -> BlockShape:
    ids = source.arrays["ids"]
    return BlockShape(source.arrays["y"].chunks[1], ids.chunks[1], ids.codec)


class Slots:
    """How many rows and entries come before every slot, and after the last."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.rows, self.entries = (np.concatenate([[0], np.cumsum(count)]) for count in counts)

    def section(self, first: int, last: int) -> Section:
        """Where rows `first` … `last` - 1 of the new order are."""
        slot = int(np.searchsorted(self.rows, first, side="right")) - 1
        end = int(np.searchsorted(self.rows, last, side="left"))
        return Section(slot, end, first - int(self.rows[slot]), last - first)

    def blocks(self, shape: BlockShape) -> list[StagedBlock]:
        """Whole slots gathered into blocks that hold them; a slot that is too large alone is a block of its own."""
        blocks, first = [], 0
        while self.rows[first] < self.rows[-1]:
            first = int(np.searchsorted(self.rows, self.rows[first], side="right")) - 1  # past empty ones
            fitting = (
                int(np.searchsorted(edges, edges[first] + most, side="right")) - 1
                for edges, most in ((self.rows, shape.rows), (self.entries, shape.entries))
            )
            last = max(first + 1, min(fitting))
            rows, entries = (int(edges[last] - edges[first]) for edges in (self.rows, self.entries))
            blocks.append(StagedBlock(rows, entries, max(1, -(-entries // shape.entries))))
            first = last
        return blocks


class Part(ABC):
    """Some of the chunks of the new dataset, written by one task."""

    @property
    @abstractmethod
    def moved(self) -> int:
        """How many rows (or columns) are where they belong once it is written."""

    @abstractmethod
    def write(self, location: Location) -> dict[str, ChunkRecords]:
        """Write them, and return their lines of the manifest by array."""


@dataclass(frozen=True, slots=True)
class RowsPart(Part):
    """Chunks that hold a section of the rows."""

    rows: Ordered
    section: Section

    @property
    def moved(self) -> int:
        return self.section.rows


@dataclass(frozen=True, slots=True)
class SparsePart(RowsPart):
    """Consecutive blocks of sparse rows."""

    specs: dict[str, ArraySpec]
    blocks: list[StagedBlock]
    first_block: int
    first_chunk: int

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        lines, order = self.rows.read(self.section, self.rows.cargo)
        written: dict[str, ChunkRecords] = {name: [] for name in self.specs}
        row, chunk = 0, self.first_chunk
        for number, block in enumerate(self.blocks, self.first_block):
            cells = _cells(lines, order[row : row + block.rows], self.specs)
            for name, records in write_block(location, self.specs, cells, block, number, chunk).items():
                written[name] += records
            row, chunk = row + block.rows, chunk + block.chunks
        return written


def _cells(lines: Lines, rows: NDArray[np.int64], specs: dict[str, ArraySpec]) -> dict[str, NDArray[Any]]:
    """The arrays of a block of sparse rows."""
    heads = lines.heads[rows]
    cells: dict[str, NDArray[Any]] = {name: lines.carried(name, rows) for name in ("ids", "values") if name in specs}
    cells["indptr"] = np.concatenate([[0], np.cumsum(heads["entries"], dtype=np.int64)])
    cells |= {name: heads[name] for name in ("y", "weight") if name in specs}
    if "tag" in specs:
        text, ends = lines.carried("tag", rows).tobytes(), accumulate(heads["tag_bytes"].tolist(), initial=0)
        cells["tag"] = np.array([text[start:stop].decode() for start, stop in pairwise(ends)], object)
    return cells


@dataclass(frozen=True, slots=True)
class DensePart(RowsPart):
    """Consecutive chunks of dense rows."""

    spec: ArraySpec
    first_chunk: int

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        lines, order = self.rows.read(self.section, ["X"])
        height, width = self.spec.chunks
        records = []
        for number, row in enumerate(range(0, len(order), height), self.first_chunk):
            X = lines.carried("X", order[row : row + height]).reshape(-1, width)
            records.append(write_chunk(location, self.spec, number, X))
        return {self.spec.name: records}


@dataclass(frozen=True, slots=True)
class TargetPart(Part):
    """One chunk of the labels of dense rows: it is of many more rows than one of features, and read bit by bit."""

    rows: Ordered
    sections: list[Section]
    spec: ArraySpec
    number: int

    @property
    def moved(self) -> int:
        return 0  # they count where their features are

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        y, at = np.empty(sum(section.rows for section in self.sections)), 0
        for section in self.sections:
            lines, order = self.rows.read(section, [])
            y[at : at + len(order)] = lines.heads["y"][order]
            at += len(order)
        return {self.spec.name: [write_chunk(location, self.spec, self.number, y)]}


@dataclass(frozen=True)
class NewOrder:
    """What a dataset of rows consists of, known before it is written."""

    rows: int
    entries: int
    specs: dict[str, ArraySpec]
    parts: list[Part]
    blocks: list[StagedBlock]  # of sparse rows

    def close(self, writer: DatasetWriter, source: Dataset, made: dict[str, Any]) -> None:
        """Write what a dataset has besides its rows, as `source` has it; from then on it opens."""
        if self.blocks:
            write_block_index(writer, "rows", self.blocks)
        close_like(source, writer, layout="rows", n_samples=self.rows, n_entries=self.entries, made=made)


def made_by_shuffle(source: Dataset, seed: int) -> dict[str, Any]:
    """How a shuffled dataset came about, for the record."""
    made = {**source.attributes.get("made", {}), "by": "shuffle", "seed": seed, "source": source.digest}
    if "request" in made:
        made["request"] = shuffled_request(made["request"], seed)
    return made


def shuffled_request(request: str, seed: int) -> str:
    """What the request of an ingest becomes when its dataset is shuffled: that is not the dataset it asked for."""
    return f"{request} shuffled {seed}"


def new_order(source: Dataset, rows: Ordered, wanted: Keys, slots: Slots, each: RowBytes, most: int) -> NewOrder:
    """Cut the new order as the source is cut, into parts that take at most so many bytes, or one block."""
    found, entries = int(slots.rows[-1]), int(slots.entries[-1])
    if found != wanted.rows or (wanted.are_all and entries != source.n_entries):
        raise DatasetError(f"{source.url}: has not as many rows and entries as it says; verify it")
    make = _dense_order if source.kind == "dense" else _sparse_order
    return NewOrder(found, entries, *make(source, rows, slots, each, most))


Planned = tuple[dict[str, ArraySpec], list[Part], list[StagedBlock]]


def _sparse_order(source: Dataset, rows: Ordered, slots: Slots, each: RowBytes, most: int) -> Planned:
    shape = _shape(source)
    blocks = slots.blocks(shape)
    shape = BlockShape(max(block.rows for block in blocks), shape.entries, shape.compression)
    specs = shape.specs(len(blocks), sum(block.chunks for block in blocks))
    specs = {name: spec for name, spec in specs.items() if name not in OPTIONAL or name in source.arrays}
    first_row, _, first_chunk = (list(accumulate(column, initial=0)) for column in zip(*blocks, strict=True))
    parts: list[Part] = [
        SparsePart(
            rows,
            slots.section(first_row[group.start], first_row[group.stop]),
            specs,
            blocks[group.start : group.stop],
            group.start,
            first_chunk[group.start],
        )
        for group in consecutive_groups(np.array([each.of(block.rows, block.entries) for block in blocks]), most)
    ]
    return specs, parts, blocks


def _dense_order(source: Dataset, rows: Ordered, slots: Slots, each: RowBytes, most: int) -> Planned:
    n = int(slots.rows[-1])
    X, y = replace(row_chunks(source, n), name="X"), target_spec(n)
    step, at_once = y.chunks[0], max(1, most // each.row)
    targets = []
    for number, start in enumerate(range(0, n, step)):
        stop = min(start + step, n)
        edges = [*range(start, stop, at_once), stop]
        targets.append(TargetPart(rows, [slots.section(*ends) for ends in pairwise(edges)], y, number))
    return {"X": X, "y": y}, [*dense_parts(X, rows, slots, each, most), *targets], []


def dense_parts(X: ArraySpec, rows: Ordered, slots: Slots, each: RowBytes, most: int) -> list[Part]:
    """An array of dense rows, in parts that take at most so many bytes, or one chunk."""
    n, p = X.shape
    per_part = X.chunks[0] * max(1, most // each.of(X.chunks[0], X.chunks[0] * p))
    return [
        DensePart(rows, slots.section(first, min(first + per_part, n)), X, first // X.chunks[0])
        for first in range(0, n, per_part)
    ]
