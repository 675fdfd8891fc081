"""The functions `shuffle` and `transpose`, and their external sort on threads or a Dask cluster.

Tasks sort groups of source blocks into sorted runs at the target location. Then other tasks merge ranges of keys from
all sorted runs and write the blocks of the new dataset. The package `store.reorder` implements the sort. A reader can
open the new dataset only when all files are written. A killed shuffle or transpose starts over when called again.
"""

from __future__ import annotations

import os
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.cluster.pool import Pool, ProgressCallback, ProgressCounter, Threads, pool
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import OptionError, check_choice, check_whole
from daskfs.store.dataset.codec import Codec, Compression
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import UNFINISHED, UNSHUFFLED
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.dataset.writer import ChunkRecords, check_free, new_writer, prepare, retire
from daskfs.store.ingest.arrays import BLOCK_ENTRIES
from daskfs.store.places.location import Location
from daskfs.store.reorder import columns
from daskfs.store.reorder.plan import ReorderPlan, WriteTask
from daskfs.store.reorder.rows import RowSlots, block_bytes, plan_rows, row_arrays, slot_bits, sort_rows
from daskfs.store.reorder.runs import KeyRange, Runs

if TYPE_CHECKING:
    from distributed import Client

MEMORY = "512MB"
MOST_ROWS = 1 << 32  # of a transpose: a row's number is stored in 32 bits

# Calculated, and checked on small data by the tests of shuffle, split and transpose.
BLOCK_FACTOR = 8  # a block of rows is read ahead, decoded and copied; or put together, encoded and written
_SLOT_BYTES = 400  # the index of a run while it is sorted, and the sums over all runs
_ENTRY_BYTES = 16  # of a transpose: id, row number and value
_SHORT = 4  # entries of a column on average, below which its size is not much less to merge than the column
_ENCODING_BYTES = 64  # per entry of a block of columns that is being encoded
TARGET_BYTES = 24  # per row of a dataset in columns: label, weight, whether the row is wanted, its new number


@dataclass(frozen=True, slots=True)
class Reorder(ABC):
    """Base class of shuffle, split and transpose, which write rows of a dataset in another order or layout."""

    action: ClassVar[str]
    source: Dataset
    budget: ReorderMemory
    pool: Pool

    @abstractmethod
    def to_move(self, n_rows: int) -> int:
        """Return the total count of progress (in rows, entries or blocks) that writing `n_rows` rows reports."""

    @abstractmethod
    def plan(self, wanted: KeyRange, location: Location, moved: ProgressCounter) -> ReorderPlan:
        """Write sorted runs, if an external sort is needed, and return the tasks that write the wanted rows."""


class Output(NamedTuple):
    """A dataset to be written: its location, the wanted rows of the source, and the origin stored in its metadata."""

    location: Location
    wanted: KeyRange
    origin: dict[str, Any]


def write_outputs(
    reorder: Reorder, outputs: Sequence[Output], overwrite: bool, progress: ProgressCallback | None
) -> None:
    """Write the output datasets one after the other, while the locations of all outputs are locked."""
    moved = ProgressCounter(sum(reorder.to_move(output.wanted.n_rows) for output in outputs), progress)
    with ExitStack() as locks:
        for output in outputs:
            locks.enter_context(output.location.one_writer())
        for number, (location, wanted, origin) in enumerate(outputs):
            prepare(location, overwrite)
            location.write(f"{UNFINISHED}/{reorder.action}", b"")
            close = _write_tasks(reorder, wanted, location, moved)
            for later in outputs[number + 1 :]:
                retire(later.location)  # parts of two different splits must never lie side by side: they may share rows
            close(origin)


def _write_tasks(
    reorder: Reorder, wanted: KeyRange, location: Location, moved: ProgressCounter
) -> Callable[[dict[str, Any]], None]:
    """Write the wanted rows to a prepared location, and return a function that marks the new dataset complete."""
    plan, writer = reorder.plan(wanted, location, moved), new_writer(location)
    written = defaultdict[str, list[NDArray[np.uint64]]](list)
    tasks = ((task, writer.location) for task in plan.tasks)
    try:
        for count, records in reorder.pool.unordered("write", _write, tasks):
            for name, lines in records.items():
                written[name].append(np.array(lines, np.uint64))
            moved.add(count)
    finally:
        if isinstance(plan.tasks, Generator):
            plan.tasks.close()  # end its threads here; the garbage collector may wait for them in any thread
    return lambda origin: plan.close(writer, written, origin, reorder.action == Shuffler.action)


