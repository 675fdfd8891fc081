"""The memory of MISSION: a sketch for all features, a table for the largest, and what moves between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.mission.sketch_kernels import add, find, locate, mixed, new_place, norm, read, tail_cell
from daskfs.jit import helper, kernel

COUNT, LEAST = 0, 1  # of a table's gauge: how many are in, and what it takes to come in
LOSS, WEIGHT, ROWS = 0, 1, 2  # of the tally: losses before learning, the rows' weights, how many rows
_ONE, _NIL = np.float32(1), np.float32(0)
_ALL = np.float32(0.9999)  # of the lanes, but for rounding


class Rows(NamedTuple):
    """Some rows to learn from."""

    indptr: Any
    ids: Any
    values: Any
    pairs: Any  # (entries, 2) the features an interaction is made of, or no rows at all
    y: Any  # the target of `loss_kernels`, or the number of the class
    weight: Any  # of every row, or empty


class Memory(NamedTuple):
    """What is known of the features. T tables have V classes each: 1 and C, or C and 1."""

    sketch: Any  # depth × 2^bits × C, flat
    tail: Any  # 2^bits: sums that decide on the steps of features outside the table; empty for plain steps
    keys: Any  # (T, capacity)
    weights: Any  # (T, capacity, V)
    sums: Any  # (T, capacity): the same as `tail`, exact
    parents: Any  # (T, capacity, 2), or (T, 0, 2) without interactions
    gauge: Any  # (T, 2): COUNT, LEAST
    bias: Any  # (C,)
    bias_sum: Any  # (1,)
    tally: Any  # (3,): LOSS, WEIGHT, ROWS


class Rule(NamedTuple):
    """How to learn."""

    loss: int  # see `loss.CODE`; with several classes it is softmax
    rate: float
    per_sighting: float  # 1/β of the step 1/√(1 + N/β); 0 for plain steps
    stands_for: float  # rows, that every row does: as many as there are lanes
    bias_value: float  # the constant that every row has, 0 for none
    bits: int
    depth: int
    n_select: int  # of each table
    room: int  # of each table, before it is pruned
    everyone_counts: bool  # in a score: not only those in the table


@helper
def is_new(feature, keys, t, h):
    """Whether a feature, whose hash is h, is not in table t."""
    return find(keys[t], feature + np.uint64(1), h) < 0


@kernel
def remember(rows, e, memory, rule, t):
    """Put the feature of entry `e` into table t, where it is not yet; its weight stays in the sketch."""
    keys, key = memory.keys[t], rows.ids[e] + np.uint64(1)
    slot = -1 - find(keys, key, mixed(rows.ids[e]))
    keys[slot] = key
    if len(rows.pairs):
        memory.parents[t, slot, 0], memory.parents[t, slot, 1] = rows.pairs[e, 0], rows.pairs[e, 1]
    memory.gauge[t, COUNT] += 1
    if memory.gauge[t, COUNT] >= rule.room:
        look_up(memory, rule, t)
        prune(memory, rule, t, False)


@kernel
def look_up(memory, rule, t):
    """Bring the weights in table t up to date with the sketch."""
    place, C, V = new_place(), len(memory.bias), memory.weights.shape[2]
    for slot in range(memory.keys.shape[1]):
        if memory.keys[t, slot] != 0:
            locate(mixed(memory.keys[t, slot] - np.uint64(1)), rule.bits, rule.depth, C, place)
            read(memory.sketch, place, rule.depth, t * V, memory.weights[t, slot])


@kernel
def prune(memory, rule, t, to_sketch):
    """Keep the largest of table t; the others go into the sketch, or nowhere."""
    n, slots, V = np.int64(memory.gauge[t, COUNT]), memory.keys.shape[1], memory.weights.shape[2]
    has_pairs = memory.parents.shape[1] > 0
    keys, weights, sums = np.empty(n, np.uint64), np.empty((n, V), np.float32), np.empty(n, np.float32)
    parents = np.empty((n if has_pairs else 0, 2), np.uint64)
    q = 0
    for slot in range(slots):
        if memory.keys[t, slot] != 0:
            keys[q], sums[q] = memory.keys[t, slot], memory.sums[t, slot]
            copy_row(memory.weights[t, slot], weights[q])
            if has_pairs:
                copy_row(memory.parents[t, slot], parents[q])
            q += 1
    keep_largest(keys, weights, sums, parents, memory, rule, t, to_sketch)


@helper
def copy_row(source, target):
    for c in range(len(source)):
        target[c] = source[c]


@helper
def nth(values, n):
    """The value that n others come before; the array is put into another order. (numpy's takes long to compile.)"""
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


@kernel
def keep_largest(keys, weights, sums, parents, memory, rule, t, to_sketch):
    """Fill table t with the largest of these entries, of equals those of smaller key; the others go into the sketch."""
    n, keep, place = len(keys), rule.n_select, new_place()
    size, least, last = np.empty(n, np.float32), np.float32(-1), np.uint64(0)
    for q in range(n):
        size[q] = norm(weights[q])
        if not size[q] >= 0:  # beyond all numbers, at too large a rate; whoever asks for a result is told
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
        memory.gauge[t, LEAST] = least
    for slot in range(memory.keys.shape[1]):
        memory.keys[t, slot] = 0
    for q in range(n):
        h = mixed(keys[q] - np.uint64(1))
        if size[q] > least or (size[q] == least and keys[q] <= last):
            slot = -1 - find(memory.keys[t], keys[q], h)
            memory.keys[t, slot], memory.sums[t, slot] = keys[q], sums[q]
            copy_row(weights[q], memory.weights[t, slot])
            if len(parents):
                copy_row(parents[q], memory.parents[t, slot])
        elif to_sketch:
            locate(h, rule.bits, rule.depth, len(memory.bias), place)
            add(memory.sketch, place, rule.depth, t * weights.shape[1], weights[q], _ONE)
            if len(memory.tail):
                cell = tail_cell(h, rule.bits)
                memory.tail[cell] = max(memory.tail[cell], sums[q])
    memory.gauge[t, COUNT] = min(n, keep)


@kernel
def take_over(rows, e, h, memory, rule, t):
    """Move the weight of entry e's feature from the sketch into table t, if it is still large enough."""
    keys, C, V = memory.keys[t], len(memory.bias), memory.weights.shape[2]
    vector, place = np.empty(V, np.float32), new_place()
    locate(h, rule.bits, rule.depth, C, place)
    read(memory.sketch, place, rule.depth, t * V, vector)
    if norm(vector) <= memory.gauge[t, LEAST]:
        return
    slot = find(keys, rows.ids[e] + np.uint64(1), h)
    if slot >= 0:
        return
    slot = -1 - slot
    add(memory.sketch, place, rule.depth, t * V, vector, -_ONE)
    keys[slot] = rows.ids[e] + np.uint64(1)
    copy_row(vector, memory.weights[t, slot])
    memory.sums[t, slot] = memory.tail[tail_cell(h, rule.bits)] if len(memory.tail) else _NIL
    if len(rows.pairs):
        copy_row(rows.pairs[e], memory.parents[t, slot])
    memory.gauge[t, COUNT] += 1
    if memory.gauge[t, COUNT] >= rule.room:
        prune(memory, rule, t, True)


@kernel
def settle(memory, rule, t):
    """Take the step that the gradients of table t add up to, and keep the largest weights."""
    capacity, V = memory.keys.shape[1], memory.weights.shape[2]
    for slot in range(capacity):
        base = (t * capacity + slot) * V
        for c in range(V):
            if memory.keys[t, slot] != 0:
                memory.weights[t, slot, c] += memory.sketch[base + c]
            memory.sketch[base + c] = 0
    prune(memory, rule, t, False)


@kernel
def move_table(source, target, t):
    """Put what is in table t, and the gradients beside it, into a larger table without a sketch."""
    (_, slots, V), new_slots = source.weights.shape, target.keys.shape[1]
    target.gauge[t, COUNT] = source.gauge[t, COUNT]
    for slot in range(slots):
        if source.keys[t, slot] != 0:
            key = source.keys[t, slot]
            at = -1 - find(target.keys[t], key, mixed(key - np.uint64(1)))
            target.keys[t, at], target.sums[t, at] = key, source.sums[t, slot]
            copy_row(source.weights[t, slot], target.weights[t, at])
            if source.parents.shape[1]:
                copy_row(source.parents[t, slot], target.parents[t, at])
            for c in range(V):
                target.sketch[(t * new_slots + at) * V + c] = source.sketch[(t * slots + slot) * V + c]


@kernel
def fade(memory, rule, factor, is_exact):
    """Scale the sketch but for what is in a table: the paper's γ, which lets the noise of early steps die away."""
    if not is_exact:
        for t in range(memory.keys.shape[0]):
            look_up(memory, rule, t)
    for at in range(len(memory.sketch)):
        memory.sketch[at] *= factor
    if not is_exact:
        give_back(memory, rule, _ONE - factor)


@kernel
def give_back(memory, rule, factor):
    """Add so many times its weight to the sketch, for every feature of every table."""
    place, C, (n_tables, slots, V) = new_place(), len(memory.bias), memory.weights.shape
    for t in range(n_tables):
        for slot in range(slots):
            if memory.keys[t, slot] != 0:
                locate(mixed(memory.keys[t, slot] - np.uint64(1)), rule.bits, rule.depth, C, place)
                add(memory.sketch, place, rule.depth, t * V, memory.weights[t, slot], factor)


@kernel
def mean_into(total, part, share):
    """Add a lane's share of a mean to it."""
    for at in range(len(total)):
        total[at] += share * part[at]


@kernel
def unite(keys, weights, sums, parents, share, memory, rule, t, is_exact):
    """Fill table t with the entries of several lanes, sorted by key; `memory` has the merged sketch and no entries.

    `share` is that of an entry's lane in the mean. Where weights are exact, that of a feature is their mean plus what
    the sketch holds for the lanes that lack it.
    """
    C, V, place, rest = len(memory.bias), weights.shape[1], new_place(), np.empty(weights.shape[1], np.float32)
    n = 0
    out_keys, out_weights, out_sums = np.empty_like(keys), np.zeros_like(weights), np.zeros_like(sums)
    out_parents = np.empty_like(parents)
    start = 0
    while start < len(keys):
        stop, held = start, _NIL
        while stop < len(keys) and keys[stop] == keys[start]:
            held += share[stop]
            out_weights[n] += share[stop] * weights[stop]
            out_sums[n] += sums[stop]
            stop += 1
        out_sums[n] /= stop - start
        out_keys[n] = keys[start]
        if len(parents):
            out_parents[n] = parents[start]
        if not is_exact or held < _ALL:
            locate(mixed(keys[start] - np.uint64(1)), rule.bits, rule.depth, C, place)
            read(memory.sketch, place, rule.depth, t * V, rest)
            if is_exact:
                add(memory.sketch, place, rule.depth, t * V, rest, -_ONE)
                out_weights[n] += rest
            else:
                out_weights[n] = rest
        n, start = n + 1, stop
    pairs = out_parents[: n if len(parents) else 0]
    keep_largest(out_keys[:n], out_weights[:n], out_sums[:n], pairs, memory, rule, t, is_exact)
