"""Reordering of rows: a shuffle sorts rows by random keys, a split picks rows in the order of the source dataset.

The new order of rows is divided into *slots* before any row is written. In a shuffle, a slot is a range of random keys,
and all slots have the same width. In a split, a slot is an eighth of a source block. Once the rows of all slots are
counted, the new order is cut into blocks of whole slots, and every task writes some of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.protocol import ColumnBlock, RowBlock, SparseBlock
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ArraySpec, Layout, target_spec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.ingest.publish import OPTIONAL
from daskfs.store.ingest.staging import BlockShape, StagedBlock
from daskfs.store.reorder.plan import Chunk, ReorderPlan, WriteTask, block_ends, sparse_chunks
from daskfs.store.reorder.runs import KeyRange, RecordBatch, Runs, Section, edges_of, row_keys

_HEAD_END = [("weight", np.float32), ("entries", np.uint32), ("tag_bytes", np.uint32)]
ROW_HEAD = np.dtype([("key", np.uint64), ("y", np.float64), *_HEAD_END], align=True)
SLOTS_PER_BLOCK = 8  # more slots give fuller blocks and a longer index


def row_bytes(source: Dataset, rows: Any, entries: Any) -> Any:
    """Return the memory in bytes that rows with these entries take while they are moved; both may be arrays.

    The tag of a row is assumed to take 200 bytes.
    """
    entry = int(source.arrays["X"].dtype.itemsize) if source.kind == "dense" else 12 if "values" in source.arrays else 8
    several = 8 * len(source.target_names or ())
    return (128 + several + (200 if "tag" in source.arrays else 0)) * rows + entry * entries


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
    return row_bytes(source, rows, entries)  # type: ignore[no-any-return]


def slot_bits(source: Dataset) -> int:
    """Return b such that 2^b slots (ranges of random keys) are about `SLOTS_PER_BLOCK` slots for each block."""
    if source.kind == "dense":
        blocks = source.n_samples / _row_array(source).chunks[0]
    else:
        shape = _block_shape(source)
        blocks = max(source.n_entries / shape.entries, source.n_samples / shape.rows)
    return max(1, math.ceil(math.log2(SLOTS_PER_BLOCK * blocks)))


def _row_array(source: Dataset) -> ArraySpec:
    """Return the spec of a dense dataset's array of row chunks."""
    return source.arrays["X_rows" if source.layout == "both" else "X"]


def _block_shape(source: Dataset) -> BlockShape:
    ids = source.arrays["ids"]
    return BlockShape(source.arrays["y"].chunks[1], ids.chunks[1], ids.codec)


def row_head(source: Dataset) -> np.dtype[Any]:
    """Return the type of the head of a row, which holds all targets of the row."""
    if source.target_names is None:
        return ROW_HEAD
    return np.dtype([("key", np.uint64), ("y", np.float64, (len(source.target_names),)), *_HEAD_END], align=True)


def row_arrays(source: Dataset) -> dict[str, np.dtype[Any]]:
    """Return the names and types of the arrays of a dataset's rows: the heads, then features and tags."""
    if source.kind == "dense":
        return {"heads": row_head(source), "X": source.arrays["X"].dtype}
    types = {"ids": np.uint64, "values": np.float32, "tag": np.uint8}
    return {"heads": row_head(source)} | {name: np.dtype(types[name]) for name in types if name in source.arrays}


def read_rows(source: Dataset, blocks: Sequence[int], wanted: KeyRange) -> RecordBatch:
    """Return the wanted rows of some blocks as a batch of records."""
    pieces: dict[str, list[NDArray[Any]]] = {name: [] for name in row_arrays(source)}
    for number, block in zip(blocks, source.blocks(blocks, "rows", ahead=1), strict=True):
        assert isinstance(block, SparseBlock | RowBlock)
        head = np.zeros(len(block.y), row_head(source))
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
        pieces["heads"].append(head[mask])
    # The pieces of an array are dropped as soon as it is put together: only one array is in memory twice.
    arrays = {name: np.concatenate(pieces.pop(name)) for name in list(pieces)}
    return RecordBatch(arrays.pop("heads"), arrays)


