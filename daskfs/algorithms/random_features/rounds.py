"""The rounds of Sparse Random Features, which draw, screen and fit features, and drop those with weight zero.

With the squared loss, a round has one pass that screens candidates, and one that adds the admitted features to the Gram
matrix. With other losses, a round takes some steps of Newton's method instead, each a pass with a weighted Gram matrix.
A large Gram matrix is added up in several passes.

    inputs ─► screen ─► gram ─► solve, drop zeros ─► screen …  ─► choose ─► done
    inputs ─► screen ─► newton ─► solve ─► newton … ─► drop zeros ─► screen …  ─► newton … ─► choose ─► newton … ─► done

Features that the user asked to keep are fitted alone before the first round, and are in every later fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from daskfs.algorithms.losses import LARGEST_TARGET, best_constants, check_size
from daskfs.algorithms.random_features import lasso, models
from daskfs.algorithms.random_features.inputs import fix_scaling
from daskfs.algorithms.random_features.models import drop_zeros
from daskfs.algorithms.random_features.scale import choose_scale
from daskfs.algorithms.random_features.state import (
    IdArray,
    PassKind,
    Quadratic,
    RandomFeaturesState,
    ScoreModel,
    Sums,
)
from daskfs.algorithms.random_features.sums import (
    current_slices,
    gram_slices,
    line_models,
    symmetrise,
    zero_sums,
)
from daskfs.algorithms.random_features.unpenalised import all_weights, kept_ridge
from daskfs.basis import LINEAR
from daskfs.errors import OptionError

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

CANDIDATES = 4  # drawn for every feature that may be admitted
_MIN_GAIN = 1e-3  # a round is idle if it lowers the objective by less than this share of it;
_PATIENCE = 2  # this many idle rounds in a row are the last ones
_AUTO_PENALTY = 0.5  # the penalty of rounds as a share of that of the sample, if held-back rows choose a larger one
_NEWTON_PASSES = 5  # at most in a round
_FINAL_STEPS = 12  # of Newton's method at most on the final working set, not counting line searches
_MAX_UNSCALED_TARGET = 1e15  # the square of an unscaled target must fit into float32
_NO_PENALTY = 1e-3  # stands for the penalty in the tolerance of a fit without one, as a share of the strongest
_ROUNDING = 1e-6  # of an objective summed over float32 scores, or of a gradient, where Σ|terms| ≤ √(2 Σ1 ΣL)
_NO_GAIN = 1e-9  # sums in float32 do not show changes of the objective below this share of it
_SMALL_GAIN = 1e-4  # a Newton step that promises less than this share of the objective ends its round
_NO_WEIGHT = "every row has weight 0: there is nothing to fit"
_ALL_HELD_BACK = "no row with a weight is left to learn from, as some are held back: give more rows, or a penalty alone"


def begin_pass(state: RandomFeaturesState, kind: PassKind) -> None:
    """Set the kind of the next pass, and the sums of the pass to zero."""
    state.pass_kind, state.slices_done = kind, 0
    _clear_sums(state)


def _clear_sums(state: RandomFeaturesState) -> None:
    state.sums, state.sums_before, state.is_merged = zero_sums(state), None, False


def finish_pass(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    """Use the sums of a pass over all rows, and begin the next pass, of kind "done" if no further pass is needed."""
    steps = {
        "inputs": _finish_inputs,
        "screen": _finish_screen,
        "gram": _finish_gram,
        "newton": _finish_newton,
        "line": _finish_line,
        "choose": _finish_choose,
    }
    steps[state.pass_kind](params, state, sums)


def _finish_inputs(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    inputs, total, quadratic = state.inputs, sums.weight, state.known_quadratic()
    if not total:
        raise OptionError(_ALL_HELD_BACK if sums.all_weight else _NO_WEIGHT)
    extremes = np.array([inputs.target_low, inputs.target_high])
    check_size(extremes, _MAX_UNSCALED_TARGET if params.scaling == "none" else LARGEST_TARGET)
    fix_scaling(params, state, sums)
    state.total = total
    choose_scale(params, state)
    if params.penalty == "auto" and state.holds_back:
        state.penalty *= _AUTO_PENALTY
    offset, scale = inputs.target_offset, inputs.target_scale
    quadratic.n = np.array([total])
    quadratic.t = (sums.y - offset * total) * scale
    squares = (sums.y_squared - 2 * offset * sums.y + offset**2 * total) * scale**2
    intercept, constant_loss = best_constants(state.fitted_loss, quadratic.t, squares, total)
    state.model = replace(state.model, intercept=intercept)
    _set_constant_loss(state, constant_loss)
    if len(state.kept):
        _admit(params, state, state.kept)
    else:
        _begin_round(params, state)


def _set_constant_loss(state: RandomFeaturesState, loss: float) -> None:
    state.constant_loss = state.objective = state.objective_of_round = loss


def _begin_round(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    room = min(params.per_round, params.max_features - state.n_penalised)
    if state.round == params.rounds or state.idle == _PATIENCE or room <= 0 or not state.penalty:
        _end_growth(params, state)
        return
    count = (CANDIDATES * params.per_round if params.screen else room) if state.draws_waves else 0
    drawn = np.arange(state.drawn, state.drawn + count, dtype=np.uint64)
    state.drawn += count
    state.round += 1
    if params.screen:
        state.candidates = drawn
        begin_pass(state, "screen")
    else:
        _admit(params, state, drawn)


def _finish_screen(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    candidates, gradient = state.candidates, np.abs(sums.gradient).max(axis=1)
    if params.has_linear_terms:
        columns = np.arange(len(sums.linear), dtype=np.uint64) + np.uint64(LINEAR)
        outside = ~np.isin(columns, state.active)
        candidates = np.concatenate([candidates, columns[outside]])
        of_linear = state.inputs.stretch * np.abs(sums.linear).max(axis=1)
        gradient = np.concatenate([gradient, of_linear[outside]])
    if state.round == 1:
        if not state.n_kept:
            _set_constant_loss(state, sums.loss)  # moments of a target far from zero have too few digits for it
        state.strongest = float(gradient.max())
    room = min(params.per_round, params.max_features - state.n_penalised)
    strongest = np.argsort(-gradient, kind="stable")[:room]
    admitted = np.sort(strongest[gradient[strongest] > state.penalty])
    ids = candidates[admitted]
    state.candidates = state.candidates[:0]
    if len(ids):
        _admit(params, state, ids)
    else:
        _end_round(params, state, state.objective)


def _admit(params: SparseRandomFeatures, state: RandomFeaturesState, ids: IdArray) -> None:
    """Add the features with these ids to the working set."""
    weights = state.model.weights
    state.n_known = len(state.active) if state.fitted_loss == "squared" else 0
    state.active = np.concatenate([state.active, ids])
    state.model = replace(state.model, weights=np.concatenate([weights, np.zeros((len(ids), weights.shape[1]))]))
    state.steps = state.newton_passes = 0
    _begin_gram(params, state)


def _begin_gram(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    """Begin the passes that add up the part of the working set's Gram matrices that is not known yet."""
    quadratic, known, size = state.known_quadratic(), state.n_known, len(state.active)
    gram = np.zeros((1 if state.fitted_loss == "squared" else len(state.model.intercept), size, size))
    if known:
        gram[:, :known, :known] = quadratic.gram
    quadratic.gram = gram
    begin_pass(state, "gram" if state.fitted_loss == "squared" else "newton")


