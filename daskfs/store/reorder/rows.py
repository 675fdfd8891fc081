"""Reordering of rows: a shuffle sorts rows by random keys, a split picks rows in the order of the source dataset.

The new order of rows is divided into *slots* before any row is written. In a shuffle, a slot is a range of random keys,
and all slots have the same width. In a split, a slot is an eighth of a source block. Once the rows of all slots are
counted, the new order is cut into blocks of whole slots, and every task writes some of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.protocol import RowBlock, SparseBlock
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ArraySpec, target_spec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.dataset.writer import ChunkRecords, write_chunk
from daskfs.store.ingest.publish import OPTIONAL, write_block
from daskfs.store.ingest.staging import BlockShape, StagedBlock
from daskfs.store.places.location import Location
from daskfs.store.reorder.plan import ReorderPlan, WriteTask, block_ends
from daskfs.store.reorder.runs import KeyRange, RecordBatch, Runs, Section, edges_of, row_keys

ROW_HEAD = np.dtype(
    [("key", np.uint64), ("y", np.float64), ("weight", np.float32), ("entries", np.uint32), ("tag_bytes", np.uint32)],
    align=True,
)
SLOTS_PER_BLOCK = 8  # more slots give fuller blocks and a longer index


class RowBytes(NamedTuple):
    """The memory in bytes that a row and an entry take while rows are moved."""

    row: int
    entry: int

    @classmethod
    def of_source(cls, source: Dataset) -> RowBytes:
        """Return the memory per row and per entry of a dataset; the tag of a row is assumed to take 200 bytes."""
        row = 128 + (200 if "tag" in source.arrays else 0)
        if source.kind == "dense":
            return cls(row, int(source.arrays["X"].dtype.itemsize))
        return cls(row, 12 if "values" in source.arrays else 8)

    def of(self, rows: Any, entries: Any) -> Any:
        """Return the memory in bytes of the given numbers of rows and entries, which may be arrays."""
        return self.row * rows + self.entry * entries


def block_rows(source: Dataset) -> NDArray[np.int64]:
    """Return the number of rows in each row block of a dataset."""
    if source.kind == "dense":
        height = _row_array(source).chunks[0]
        return np.minimum(height, source.n_samples - height * np.arange(source.n_blocks("rows")))
    rows: NDArray[np.int64] = ArrayReader(source.location, source.arrays["block_rows"]).read_all()
    return rows


def block_bytes(source: Dataset) -> NDArray[np.int64]:
    """Return the memory in bytes that the rows of each row block take while the rows are moved."""
    rows = block_rows(source)
    entries = rows * source.n_features if source.kind == "dense" else source.block_entries()
    return RowBytes.of_source(source).of(rows, entries)  # type: ignore[no-any-return]


def slot_bits(source: Dataset) -> int:
    """Return b such that 2^b slots (ranges of random keys) are about `SLOTS_PER_BLOCK` slots for each block."""
    if source.kind == "dense":
        blocks = source.n_samples / _row_array(source).chunks[0]
    else:
        shape = _block_shape(source)
        blocks = max(source.n_entries / shape.entries, source.n_samples / shape.rows)
    return max(1, math.ceil(math.log2(SLOTS_PER_BLOCK * blocks)))


def _row_array(source: Dataset) -> ArraySpec:
    return source.arrays["X_rows" if source.layout == "both" else "X"]


def row_array(source: Dataset, rows: int) -> ArraySpec:
    """Return the spec of a dense dataset's array of row chunks, changed to another number of rows."""
    array = _row_array(source)
    height, p = array.chunks
    return replace(array, shape=(rows, p), chunks=(min(rows, height), p))


def _block_shape(source: Dataset) -> BlockShape:
    ids = source.arrays["ids"]
    return BlockShape(source.arrays["y"].chunks[1], ids.chunks[1], ids.codec)


def row_arrays(source: Dataset) -> dict[str, np.dtype[Any]]:
    """Return the names and types of the arrays that hold the features and tags of a dataset's rows."""
    if source.kind == "dense":
        return {"X": source.arrays["X"].dtype}
    types: dict[str, np.dtype[Any]] = {
        "ids": np.dtype(np.uint64),
        "values": np.dtype(np.float32),
        "tag": np.dtype(np.uint8),
    }
    return {name: dtype for name, dtype in types.items() if name in source.arrays}


