"""The kernel of method "iht": after every row, the features with the largest weights remain, and no others.

A row changes the weights of its own features only. A heap has the sizes of weights, smallest first, and so tells which
features are dropped: a row of m features costs O(m log k), whatever the number k of features. A weight that changes is
put into the heap again; what the heap had of it before is out of date and is skipped when it comes out. When the heap
is full, it is filled anew from the table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.mission.memory_kernels import COUNT, ROWS, UNIT, copy_row, is_in
from daskfs.algorithms.mission.row_kernels import (
    add_scores,
    add_weights,
    is_finite,
    learn_bias,
    longest,
    score_residual,
    weight_of,
)
from daskfs.algorithms.mission.sketch_kernels import norm, squared_norm
from daskfs.algorithms.mission.table_kernels import find, mix
from daskfs.jit import helper, inlined, summing

_ZERO = np.float32(0)


class Heap(NamedTuple):
    """Keys of a table by the sizes of their weights, smallest first; of equals the larger key comes first."""

    sizes: Any  # (T, room)
    keys: Any  # (T, room)
    count: Any  # (T,)


@summing
def learn_row_by_row(rows, memory, rule):
    """Learn rows by iterative hard thresholding; return the number of rows before a value that is not finite."""
    n_tables, C = len(memory.weights), len(memory.bias)
    n, most, keep = len(rows.indptr) - 1, longest(rows.indptr), rule.n_select + len(memory.kept)
    z, g, room = np.empty(C, np.float32), np.empty(C, np.float32), 2 * (keep + most)
    sizes, keys = np.empty((n_tables, room), np.float32), np.empty((n_tables, room), np.uint64)
    heap = Heap(sizes, keys, np.zeros(n_tables, np.int64))
    for t in range(n_tables):
        fill(heap, memory, t)
    for r in range(n):
        a, stop = rows.indptr[r], rows.indptr[r + 1]
        if not is_finite(squared_norm(rows.values[a:stop])):
            return r
        for c in range(C):
            z[c] = memory.bias[c] * rule.bias_value
        for t in range(n_tables):
            for e in range(a, stop):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mix(rows.ids[e]))
                if slot >= 0:
                    add_scores(z, memory.weights, t, slot, rows.values[e])
        score_residual(rule, z, rows.y[r], weight_of(rows, r), _ZERO, g, memory.totals)
        learn_bias(memory, rule, g, _ZERO)
        for t in range(n_tables):
            if heap.count[t] + (stop - a) > room:
                fill(heap, memory, t)
            for e in range(a, stop):
                slot = find(memory.keys[t], rows.ids[e] + np.uint64(1), mix(rows.ids[e]))
                if slot < 0:
                    slot = insert(rows, e, memory, t, -1 - slot)
                add_weights(memory.weights, t, slot, g, np.float32(rule.rate) * rows.values[e])
                push(heap, t, size_of(memory, t, slot), memory.keys[t, slot])
            while memory.status[t, COUNT] > keep:
                drop_smallest(heap, memory, t)
    memory.totals[ROWS] += n
    return n


@inlined
def insert(rows, e, memory, t, slot):
    """Put the feature of entry `e` into a free slot of table t, with weight 0, and return the slot."""
    memory.keys[t, slot], memory.pace[t, slot, UNIT] = rows.ids[e] + np.uint64(1), np.float32(1)
    for c in range(memory.weights.shape[2]):
        memory.weights[t, slot, c] = _ZERO
    if len(rows.pairs):
        copy_row(rows.pairs[e], memory.parents[t, slot])
    memory.status[t, COUNT] += 1
    return slot


@inlined
def size_of(memory, t, slot):
    """Return the norm of a feature's weights; infinity for a feature to keep, and where a weight is no number."""
    size = norm(memory.weights[t, slot])
    return size if size >= 0 and not is_in(memory.keys[t, slot], memory.kept) else np.float32(np.inf)


@helper
def drop_smallest(heap, memory, t):
    """Remove the feature with the smallest weights from table t; of equals, the one with the largest key."""
    while True:
        size, key = pop(heap, t)
        slot = find(memory.keys[t], key, mix(key - np.uint64(1)))
        if slot >= 0 and size_of(memory, t, slot) == size:
            break
    remove(memory, t, slot)
    memory.status[t, COUNT] -= 1


@helper
def remove(memory, t, slot):
    """Free a slot of table t, and move features behind it, of which a search would stop at the free slot."""
    keys = memory.keys[t]
    mask, free, at = len(keys) - 1, slot, slot
    while True:
        at = (at + 1) & mask
        if keys[at] == 0:
            break
        first = np.int64((mix(keys[at] - np.uint64(1)) >> np.uint64(33)) & np.uint64(mask))
        if (at - first) & mask >= (at - free) & mask:
            keys[free] = keys[at]
            copy_row(memory.weights[t, at], memory.weights[t, free])
            copy_row(memory.pace[t, at], memory.pace[t, free])
            if memory.parents.shape[1]:
                copy_row(memory.parents[t, at], memory.parents[t, free])
            free = at
    keys[free] = 0


@helper
def comes_before(heap, t, i, j):
    """Return whether entry i of the heap is to be dropped before entry j."""
    if heap.sizes[t, i] != heap.sizes[t, j]:
        return heap.sizes[t, i] < heap.sizes[t, j]
    return heap.keys[t, i] > heap.keys[t, j]


@helper
def swap(heap, t, i, j):
    heap.sizes[t, i], heap.sizes[t, j] = heap.sizes[t, j], heap.sizes[t, i]
    heap.keys[t, i], heap.keys[t, j] = heap.keys[t, j], heap.keys[t, i]


@helper
def push(heap, t, size, key):
    i = heap.count[t]
    heap.sizes[t, i], heap.keys[t, i] = size, key
    heap.count[t] += 1
    while i > 0 and comes_before(heap, t, i, (i - 1) >> 1):
        swap(heap, t, i, (i - 1) >> 1)
        i = (i - 1) >> 1


@helper
def pop(heap, t):
    """Remove the first entry of the heap, and return its size and key."""
    size, key = heap.sizes[t, 0], heap.keys[t, 0]
    heap.count[t] -= 1
    swap(heap, t, 0, heap.count[t])
    sink(heap, t, 0)
    return size, key


@helper
def sink(heap, t, i):
    """Move entry i down to where it belongs."""
    while True:
        first = i
        for j in range(2 * i + 1, min(2 * i + 3, heap.count[t])):
            if comes_before(heap, t, j, first):
                first = j
        if first == i:
            break
        swap(heap, t, i, first)
        i = first


@helper
def fill(heap, memory, t):
    """Fill the heap of table t with all its features."""
    heap.count[t] = 0
    for slot in range(memory.keys.shape[1]):
        if memory.keys[t, slot] != 0:
            i = heap.count[t]
            heap.sizes[t, i], heap.keys[t, i] = size_of(memory, t, slot), memory.keys[t, slot]
            heap.count[t] += 1
    for i in range(heap.count[t] // 2 - 1, -1, -1):
        sink(heap, t, i)
