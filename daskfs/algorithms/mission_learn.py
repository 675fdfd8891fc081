"""Which kernel learns rows, by method and shape, and what happens when it meets a value it cannot use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daskfs.algorithms.mission_kernels import (
    Rows,
    active,
    active_one,
    look_up,
    prune,
    settle,
    sketched,
    sketched_three,
    thresholded,
)
from daskfs.algorithms.mission_memory import Pace, Shape, memory_of, rule_of
from daskfs.protocol import State, copied

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission


def learn(chosen: Mission, shape: Shape, pace: Pace, state: State, rows: Rows, lanes: int = 1) -> int:
    """Learn rows up to one with a value that is not finite, and say how many those were."""
    rule, memory = rule_of(chosen, shape, pace, lanes), memory_of(state)
    simple = shape.n_scores == 1 and shape.depth == 3
    if not shape.has_sketch:
        learned = thresholded(rows, memory, rule)
    elif chosen.method == "active":
        learned = active_one(rows, memory, rule) if simple else active(rows, memory, rule)
    else:
        learned = sketched_three(rows, memory, rule) if simple else sketched(rows, memory, rule)
    return int(learned)


def only_selected(chosen: Mission, shape: Shape, state: State) -> State:
    """A copy of the state whose tables hold no more than was asked for, with weights that are up to date."""
    state = copied(state)
    memory, rule = memory_of(state), rule_of(chosen, shape, Pace(0.0, 0.0, 0.0))
    for t in range(shape.n_tables):
        if not shape.has_sketch:
            settle(memory, rule, t)
            continue
        if chosen.method != "active":
            look_up(memory, rule, t)
        prune(memory, rule, t, chosen.method == "active")
    return state
