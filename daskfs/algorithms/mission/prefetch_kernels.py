"""Asking for memory before it is needed: a kernel that knows where it will read next need not wait for it there."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from daskfs.jit import inlined

_LINE = 16  # numbers of four bytes that come together
_TO_WRITE, _TO_KEEP, _DATA = 1, 3, 1  # what LLVM wants to know


def prefetch(array, at):
    """Ask for the memory around a place; says nothing, changes nothing, and does not mind a place that is not there."""


@intrinsic
def _prefetch(typing_context, array, at):
    def generate(context, builder, signature, arguments):
        data = context.make_array(array)(context, builder, arguments[0]).data
        place, number = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer()), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(ask, [place, number(_TO_WRITE), number(_TO_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, at), generate


@overload(prefetch)
def _compiled_prefetch(array, at):
    return lambda array, at: _prefetch(array, at)  # type: ignore[call-arg]


@inlined
def prefetch_all(array, first, count):
    """Ask for `count` numbers of four bytes that follow each other, but for a few at the end of some."""
    for at in range(first, first + count, _LINE):
        prefetch(array, at)
