"""The kernels of methods "paper" and "hashing": all weights are in the sketch, and tables only list large features.

`learn_sketch_fast` is for models with one score and a sketch of depth 3, `learn_sketch` for any number of classes, of
tables of large features, and of rows of the sketch. Both add up the losses of rows before the rows are learned, and
return the number of rows before a value that is not finite.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import residual, value
from daskfs.algorithms.mission.memory_kernels import LOSS, ROWS, THRESHOLD, WEIGHT, remember
from daskfs.algorithms.mission.row_kernels import hash_row, is_finite, learn_bias, longest, score_residual, weight_of
from daskfs.algorithms.mission.sketch_kernels import (
    AHEAD,
    add_one,
    cells_of_three,
    locate_row,
    median_of_three,
    new_places,
    norm,
    prefetch_cells,
    read_one,
    sign,
)
from daskfs.algorithms.mission.table_kernels import find, mix
from daskfs.jit import helper, inlined, summing, summing_helper

_ZERO = np.float32(0)


@summing
def learn_sketch_fast(rows, memory, rule):
    """Learn rows with all weights in the sketch, one score for each row, depth 3; return the number of rows learned."""
    sketch, keys, status, bits = memory.sketch, memory.keys[0], memory.status[0], rule.bits
    n, most = len(rows.indptr) - 1, longest(rows.indptr)
    first, second, third = np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(most, np.uint32)
    s0, s1, s2 = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    known, steps = np.empty(most, np.float32), np.empty(most, np.float32)
    least = np.float32(status[THRESHOLD])
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        square = _ZERO
        for q in range(size):
            i, j, k, s = cells_of_three(mix(rows.ids[a + q]), bits)
            first[q], second[q], third[q] = i, j, k
            s0[q], s1[q], s2[q] = sign(s, 0), sign(s, 1), sign(s, 2)
            square += rows.values[a + q] * rows.values[a + q]
        if not is_finite(square):
            return r
        z = np.float32(memory.bias[0] * rule.bias_value)
        for q in range(size):
            w = median_of_three(
                s0[q] * sketch[np.uint64(first[q])],
                s1[q] * sketch[np.uint64(second[q])],
                s2[q] * sketch[np.uint64(third[q])],
            )
            known[q] = w
            z += (w if abs(w) >= least else _ZERO) * rows.values[a + q]
        weight = weight_of(rows, r)
        memory.totals[LOSS] += weight * value(rule.loss, z, rows.y[r])
        memory.totals[WEIGHT] += weight
        g = np.float32(rule.rate * weight * residual(rule.loss, z, rows.y[r]))
        memory.bias[0] += g * rule.bias_value
        for q in range(size):
            steps[q] = g * rows.values[a + q]
        for q in range(size):
            d = steps[q]
            sketch[np.uint64(first[q])] += s0[q] * d
            sketch[np.uint64(second[q])] += s1[q] * d
            sketch[np.uint64(third[q])] += s2[q] * d
        n_large = 0
        for q in range(size):
            first[n_large] = q
            n_large += abs(known[q] + steps[q]) >= least
        for u in range(n_large):
            q = first[u]
            e = a + q
            if abs(known[q] + steps[q]) >= least and find(keys, rows.ids[e] + np.uint64(1), mix(rows.ids[e])) < 0:
                remember(rows, e, memory, rule, 0)
                least = np.float32(status[THRESHOLD])
    memory.totals[ROWS] += n
    return n


# Slices are taken in helpers, where they cost nothing: a kernel counts references to them.
@helper
def is_new(feature, keys, t, h):
    """Return whether a feature with hash h is missing in table t."""
    return find(keys[t], feature + np.uint64(1), h) < 0


@inlined
def norm_in(known, q, t, n_tables, squared):
    """Return the norm of feature q's estimated weights for table t, given the squared norm for all tables."""
    if n_tables == 1 and known.shape[1] > 1:
        return np.float32(math.sqrt(squared))
    V = known.shape[1] // n_tables
    return norm(known[q, t * V : (t + 1) * V])


@summing_helper
def add_known(z, known, q, first, last, v):
    """Add value v times the estimated weights of feature q to the scores."""
    own, part = z[first:last], known[q, first:last]
    for c in range(last - first):
        own[c] += v * part[c]


@summing
def learn_sketch(rows, memory, rule):
    """Learn rows with all weights in the sketch; return the number of rows learned."""
    sketch, status, (n_tables, _, V), C = memory.sketch, memory.status, memory.weights.shape, len(memory.bias)
    n, depth, most = len(rows.indptr) - 1, rule.depth, longest(rows.indptr)
    known, hashes, places = np.empty((most, C), np.float32), np.empty(most, np.uint64), new_places(most, depth)
    z, g, squares = np.empty(C, np.float32), np.empty(C, np.float32), np.empty(most, np.float32)
    rate = np.float32(rule.rate)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        if not is_finite(hash_row(rows.ids, rows.values, a, size, hashes)):
            return r
        locate_row(hashes, size, rule.bits, depth, C, places)
        for c in range(C):
            z[c] = memory.bias[c] * rule.bias_value
        for q in range(size):
            prefetch_cells(sketch, places, min(q + AHEAD, size - 1), depth, 0, C)
            squared = read_one(sketch, places, q, depth, known)
            for t in range(n_tables):
                if rule.scores_all or norm_in(known, q, t, n_tables, squared) >= status[t, THRESHOLD]:
                    add_known(z, known, q, t * V, (t + 1) * V, rows.values[a + q])
        score_residual(rule, z, rows.y[r], weight_of(rows, r), _ZERO, g, memory.totals)
        learn_bias(memory, rule, g, _ZERO)
        for q in range(size):
            squares[q] = add_one(sketch, places, q, depth, g, rate * rows.values[a + q], known)
        for q in range(size):
            for t in range(n_tables):
                is_large = norm_in(known, q, t, n_tables, squares[q]) >= status[t, THRESHOLD]
                if is_large and is_new(rows.ids[a + q], memory.keys, t, hashes[q]):
                    remember(rows, a + q, memory, rule, t)
    memory.totals[ROWS] += n
    return n
