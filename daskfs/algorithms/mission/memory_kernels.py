"""The weights that MISSION learns: a sketch of all weights, tables of the largest, and kernels that move weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.cell_kernels import mark, put_into_cell, read_cell, short_hash, take_from_cell
from daskfs.algorithms.mission.sketch_kernels import add, locate, new_place, norm, read
from daskfs.algorithms.mission.table_kernels import find, mix
from daskfs.jit import helper, inlined, kernel

COUNT, THRESHOLD = 0, 1  # in `Memory.status`: features in the table; a feature enters if its norm is above this
SUM, UNIT = 0, 1  # in `Memory.pace`
LOSS, WEIGHT, ROWS, TARGETS = 0, 1, 2, 3  # in `Memory.totals`: losses before learning, weights and number of rows
_ONE, _ZERO = np.float32(1), np.float32(0)
_ALL_SHARDS = np.float32(0.9999)  # shares add up to one, up to rounding


NO_UNITS = np.empty(0, np.uint64)
NO_UNITS.flags.writeable = False


class SparseRows(NamedTuple):
    """Rows to learn from, in CSR form."""

    indptr: NDArray[np.int64]
    ids: NDArray[np.uint64]
    values: NDArray[np.float32]
    outside: NDArray[np.float32]
    """(entries,): the values of features while in no table; empty where these follow from `values` and `units`."""
    pairs: NDArray[np.uint64]
    """(entries, 2): the parents of every interaction; (0, 2) without interactions."""
    y: NDArray[np.float64]
    """(rows,): the target as the losses take it, or the class number."""
    weight: NDArray[np.float32]
    """(rows,): weights of rows, or empty where all rows have weight 1."""
    units: NDArray[np.uint64] = NO_UNITS
    """The slots of `unit_kernels`; empty where values count by their sign."""


class Memory(NamedTuple):
    """Learned arrays: a sketch, and T tables of V class weights a feature (for C classes, T, V = 1, C or C, 1)."""

    sketch: NDArray[np.float32]
    """depth × 2^bits × C numbers, flat; for "batch-iht" (T, capacity, V), flat: pending gradients."""
    cells: NDArray[np.float32]
    """2^bits × (C + 1) numbers, flat, for method "active", which has no other sketch: see `cell_kernels`."""
    keys: NDArray[np.uint64]  # (T, capacity)
    weights: NDArray[np.float32]  # (T, capacity, V)
    pace: NDArray[np.float32]
    """(T, capacity, 2): SUM, the sum of squared gradients, as in AdaGrad, and UNIT, by which values are multiplied."""
    parents: NDArray[np.uint64]
    """(T, capacity, 2): ids of the parents of pairs, or (T, 0, 2) without interactions."""
    kept: NDArray[np.uint64]  # ascending keys of the features to keep, which pruning leaves in all tables
    status: NDArray[np.float64]  # (T, 2): COUNT, THRESHOLD
    bias: NDArray[np.float32]
    """(C,): weights of the constant feature, whose value is `Rule.bias_value`."""
    bias_sum: NDArray[np.float32]  # (1,)
    totals: NDArray[np.float64]  # (6,): LOSS, WEIGHT, ROWS, and `calibration.target_sums` from TARGETS on


class Rule(NamedTuple):
    """Parameters by which kernels learn: loss, learning rate, and sizes of sketch and tables."""

    loss: int  # a code of `losses.CODE`; with several classes the loss is softmax
    rate: float
    decay: float  # 1/β in the factor 1/√(1 + N/β) of a step; 0 for plain steps
    n_shards: float  # shards that learn side by side: a row stands for this many
    bias_value: float  # 0 without an intercept
    bits: int
    depth: int
    n_select: int  # features that pruning leaves in each table, beside those to keep
    room: int  # features at which a table is pruned
    scores_all: bool  # whether features outside the tables count in a score, too


@kernel
def remember(rows, e, memory, rule, t):
    """Put the feature of entry `e`, which table t lacks, into table t, and leave its weight in the sketch."""
    keys, key = memory.keys[t], rows.ids[e] + np.uint64(1)
    slot = -1 - find(keys, key, mix(rows.ids[e]))
    keys[slot], memory.pace[t, slot, UNIT] = key, _ONE
    if len(rows.pairs):
        copy_row(rows.pairs[e], memory.parents[t, slot])
    memory.status[t, COUNT] += 1
    if memory.status[t, COUNT] >= rule.room:
        read_weights(memory, rule, t)
        prune(memory, rule, t)


@kernel
def read_weights(memory, rule, t):
    """Set the weights in table t to the estimates of the sketch."""
    place, C, V = new_place(), len(memory.bias), memory.weights.shape[2]
    for slot in range(memory.keys.shape[1]):
        if memory.keys[t, slot] != 0:
            locate(mix(memory.keys[t, slot] - np.uint64(1)), rule.bits, rule.depth, C, place)
            read(memory.sketch, place, rule.depth, t * V, memory.weights[t, slot])


@kernel
def prune(memory, rule, t):
    """Keep the features with the largest weights in table t, and move the weights of others to their cells, if any."""
    n, slots, V = np.int64(memory.status[t, COUNT]), memory.keys.shape[1], memory.weights.shape[2]
    has_pairs = memory.parents.shape[1] > 0
    keys, weights, pace = np.empty(n, np.uint64), np.empty((n, V), np.float32), np.empty((n, 2), np.float32)
    parents = np.empty((n if has_pairs else 0, 2), np.uint64)
    q = 0
    for slot in range(slots):
        if memory.keys[t, slot] != 0:
            keys[q] = memory.keys[t, slot]
            copy_row(memory.pace[t, slot], pace[q])
            copy_row(memory.weights[t, slot], weights[q])
            if has_pairs:
                copy_row(memory.parents[t, slot], parents[q])
            q += 1
    keep_largest(keys, weights, pace, parents, memory, rule, t)


@helper
def copy_row(source, target):
    for c in range(len(source)):
        target[c] = source[c]


@helper
def nth(values, n):
    """Return the n-th smallest value, counted from 0, and reorder the array (numpy's partition compiles slowly)."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot, i, j = values[(low + high) >> 1], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return values[n]


@helper
def is_in(key, ascending):
    """Return whether a key is among ascending keys."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < len(ascending) and ascending[low] == key


@kernel
def keep_largest(keys, weights, pace, parents, memory, rule, t):
    """Fill table t with the largest entries, of equals the smaller keys; move weights of others to their cells, if any.

    Features to keep count as the largest of all. Marks of cells follow. With several tables, cells keep their marks,
    since other tables may have features in the same cells.
    """
    n, keep, C, has_cells = len(keys), rule.n_select + len(memory.kept), len(memory.bias), len(memory.cells) > 0
    size, least, last = np.empty(n, np.float32), np.float32(-1), np.uint64(0)
    for q in range(n):
        size[q] = norm(weights[q])
        # Steps at too large a rate lead to NaN, of which `end_pass` raises an error.
        if not size[q] >= 0 or is_in(keys[q], memory.kept):
            size[q] = np.inf
    if n > keep:
        least = nth(size.copy(), n - keep)
        equals, n_equal, n_larger = np.empty(n, np.uint64), 0, 0
        for q in range(n):
            n_larger += size[q] > least
            if size[q] == least:
                equals[n_equal] = keys[q]
                n_equal += 1
        last = nth(equals[:n_equal], keep - n_larger - 1)
        memory.status[t, THRESHOLD] = least
    for slot in range(memory.keys.shape[1]):
        if memory.keys[t, slot] != 0 and has_cells and len(memory.keys) == 1:
            mark(memory.cells, memory.keys[t, slot], rule.bits, C, False)
        memory.keys[t, slot] = 0
    for q in range(n):
        h = mix(keys[q] - np.uint64(1))
        if size[q] > least or (size[q] == least and keys[q] <= last):
            slot = -1 - find(memory.keys[t], keys[q], h)
            memory.keys[t, slot] = keys[q]
            copy_row(pace[q], memory.pace[t, slot])
            copy_row(weights[q], memory.weights[t, slot])
            if len(parents):
                copy_row(parents[q], memory.parents[t, slot])
            if has_cells:
                mark(memory.cells, keys[q], rule.bits, C, True)
        elif has_cells:
            put_into_cell(
                memory.cells,
                short_hash(keys[q] - np.uint64(1)),
                rule.bits,
                C,
                t * weights.shape[1],
                weights[q],
                pace[q, SUM],
            )
    memory.status[t, COUNT] = min(n, keep)


@inlined
def enter_table(rows, e, h, x, memory, rule, t, vector):
    """Move the weight of entry e's feature, which has short hash h, from its cell into table t if it is large enough.

    The norm of the weight must be above the table's threshold. Return whether the table is full and must be pruned.
    Outside the tables the entry has value x. The array `vector` is working memory for the weights of a feature.
    """
    C, V = len(memory.bias), len(vector)
    read_cell(memory.cells, h, rule.bits, C, t * V, vector)
    if norm(vector) <= memory.status[t, THRESHOLD] or rows.values[e] == 0:  # zero has no unit
        return False
    slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mix(rows.ids[e]))
    if slot >= 0:
        return False
    slot = -1 - slot
    memory.keys[t, slot] = rows.ids[e] + np.uint64(1)
    copy_row(vector, memory.weights[t, slot])
    memory.pace[t, slot, SUM] = take_from_cell(memory.cells, h, rule.bits, C, t * V, V)
    memory.pace[t, slot, UNIT] = x / rows.values[e]
    if len(rows.pairs):
        copy_row(rows.pairs[e], memory.parents[t, slot])
    memory.status[t, COUNT] += 1
    return memory.status[t, COUNT] >= rule.room


@kernel
def apply_gradients(memory, rule, t):
    """Add the pending gradients to the weights of table t, for method "batch-iht", and keep the largest."""
    capacity, V = memory.keys.shape[1], memory.weights.shape[2]
    for slot in range(capacity):
        base = (t * capacity + slot) * V
        for c in range(V):
            if memory.keys[t, slot] != 0:
                memory.weights[t, slot, c] += memory.sketch[base + c]
            memory.sketch[base + c] = 0
    prune(memory, rule, t)


@kernel
def fade(memory, rule, factor):
    """Multiply the sketch by the paper's γ for features outside the tables, against the noise of early steps.

    A sketch holds the tables' features, too, and their decrease is added back.
    """
    for t in range(memory.keys.shape[0]):
        read_weights(memory, rule, t)
    for at in range(len(memory.sketch)):
        memory.sketch[at] *= factor
    add_weights_to_sketch(memory, rule, _ONE - factor)


@kernel
def add_weights_to_sketch(memory, rule, factor):
    """Add `factor` times the weights of every feature in a table to the sketch."""
    place, C, (n_tables, slots, V) = new_place(), len(memory.bias), memory.weights.shape
    for t in range(n_tables):
        for slot in range(slots):
            if memory.keys[t, slot] != 0:
                locate(mix(memory.keys[t, slot] - np.uint64(1)), rule.bits, rule.depth, C, place)
                add(memory.sketch, place, rule.depth, t * V, memory.weights[t, slot], factor)


@kernel
def add_share(mean, part, share):
    """Add `share` times the array `part` to the array `mean`, a weighted mean."""
    for at in range(len(mean)):
        mean[at] += share * part[at]


@kernel
def merge_tables(keys, weights, pace, parents, share, memory, rule, t):
    """Fill table t of `memory`, which has the merged sketch or cells, with entries of several shards, sorted by key.

    The array `share` has the share of each entry's shard in the mean. Weights of a feature that entered the shards with
    different units are changed to the smallest unit. Where weights in tables are exact (method "active"), the weight of
    a feature in a shard whose table lacks the feature is its weight in the merged sketch.
    """
    C, V, place, rest = len(memory.bias), weights.shape[1], new_place(), np.empty(weights.shape[1], np.float32)
    is_exact = len(memory.cells) > 0
    n = 0
    out_keys, out_weights, out_pace = np.empty_like(keys), np.zeros_like(weights), np.zeros_like(pace)
    out_parents = np.empty_like(parents)
    start = 0
    while start < len(keys):
        stop, held, unit = start, _ZERO, pace[start, UNIT]
        while stop < len(keys) and keys[stop] == keys[start]:
            unit = min(unit, pace[stop, UNIT])
            stop += 1
        stop = start
        while stop < len(keys) and keys[stop] == keys[start]:
            held += share[stop]
            out_weights[n] += (share[stop] * pace[stop, UNIT] / unit) * weights[stop]
            out_pace[n, SUM] += pace[stop, SUM]
            stop += 1
        out_pace[n, SUM] /= stop - start
        out_keys[n], out_pace[n, UNIT] = keys[start], unit
        if len(parents):
            out_parents[n] = parents[start]
        if is_exact and held < _ALL_SHARDS:
            h = short_hash(keys[start] - np.uint64(1))
            read_cell(memory.cells, h, rule.bits, C, t * V, rest)
            take_from_cell(memory.cells, h, rule.bits, C, t * V, V)
            out_weights[n] += rest
        elif not is_exact:
            locate(mix(keys[start] - np.uint64(1)), rule.bits, rule.depth, C, place)
            read(memory.sketch, place, rule.depth, t * V, rest)
            out_weights[n] = rest
        n, start = n + 1, stop
    pairs = out_parents[: n if len(parents) else 0]
    keep_largest(out_keys[:n], out_weights[:n], out_pace[:n], pairs, memory, rule, t)
