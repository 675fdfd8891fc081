"""Kernels of MISSION's refit: the selected features alone, their weights averaged over the way they take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.mission.general_kernels import judge
from daskfs.algorithms.mission.kernels import is_finite, longest, slower, weight_of
from daskfs.algorithms.mission.memory_kernels import ROWS
from daskfs.algorithms.mission.sketch_kernels import find, mixed, squared_norm
from daskfs.jit import kernel, summing

_NIL = np.float32(0)


class Way(NamedTuple):
    """Where weights have been: their sum over rows is clock times the weight, less the drift."""

    drift: Any  # (T, capacity, V): every change times the number of rows before it
    bias_drift: Any  # (C,)
    clock: Any  # (1,): rows so far


@summing
def refitted(rows, memory, way, rule):
    """Learn the weights of the features in the tables; returns the row that is not finite, or the number of rows.

    A row of weight 0 is passed over, and takes no time on the clock.
    """
    n_tables, _, V = memory.weights.shape
    C, n, most = len(memory.bias), len(rows.indptr) - 1, longest(rows.indptr)
    at, values = np.empty((most * n_tables, 2), np.int64), np.empty(most * n_tables, np.float32)
    z, g = np.empty(C, np.float32), np.empty(C, np.float32)
    per, rate, b = np.float32(rule.per_sighting), np.float32(rule.rate), np.float32(rule.bias_value)
    for r in range(n):
        weight, known, square = weight_of(rows, r), 0, _NIL
        for c in range(C):
            z[c] = memory.bias[c] * b
        reach = b * slower(b, memory.bias_sum[0], per)
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            v, h = rows.values[e], mixed(rows.ids[e])
            square += v * v
            for t in range(n_tables):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), h)
                if slot >= 0:
                    at[known, 0], at[known, 1], values[known] = t, slot, v
                    known += 1
                    reach += v * slower(v, memory.sums[t, slot], per)
                    for c in range(V):
                        z[t * V + c] += memory.weights[t, slot, c] * v
        if not is_finite(square):
            return r
        if weight == 0:
            continue
        judge(rule, z, rows.y[r], weight, reach, g, memory.tally)
        gg, time = squared_norm(g) * np.float32(rule.stands_for), way.clock[0]
        memory.bias_sum[0] += b * b * gg
        step = rate * slower(b, memory.bias_sum[0], per)
        for c in range(C):
            memory.bias[c] += step * g[c]
            way.bias_drift[c] += time * step * g[c]
        for q in range(known):
            t, slot, v = at[q, 0], at[q, 1], values[q]
            memory.sums[t, slot] += v * v * gg
            step = rate * slower(v, memory.sums[t, slot], per)
            for c in range(V):
                memory.weights[t, slot, c] += step * g[t * V + c]
                way.drift[t, slot, c] += time * step * g[t * V + c]
        way.clock[0] += 1
    memory.tally[ROWS] += n
    return n


@kernel
def only_known(rows, keys):
    """The entries of rows whose feature is in one of the tables `keys`: as indptr, ids and values."""
    n = len(rows.indptr) - 1
    indptr, ids, values = np.zeros(n + 1, np.int64), np.empty_like(rows.ids), np.empty_like(rows.values)
    count = 0
    for r in range(n):
        for e in range(rows.indptr[r], rows.indptr[r + 1]):
            h = mixed(rows.ids[e])
            for t in range(len(keys)):
                if find(keys[t], rows.ids[e] + np.uint64(1), h) >= 0:
                    ids[count], values[count] = rows.ids[e], rows.values[e]
                    count += 1
                    break
        indptr[r + 1] = count
    return indptr, ids[:count].copy(), values[:count].copy()
