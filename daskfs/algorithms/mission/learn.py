"""Which kernel learns rows, by method and shape; the paper's γ; and the k largest of what was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daskfs.algorithms.mission.general_kernels import active, sketched, thresholded
from daskfs.algorithms.mission.kernels import active_one, sketched_three
from daskfs.algorithms.mission.memory import Pace, Shape, memory_of, rule_of
from daskfs.algorithms.mission.memory_kernels import ROWS, Memory, Rows, Rule, fade, look_up, prune, settle
from daskfs.algorithms.mission.rows import part
from daskfs.protocol import State, copy_state

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

_MOST_ROWS = 1000  # between two times that the sketch fades
_TIMES = 100  # that it fades in a pass, if there are rows enough


def learn(params: Mission, shape: Shape, pace: Pace, state: State, rows: Rows, lanes: int = 1) -> int:
    """Learn rows up to one with a value that is not finite, and say how many those were."""
    return _learned(params, shape, memory_of(state), rule_of(params, shape, pace, lanes), rows)


def learn_and_fade(params: Mission, shape: Shape, pace: Pace, state: State, rows: Rows) -> int:
    """The same, and let the sketch fade at fixed numbers of rows, however blocks are cut.

    γ falls from 1 at the first row to 1 − `fading` at the last one of the last pass, as the paper has it.
    """
    memory, rule, lanes = memory_of(state), rule_of(params, shape, pace, state["lanes"]), state["lanes"]
    every = max(1, min(_MOST_ROWS, state["n_samples"] // _TIMES) // lanes)
    start, count = 0, len(rows.y)
    while start < count:
        at = int(memory.tally[ROWS])  # of this lane, since it met others
        stop = min(count, start + every - at % every)
        learned = start + _learned(params, shape, memory, rule, part(rows, start, stop))
        if learned < stop:
            return learned
        if (at + stop - start) % every == 0:
            rows_of_pass = state["tally_before"][ROWS] + lanes * memory.tally[ROWS]
            done = (state["passes"] - params.idf + rows_of_pass / state["n_samples"]) / params.passes
            fade(memory, rule, np.float32(1 - params.fading * min(1.0, done)), params.method == "active")
        start = stop
    return count


def take_last_step(params: Mission, shape: Shape, state: State) -> None:
    """At the end of a pass, take the step that gradients add up to where they wait for one: "batch-iht"."""
    if not shape.has_sketch:
        for t in range(shape.n_tables):
            settle(memory_of(state), rule_of(params, shape, Pace(0.0, 0.0, 0.0)), t)


def only_selected(params: Mission, shape: Shape, state: State) -> State:
    """A copy of the state whose tables hold no more than was asked for, with weights that are up to date."""
    state = copy_state(state)
    memory, rule = memory_of(state), rule_of(params, shape, Pace(0.0, 0.0, 0.0))
    for t in range(shape.n_tables):
        if not shape.has_sketch:
            settle(memory, rule, t)
            continue
        if params.method != "active":
            look_up(memory, rule, t)
        prune(memory, rule, t, params.method == "active")
    return state


def _learned(params: Mission, shape: Shape, memory: Memory, rule: Rule, rows: Rows) -> int:
    simple = shape.n_scores == 1 and shape.depth == 3
    if not shape.has_sketch:
        learned = thresholded(rows, memory, rule)
    elif params.method == "active":
        learned = active_one(rows, memory, rule) if simple else active(rows, memory, rule)
    else:
        learned = sketched_three(rows, memory, rule) if simple else sketched(rows, memory, rule)
    return int(learned)
