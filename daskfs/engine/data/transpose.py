"""transpose: a sparse dataset in rows becomes one in columns, in bounded memory.

Threads turn groups of row blocks into runs of columns (`store.column_runs`) on the target's disk; the runs are then
merged, one range of ids after the other, while the range before is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.cluster.pool import ProgressCallback, ProgressCounter, Threads, available_cores
from daskfs.engine.data.transpose_memory import TransposeMemory
from daskfs.errors import OptionError, check_choice
from daskfs.protocol import SparseBlock
from daskfs.store.dataset.codec import Codec, Compression
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import UNFINISHED
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.dataset.writer import new_writer, prepare
from daskfs.store.ingest.arrays import BLOCK_ENTRIES
from daskfs.store.places.location import Location
from daskfs.store.places.read_ahead import Prefetcher
from daskfs.store.reorder.column_runs import Columns, MergedRuns, Run, range_edges, transposed, write_run
from daskfs.store.reorder.row_keys import Keys
from daskfs.store.reorder.transpose import ColumnWriter, column_shape, in_blocks

MOST_ROWS = 1 << 32  # a row's number is stored in 32 bits


def transpose(
    dataset: Dataset | str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    memory: int | str = "512MB",
    block_entries: int = BLOCK_ENTRIES,
    compression: Compression = "lz4",
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> Dataset:
    """Write a sparse dataset, which is laid out in rows, once more in columns.

    Labels, row weights and names are kept, tags of rows are not. An interrupted transpose starts over when it
    is run again.

    Parameters
    ----------
    dataset
        The source: a sparse dataset in rows, or where it is.
    url
        Where the columns go. Until they are complete, as much again is kept there as they take uncompressed.
    memory
        What this process may use beyond what it has at the start; and a few times the largest column.
    block_entries
        How many entries a block has; more only if a single column does.
    compression
        As for `write_dataset`.
    overwrite
        Replace a dataset that is there already.
    storage_options
        How the stores of both places are reached; see `open_dataset`. Open the source yourself if it needs others.
    progress
        Called with (entries moved, entries to move); every entry moves twice.

    Returns
    -------
    Dataset
        The new dataset, opened: ``blocks()`` gives `SparseColumnBlock`, all columns but the empty ones by ascending id.

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
    _check(source, location)
    sizes = source.block_entries()
    budget = TransposeMemory.of(
        memory,
        available_cores(),
        n_samples=source.n_samples,
        n_entries=source.n_entries,
        largest_block=int(sizes.max()),
        block_entries=block_entries,
    )
    with location.one_writer():
        prepare(location, overwrite)
        location.write(f"{UNFINISHED}/transpose", b"")
        moved = ProgressCounter(2 * source.n_entries, progress)
        some = [group for group in consecutive_groups(sizes, budget.run_entries) if sizes[group].any()]
        gap = max(1, budget.range_entries // (4 * len(some)))
        tasks = [(source, group, int(sizes[group].sum()), location, n, gap) for n, group in enumerate(some)]
        runs = _runs(tasks, budget.workers, moved)
        shape = column_shape((run.sample for run in runs), source.n_entries, block_entries, Codec(compression))
        writer = ColumnWriter(new_writer(location), shape, with_values="values" in source.arrays)
        for block in in_blocks(_merged(location, runs, range_edges(runs, gap, budget.range_entries)), shape):
            writer.write(block)
            moved.add(len(block.entries))
        writer.close(source, Keys.every(0, source.n_samples), {"by": "transpose", "source": source.digest})
    return open_dataset(url, storage_options)


def _check(source: Dataset, location: Location) -> None:
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


def _runs(tasks: list[tuple[Any, ...]], workers: int, moved: ProgressCounter) -> list[Run]:
    """All runs, in the order of their rows."""
    runs: dict[int, Run] = {}
    for number, run in Threads(workers).unordered("transpose", _make_run, tasks):
        runs[number] = run
        moved.add(run.sizes["entries"])
    return [runs[number] for number in sorted(runs)]


def _make_run(source: Dataset, group: range, size: int, location: Location, number: int, gap: int) -> tuple[int, Run]:
    """Turn a group of blocks, of `size` entries together, into the run of that number."""
    return number, write_run(location, number, transposed(_rows(source, group), size), gap)


def _rows(source: Dataset, numbers: range) -> Iterator[SparseBlock]:
    for number in numbers:
        block = source.read(number)
        assert isinstance(block, SparseBlock)
        yield block


def _merged(location: Location, runs: Sequence[Run], edges: NDArray[np.uint64]) -> Iterable[Columns]:
    """The columns of all runs, the next range of ids being merged while the caller works on one."""
    merged = MergedRuns(location, runs, edges)
    return Prefetcher[Columns, None](lambda number, _: merged.read(number), range(merged.count), lambda: None, ahead=1)
