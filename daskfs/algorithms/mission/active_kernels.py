"""The kernels of method "active": exact weights in the tables, and the weights of all other features in cells.

`learn_active` is for models with one score, `learn_active_classes` for models with one score per class. For every row
they add the loss to a total, and then take a step of gradient descent. They stop before a row with a value that is not
finite, and return the number of rows learned.

Several rows are hashed at once, so that the cells of the next row can be prefetched while a row is learned.

Random access to memory and arithmetic are in separate loops, so that the loops of arithmetic use vector instructions.
In numba the sum of two 32-bit numbers has 64 bits, which would halve the speed: hence the many casts.
"""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.loss_kernels import value_and_implicit_residual
from daskfs.algorithms.mission.cell_kernels import (
    bits_of,
    cell_of,
    float_of,
    is_marked,
    mark_tables,
    short_hash,
    signed,
    slowness,
    sum_of,
    with_mark_of,
)
from daskfs.algorithms.mission.memory_kernels import LOSS, ROWS, SUM, THRESHOLD, UNIT, WEIGHT, enter_table, prune
from daskfs.algorithms.mission.row_kernels import (
    add_scores,
    add_weights,
    is_finite,
    learn_bias,
    longest,
    score_residual,
    weight_of,
)
from daskfs.algorithms.mission.sketch_kernels import prefetch_all, squared_norm
from daskfs.algorithms.mission.table_kernels import find
from daskfs.algorithms.mission.unit_kernels import bits_of_units
from daskfs.basis.prefetch_kernels import prefetch
from daskfs.jit import helper, summing, summing_helper

_ZERO = np.float32(0)
_NOT_SIGN = np.uint32(0x7FFFFFFF)
_AT_ONCE = 4096  # entries whose features are hashed at once, if they are whole rows
_AHEAD = 96  # entries by which cells are prefetched: about a row of words; 40 and 170 are slower by a few percent


@helper
def rows_within(indptr, first, room):
    """Return the end of the rows from row `first` on that have at most `room` entries, or of this row alone."""
    stop = first + 1
    while stop < len(indptr) - 1 and indptr[stop + 1] - indptr[first] <= room:
        stop += 1
    return stop


@summing_helper
def finite_rows(indptr, values, first, stop):
    """Return the first of the rows `first` … `stop` - 1 whose sum of squared values is not finite, or `stop`."""
    for r in range(first, stop):
        own, square = values[indptr[r] : indptr[r + 1]], _ZERO
        for q in range(len(own)):
            square += own[q] * own[q]
        if not is_finite(square):
            return r
    return stop


@summing_helper
def hash_rows(rows, first, unit_bits, hashes, v, slots):
    """Write the short hashes of features into `hashes`, and the values outside the tables into `v`.

    This is done for as many rows from row `first` on as fit into `hashes`. Return the first of them with a value that
    is not finite, or else the row after them. The array `slots` is working memory.
    """
    stop = rows_within(rows.indptr, first, len(hashes))
    a, b, square = rows.indptr[first], rows.indptr[stop], _ZERO
    own, inner, size = rows.ids[a:b], rows.values[a:b], b - a
    for q in range(size):
        hashes[q], v[q] = short_hash(own[q]), np.sign(inner[q])
        square += inner[q] * inner[q]
    if len(rows.outside):
        outer = rows.outside[a:b]
        for q in range(size):
            v[q] = outer[q]
    elif len(rows.units):
        for q in range(size):
            slots[q] = rows.units[cell_of(hashes[q], unit_bits)]
        for q in range(size):
            x = inner[q] * float_of(np.uint32(slots[q] >> np.uint64(32)))
            v[q] = x if np.uint32(slots[q]) == np.uint32(own[q]) and x != _ZERO else v[q]
    return stop if is_finite(square) else finite_rows(rows.indptr, rows.values, first, stop)


@helper
def larger(a, b):
    return a if a > b else b


