"""The external sort: random keys of rows, batches of records in memory, and sorted runs of records on disk.

A *sorted run* holds the records of some consecutive source blocks, sorted by key, in a file of record heads and a file
for each array. A sorted run is cut into *slots*, and an index holds the start of each slot in every file and a hash of
the slot's bytes. So any slots of a sorted run can be read and checked without the other slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import ChunkError
from daskfs.store.dataset.names_kernels import gather, gather_text
from daskfs.store.places.location import Location
from daskfs.store.reorder.kernels import hash_slots

LARGEST_KEY = 2**64 - 1
LENGTHS = {"ids": "entries", "values": "entries", "X": "entries", "cells": "entries", "tag": "tag_bytes"}
"""The arrays that records may have, with the field of a record's head that holds its number of items in the array."""

_STEP = 0x9E3779B97F4A7C15  # odd, so that no two rows of a seed get the same number
_BATCH = 1 << 16  # keys computed at a time
_TOP_BITS = 16  # keys are first counted by these bits; few keys share them


def row_keys(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return the random 64-bit sort keys of `count` rows from row `first` on, computed by splitmix64.

    A sort key depends only on the seed and the row number, and all rows have different keys.

    >>> row_keys(seed=0, first=3, count=2) == row_keys(seed=0, first=0, count=5)[3:]
    array([ True,  True])
    """
    with np.errstate(over="ignore"):
        start = _mix(np.array([seed + _STEP & LARGEST_KEY], np.uint64))
        rows = np.arange(first + 1, first + count + 1, dtype=np.uint64)
        return _mix(start + rows * np.uint64(_STEP))


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map each 64-bit number to a number that looks random, such that different numbers stay different."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


class KeyRange(NamedTuple):
    """The rows of a dataset whose random sort keys lie in ``low … high``: all rows, or a random sample of rows."""

    seed: int
    low: int
    high: int
    n_rows: int

    @classmethod
    def every(cls, seed: int, n_rows: int) -> KeyRange:
        """Return the key range that holds all `n_rows` rows of a dataset."""
        return cls(seed, 0, LARGEST_KEY, n_rows)

    @property
    def is_all(self) -> bool:
        return (self.low, self.high) == (0, LARGEST_KEY)

    def contains(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each sort key whether the sort key lies in the range."""
        return (keys >= np.uint64(self.low)) & (keys <= np.uint64(self.high))

    def mask(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return for each of the rows `first` … `first` + `count` - 1 whether the row's sort key lies in the range."""
        mask = np.empty(count, bool)
        for start, keys in _key_batches(self.seed, first, count):
            mask[start : start + len(keys)] = self.contains(keys)
        return mask


def draw_rows(seed: int, n_rows: int, count: int) -> tuple[KeyRange, KeyRange]:
    """Draw `count` of `n_rows` rows at random without replacement, and return the drawn and the remaining rows.

    The drawn rows are the rows with the smallest random sort keys.

    >>> drawn, remaining = draw_rows(seed=0, n_rows=10, count=3)
    >>> drawn.mask(0, 10).sum(), (drawn.mask(0, 10) ^ remaining.mask(0, 10)).all()
    (np.int64(3), np.True_)
    """
    cut = _nth_smallest_key(seed, n_rows, count)
    return KeyRange(seed, 0, cut, count), KeyRange(seed, cut + 1, LARGEST_KEY, n_rows - count)


class HeldBack(NamedTuple):
    """A random part of the rows: the `share` that is held back for a test, or the rest; the same rows as of `split`."""

    share: float
    seed: int
    is_test: bool

    def drawn(self, n_rows: int) -> KeyRange:
        """Return the rows of this part of `n_rows` rows, as a range of random sort keys."""
        count = min(max(round(self.share * n_rows), 1), n_rows - 1)
        return draw_rows(self.seed, n_rows, count)[0 if self.is_test else 1]

    def rows(self, n_rows: int) -> NDArray[np.intp]:
        """Return the numbers of the rows of this part."""
        return np.flatnonzero(self.drawn(n_rows).mask(0, n_rows))


def _nth_smallest_key(seed: int, n_rows: int, count: int) -> int:
    """Return the `count`-th smallest random sort key, without holding all sort keys in memory."""
    shift = np.uint64(64 - _TOP_BITS)
    tops = np.zeros(1 << _TOP_BITS, np.int64)
    for _, keys in _key_batches(seed, 0, n_rows):
        tops += np.bincount((keys >> shift).astype(np.int64), minlength=len(tops))
    up_to = np.cumsum(tops)
    top = int(np.searchsorted(up_to, count))
    candidates = np.concatenate([keys[keys >> shift == np.uint64(top)] for _, keys in _key_batches(seed, 0, n_rows)])
    at = count - 1 - int(up_to[top] - tops[top])
    return int(np.partition(candidates, at)[at])


def _key_batches(seed: int, first: int, count: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    for start in range(0, count, _BATCH):
        yield start, row_keys(seed, first + start, min(_BATCH, count - start))


class RecordBatch:
    """Records in memory: a head for each record, and arrays that hold the items of all records end to end."""

    def __init__(self, heads: NDArray[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.heads, self.arrays = heads, arrays
        self._starts = {field: edges_of(heads[field])[:-1] for field in {LENGTHS[name] for name in arrays}}

    def order(self) -> NDArray[np.int64]:
        """Return the numbers of the records in ascending order of their sort keys."""
        return np.argsort(self.field("key"), kind="stable")  # fast on the ascending runs of a merge

    def field(self, name: str) -> NDArray[Any]:
        """Return a field of all record heads as a contiguous array, which is many times faster to index."""
        return np.ascontiguousarray(self.heads[name])

    def take(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the items of the records `numbers` in the array `name`, in the order of `numbers`."""
        items, field = self.arrays[name], LENGTHS[name]
        starts, lengths = self._starts[field][numbers], self.heads[field][numbers]
        out = np.empty(int(lengths.sum(dtype=np.int64)), items.dtype)
        if items.itemsize == 1:
            gather_text(items, starts, lengths.astype(np.int64), out)
        else:
            bits = f"u{items.itemsize}"
            gather(items.view(bits), starts, lengths, out.view(bits))
        return out


class Section(NamedTuple):
    """Consecutive records in key order, given by the slots (pieces of sorted runs) to read and the records to skip."""

    first_slot: int | NDArray[np.int64]  # the same in every run, or one for each run
    last_slot: int | NDArray[np.int64]
    skipped: int = 0
    n_records: int | None = None  # None for all that follow


@dataclass(frozen=True, slots=True)
class Runs:
    """The files of all sorted runs of an external sort; small and picklable, since every task carries this object."""

    location: Location
    folder: str
    count: int
    arrays: dict[str, np.dtype[Any]]  # of which "heads" is the first

    def write(
        self, number: int, heads: NDArray[Any], slots: NDArray[np.int64], items: Callable[[str], NDArray[Any]]
    ) -> None:
        """Write a sorted run to disk: heads sorted by key, and for each other array name ``items(name)`` in that order.

        `slots` holds the number of the first record in each slot, followed by the total number of records.
        """
        index = np.zeros((len(slots), len(self.arrays), 2), np.uint64)
        for column, name in enumerate(self.arrays):
            cells = heads if name == "heads" else items(name)
            edges = cells.itemsize * (slots if name == "heads" else edges_of(heads[LENGTHS[name]])[slots])
            file = cells.view(np.uint8)
            self.location.write(self._key(number, name), file.data)
            index[:, column, 0], index[:-1, column, 1] = edges, hash_slots(file, edges)
        self.location.write(self._key(number, "index"), index.data)

    def read(self, section: Section, names: Iterable[str] | None = None) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Return records with some or all arrays, and the positions of the section's own records among the records."""
        first, last = (np.broadcast_to(slot, self.count).tolist() for slot in section[:2])
        indexes = [self._read_index(number, first[number], last[number]) for number in range(self.count)]
        names = self.arrays if names is None else ["heads", *names]
        arrays = {name: self._read_file(indexes, name) for name in names}
        records = RecordBatch(arrays.pop("heads"), arrays)
        return records, records.order()[section.skipped :][: section.n_records]

    def _read_index(self, number: int, first: int, last: int) -> NDArray[np.uint64]:
        count, line = last - first + 1, 16 * len(self.arrays)
        if count == 1:
            return np.zeros((1, len(self.arrays), 2), np.uint64)
        raw = self.location.read(self._key(number, "index"), line * first, line * (first + count))
        index = np.frombuffer(raw, np.uint64, len(raw) // line * (line // 8)).reshape(-1, len(self.arrays), 2)
        if len(raw) != line * count or np.any(index[1:, :, 0] < index[:-1, :, 0]):  # hashing would read beyond the end
            raise self._altered(number, "index")
        return index

    def _read_file(self, indexes: list[NDArray[np.uint64]], name: str) -> NDArray[Any]:
        """Return an array of some slots (pieces) of all sorted runs. Raise ChunkError if the hash of a slot differs."""
        column = list(self.arrays).index(name)
        edges = [index[:, column, 0].astype(np.int64) for index in indexes]
        whole, at = np.empty(sum(int(edge[-1] - edge[0]) for edge in edges), np.uint8), 0
        for number, (edge, index) in enumerate(zip(edges, indexes, strict=True)):
            start, stop = int(edge[0]), int(edge[-1])
            if start == stop:
                continue
            file = self.location.read(self._key(number, name), start, stop)
            target = whole[at : at + stop - start]
            if len(file) == len(target):
                target[:] = np.frombuffer(file, np.uint8)
            if len(file) != len(target) or not np.array_equal(hash_slots(target, edge - start), index[:-1, column, 1]):
                raise self._altered(number, name)
            at += len(target)
        return whole.view(self.arrays[name])

    def _altered(self, number: int, name: str) -> ChunkError:
        reason = "altered or cut while it was in use; run it again"
        return ChunkError(self.location.url, self._key(number, name), reason)

    def _key(self, number: int, name: str) -> str:
        return f"{self.folder}/run.{number}.{name}"


def edges_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Return the start of each of several items of these lengths that lie end to end, and the end of the last item."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