def _write(task: WriteTask, location: Location) -> tuple[int, dict[str, ChunkRecords]]:
    return task.moved, task.write(location)


def _new_runs_folder() -> str:
    return f"{UNFINISHED}/{uuid.uuid4().hex[:8]}"


def shuffle(
    dataset: Dataset | str | os.PathLike[str],
    url: str | os.PathLike[str],
    seed: int = 0,
    *,
    memory: int | str = MEMORY,
    overwrite: bool = False,
    client: Client | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> Dataset:
    """Write a copy of a dataset with the rows in random order, for algorithms that learn row by row.

    Labels, row weights, tags, names and the block size are kept. An interrupted shuffle starts over when called again.

    Parameters
    ----------
    dataset
        The source dataset, or its path or URL. The source must be laid out in rows or both, the result is in rows.
    url
        The location of the shuffled dataset. During the shuffle, the location also holds an uncompressed copy of the
        rows.
    seed
        The seed of the random order. The order depends only on the seed and the number of rows.
    memory
        The additional memory that this process (on a cluster: each thread of a worker) may use, not counting a few
        times the largest row.
    overwrite
        Replace an existing dataset at `url`.
    client, workers
        The Dask client or the number of threads to use, as for `ingest`.
    storage_options
        Options for the stores of source and target, as for `open_dataset`. Pass an opened source if it needs others.
    progress
        A function that is called with (rows moved, rows to move), where every row is counted twice.

    Returns
    -------
    Dataset
        The new dataset, opened.

    Examples
    --------
    >>> X = np.arange(8, dtype="float32").reshape(8, 1)
    >>> _ = daskfs.write_dataset("sorted.zarr", X, X[:, 0] > 3, layout="rows")
    >>> mixed = daskfs.shuffle("sorted.zarr", "mixed.zarr", seed=1)
    >>> mixed.read(0).X[:, 0], mixed.read(0).y
    (array([2., 4., 7., 0., 6., 5., 3., 1.], dtype=float32), array([0., 1., 1., 0., 1., 1., 0., 0.]))
    """
    check_whole("seed", seed, 0)
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset, storage_options)
    location = Location(url, storage_options)
    check_laid_out_in_rows(source)
    if location.is_within(source.location):
        raise OptionError(f"{location.url}: is the dataset to be shuffled, or lies in it; choose another place")
    check_free(location, overwrite)
    origin = {**source.attributes.get("made", {}), "by": "shuffle", "seed": seed, "source": source.digest}
    if "request" in origin:
        origin["request"] = shuffled_request(origin["request"], seed)
    shuffler = Shuffler.of(source, memory, pool(client, workers, [source.location.options, location.options]))
    write_outputs(shuffler, [Output(location, KeyRange.every(seed, source.n_samples), origin)], overwrite, progress)
    return open_dataset(url, storage_options)


def shuffle_in_place(
    location: Location, seed: int, memory: int | str | None, origin: Mapping[str, Any], where: Pool
) -> None:
    """Replace the rows of an ingested dataset that only has the root `UNSHUFFLED` by the same rows in random order."""
    source = Dataset(location, root=UNSHUFFLED)
    shuffler = Shuffler.of(source, MEMORY if memory is None else memory, where)
    wanted = KeyRange.every(seed, source.n_samples)
    close = _write_tasks(shuffler, wanted, location, ProgressCounter(shuffler.to_move(source.n_samples), None))
    close({**source.attributes["made"], "seed": seed, **origin})


def check_laid_out_in_rows(source: Dataset) -> None:
    """Raise OptionError if a dataset is not laid out in rows and so cannot be shuffled."""
    if source.layout == "columns":
        remedy = "write it with layout='rows'" if source.kind == "dense" else "shuffle what it was transposed from"
        raise OptionError(f"{source.url}: laid out in columns, which cannot be shuffled row by row; {remedy}")