@summing
def learn_active(rows, memory, rule):
    """Take a gradient step for every row, in a model with one score; return the number of rows learned."""
    # A cell is read as one number of 64 bits: the weight, and above it the sum.
    cells, pairs, keys, status = memory.cells, memory.cells.view(np.uint64), memory.keys[0], memory.status[0]
    weights, pace = memory.weights[0], memory.pace[0]
    n, most, bits = len(rows.indptr) - 1, longest(rows.indptr), rule.bits
    some_hashes, some_v = np.empty(max(most, _AT_ONCE), np.uint32), np.empty(max(most, _AT_ONCE), np.float32)
    of_units, unit_bits = np.empty(max(most, _AT_ONCE), np.uint64), bits_of_units(rows.units)
    w, total = np.empty(most, np.float32), np.empty(most, np.float32)
    w_bits, total_bits = w.view(np.uint32), total.view(np.uint32)
    maybe, slots = np.empty(most + 1, np.int32), np.empty(most, np.uint32)
    inner, steps = np.empty(most, np.float32), np.empty(most, np.float32)
    single, rate, decay, b = np.empty(1, np.float32), rule.rate, np.float32(rule.decay), np.float32(rule.bias_value)
    start = stop = np.int64(0)  # of the hashes: the first entry, and the row after the last
    for r in range(n):
        if r == stop:
            start, stop = rows.indptr[r], hash_rows(rows, r, unit_bits, some_hashes, some_v, of_units)
            if r == stop:
                return r
        a, size, weight = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r], weight_of(rows, r)
        own, last = a - start, rows.indptr[stop] - start - 1
        hashes, v = some_hashes[own : own + size], some_v[own : own + size]
        if weight == 0:
            continue
        n_maybe = n_in = np.int64(0)
        for q in range(size):
            prefetch(pairs, cell_of(some_hashes[min(own + q + _AHEAD, last)], bits))
            pair = pairs[cell_of(hashes[q], bits)]
            w_bits[q], total_bits[q], maybe[n_maybe] = np.uint32(pair), np.uint32(pair >> np.uint64(32)), q
            n_maybe += np.int64(pair >> np.uint64(63))  # the mark
        z, reach = np.float32(memory.bias[0] * b), b * b * slowness(memory.bias_sum[0], decay)
        for u in range(n_maybe):
            q = maybe[u]
            slot = find(keys, rows.ids[a + q] + np.uint64(1), np.uint64(hashes[q]) << np.uint64(32))
            if slot >= 0:
                x, v[q] = rows.values[a + q] * pace[slot, UNIT], _ZERO  # its cell stays as it is
                slots[n_in], inner[n_in] = slot, x
                z += weights[slot, 0] * x
                reach += x * x * slowness(pace[slot, SUM], decay)
                n_in += 1
        loss, residual = value_and_implicit_residual(rule.loss, z, rows.y[r], rate * weight * reach)
        memory.totals[LOSS] += weight * loss
        memory.totals[WEIGHT] += weight
        e = np.float32(weight * residual)
        g, ee = np.float32(rate * e), e * e * np.float32(rule.n_shards)
        memory.bias_sum[0] += b * b * ee
        memory.bias[0] += g * b * slowness(memory.bias_sum[0], decay)
        for i in range(n_in):
            slot, x = np.uint64(slots[i]), inner[i]
            new = pace[slot, SUM] + x * x * ee
            pace[slot, SUM] = new
            weights[slot, 0] += g * x * slowness(new, decay)
        largest = np.uint32(0)
        for q in range(size):
            x, before = v[q], total[q]
            more = x * x * ee
            step = signed(g * x * slowness(sum_of(before) + more, decay), hashes[q])
            w[q] += step
            steps[q], total[q] = step, with_mark_of(more, before)
            largest = larger(largest, np.uint32(bits_of(w[q]) & _NOT_SIGN))
        for q in range(size):
            at = cell_of(hashes[q], bits) << np.uint64(1)
            cells[at] += steps[q]
            cells[at + np.uint64(1)] += total[q]
        if float_of(largest) > np.float32(status[THRESHOLD]):
            for q in range(size):
                is_large = abs(w[q]) > status[THRESHOLD] and v[q] != 0
                if is_large and enter_table(rows, a + q, hashes[q], v[q], memory, rule, 0, single):
                    prune(memory, rule, 0)
    memory.totals[ROWS] += n
    return n


@summing_helper
def step_in_cell(cells, base, h, g, step):
    """Add `step` times the residuals g to the weights of a feature's cell; return the squared norm of the weights."""
    own, total, step = cells[base : base + len(g)], _ZERO, signed(step, h)
    for c in range(len(g)):
        own[c] += step * g[c]
        total += own[c] * own[c]
    return total


@helper
def is_above(cells, base, status):
    """Return whether a weight of a cell is above the threshold of its class."""
    for c in range(len(status)):
        if abs(cells[base + c]) > status[c, THRESHOLD]:
            return True
    return False


