"""Kernels that learn only the weights of features in the tables.

`learn_thresholded` is for method "batch-iht", `refit_rows` for the refit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.mission.memory_kernels import COUNT, ROWS, SUM, UNIT, apply_gradients
from daskfs.algorithms.mission.row_kernels import damp, is_finite, learn_bias, longest, score_residual, weight_of
from daskfs.algorithms.mission.sketch_kernels import squared_norm
from daskfs.algorithms.mission.table_kernels import find, mix
from daskfs.jit import summing

_ZERO = np.float32(0)


@summing
def learn_thresholded(rows, memory, rule):
    """Learn rows by batch iterative hard thresholding; return the number of rows before a value that is not finite.

    Gradients are summed in `memory.sketch`, a vector for every slot, until the table has no room for another row.
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
    """Sums with which the sum of weights over the rows of a pass is clock × last weight − drift."""

    weights: Any  # (T, capacity, V): every change of a weight times the number of rows before it
    bias: Any  # (C,): the same for `Memory.bias`
    clock: Any  # (1,): rows so far


@summing
def refit_rows(rows, memory, drift, rule):
    """Learn the weights of the features in the tables, from rows with no other features.

    Rows of weight 0 change no weights and do not advance the clock of `drift`.
    """
    n_tables, _, V = memory.weights.shape
    C, n, most = len(memory.bias), len(rows.indptr) - 1, longest(rows.indptr)
    at, values = np.empty((most * n_tables, 2), np.int64), np.empty(most * n_tables, np.float32)
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    decay, rate, b = np.float32(rule.decay), np.float32(rule.rate), np.float32(rule.bias_value)
    for r in range(n):
        weight, known = weight_of(rows, r), 0
        for c in range(C):
            z[c] = memory.bias[c] * b
        reach = b * damp(b, memory.bias_sum[0], decay)
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            h = mix(rows.ids[e])
            for t in range(n_tables):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), h)
                if slot >= 0:
                    v = rows.values[e] * memory.pace[t, slot, UNIT]
                    at[known, 0], at[known, 1], values[known] = t, slot, v
                    known += 1
                    reach += v * damp(v, memory.pace[t, slot, SUM], decay)
                    for c in range(V):
                        z[t * V + c] += memory.weights[t, slot, c] * v
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
