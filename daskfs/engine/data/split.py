"""split: the rows of a dataset, drawn at random into a training and a test dataset, in bounded memory.

Which rows those are, everybody who works on them can tell from the seed and two numbers (`store.row_keys`). Each
part is written by itself, in one pass over the source (`store.split`), or two where it is shuffled.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from numbers import Real
from typing import Any

import numpy as np
from distributed import Client

from daskfs.engine.cluster.pool import Pool, ProgressCallback, ProgressCounter, Threads, in_order, pool
from daskfs.engine.data.shuffle import MEMORY, Closing, Mixer, check_laid_out_in_rows, write_parts
from daskfs.engine.data.split_memory import SplitMemory
from daskfs.errors import DatasetError, OptionError, check_whole
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import ROOT, UNFINISHED
from daskfs.store.dataset.writer import check_free, new_writer, prepare, retire
from daskfs.store.ingest.plan import is_done
from daskfs.store.places.location import Location
from daskfs.store.reorder.column_runs import Columns
from daskfs.store.reorder.row_keys import Keys, drawn
from daskfs.store.reorder.same_features import close_like, copy_targets
from daskfs.store.reorder.shuffle import RowBytes, Slots, new_order
from daskfs.store.reorder.split import Share, ShareSlots, counted, dense_share, share_columns, share_shape
from daskfs.store.reorder.transpose import ColumnWriter, in_blocks

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
    """Write the rows of a dataset as two: one to learn from, and one to see how well that went.

    Everything else stays as it is: kind and layout, all classes, row weights, tags, names, ids and the size of blocks.
    A second call finds a part that is complete, and does nothing about it; one that was interrupted starts over.

    Parameters
    ----------
    dataset
        The source, of any kind and layout, or where it is.
    train, test
        Where the two parts go.
    fraction
        The share of the rows that are for the test: ``round(fraction * n)`` of them, one at least, and one left.
    seed
        Which rows: drawn without replacement by the seed and the number of rows alone, and so the same ones whatever
        the kind, the layout, the size of blocks, the memory and the workers.
    shuffle
        Both parts in random order, where the dataset has rows: together they are what `shuffle` makes of it with
        this seed, the rows for the test first. Otherwise rows keep their order.
    memory
        What this process (on a cluster: each thread of a worker) may use beyond what it has at the start; and a few
        times the largest row or column. Columns take some bytes for each row besides.
    overwrite
        Replace datasets that are there already.
    client, workers
        Where to run, as for `ingest`. Sparse columns are written by this process alone.
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
    count = _test_rows(fraction, source)
    parts = [
        Part(name, Location(url, storage_options), _request(name, source, count, seed, shuffle))
        for name, url in (("train", train), ("test", test))
    ]
    _check_places(source.location, *(part.location for part in parts))
    if shuffle:
        check_laid_out_in_rows(source)
    todo = [part for part in parts if overwrite or not part.is_done(source)]
    for part in todo:
        check_free(part.location, overwrite)
    if todo:
        where = pool(client, workers, [source.location.options, *(part.location.options for part in parts)])
        scribe = (Mixer if shuffle else Scribe).of(source, memory, where)
        chosen, others = drawn(seed, source.n_samples, count)
        made = {"by": "split", "seed": seed, "source": source.digest, "content": source.digest}
        _write(todo, {"train": others, "test": chosen}, scribe, made, overwrite, progress)
    return open_dataset(train, storage_options), open_dataset(test, storage_options)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two datasets."""

    name: str
    location: Location
    request: str

    def is_done(self, source: Dataset) -> bool:
        """True if it is there already, made from what the source holds now."""
        if not self.location.exists(ROOT):
            return False
        with self.location.one_writer():
            return is_done(self.location, self.request, source.digest)


def _request(name: str, source: Dataset, count: int, seed: int, shuffle: bool) -> str:
    """What is asked for; by the number of rows, since that and not the fraction decides."""
    order = ", in random order" if shuffle else ""
    return f"split: {name}, {count} of {source.n_samples} rows for the test, seed {seed}{order}"


def _test_rows(fraction: float, source: Dataset) -> int:
    if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 < float(fraction) < 1:
        raise OptionError(f"fraction={fraction!r:.40}: the share of rows for the test must be between 0 and 1")
    if source.n_samples < 2:
        raise OptionError(f"{source.url}: has one row; one of the two parts would be empty")
    return min(max(round(float(fraction) * source.n_samples), 1), source.n_samples - 1)


def _check_places(*places: Location) -> None:
    for one, other in permutations(places, 2):
        if one.is_within(other):
            raise OptionError(f"{one.url}: is or lies in {other.url}; source, train and test need places of their own")


def _write(
    todo: list[Part],
    wanted: dict[str, Keys],
    scribe: Scribe | Mixer,
    made: dict[str, Any],
    overwrite: bool,
    progress: ProgressCallback | None,
) -> None:
    """Write parts that are not there yet, or to be replaced."""
    moved = ProgressCounter(sum(scribe.to_move(wanted[part.name].rows) for part in todo), progress)
    with ExitStack() as locks:
        for part in todo:
            locks.enter_context(part.location.one_writer())
        for number, part in enumerate(todo):
            prepare(part.location, overwrite)
            part.location.write(f"{UNFINISHED}/split", b"")
            close = scribe.write(wanted[part.name], part.location, moved)
            for later in todo[number + 1 :]:
                retire(later.location)  # never a part of this split beside one of another: they may share rows
            close({**made, "part": part.name, "request": part.request})


@dataclass(frozen=True, slots=True)
class Scribe:
    """Writes some rows of a dataset in the order they have there, with so much memory and on these workers."""

    source: Dataset
    budget: SplitMemory
    where: Pool

    @classmethod
    def of(cls, source: Dataset, memory: int | str, where: Pool) -> Scribe:
        """OptionError if the memory does not suffice."""
        budget = SplitMemory.for_source(memory, where.sharing, source)
        return cls(source, budget, Threads(budget.workers) if isinstance(where, Threads) else where)

    def to_move(self, rows: int) -> int:
        """How much `write` will say it has moved."""
        if (self.source.kind, self.source.layout) == ("sparse", "columns"):
            return self.source.n_blocks()
        columns = 0 if self.source.layout == "rows" else self.source.n_features
        return columns + (0 if self.source.layout == "columns" else rows)

    def write(self, wanted: Keys, location: Location, moved: ProgressCounter) -> Closing:
        """Write the wanted rows to a place that was prepared; what is left to do is to close the new dataset."""
        share = Share(self.source, wanted)
        if self.source.kind == "dense":
            return self._write_dense(share, location, moved)
        if self.source.layout == "columns":
            return self._write_sparse_columns(share, location, moved)
        writer, each = new_writer(location), RowBytes.of_source(self.source)
        order = new_order(self.source, share, wanted, self._slots(share), each, self.budget.part_bytes)
        write_parts(order.specs.values(), order.parts, writer, self.where, moved)
        return partial(order.close, writer, self.source)

    def _slots(self, share: Share) -> Slots:
        """How many wanted rows there are in every piece of a block."""
        numbers = range(self.source.n_blocks("rows"))
        tasks = [(share, numbers[first : first + BLOCKS_COUNTED]) for first in numbers[::BLOCKS_COUNTED]]
        return ShareSlots(np.concatenate(in_order(self.where, "count")(counted, tasks), axis=1))

    def _write_dense(self, share: Share, location: Location, moved: ProgressCounter) -> Closing:
        source, rows, writer = self.source, share.wanted.rows, new_writer(location)
        slots = None if source.layout == "columns" else self._slots(share)
        write_parts(*dense_share(share, slots, self.budget.part_bytes), writer, self.where, moved)
        copy_targets(source, share.wanted, writer)
        size = {"n_samples": rows, "n_entries": rows * source.n_features}
        return lambda made: close_like(source, writer, **size, made=made)

    def _write_sparse_columns(self, share: Share, location: Location, moved: ProgressCounter) -> Closing:
        shape = share_shape(share)
        writer = ColumnWriter(new_writer(location), shape, with_values="values" in self.source.arrays)
        for block in in_blocks(_not_empty(share, moved), shape):
            writer.write(block)
        if not writer.blocks:
            raise DatasetError(f"{location.url}: none of its rows has an entry; use another seed or fraction")
        return partial(writer.close, self.source, share.wanted)


def _not_empty(share: Share, moved: ProgressCounter) -> Iterator[Columns]:
    for columns in share_columns(share):
        if len(columns.ids):
            yield columns
        moved.add(1)
