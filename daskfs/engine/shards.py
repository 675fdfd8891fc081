"""How a pass is divided: into rounds of shards whose states are merged, or into groups of blocks, one task a group.

In a round every shard begins with the same state and folds its own blocks into a copy of that state. After a round the
states of all shards are merged, and the next round begins with the merged state. With one shard a pass is the plain
loop over all blocks. Folding and merging do not change the states in the arguments, so that Dask may repeat a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from daskfs.engine.events.messages import Meter
from daskfs.errors import CheckpointError
from daskfs.protocol import Algorithm, Block, Sharing, State, copy_state

ShardBlocks = list[range]
"""One range of block numbers for every shard of a round."""
Mergeable = TypeVar("Mergeable")

FAN_IN = 4  # states that one task merges: its memory and its network traffic grow with them
GROUP_BYTES = 256 << 20  # of a synchronous task at most: some tenths of a second of reading or of a kernel
_ROUND_BYTES_PER_SHARD = 16 << 20  # or this for each shard: after a round all wait while Dask serves each, for 3 ms
FIXED_SHARD_BYTES = 1 << 30  # of a pass, for each shard if their number follows from the data
MOST_FIXED_SHARDS = FAN_IN  # which one process may have to hold and merge
ASYNCHRONOUS_GROUP_BYTES = 1 << 30  # of an asynchronous task at most: some tenths of a second of reading
_LAST_GROUP_BYTES = 64 << 20  # towards the end of a pass: a group costs a hundredth of a second beside its blocks
_GROUPS_PER_WORKER = 6  # of a pass, at least: a lost centre or worker costs the groups that were running
_REVISITS_PER_WORKER = 3  # groups of columns to revisit
_SHORT_GROUPS_PER_WORKER = 8  # of a pass whose groups each begin with a new view
_PARTS_LEFT = 3  # groups into which the rest of a pass is cut per worker: it runs one, and Dask has queued another


def rounds_of(sizes: NDArray[np.int64], n_shards: int, merges: int = 1, position: int = 0) -> list[ShardBlocks]:
    """Return the rounds of a pass from block `position` on: for every round, a range of blocks for every shard.

    The `sizes` are the bytes of every block. Rounds of one shard are cut by size. Rounds of several shards end at fixed
    blocks: there are `merges` rounds, more in a large pass so that no task takes too long, and fewer if blocks are few.

    >>> from daskfs.engine.shards import rounds_of
    >>> rounds_of(np.full(6, 100), n_shards=2, merges=10)
    [[range(0, 1), range(1, 2)], [range(2, 3), range(3, 4)], [range(4, 5), range(5, 6)]]
    """
    n = len(sizes)
    if n_shards == 1:
        return [[group] for group in groups_of(sizes, position, lambda left: GROUP_BYTES)]
    count = max(1, min(least_rounds(int(sizes.sum()), n_shards, merges), n // n_shards))
    edges = [n_shards * (n // n_shards * number // count) for number in range(count)] + [n]  # shards of the same size
    if position not in edges:
        raise CheckpointError(f"no round of {n_shards} shards ends at block {position}: start over without resume")
    return [
        [range(*ends) for ends in pairwise(start + (stop - start) * shard // n_shards for shard in range(n_shards + 1))]
        for start, stop in pairwise(edges)
        if start >= position
    ]


def most_shards(workers: int, n_blocks: int, nbytes: int, sharing: Sharing) -> int:
    """Return the number of shards of a pass: one for each of the `workers`, and fewer if the data are small.

    If the algorithm has fixed shards, their number does not depend on the number of workers.

    >>> from daskfs.engine.shards import most_shards
    >>> from daskfs.protocol import Sharing
    >>> most_shards(16, 100, 10**9, Sharing(min_merges_per_pass=10, min_bytes_per_merge=10**7))
    10
    >>> [most_shards(workers, 100, 3 * 2**30, Sharing(has_fixed_shards=True)) for workers in (1, 2, 16)]
    [3, 3, 3]
    """
    if sharing.has_fixed_shards:
        return max(1, min(MOST_FIXED_SHARDS, n_blocks, nbytes // FIXED_SHARD_BYTES))
    least = sharing.min_merges_per_pass * sharing.min_bytes_per_merge
    return max(1, min(workers, n_blocks, nbytes // least if least else workers))


def least_rounds(nbytes: int, n_shards: int, merges: int) -> int:
    """Return the least number of rounds of a pass over `nbytes` bytes: `merges`, or more to limit the time of a task.

    With many shards tasks may be longer, since after a round all workers wait until the scheduler has served each one.

    >>> from daskfs.engine.shards import least_rounds
    >>> least_rounds(10**12, 16, 10), least_rounds(10**12, 256, 10)
    (233, 10)
    """
    task_bytes = max(GROUP_BYTES, n_shards * _ROUND_BYTES_PER_SHARD)
    return max(merges, -(-nbytes // (n_shards * task_bytes)))


def groups_of(sizes: NDArray[np.int64], position: int, limit: Callable[[int], int]) -> Iterator[range]:
    """Yield consecutive groups of blocks from block `position` on, of at least ``limit(left)`` bytes.

    The argument `left` is the number of bytes from the first block of the group to the end of the pass.

    >>> from daskfs.engine.shards import groups_of
    >>> list(groups_of(np.full(6, 100), 1, lambda left: 200))
    [range(1, 3), range(3, 5), range(5, 6)]
    """
    first, nbytes, left = position, 0, int(sizes[position:].sum())
    for number in range(position, len(sizes)):
        nbytes += int(sizes[number])
        if nbytes >= limit(left) or number == len(sizes) - 1:
            yield range(first, number + 1)
            first, left, nbytes = number + 1, left - nbytes, 0


def shrinking_groups(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Yield several groups of blocks for every worker, with smaller groups towards the end of the pass.

    With groups of equal size some workers would end a pass half a group before other workers.

    >>> from daskfs.engine.shards import shrinking_groups
    >>> list(shrinking_groups(np.full(10, 100), 2, workers=1))
    [range(2, 4), range(4, 6), range(6, 8), range(8, 9), range(9, 10)]
    """
    largest = min(ASYNCHRONOUS_GROUP_BYTES, int(sizes.sum()) // (_GROUPS_PER_WORKER * workers))
    smallest = min(_LAST_GROUP_BYTES, largest // 2)
    return groups_of(sizes, position, lambda left: min(largest, max(smallest, left // (_PARTS_LEFT * workers))))


def short_groups(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Yield several groups of blocks for every worker, all groups of about the same size."""
    limit = min(ASYNCHRONOUS_GROUP_BYTES, int(sizes.sum()) // (_SHORT_GROUPS_PER_WORKER * workers))
    return groups_of(sizes, position, lambda left: limit)


def revisit_groups(n_columns: int, workers: int) -> Iterator[range]:
    """Yield a few groups of columns for every worker: few, because columns of a group may be in the same block."""
    edges = np.linspace(0, n_columns, min(n_columns, _REVISITS_PER_WORKER * workers) + 1).astype(int).tolist()
    return (range(first, last) for first, last in pairwise(edges))


def merge_states(algorithm: Algorithm, *states: State) -> State:
    """Return one state merged from several states, without changing the states in the arguments."""
    return copy_state(states[0]) if len(states) == 1 else algorithm.merge(states)


def merge_tree(items: Sequence[Mergeable], merge: Callable[..., Mergeable]) -> Mergeable:
    """Return one item from several items, merged as a tree in which `merge` takes two to `FAN_IN` items."""
    while len(items) > 1:
        groups = [items[start : start + FAN_IN] for start in range(0, len(items), FAN_IN)]
        items = [merge(*group) if len(group) > 1 else group[0] for group in groups]
    return items[0]


def fold_blocks(algorithm: Algorithm, state: State, blocks: Iterable[Block], meter: Meter) -> State:
    """Return the state after blocks have been folded into the state, which may change in place."""
    for block in meter.over(blocks):
        state = algorithm.update(state, block)
    return state


@contextmanager
def one_blas_thread() -> Iterator[Any]:
    """Limit BLAS to one thread, as on Dask workers, because the number of threads changes the last bits of sums."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    """Return a controller of the BLAS libraries of numpy and scipy, cached because finding them takes 50 ms."""
    import scipy.linalg  # noqa: F401  # kernels load its BLAS at their first call, too late for the limit

    return ThreadpoolController()
