"""split: the rows of a dataset, drawn at random into a training and a test dataset, in bounded memory.

The seed and the number of rows decide which rows those are. Each of the two datasets is written in one pass over the
source, or in two passes where it is shuffled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from numbers import Real
from typing import Any

import numpy as np
from distributed import Client

from daskfs.engine.cluster.pool import Pool, ProgressCallback, ProgressCounter, Threads, in_order, pool
from daskfs.engine.data.reorder import (
    BLOCK_FACTOR,
    MEMORY,
    TARGET_BYTES,
    Output,
    Reorder,
    Shuffler,
    check_laid_out_in_rows,
    write_outputs,
)
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import DatasetError, OptionError, check_whole
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import ROOT
from daskfs.store.dataset.writer import check_free
from daskfs.store.ingest.plan import is_done
from daskfs.store.places.location import Location
from daskfs.store.reorder.columns import (
    ColumnArrays,
    cut_blocks,
    plan_columns,
    plan_dense_share,
    share_columns,
    share_shape,
)
from daskfs.store.reorder.plan import ReorderPlan
from daskfs.store.reorder.rows import SLOTS_PER_BLOCK, RowShare, RowSlots, block_bytes, count_rows, plan_rows
from daskfs.store.reorder.runs import KeyRange, draw_rows

BLOCKS_COUNTED = 64  # by a task: where sparse rows begin is little to read


def split(
    dataset: Dataset | str | os.PathLike[str],
    train: str | os.PathLike[str],
    test: str | os.PathLike[str],
    fraction: float = 0.2,
    *,
    seed: int = 0,
    shuffle: bool = False,
    memory: int | str = MEMORY,
    overwrite: bool = False,
    client: Client | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> tuple[Dataset, Dataset]:
    """Write the rows of a dataset as two datasets: one to learn from, and one to measure the result on.

    Everything else stays as it is: kind and layout, all classes, row weights, tags, names, ids and the size of blocks.
    A second call leaves a complete part as it is, and starts over with a part that was interrupted.

    Parameters
    ----------
    dataset
        The source, of any kind and layout, or its path or URL.
    train, test
        Where the two parts go.
    fraction
        The share of the rows that are for the test: ``round(fraction * n)`` of them, one at least, and one left.
    seed
        Rows are drawn without replacement. Which rows depends on the seed and the number of rows alone, not on the
        kind, the layout, the size of blocks, the memory or the workers.
    shuffle
        Write both parts in random order; the dataset must be laid out in rows. Together the parts are what `shuffle`
        gives with this seed, the rows for the test first. Otherwise rows keep their order.
    memory
        What this process (on a cluster: each thread of a worker) may use beyond what it has at the start; and a few
        times the largest row or column. Columns take some bytes for each row besides.
    overwrite
        Replace datasets that are there already.
    client, workers
        Where to run, as for `ingest`. Sparse columns are written by threads of this process alone.
    storage_options
        Passed on to fsspec, for all three places. Open the source yourself if it needs others.
    progress
        Called with (done, to do), in rows and columns, or blocks of sparse columns.

    Returns
    -------
    tuple of Dataset
        The two new datasets, opened.

    Examples
    --------
    >>> X = np.arange(8, dtype="float32").reshape(8, 1)
    >>> daskfs.write_dataset("all.zarr", X, X[:, 0] > 3)
    >>> train, test = daskfs.split("all.zarr", "train.zarr", "test.zarr", 0.25)
    >>> train.read(0).X[:, 0], test.read(0).X[:, 0]
    (array([0., 1., 2., 3., 4., 6.], dtype=float32), array([5., 7.], dtype=float32))
    """
    check_whole("seed", seed, 0)
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset, storage_options)
    count = _n_test_rows(fraction, source)
    train_place, test_place = Location(train, storage_options), Location(test, storage_options)
    _check_places(source.location, train_place, test_place)
    if shuffle:
        check_laid_out_in_rows(source)
    test_rows, train_rows = draw_rows(seed, source.n_samples, count)
    outputs = []
    for name, location, wanted in (("train", train_place, train_rows), ("test", test_place, test_rows)):
        request = _request(name, source, count, seed, shuffle)
        origin = {"by": "split", "seed": seed, "source": source.digest, "content": source.digest}
        if overwrite or not _is_written(location, request, source):
            outputs.append(Output(location, wanted, {**origin, "part": name, "request": request}))
    for output in outputs:
        check_free(output.location, overwrite)
    if outputs:
        where = pool(client, workers, [source.location.options, train_place.options, test_place.options])
        reorder = Shuffler.of(source, memory, where) if shuffle else Splitter.of(source, memory, where)
        write_outputs(reorder, outputs, overwrite, progress)
    return open_dataset(train, storage_options), open_dataset(test, storage_options)


def _is_written(location: Location, request: str, source: Dataset) -> bool:
    """Return whether a part is there already, written from what the source holds now."""
    if not location.exists(ROOT):
        return False
    with location.one_writer():
        return is_done(location, request, source.digest)


def _request(name: str, source: Dataset, count: int, seed: int, shuffle: bool) -> str:
    """Return what identifies a part; it names the number of rows and not the fraction, since that alone decides."""
    order = ", in random order" if shuffle else ""
    return f"split: {name}, {count} of {source.n_samples} rows for the test, seed {seed}{order}"


def _n_test_rows(fraction: float, source: Dataset) -> int:
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 < float(fraction) < 1:
        raise OptionError(f"fraction={fraction!r:.40}: the share of rows for the test must be between 0 and 1")
    if source.n_samples < 2:
        raise OptionError(f"{source.url}: has one row; one of the two parts would be empty")
    return min(max(round(float(fraction) * source.n_samples), 1), source.n_samples - 1)


def _check_places(*places: Location) -> None:
    for place, other in permutations(places, 2):
        if place.is_within(other):
            raise OptionError(
                f"{place.url}: is or lies in {other.url}; source, train and test need places of their own"
            )


class Splitter(Reorder):
    """Writes some rows of a dataset in the order of the dataset."""

    action = "split"

    @classmethod
    def of(cls, source: Dataset, memory: int | str, where: Pool) -> Splitter:
        """Divide the memory; OptionError if it does not suffice."""
        largest, fixed = 0, 0
        if source.layout != "columns":
            largest = int(block_bytes(source).max())
        if source.layout != "rows":
            largest = max(largest, int(source.block_sizes("columns").max()))
            fixed = TARGET_BYTES * source.n_samples
        needs = {"largest_block": largest, "fixed": fixed, "each": BLOCK_FACTOR * largest}
        budget = ReorderMemory.of(cls.action, memory, where.sharing, **needs)
        in_columns = (source.kind, source.layout) == ("sparse", "columns")
        return cls(source, budget, Threads(budget.workers) if in_columns else where)

    def to_move(self, n_rows: int) -> int:
        if (self.source.kind, self.source.layout) == ("sparse", "columns"):
            return self.source.n_blocks()
        columns = 0 if self.source.layout == "rows" else self.source.n_features
        return columns + (0 if self.source.layout == "columns" else n_rows)

    def plan(self, wanted: KeyRange, location: Location, moved: ProgressCounter) -> ReorderPlan:
        source, share = self.source, RowShare(self.source, wanted)
        if source.kind == "sparse" and source.layout == "columns":
            shape = share_shape(share)
            blocks = _check_not_empty(cut_blocks(_counted(share_columns(share), moved), shape), location)
            return plan_columns(source, wanted, blocks, shape, 0, lambda group: group[0])
        slots = None if source.layout == "columns" else self._slots(share)
        if source.kind == "dense":
            return plan_dense_share(share, slots, self.budget.task_bytes)
        assert slots is not None
        return plan_rows(source, share, wanted, slots, self.budget.task_bytes)

    def _slots(self, share: RowShare) -> RowSlots:
        """Count the wanted rows in each eighth of a block."""
        numbers = range(self.source.n_blocks("rows"))
        tasks = [(share, numbers[first : first + BLOCKS_COUNTED]) for first in numbers[::BLOCKS_COUNTED]]
        return RowSlots(np.concatenate(in_order(self.pool, "count")(count_rows, tasks), axis=1), SLOTS_PER_BLOCK)


def _counted(blocks: Iterable[ColumnArrays], moved: ProgressCounter) -> Iterator[ColumnArrays]:
    """Pass blocks of the source on, and report each as progress."""
    for block in blocks:
        yield block
        moved.add(1)


def _check_not_empty(blocks: Iterator[ColumnArrays], location: Location) -> Iterator[ColumnArrays]:
    """Pass blocks on; DatasetError if there are none."""
    block = next(blocks, None)
    if block is None:
        raise DatasetError(f"{location.url}: none of its rows has an entry; use another seed or fraction")
    yield block
    yield from blocks
