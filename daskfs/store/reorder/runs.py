"""The external sort: random keys of rows, batches of records in memory, and sorted runs of them on disk.

A *run* holds the records of some consecutive blocks, sorted by key: a file of heads and a file for each array. It is
cut into *slots*, and its index says where each slot begins in every file and what its bytes hash to. So any slots of a
run can be read and checked without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import ChunkError
from daskfs.store.dataset.names_kernels import gather, gather_text
from daskfs.store.places.location import Location
from daskfs.store.reorder.kernels import hash_slots

LARGEST_KEY = 2**64 - 1
LENGTHS = {"ids": "entries", "values": "entries", "X": "entries", "cells": "entries", "tag": "tag_bytes"}
"""The arrays that records may have, and the field of the head that says how many items of the array are theirs."""

_STEP = 0x9E3779B97F4A7C15  # odd, so that no two rows of a seed get the same number
_BATCH = 1 << 16  # keys computed at a time
_TOP_BITS = 16  # keys are first counted by these bits; few keys share them


def row_keys(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return the random keys of rows `first`, `first` + 1, …: splitmix64 of a counter that starts at the seed.

    A key depends on the seed and the number of the row alone, and all rows of a seed have different keys.

    >>> row_keys(seed=0, first=3, count=2) == row_keys(seed=0, first=0, count=5)[3:]
    array([ True,  True])
    """
    with np.errstate(over="ignore"):
        start = _mix(np.array([seed + _STEP & LARGEST_KEY], np.uint64))
        rows = np.arange(first + 1, first + count + 1, dtype=np.uint64)
        return _mix(start + rows * np.uint64(_STEP))


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Map each number to another one that looks random; different numbers stay different."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