@summing
def learn_active_classes(rows, memory, rule):
    """Take a gradient step for every row, in a model with C scores; return the number of rows learned.

    There is one table with the exact weights of all classes, or one table for each class.
    """
    cells, keys, status, C = memory.cells, memory.keys, memory.status, len(memory.bias)
    n_tables = len(keys)
    n, most, bits = len(rows.indptr) - 1, longest(rows.indptr), rule.bits
    some_hashes, some_v = np.empty(max(most, _AT_ONCE), np.uint32), np.empty(max(most, _AT_ONCE), np.float32)
    of_units, unit_bits = np.empty(max(most, _AT_ONCE), np.uint64), bits_of_units(rows.units)
    bases, n_tables_of, some = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(most + 1, np.int32)
    total, steps = np.empty(most, np.float32), np.empty(most, np.float32)
    # Entries inside a table: their number in the row, the table and the slot; the value, and the weight in the cell.
    inside, inner = np.empty((most * n_tables, 3), np.int64), np.empty((most * n_tables, 2), np.float32)
    z, g, vector = np.empty(C, np.float32), np.empty(C, np.float32), np.empty(memory.weights.shape[2], np.float32)
    rate, decay, b = np.float32(rule.rate), np.float32(rule.decay), np.float32(rule.bias_value)
    if n_tables > 1:
        mark_tables(cells, keys, bits, C)
    start = stop = np.int64(0)  # of the hashes: the first entry, and the row after the last
    for r in range(n):
        if r == stop:
            start, stop = rows.indptr[r], hash_rows(rows, r, unit_bits, some_hashes, some_v, of_units)
            if r == stop:
                return r
        a, size, weight = rows.indptr[r], rows.indptr[r + 1] - rows.indptr[r], weight_of(rows, r)
        own, last = a - start, rows.indptr[stop] - start - 1
        hashes, v = some_hashes[own : own + size], some_v[own : own + size]
        if weight == 0:
            continue
        for c in range(C):
            z[c] = memory.bias[c] * b
        n_maybe = n_in = n_out = n_large = 0
        for q in range(size):
            bases[q], n_tables_of[q] = np.int64(cell_of(hashes[q], bits)) * (C + 1), 0
        for q in range(size):
            ahead = np.int64(cell_of(some_hashes[min(own + q + _AHEAD, last)], bits)) * (C + 1)
            prefetch_all(cells, ahead, C + 1)
            some[n_maybe] = q
            n_maybe += is_marked(cells[bases[q] + C])
        for u in range(n_maybe):
            q = some[u]
            for t in range(n_tables):
                slot = find(keys[t], rows.ids[a + q] + np.uint64(1), np.uint64(hashes[q]) << np.uint64(32))
                if slot >= 0:
                    inner[n_in, 0] = rows.values[a + q] * memory.pace[t, slot, UNIT]
                    inside[n_in, 0], inside[n_in, 1], inside[n_in, 2] = q, t, slot
                    add_scores(z, memory.weights, t, slot, inner[n_in, 0])
                    n_tables_of[q] += 1
                    n_in += 1
        score_residual(rule, z, rows.y[r], weight, _ZERO, g, memory.totals)
        gg = squared_norm(g) * np.float32(rule.n_shards)
        learn_bias(memory, rule, g, gg)
        for i in range(n_in):
            q, t, slot, x = inside[i, 0], inside[i, 1], inside[i, 2], inner[i, 0]
            memory.pace[t, slot, SUM] += x * x * gg
            add_weights(memory.weights, t, slot, g, rate * x * slowness(memory.pace[t, slot, SUM], decay))
            inner[i, 1] = cells[bases[q] + t]
        for q in range(size):  # those that a table lacks
            some[n_out] = q
            n_out += n_tables_of[q] < n_tables
        for u in range(n_out):
            q, at = some[u], bases[some[u]] + C
            total[u], steps[u] = sum_of(cells[at]) + v[q] * v[q] * gg, v[q]
            cells[at] = with_mark_of(total[u], cells[at])
        for u in range(n_out):
            steps[u] = rate * steps[u] * slowness(total[u], decay)
        for u in range(n_out):
            q = some[u]
            square = step_in_cell(cells, bases[q], hashes[q], g, steps[u])
            some[n_large] = q
            n_large += is_above(cells, bases[q], status) if n_tables > 1 else square > status[0, THRESHOLD] ** 2
        for i in range(n_in if n_tables > 1 else 0):  # the weights of classes whose table has the feature
            cells[bases[inside[i, 0]] + inside[i, 1]] = inner[i, 1]
        for u in range(n_large):
            for t in range(n_tables):
                if enter_table(rows, a + some[u], hashes[some[u]], v[some[u]], memory, rule, t, vector):
                    prune(memory, rule, t)
    memory.totals[ROWS] += n
    return n
