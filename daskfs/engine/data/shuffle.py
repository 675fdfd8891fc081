"""shuffle: a dataset with the same rows in a random order, in bounded memory and two passes over the data.

Workers sort groups of row blocks by random keys into runs on the target's disk (`store.row_runs`); then each merges one
range of keys after the other, and writes the blocks of it (`store.shuffle`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from daskfs.engine.cluster.pool import Pool, ProgressCallback, ProgressCounter, Threads, pool
from daskfs.engine.data.shuffle_memory import ShuffleMemory
from daskfs.errors import OptionError, check_whole
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import UNFINISHED, ArraySpec
from daskfs.store.dataset.regroup import consecutive_groups
from daskfs.store.dataset.writer import ChunkRecords, DatasetWriter, check_free, new_writer, prepare
from daskfs.store.places.location import Location
from daskfs.store.reorder.row_keys import Keys
from daskfs.store.reorder.row_runs import Runs, cargo_of, collected
from daskfs.store.reorder.shuffle import Part, RowBytes, Slots, block_bytes, made_by_shuffle, new_order, slot_bits

MEMORY = "512MB"

Closing = Callable[[dict[str, Any]], None]
"""Completes a dataset, given how it came about: from then on it opens."""


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
    """Write a dataset once more with its rows in a random order, for algorithms that learn row by row.

    Everything else stays as it is: labels, row weights, tags, names and the size of blocks. An interrupted shuffle
    starts over when it is run again.

    Parameters
    ----------
    dataset
        The source, laid out in rows, or where it is. One laid out in rows and columns becomes one in rows.
    url
        Where the shuffled rows go. Until they are complete, as much again is kept there as they take uncompressed.
    seed
        Which order: that of random numbers made of the seed and the number of a row, and so the same whatever the
        size of blocks, the memory and the workers.
    memory
        What this process (on a cluster: each thread of a worker) may use beyond what it has at the start; and a few
        times the largest row.
    overwrite
        Replace a dataset that is there already.
    client, workers
        Where to run, as for `ingest`.
    storage_options
        How the stores of both places are reached; see `open_dataset`. Open the source yourself if it needs others.
    progress
        Called with (rows moved, rows to move); every row moves twice.

    Returns
    -------
    Dataset
        The new dataset, opened.

    Examples
    --------
    >>> X = np.arange(8, dtype="float32").reshape(8, 1)
    >>> daskfs.write_dataset("sorted.zarr", X, X[:, 0] > 3, layout="rows")
    >>> mixed = daskfs.shuffle("sorted.zarr", "mixed.zarr", seed=1)
    >>> mixed.read(0).X[:, 0], mixed.read(0).y
    (array([2., 4., 7., 0., 6., 5., 3., 1.], dtype=float32), array([0., 1., 1., 0., 1., 1., 0., 0.]))
    """
    check_whole("seed", seed, 0)
    source = dataset if isinstance(dataset, Dataset) else open_dataset(dataset, storage_options)
    location = Location(url, storage_options)
    _check(source, location)
    check_free(location, overwrite)
    mixer = Mixer.of(source, memory, pool(client, workers, [source.location.options, location.options]))
    with location.one_writer():
        prepare(location, overwrite)
        location.write(f"{UNFINISHED}/shuffle", b"")
        moved = ProgressCounter(mixer.to_move(source.n_samples), progress)
        close = mixer.write(Keys.every(seed, source.n_samples), location, moved)
        close(made_by_shuffle(source, seed))
    return open_dataset(url, storage_options)


@dataclass(frozen=True, slots=True)
class Mixer:
    """Writes rows of a dataset in the order of their keys, with so much memory and on these workers."""

    source: Dataset
    budget: ShuffleMemory
    where: Pool

    @classmethod
    def of(cls, source: Dataset, memory: int | str, where: Pool) -> Mixer:
        """OptionError if the memory does not suffice."""
        sizes = block_bytes(source, RowBytes.of_source(source))
        total, largest = int(sizes.sum()), int(sizes.max())
        slots = 1 << slot_bits(source)
        budget = ShuffleMemory.of(memory, where.sharing, total=total, largest_block=largest, slots=slots)
        return cls(source, budget, Threads(budget.workers) if isinstance(where, Threads) else where)

    def to_move(self, rows: int) -> int:
        """How much `write` will say it has moved: every row moves twice."""
        return 2 * rows

    def write(self, wanted: Keys, location: Location, moved: ProgressCounter) -> Closing:
        """Write the wanted rows to a place that was prepared; what is left to do is to close the new dataset."""
        source, each = self.source, RowBytes.of_source(self.source)
        some = consecutive_groups(block_bytes(source, each), self.budget.run_bytes)
        # Not where another attempt has its runs: a worker that outlives it would write among ours.
        folder = f"{UNFINISHED}/{uuid.uuid4().hex[:8]}"
        runs = Runs(location, folder, len(some), cargo_of(source), slot_bits(source))
        tasks = [(runs, source, blocks, number, wanted) for number, blocks in enumerate(some)]
        order = new_order(source, runs, wanted, _slots(tasks, self.where, moved), each, self.budget.part_bytes)
        writer = new_writer(location)
        write_parts(order.specs.values(), order.parts, writer, self.where, moved)
        return partial(order.close, writer, source)


def write_parts(
    specs: Iterable[ArraySpec], parts: Iterable[Part], writer: DatasetWriter, where: Pool, moved: ProgressCounter
) -> None:
    """Write arrays that are planned, each part by one worker."""
    for spec in specs:
        writer.add(spec)
    for count, written in where.unordered("write", _write_part, [(part, writer.location) for part in parts]):
        for name, records in written.items():
            writer.add(writer.arrays[name], records)
        moved.add(count)


def _check(source: Dataset, location: Location) -> None:
    check_laid_out_in_rows(source)
    if location.is_within(source.location):
        raise OptionError(f"{location.url}: is the dataset to be shuffled, or lies in it; choose another place")


def check_laid_out_in_rows(source: Dataset) -> None:
    """OptionError if a dataset cannot be shuffled."""
    if source.layout == "columns":
        remedy = "write it with layout='rows'" if source.kind == "dense" else "shuffle what it was transposed from"
        raise OptionError(f"{source.url}: laid out in columns, which cannot be shuffled row by row; {remedy}")


def _slots(tasks: list[tuple[Any, ...]], where: Pool, moved: ProgressCounter) -> Slots:
    """All runs made, and what they have in each slot."""
    total: NDArray[np.int64] | int = 0
    for counts in where.unordered("sort", _make_run, tasks):
        total = total + counts
        moved.add(int(counts[0].sum()))
    assert isinstance(total, np.ndarray)  # a dataset has rows
    return Slots(total)


def _make_run(runs: Runs, source: Dataset, blocks: range, number: int, wanted: Keys) -> NDArray[np.int64]:
    """Turn a group of blocks into the run of that number: a task."""
    return runs.write(number, collected(source, blocks, wanted))


def _write_part(part: Part, location: Location) -> tuple[int, dict[str, ChunkRecords]]:
    """Write a part of the new dataset: a task."""
    return part.moved, part.write(location)