def sort_rows(
    runs: Runs, number: int, source: Dataset, blocks: Sequence[int], wanted: KeyRange, bits: int
) -> NDArray[Any]:
    """Write the wanted rows of some blocks as a sorted run; count the rows and entries in each slot (range of keys)."""
    records = read_rows(source, blocks, wanted)
    order = records.order()
    heads = records.heads[order]
    edges = np.arange((1 << bits) + 1, dtype=np.uint64)
    slots = np.searchsorted(heads["key"] >> np.uint64(64 - bits), edges)
    runs.write(number, heads, slots, lambda name: records.take(name, order))
    return np.stack([np.diff(slots), np.diff(edges_of(heads["entries"])[slots])])


@dataclass(frozen=True, slots=True)
class RowShare:
    """The wanted rows of a dataset in the order of the dataset, with the members of `Runs` that tasks read."""

    source: Dataset
    wanted: KeyRange

    def read(self, section: Section, names: object = None) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Return records with all arrays, and the positions of the section's own records, as `Runs.read`."""
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

    `counts` has shape (2, slots): the number of rows and the number of entries in each slot. Sections begin at a
    multiple of `read_together` slots, since all slots of a source block are read together.
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
        return list(map(shape.block, np.diff(self.rows[edges]).tolist(), np.diff(self.entries[edges]).tolist()))


OrderedRows = Runs | RowShare
"""Rows in the order of a new dataset, of which any section can be read; the object is small and picklable."""


def plan_rows(
    source: Dataset, rows: OrderedRows, wanted: KeyRange, slots: RowSlots | None, layout: Layout, task_bytes: int
) -> ReorderPlan:
    """Plan tasks that write reordered rows in blocks of the source's shape, each within `task_bytes` or one block.

    `slots` is None if the layout has no blocks of whole rows. Only a `RowShare` can be written as columns.
    """
    if slots is not None:
        n_rows, n_entries = int(slots.rows[-1]), int(slots.entries[-1])
        if n_rows != wanted.n_rows or (wanted.is_all and n_entries != source.n_entries):
            raise DatasetError(f"{source.url}: has not as many rows and entries as it says; verify it")
    if source.kind == "dense":
        return _plan_dense(source, rows, wanted, slots, layout, task_bytes)
    assert slots is not None
    shape = _block_shape(source)
    blocks = slots.blocks(shape)
    shape = BlockShape(max(block.rows for block in blocks), shape.entries, shape.compression)
    specs = shape.specs(len(blocks), sum(block.chunks for block in blocks), source.target_names)
    specs = {name: spec for name, spec in specs.items() if name not in OPTIONAL or name in source.arrays}
    first_row, _, first_chunk = (list(accumulate(column, initial=0)) for column in zip(*blocks, strict=True))
    tasks, done = [], 0
    for group in consecutive_groups(blocks, lambda block: row_bytes(source, block.rows, block.entries), task_bytes):
        section = slots.section(first_row[done], first_row[done + len(group)])
        read = partial(SortedSparseRows.read, rows, section)
        chunks = partial(sparse_chunks, read, specs, group, done, first_chunk[done])
        done += len(group)
        tasks.append(WriteTask(specs, section.n_records or 0, chunks))
    return ReorderPlan(source, wanted, "rows", tasks, specs, blocks)


