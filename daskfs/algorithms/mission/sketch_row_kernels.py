"""Kernels of the count-sketch for the features of a whole row, which are located first and then visited in turn.

Cells are vectors here and lie far apart. So the cells of a feature some places on are asked for before they are
needed, and every cell is gone through once, in loops that fill vector registers.
"""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.mission.prefetch_kernels import prefetch_all
from daskfs.algorithms.mission.sketch_kernels import (
    MAX_DEPTH,
    Place,
    add,
    cells_of_three,
    locate,
    median_of_three,
    read,
    sign,
    squared_norm,
)
from daskfs.jit import helper, inlined, kernel, summing_helper

AHEAD = 4  # features; as far as four times that costs the same

_NIL = np.float32(0)


@kernel
def new_places(count, depth):
    """Room for so many places: `cells` and `signs` have a row for every row of the sketch."""
    signs = np.empty((depth, count), np.float32)
    return Place(np.empty((depth, count), np.int64), signs, np.empty(MAX_DEPTH, np.float32))


# Slices are taken in helpers, where they cost nothing: a kernel counts references to them.
@inlined
def place_of(places, q):
    return Place(places.cells[:, q], places.signs[:, q], places.sorted)


@helper
def locate_row(hashes, size, bits, depth, C, places):
    """Find the places of the first `size` hashes."""
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
def ask_for(sketch, places, q, depth, first, count):
    """Let `count` numbers of the cells of feature q come, which are needed soon."""
    for row in range(depth):
        prefetch_all(sketch, places.cells[row, q] + first, count)


@inlined
def cells_at(sketch, places, q, first, count):
    """`count` numbers of the three cells of feature q."""
    i, j, k = places.cells[0, q] + first, places.cells[1, q] + first, places.cells[2, q] + first
    return sketch[i : i + count], sketch[j : j + count], sketch[k : k + count]


@summing_helper
def read_one(sketch, places, q, depth, known):
    """What the sketch knows of feature q, into row q of `known`; returns its squared length."""
    own, total = known[q], _NIL
    if depth != 3:
        read(sketch, place_of(places, q), depth, 0, own)
        return squared_norm(own)
    one, two, three = cells_at(sketch, places, q, 0, len(own))
    s0, s1, s2 = places.signs[0, q], places.signs[1, q], places.signs[2, q]
    for c in range(len(own)):
        w = median_of_three(s0 * one[c], s1 * two[c], s2 * three[c])
        own[c] = w
        total += w * w
    return total


@summing_helper
def step_three(sketch, places, q, first, vector, factor):
    """Add `factor` times a vector to the three cells of feature q; returns the squared length of what they say now."""
    one, two, three = cells_at(sketch, places, q, first, len(vector))
    s0, s1, s2 = places.signs[0, q], places.signs[1, q], places.signs[2, q]
    total = _NIL
    for c in range(len(vector)):
        d = factor * vector[c]
        # What the feature's own sign makes of its cells; the step is the same for all three then.
        x0, x1, x2 = s0 * one[c] + d, s1 * two[c] + d, s2 * three[c] + d
        one[c], two[c], three[c] = s0 * x0, s1 * x1, s2 * x2
        w = median_of_three(x0, x1, x2)
        total += w * w
    return total


@summing_helper
def step_some(sketch, places, which, count, depth, first, vector, steps, known, least, large):
    """Add so many times a vector to the cells of some features.

    Those whose squared length passes `least` now are listed in `large`; returns how many. `known` is room for a vector.
    """
    n_large = 0
    if depth != 3:
        for u in range(count):
            q = which[u]
            add(sketch, place_of(places, q), depth, first, vector, steps[q])
            read(sketch, place_of(places, q), depth, first, known)
            large[n_large] = q
            n_large += squared_norm(known) > least
        return n_large
    for u in range(count):
        q = which[u]
        ask_for(sketch, places, which[min(u + AHEAD, count - 1)], 3, first, len(vector))
        large[n_large] = q
        n_large += step_three(sketch, places, q, first, vector, steps[q]) > least
    return n_large


@summing_helper
def add_one(sketch, places, q, depth, vector, factor, known):
    """Add `factor` times a vector to the cells of feature q and to row q of `known`; returns its squared length."""
    own, total = known[q], _NIL
    if depth != 3:
        add(sketch, place_of(places, q), depth, 0, vector, factor)
        for c in range(len(vector)):
            own[c] += factor * vector[c]
        return squared_norm(own)
    one, two, three = cells_at(sketch, places, q, 0, len(vector))
    s0, s1, s2 = places.signs[0, q], places.signs[1, q], places.signs[2, q]
    for c in range(len(vector)):
        d = factor * vector[c]
        one[c] += s0 * d
        two[c] += s1 * d
        three[c] += s2 * d
        w = own[c] + d
        own[c] = w
        total += w * w
    return total
