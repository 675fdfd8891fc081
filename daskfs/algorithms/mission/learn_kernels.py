"""The fast kernels of MISSION, for one score a row and a sketch of depth 3.

There are two ways to store weights:

* `learn_sketch_fast`: all weights are in the sketch, and the table only lists the large features ("paper").
* `learn_active_fast`: weights of features in the table are exact and not in the sketch, which holds all others
  ("active").

`general_kernels` has forms of these kernels for any number of classes, tables and sketch rows. Every kernel adds up the
losses of rows before the rows are learned, and returns the number of rows before a value that is not finite.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import implicit_residual, residual, value
from daskfs.algorithms.mission.memory_kernels import LOSS, ROWS, SUM, THRESHOLD, UNIT, WEIGHT, admit, remember
from daskfs.algorithms.mission.sketch_kernels import cells_of_three, median_of_three, sign, tail_cell
from daskfs.algorithms.mission.table_kernels import find, mix, new_filter, new_split, split_row
from daskfs.jit import helper, summing, summing_helper

_ONE, _ZERO = np.float32(1), np.float32(0)
_LARGEST = np.finfo(np.float32).max


@helper
def is_finite(x):
    return abs(x) <= _LARGEST


@helper
def weight_of(rows, r):
    return _ONE if len(rows.weight) == 0 else rows.weight[r]


@helper
def damp(v, total, decay):
    """Return value v divided by AdaGrad's factor √(1 + N/β), where N is `total` and 1/β is `decay`."""
    return v / np.float32(math.sqrt(_ONE + total * np.float32(decay)))


@summing_helper
def hash_row(ids, values, first, size, hashes):
    """Write the hashes of a row's features; return the sum of squared values, finite if all values are finite."""
    own, v, square = ids[first : first + size], values[first : first + size], _ZERO  # slices: loops fill registers
    for q in range(size):
        hashes[q] = mix(own[q])
        square += v[q] * v[q]
    return square


@helper
def longest(indptr):
    """Return the number of entries of the longest row."""
    most = 0
    for r in range(len(indptr) - 1):
        most = max(most, indptr[r + 1] - indptr[r])
    return most


@helper
def implicit_step(rule, z, y, reach, weight):
    """Return weight × the residual of a score after the step (an implicit step, which cannot overshoot).

    The argument `reach` is the change of the score for a residual and a learning rate of one.
    """
    return implicit_residual(rule.loss, z, y, rule.rate * weight * reach) * weight


# -------------------------------------------------------------------------------------------------- all in the sketch


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


# ------------------------------------------------------------------------------------------ exact weights in the table


@summing
def learn_active_fast(rows, memory, rule):
    """Learn rows with exact weights in the table, one score for each row, depth 3; return the number of rows learned.

    Random reads and arithmetic are in separate loops, so that the loops of arithmetic fill vector registers.
    """
    sketch, tail, bits = memory.sketch, memory.tail, rule.bits
    weights, pace, status = memory.weights[0], memory.pace[0], memory.status[0]
    n, most = len(rows.indptr) - 1, longest(rows.indptr)
    bloom, split, large = new_filter(memory.keys), new_split(1, most), np.empty(most, np.int32)
    inside, slots, outside = split.inside[0], split.slots[0], split.outside[0]
    inner, outer = (
        np.empty(most, np.float32),
        np.empty(most, np.float32),
    )  # values inside and outside the table
    total, steps = np.empty(most, np.float32), np.empty(most, np.float32)
    every, hashes = (
        np.empty(most, np.uint64),
        np.empty(most, np.uint64),
    )  # of all features, and of those outside
    first, second, third = np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(most, np.uint32)
    s0, s1, s2 = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    decay, b = np.float32(rule.decay), np.float32(rule.bias_value)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        if not is_finite(hash_row(rows.ids, rows.values, a, size, every)):
            return r
        n_in, n_out = split_row(memory.keys, bloom, 0, rows.ids, every, a, size, split)
        for q in range(n_in):
            inner[q] = rows.values[a + inside[q]] * pace[slots[q], UNIT]
        for q in range(n_out):
            hashes[q], outer[q] = every[outside[q]], rows.outside[a + outside[q]]
        z = np.float32(memory.bias[0] * b)
        for q in range(n_in):
            total[q] = pace[slots[q], SUM]
            z += weights[slots[q], 0] * inner[q]
        reach = b * damp(b, memory.bias_sum[0], decay)
        for q in range(n_in):
            reach += inner[q] * damp(inner[q], total[q], decay)
        weight, y = weight_of(rows, r), rows.y[r]
        memory.totals[LOSS] += weight * value(rule.loss, z, y)
        memory.totals[WEIGHT] += weight
        e = np.float32(implicit_step(rule, z, y, reach, weight))
        g, ee = np.float32(rule.rate * e), e * e * np.float32(rule.n_shards)
        if b != 0:
            memory.bias_sum[0] += b * b * ee
            memory.bias[0] += g * damp(b, memory.bias_sum[0], decay)
        for q in range(n_in):
            total[q] += inner[q] * inner[q] * ee
            steps[q] = g * damp(inner[q], total[q], decay)
        for q in range(n_in):
            pace[slots[q], SUM] += inner[q] * inner[q] * ee
            weights[slots[q], 0] += steps[q]
        for q in range(n_out):
            cell = tail_cell(hashes[q], bits)
            total[q] = tail[cell] + outer[q] * outer[q] * ee
            tail[cell] = total[q]
        for q in range(n_out):
            steps[q] = g * damp(outer[q], total[q], decay)
            first[q], second[q], third[q], s = cells_of_three(hashes[q], bits)
            s0[q], s1[q], s2[q] = sign(s, 0), sign(s, 1), sign(s, 2)
        n_large = 0
        least = np.float32(status[THRESHOLD])
        for q in range(n_out):
            i, j, k, d = np.uint64(first[q]), np.uint64(second[q]), np.uint64(third[q]), steps[q]
            # Sign times cell is the weight that a row of the sketch holds: the step is the same for all three.
            x0, x1, x2 = s0[q] * sketch[i] + d, s1[q] * sketch[j] + d, s2[q] * sketch[k] + d
            sketch[i], sketch[j], sketch[k] = s0[q] * x0, s1[q] * x1, s2[q] * x2
            large[n_large] = outside[q]
            n_large += abs(median_of_three(x0, x1, x2)) > least
        if n_large:
            admit(rows, a, large, n_large, every, memory, rule, 0, bloom)
    memory.totals[ROWS] += n
    return n
