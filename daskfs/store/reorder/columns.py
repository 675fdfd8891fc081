"""Reordering of columns: a transpose sorts sparse entries by feature id, a split keeps some rows of every column.

A sorted run of a transpose holds the columns of some consecutive rows. A *mark* is the feature id at every `gap`-th
entry of a sorted run. A sorted run is cut at marks into slots, which can be read separately. The columns of all sorted
runs are merged in order and cut into blocks. On a cluster, and if columns are long, only the sizes of columns are
merged first, and every task merges the cells of its own blocks. The entries of a column stay in the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.protocol import Block, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.codec import Codec
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.ingest.arrays import block_shape
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.read_ahead import Prefetcher
from daskfs.store.reorder.kernels import sort_by_key
from daskfs.store.reorder.plan import ReorderPlan, WriteTask, sparse_chunks
from daskfs.store.reorder.rows import RowShare
from daskfs.store.reorder.runs import LARGEST_KEY, KeyRange, RecordBatch, Runs, Section, edges_of

COLUMN_HEAD = np.dtype([("key", np.uint64), ("entries", np.uint32)])
CELL = np.dtype([("row", np.uint32), ("value", np.float32)])
SAMPLE_SIZE = 1 << 12  # ids
MOST_MARKS = 1 << 22  # of all runs; this process holds them


class ColumnArrays(NamedTuple):
    """Sparse columns stored end to end, where column i has the cells ``indptr[i] … indptr[i + 1] - 1``."""

    ids: NDArray[np.uint64]  # ascending
    indptr: NDArray[np.int64]
    cells: NDArray[Any] | None  # of dtype CELL, rows ascending in a column; None where only sizes are known

    @property
    def n_entries(self) -> int:
        return int(self.indptr[-1])

    def between(self, first: int, last: int) -> ColumnArrays:
        """Return the columns `first` … `last` - 1 as a view."""
        start, stop = self.indptr[first], self.indptr[last]
        cells = None if self.cells is None else self.cells[start:stop]
        return ColumnArrays(self.ids[first:last], self.indptr[first : last + 1] - start, cells)

    @classmethod
    def joined(cls, parts: list[ColumnArrays]) -> ColumnArrays:
        """Return the columns of several parts as one, without a copy if there is only one part."""
        if len(parts) == 1:
            return parts[0]
        before = edges_of([part.n_entries for part in parts]).tolist()
        edges = [part.indptr[:-1] + shift for part, shift in zip(parts, before, strict=False)]
        cells = [part.cells for part in parts if part.cells is not None]
        ids, indptr = np.concatenate([part.ids for part in parts]), np.concatenate([*edges, before[-1:]])
        return cls(ids, indptr, np.concatenate(cells) if cells else None)

    def read(self) -> ColumnArrays:
        """Return these columns, so that a task can read them as it reads `MergedColumns`."""
        return self

    def arrays(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of a block with the columns `first` … `last` - 1, by the names that a dataset has."""
        ids, indptr, cells = self.between(first, last)
        assert cells is not None
        return {"ids": ids, "indptr": indptr, "rows": cells["row"], "values": cells["value"]}


def column_records(blocks: Iterable[Block], n_entries: int) -> RecordBatch:
    """Return sparse rows with `n_entries` entries (at least one) in total as columns, sorted by feature id."""
    ids, cells, at = np.empty(n_entries, np.uint64), np.empty(n_entries, CELL), 0
    for block in blocks:
        assert isinstance(block, SparseBlock)
        here = slice(at, at + len(block.ids))
        rows = np.arange(block.first, block.first + len(block.y), dtype=np.uint32)
        ids[here], cells["value"][here] = block.ids, block.values
        cells["row"][here] = np.repeat(rows, np.diff(block.indptr))
        at = here.stop
    other_ids, other_cells = np.empty_like(ids), np.empty_like(cells)
    if sort_by_key(ids, cells.view(np.uint64), other_ids, other_cells.view(np.uint64)):
        ids, cells = other_ids, other_cells
    first = _first_of_each(ids)
    heads = np.empty(len(first), COLUMN_HEAD)
    heads["key"], heads["entries"] = ids[first], np.diff(first, append=n_entries)
    return RecordBatch(heads, {"cells": cells})


class RunSummary(NamedTuple):
    """Facts about a sorted run of columns: the marks (some feature ids), a sample of ids, the number of entries."""

    marks: NDArray[np.uint64]
    sample: IdSample
    n_entries: int


def sort_columns(
    runs: Runs, number: int, source: Dataset, blocks: Sequence[int], n_entries: int, gap: int
) -> tuple[int, RunSummary]:
    """Write the columns of some row blocks as a sorted run, and note the feature id at every `gap` entries (a mark)."""
    columns = column_records(map(source.read, blocks), n_entries)
    return number, write_column_run(runs, number, columns, gap)


