"""How many rows have a feature, of any number of features: counted in two rows of cells, of which the smaller is right.

Both can only be too large, by whoever shares the cell. A weight such as log(n / count) hardly minds.
"""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.mission.sketch_kernels import folded, mixed
from daskfs.jit import helper, kernel, warms


@helper
def two_cells(feature, bits):
    """The cells of a feature."""
    h = mixed(feature)
    return h >> np.uint64(64 - bits), folded(h) >> np.uint64(64 - bits)


@kernel
def count_features(ids, cells, bits):
    """Count every entry; `cells` is (2, 2^bits)."""
    for e in range(len(ids)):
        i, j = two_cells(ids[e], bits)
        cells[0, i] += 1
        cells[1, j] += 1


@kernel
def largest_of_two(ids, cells, bits, out):
    """Of the two cells of every feature the larger number, such as a weight that falls with the count."""
    for e in range(len(ids)):
        i, j = two_cells(ids[e], bits)
        out[e] = max(cells[0, i], cells[1, j])


@warms
def _warm_up() -> None:
    ids = np.zeros(1, np.uint64)
    frozen = ids.view()
    frozen.flags.writeable = False
    for some in (ids, frozen):
        count_features(some, np.zeros((2, 2), np.uint32), 1)
        largest_of_two(some, np.zeros((2, 2), np.float32), 1, np.empty(1, np.float32))
