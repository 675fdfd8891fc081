"""Columns on their way into a dataset: rows are turned round piece by piece, and the pieces are merged.

A *run* is the columns of some consecutive rows, as many as there is memory for: sorted by id, in files of their
own. Once all rows are in runs, the ids are cut into ranges; a merge reads one range after the other from every run.
A column's entries follow each other in the order of the runs, and so of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from daskfs.errors import ChunkError
from daskfs.protocol import SparseBlock
from daskfs.store.dataset.layout import UNFINISHED
from daskfs.store.dataset.names_kernels import gather
from daskfs.store.places.location import Location
from daskfs.store.reorder.column_runs_kernels import sort_by_key

ENTRY = np.dtype([("row", np.uint32), ("value", np.float32)])
FILES: dict[str, np.dtype[Any]] = {"ids": np.dtype(np.uint64), "lengths": np.dtype(np.uint32), "entries": ENTRY}
"""What a run consists of: the ids of its columns, how many entries each has, and these."""

SAMPLED = 1 << 12  # ids
_LARGEST = np.uint64(2**64 - 1)


class Columns(NamedTuple):
    """Columns end to end: column i is ``entries[indptr[i] : indptr[i + 1]]``."""

    ids: NDArray[np.uint64]  # ascending
    indptr: NDArray[np.int64]
    entries: NDArray[Any]  # of dtype ENTRY, rows ascending in a column

    def between(self, first: int, last: int) -> Columns:
        """Columns `first` … `last` - 1, as a view."""
        start, stop = int(self.indptr[first]), int(self.indptr[last])
        return Columns(self.ids[first:last], self.indptr[first : last + 1] - start, self.entries[start:stop])


def transposed(blocks: Iterable[SparseBlock], size: int) -> Columns:
    """Rows as columns; `size` is how many entries the blocks have together, one at least."""
    ids, entries, at = np.empty(size, np.uint64), np.empty(size, ENTRY), 0
    for block in blocks:
        here = slice(at, at + len(block.ids))
        rows = np.arange(block.first, block.first + len(block.y), dtype=np.uint32)
        ids[here], entries["value"][here] = block.ids, block.values
        entries["row"][here] = np.repeat(rows, np.diff(block.indptr))
        at = here.stop
    other_ids, other_entries = np.empty_like(ids), np.empty_like(entries)
    if sort_by_key(ids, entries.view(np.uint64), other_ids, other_entries.view(np.uint64)):
        ids, entries = other_ids, other_entries
    first = _first_of_each(ids)
    return Columns(ids[first], np.append(first, size), entries)


def merged(ids: NDArray[np.uint64], lengths: NDArray[np.uint32], entries: NDArray[Any]) -> Columns:
    """One column for each distinct id, from pieces in any order of ids: piece i has `lengths[i]` entries."""
    order = np.argsort(ids, kind="stable")  # fast here: pieces of one run ascend, and it makes use of that
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = (ends - lengths)[order]
    ids, lengths, together = ids[order], lengths[order], np.empty_like(entries)
    gather(entries.view(np.uint64), starts, lengths, together.view(np.uint64))
    first = _first_of_each(ids)
    np.cumsum(lengths, out=ends)
    return Columns(ids[first], np.append((ends - lengths)[first], len(entries)), together)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run on disk: what its files are, and what is known of it without them."""

    key: str
    sizes: dict[str, int]
    checksums: dict[str, int]
    marks: NDArray[np.uint64]
    """The id of every so-many-th entry."""
    sample: Sample


def write_run(location: Location, number: int, columns: Columns, gap: int) -> Run:
    """Write a run, with a mark at every `gap` entries."""
    key = f"{UNFINISHED}/run.{number}"
    arrays: tuple[NDArray[Any], ...] = columns.ids, np.diff(columns.indptr).astype(np.uint32), columns.entries
    files = {name: array.view(np.uint8) for name, array in zip(FILES, arrays, strict=True)}
    for name, file in files.items():
        location.write(f"{key}.{name}", file.data)
    marked = np.searchsorted(columns.indptr, np.arange(0, len(columns.entries), gap), side="right") - 1
    return Run(
        key,
        {name: len(array) for name, array in zip(FILES, arrays, strict=True)},
        {name: int(google_crc32c.value(file)) for name, file in files.items()},
        columns.ids[marked],
        Sample.of(columns.ids),
    )


