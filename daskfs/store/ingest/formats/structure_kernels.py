"""Kernels that find the structural bytes of a text, 64 bytes at a time: the first of two stages of a fast parser.

Structural bytes end tokens: white space, control characters, and two more bytes that the format chooses. One vector
comparison of 64 bytes gives a mask with one bit per byte, and the positions of the bits are written to an array. The
second stage of a parser goes from one position to the next, without a loop over the bytes of a token.

The idea is that of simdjson (Langdale and Lemire, *Parsing gigabytes of JSON per second*, 2019).
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from daskfs.jit import inlined
from daskfs.store.dataset.bits_kernels import bit_count, lowest_bit
from daskfs.store.ingest.formats.numbers_kernels import LF, SPACE

FINE, NOT_UNDERSTOOD = 0, 3  # what the second stage returns, besides FULL and NAMES_FULL
WINDOW = 1 << 16  # bytes whose structure is found at a time; the positions stay in the second-level cache
BLOCK = 64  # bytes that are compared at a time
_AT_ONCE = 8  # positions written without a branch, because the number of structural bytes in a block is unpredictable


def structural_bits(text, at, first, second):
    """Return a uint64 with bit i set if byte ``text[at + i]`` is `first`, `second`, or not above a space."""
    block = text[at : at + BLOCK]
    marks = (block <= SPACE) | (block == first) | (block == second)
    return np.packbits(marks, bitorder="little").view(np.uint64)[0]


def equal_bits(text, at, byte):
    """Return a uint64 with bit i set if byte ``text[at + i]`` is `byte`."""
    return np.packbits(text[at : at + BLOCK] == byte, bitorder="little").view(np.uint64)[0]


_BYTES = ir.VectorType(ir.IntType(8), BLOCK)


def _block_at(context, builder, text, arguments):
    """Generate code that loads 64 bytes of an array as a vector."""
    data = context.make_array(text)(context, builder, arguments[0]).data
    return builder.load(builder.bitcast(builder.gep(data, [arguments[1]]), _BYTES.as_pointer()), align=1)


def _repeated(builder, number):
    """Generate code for a vector of 64 equal bytes."""
    lane = builder.insert_element(ir.Constant(_BYTES, ir.Undefined), number, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), None)
    return builder.shuffle_vector(lane, ir.Constant(_BYTES, ir.Undefined), zeros)


@intrinsic
def _structural_bits(typing_context, text, at, first, second):
    def generate(context, builder, signature, arguments):
        block = _block_at(context, builder, text, arguments)
        marks = builder.icmp_unsigned("<=", block, _repeated(builder, ir.IntType(8)(SPACE)))
        for number in arguments[2:]:
            marks = builder.or_(marks, builder.icmp_unsigned("==", block, _repeated(builder, number)))
        return builder.bitcast(marks, ir.IntType(64))

    return types.uint64(text, types.int64, types.uint8, types.uint8), generate


@intrinsic
def _equal_bits(typing_context, text, at, byte):
    def generate(context, builder, signature, arguments):
        block = _block_at(context, builder, text, arguments)
        marks = builder.icmp_unsigned("==", block, _repeated(builder, arguments[2]))
        return builder.bitcast(marks, ir.IntType(64))

    return types.uint64(text, types.int64, types.uint8), generate


@overload(structural_bits, inline="always")
def _compiled_structural_bits(text, at, first, second):
    def checked(text, at, first, second):
        text[at + BLOCK - 1]  # a vector is loaded without bounds checks: this byte has them
        return _structural_bits(text, at, np.uint8(first), np.uint8(second))  # type: ignore[call-arg]

    return checked


@overload(equal_bits, inline="always")
def _compiled_equal_bits(text, at, byte):
    def checked(text, at, byte):
        text[at + BLOCK - 1]
        return _equal_bits(text, at, np.uint8(byte))  # type: ignore[call-arg]

    return checked


def new_positions(window_bytes: int = WINDOW) -> NDArray[np.uint32]:
    """Return an array for the positions of structural bytes in up to `window_bytes` bytes of text (0: no bytes)."""
    return np.zeros(window_bytes + 2 * _AT_ONCE if window_bytes else 0, np.uint32)


@inlined
def find_structure(text, start, positions, first, second):
    """Write the positions of the structural bytes of whole lines from `start` on, and return the end of the lines.

    Lines that end near the end of the text or do not fit in `positions` are left out, so that a parser may read up to
    64 bytes beyond the end of every line that is found. If no line is found, the end is `start`.
    """
    count, stop = 0, min(len(text) - 2 * BLOCK, start + len(positions) - 2 * _AT_ONCE - BLOCK)
    for at in range(start, stop + 1, BLOCK):
        bits = structural_bits(text, at, first, second)
        count = _write_positions(bits, at, positions, count)
    while count > 0 and text[positions[count - 1]] != LF:
        count -= 1
    return np.int64(positions[count - 1]) + 1 if count > 0 else start


@inlined
def _write_positions(bits, at, positions, count):
    """Append the positions of the bits of one block, and return the new number of positions."""
    after = count + bit_count(bits)
    for i in range(_AT_ONCE):
        positions[count + i] = at + lowest_bit(bits)
        bits &= bits - np.uint64(1)
    count += _AT_ONCE
    while bits != 0:
        positions[count] = at + lowest_bit(bits)
        bits &= bits - np.uint64(1)
        count += 1
    return after
