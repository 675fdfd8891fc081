"""Numba kernels of the external sort: sorting entries by feature id, and hashing the slots (pieces) of a sorted run."""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, warms
from daskfs.store.dataset.hashing_kernels import feature_id
from daskfs.store.dataset.names_kernels import gather

TOP_BITS, DIGIT_BITS = 11, 8  # bits of the digit that the first pass sorts by, and of the digits of later passes


@helper
def _sort_by_digit(keys, cargo, out_keys, out_cargo, first, last, lowest, shift, ends):
    """Sort ``keys[first:last]`` stably by a digit of ``key - lowest``; write where each digit's keys end to `ends`."""
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
    """Sort keys (at least one) stably together with `cargo`, and return True if the spare arrays hold the result.

    This radix sort first sorts all keys by the top digit into piles that fit into the cache, and then sorts each pile
    by the remaining digits from the lowest up. The number of passes over the keys depends on the spread of the keys.
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


@kernel
def hash_slots(file, edges):
    """Return the hash of every slot ``file[edges[i] : edges[i + 1]]`` of a sorted run."""
    hashes = np.empty(len(edges) - 1, np.uint64)
    for i in range(len(hashes)):
        hashes[i] = feature_id(file, edges[i], edges[i + 1])
    return hashes


@warms
def _warm() -> None:
    keys, numbers = np.zeros(1, np.uint64), np.zeros(2, np.int64)
    sort_by_key(keys, keys.copy(), keys.copy(), keys.copy())
    hash_slots(np.zeros(1, np.uint8), numbers)
    for dtype in (np.uint32, np.uint64):
        cells = np.zeros(1, dtype)
        gather(cells, numbers, numbers.astype(np.uint32), cells.copy())