class _Stream:
    """One file of a run, read once from front to end; its checksum is compared when all of it has been seen."""

    def __init__(self, location: Location, run: Run, name: str) -> None:
        self._location, self._key, self._dtype = location, f"{run.key}.{name}", FILES[name]
        self._left, self._checksum = run.sizes[name], run.checksums[name]
        self._at, self._seen = 0, 0

    def take(self, count: int) -> NDArray[Any]:
        """The next `count` items."""
        if count == 0:
            return np.empty(0, self._dtype)
        stop = self._at + count * self._dtype.itemsize
        file = self._location.read(self._key, self._at, stop)
        self._seen = google_crc32c.extend(self._seen, file)
        self._at, self._left = stop, self._left - count
        if len(file) != count * self._dtype.itemsize or (self._left == 0 and self._seen != self._checksum):
            raise ChunkError(self._location.url, self._key, "altered or cut while it was in use; run it again")
        return np.frombuffer(file, self._dtype)


class MergedRuns:
    """All runs cut into ranges of ids; `read` merges one range, and has to be called for each in turn."""

    def __init__(self, location: Location, runs: Sequence[Run], edges: NDArray[np.uint64]) -> None:
        self.count = len(edges) + 1
        self._streams = [{name: _Stream(location, run, name) for name in FILES} for run in runs]
        self._sizes = [_sizes(location, run, edges) for run in runs]

    def read(self, number: int) -> Columns:
        """The columns of a range."""
        return merged(*(self._take(name, number) for name in FILES))

    def _take(self, name: str, number: int) -> NDArray[Any]:
        files = zip(self._streams, self._sizes, strict=True)
        return np.concatenate([streams[name].take(sizes[name][number]) for streams, sizes in files])


def _sizes(location: Location, run: Run, edges: NDArray[np.uint64]) -> dict[str, list[int]]:
    """How much of each file of a run belongs to each range."""
    ids, lengths = (_Stream(location, run, name).take(run.sizes[name]) for name in ("ids", "lengths"))
    ends = np.concatenate([[0], np.searchsorted(ids, edges), [len(ids)]])
    before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    columns, entries = np.diff(ends).tolist(), np.diff(before[ends]).tolist()
    return {"ids": columns, "lengths": columns, "entries": entries}


def range_edges(runs: Sequence[Run], gap: int, most: int) -> NDArray[np.uint64]:
    """Where to cut the ids such that no range has more than `most` entries, unless one column has.

    Between two marks of a run are `gap` entries; a range may begin and end between marks in every run.
    """
    marks = np.sort(np.concatenate([run.marks for run in runs]))
    step = max(most // gap - len(runs), 1)
    edges = distinct(marks[step::step])
    return edges[np.searchsorted(edges, marks[0], side="right") :]  # beyond the smallest id: no range is empty


def distinct(ascending: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number once; numpy's own `unique` takes many times as long."""
    return ascending[_first_of_each(ascending)]


def _first_of_each(ascending: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]])[: len(ascending)])


class Sample(NamedTuple):
    """One in ``2**level`` ids, by a hash: the same ones in every run, so that samples can be united."""

    level: int
    ids: NDArray[np.uint64]

    @classmethod
    def of(cls, ids: NDArray[np.uint64], level: int = 0) -> Sample:
        """The largest sample of distinct ids that is small enough to be kept."""
        level = max(level, (len(ids) // (4 * SAMPLED)).bit_length() - 1)  # it takes that at least
        hashes = ids * np.uint64(0x9E3779B97F4A7C15)
        while np.count_nonzero(kept := hashes <= _LARGEST >> np.uint64(level)) > SAMPLED:
            level += 1
        return cls(level, ids[kept])


def count_columns(samples: Iterable[Sample]) -> int:
    """How many distinct columns several runs have together, to a few hundredths."""
    levels, ids = zip(*samples, strict=True)
    united = Sample.of(distinct(np.sort(np.concatenate(ids))), max(levels))
    return len(united.ids) << united.level
