"""Kernels of interactions: pairs of the features of a row, made while it is read."""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.mission.sketch_kernels import find, mixed
from daskfs.jit import helper, kernel, warms
from daskfs.protocol import NO_PARENT

_NO_PARENT = np.uint64(NO_PARENT)
_ONE = np.uint64(1)


@helper
def pair_id(a, b):
    """The id of the pair of two features, of 63 bits like all ids."""
    return mixed(mixed(a) ^ (b + np.uint64(0x9E3779B97F4A7C15))) >> _ONE


@helper
def belongs(keys, feature):
    """Whether a feature is of a name space; one without members stands for all features."""
    return len(keys) == 0 or find(keys, feature + _ONE, mixed(feature)) >= 0


@helper
def is_pair(ids, i, j, left, right):
    """Whether entry i on the left and entry j on the right make a pair; in either order, but only once."""
    if i == j or not belongs(left, ids[i]) or not belongs(right, ids[j]):
        return False
    return i < j or not (belongs(left, ids[j]) and belongs(right, ids[i]))


@kernel
def counted_pairs(indptr, ids, left, right):
    """How many pairs every row has."""
    n = len(indptr) - 1
    counts = np.zeros(n, np.int64)
    for r in range(n):
        a, b = indptr[r], indptr[r + 1]
        if len(left) == 0:
            counts[r] = (b - a) * (b - a - 1) // 2
            continue
        on_left = on_right = on_both = 0
        for e in range(a, b):
            x, y = belongs(left, ids[e]), belongs(right, ids[e])
            on_left, on_right, on_both = on_left + x, on_right + y, on_both + (x and y)
        counts[r] = on_left * on_right - on_both * (on_both - 1) // 2 - on_both
    return counts


@kernel
def add_members(ids, keys):
    """Put ids into a table that has room for them."""
    for e in range(len(ids)):
        slot = find(keys, ids[e] + _ONE, mixed(ids[e]))
        if slot < 0:
            keys[-1 - slot] = ids[e] + _ONE


@kernel
def with_pairs(indptr, ids, values, left, right, counts):
    """Rows whose pairs follow their features: indptr, ids, values and the parents of every entry."""
    n = len(indptr) - 1
    total = len(ids) + counts.sum()
    out_indptr, out_ids, out_values = np.zeros(n + 1, np.int64), np.empty(total, np.uint64), np.empty(total, np.float32)
    parents = np.full((total, 2), _NO_PARENT, np.uint64)
    o = 0
    for r in range(n):
        a, b = indptr[r], indptr[r + 1]
        for e in range(a, b):
            out_ids[o], out_values[o] = ids[e], values[e]
            o += 1
        for i in range(a, b):
            if not belongs(left, ids[i]):
                continue
            for j in range(i + 1 if len(left) == 0 else a, b):
                if is_pair(ids, i, j, left, right):
                    out_ids[o], out_values[o] = pair_id(ids[i], ids[j]), values[i] * values[j]
                    parents[o, 0], parents[o, 1] = ids[i], ids[j]
                    o += 1
        out_indptr[r + 1] = o
    return out_indptr, out_ids, out_values, parents


@warms
def _warm_up() -> None:
    indptr, ids, values = np.array([0, 2]), np.arange(2, dtype=np.uint64), np.ones(2, np.float32)
    for array in (indptr, ids, values):
        array.flags.writeable = False
    keys = np.zeros(4, np.uint64)
    add_members(np.arange(2, dtype=np.uint64), keys)
    with_pairs(indptr, ids, values, keys, keys, counted_pairs(indptr, ids, keys, keys))
