"""Compile all kernels into the cache, in a process of its own: compiling takes hundreds of megabytes that stay taken.

`make test` runs this first. Otherwise each test process would compile what its tests meet, and grow to gigabytes.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import daskfs
from daskfs.jit import warm_up

if __name__ == "__main__":
    for module in walk_packages(daskfs.__path__, "daskfs."):
        if module.name.startswith(("daskfs.algorithms", "daskfs.basis")) or module.name.endswith("kernels"):
            import_module(module.name)
    warm_up()