def _fill_gram(state: RandomFeaturesState, sums: Sums) -> bool:
    """Copy the sums of a pass into the Gram matrices; begin another pass and return False if the matrices lack rows."""
    gram = state.known_quadratic().gram
    for (matrix, low, high), part in zip(current_slices(state), sums.gram_slices, strict=True):
        gram[matrix, low:high, :high] = part
    if state.slices_done + 1 < len(gram_slices(state.n_known, len(state.active), len(gram))):
        state.slices_done += 1
        _clear_sums(state)
        return False
    for matrix_of_score in gram:
        symmetrise(matrix_of_score)
    return True


def _finish_gram(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    quadratic, known = state.known_quadratic(), state.n_known
    if state.slices_done == 0:
        b = sums.gradient + sums.s * state.model.intercept
        quadratic.b = np.concatenate([quadratic.b[:known], b])
        quadratic.s = np.concatenate([quadratic.s[:known], sums.s])
        if not state.model.weights.any():
            _set_constant_loss(state, sums.loss)
    if not _fill_gram(state, sums):
        return
    (problem,), weights, state.kkt_residual = models.minimise(state, params.tolerance)
    state.strongest = state.strongest or lasso.largest_penalty(problem[1])
    objective = models.squared_objective(state, problem, weights)
    weights = all_weights(state, weights)
    state.model = ScoreModel(weights, models.best_intercepts(state, weights))
    drop_zeros(state)
    _end_round(params, state, objective)


def _finish_newton(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    growing = state.phase == "grow"
    if state.slices_done == 0:
        state.newton_passes += 1
        state.objective_at_step = sums.loss + _penalty_terms(state, state.model)
        gram = state.known_quadratic().gram
        state.quadratic = Quadratic(gram, b=sums.gradient, s=sums.s, n=sums.n, t=sums.residual)
        state.strongest = state.strongest or lasso.largest_penalty(sums.gradient[state.n_kept :])
        if state.steps and state.objective_at_step > (1 + _ROUNDING) * state.objective:
            if growing and state.newton_passes == _NEWTON_PASSES:  # no pass is left for a line search
                state.model = state.model_before
                _end_newton_round(params, state)
            else:
                begin_pass(state, "line")
            return
    if not _fill_gram(state, sums):
        return
    state.objective = state.objective_at_step
    models.shift_to_origin(state)
    step = models.newton_step(state, params.tolerance)
    state.kkt_residual = step.residual
    if growing:
        is_last = step.promised < _SMALL_GAIN * state.objective or state.newton_passes >= _NEWTON_PASSES
    else:
        enough = params.tolerance * (1.0 if state.penalty else _NO_PENALTY * state.strongest)
        no_gain = step.promised <= _NO_GAIN * state.objective
        is_last = state.steps == _FINAL_STEPS or step.residual <= enough or no_gain
    if not is_last:
        state.model_before, state.model = state.model, step.model
        state.steps += 1
        begin_pass(state, "newton")
    elif growing:  # the step is not taken: the objective is known at the current model
        _end_newton_round(params, state)
    else:
        _end_newton(params, state)


def _finish_line(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    """Set the model to the point between start and end of a Newton step where the objective is least."""
    state.newton_passes += 1
    points = line_models(state)
    objectives = [loss + _penalty_terms(state, model) for loss, model in zip(sums.losses.tolist(), points, strict=True)]
    best = int(np.argmin(objectives))
    state.model, state.objective = points[best], objectives[best]
    if state.phase == "grow" and state.newton_passes >= _NEWTON_PASSES:
        _end_newton_round(params, state)
    else:
        begin_pass(state, "newton")


def _penalty_terms(state: RandomFeaturesState, model: ScoreModel) -> float:
    kept, weights = model.weights[: state.n_kept], model.weights[state.n_kept :]
    terms = state.penalty * np.abs(weights).sum() + state.ridge / 2 * np.square(weights).sum()
    return float(terms + kept_ridge(state) / 2 * np.square(kept).sum())


def _end_newton_round(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    drop_zeros(state)
    _end_round(params, state, state.objective)


def _end_round(params: SparseRandomFeatures, state: RandomFeaturesState, objective: float) -> None:
    has_gained = state.objective_of_round - objective > _MIN_GAIN * objective
    state.objective = state.objective_of_round = objective
    if state.round == 0:  # the fit of kept features alone
        _begin_round(params, state)
        return
    state.idle = 0 if has_gained else state.idle + 1
    if params.n_select is not None and state.n_penalised < params.n_select:
        state.penalty, state.idle = state.penalty / 2, 0  # n_select features need at least as many to choose from
    _begin_round(params, state)


def _end_growth(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    if not len(state.active):
        begin_pass(state, "done")
    elif state.fitted_loss == "squared":
        _end_newton(params, state)
    else:
        _begin_newton(params, state, "final")


def _begin_newton(params: SparseRandomFeatures, state: RandomFeaturesState, phase: str) -> None:
    """Begin Newton's method, until it converges, on a working set that no longer changes."""
    state.phase, state.n_known = phase, 0
    state.steps = state.newton_passes = 0
    _begin_gram(params, state)


def _end_newton(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    """Begin a pass that chooses a model on held-back rows, or end the selection if there is nothing to choose."""
    if state.phase == "refit" or not models.begin_choice(params, state):
        drop_zeros(state)
        begin_pass(state, "done")
    else:
        begin_pass(state, "choose")


def _finish_choose(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    models.end_choice(state, sums)
    if state.fitted_loss == "squared":
        begin_pass(state, "done")
    else:
        _begin_newton(params, state, "refit")
