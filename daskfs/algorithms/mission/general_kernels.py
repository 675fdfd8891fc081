"""The general kernels of MISSION: any number of classes, of tables, and of rows of the sketch.

`learn_sketch` and `learn_active` do the same as the fast kernels of `learn_kernels`. `learn_thresholded` learns without
a sketch (methods "iht", "batch-iht"). `refit_rows` learns only the features in the tables.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.loss_kernels import implicit_residual, value
from daskfs.algorithms.mission.learn_kernels import damp, hash_row, is_finite, longest, weight_of
from daskfs.algorithms.mission.memory_kernels import (
    COUNT,
    LOSS,
    ROWS,
    SUM,
    THRESHOLD,
    UNIT,
    WEIGHT,
    admit,
    apply_gradients,
    remember,
)
from daskfs.algorithms.mission.sketch_kernels import (
    AHEAD,
    add_one,
    locate_row,
    new_places,
    norm,
    prefetch_cells,
    read_one,
    squared_norm,
    step_some,
    tail_cell,
)
from daskfs.algorithms.mission.table_kernels import find, mix, new_filter, new_split, split_row
from daskfs.jit import helper, inlined, summing, summing_helper

_ZERO = np.float32(0)


@helper
def score_residual(rule, z, y, weight, reach, g, totals):
    """Write the residual of every score of a row into `g`, and add the loss of the row to the totals."""
    C = len(z)
    totals[WEIGHT] += weight
    if C == 1:
        totals[LOSS] += weight * value(rule.loss, z[0], y)
        g[0] = weight * implicit_residual(rule.loss, z[0], y, rule.rate * weight * reach)
        return
    most = z[0]
    for c in range(1, C):
        most = max(most, z[c])
    total = _ZERO
    for c in range(C):
        g[c] = np.float32(math.exp(z[c] - most))
        total += g[c]
    right = np.int64(y)
    totals[LOSS] += weight * (math.log(total) - (z[right] - most))
    for c in range(C):
        g[c] *= -weight / total
    g[right] += weight


@helper
def learn_bias(memory, rule, g, gg):
    """Update the weights of the constant feature by a gradient step, where `gg` is the residual's squared norm."""
    b = np.float32(rule.bias_value)
    if b != 0:
        memory.bias_sum[0] += b * b * gg
        step = np.float32(rule.rate) * damp(b, memory.bias_sum[0], rule.decay)
        for c in range(len(g)):
            memory.bias[c] += step * g[c]


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
def add_scores(z, weights, t, slot, v):
    """Add value v times a feature's weights in a table to the scores."""
    V = weights.shape[2]
    own, known = z[t * V : (t + 1) * V], weights[t, slot]
    for c in range(V):
        own[c] += v * known[c]


@summing_helper
def add_weights(weights, t, slot, g, step):
    """Add `step` times the residual g to the weights of a feature in a table."""
    V = weights.shape[2]
    own, known = g[t * V : (t + 1) * V], weights[t, slot]
    for c in range(V):
        known[c] += step * own[c]


@summing_helper
def add_known(z, known, q, first, last, v):
    """Add value v times the estimated weights of feature q to the scores."""
    own, part = z[first:last], known[q, first:last]
    for c in range(last - first):
        own[c] += v * part[c]


@summing_helper
def tail_steps(hashes, values, first, size, lacking, gg, tail, bits, rate, decay, steps):
    """Write the steps of a row's features into `steps`, where `lacking[q]` is 1 if a table lacks feature q, or 0."""
    v = values[first : first + size]
    for q in range(size):
        at = tail_cell(hashes[q], bits)
        tail[at] += lacking[q] * v[q] * v[q] * gg
        steps[q] = tail[at]
    for q in range(size):
        steps[q] = rate * damp(v[q], steps[q], decay)


@inlined
def step_outside(sketch, places, outside, count, depth, t, g, steps, known, least, large):
    """Call `step_some` for the features that table t lacks, with the classes of table t."""
    V = len(known)
    own = g[t * V : (t + 1) * V]
    return step_some(sketch, places, outside[t], count, depth, t * V, own, steps, known, least, large)


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


@summing
def learn_active(rows, memory, rule):
    """Learn rows with exact weights in the tables; return the number of rows learned."""
    sketch, tail, (n_tables, _, V), C = memory.sketch, memory.tail, memory.weights.shape, len(memory.bias)
    n, depth, most = len(rows.indptr) - 1, rule.depth, longest(rows.indptr)
    bloom, split, places = new_filter(memory.keys), new_split(n_tables, most), new_places(most, depth)
    n_in, n_out, large = np.empty(n_tables, np.int64), np.empty(n_tables, np.int64), np.empty(most, np.int32)
    hashes, lacking = np.empty(most, np.uint64), np.empty(most, np.float32)
    total, steps, known = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(V, np.float32)
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    decay, rate, b = np.float32(rule.decay), np.float32(rule.rate), np.float32(rule.bias_value)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        if not is_finite(hash_row(rows.ids, rows.values, a, size, hashes)):
            return r
        for c in range(C):
            z[c] = memory.bias[c] * b
        reach = b * damp(b, memory.bias_sum[0], decay)
        for q in range(size):
            lacking[q] = 0
        for t in range(n_tables):
            n_in[t], n_out[t] = split_row(memory.keys, bloom, t, rows.ids, hashes, a, size, split)
            for u in range(n_in[t]):
                slot = split.slots[t, u]
                v = rows.values[a + split.inside[t, u]] * memory.pace[t, slot, UNIT]
                add_scores(z, memory.weights, t, slot, v)
                if C == 1:
                    reach += v * damp(v, memory.pace[t, slot, SUM], decay)
            for u in range(n_out[t]):
                lacking[split.outside[t, u]] = 1
        score_residual(rule, z, rows.y[r], weight_of(rows, r), reach, g, memory.totals)
        gg = squared_norm(g) * np.float32(rule.n_shards)
        learn_bias(memory, rule, g, gg)
        for t in range(n_tables):
            for u in range(n_in[t]):
                slot = split.slots[t, u]
                v = rows.values[a + split.inside[t, u]] * memory.pace[t, slot, UNIT]
                memory.pace[t, slot, SUM] += v * v * gg
                total[u], steps[u] = memory.pace[t, slot, SUM], v
            for u in range(n_in[t]):
                steps[u] = rate * damp(steps[u], total[u], decay)
            for u in range(n_in[t]):
                add_weights(memory.weights, t, split.slots[t, u], g, steps[u])
        locate_row(hashes, size, rule.bits, depth, C, places)
        tail_steps(hashes, rows.outside, a, size, lacking, gg, tail, rule.bits, rate, decay, steps)
        for t in range(n_tables):
            least = memory.status[t, THRESHOLD] * memory.status[t, THRESHOLD]
            n_large = step_outside(sketch, places, split.outside, n_out[t], depth, t, g, steps, known, least, large)
            if n_large:
                admit(rows, a, large, n_large, hashes, memory, rule, t, bloom)
    memory.totals[ROWS] += n
    return n


