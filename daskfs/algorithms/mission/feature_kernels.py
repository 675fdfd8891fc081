"""Kernels for derived features: pairs of the features of a row, counts for idf factors, and scaled values."""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.mission.memory_kernels import NO_UNITS
from daskfs.algorithms.mission.sketch_kernels import fold
from daskfs.algorithms.mission.table_kernels import find, find_ids, insert_ids, mix
from daskfs.algorithms.mission.unit_kernels import bits_of_units, measure_units, outside_of_entry
from daskfs.jit import helper, kernel, warms
from daskfs.protocol import NO_PARENT

_NO_PARENT = np.uint64(NO_PARENT)
_ONE = np.uint64(1)
_FLAGS_PER_SLOT = 8


@helper
def pair_id(a, b):
    """Return the id of the pair of two features, a hash of 63 bits like all feature ids."""
    return mix(mix(a) ^ (b + np.uint64(0x9E3779B97F4A7C15))) >> _ONE


@helper
def belongs(keys, feature):
    """Return whether a feature is in the hash table of a name space, where an empty table stands for all features."""
    return len(keys) == 0 or find(keys, feature + _ONE, mix(feature)) >= 0


@helper
def is_pair(ids, i, j, left, right):
    """Return whether entries i on the left and j on the right make a pair; a pair counts in one order only."""
    if i == j or not belongs(left, ids[i]) or not belongs(right, ids[j]):
        return False
    return i < j or not (belongs(left, ids[j]) and belongs(right, ids[i]))


@kernel
def count_pairs(indptr, ids, left, right):
    """Return the number of pairs of features of every row."""
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
def append_pairs(indptr, ids, values, outside, left, right, counts):
    """Append the pairs of features to every row; return indptr, and ids, both values and parents of all entries."""
    n = len(indptr) - 1
    total = len(ids) + counts.sum()
    out_indptr, out_ids = np.zeros(n + 1, np.int64), np.empty(total, np.uint64)
    out_values, out_outside = np.empty(total, np.float32), np.empty(total, np.float32)
    parents = np.full((total, 2), _NO_PARENT, np.uint64)
    o = 0
    for r in range(n):
        a, b = indptr[r], indptr[r + 1]
        for e in range(a, b):
            out_ids[o], out_values[o], out_outside[o] = ids[e], values[e], outside[e]
            o += 1
        for i in range(a, b):
            if not belongs(left, ids[i]):
                continue
            for j in range(i + 1 if len(left) == 0 else a, b):
                if is_pair(ids, i, j, left, right):
                    out_ids[o], out_values[o] = pair_id(ids[i], ids[j]), values[i] * values[j]
                    out_outside[o] = outside[i] * outside[j]
                    parents[o, 0], parents[o, 1] = ids[i], ids[j]
                    o += 1
        out_indptr[r + 1] = o
    return out_indptr, out_ids, out_values, out_outside, parents


@helper
def two_cells(feature, bits):
    """Return the cells of a feature in two arrays of 2^bits counters."""
    h = mix(feature)
    return h >> np.uint64(64 - bits), fold(h) >> np.uint64(64 - bits)


@kernel
def count_features(ids, cells, bits):
    """Add 1, for every entry, to the two cells that its feature hashes to, one in each row of `cells` (2, 2^bits)."""
    for e in range(len(ids)):
        i, j = two_cells(ids[e], bits)
        cells[0, i] += 1
        cells[1, j] += 1


@kernel
def larger_of_two(ids, cells, bits, out):
    """Write the larger of the numbers in the two cells of every feature into `out`."""
    for e in range(len(ids)):
        i, j = two_cells(ids[e], bits)
        out[e] = max(cells[0, i], cells[1, j])


