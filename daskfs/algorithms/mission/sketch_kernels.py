"""Kernels of the count-sketch and of the table beside it: where a feature's cells are, what they say, who is in.

A sketch has `depth` rows of 2^bits cells; a cell is a vector of `C` numbers, one for every class. A feature owns one
cell in every row, with a sign; what the sketch knows of it is the median over rows of sign times cell. The table has
open addressing and linear probing; a key is a feature id plus one, so that zero is free.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from daskfs.jit import helper, kernel

MAX_DEPTH = 15
_ONE = np.float32(1)


@helper
def mixed(x):
    """The finaliser of MurmurHash3: every bit of a feature id moves every bit of this."""
    x = np.uint64(x)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


@helper
def folded(h):
    """Other bits from the same hash, for the second and third row of the sketch."""
    g = h * np.uint64(0x9E3779B97F4A7C15)
    return g ^ (g >> np.uint64(32))


@helper
def cells_of_three(h, bits):
    """The cells of a feature in a sketch of depth 3, and three bits that are their signs."""
    g, shift, width = folded(h), np.uint64(64 - bits), np.uint64(1) << np.uint64(bits)
    return h >> shift, (g & (width - np.uint64(1))) + width, (g >> shift) + width + width, h & np.uint64(7)


@helper
def cell(h, row, bits):
    """The cell of a feature in one row of a sketch of any depth, and its sign."""
    width = np.uint64(1) << np.uint64(bits)
    if row > 2:
        h = mixed(h + np.uint64(row // 3))
    g = folded(h)
    within = np.uint64(row % 3)
    if within == 0:
        at = h >> np.uint64(64 - bits)
    elif within == 1:
        at = g & (width - np.uint64(1))
    else:
        at = g >> np.uint64(64 - bits)
    return at + np.uint64(row) * width, sign(h & np.uint64(7), within)


@helper
def sign(bits, which):
    """+1 or -1."""
    return _ONE - np.float32(2) * np.float32((bits >> np.uint64(which)) & np.uint64(1))


@helper
def tail_cell(h, bits):
    """Where the features outside the table keep the sum that decides on their steps: one row, no sign."""
    g = h * np.uint64(0xA24BAED4963EE407)
    return (g ^ (g >> np.uint64(29))) >> np.uint64(64 - bits)


@helper
def median_of_three(a, b, c):
    return max(min(a, b), min(max(a, b), c))


@helper
def find(keys, key, h):
    """The slot of a key; if it has none, -1 - the slot where it would go."""
    mask = len(keys) - 1
    i = np.int64((h >> np.uint64(17)) & np.uint64(mask))
    while keys[i] != key:
        if keys[i] == 0:
            return -1 - i
        i = (i + 1) & mask
    return i


class Place(NamedTuple):
    """Where a feature is in the sketch."""

    cells: Any  # where the numbers of its cell begin, in every row
    signs: Any
    sorted: Any  # room to find a median


@kernel
def new_place():
    """Room for one."""
    return Place(np.empty(MAX_DEPTH, np.int64), np.empty(MAX_DEPTH, np.float32), np.empty(MAX_DEPTH, np.float32))


@helper
def locate(h, bits, depth, C, place):
    """Find the place of a feature."""
    for row in range(depth):
        at, place.signs[row] = cell(h, row, bits)
        place.cells[row] = np.int64(at) * C


@helper
def add(sketch, place, depth, first, vector, factor):
    """Add `factor` times a vector to the numbers `first`, … of a feature's cells."""
    for row in range(depth):
        base, f = place.cells[row] + first, place.signs[row] * factor
        own = sketch[base : base + len(vector)]
        for c in range(len(vector)):
            own[c] += f * vector[c]


@helper
def read(sketch, place, depth, first, vector):
    """What the sketch knows of a feature, into `vector`."""
    cells, signs, ordered = place.cells, place.signs, place.sorted
    if depth == 3:
        i, j, k, V = cells[0] + first, cells[1] + first, cells[2] + first, len(vector)
        one, two, three = sketch[i : i + V], sketch[j : j + V], sketch[k : k + V]  # slices: loops fill registers
        s0, s1, s2 = signs[0], signs[1], signs[2]
        for c in range(V):
            vector[c] = median_of_three(s0 * one[c], s1 * two[c], s2 * three[c])
        return
    for c in range(len(vector)):
        for row in range(depth):
            x, at = signs[row] * sketch[cells[row] + first + c], row
            while at > 0 and ordered[at - 1] > x:
                ordered[at] = ordered[at - 1]
                at -= 1
            ordered[at] = x
        vector[c] = ordered[depth // 2]


@helper
def norm(vector):
    """The length of a vector of class weights; the sign does not matter."""
    if len(vector) == 1:
        return abs(vector[0])
    return np.float32(math.sqrt(squared_norm(vector)))


@helper
def squared_norm(vector):
    """The square of it."""
    total = np.float32(0)
    for c in range(len(vector)):
        total += vector[c] * vector[c]
    return total
