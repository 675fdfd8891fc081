"""A random number for every row, made of a seed and the row's number: what shuffles and splits decide by.

The *key* of a row is a 64-bit number, another one for every row. It is made when it is needed, wherever that is; so
what is decided by keys depends neither on how rows are cut nor on who works on them, and takes no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST_KEY = 2**64 - 1

_STEP = 0x9E3779B97F4A7C15  # odd, so that no two rows of a seed get the same number
_BATCH = 1 << 16  # keys made at a time, where there are many
_TOP_BITS = 16  # by which keys are counted first: those that begin alike are then few


def row_keys(seed: int, first: int, count: int) -> NDArray[np.uint64]:
    """The keys of rows `first`, `first` + 1, …: splitmix64 of a counter, which begins where the seed says.

    >>> row_keys(seed=0, first=3, count=2) == row_keys(seed=0, first=0, count=5)[3:]
    array([ True,  True])
    """
    with np.errstate(over="ignore"):
        start = _mixed(np.array([seed + _STEP & LARGEST_KEY], np.uint64))
        rows = np.arange(first + 1, first + count + 1, dtype=np.uint64)
        return _mixed(start + rows * np.uint64(_STEP))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each number turned into another one that looks random: one to one."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


class Keys(NamedTuple):
    """Those rows of a dataset whose keys lie in a range: all of them, or a random share."""

    seed: int
    low: int
    high: int
    rows: int
    """How many they are."""

    @classmethod
    def every(cls, seed: int, rows: int) -> Keys:
        """All rows of a dataset that has so many."""
        return cls(seed, 0, LARGEST_KEY, rows)

    @property
    def are_all(self) -> bool:
        return (self.low, self.high) == (0, LARGEST_KEY)

    def among(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these keys lie in the range."""
        return (keys >= np.uint64(self.low)) & (keys <= np.uint64(self.high))

    def mask(self, first: int, count: int) -> NDArray[np.bool_]:
        """Which of the rows `first` … `first` + `count` - 1 are among them."""
        mask = np.empty(count, bool)
        for start, keys in _batches(self.seed, first, count):
            mask[start : start + len(keys)] = self.among(keys)
        return mask


def drawn(seed: int, rows: int, count: int) -> tuple[Keys, Keys]:
    """`count` of so many rows, drawn at random without replacement, and the others: those with the smallest keys.

    >>> some, others = drawn(seed=0, rows=10, count=3)
    >>> some.mask(0, 10).sum(), (some.mask(0, 10) ^ others.mask(0, 10)).all()
    (np.int64(3), np.True_)
    """
    cut = _smallest(seed, rows, count)
    return Keys(seed, 0, cut, count), Keys(seed, cut + 1, LARGEST_KEY, rows - count)


def _smallest(seed: int, rows: int, count: int) -> int:
    """The largest of the `count` smallest keys. Made twice, they are never all in memory."""
    shift = np.uint64(64 - _TOP_BITS)
    tops = np.zeros(1 << _TOP_BITS, np.int64)
    for _, keys in _batches(seed, 0, rows):
        tops += np.bincount((keys >> shift).astype(np.int64), minlength=len(tops))
    up_to = np.cumsum(tops)
    top = int(np.searchsorted(up_to, count))
    alike = np.concatenate([keys[keys >> shift == np.uint64(top)] for _, keys in _batches(seed, 0, rows)])
    at = count - 1 - int(up_to[top] - tops[top])
    return int(np.partition(alike, at)[at])


def _batches(seed: int, first: int, count: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """The keys of many rows, some at a time, and which of the rows each begins with."""
    for start in range(0, count, _BATCH):
        yield start, row_keys(seed, first + start, min(_BATCH, count - start))
