"""The rounds of Sparse Random Features: draw, screen, solve, drop what became zero; then choose, or settle.

A round of the squared loss is one pass that screens candidates and one that adds the columns of the admitted ones to
the Gram matrix. Other losses take some steps of Newton's method instead, each a pass with a weighted Gram matrix.

    inputs ─► screen ─► gram ─► solve, drop zeros ─► screen …  ─► choose ─► done
    inputs ─► screen ─► newton ─► solve ─► newton … ─► drop zeros ─► screen …  ─► newton … ─► choose ─► done
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import best_constants
from daskfs.algorithms.random_features import lasso
from daskfs.algorithms.random_features.choice import begin_choice, end_choice
from daskfs.algorithms.random_features.gram import whole
from daskfs.algorithms.random_features.inputs import settle_inputs
from daskfs.algorithms.random_features.steps import intercepts, keep_only, linearise, minimised, newton_step
from daskfs.algorithms.random_features.sums import FRACTIONS, Stage, Sums, layout, panels, size_of
from daskfs.errors import OptionError
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

CANDIDATES = 4  # drawn for every feature that may be admitted
PAYS = 1e-3  # of the objective: a round that lowers it by less does not pay,
PATIENCE = 2  # and so many of them in a row are the last
AUTO_PENALTY = 1e-3  # of the largest penalty that lets a feature in: where rounds go if they are to find the penalty
NEWTON_PASSES = 5  # at most in a round
LAST_STEPS = 12  # of Newton's method at most in the end, not counting passes that look for their length
_LARGEST_TARGET = 1e120  # the square of one still has its place among numbers,
_LARGEST_UNSCALED = 1e15  # and of one that stays as it is also among those of 32 bits
_NOBODY = "every row has weight 0: there is nothing to fit"
_NOBODY_HELD = "no row with a weight is left to learn from, as some are held back: give more rows, or a penalty alone"
_ROUNDING = 1e-6  # of an objective, added up over float32 scores, or of a pull, of which Σ|terms| ≤ √(2 Σ1 ΣL)
_NOTHING = 1e-9  # of the objective: sums in float32 do not show more
_SETTLED = 1e-4  # of the objective: a step of Newton's method that promises less is the last one of its round


def blank_rounds(n_scores: int) -> State:
    """Fields for the working set, before the first round."""
    none = np.empty(0, np.uint64)
    return {
        "stage": "inputs",
        "active": none,
        "candidates": none,
        "n_known": 0,  # columns of the working set that are in the Gram matrix
        "panels_done": 0,  # passes over parts of Gram matrices
        "drawn": 0,
        "weights": np.zeros((0, n_scores)),
        "weights_before": np.zeros((0, n_scores)),
        "intercept_before": np.zeros(n_scores),
        "models": np.zeros((0, 0, n_scores)),
        "model_intercepts": np.zeros((0, n_scores)),
        "gram": np.zeros((0, 0, 0)),
        "b": np.zeros((0, n_scores)),
        "s": np.zeros((0, 1)),
        "n": np.zeros(1),
        "t": np.zeros(n_scores),
        "constant": 0.0,  # loss of the best constant
        "total": 0.0,  # weight of all rows that are learned from
        "penalty": 0.0,
        "penalties": np.empty(0),  # of the models to choose from
        "ridges": np.empty(0),
        "held_back": 1.0,  # weight of the rows that chose among them
        "strongest": 0.0,  # pull of a candidate in the first round: a penalty above it lets nobody in
        "ridge": 0.0,  # of the refit of features that were chosen
        "objective": np.inf,
        "objective_now": np.inf,
        "objective_of_round": np.inf,
        "round": 0,
        "idle": 0,  # rounds in a row that did not pay
        "steps": 0,  # of Newton's method in this round
        "looks": 0,  # passes of it, also those that looked for the best length of a step
        "phase": "grow",
        "residual": 0.0,
        "raised": 0.0,  # share by which diagonals are raised against rounding
        "history": np.zeros((0, 5)),
    }


STAYS = frozenset({"gram", "b", "s", "n", "t", "history"})


def go_to(state: State, stage: Stage) -> None:
    """Make room for the sums of a stage."""
    state["stage"] = stage
    state["panels_done"] = 0
    clear_sums(state)


def clear_sums(state: State) -> None:
    size = size_of(layout(state))
    state["sums"], state["sums_before"], state["is_merged"] = np.zeros(size), np.zeros(0), False


def end_stage(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    """What follows from the sums of a pass."""
    ends = {"inputs": _inputs, "screen": _screened, "gram": _gram, "newton": _newton, "line": _line, "choose": _chosen}
    ends[state["stage"]](params, state, sums)


def _inputs(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    _check_target(params, state)
    settle_inputs(params, state, sums)
    offset, scale, total = state["target_offset"], state["target_scale"], float(sums["weight"])
    if not total:
        raise OptionError(_NOBODY_HELD if params.holds_back and sums["rows"] else _NOBODY)
    state["total"], state["n"] = total, np.array([total])
    state["t"] = (sums["y"] - offset * total) * scale
    squares = (sums["y²"] - 2 * offset * sums["y"] + offset**2 * total) * scale**2
    state["intercept"], state["constant"] = best_constants(params.loss, state["t"], squares, total)
    state["objective"] = state["objective_of_round"] = state["constant"]
    state["penalty"] = 0.0 if params.penalty == "auto" else float(params.penalty)
    _begin_round(params, state)


def _check_target(params: SparseRandomFeatures, state: State) -> None:
    largest = max(-state["target_low"], state["target_high"])
    most = _LARGEST_UNSCALED if params.scaling == "none" else _LARGEST_TARGET
    if largest > most:
        raise OptionError(f"the target has values of {largest:.3g}, of which no squares can be summed: divide it")


def _begin_round(params: SparseRandomFeatures, state: State) -> None:
    room = min(params.per_round, params.max_features - len(state["active"]))
    finished = state["round"] == params.rounds or state["idle"] == PATIENCE or room <= 0
    if finished:
        _end_growth(params, state)
        return
    count = CANDIDATES * params.per_round if params.screen else room
    drawn = np.arange(state["drawn"], state["drawn"] + count, dtype=np.uint64)
    state["drawn"] += count
    state["round"] += 1
    if params.screen or state["penalty"] == 0:  # also where the first round must tell how large penalties are here
        state["candidates"] = drawn
        go_to(state, "screen")
    else:
        _admit(params, state, drawn)


def _screened(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    pull = np.abs(sums["pull"]).max(axis=1)
    if state["round"] == 1:
        _measured(state, float(sums["loss"]))
        state["strongest"] = float(pull.max())
        if params.penalty == "auto" and state["strongest"] > _ROUNDING * np.sqrt(2 * state["total"] * sums["loss"]):
            state["penalty"] = AUTO_PENALTY * state["strongest"]  # else features are constant, or the target is
    room = min(params.per_round, params.max_features - len(state["active"]))
    strongest = np.argsort(-pull, kind="stable")[:room] if params.screen else np.arange(len(pull))
    admitted = np.sort(strongest[pull[strongest] > state["penalty"]]) if params.screen else strongest[:room]
    if not state["penalty"]:
        admitted = admitted[:0]
    ids = state["candidates"][admitted]
    state["candidates"] = np.empty(0, np.uint64)
    if len(ids):
        _admit(params, state, ids)
    else:
        _end_round(params, state, state["objective"])


def _measured(state: State, constant: float) -> None:
    """Take over the loss of the best constant as rows have it: squares of a target far from zero do not tell it."""
    state["constant"] = state["objective"] = state["objective_of_round"] = constant


def _admit(params: SparseRandomFeatures, state: State, ids: NDArray[np.uint64]) -> None:
    """Add features to the working set."""
    state["n_known"] = len(state["active"]) if params.loss == "squared" else 0
    state["active"] = np.concatenate([state["active"], ids])
    state["weights"] = np.concatenate([state["weights"], np.zeros((len(ids), state["weights"].shape[1]))])
    state["steps"] = state["looks"] = 0
    _ask_for_gram(params, state)


def _ask_for_gram(params: SparseRandomFeatures, state: State) -> None:
    """Begin the passes that fill a Gram matrix of the working set, beside what is known of it."""
    known, size = state["n_known"], len(state["active"])
    gram = np.zeros((1 if params.loss == "squared" else len(state["intercept"]), size, size))
    if known:
        gram[:, :known, :known] = state["gram"]
    state["gram"] = gram
    go_to(state, "gram" if params.loss == "squared" else "newton")


def _filled(state: State, sums: Sums) -> bool:
    """Enter panels into the Gram matrices; True if these are complete, else another pass begins."""
    gram = state["gram"]
    for name, panel in sums.items():
        if name.startswith("panel"):
            number, low, high = map(int, name.split()[1:])
            gram[number, low:high, :high] = panel
    n_passes = len(panels(state["n_known"], len(state["active"]), len(gram)))
    if state["panels_done"] + 1 < n_passes:
        state["panels_done"] += 1
        clear_sums(state)
        return False
    for matrix in gram:
        whole(matrix)
    return True


def _gram(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    if "b" in sums:
        known = state["n_known"]
        state["b"] = np.concatenate([state["b"][:known], sums["b"] + sums["s"] * state["intercept"]])
        state["s"] = np.concatenate([state["s"][:known], sums["s"]])
        if not state["weights"].any():
            _measured(state, float(sums["loss"]))
    if not _filled(state, sums):
        return
    ((gram, b),), state["weights"], state["residual"] = minimised(state, params.tolerance)
    state["strongest"] = state["strongest"] or lasso.largest_penalty(b)
    state["intercept"] = intercepts(state, state["weights"])
    objective = state["constant"] + lasso.objective(gram, b, state["weights"], state["penalty"])
    _drop_zeros(state)
    _end_round(params, state, objective)


def _newton(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    growing = state["phase"] == "grow"
    if "loss" in sums:
        state["looks"] += 1
        state["objective_now"] = float(sums["loss"]) + _penalties(state)
        state["b"], state["t"] = sums["pull"].copy(), sums["pull_0"].copy()
        state["s"], state["n"] = sums["s"].copy(), sums["n"].copy()
        state["strongest"] = state["strongest"] or lasso.largest_penalty(state["b"])
        if state["steps"] and state["objective_now"] > (1 + _ROUNDING) * state["objective"]:
            if growing and state["looks"] == NEWTON_PASSES:  # there is no pass left to look closer
                state["weights"], state["intercept"] = state["weights_before"], state["intercept_before"]
                _end_newton_round(params, state)
            else:
                go_to(state, "line")
            return
    if not _filled(state, sums):
        return
    state["objective"] = state["objective_now"]
    linearise(state)
    step = newton_step(state, params.tolerance)
    state["residual"] = step.residual
    enough = 1.0 if state["penalty"] else AUTO_PENALTY * state["strongest"]
    promises_little = growing and step.promised < _SETTLED * state["objective"]
    ends_here = state["looks"] >= NEWTON_PASSES if growing else state["steps"] == LAST_STEPS
    ends_here |= not growing and step.residual <= params.tolerance * enough
    ends_here |= not growing and step.promised <= _NOTHING * state["objective"]
    if not (promises_little or ends_here):  # else it stays where the objective is known
        state["weights_before"], state["intercept_before"] = state["weights"], state["intercept"]
        state["weights"], state["intercept"] = step.weights, step.intercept
        state["steps"] += 1
    if not growing and ends_here:
        _settled(params, state)
    elif promises_little or ends_here:
        _end_newton_round(params, state)
    else:
        go_to(state, "newton")


def _line(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    """Go that far along a step of Newton's method that the objective is lowest; not at all, if need be."""
    state["looks"] += 1
    steps = [
        {name: (1 - t) * state[f"{name}_before"] + t * state[name] for name in ("weights", "intercept")}
        for t in FRACTIONS
    ]
    objectives = [
        loss + _penalties({**state, **step}) for loss, step in zip(sums["losses"].tolist(), steps, strict=True)
    ]
    best = int(np.argmin(objectives))
    state.update(steps[best])
    state["objective"] = objectives[best]
    if state["phase"] == "grow" and state["looks"] >= NEWTON_PASSES:
        _end_newton_round(params, state)
    else:
        go_to(state, "newton")