def write_column_run(runs: Runs, number: int, columns: RecordBatch, gap: int) -> RunSummary:
    """Write columns that are sorted by feature id as a sorted run, and return the summary of the sorted run."""
    heads, cells = columns.heads, columns.arrays["cells"]
    ids = columns.field("key")
    marked = np.searchsorted(edges_of(heads["entries"]), np.arange(0, len(cells), gap), side="right") - 1
    runs.write(number, heads, np.append(marked, len(heads)), columns.arrays.__getitem__)
    return RunSummary(ids[marked], IdSample.of(ids), len(cells))


@dataclass(frozen=True, slots=True, eq=False)
class MergedColumns:
    """The columns with feature ids ``low … high``, to be merged from all sorted runs."""

    runs: Runs
    section: Section
    low: int
    high: int

    @classmethod
    def of(cls, runs: Runs, summaries: Sequence[RunSummary], low: int, high: int) -> MergedColumns:
        """Find the slots (pieces) of each sorted run that may hold columns with feature ids ``low … high``."""
        first = [max(0, int(np.searchsorted(run.marks, np.uint64(low), "right")) - 1) for run in summaries]
        last = [int(np.searchsorted(run.marks, np.uint64(high), "right")) for run in summaries]
        return cls(runs, Section(np.array(first), np.maximum(first, last)), low, high)

    def read(self, names: Sequence[str] = ("cells",)) -> ColumnArrays:
        """Return the merged columns with their cells, or only their ids and sizes if `names` is empty."""
        records, order = self.runs.read(self.section, names)
        ids = records.field("key")[order]
        own = slice(
            int(np.searchsorted(ids, np.uint64(self.low))), int(np.searchsorted(ids, np.uint64(self.high), "right"))
        )
        ids, order = ids[own], order[own]
        first = _first_of_each(ids)
        indptr = edges_of(records.field("entries")[order])[np.append(first, len(ids))]
        return ColumnArrays(ids[first], indptr, records.take("cells", order) if names else None)


