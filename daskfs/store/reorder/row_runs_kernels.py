"""Hashes of the parts of a file, by which a part that is read on its own can be checked."""

from __future__ import annotations

import numpy as np

from daskfs.jit import kernel, warms
from daskfs.store.dataset.hashing_kernels import feature_id
from daskfs.store.dataset.names_kernels import gather


@kernel
def hash_parts(file, edges, out):
    """The hash of every part ``file[edges[i] : edges[i + 1]]``."""
    for i in range(len(out)):
        out[i] = feature_id(file, edges[i], edges[i + 1])


@warms
def _warm() -> None:
    numbers = np.zeros(2, np.int64)
    hash_parts(np.zeros(1, np.uint8), numbers, np.zeros(1, np.uint64))
    for dtype in (np.uint32, np.uint64):
        cells = np.zeros(1, dtype)
        gather(cells, numbers, numbers.astype(np.uint32), cells.copy())