def shuffled_request(request: str, seed: int) -> str:
    """Return the request that identifies the dataset of an ingest request after a shuffle with `seed`."""
    return f"{request} shuffled {seed}"


class Shuffler(Reorder):
    """Writes the rows of a dataset in the order of a random key for each row."""

    action = "shuffle"

    @classmethod
    def of(cls, source: Dataset, memory: int | str, where: Pool) -> Shuffler:
        """Return a shuffler with a memory budget, or raise OptionError if the memory does not suffice."""
        sizes = block_bytes(source)
        largest = int(sizes.max())
        each = BLOCK_FACTOR * largest + (_SLOT_BYTES << slot_bits(source))
        needs = {"largest_block": largest, "total": int(sizes.sum()), "each": each, "run_factor": 3}
        budget = ReorderMemory.of(cls.action, memory, where.sharing, **needs)
        return cls(source, budget, where.limited_to(budget.workers))

    def to_move(self, n_rows: int) -> int:
        return 2 * n_rows

    def plan(self, wanted: KeyRange, location: Location, moved: ProgressCounter) -> ReorderPlan:
        source, bits = self.source, slot_bits(self.source)
        sizes = block_bytes(source)
        groups = list(consecutive_groups(range(len(sizes)), sizes.__getitem__, self.budget.run_bytes))
        runs = Runs(location, _new_runs_folder(), len(groups), row_arrays(source))
        tasks = [(runs, number, source, blocks, wanted, bits) for number, blocks in enumerate(groups)]
        total = np.zeros((2, 1 << bits), np.int64)
        for counts in self.pool.unordered("sort", sort_rows, tasks):
            total += counts
            moved.add(int(counts[0].sum()))
        return plan_rows(source, runs, wanted, RowSlots(total), "rows", self.budget.task_bytes)


def transpose(
    dataset: Dataset | str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    memory: int | str = MEMORY,
    block_entries: int = BLOCK_ENTRIES,
    compression: Compression = "lz4",
    overwrite: bool = False,
    client: Client | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> Dataset:
    """Convert a sparse dataset laid out in rows to a new dataset laid out in columns.

    Labels, row weights and names are kept, tags of rows are not. An interrupted transpose starts over when called
    again.

    Parameters
    ----------
    dataset
        The source, a sparse dataset laid out in rows, or its path or URL.
    url
        The location of the dataset in columns. During the transpose, the location also holds an uncompressed copy of
        the entries.
    memory
        The additional memory that this process and, on a cluster, each thread of a worker may use, not counting a few
        times the largest column.
    block_entries
        The largest number of entries of a block, except for a block of a single larger column.
    compression
        The compression of chunks, as for `write_dataset`.
    overwrite
        Replace an existing dataset at `url`.
    client, workers
        The Dask client or the number of threads to use, as for `ingest`.
    storage_options
        Options for the stores of source and target, as for `open_dataset`. Pass an opened source if it needs others.
    progress
        A function that is called with (entries moved, entries to move), where every entry is counted twice.

    Returns
    -------
    Dataset
        The new dataset, whose blocks are of type `SparseColumnBlock` and hold the nonempty columns by ascending id.

    Examples
    --------
    >>> _ = Path("two.svm").write_text("+1 7:0.5 9:1\\n-1 9:2\\n")
    >>> columns = daskfs.transpose(daskfs.ingest("two.svm", "rows.zarr", format="svmlight"), "columns.zarr")
    >>> block = columns.read(0)
    >>> block.ids, block.indptr, block.rows
    (array([7, 9], dtype=uint64), array([0, 1, 3]), array([0, 0, 1], dtype=uint32))
    """
    check_choice("compression", compression, Compression)
    if block_entries < 1:
        raise OptionError(f"block_entries: {block_entries} entries are no block; 1 is the least")
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset, storage_options)
    location = Location(url, storage_options)
    if source.kind == "dense":
        raise OptionError(f"{source.url}: dense; write it with layout='columns' or 'both' instead")
    if source.layout == "columns":
        raise OptionError(f"{source.url}: laid out in columns already")
    if source.location.is_same_place(location):
        raise OptionError(f"{location.url}: source and target are the same place; choose another target")
    if source.n_samples > MOST_ROWS:
        raise OptionError(f"{source.url}: {source.n_samples:,} rows; at most {MOST_ROWS:,} can be transposed")
    if source.n_entries == 0:
        raise OptionError(f"{source.url}: has no entries, and so no columns to lay out")
    where = pool(client, workers, [source.location.options, location.options])
    transposer = Transposer.of(source, memory, where, block_entries, Codec(compression))
    origin = {"by": "transpose", "source": source.digest}
    write_outputs(transposer, [Output(location, KeyRange.every(0, source.n_samples), origin)], overwrite, progress)
    return open_dataset(url, storage_options)


