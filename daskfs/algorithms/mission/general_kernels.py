"""The general kernels of MISSION: any number of classes, tables and rows of the sketch.

`sketched` and `active` are what `mission_kernels` has for the usual case; `thresholded` has no sketch at all ("iht",
"batch-iht").
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import implicit_residual, value
from daskfs.algorithms.mission.kernels import hash_row, is_finite, longest, slower, weight_of
from daskfs.algorithms.mission.marks_kernels import admit, new_marks, new_split, split_row
from daskfs.algorithms.mission.memory_kernels import COUNT, LEAST, LOSS, ROWS, WEIGHT, is_new, remember, settle
from daskfs.algorithms.mission.sketch_kernels import find, mixed, norm, squared_norm, tail_cell
from daskfs.algorithms.mission.sketch_row_kernels import (
    AHEAD,
    add_one,
    ask_for,
    locate_row,
    new_places,
    read_one,
    step_some,
)
from daskfs.jit import helper, inlined, summing, summing_helper

_ONE, _NIL = np.float32(1), np.float32(0)


@helper
def judge(rule, z, y, weight, reach, g, tally):
    """The pull on every score into `g`, and the loss into the tally."""
    C = len(z)
    tally[WEIGHT] += weight
    if C == 1:
        tally[LOSS] += weight * value(rule.loss, z[0], y)
        g[0] = weight * implicit_residual(rule.loss, z[0], y, rule.rate * weight * reach)
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
def learn_bias(memory, rule, g, gg):
    b = np.float32(rule.bias_value)
    if b != 0:
        memory.bias_sum[0] += b * b * gg
        step = np.float32(rule.rate) * slower(b, memory.bias_sum[0], rule.per_sighting)
        for c in range(len(g)):
            memory.bias[c] += step * g[c]


# Slices are taken in helpers, where they cost nothing: a kernel counts references to them.
@inlined
def length_in(known, q, t, n_tables, squared):
    """The length of what is known of feature q for table t, given the square of it for all tables."""
    if n_tables == 1 and known.shape[1] > 1:
        return np.float32(math.sqrt(squared))
    V = known.shape[1] // n_tables
    return norm(known[q, t * V : (t + 1) * V])


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


@summing_helper
def add_known(z, known, q, first, last, v):
    """Add what the sketch knows of feature q, of value v, to the scores."""
    own, part = z[first:last], known[q, first:last]
    for c in range(last - first):
        own[c] += v * part[c]


@summing_helper
def tail_steps(hashes, values, first, size, lacking, gg, tail, bits, rate, per, steps):
    """The steps of a row's features outside a table, of one sum for all tables that lack them."""
    v = values[first : first + size]
    for q in range(size):
        at = tail_cell(hashes[q], bits)
        tail[at] += lacking[q] * v[q] * v[q] * gg
        steps[q] = tail[at]
    for q in range(size):
        steps[q] = rate * slower(v[q], steps[q], per)


@inlined
def step_outside(sketch, places, outside, count, depth, t, g, steps, known, least, large):
    """`step_some`, of those outside table t and its classes."""
    V = len(known)
    own = g[t * V : (t + 1) * V]
    return step_some(sketch, places, outside[t], count, depth, t * V, own, steps, known, least, large)


@summing
def sketched(rows, memory, rule):
    """`sketched_three` for any number of classes, tables and rows of the sketch."""
    sketch, gauge, (n_tables, _, V), C = memory.sketch, memory.gauge, memory.weights.shape, len(memory.bias)
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
            ask_for(sketch, places, min(q + AHEAD, size - 1), depth, 0, C)
            squared = read_one(sketch, places, q, depth, known)
            for t in range(n_tables):
                if rule.everyone_counts or length_in(known, q, t, n_tables, squared) >= gauge[t, LEAST]:
                    add_known(z, known, q, t * V, (t + 1) * V, rows.values[a + q])
        judge(rule, z, rows.y[r], weight_of(rows, r), _NIL, g, memory.tally)
        learn_bias(memory, rule, g, _NIL)
        for q in range(size):
            squares[q] = add_one(sketch, places, q, depth, g, rate * rows.values[a + q], known)
        for q in range(size):
            for t in range(n_tables):
                is_large = length_in(known, q, t, n_tables, squares[q]) >= gauge[t, LEAST]
                if is_large and is_new(rows.ids[a + q], memory.keys, t, hashes[q]):
                    remember(rows, a + q, memory, rule, t)
    memory.tally[ROWS] += n
    return n


@summing
def active(rows, memory, rule):
    """`active_one` for any number of classes, tables and rows of the sketch."""
    sketch, tail, (n_tables, _, V), C = memory.sketch, memory.tail, memory.weights.shape, len(memory.bias)
    n, depth, most = len(rows.indptr) - 1, rule.depth, longest(rows.indptr)
    marks, split, places = new_marks(memory.keys), new_split(n_tables, most), new_places(most, depth)
    n_in, n_out, large = np.empty(n_tables, np.int64), np.empty(n_tables, np.int64), np.empty(most, np.int32)
    hashes, lacking = np.empty(most, np.uint64), np.empty(most, np.float32)
    total, steps, known = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(V, np.float32)
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    per, rate, b = np.float32(rule.per_sighting), np.float32(rule.rate), np.float32(rule.bias_value)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        if not is_finite(hash_row(rows.ids, rows.values, a, size, hashes)):
            return r
        for c in range(C):
            z[c] = memory.bias[c] * b
        reach = b * slower(b, memory.bias_sum[0], per)
        for q in range(size):
            lacking[q] = 0
        for t in range(n_tables):
            n_in[t], n_out[t] = split_row(memory.keys, marks, t, rows.ids, hashes, a, size, split)
            for u in range(n_in[t]):
                slot, v = split.slots[t, u], rows.values[a + split.inside[t, u]]
                add_scores(z, memory.weights, t, slot, v)
                if C == 1:
                    reach += v * slower(v, memory.sums[t, slot], per)
            for u in range(n_out[t]):
                lacking[split.outside[t, u]] = 1
        judge(rule, z, rows.y[r], weight_of(rows, r), reach, g, memory.tally)
        gg = squared_norm(g) * np.float32(rule.stands_for)
        learn_bias(memory, rule, g, gg)
        for t in range(n_tables):
            for u in range(n_in[t]):
                slot, v = split.slots[t, u], rows.values[a + split.inside[t, u]]
                memory.sums[t, slot] += v * v * gg
                total[u], steps[u] = memory.sums[t, slot], v
            for u in range(n_in[t]):
                steps[u] = rate * slower(steps[u], total[u], per)
            for u in range(n_in[t]):
                add_weights(memory.weights, t, split.slots[t, u], g, steps[u])
        locate_row(hashes, size, rule.bits, depth, C, places)
        tail_steps(hashes, rows.values, a, size, lacking, gg, tail, rule.bits, rate, per, steps)
        for t in range(n_tables):
            least = memory.gauge[t, LEAST] * memory.gauge[t, LEAST]
            n_large = step_outside(sketch, places, split.outside, n_out[t], depth, t, g, steps, known, least, large)
            if n_large:
                admit(rows, a, large, n_large, hashes, memory, rule, t, marks)
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
