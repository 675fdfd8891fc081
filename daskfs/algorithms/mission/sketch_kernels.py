"""Kernels of the count-sketch, which find the cells of a feature, estimate weights from cells, and add to cells.

A sketch has `depth` rows of 2^bits cells, and a cell is a vector of C numbers, one for every class. A feature has one
cell in every row of the sketch, with a sign. The estimate of a feature's weights is the median over the rows of sign
times cell.

The second half of the module serves all features of a data row, whose cells lie far apart in memory: cells of a feature
a few places ahead are prefetched, and every cell is visited once, in loops that fill vector registers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.mission.table_kernels import mix
from daskfs.basis.prefetch_kernels import prefetch_to_write
from daskfs.jit import helper, inlined, kernel, summing_helper

MAX_DEPTH = 15
AHEAD = 4  # features to prefetch ahead; anything up to 16 costs the same
_CACHE_LINE = 16  # numbers of four bytes
_ONE, _ZERO = np.float32(1), np.float32(0)


@helper
def fold(h):
    """Return a second hash from hash h, for the second and third row of the sketch."""
    g = h * np.uint64(0x9E3779B97F4A7C15)
    return g ^ (g >> np.uint64(32))


@helper
def cells_of_three(h, bits):
    """Return the three cells of a feature in a sketch of depth 3, and three bits that encode the cells' signs."""
    g, shift, width = fold(h), np.uint64(64 - bits), np.uint64(1) << np.uint64(bits)
    return h >> shift, (g & (width - np.uint64(1))) + width, (g >> shift) + width + width, h & np.uint64(7)


