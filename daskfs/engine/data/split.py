"""The function `split`, which divides the rows of a dataset at random into a training and a test dataset.

The choice of rows depends only on the seed, the number of rows and the number of test rows. Training and test dataset
are each written in one pass over the source, or in two passes if the rows are shuffled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

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
from daskfs.store.reorder.columns import ColumnArrays, cut_blocks, plan_columns, share_columns, share_shape
from daskfs.store.reorder.plan import ReorderPlan
from daskfs.store.reorder.rows import SLOTS_PER_BLOCK, RowShare, RowSlots, block_bytes, count_rows, plan_rows
from daskfs.store.reorder.runs import KeyRange, draw_rows

if TYPE_CHECKING:
    from distributed import Client

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
    """Write the rows of a dataset as two datasets, one for training and one for testing.

    Kind and layout, all classes, row weights, tags, names, ids and the block size are kept. A second call skips an
    output dataset that is complete, and starts over with an output dataset that was interrupted.

    Parameters
    ----------
    dataset
        The source dataset, of any kind and layout, or its path or URL.
    train, test
        The locations of the training dataset and the test dataset.
    fraction
        The share of the n rows that go to the test dataset, which gets ``round(fraction * n)`` rows (1 to n - 1).
    seed
        The seed of the random choice of rows, without replacement. The choice depends on the seed, the fraction and the
        number of rows, not on the kind, the layout, the block size, the memory or the workers.
    shuffle
        Write both datasets in random order instead of the order of the source, which must be laid out in rows. The test
        rows followed by the training rows are in the same order as after `shuffle` with this seed.
    memory
        The additional memory that this process (on a cluster: each thread of a worker) may use, not counting a few
        times the largest row or column. A source in columns takes some more bytes for each row.
    overwrite
        Replace existing datasets at `train` and `test`.
    client, workers
        The Dask client or the number of threads to use, as for `ingest`. Sparse columns are always written by threads.
    storage_options
        Options for the stores of source and targets, as for `open_dataset`. Pass an opened source if it needs others.
    progress
        A function that is called with (done, to do), counted in rows and columns, or in blocks of sparse columns.

    Returns
    -------
    tuple of Dataset
        The training dataset and the test dataset.

    Examples
    --------
    >>> X = np.arange(8, dtype="float32").reshape(8, 1)
    >>> _ = daskfs.write_dataset("all.zarr", X, X[:, 0] > 3)
    >>> train, test = daskfs.split("all.zarr", "train.zarr", "test.zarr", 0.25)
    >>> train.read(0).X[:, 0], test.read(0).X[:, 0]
    (array([0., 1., 2., 3., 4., 6.], dtype=float32), array([5., 7.], dtype=float32))
    """
    check_whole("seed", seed, 0)
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset, storage_options)
    count = _n_test_rows(fraction, source)
    train_place, test_place = Location(train, storage_options), Location(test, storage_options)
    for place, other in permutations((source.location, train_place, test_place), 2):
        if place.is_within(other):
            raise OptionError(
                f"{place.url}: is or lies in {other.url}; source, train and test need places of their own"
            )
    if shuffle:
        check_laid_out_in_rows(source)
    test_rows, train_rows = draw_rows(seed, source.n_samples, count)
    outputs, order = [], ", in random order" if shuffle else ""
    origin = {"by": "split", "seed": seed, "source": source.digest, "content": source.digest}
    for name, location, wanted in (("train", train_place, train_rows), ("test", test_place, test_rows)):
        request = f"split: {name}, {count} of {source.n_samples} rows for the test, seed {seed}{order}"
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
    """Return True if a complete output of the same request, from the same source content, is at `location`."""
    if not location.exists(ROOT):
        return False
    with location.one_writer():
        return is_done(location, request, source.digest)


def _n_test_rows(fraction: float, source: Dataset) -> int:
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 < float(fraction) < 1:
        raise OptionError(f"fraction={fraction!r:.40}: the share of rows for the test must be between 0 and 1")
    if source.n_samples < 2:
        raise OptionError(f"{source.url}: has one row; one of the two parts would be empty")
    return min(max(round(float(fraction) * source.n_samples), 1), source.n_samples - 1)


class Splitter(Reorder):
    """Writes a subset of the rows of a dataset, in the order of the source."""

    action = "split"

    @classmethod
    def of(cls, source: Dataset, memory: int | str, where: Pool) -> Splitter:
        """Return a splitter with a memory budget, or raise OptionError if the memory does not suffice."""
        largest, fixed = 0, 0
        if source.layout != "columns":
            largest = int(block_bytes(source).max())
        if source.layout != "rows":
            largest = max(largest, int(source.block_sizes("columns").max()))
            fixed = (TARGET_BYTES + 8 * len(source.target_names or ())) * source.n_samples
        needs = {"largest_block": largest, "fixed": fixed, "each": BLOCK_FACTOR * largest}
        budget = ReorderMemory.of(cls.action, memory, where.sharing, **needs)
        in_columns = (source.kind, source.layout) == ("sparse", "columns")
        return cls(source, budget, (Threads() if in_columns else where).limited_to(budget.workers))

    def to_move(self, n_rows: int) -> int:
        if (self.source.kind, self.source.layout) == ("sparse", "columns"):
            return self.source.n_blocks()
        n_columns = 0 if self.source.layout == "rows" else self.source.n_features
        return n_columns + (0 if self.source.layout == "columns" else n_rows)

    def plan(self, wanted: KeyRange, location: Location, moved: ProgressCounter) -> ReorderPlan:
        source, share = self.source, RowShare(self.source, wanted)
        if source.kind == "sparse" and source.layout == "columns":
            shape = share_shape(share)
            blocks = cut_blocks(_counted(share_columns(share), moved, location), shape)
            return plan_columns(source, wanted, blocks, shape)
        slots = None if source.layout == "columns" else self._slots(share)
        return plan_rows(source, share, wanted, slots, source.layout, self.budget.task_bytes)

    def _slots(self, share: RowShare) -> RowSlots:
        """Count the wanted rows in each slot, which is one eighth of a block."""
        numbers = range(self.source.n_blocks("rows"))
        tasks = [(share, numbers[first : first + BLOCKS_COUNTED]) for first in numbers[::BLOCKS_COUNTED]]
        return RowSlots(np.concatenate(in_order(self.pool, "count")(count_rows, tasks), axis=1), SLOTS_PER_BLOCK)


def _counted(blocks: Iterable[ColumnArrays], moved: ProgressCounter, location: Location) -> Iterator[ColumnArrays]:
    """Yield the blocks, and report every block as progress. Raise DatasetError if no block has an entry."""
    n_entries = 0
    for block in blocks:
        yield block
        n_entries += block.n_entries
        moved.add(1)
    if not n_entries:
        raise DatasetError(f"{location.url}: none of its rows has an entry; use another seed or fraction")
