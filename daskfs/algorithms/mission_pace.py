"""How fast MISSION learns: from the size of the values, and by a race of several rates over the first rows.

With rows of unit norm a rate means the same whatever the data, so rates are for those, and divided by the mean squared
norm of the rows there are. The step for a feature falls with 1/√(1 + N/β), where N adds up v²·‖pull‖² over its
sightings; β is so many times a mean squared value, so that it counts sightings of a typical value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission_kernels import LOSS, WEIGHT, Rows
from daskfs.algorithms.mission_learn import learn
from daskfs.algorithms.mission_memory import Pace, Shape, memory_of
from daskfs.algorithms.mission_rows import part
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SIGHTINGS = 30.0
PAPER_RATE = 0.5
_RACE_ROWS = 8192
_HARDLY_WORSE = 1.03  # a slower rate that costs so little tells signal from noise better


def measured(rows: Rows) -> tuple[float, float]:
    """The mean squared norm of the rows, and the mean squared value of their entries; 1 where there are none."""
    total = float(np.square(rows.values, dtype=np.float64).sum())
    return total / max(1, len(rows.y)) or 1.0, total / max(1, len(rows.values)) or 1.0


def pace_of(chosen: Mission, rate: float, size: tuple[float, float]) -> Pace:
    """The pace of a rate that is meant for rows of unit norm."""
    norm, value = size
    if chosen.loss == "squared" and chosen.method != "active":
        rate *= 2  # the paper's loss has no ½
    per_sighting = 1 / (chosen.sightings * value) if chosen.method == "active" else 0.0
    return Pace(rate / norm, per_sighting, value**0.5)


def raced(chosen: Mission, shape: Shape, size: tuple[float, float], rows: Rows) -> NDArray[np.float64]:
    """The losses of all rates over the first of some rows; zeros where there is nothing to choose."""
    if chosen.learning_rate != "auto" or chosen.method != "active":
        return np.zeros(len(RATES))
    first = part(rows, 0, min(_RACE_ROWS, len(rows.y)))
    return np.array([_loss(chosen, shape, pace_of(chosen, rate, size), first) for rate in RATES])


def rate_of(chosen: Mission, race: NDArray[np.float64]) -> float:
    """The rate for rows of unit norm: the one that was given, or that has won."""
    if chosen.learning_rate != "auto":
        return float(chosen.learning_rate)
    if chosen.method != "active":
        return PAPER_RATE
    return RATES[int(np.flatnonzero(race <= _HARDLY_WORSE * race.min())[0])]


def _loss(chosen: Mission, shape: Shape, pace: Pace, rows: Rows) -> float:
    """What the rows cost before they are learned, with a memory that begins with nothing."""
    state: State = shape.empty()
    learn(chosen, shape, pace, state, rows)
    tally = memory_of(state).tally
    return float(tally[LOSS] / tally[WEIGHT]) if tally[WEIGHT] else 0.0