@helper
def cell(h, row, bits):
    """Return the cell of a feature in one row of a sketch of any depth, and the sign of the cell."""
    width = np.uint64(1) << np.uint64(bits)
    if row > 2:
        h = mix(h + np.uint64(row // 3))
    g = fold(h)
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
    """Return +1 or -1, as bit number `which` of `bits` is 0 or 1."""
    return _ONE - np.float32(2) * np.float32((bits >> np.uint64(which)) & np.uint64(1))


@helper
def median_of_three(a, b, c):
    return max(min(a, b), min(max(a, b), c))


class Place(NamedTuple):
    """Cells and signs of a feature in the sketch; for several features, with a column for each feature."""

    cells: Any  # (depth,): where the numbers of its cell begin, in every row
    signs: Any  # (depth,)
    sorted: Any  # (MAX_DEPTH,): room to find a median


@kernel
def new_place():
    """Return an uninitialised `Place` for one feature."""
    return Place(np.empty(MAX_DEPTH, np.int64), np.empty(MAX_DEPTH, np.float32), np.empty(MAX_DEPTH, np.float32))


@helper
def locate(h, bits, depth, C, place):
    """Write the cells and signs of the feature with hash h into `place`."""
    for row in range(depth):
        at, place.signs[row] = cell(h, row, bits)
        place.cells[row] = np.int64(at) * C


@helper
def add(sketch, place, depth, first, vector, factor):
    """Add `factor` times a vector to the numbers `first`, `first` + 1, … of a feature's cells."""
    for row in range(depth):
        base, f = place.cells[row] + first, place.signs[row] * factor
        own = sketch[base : base + len(vector)]
        for c in range(len(vector)):
            own[c] += f * vector[c]


@helper
def read(sketch, place, depth, first, vector):
    """Write the estimates of a feature's class weights `first`, `first` + 1, … into `vector`."""
    cells, signs, ordered = place.cells, place.signs, place.sorted
    if depth == 3:
        i, j, k, V = cells[0] + first, cells[1] + first, cells[2] + first, len(vector)
        row0, row1, row2 = sketch[i : i + V], sketch[j : j + V], sketch[k : k + V]  # slices: loops fill registers
        s0, s1, s2 = signs[0], signs[1], signs[2]
        for c in range(V):
            vector[c] = median_of_three(s0 * row0[c], s1 * row1[c], s2 * row2[c])
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
    """Return the Euclidean norm of a vector of class weights."""
    if len(vector) == 1:
        return abs(vector[0])
    return np.float32(math.sqrt(squared_norm(vector)))


@helper
def squared_norm(vector):
    """Return the squared Euclidean norm of a vector."""
    total = np.float32(0)
    for c in range(len(vector)):
        total += vector[c] * vector[c]
    return total


# ------------------------------------------------------------------------------------------------------------ prefetch


@inlined
def prefetch_all(array, first, count):
    """Prefetch `count` consecutive numbers of four bytes; the last few may be left out."""
    for at in range(first, first + count, _CACHE_LINE):
        prefetch_to_write(array, at)


# ----------------------------------------------------------------------------------------- the features of a whole row


@kernel
def new_places(count, depth):
    """Return an uninitialised `Place` for `count` features."""
    signs = np.empty((depth, count), np.float32)
    return Place(np.empty((depth, count), np.int64), signs, np.empty(MAX_DEPTH, np.float32))


# Slices are taken in helpers, where they cost nothing: a kernel counts references to them.
@inlined
def place_of(places, q):
    """Return the cells and signs of feature q."""
    return Place(places.cells[:, q], places.signs[:, q], places.sorted)


@helper
def locate_row(hashes, size, bits, depth, C, places):
    """Write the cells and signs of the features with the first `size` hashes into `places`."""
    if depth != 3:
        for q in range(size):
            locate(hashes[q], bits, depth, C, place_of(places, q))
        return
    first, second, third = places.cells[0], places.cells[1], places.cells[2]
    s0, s1, s2 = places.signs[0], places.signs[1], places.signs[2]
    for q in range(size):
        i, j, k, s = cells_of_three(hashes[q], bits)
        first[q], second[q], third[q] = np.int64(i) * C, np.int64(j) * C, np.int64(k) * C
        s0[q], s1[q], s2[q] = sign(s, 0), sign(s, 1), sign(s, 2)


@inlined
def prefetch_cells(sketch, places, q, depth, first, count):
    """Prefetch `count` numbers of the cells of feature q."""
    for row in range(depth):
        prefetch_all(sketch, places.cells[row, q] + first, count)


@inlined
def cells_at(sketch, places, q, first, count):
    """Return `count` numbers of each of the three cells of feature q."""
    i, j, k = places.cells[0, q] + first, places.cells[1, q] + first, places.cells[2, q] + first
    return sketch[i : i + count], sketch[j : j + count], sketch[k : k + count]


@summing_helper
def read_one(sketch, places, q, depth, known):
    """Write the estimated weights of feature q into row q of `known`; return their squared norm."""
    own, total = known[q], _ZERO
    if depth != 3:
        read(sketch, place_of(places, q), depth, 0, own)
        return squared_norm(own)
    row0, row1, row2 = cells_at(sketch, places, q, 0, len(own))
    s0, s1, s2 = places.signs[0, q], places.signs[1, q], places.signs[2, q]
    for c in range(len(own)):
        w = median_of_three(s0 * row0[c], s1 * row1[c], s2 * row2[c])
        own[c] = w
        total += w * w
    return total


@summing_helper
def add_one(sketch, places, q, depth, vector, factor, known):
    """Add `factor` times a vector to the cells of feature q and to row q of `known`; return the row's squared norm."""
    own, total = known[q], _ZERO
    if depth != 3:
        add(sketch, place_of(places, q), depth, 0, vector, factor)
        for c in range(len(vector)):
            own[c] += factor * vector[c]
        return squared_norm(own)
    row0, row1, row2 = cells_at(sketch, places, q, 0, len(vector))
    s0, s1, s2 = places.signs[0, q], places.signs[1, q], places.signs[2, q]
    for c in range(len(vector)):
        d = factor * vector[c]
        row0[c] += s0 * d
        row1[c] += s1 * d
        row2[c] += s2 * d
        w = own[c] + d
        own[c] = w
        total += w * w
    return total