@dataclass(frozen=True, slots=True)
class SortedSparseRows:
    """A section of sparse rows in memory."""

    records: RecordBatch
    order: NDArray[np.int64]

    @classmethod
    def read(cls, rows: OrderedRows, section: Section) -> SortedSparseRows:
        return cls(*rows.read(section))

    def arrays(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of a block with the rows `first` … `last` - 1, by the names that a dataset has."""
        records, rows = self.records, self.order[first:last]
        heads = records.heads[rows]
        cells: dict[str, NDArray[Any]] = {name: records.take(name, rows) for name in records.arrays}
        cells |= {"indptr": edges_of(heads["entries"]), "y": heads["y"], "weight": heads["weight"]}
        if "tag" in cells:
            text, ends = cells["tag"].tobytes(), accumulate(heads["tag_bytes"].tolist(), initial=0)
            cells["tag"] = np.array([text[start:stop].decode() for start, stop in pairwise(ends)], object)
        return cells


def _plan_dense(
    source: Dataset, rows: OrderedRows, wanted: KeyRange, slots: RowSlots | None, layout: Layout, task_bytes: int
) -> ReorderPlan:
    specs: dict[str, ArraySpec] = {}
    tasks: list[WriteTask] = []
    if layout != "rows":
        assert isinstance(rows, RowShare)
        (n, p), width = source.arrays["X"].shape, source.arrays["X"].chunks[1]
        size = wanted.n_rows, min(p, max(1, n * width // wanted.n_rows))  # as large as the source's, so wider
        X = specs["X"] = replace(source.arrays["X"], shape=(wanted.n_rows, p), chunks=size)
        step = max(1, task_bytes // (X.chunks[0] * X.chunks[1] * int(X.dtype.itemsize)))
        for first in range(0, X.n_chunks, step):
            columns = range(first * X.chunks[1], min((first + step) * X.chunks[1], X.shape[1]))
            tasks.append(WriteTask(specs, len(columns), partial(_dense_columns, rows, X, columns)))
    if slots is not None:
        name = "X_rows" if layout == "both" else "X"
        n, (height, p) = wanted.n_rows, _row_array(source).chunks
        height = min(n, height)
        X = specs[name] = replace(_row_array(source), name=name, shape=(n, p), chunks=(height, p))
        step = height * max(1, task_bytes // row_bytes(source, height, height * p))
        for first in range(0, n, step):
            section = slots.section(first, min(first + step, n))
            chunks = partial(_dense_rows, rows, section, X, first // height)
            tasks.append(WriteTask(specs, section.n_records or 0, chunks))
        if isinstance(rows, Runs):  # the labels of other rows are copied from the source
            y = specs["y"] = target_spec(n, source.target_names)
            for number, start in enumerate(range(0, n, y.chunks[0])):
                stop = min(start + y.chunks[0], n)
                edges = [*range(start, stop, max(1, task_bytes // row_bytes(source, 1, 0))), stop]
                sections = [slots.section(*ends) for ends in pairwise(edges)]
                tasks.append(WriteTask(specs, 0, partial(_labels, rows, sections, number)))
    return ReorderPlan(source, wanted, layout, tasks, specs)


def _dense_rows(rows: OrderedRows, section: Section, X: ArraySpec, first_chunk: int) -> Iterator[Chunk]:
    """Yield the chunks of whole rows that a section of the rows fills."""
    records, order = rows.read(section, ["X"])
    height, width = X.chunks
    for number, row in enumerate(range(0, len(order), height), first_chunk):
        yield X.name, number, records.take("X", order[row : row + height]).reshape(-1, width)


def _labels(rows: Runs, sections: list[Section], number: int) -> Iterator[Chunk]:
    """Yield one chunk of labels, which spans many chunks of features."""
    parts = (rows.read(section, []) for section in sections)
    yield "y", number, np.concatenate([records.heads["y"][order] for records, order in parts])


def _dense_columns(share: RowShare, X: ArraySpec, columns: range) -> Iterator[Chunk]:
    """Yield chunks of whole columns, with the wanted rows of every column."""
    rows, width = _row_numbers(share.wanted, share.source.n_samples), X.chunks[1]
    cells, at = np.empty((len(columns), len(rows)), X.dtype), 0
    for block in share.source.columns(columns):
        assert isinstance(block, ColumnBlock)
        here = cells[at : at + len(block.ids)]
        np.take(block.X.T, rows, axis=1, out=here, mode="clip")  # without mode="clip" numpy copies first
        at += len(here)
    for first in range(0, len(columns), width):
        yield X.name, (columns.start + first) // width, cells[first : first + width].T


@lru_cache(maxsize=1)
def _row_numbers(wanted: KeyRange, n_rows: int) -> NDArray[np.int64]:
    """Return the numbers of the wanted rows, cached because every task of a split needs the row numbers."""
    return np.flatnonzero(wanted.mask(0, n_rows))