def mark_gap(n_entries: int, n_runs: int, task_entries: int) -> int:
    """Return the number of entries from one mark (a known feature id) of a sorted run to the next mark."""
    return max(1, task_entries // (8 * n_runs), n_entries // MOST_MARKS)


def merged_ranges(
    runs: Runs, summaries: Sequence[RunSummary], gap: int, most: int, names: Sequence[str] = (), threads: int = 1
) -> Iterable[ColumnArrays]:
    """Return all columns in ranges of feature ids, each range with at most `most` entries or one column.

    The columns have cells if `names` is ``["cells"]``, else only sizes. Up to `threads` threads read the next ranges.
    """
    marks = np.sort(np.concatenate([run.marks for run in summaries]))
    step = max(most // gap - len(summaries), 1)  # a range may begin and end between marks in every run
    edges = _distinct(marks[step::step])
    edges = edges[np.searchsorted(edges, marks[0], side="right") :]  # beyond the smallest id: no range is empty
    ends = [0, *edges.tolist(), LARGEST_KEY + 1]

    def read(number: int, _: None) -> ColumnArrays:
        return MergedColumns.of(runs, summaries, ends[number], ends[number + 1] - 1).read(names)

    return Prefetcher[ColumnArrays, None](read, range(len(ends) - 1), lambda: None, threads, threads)


def cut_blocks(ranges: Iterable[ColumnArrays], shape: BlockShape) -> Iterator[ColumnArrays]:
    """Cut columns into blocks, which do not depend on how the columns are divided into `ranges`."""
    block: list[ColumnArrays] = []  # what is known of the next block, from several ranges
    for columns in ranges:
        first, count = 0, len(columns.ids)
        while first < count:
            n_columns, n_entries = sum(len(part.ids) for part in block), sum(part.n_entries for part in block)
            room = int(columns.indptr[first]) + shape.entries - n_entries
            end = min(int(np.searchsorted(columns.indptr, room, side="right")) - 1, first + shape.rows - n_columns)
            end = min(max(end, first if block else first + 1), count)
            if end > first:
                block.append(columns.between(first, end))
            if end < count:
                yield ColumnArrays.joined(block)
                block = []
            first = end
    if block:
        yield ColumnArrays.joined(block)


def plan_columns(
    source: Dataset,
    wanted: KeyRange,
    blocks: Iterable[ColumnArrays],
    shape: BlockShape,
    merged: Callable[[int, int], MergedColumns] | None = None,
    task_entries: int = 0,
) -> ReorderPlan:
    """Plan tasks that write blocks of sparse columns.

    Parameters
    ----------
    source, wanted
        The source dataset, and the rows of the source that go into the new dataset.
    blocks
        The blocks that `cut_blocks` yields.
    shape
        The largest numbers of columns and entries in a block.
    merged
        Function that returns the columns between two feature ids for a task to read, if `blocks` have no cells.
    task_entries
        The most entries that such a task writes, unless a single block has more. Other tasks write one block.
    """

    def tasks() -> Iterator[WriteTask]:
        n_chunks = 0
        for group in consecutive_groups(blocks, attrgetter("n_entries"), task_entries):
            first_block, first_chunk = len(plan.blocks), n_chunks
            sizes = [shape.block(len(block.ids), block.n_entries) for block in group]
            plan.blocks += sizes
            plan.first_ids += [int(block.ids[0]) for block in group]
            n_chunks += sum(size.chunks for size in sizes)
            # How long the arrays will be is not known yet, but their chunks are.
            plan.specs = shape.column_specs(len(plan.blocks), n_chunks)
            if "values" not in source.arrays:
                del plan.specs["values"]
            columns = group[0] if merged is None else merged(int(group[0].ids[0]), int(group[-1].ids[-1]))
            chunks = partial(sparse_chunks, columns.read, plan.specs, sizes, first_block, first_chunk)
            moved = sum(size.entries for size in sizes) if wanted.is_all else 0  # a split counts the blocks it reads
            yield WriteTask(plan.specs, moved, chunks)
        n_entries = sum(block.entries for block in plan.blocks)
        if wanted.is_all and n_entries != source.n_entries:
            reason = f"{source.n_entries} entries were expected, {n_entries} found; verify it"
            raise DatasetError(f"{source.url}: {reason}")

    plan = ReorderPlan(source, wanted, "columns", tasks(), {})
    return plan


class IdSample(NamedTuple):
    """A sample of one in ``2**level`` feature ids, chosen by a hash so that samples of sorted runs can be united."""

    level: int
    ids: NDArray[np.uint64]

    @classmethod
    def of(cls, ids: NDArray[np.uint64], level: int = 0) -> IdSample:
        """Return the largest sample of distinct feature ids that has at most `SAMPLE_SIZE` ids."""
        level = max(level, (len(ids) // (4 * SAMPLE_SIZE)).bit_length() - 1)  # a lower level is never enough
        hashes = ids * np.uint64(0x9E3779B97F4A7C15)
        while np.count_nonzero(mask := hashes <= np.uint64(LARGEST_KEY) >> np.uint64(level)) > SAMPLE_SIZE:
            level += 1
        return cls(level, ids[mask])


def count_columns(samples: Iterable[IdSample]) -> int:
    """Estimate the number of distinct columns in several sorted runs together, to a few per cent."""
    levels, ids = zip(*samples, strict=True)
    united = IdSample.of(_distinct(np.sort(np.concatenate(ids))), max(levels))
    return len(united.ids) << united.level


def column_shape(samples: Iterable[IdSample], n_entries: int, block_entries: int, compression: Codec) -> BlockShape:
    """Return the shape of blocks that hold `block_entries` entries if columns have average length."""
    columns = count_columns(samples)
    shape = block_shape(n_entries / columns, compression, min(block_entries, n_entries))
    return BlockShape(min(shape.rows, columns), shape.entries, compression)


def _distinct(ascending: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return ascending[_first_of_each(ascending)]


def _first_of_each(ascending: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where each distinct number begins in an ascending array, much faster than `numpy.unique`."""
    return np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: len(ascending)])


def share_shape(share: RowShare) -> BlockShape:
    """Return the block shape for a split: as many entries as in a source block, and more columns, which are shorter."""
    source, width = share.source, share.source.arrays["rows"].chunks[1]
    columns = source.meta.n_features
    mean = source.n_entries / columns * share.wanted.n_rows / source.n_samples
    shape = block_shape(max(mean, 1), source.arrays["rows"].codec, width)
    return BlockShape(min(shape.rows, columns), width, shape.compression)


def share_columns(share: RowShare) -> Iterable[ColumnArrays]:
    """Return an iterable of the wanted rows of each block of sparse columns, without columns that become empty."""
    mask = share.wanted.mask(0, share.source.n_samples)
    new_rows = np.cumsum(mask, dtype=np.uint32)
    new_rows -= 1

    def read(number: int, _: None) -> ColumnArrays:
        block = share.source.read(number)
        assert isinstance(block, SparseColumnBlock)
        wanted = mask[block.rows]
        edges = edges_of(wanted)[block.indptr]
        cells = np.empty(int(edges[-1]), CELL)
        cells["row"], cells["value"] = new_rows[block.rows[wanted]], block.values[wanted]
        filled = np.flatnonzero(np.diff(edges))
        return ColumnArrays(block.ids[filled], np.append(edges[filled], edges[-1]), cells)

    return Prefetcher[ColumnArrays, None](read, range(share.source.n_blocks()), lambda: None, ahead=1)
