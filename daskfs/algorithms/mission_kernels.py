"""Kernels of MISSION: rows stream by, weights live in a table and a sketch.

Two ways to keep a weight, each as a fast kernel for one score per row and depth 3, and as a general one for any
number of classes, tables and rows of the sketch:

* `sketched`: all weights are in the sketch, the table only remembers who is large ("paper", "hashing");
* `active`: weights of features in the table are exact and out of the sketch, which keeps the others ("active").

`thresholded` has no sketch at all ("iht", "batch-iht"). Every kernel stops before a row with a value that is not
finite, and says which; a row is scored before it is learned, and those losses are added up.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import implicit_pull, pull, value
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
from daskfs.algorithms.sketch_kernels import (
    add,
    cells_of_three,
    find,
    locate,
    median_of_three,
    mixed,
    new_place,
    norm,
    read,
    sign,
    tail_cell,
)
from daskfs.jit import helper, summing, summing_helper

_ONE, _NIL = np.float32(1), np.float32(0)
_MARKS = 8  # for every slot of a table
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


@helper
def longest(indptr):
    most = 0
    for r in range(len(indptr) - 1):
        most = max(most, indptr[r + 1] - indptr[r])
    return most


@helper
def step_of_one(rule, z, y, reach, weight):
    """The rate times the pull on a score, where the pull is that after the step, which cannot overshoot."""
    return implicit_pull(rule.loss, z, y, rule.rate * weight * reach) * weight


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
        g = np.float32(rule.rate * weight * pull(rule.loss, z, rows.y[r]))
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


@helper
def mark_all(keys, marked, shift):
    """Mark where hashes of the table's features lie: most of the others are told from them by a look at one byte."""
    for at in range(len(marked)):
        marked[at] = 0
    for slot in range(len(keys)):
        if keys[slot] != 0:
            marked[mixed(keys[slot] - np.uint64(1)) >> shift] = 1


@summing
def active_one(rows, memory, rule):
    """Learn rows, one score each, depth 3; returns the row that is not finite, or the number of rows.

    What is looked up at random and what is computed go by turns, in loops of their own: those fill vector registers.
    """
    sketch, tail, bits = memory.sketch, memory.tail, rule.bits
    keys, weights, sums, gauge = memory.keys[0], memory.weights[0], memory.sums[0], memory.gauge[0]
    n, most = len(rows.indptr) - 1, longest(rows.indptr)
    slots, outside, large = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    inner, outer = np.empty(most, np.float32), np.empty(most, np.float32)  # values of features in the table, and others
    total, steps, hashes = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.uint64)
    first, second, third = np.empty(most, np.uint32), np.empty(most, np.uint32), np.empty(most, np.uint32)
    s0, s1, s2 = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    every, maybe = np.empty(most, np.uint64), np.empty(most, np.int32)
    per, b = np.float32(rule.per_sighting), np.float32(rule.bias_value)
    marked, shift = np.empty(_MARKS * len(keys), np.uint8), np.uint64(64)
    while (1 << (64 - np.int64(shift))) < len(marked):
        shift -= np.uint64(1)
    mark_all(keys, marked, shift)
    for r in range(n):
        a, size = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r]
        square = _NIL
        for q in range(size):
            every[q] = mixed(rows.ids[a + q])
            square += rows.values[a + q] * rows.values[a + q]
        if not is_finite(square):
            return r
        n_in = n_out = n_maybe = np.int64(0)
        for q in range(size):
            # Written to both lists and counted in one: a branch would often be guessed wrong.
            is_maybe = np.int64(marked[every[q] >> shift])
            maybe[n_maybe], outside[n_out] = q, q
            n_maybe += is_maybe
            n_out += 1 - is_maybe
        for u in range(n_maybe):
            q = maybe[u]
            slot = find(keys, rows.ids[a + q] + np.uint64(1), every[q])
            slots[n_in], inner[n_in], outside[n_out] = slot, rows.values[a + q], q
            n_in += slot >= 0
            n_out += slot < 0
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
            large[n_large] = q
            n_large += abs(median_of_three(x0, x1, x2)) > least
        for u in range(n_large):
            count, h = gauge[COUNT], hashes[large[u]]
            take_over(rows, a + outside[large[u]], h, memory, rule, 0)
            if gauge[COUNT] > count:
                marked[h >> shift] = 1
            elif gauge[COUNT] < count:
                mark_all(keys, marked, shift)
    memory.tally[ROWS] += n
    return n


# ---------------------------------------------------------------------------- any number of classes, tables and depths


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