def read_rows(source: Dataset, blocks: range, wanted: KeyRange) -> RecordBatch:
    """Return the wanted rows of some blocks as a batch of records."""
    heads: list[NDArray[Any]] = []
    pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in row_arrays(source)}
    for number, block in zip(blocks, source.blocks(blocks, "rows", ahead=1), strict=True):
        assert isinstance(block, SparseBlock | RowBlock)
        head = np.zeros(len(block.y), ROW_HEAD)
        head["key"], head["y"] = row_keys(wanted.seed, block.first, len(block.y)), block.y
        head["weight"] = 1 if block.weight is None else block.weight
        mask = slice(None) if wanted.is_all else wanted.contains(head["key"])
        if isinstance(block, RowBlock):
            head["entries"] = block.X.shape[1]
            pieces["X"].append(block.X[mask].flatten())
        else:
            head["entries"] = np.diff(block.indptr)
            entries = mask if isinstance(mask, slice) else np.repeat(mask, head["entries"])
            for name in ("ids", "values"):
                if name in pieces:
                    pieces[name].append(getattr(block, name)[entries].copy())
        if "tag" in pieces:
            tags = [tag.encode() for tag in np.array(source.tags(number), object)[mask]]
            head["tag_bytes"][mask] = [len(tag) for tag in tags]
            pieces["tag"].append(np.frombuffer(b"".join(tags), np.uint8))
        heads.append(head[mask])
    # The pieces of an array are dropped as soon as it is put together: only one array is in memory twice.
    return RecordBatch(np.concatenate(heads), {name: np.concatenate(pieces.pop(name)) for name in list(pieces)})


def sort_rows(runs: Runs, number: int, source: Dataset, blocks: range, wanted: KeyRange, bits: int) -> NDArray[Any]:
    """Write the wanted rows of some blocks as a sorted run; count the rows and entries in each slot (range of keys)."""
    records = read_rows(source, blocks, wanted)
    order = records.order()
    heads = records.heads[order]
    edges = np.arange((1 << bits) + 1, dtype=np.uint64)
    slots = np.searchsorted(heads["key"] >> np.uint64(64 - bits), edges)
    runs.write(number, heads, slots, lambda name: records.take(name, order))
    return np.stack([np.diff(slots), np.diff(edges_of(heads["entries"])[slots])])


class OrderedRows(Protocol):
    """Rows in the order of a new dataset, of which any section can be read; the object is small and picklable."""

    @property
    def arrays(self) -> Mapping[str, np.dtype[Any]]:
        """The names and types of the arrays that hold the features and tags of the rows."""

    def read(self, section: Section, names: Iterable[str]) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Return records with the arrays `names`, and the positions of the section's rows among the records."""


