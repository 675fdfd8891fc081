"""How fast MISSION learns: from the size of the values, and by a race of several rates over the first rows.

With rows of unit norm a rate means the same whatever the data, so rates are for those, and divided by the mean squared
norm of the rows there are. The step for a feature falls with 1/√(1 + N/β), where N adds up v²·‖pull‖² over its
sightings; β is so many times a mean squared value, so that it counts sightings of a typical value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.learn import learn
from daskfs.algorithms.mission.memory import Pace, Shape
from daskfs.algorithms.mission.memory_kernels import LOSS, WEIGHT, Rows
from daskfs.algorithms.mission.pairs import windows
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)  # 128 wins where features are seen once or twice
_FIRST = 2  # the race begins with this one and the next, between which the best of usual data is
SIGHTINGS = 30.0
PAPER_RATE = 0.5
_SLOWER = 2  # than what does best on the first rows: it tells signal from noise better, and there are many more rows


def settle_pace(params: Mission, shape: Shape, state: State, rows: Rows, first: int) -> None:
    """Measure the first rows, and race rates over them where there is something to choose."""
    state["size"][:] = _measured(windows(rows, state, first))
    if params.learning_rate == "auto" and params.method == "active":
        state["race"][:] = race(lambda rate: _loss(params, shape, rate, state, rows, first))


def race(loss_at: Callable[[float], float]) -> NDArray[np.float64]:
    """What each of the `RATES` costs. Not all of them run: cost falls up to the best rate, and rises behind it.

    So two of them say on which side the best one lies, and that side is run until one does worse. For the
    others stands what those next to them lead to expect: lanes, of whose races the mean counts, need not run the same
    ones.
    """
    costs = np.full(len(RATES), np.nan)
    first = _FIRST
    costs[first], costs[first + 1] = loss_at(RATES[first]), loss_at(RATES[first + 1])
    step = 1 if _bounded(costs[first + 1]) < _bounded(costs[first]) else -1
    at = first + (step > 0)
    while 0 <= at + step < len(RATES):
        at += step
        costs[at] = loss_at(RATES[at])
        if _bounded(costs[at]) > _bounded(costs[at - step]):
            break
    low, high = min(first, at), max(first + 1, at)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(high + 1, len(RATES)):
            costs[i] = 2 * costs[i - 1] - costs[i - 2]
        for i in range(low - 1, -1, -1):
            costs[i] = 2 * costs[i + 1] - costs[i + 2]
    return costs


def _bounded(costs: Any) -> Any:
    """Costs to compare by: those of a rate at which numbers grow beyond bounds are infinite."""
    return np.where(np.isnan(costs), np.inf, costs)


def rate_of(params: Mission, costs: NDArray[np.float64]) -> float:
    """The rate for rows of unit norm: the one that was given, or that has won."""
    if params.learning_rate != "auto":
        return float(params.learning_rate)
    if params.method != "active":
        return PAPER_RATE
    return RATES[int(_bounded(costs).argmin())] / _SLOWER


def pace_of(params: Mission, rate: float, size: tuple[float, float]) -> Pace:
    """The pace of a rate that is meant for rows of unit norm."""
    norm, value = size
    if params.loss == "squared" and params.method != "active":
        rate *= 2  # the paper's loss has no ½
    per_sighting = 1 / (params.sightings * value) if params.method == "active" else 0.0
    return Pace(rate / norm, per_sighting, value**0.5)


def _measured(some: Iterable[Rows]) -> tuple[float, float]:
    """The mean squared norm of rows, and the mean squared value of their entries; 1 where there are none."""
    total, n_rows, n_entries = 0.0, 0, 0
    for rows in some:
        total += float(np.square(rows.values, dtype=np.float64).sum())
        n_rows, n_entries = n_rows + len(rows.y), n_entries + len(rows.values)
    return total / max(1, n_rows) or 1.0, total / max(1, n_entries) or 1.0


def _loss(params: Mission, shape: Shape, rate: float, state: State, rows: Rows, first: int) -> float:
    """What the rows cost before they are learned at a rate, with a memory that begins with nothing."""
    trial, pace = shape.empty(), pace_of(params, rate, state["size"])
    for some in windows(rows, state, first):
        learn(params, shape, pace, trial, some)
    tally = trial["tally"]
    return float(tally[LOSS] / tally[WEIGHT]) if tally[WEIGHT] else 0.0
