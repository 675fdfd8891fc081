"""How a pass is shared: it is cut into rounds, and a round into lanes that run side by side. No Dask here.

Every lane of a round begins with the same state and folds blocks of its own into it; then the states are merged,
and the next round begins. One lane is the plain loop over all blocks. The pieces of work are pure: they change no
state they are given, so that a cluster may run any of them again, anywhere, and get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from daskfs.engine.events.meter import Meter
from daskfs.errors import CheckpointError
from daskfs.protocol import Algorithm, State, copy_state
from daskfs.store.dataset.dataset import Dataset

Round = list[range]
"""The blocks of each lane."""
Item = TypeVar("Item")

FAN_IN = 4  # states that one task merges: its memory and its network traffic grow with them
GROUP_BYTES = 256 << 20  # of one lane's tasks at most: some tenths of a second at the speed of reading or of a kernel


def rounds_of(sizes: NDArray[np.int64], lanes: int, meetings: int = 1, position: int = 0) -> list[Round]:
    """The rounds of a pass from block `position` on; a round is a run of blocks, and so is each lane's share of it.

    Parameters
    ----------
    sizes
        Bytes of every block.
    lanes
        How many. One lane has no rounds that matter, they are cut by size; several meet at fixed places.
    meetings
        How often at least; large passes have more rounds, so that no task grows too long.
    position
        The blocks before this one are in the state already.

    Examples
    --------
    >>> from daskfs.engine.shards import rounds_of
    >>> rounds_of(np.full(6, 100), lanes=2, meetings=10)
    [[range(0, 1), range(1, 2)], [range(2, 3), range(3, 4)], [range(4, 5), range(5, 6)]]
    """
    n = len(sizes)
    if lanes == 1:
        return [[group] for group in groups(sizes, position, GROUP_BYTES)]
    wanted = max(meetings, -(-int(sizes.sum()) // (lanes * GROUP_BYTES)))
    count = max(1, min(wanted, n // lanes))
    edges = [lanes * (n // lanes * number // count) for number in range(count)] + [n]  # shares of the same size
    if position not in edges:
        raise CheckpointError(f"no round of {lanes} lanes ends at block {position}: start over without resume")
    return [_split(start, stop, lanes) for start, stop in pairwise(edges) if start >= position]


def _split(start: int, stop: int, lanes: int) -> Round:
    edges = [start + (stop - start) * lane // lanes for lane in range(lanes + 1)]
    return [range(first, last) for first, last in pairwise(edges)]


def groups(sizes: NDArray[np.int64], position: int, most: int) -> Iterator[range]:
    """Runs of blocks from `position` on, each of about `most` bytes and no more than a block beyond that.

    >>> from daskfs.engine.shards import groups
    >>> list(groups(np.full(6, 100), 1, most=200))
    [range(1, 3), range(3, 5), range(5, 6)]
    """
    first, total = position, 0
    for number in range(position, len(sizes)):
        total += int(sizes[number])
        if total >= most or number == len(sizes) - 1:
            yield range(first, number + 1)
            first, total = number + 1, 0


def merged(algorithm: Algorithm, *states: State) -> State:
    """One state from several, all of which stay as they are."""
    return copy_state(states[0]) if len(states) == 1 else algorithm.merge(states)


def joined(items: Sequence[Item], merge: Callable[..., Item]) -> Item:
    """One item from several, merged by threes and fours like a tree; `merge` takes a handful of items."""
    while len(items) > 1:
        groups = [items[start : start + FAN_IN] for start in range(0, len(items), FAN_IN)]
        items = [merge(*group) if len(group) > 1 else group[0] for group in groups]
    return items[0]


def fold_lane(
    algorithm: Algorithm, dataset: Dataset, numbers: range, *states: State, meter: Meter | None = None
) -> State:
    """One lane's share of a round: the states of the round before, merged, and some blocks folded into that."""
    meter = meter or Meter()
    with meter.merging():
        state = merged(algorithm, *states)
    for block in meter.over(dataset.blocks(numbers, axis=algorithm.axis)):
        state = algorithm.update(state, block)
    return state


def revisited(algorithm: Algorithm, dataset: Dataset, ids: NDArray[np.uint64], state: State, meter: Meter) -> State:
    """The state with some columns folded into it once more; changes the state."""
    for block in meter.over(dataset.columns(ids)):
        state = algorithm.update(state, block)
    return state


@contextmanager
def one_blas_thread() -> Iterator[Any]:
    """Like the workers of a cluster: with several threads, sums come out differently in their last bits."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    """What numpy and scipy calculate with, which is all that kernels use; to find it takes a twentieth of a second."""
    import scipy.linalg  # noqa: F401  # kernels load its BLAS at their first call, too late for the limit

    return ThreadpoolController()
