"""The fast kernels of MISSION: one score a row, and a sketch of depth 3.

There are two ways to keep a weight:

* `sketched_three`: all weights are in the sketch, the table only remembers who is large ("paper");
* `active_one`: weights of features in the table are exact and out of the sketch, which keeps the others ("active").

`mission_general_kernels` has both for any number of classes, tables and rows of the sketch. Every kernel stops before
a row with a value that is not finite, and says which; a row is scored before it is learned, and those losses add up.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import implicit_residual, residual, value
from daskfs.algorithms.mission.marks_kernels import admit, new_marks, new_split, split_row
from daskfs.algorithms.mission.memory_kernels import LEAST, LOSS, ROWS, WEIGHT, remember
from daskfs.algorithms.mission.sketch_kernels import cells_of_three, find, median_of_three, mixed, sign, tail_cell
from daskfs.jit import helper, summing, summing_helper

_ONE, _NIL = np.float32(1), np.float32(0)
_LARGEST = np.finfo(np.float32).max


@helper
def is_finite(x):
    return abs(x) <= _LARGEST


@helper
def weight_of(rows, r):
    return _ONE if len(rows.weight) == 0 else rows.weight[r]


@helper
def slower(v, total, per_sighting):
    """A value, made smaller the more has been learned of its feature."""
    return v / np.float32(math.sqrt(_ONE + total * np.float32(per_sighting)))


@summing_helper
def hash_row(ids, values, first, size, hashes):
    """Hash the features of a row; returns the sum of its values' squares, which is finite if they are."""
    own, v, square = ids[first : first + size], values[first : first + size], _NIL  # slices: loops fill registers
    for q in range(size):
        hashes[q] = mixed(own[q])
        square += v[q] * v[q]
    return square


@helper
def longest(indptr):
    most = 0
    for r in range(len(indptr) - 1):
        most = max(most, indptr[r + 1] - indptr[r])
    return most


@helper
def step_of_one(rule, z, y, reach, weight):
    """The rate times the pull on a score, where the pull is that after the step, which cannot overshoot."""
    return implicit_residual(rule.loss, z, y, rule.rate * weight * reach) * weight


# -------------------------------------------------------------------------------------------------- all in the sketch


@summing
def sketched_three(rows, memory, rule):
    """Learn rows, one score each, depth 3; returns the row that is not finite, or the number of rows."""
    sketch, keys, gauge, bits = memory.sketch, memory.keys[0], memory.gauge[0], rule.bits
    n, most = len(rows.indptr) - 1, longest(rows.indptr)
    first, second, third = np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(most, np.uint32)
    s0, s1, s2 = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    known, steps = np.empty(most, np.float32), np.empty(most, np.float32)
    least = np.float32(gauge[LEAST])
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        square = _NIL
        for q in range(size):
            i, j, k, s = cells_of_three(mixed(rows.ids[a + q]), bits)
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
            z += (w if abs(w) >= least else _NIL) * rows.values[a + q]
        weight = weight_of(rows, r)
        memory.tally[LOSS] += weight * value(rule.loss, z, rows.y[r])
        memory.tally[WEIGHT] += weight
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
            if abs(known[q] + steps[q]) >= least and find(keys, rows.ids[e] + np.uint64(1), mixed(rows.ids[e])) < 0:
                remember(rows, e, memory, rule, 0)
                least = np.float32(gauge[LEAST])
    memory.tally[ROWS] += n
    return n


# ------------------------------------------------------------------------------------------ exact weights in the table


@summing
def active_one(rows, memory, rule):
    """Learn rows, one score each, depth 3; returns the row that is not finite, or the number of rows.

    What is looked up at random and what is computed go by turns, in loops of their own: those fill vector registers.
    """
    sketch, tail, bits = memory.sketch, memory.tail, rule.bits
    weights, sums, gauge = memory.weights[0], memory.sums[0], memory.gauge[0]
    n, most = len(rows.indptr) - 1, longest(rows.indptr)
    marks, split, large = new_marks(memory.keys), new_split(1, most), np.empty(most, np.int32)
    inside, slots, outside = split.inside[0], split.slots[0], split.outside[0]
    inner, outer = np.empty(most, np.float32), np.empty(most, np.float32)  # values of features in the table, and others
    total, steps = np.empty(most, np.float32), np.empty(most, np.float32)
    every, hashes = np.empty(most, np.uint64), np.empty(most, np.uint64)  # of all, and of those outside the table
    first, second, third = np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(most, np.uint32)
    s0, s1, s2 = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    per, b = np.float32(rule.per_sighting), np.float32(rule.bias_value)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        if not is_finite(hash_row(rows.ids, rows.values, a, size, every)):
            return r
        n_in, n_out = split_row(memory.keys, marks, 0, rows.ids, every, a, size, split)
        for q in range(n_in):
            inner[q] = rows.values[a + inside[q]]
        for q in range(n_out):
            hashes[q], outer[q] = every[outside[q]], rows.values[a + outside[q]]
        z = np.float32(memory.bias[0] * b)
        for q in range(n_in):
            total[q] = sums[slots[q]]
            z += weights[slots[q], 0] * inner[q]
        reach = b * slower(b, memory.bias_sum[0], per)
        for q in range(n_in):
            reach += inner[q] * slower(inner[q], total[q], per)
        weight, y = weight_of(rows, r), rows.y[r]
        memory.tally[LOSS] += weight * value(rule.loss, z, y)
        memory.tally[WEIGHT] += weight
        e = np.float32(step_of_one(rule, z, y, reach, weight))
        g, ee = np.float32(rule.rate * e), e * e * np.float32(rule.stands_for)
        if b != 0:
            memory.bias_sum[0] += b * b * ee
            memory.bias[0] += g * slower(b, memory.bias_sum[0], per)
        for q in range(n_in):
            total[q] += inner[q] * inner[q] * ee
            steps[q] = g * slower(inner[q], total[q], per)
        for q in range(n_in):
            sums[slots[q]] += inner[q] * inner[q] * ee
            weights[slots[q], 0] += steps[q]
        for q in range(n_out):
            cell = tail_cell(hashes[q], bits)
            total[q] = tail[cell] + outer[q] * outer[q] * ee
            tail[cell] = total[q]
        for q in range(n_out):
            steps[q] = g * slower(outer[q], total[q], per)
            first[q], second[q], third[q], s = cells_of_three(hashes[q], bits)
            s0[q], s1[q], s2[q] = sign(s, 0), sign(s, 1), sign(s, 2)
        n_large = 0
        least = np.float32(gauge[LEAST])
        for q in range(n_out):
            i, j, k, d = np.uint64(first[q]), np.uint64(second[q]), np.uint64(third[q]), steps[q]
            # What the feature's own sign makes of its cells; the step is the same for all three then.
            x0, x1, x2 = s0[q] * sketch[i] + d, s1[q] * sketch[j] + d, s2[q] * sketch[k] + d
            sketch[i], sketch[j], sketch[k] = s0[q] * x0, s1[q] * x1, s2[q] * x2
            large[n_large] = outside[q]
            n_large += abs(median_of_three(x0, x1, x2)) > least
        if n_large:
            admit(rows, a, large, n_large, every, memory, rule, 0, marks)
    memory.tally[ROWS] += n
    return n