@kernel
def entries_in(indptr, ids, values, keys):
    """Return indptr, ids and values of rows with only the features in the tables `keys`.

    Most features are in no table. To find most of these without a look-up, there is a flag for each value of the first
    bits of a hash, which is 1 if the hash of a feature in a table begins with these bits.
    """
    n, shift, most = len(indptr) - 1, np.uint64(64), 0
    while (1 << (64 - np.int64(shift))) < _FLAGS_PER_SLOT * keys.size:
        shift -= _ONE
    flags = np.zeros(1 << (64 - np.int64(shift)), np.uint8)
    for t in range(len(keys)):
        for slot in range(keys.shape[1]):
            if keys[t, slot] != 0:
                flags[mix(keys[t, slot] - _ONE) >> shift] = 1
    for r in range(n):
        most = max(most, indptr[r + 1] - indptr[r])
    maybe, out_indptr, o = np.empty(most + 1, np.int64), np.zeros(n + 1, np.int64), 0
    out_ids, out_values = np.empty(len(ids), np.uint64), np.empty(len(ids), np.float32)
    for r in range(n):
        n_maybe = 0
        for e in range(indptr[r], indptr[r + 1]):
            maybe[n_maybe] = e
            n_maybe += flags[mix(ids[e]) >> shift]
        for u in range(n_maybe):
            e, known = maybe[u], False
            for t in range(len(keys)):
                known = known or find(keys[t], ids[e] + _ONE, mix(ids[e])) >= 0
            out_ids[o], out_values[o] = ids[e], values[e]
            o += known
        out_indptr[r + 1] = o
    return out_indptr, out_ids[:o].copy(), out_values[:o].copy()


@kernel
def scale_entries(indptr, ids, values, keys, mean, unit, units):
    """Standardise the features of rows; return indptr, ids, and two values of every entry.

    The first value counts if the feature has an exact weight in a table, the second if it has not. The value v of a
    feature in the hash table `keys` becomes (v − mean) · unit. Where a row lacks a feature with a mean other than 0, v
    is 0, and an entry is appended. The `units` of other features are slots of `unit_kernels`.
    """
    bits = bits_of_units(units)
    always, last_row = np.flatnonzero(mean), np.full(len(keys), -1, np.int64)
    n, o, total = len(indptr) - 1, 0, len(ids) + (len(indptr) - 1) * len(always)
    out_indptr, out_ids = np.zeros(n + 1, np.int64), np.empty(total, np.uint64)
    inside, outside = np.empty(total, np.float32), np.empty(total, np.float32)
    for r in range(n):
        for e in range(indptr[r], indptr[r + 1]):
            slot, v = find(keys, ids[e] + _ONE, mix(ids[e])), np.float64(values[e])
            factor = 0.0
            if slot >= 0:
                last_row[slot], factor, v = r, unit[slot], v - mean[slot]
            out_ids[o], inside[o] = ids[e], v * factor if factor > 0 else v
            outside[o] = inside[o] if factor > 0 else outside_of_entry(ids[e], np.float32(v), units, bits)
            o += 1
        for slot in always:
            if last_row[slot] != r:
                factor, v = unit[slot], -mean[slot]
                out_ids[o], inside[o] = keys[slot] - _ONE, v * factor if factor > 0 else v
                outside[o] = inside[o] if factor > 0 else np.sign(v)
                o += 1
        out_indptr[r + 1] = o
    return out_indptr, out_ids[:o], inside[:o], outside[:o]


def compile_scaling() -> None:
    """Compile the kernels that scale the values of a block of rows."""
    indptr, ids, values, keys = np.array([0, 2]), np.arange(2, dtype=np.uint64), np.ones(2, np.float32), _some_keys()
    for array in (indptr, ids, values):
        array.flags.writeable = False
    scale_entries(indptr, ids, values, keys, np.ones(4), np.ones(4), NO_UNITS)
    measure_units(ids, values, 1)


def _some_keys():
    keys = np.zeros(4, np.uint64)
    insert_ids(np.arange(2, dtype=np.uint64), keys)
    return keys


@warms
def _warm_up() -> None:
    indptr, ids, values = np.array([0, 2]), np.arange(2, dtype=np.uint64), np.ones(2, np.float32)
    keys = _some_keys()
    read_only = ids.copy()
    for array in (indptr, read_only, values):
        array.flags.writeable = False
    append_pairs(indptr, read_only, values, values, keys, keys, count_pairs(indptr, read_only, keys, keys))
    find_ids(ids, keys)
    entries_in(indptr, read_only, values, keys.reshape(1, -1))
    compile_scaling()
    for some in (ids, read_only):
        count_features(some, np.zeros((2, 2), np.uint32), 1)
        larger_of_two(some, np.zeros((2, 2), np.float32), 1, np.empty(2, np.float32))
