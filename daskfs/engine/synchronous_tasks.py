"""What the workers of a cluster run in rounds: the pieces of `lanes`, which also say how long they took.

A state on its way from task to task carries what its pass has taken so far: a row of seconds for every lane. A task
adds to the row of its lane what it took itself, and of the states that it merges it takes the larger number of every
row, since each lane is furthest in its own. So these sums are as pure as the states: what dies and is done again
counts once, and they come to the driver with the state.

It also carries when it was ready. From the last of the states that a task needs until the task begins, its lane waits
for the scheduler, and for states on their way from other workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.events.messages import TOP, Spent
from daskfs.engine.events.meter import Meter
from daskfs.engine.events.send import from_task
from daskfs.engine.shards import fold_lane, merged, revisited
from daskfs.protocol import Algorithm, Preview, State, copy_state
from daskfs.store.dataset.dataset import Dataset


class Travelling(NamedTuple):
    """A state on its way from task to task."""

    state: State
    lane: int
    spent: NDArray[np.float64]
    ready: float


class ShardSeconds(NamedTuple):
    """Seconds of lanes, by what they were for: the columns of `Travelling.spent`."""

    busy: float
    merging: float
    scheduler: float


def fold_share(
    run: str, lane: int, lanes: int, algorithm: Algorithm, dataset: Dataset, numbers: range, *states: Any
) -> Travelling:
    """One lane's share of a round; see `fold_lane`."""
    handing, meter, spent = _handing_over(states), Meter(from_task(run)), _furthest(states, lanes)
    state = fold_lane(algorithm, dataset, numbers, *map(_bare, states), meter=meter)
    took = meter.done()
    spent[lane] += ShardSeconds(took.busy, took.merging, handing)
    return Travelling(state, lane, spent, time())


def merge_shares(run: str, algorithm: Algorithm, *states: Any) -> Travelling:
    """One state from those of several lanes."""
    handing, lane, spent = _handing_over(states), states[0].lane, _furthest(states, 0)
    meter = Meter(from_task(run))
    with meter.merging():
        state = merged(algorithm, *map(_bare, states))
    spent[lane] += ShardSeconds(0.0, meter.done().merging, handing)
    return Travelling(state, lane, spent, time())


def look_at_share(algorithm: Algorithm, state: State) -> Preview | None:
    """What a state shows that is on its way."""
    return algorithm.preview(_bare(state), TOP)


def revisit_a_copy(
    run: str, algorithm: Algorithm, dataset: Dataset, ids: NDArray[np.uint64], state: State
) -> tuple[State, Spent]:
    """Columns folded into a copy of a state once more, and what that took."""
    meter = Meter(from_task(run))
    return revisited(algorithm, dataset, ids, copy_state(state), meter), meter.done()


def arrived(state: Travelling) -> tuple[State, ShardSeconds]:
    """A state as it is outside of tasks, and the seconds that its lanes took, one after the other and summed up."""
    return _bare(state), ShardSeconds(*state.spent.sum(axis=0).tolist())


def _bare(state: Any) -> State:
    return state.state if isinstance(state, Travelling) else state


def _furthest(states: Sequence[Any], lanes: int) -> NDArray[np.float64]:
    """What every lane has taken, as far as it is known; nothing in a state that comes from the driver."""
    known = [state.spent for state in states if isinstance(state, Travelling)]
    furthest: NDArray[np.float64] = np.maximum.reduce(known or [np.zeros((lanes, len(ShardSeconds._fields)))])
    return furthest


def _handing_over(states: Sequence[Any]) -> float:
    """Seconds since the last of some states was ready; of one from the driver nobody knows."""
    ready = [state.ready for state in states if isinstance(state, Travelling)]
    return max(0.0, time() - max(ready)) if ready else 0.0  # clocks of two machines may differ