@summing
def learn_thresholded(rows, memory, rule):
    """Learn rows by iterative hard thresholding; return the number of rows learned.

    Gradients add up in `memory.sketch`, with a vector for every slot, until the table has no room for another row.
    """
    (n_tables, _, V), C, gathered = memory.weights.shape, len(memory.bias), memory.sketch
    n, capacity = len(rows.indptr) - 1, memory.keys.shape[1]
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    for r in range(n):
        a, stop = rows.indptr[r], rows.indptr[r + 1]
        square = _ZERO
        for e in range(a, stop):
            square += rows.values[e] * rows.values[e]
        if not is_finite(square):
            return r
        for c in range(C):
            z[c] = memory.bias[c] * rule.bias_value
        for t in range(n_tables):
            if memory.status[t, COUNT] + (stop - a) > rule.room:
                apply_gradients(memory, rule, t)
            for e in range(a, stop):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mix(rows.ids[e]))
                if slot >= 0:
                    for c in range(V):
                        z[t * V + c] += memory.weights[t, slot, c] * rows.values[e]
        score_residual(rule, z, rows.y[r], weight_of(rows, r), _ZERO, g, memory.totals)
        learn_bias(memory, rule, g, _ZERO)
        for t in range(n_tables):
            for e in range(a, stop):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mix(rows.ids[e]))
                if slot < 0:
                    slot = -1 - slot
                    memory.keys[t, slot] = rows.ids[e] + np.uint64(1)
                    memory.weights[t, slot], memory.pace[t, slot, UNIT] = 0, 1
                    if len(rows.pairs):
                        memory.parents[t, slot] = rows.pairs[e]
                    memory.status[t, COUNT] += 1
                step, base = np.float32(rule.rate) * rows.values[e], (t * capacity + slot) * V
                for c in range(V):
                    gathered[base + c] += step * g[t * V + c]
    memory.totals[ROWS] += n
    return n


class Drift(NamedTuple):
    """Sums from which the sum of weights over the rows of a pass follows, as clock × last weight − drift."""

    weights: Any  # (T, capacity, V): every change of a weight times the number of rows before it
    bias: Any  # (C,): the same for `Memory.bias`
    clock: Any  # (1,): rows so far


@summing
def refit_rows(rows, memory, drift, rule):
    """Learn the weights of the features in the tables only; return the number of rows learned.

    Rows of weight 0 change no weights and do not advance the clock of `drift`.
    """
    n_tables, _, V = memory.weights.shape
    C, n, most = len(memory.bias), len(rows.indptr) - 1, longest(rows.indptr)
    at, values = np.empty((most * n_tables, 2), np.int64), np.empty(most * n_tables, np.float32)
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    decay, rate, b = np.float32(rule.decay), np.float32(rule.rate), np.float32(rule.bias_value)
    for r in range(n):
        weight, known, square = weight_of(rows, r), 0, _ZERO
        for c in range(C):
            z[c] = memory.bias[c] * b
        reach = b * damp(b, memory.bias_sum[0], decay)
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            h = mix(rows.ids[e])
            square += rows.values[e] * rows.values[e]
            for t in range(n_tables):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), h)
                if slot >= 0:
                    v = rows.values[e] * memory.pace[t, slot, UNIT]
                    at[known, 0], at[known, 1], values[known] = t, slot, v
                    known += 1
                    reach += v * damp(v, memory.pace[t, slot, SUM], decay)
                    for c in range(V):
                        z[t * V + c] += memory.weights[t, slot, c] * v
        if not is_finite(square):
            return r
        if weight == 0:
            continue
        score_residual(rule, z, rows.y[r], weight, reach, g, memory.totals)
        gg, time = squared_norm(g) * np.float32(rule.n_shards), drift.clock[0]
        memory.bias_sum[0] += b * b * gg
        step = rate * damp(b, memory.bias_sum[0], decay)
        for c in range(C):
            memory.bias[c] += step * g[c]
            drift.bias[c] += time * step * g[c]
        for q in range(known):
            t, slot, v = at[q, 0], at[q, 1], values[q]
            memory.pace[t, slot, SUM] += v * v * gg
            step = rate * damp(v, memory.pace[t, slot, SUM], decay)
            for c in range(V):
                memory.weights[t, slot, c] += step * g[t * V + c]
                drift.weights[t, slot, c] += time * step * g[t * V + c]
        drift.clock[0] += 1
    memory.totals[ROWS] += n
    return n
