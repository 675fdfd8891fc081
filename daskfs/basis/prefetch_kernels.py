"""Loading memory into the processor's cache before it is needed, for kernels that visit memory here and there."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload


def prefetch(array, at):
    """Load the memory around ``array[at]`` into the cache, for a later read."""


def prefetch_to_write(array, at):
    """Load the memory around ``array[at]`` into the cache, for a later write; `at` may be out of range."""


def _instruction(to_write):
    """Return the processor's instruction, with 0 to read and 1 to write."""

    @intrinsic
    def instruction(typing_context, array, at):
        def generate(context, builder, signature, arguments):
            data = context.make_array(array)(context, builder, arguments[0]).data
            place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
            number = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
            builder.call(function, [place, number(to_write), number(3), number(1)])  # keep in all caches, data
            return context.get_dummy_value()

        return types.void(array, at), generate

    return instruction


_to_read, _to_write = _instruction(0), _instruction(1)


@overload(prefetch, inline="always")
def _compiled_prefetch(array, at):
    return lambda array, at: _to_read(array, at)


@overload(prefetch_to_write)
def _compiled_prefetch_to_write(array, at):
    return lambda array, at: _to_write(array, at)
