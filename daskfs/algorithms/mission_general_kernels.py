"""The general kernels of MISSION: any number of classes, tables and rows of the sketch.

`sketched` and `active` are what `mission_kernels` has for the usual case; `thresholded` has no sketch at all ("iht",
"batch-iht").
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import implicit_pull, value
from daskfs.algorithms.mission_kernels import is_finite, longest, slower, weight_of
from daskfs.algorithms.mission_memory_kernels import (
    COUNT,
    LEAST,
    LOSS,
    ROWS,
    WEIGHT,
    is_new,
    remember,
    settle,
    take_over,
)
from daskfs.algorithms.sketch_kernels import add, find, locate, median_of_three, mixed, new_place, norm, read, tail_cell
from daskfs.jit import helper, summing, summing_helper

_ONE, _NIL = np.float32(1), np.float32(0)


@helper
def judge(rule, z, y, weight, reach, g, tally):
    """The pull on every score into `g`, and the loss into the tally."""
    C = len(z)
    tally[WEIGHT] += weight
    if C == 1:
        tally[LOSS] += weight * value(rule.loss, z[0], y)
        g[0] = weight * implicit_pull(rule.loss, z[0], y, rule.rate * weight * reach)
        return
    most = z[0]
    for c in range(1, C):
        most = max(most, z[c])
    total = _NIL
    for c in range(C):
        g[c] = np.float32(math.exp(z[c] - most))
        total += g[c]
    right = np.int64(y)
    tally[LOSS] += weight * (math.log(total) - (z[right] - most))
    for c in range(C):
        g[c] *= -weight / total
    g[right] += weight


@helper
def squared_norm(g):
    total = _NIL
    for c in range(len(g)):
        total += g[c] * g[c]
    return total


@helper
def learn_bias(memory, rule, g, gg):
    b = np.float32(rule.bias_value)
    if b != 0:
        memory.bias_sum[0] += b * b * gg
        step = np.float32(rule.rate) * slower(b, memory.bias_sum[0], rule.per_sighting)
        for c in range(len(g)):
            memory.bias[c] += step * g[c]


# Slices are taken in helpers, where they cost nothing: a kernel counts references to them.
@helper
def find_in(keys, t, key, h):
    """`find` in table t."""
    return find(keys[t], key, h)


@helper
def read_row(sketch, place, depth, known, q):
    """`read` into a row of `known`."""
    read(sketch, place, depth, 0, known[q])


@helper
def norm_in(known, q, first, last):
    """`norm` of a part of a row of `known`."""
    return norm(known[q, first:last])


@summing_helper
def add_scores(z, weights, t, slot, v):
    """Add what a feature of value v says to the scores."""
    V = weights.shape[2]
    own, known = z[t * V : (t + 1) * V], weights[t, slot]
    for c in range(V):
        own[c] += v * known[c]


@summing_helper
def add_weights(weights, t, slot, g, step):
    """Add a step to the weights of a feature in a table."""
    V = weights.shape[2]
    own, known = g[t * V : (t + 1) * V], weights[t, slot]
    for c in range(V):
        known[c] += step * own[c]


@summing
def sketched(rows, memory, rule):
    """`sketched_three` for any number of classes, tables and rows of the sketch."""
    sketch, (n_tables, _, V), C = memory.sketch, memory.weights.shape, len(memory.bias)
    n, depth = len(rows.indptr) - 1, rule.depth
    known = np.empty((longest(rows.indptr), C), np.float32)
    place, z, g = new_place(), np.empty(C, np.float32), np.empty(C, np.float32)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        square = _NIL
        for q in range(size):
            square += rows.values[a + q] * rows.values[a + q]
        if not is_finite(square):
            return r
        for c in range(C):
            z[c] = memory.bias[c] * rule.bias_value
        for q in range(size):
            locate(mixed(rows.ids[a + q]), rule.bits, depth, C, place)
            read_row(sketch, place, depth, known, q)
            for t in range(n_tables):
                if rule.everyone_counts or norm_in(known, q, t * V, (t + 1) * V) >= memory.gauge[t, LEAST]:
                    for c in range(t * V, (t + 1) * V):
                        z[c] += known[q, c] * rows.values[a + q]
        judge(rule, z, rows.y[r], weight_of(rows, r), _NIL, g, memory.tally)
        learn_bias(memory, rule, g, _NIL)
        for q in range(size):
            locate(mixed(rows.ids[a + q]), rule.bits, depth, C, place)
            step = np.float32(rule.rate) * rows.values[a + q]
            add(sketch, place, depth, 0, g, step)
            for c in range(C):
                known[q, c] += step * g[c]
        for q in range(size):
            for t in range(n_tables):
                if norm_in(known, q, t * V, (t + 1) * V) >= memory.gauge[t, LEAST] and is_new(
                    rows.ids[a + q], memory, t
                ):
                    remember(rows, a + q, memory, rule, t)
    memory.tally[ROWS] += n
    return n


@summing_helper
def stepped_three(sketch, place, first, V, g, factor):
    """`add` a step to a feature's three cells and return the squared length of what they say now, in one go."""
    i, j, k = place.cells[0] + first, place.cells[1] + first, place.cells[2] + first
    one, two, three, own = sketch[i : i + V], sketch[j : j + V], sketch[k : k + V], g[first : first + V]
    s0, s1, s2 = place.signs[0], place.signs[1], place.signs[2]
    total = _NIL
    for c in range(V):
        d = factor * own[c]
        x0, x1, x2 = s0 * one[c] + d, s1 * two[c] + d, s2 * three[c] + d
        one[c], two[c], three[c] = s0 * x0, s1 * x1, s2 * x2
        w = median_of_three(x0, x1, x2)
        total += w * w
    return total


