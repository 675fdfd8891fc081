"""Compile all kernels into the cache, in two processes of their own: the memory that compiling takes stays taken.

`make test` runs this first. Otherwise each test process would compile what its tests meet, and grow to gigabytes.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pkgutil import walk_packages

import daskfs
from daskfs import jit


def compile_kernels(number: int) -> None:
    """Call one of the functions that call kernels on tiny arrays."""
    jit._warmers[number]()


if __name__ == "__main__":
    for module in walk_packages(daskfs.__path__, "daskfs."):
        if module.name.startswith(("daskfs.algorithms", "daskfs.basis")) or module.name.endswith("kernels"):
            import_module(module.name)
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        list(pool.map(compile_kernels, range(len(jit._warmers))))
