"""Sorting by feature id: what turns rows into columns."""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, warms
from daskfs.store.dataset.names_kernels import gather

TOP_BITS, DIGIT_BITS = 11, 8  # piles of the first pass, and of each later one


@helper
def _sort_by_digit(keys, cargo, out_keys, out_cargo, first, last, lowest, shift, ends):
    """Sort ``keys[first:last]`` by a digit of ``key - lowest``, stable; `ends` tells where each digit's pile ends."""
    mask = np.uint64(len(ends) - 1)
    ends[:] = 0
    for i in range(first, last):
        ends[((keys[i] - lowest) >> shift) & mask] += 1
    start = first
    for pile in range(len(ends)):
        count = ends[pile]
        ends[pile] = start
        start += count
    for i in range(first, last):
        pile = ((keys[i] - lowest) >> shift) & mask
        at = ends[pile]
        ends[pile] = at + 1
        out_keys[at] = keys[i]
        out_cargo[at] = cargo[i]


@kernel
def sort_by_key(keys, cargo, spare_keys, spare_cargo):
    """Sort keys (one at least) with what they carry, equal ones as they come; True if the spare arrays hold the result.

    A radix sort, by the top digit first: the piles this gives fit into the cache, and each is sorted by its
    other digits from the lowest up. As many passes as the spread of the keys asks for.
    """
    lowest, spread = keys.min(), keys.max() - keys.min()
    bits = 0
    while bits < 64 and spread >> np.uint64(bits):
        bits += 1
    rest = max(bits - TOP_BITS, 0)
    tops = np.empty(1 << TOP_BITS, np.int64)
    _sort_by_digit(keys, cargo, spare_keys, spare_cargo, 0, len(keys), lowest, np.uint64(rest), tops)
    ends = np.empty(1 << DIGIT_BITS, np.int64)
    in_spare, first = True, 0
    for top in range(len(tops)):
        in_spare = True
        for shift in range(0, rest, DIGIT_BITS):
            if in_spare:
                a, b, c, d = spare_keys, spare_cargo, keys, cargo
            else:
                a, b, c, d = keys, cargo, spare_keys, spare_cargo
            _sort_by_digit(a, b, c, d, first, tops[top], lowest, np.uint64(shift), ends)
            in_spare = not in_spare
        first = tops[top]
    return in_spare


@warms
def _warm() -> None:
    keys, numbers = np.zeros(1, np.uint64), np.zeros(1, np.int64)
    sort_by_key(keys, keys.copy(), keys.copy(), keys.copy())
    gather(keys, numbers, numbers.astype(np.uint32), keys.copy())
