"""Functions of bits that the processor has instructions for and numba has no names for."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload


def lowest_bit(bits):
    """Return the position of the lowest bit of a uint64 that is set, or 64 if no bit is set."""
    return (int(bits) & -int(bits)).bit_length() - 1 if bits else 64


def bit_count(bits):
    """Return the number of bits of a uint64 that are set."""
    return int(bits).bit_count()


def bit_length(bits):
    """Return the position after the highest bit of a uint64 that is set, or 0 if no bit is set."""
    return int(bits).bit_length()


@intrinsic
def _lowest_bit(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


@intrinsic
def _bit_count(typing_context, bits):
    return types.int64(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def _bit_length(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.sub(ir.IntType(64)(64), builder.ctlz(arguments[0], ir.IntType(1)(0)))

    return types.int64(types.uint64), generate


@overload(lowest_bit, inline="always")
def _compiled_lowest_bit(bits):
    return lambda bits: _lowest_bit(bits)  # type: ignore[call-arg]


@overload(bit_count, inline="always")
def _compiled_bit_count(bits):
    return lambda bits: _bit_count(bits)  # type: ignore[call-arg]


@overload(bit_length, inline="always")
def _compiled_bit_length(bits):
    return lambda bits: _bit_length(bits)  # type: ignore[call-arg]