class KeyRange(NamedTuple):
    """The rows of a dataset whose random keys lie in ``low … high``: all rows, or a random share of them."""

    seed: int
    low: int
    high: int
    n_rows: int

    @classmethod
    def every(cls, seed: int, n_rows: int) -> KeyRange:
        """Return the range that holds all `n_rows` rows of a dataset."""
        return cls(seed, 0, LARGEST_KEY, n_rows)

    @property
    def is_all(self) -> bool:
        return (self.low, self.high) == (0, LARGEST_KEY)

    def contains(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each key whether it lies in the range."""
        return (keys >= np.uint64(self.low)) & (keys <= np.uint64(self.high))

    def mask(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return for each of the rows `first` … `first` + `count` - 1 whether its key lies in the range."""
        mask = np.empty(count, bool)
        for start, keys in _key_batches(self.seed, first, count):
            mask[start : start + len(keys)] = self.contains(keys)
        return mask


def draw_rows(seed: int, n_rows: int, count: int) -> tuple[KeyRange, KeyRange]:
    """Draw `count` of `n_rows` rows at random without replacement; return those rows and the remaining ones.

    The drawn rows are those with the smallest keys.

    >>> drawn, remaining = draw_rows(seed=0, n_rows=10, count=3)
    >>> drawn.mask(0, 10).sum(), (drawn.mask(0, 10) ^ remaining.mask(0, 10)).all()
    (np.int64(3), np.True_)
    """
    cut = _nth_smallest_key(seed, n_rows, count)
    return KeyRange(seed, 0, cut, count), KeyRange(seed, cut + 1, LARGEST_KEY, n_rows - count)


def _nth_smallest_key(seed: int, n_rows: int, count: int) -> int:
    """Return the largest of the `count` smallest keys; all keys are computed twice and never held at once."""
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
    """Records in memory: a head for each, and arrays that hold the items of all records end to end."""

    def __init__(self, heads: NDArray[Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.heads, self.arrays = heads, arrays
        self._starts = {field: edges_of(heads[field])[:-1] for field in {LENGTHS[name] for name in arrays}}

    def order(self) -> NDArray[np.int64]:
        """Return the numbers of the records in the order of their keys."""
        return np.argsort(self.field("key"), kind="stable")  # fast on the ascending runs of a merge

    def field(self, name: str) -> NDArray[Any]:
        """Return a field of all heads as an array of its own, which is many times faster to pick from."""
        return np.ascontiguousarray(self.heads[name])

    def take(self, name: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return the items that these records have in an array, in the order of `numbers`."""
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
    """The slots to read for some consecutive records, and which of the records in them are meant."""

    first_slot: int | NDArray[np.int64]  # the same in every run, or one for each run
    last_slot: int | NDArray[np.int64]
    skipped: int = 0
    n_records: int | None = None  # None for all that follow


@dataclass(frozen=True, slots=True)
class Runs:
    """The files of all runs of a sort; small and picklable, since every task carries it."""

    location: Location
    folder: str
    count: int
    head: np.dtype[Any]
    arrays: dict[str, np.dtype[Any]]

    def write(
        self, number: int, heads: NDArray[Any], slots: NDArray[np.int64], items: Callable[[str], NDArray[Any]]
    ) -> None:
        """Write a run.

        Parameters
        ----------
        number
            The number of the run.
        heads
            Heads sorted by key.
        slots
            The record that each slot begins with, and the number of records at the end.
        items
            Returns the array of a name, in the order of the heads.
        """
        index = np.zeros((len(slots), 1 + len(self.arrays), 2), np.uint64)
        for column, name in enumerate(["heads", *self.arrays]):
            cells = heads if name == "heads" else items(name)
            edges = slots if name == "heads" else edges_of(heads[LENGTHS[name]])[slots]
            file = cells.view(np.uint8)
            self.location.write(self._key(number, name), file.data)
            index[:, column, 0] = edges * cells.itemsize
            index[:-1, column, 1] = _hashes(file, edges * cells.itemsize)
        self.location.write(self._key(number, "index"), index.data)

    def read(self, section: Section, names: Iterable[str]) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Return the records in the slots of a section, and the numbers of the section's own in key order."""
        first, last = (np.broadcast_to(slot, self.count).tolist() for slot in section[:2])
        indexes = [self._read_index(number, first[number], last[number]) for number in range(self.count)]
        heads = self._read_file(indexes, "heads").view(self.head)
        records = RecordBatch(heads, {name: self._read_file(indexes, name).view(self.arrays[name]) for name in names})
        order = records.order()
        return records, order[section.skipped :][: section.n_records]

    def _read_index(self, number: int, first: int, last: int) -> NDArray[np.uint64]:
        files, count = 1 + len(self.arrays), last - first + 1
        if count == 1:
            return np.zeros((1, files, 2), np.uint64)
        start = 16 * files * first
        raw = self.location.read(self._key(number, "index"), start, start + 16 * files * count)
        if len(raw) != 16 * files * count:
            raise self._altered(number, "index")
        index = np.frombuffer(raw, np.uint64).reshape(count, files, 2)
        if np.any(index[1:, :, 0] < index[:-1, :, 0]):  # hashing would read beyond the end
            raise self._altered(number, "index")
        return index

    def _read_file(self, indexes: list[NDArray[np.uint64]], name: str) -> NDArray[np.uint8]:
        """Return the bytes of the slots of all runs, end to end; ChunkError if a hash does not match."""
        column = ["heads", *self.arrays].index(name)
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
            if len(file) != len(target) or not np.array_equal(_hashes(target, edge - start), index[:-1, column, 1]):
                raise self._altered(number, name)
            at += len(target)
        return whole

    def _altered(self, number: int, name: str) -> ChunkError:
        reason = "altered or cut while it was in use; run it again"
        return ChunkError(self.location.url, self._key(number, name), reason)

    def _key(self, number: int, name: str) -> str:
        return f"{self.folder}/run.{number}.{name}"


def _hashes(file: NDArray[np.uint8], edges: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(edges) - 1, np.uint64)
    hash_slots(file, edges, hashes)
    return hashes


def edges_of(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return where things of these lengths begin when they lie end to end, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