def _end_newton_round(params: SparseRandomFeatures, state: State) -> None:
    """End a round at weights whose objective is known."""
    _drop_zeros(state)
    _end_round(params, state, state["objective"])


def _penalties(state: State) -> float:
    weights = state["weights"]
    return float(state["penalty"] * np.abs(weights).sum() + state["ridge"] / 2 * np.square(weights).sum())


def _drop_zeros(state: State) -> None:
    """Leave only features with a weight in the working set, and in what is known of it."""
    keep_only(state, np.flatnonzero(state["weights"].any(axis=1)))


def _end_round(params: SparseRandomFeatures, state: State, objective: float) -> None:
    paid = state["objective_of_round"] - objective > PAYS * objective
    state["objective"], state["objective_of_round"] = objective, objective
    state["idle"] = 0 if paid else state["idle"] + 1
    if params.n_select is not None and len(state["active"]) < params.n_select:
        state["penalty"], state["idle"] = state["penalty"] / 2, 0  # there must be so many to choose from
    _begin_round(params, state)


def _end_growth(params: SparseRandomFeatures, state: State) -> None:
    if not len(state["active"]):
        go_to(state, "done")
    elif params.loss == "squared":
        _settled(params, state)
    else:
        _settle(params, state, "settle")


def _settle(params: SparseRandomFeatures, state: State, phase: str) -> None:
    """Newton's method to the end, on a working set that stays."""
    state["phase"], state["n_known"] = phase, 0
    state["steps"] = state["looks"] = 0
    _ask_for_gram(params, state)


def _settled(params: SparseRandomFeatures, state: State) -> None:
    if state["phase"] == "refit" or not begin_choice(params, state):
        _drop_zeros(state)
        go_to(state, "done")
    else:
        go_to(state, "choose")


def _chosen(params: SparseRandomFeatures, state: State, sums: Sums) -> None:
    end_choice(state, sums)
    if params.loss == "squared":
        go_to(state, "done")
    else:
        _settle(params, state, "refit")
