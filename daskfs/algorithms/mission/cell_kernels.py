"""Kernels of the cells in which method "active" keeps the weights of all features outside the tables.

A cell is a line of C + 1 numbers: the weights of C classes, and the sum of squared gradients from which steps follow. A
feature has one cell, which it shares with others, and a sign. The cell of a feature with weight w holds sign · w, so
that the weights of features that share a cell mostly cancel out instead of adding up.

The sign bit of the sum, which itself is never negative, is the *mark* of the cell: it is set if a feature of a table
has this cell. Entries whose cell has no mark need no look-up in the tables.

With one class a cell has 8 bytes, and one access to memory reads or writes all that is known of a feature. Tables with
exact weights beside a sketch are those of the Active-Set Weight-Median Sketch (K. S. Tai, V. Sharan, P. Bailis, G.
Valiant, *Sketching Linear Classifiers over Data Streams*, SIGMOD 2018).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from daskfs.algorithms.mission.table_kernels import mix
from daskfs.jit import helper, inlined, kernel, summing_helper

_ONE = np.float32(1)
_MARK = np.uint32(1 << 31)


def bits_of(x):
    """Return the bits of a number of type float32, as uint32."""
    return np.float32(x).view(np.uint32)


def float_of(bits):
    """Return the number of type float32 with these bits."""
    return np.uint32(bits).view(np.float32)


def _bitcast(source, target, llvm_type):
    @intrinsic
    def cast(typing_context, x):
        return target(source), lambda context, builder, signature, args: builder.bitcast(args[0], llvm_type)

    return cast


_bits_of = _bitcast(types.float32, types.uint32, ir.IntType(32))
_float_of = _bitcast(types.uint32, types.float32, ir.FloatType())


@overload(bits_of, inline="always")
def _compiled_bits_of(x):
    return lambda x: _bits_of(x)


@overload(float_of, inline="always")
def _compiled_float_of(bits):
    return lambda bits: _float_of(bits)


@inlined
def short_hash(feature):
    """Return the upper 32 bits of a feature's hash: from the top, its cell; the last bit is its sign."""
    return np.uint32(mix(feature) >> np.uint64(32))


@inlined
def cell_of(h, bits):
    """Return the number of a feature's cell among 2^bits, from its short hash."""
    return np.uint64(h) >> np.uint64(32 - bits)


@inlined
def signed(x, h):
    """Return x times the sign of the feature with short hash h."""
    return float_of(np.uint32(bits_of(x) ^ np.uint32(h << np.uint32(31))))


@inlined
def sum_of(x):
    """Return the sum in a cell, without its mark."""
    return abs(x)


@inlined
def is_marked(x):
    """Return 1 if the sum x has a mark, or 0."""
    return np.int64(bits_of(x) >> np.uint32(31))


@inlined
def with_mark_of(total, before):
    """Return the sum `total` with the mark of the number `before`."""
    return float_of(np.uint32(bits_of(total) | np.uint32(bits_of(before) & _MARK)))


@inlined
def marked(total):
    """Return the sum `total` with a mark."""
    return float_of(np.uint32(bits_of(total) | _MARK))


@summing_helper
def slowness(total, decay):
    """Return AdaGrad's factor 1/√(1 + N/β) up to a relative error of 5e-6, where N is `total` and 1/β is `decay`.

    A guess by integer arithmetic and two steps of Newton's method fill vector registers, unlike a square root.
    """
    x = _ONE + total * decay
    y = float_of(np.uint32(np.uint32(0x5F375A86) - np.uint32(bits_of(x) >> np.uint32(1))))
    y = y * (np.float32(1.5) - np.float32(0.5) * x * y * y)
    return y * (np.float32(1.5) - np.float32(0.5) * x * y * y)


@helper
def read_cell(cells, h, bits, C, first, vector):
    """Write the weights `first`, `first` + 1, … of a feature's cell into `vector`."""
    base = np.int64(cell_of(h, bits)) * (C + 1) + first
    for c in range(len(vector)):
        vector[c] = signed(cells[base + c], h)


@helper
def take_from_cell(cells, h, bits, C, first, count):
    """Set `count` weights of a feature's cell to 0, mark the cell as one of a table feature, and return its sum."""
    base = np.int64(cell_of(h, bits)) * (C + 1)
    for c in range(count):
        cells[base + first + c] = 0
    total = sum_of(cells[base + C])
    cells[base + C] = marked(total)
    return total


@helper
def put_into_cell(cells, h, bits, C, first, vector, total):
    """Add weights `first`, `first` + 1, … to a feature's cell, whose sum becomes `total` if that is larger."""
    base = np.int64(cell_of(h, bits)) * (C + 1)
    for c in range(len(vector)):
        cells[base + first + c] += signed(vector[c], h)
    cells[base + C] = with_mark_of(max(total, sum_of(cells[base + C])), cells[base + C])


@helper
def mark(cells, key, bits, C, is_set):
    """Set or clear the bit of a sketch cell that says that a feature of a table hashes to it; `key` is that feature."""
    at = np.int64(cell_of(short_hash(key - np.uint64(1)), bits)) * (C + 1) + C
    cells[at] = marked(cells[at]) if is_set else sum_of(cells[at])


@kernel
def mark_tables(cells, keys, bits, C):
    """Set the marks of the cells of all features in the tables, and clear all other marks; do nothing without cells."""
    if len(cells) == 0:
        return
    for at in range(C, len(cells), C + 1):
        cells[at] = sum_of(cells[at])
    for t in range(len(keys)):
        for slot in range(keys.shape[1]):
            if keys[t, slot] != 0:
                mark(cells, keys[t, slot], bits, C, True)


@kernel
def add_share_of_cells(mean, cells, share, C):
    """Add `share` times the weights and sums of cells to `mean`, cells without marks."""
    for base in range(0, len(cells), C + 1):
        for c in range(C):
            mean[base + c] += share * cells[base + c]
        mean[base + C] += share * sum_of(cells[base + C])


@kernel
def fade_cells(cells, factor, C):
    """Multiply the weights in all cells by `factor`."""
    for base in range(0, len(cells), C + 1):
        for c in range(C):
            cells[base + c] *= factor
