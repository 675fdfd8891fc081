"""How a stretch of asynchronous work is cut into groups of blocks, a task each. No Dask here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.shards import groups

_GROUPS_PER_WORKER = 6  # in a pass, at least: a lost centre or worker costs the groups that were running
_LOOKS_PER_WORKER = 3  # at columns that are seen once more
_SHORT_GROUPS = 8  # in a pass for every worker, where each begins with a new view
_GROUP_BYTES = 1 << 30  # at most: some tenths of a second of reading
_AHEAD = 3  # parts of what is left of a pass, for every worker: it is at one, and Dask has given it another
_LEAST_BYTES = 64 << 20  # towards the end of a pass: a hundredth of a second is what a group takes beside its blocks


def groups_of(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Runs of blocks from `position` on, each a task: several for every worker, and towards the end smaller ones.

    With tasks of one size some workers would end a pass half a task before others.

    >>> from daskfs.engine.asynchronous.groups import groups_of
    >>> list(groups_of(np.full(10, 100), 2, workers=1))
    [range(2, 4), range(4, 6), range(6, 8), range(8, 9), range(9, 10)]
    """
    total, first, nbytes = int(sizes.sum()), position, 0
    most = min(_GROUP_BYTES, total // (_GROUPS_PER_WORKER * workers))
    least = min(_LEAST_BYTES, most // 2)
    left = int(sizes[position:].sum())
    for number in range(position, len(sizes)):
        nbytes += int(sizes[number])
        if nbytes >= min(most, max(least, left // (_AHEAD * workers))) or number == len(sizes) - 1:
            yield range(first, number + 1)
            first, left, nbytes = number + 1, left - nbytes, 0


def short_groups(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Runs of blocks of one size, several for every worker."""
    return groups(sizes, position, min(_GROUP_BYTES, int(sizes.sum()) // (_SHORT_GROUPS * workers)))


def even_groups(size: int, workers: int) -> Iterator[range]:
    """A few groups for every worker, of columns for each of which a block is read, and little work done."""
    edges = np.linspace(0, size, min(size, _LOOKS_PER_WORKER * workers) + 1).astype(int).tolist()
    return (range(first, last) for first, last in pairwise(edges))