@summing
def active(rows, memory, rule):
    """`active_one` for any number of classes, tables and rows of the sketch."""
    sketch, tail, (n_tables, _, V), C = memory.sketch, memory.tail, memory.weights.shape, len(memory.bias)
    n, depth, most = len(rows.indptr) - 1, rule.depth, longest(rows.indptr)
    slots, hashes = np.empty((most, n_tables), np.int64), np.empty(most, np.uint64)
    large = np.empty((most * n_tables, 2), np.int64)
    place, z, g, known = new_place(), np.empty(C, np.float32), np.empty(C, np.float32), np.empty(V, np.float32)
    per, rate = np.float32(rule.per_sighting), np.float32(rule.rate)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        for c in range(C):
            z[c] = memory.bias[c] * rule.bias_value
        reach = rule.bias_value * slower(np.float32(rule.bias_value), memory.bias_sum[0], per)
        square = _NIL
        for q in range(size):
            h, v = mixed(rows.ids[a + q]), rows.values[a + q]
            hashes[q] = h
            square += v * v
            for t in range(n_tables):
                slot = find_in(memory.keys, t, rows.ids[a + q] + np.uint64(1), h)
                slots[q, t] = slot
                if slot >= 0:
                    reach += v * slower(v, memory.sums[t, slot], per)
                    add_scores(z, memory.weights, t, slot, v)
        if not is_finite(square):
            return r
        judge(rule, z, rows.y[r], weight_of(rows, r), reach, g, memory.tally)
        gg = squared_norm(g) * np.float32(rule.stands_for)
        learn_bias(memory, rule, g, gg)
        n_large = 0
        for q in range(size):
            h, v = hashes[q], rows.values[a + q]
            slower_v, located = v, False
            for t in range(n_tables):
                slot = slots[q, t]
                if slot >= 0:
                    memory.sums[t, slot] += v * v * gg
                    step = rate * slower(v, memory.sums[t, slot], per)
                    add_weights(memory.weights, t, slot, g, step)
                    continue
                if not located:
                    located = True
                    locate(h, rule.bits, depth, C, place)
                    if len(tail):
                        at = tail_cell(h, rule.bits)
                        tail[at] += v * v * gg
                        slower_v = slower(v, tail[at], per)
                if depth == 3:
                    size_of = stepped_three(sketch, place, t * V, V, g, rate * slower_v)
                else:
                    add(sketch, place, depth, t * V, g[t * V : (t + 1) * V], rate * slower_v)
                    read(sketch, place, depth, t * V, known)
                    size_of = squared_norm(known)
                if size_of > memory.gauge[t, LEAST] * memory.gauge[t, LEAST]:
                    large[n_large, 0], large[n_large, 1] = q, t
                    n_large += 1
        for u in range(n_large):
            q = large[u, 0]
            take_over(rows, a + q, hashes[q], memory, rule, large[u, 1])
    memory.tally[ROWS] += n
    return n


# ------------------------------------------------------------------------------------------------------- no sketch


@summing
def thresholded(rows, memory, rule):
    """Iterative hard thresholding: gradients add up beside the weights, until there is no room for another row.

    `memory.sketch` holds those sums, a vector for every slot.
    """
    (n_tables, _, V), C, gathered = memory.weights.shape, len(memory.bias), memory.sketch
    n, capacity = len(rows.indptr) - 1, memory.keys.shape[1]
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    for r in range(n):
        a, stop = rows.indptr[r], rows.indptr[r + 1]
        square = _NIL
        for e in range(a, stop):
            square += rows.values[e] * rows.values[e]
        if not is_finite(square):
            return r
        for c in range(C):
            z[c] = memory.bias[c] * rule.bias_value
        for t in range(n_tables):
            if memory.gauge[t, COUNT] + (stop - a) > rule.room:
                settle(memory, rule, t)
            for e in range(a, stop):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mixed(rows.ids[e]))
                if slot >= 0:
                    for c in range(V):
                        z[t * V + c] += memory.weights[t, slot, c] * rows.values[e]
        judge(rule, z, rows.y[r], weight_of(rows, r), _NIL, g, memory.tally)
        learn_bias(memory, rule, g, _NIL)
        for t in range(n_tables):
            for e in range(a, stop):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mixed(rows.ids[e]))
                if slot < 0:
                    slot = -1 - slot
                    memory.keys[t, slot] = rows.ids[e] + np.uint64(1)
                    memory.weights[t, slot] = 0
                    if len(rows.pairs):
                        memory.parents[t, slot] = rows.pairs[e]
                    memory.gauge[t, COUNT] += 1
                step, base = np.float32(rule.rate) * rows.values[e], (t * capacity + slot) * V
                for c in range(V):
                    gathered[base + c] += step * g[t * V + c]
    memory.tally[ROWS] += n
    return n