@dataclass(frozen=True, slots=True)
class Transposer(Reorder):
    """Writes a sparse dataset in rows as a dataset in columns, in the order of feature ids."""

    action = "transpose"
    block_entries: int
    compression: Codec

    @classmethod
    def of(cls, source: Dataset, memory: int | str, where: Pool, block_entries: int, compression: Codec) -> Transposer:
        """Return a transposer with a memory budget, or raise OptionError if the memory does not suffice."""
        needs = transpose_needs(source.n_samples, source.n_entries, int(source.block_entries().max()), block_entries)
        needs["fixed"] += 8 * len(source.target_names or ()) * source.n_samples
        budget = ReorderMemory.of(cls.action, memory, where.sharing, **needs)
        return cls(source, budget, where.limited_to(budget.workers), block_entries, compression)

    def to_move(self, n_rows: int) -> int:
        return 2 * self.source.n_entries

    def plan(self, wanted: KeyRange, location: Location, moved: ProgressCounter) -> ReorderPlan:
        source, sizes = self.source, self.source.block_entries()
        some = consecutive_groups(range(len(sizes)), sizes.__getitem__, self.budget.run_bytes // _ENTRY_BYTES)
        groups = [group for group in some if sizes[group].any()]
        most = max(1, self.budget.task_bytes // _ENTRY_BYTES)
        gap = columns.mark_gap(source.n_entries, len(groups), most)
        arrays = {"heads": columns.COLUMN_HEAD, "cells": columns.CELL}
        runs = Runs(location, _new_runs_folder(), len(groups), arrays)
        tasks = [(runs, number, source, group, int(sizes[group].sum()), gap) for number, group in enumerate(groups)]
        unordered: dict[int, columns.RunSummary] = {}
        for number, summary in self.pool.unordered("sort", columns.sort_columns, tasks):
            unordered[number] = summary
            moved.add(summary.n_entries)
        summaries = [unordered[number] for number in range(len(tasks))]
        samples = [run.sample for run in summaries]
        shape = columns.column_shape(samples, source.n_entries, self.block_entries, self.compression)
        are_short = source.n_entries < _SHORT * columns.count_columns(samples)
        if are_short and isinstance(self.pool, Threads):  # to merge sizes takes as long as to merge columns: do it once
            ranges = columns.merged_ranges(runs, summaries, gap, most // 2, ["cells"], self.pool.sharing)
            return columns.plan_columns(source, wanted, columns.cut_blocks(ranges, shape), shape)
        sizes_only = columns.merged_ranges(runs, summaries, gap, most // 2)  # each task merges its own columns
        merged = partial(columns.MergedColumns.of, runs, summaries)
        blocks = columns.cut_blocks(sizes_only, shape)
        return columns.plan_columns(source, wanted, blocks, shape, merged, most - gap * len(groups))


def transpose_needs(n_samples: int, n_entries: int, largest_block: int, block_entries: int) -> dict[str, int]:
    """Return the memory needs of a transpose in bytes, as keyword arguments of `ReorderMemory.of`."""
    return {
        "largest_block": _ENTRY_BYTES * largest_block,
        "total": _ENTRY_BYTES * n_entries,
        "fixed": TARGET_BYTES * n_samples,
        "each": _ENCODING_BYTES * min(block_entries, n_entries),
        "run_factor": 4,
        "task_factor": 12,
    }