@dataclass(frozen=True, slots=True)
class RowShare:
    """The wanted rows of a dataset in the order of the dataset, an implementation of `OrderedRows`."""

    source: Dataset
    wanted: KeyRange

    @property
    def arrays(self) -> dict[str, np.dtype[Any]]:
        return row_arrays(self.source)

    def read(self, section: Section, names: Iterable[str]) -> tuple[RecordBatch, NDArray[np.int64]]:
        first, last = int(section.first_slot), int(section.last_slot)
        records = read_rows(self.source, range(first // SLOTS_PER_BLOCK, -(-last // SLOTS_PER_BLOCK)), self.wanted)
        return records, np.arange(len(records.heads))[section.skipped :][: section.n_records]


def count_rows(share: RowShare, blocks: range) -> NDArray[np.int64]:
    """Return the numbers of wanted rows and entries in each slot (an eighth of a block), as an array (2, slots).

    Counting reads only the row starts (indptr) of a sparse dataset, and nothing of a dense dataset.
    """
    source = share.source
    rows = block_rows(source)
    first, counts = int(rows[: blocks.start].sum()), []
    indptr = ArrayReader(source.location, source.arrays["indptr"]) if source.kind == "sparse" else None
    for number in blocks:
        count = int(rows[number])
        mask = share.wanted.mask(first, count)
        lengths = source.n_features if indptr is None else np.diff(indptr.read(number)[0, : count + 1])
        at = np.arange(SLOTS_PER_BLOCK + 1) * count // SLOTS_PER_BLOCK
        counts.append([np.diff(edges_of(each)[at]) for each in (mask, mask * lengths)])
        first += count
    return np.concatenate(counts, axis=1)


class RowSlots:
    """The numbers of rows and entries before each slot (a small piece of the new order of rows), and in total.

    Parameters
    ----------
    counts
        The numbers of rows and entries in each slot, as an array of shape (2, slots).
    read_together
        Sections begin at a multiple of this number of slots, since all slots of a source block are read together.
    """

    def __init__(self, counts: NDArray[np.int64], read_together: int = 1) -> None:
        self.rows, self.entries = map(edges_of, counts)
        self._read_together = read_together

    def section(self, first: int, last: int) -> Section:
        """Return the slots to read and the records to skip for the rows `first` … `last` - 1 of the new order."""
        slot = int(np.searchsorted(self.rows, first, side="right")) - 1
        slot -= slot % self._read_together
        end = int(np.searchsorted(self.rows, last, side="left"))
        return Section(slot, end, first - int(self.rows[slot]), last - first)

    def blocks(self, shape: BlockShape) -> list[StagedBlock]:
        """Return the sizes of the blocks that are made of consecutive slots (pieces of the new order of rows)."""
        edges = [0, *block_ends(self.rows, self.entries, shape)]
        sizes = zip(np.diff(self.rows[edges]).tolist(), np.diff(self.entries[edges]).tolist(), strict=True)
        return [StagedBlock(rows, entries, max(1, -(-entries // shape.entries))) for rows, entries in sizes]


def plan_rows(source: Dataset, rows: OrderedRows, wanted: KeyRange, slots: RowSlots, task_bytes: int) -> ReorderPlan:
    """Plan tasks that write reordered rows in blocks of the source's shape, each within `task_bytes` or one block."""
    n_rows, n_entries = int(slots.rows[-1]), int(slots.entries[-1])
    if n_rows != wanted.n_rows or (wanted.is_all and n_entries != source.n_entries):
        raise DatasetError(f"{source.url}: has not as many rows and entries as it says; verify it")
    if source.kind == "sparse":
        return _plan_sparse_rows(source, rows, wanted, slots, task_bytes)
    X, y = replace(row_array(source, n_rows), name="X"), target_spec(n_rows)
    tasks: list[WriteTask] = [
        *dense_row_tasks(X, rows, slots, source, task_bytes),
        *_target_tasks(y, rows, slots, source, task_bytes),
    ]
    return ReorderPlan(source, wanted, "rows", tasks, lambda: {"X": X, "y": y})


def _plan_sparse_rows(
    source: Dataset, rows: OrderedRows, wanted: KeyRange, slots: RowSlots, task_bytes: int
) -> ReorderPlan:
    shape, each = _block_shape(source), RowBytes.of_source(source)
    blocks = slots.blocks(shape)
    shape = BlockShape(max(block.rows for block in blocks), shape.entries, shape.compression)
    specs = shape.specs(len(blocks), sum(block.chunks for block in blocks))
    specs = {name: spec for name, spec in specs.items() if name not in OPTIONAL or name in source.arrays}
    first_row, _, first_chunk = (list(accumulate(column, initial=0)) for column in zip(*blocks, strict=True))
    tasks = [
        SparseRowsTask(
            rows,
            slots.section(first_row[group.start], first_row[group.stop]),
            specs,
            blocks[group.start : group.stop],
            group.start,
            first_chunk[group.start],
        )
        for group in consecutive_groups(np.array([each.of(block.rows, block.entries) for block in blocks]), task_bytes)
    ]
    return ReorderPlan(source, wanted, "rows", tasks, lambda: specs, blocks)


def dense_row_tasks(
    X: ArraySpec, rows: OrderedRows, slots: RowSlots, source: Dataset, task_bytes: int
) -> list[DenseRowsTask]:
    """Return tasks that write an array of dense rows, each task within `task_bytes` of memory or one chunk."""
    (n, p), height = X.shape, X.chunks[0]
    step = height * max(1, task_bytes // RowBytes.of_source(source).of(height, height * p))
    return [
        DenseRowsTask(rows, slots.section(first, min(first + step, n)), X, first // height)
        for first in range(0, n, step)
    ]


def _target_tasks(
    y: ArraySpec, rows: OrderedRows, slots: RowSlots, source: Dataset, task_bytes: int
) -> list[TargetTask]:
    """Return one task for each chunk of labels, which reads the rows in sections of at most `task_bytes`."""
    n, tasks = y.shape[0], []
    for number, start in enumerate(range(0, n, y.chunks[0])):
        stop = min(start + y.chunks[0], n)
        edges = [*range(start, stop, max(1, task_bytes // RowBytes.of_source(source).row)), stop]
        tasks.append(TargetTask(rows, [slots.section(*ends) for ends in pairwise(edges)], y, number))
    return tasks


@dataclass(frozen=True, slots=True)
class RowsTask:
    """A task that writes the chunks of one section of the reordered rows."""

    rows: OrderedRows
    section: Section

    @property
    def moved(self) -> int:
        return self.section.n_records or 0


@dataclass(frozen=True, slots=True)
class SparseRowsTask(RowsTask):
    """A task that writes consecutive blocks of sparse rows."""

    specs: dict[str, ArraySpec]
    blocks: list[StagedBlock]
    first_block: int
    first_chunk: int

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        records, order = self.rows.read(self.section, self.rows.arrays)
        written: dict[str, ChunkRecords] = {name: [] for name in self.specs}
        row, chunk = 0, self.first_chunk
        for number, block in enumerate(self.blocks, self.first_block):
            cells = _block_cells(records, order[row : row + block.rows], self.specs)
            for name, lines in write_block(location, self.specs, cells, block, number, chunk).items():
                written[name] += lines
            row, chunk = row + block.rows, chunk + block.chunks
        return written


def _block_cells(records: RecordBatch, rows: NDArray[np.int64], specs: dict[str, ArraySpec]) -> dict[str, NDArray[Any]]:
    """Return the arrays (ids, values, indptr, y, weight, tag) of a block of sparse rows, by name."""
    heads = records.heads[rows]
    cells: dict[str, NDArray[Any]] = {name: records.take(name, rows) for name in ("ids", "values") if name in specs}
    cells["indptr"] = edges_of(heads["entries"])
    cells |= {name: heads[name] for name in ("y", "weight") if name in specs}
    if "tag" in specs:
        text, ends = records.take("tag", rows).tobytes(), accumulate(heads["tag_bytes"].tolist(), initial=0)
        cells["tag"] = np.array([text[start:stop].decode() for start, stop in pairwise(ends)], object)
    return cells


@dataclass(frozen=True, slots=True)
class DenseRowsTask(RowsTask):
    """A task that writes consecutive chunks of dense rows."""

    spec: ArraySpec
    first_chunk: int

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        records, order = self.rows.read(self.section, ["X"])
        height, width = self.spec.chunks
        lines = []
        for number, row in enumerate(range(0, len(order), height), self.first_chunk):
            X = records.take("X", order[row : row + height]).reshape(-1, width)
            lines.append(write_chunk(location, self.spec, number, X))
        return {self.spec.name: lines}


@dataclass(frozen=True, slots=True)
class TargetTask:
    """A task that writes one chunk of the labels of dense rows, which spans many chunks of features."""

    rows: OrderedRows
    sections: list[Section]
    spec: ArraySpec
    number: int

    @property
    def moved(self) -> int:
        return 0  # the rows are counted with their features

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        parts = (self.rows.read(section, []) for section in self.sections)
        y = np.concatenate([records.heads["y"][order] for records, order in parts])
        return {self.spec.name: [write_chunk(location, self.spec, self.number, y)]}
