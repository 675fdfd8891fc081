"""Quadratic models of the objective on the working set, their minimisation, and the choice among several models.

With the squared loss all scores share one Gram matrix. With other losses every score has its own Gram matrix, weighted
by the curvature of the loss at the current scores. A penalty, or exactly `n_select` features, are chosen from the path
of solutions on the last Gram matrix, and a penalty also from the path of the linear terms alone. The choice takes one
more pass, in which all these models score the held-back rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.algorithms.random_features import lasso
from daskfs.algorithms.random_features.lasso import Float64Array, LassoProblem
from daskfs.algorithms.random_features.state import RandomFeaturesState, ScoreModel, Sums
from daskfs.algorithms.random_features.unpenalised import (
    all_weights,
    kept_terms,
    penalised_problems,
    shortest_solution,
)
from daskfs.basis import is_linear

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

PATH_LENGTH = 20  # penalties to choose from, from the largest that admits a feature to the one of the rounds
RIDGES = (1e-7, 1e-5, 1e-3)  # for the refit with exactly `n_select` features, as shares of the mean square of a feature
_FLAT = 1e-12  # a curvature below this share of the weight of all rows does not determine an intercept
_MIN_BOOST, _MAX_BOOST = 1e-8, 1e-3


class NewtonStep(NamedTuple):
    """A step of Newton's method from the current model to the minimum of the quadratic models."""

    model: ScoreModel
    promised: float
    """The decrease of the objective that the quadratic models predict."""
    residual: float
    """The KKT residual of the current weights as a share of the penalty, or without a penalty the largest gradient."""


def newton_step(state: RandomFeaturesState, tolerance: float) -> NewtonStep:
    """Return the step from the current model to the minimum of the quadratic models."""
    weights, penalty = state.penalised_weights, state.penalty
    promised = residual = 0.0
    if penalty:
        problems, new, _ = minimise(state, tolerance)
    else:
        problems = lasso_problems(state)
        for gram, _ in problems:
            gram.flat[:: len(gram) + 1] += state.ridge
        new = np.hstack([ridge(gram, b, 0.0) for gram, b in problems])
    for number, (gram, b) in enumerate(problems):
        before, after = weights[:, number], new[:, number]
        promised += _value(gram, b[:, 0], before, penalty) - _value(gram, b[:, 0], after, penalty)
        distance = (
            lasso.kkt_residual(gram, b[:, 0], before, penalty)
            if penalty and len(b)
            else np.abs(gram @ before - b[:, 0]).max(initial=0.0)
        )
        residual = max(residual, float(distance))
    kept = kept_terms(state) if state.n_kept else []
    for number, terms in enumerate(kept):
        v, w = state.model.weights[: state.n_kept, number], weights[:, number : number + 1]
        change = v - terms.best(w)[:, 0]
        gradient = terms.N @ change
        promised += float(change @ gradient / 2)
        residual = max(residual, float(np.abs(gradient).max()) / (min(penalty, state.strongest) or 1.0))
    new = all_weights(state, new)
    return NewtonStep(ScoreModel(new, best_intercepts(state, new)), promised, residual)


def minimise(state: RandomFeaturesState, tolerance: float) -> tuple[list[LassoProblem], Float64Array, float]:
    """Return the lasso problems of a state, the penalised weights that minimise them, and the weights' KKT residual.

    Sums in float32 give a Gram matrix with eigenvalues slightly below zero. If the penalty is too small to make up for
    negative eigenvalues, so that weights grow without end, every diagonal is raised by a tiny share of itself, also in
    later rounds.
    """
    start = state.penalised_weights
    if not len(start):
        return lasso_problems(state), start, 0.0
    while True:
        problems = lasso_problems(state)
        with np.errstate(over="ignore", invalid="ignore"):
            solution = lasso.solve(problems, state.penalty, start, tolerance, state.objective)
            if _is_possible(state, problems, solution.weights) or state.diagonal_boost > _MAX_BOOST:
                return problems, solution.weights, solution.residual
        problems = []  # frees as much memory as the Gram matrices take
        state.diagonal_boost = max(10 * state.diagonal_boost, _MIN_BOOST)


def _is_possible(state: RandomFeaturesState, problems: list[LassoProblem], weights: Float64Array) -> bool:
    """Return whether weights could minimise the objective, given that no loss is negative.

    At a minimum, the penalty term cannot exceed the current objective, and the objective cannot be below zero.
    """
    penalty, objective = state.penalty, state.objective
    if not penalty * np.abs(weights).sum() <= objective:
        return False
    if state.pass_kind == "gram":
        return squared_objective(state, problems[0], weights) >= 0.0
    promised = sum(
        _value(gram, b[:, 0], state.penalised_weights[:, number], penalty)
        - _value(gram, b[:, 0], weights[:, number], penalty)
        for number, (gram, b) in enumerate(problems)
    )
    return bool(promised <= objective)


def _value(gram: Float64Array, b: Float64Array, w: Float64Array, penalty: float) -> float:
    return float(w @ (gram @ w / 2 - b) + penalty * np.abs(w).sum())


def squared_objective(state: RandomFeaturesState, problem: LassoProblem, weights: Float64Array) -> float:
    """Return the objective with the squared loss, for penalised weights and the best kept weights and intercept."""
    kept = sum(terms.gain() for terms in kept_terms(state)) if state.n_kept else 0.0
    return state.constant_loss - kept + (lasso.objective(*problem, weights, state.penalty) if len(weights) else 0.0)


def lasso_problems(state: RandomFeaturesState) -> list[LassoProblem]:
    """Return G (P, P) and b (P, scores) of ½ wᵀGw − bᵀw for every Gram matrix, for the weights w with a penalty.

    The intercept and the weights of kept features are the best ones for every w.
    """
    weights, problems = state.penalised_weights, []
    for number, (gram, b) in enumerate(penalised_problems(state)):
        boost = state.diagonal_boost * gram.diagonal()
        gram.flat[:: len(gram) + 1] += boost
        if state.pass_kind != "gram":  # in Newton's method the boost penalises the length of the step, not the weights
            columns = slice(None) if b.shape[1] == weights.shape[1] else slice(number, number + 1)
            b = b + boost[:, None] * weights[:, columns]
        problems.append((gram, b))
    return problems


def best_intercepts(state: RandomFeaturesState, weights: Float64Array) -> Float64Array:
    """Return the best intercept of every score for the weights, or the current one where no row has a curvature."""
    quadratic = state.known_quadratic()
    s, n = np.broadcast_to(quadratic.s, weights.shape), quadratic.n
    best = state.model.intercept.copy()
    np.divide(quadratic.t - np.einsum("ac,ac->c", s, weights), n, out=best, where=n > _FLAT * state.total)
    return best


def shift_to_origin(state: RandomFeaturesState) -> None:
    """Expand the quadratic approximations of the loss around zero instead of around the current coefficients."""
    quadratic, model = state.known_quadratic(), state.model
    quadratic.t = quadratic.t + np.einsum("ac,ac->c", quadratic.s, model.weights) + quadratic.n * model.intercept
    quadratic.b = quadratic.b + quadratic.s * model.intercept
    for number, gram in enumerate(quadratic.gram):
        quadratic.b[:, number] += gram @ model.weights[:, number]


def keep_features(state: RandomFeaturesState, at: NDArray[np.intp]) -> None:
    """Reduce the working set, the model and the quadratic to the features at the positions `at`."""
    if len(at) == len(state.active):
        return
    quadratic = state.known_quadratic()
    state.active, state.model = state.active[at], replace(state.model, weights=state.model.weights[at])
    quadratic.b, quadratic.s = quadratic.b[at], quadratic.s[at]
    quadratic.gram = np.ascontiguousarray(quadratic.gram[:, at[:, None], at])
    state.n_known = len(at)


def ridge(G: ArrayLike, b: ArrayLike, alpha: float) -> Float64Array:
    """Return the weights, shaped like b, that minimise ½ wᵀ(G + αμI)w − bᵀw, with the mean μ of G's diagonal.

    Features may be collinear, in which case the shortest of all best weights are returned, as `lstsq` does.

    >>> ridge(np.diag([2.0, 4]), [2.0, 8], alpha=0.0)
    array([1., 2.])
    >>> ridge(np.ones((2, 2)), [1.0, 1.0], alpha=0.0)
    array([0.5, 0.5])
    """
    H, b = np.array(G, dtype=np.float64, order="C"), np.asarray(b, dtype=np.float64)
    if not len(H):
        return np.zeros_like(b)
    H.flat[:: len(H) + 1] += alpha * H.diagonal().mean()
    return np.ascontiguousarray(shortest_solution(H, b))


def drop_zeros(state: RandomFeaturesState) -> None:
    """Remove features without a weight from the working set, except kept features."""
    used = np.flatnonzero(state.penalised_weights.any(axis=1))
    keep_features(state, np.concatenate([np.arange(state.n_kept), state.n_kept + used]))


def begin_choice(params: SparseRandomFeatures, state: RandomFeaturesState) -> bool:
    """Set `state.models` to the models to choose from; return False if there is nothing to choose."""
    if not state.n_penalised:
        return False
    if params.n_select is not None:
        weights = _refits(params.n_select, state, params.tolerance)
    elif params.penalty == "auto" and state.holds_back:
        problems = lasso_problems(state)
        largest = max(lasso.largest_penalty(b) for _, b in problems)
        state.penalties = np.geomspace(largest, state.penalty, PATH_LENGTH + 1)[1:]
        weights = [step.weights for step in lasso.solve_path(problems, state.penalties, params.tolerance)]
        weights += _linear_path(problems, state, params.tolerance)
        state.penalties = np.tile(state.penalties, len(weights) // len(state.penalties))
    else:
        return False
    complete = [all_weights(state, w) for w in weights]
    state.models = [ScoreModel(w, best_intercepts(state, w)) for w in complete]
    return True


def _linear_path(problems: list[LassoProblem], state: RandomFeaturesState, tolerance: float) -> list[Float64Array]:
    """Return weights for every penalty of fits of the linear terms alone; no weights if there are only linear terms."""
    linear = np.flatnonzero(is_linear(state.active[state.n_kept :]))
    if len(linear) in (0, state.n_penalised):
        return []
    path = lasso.solve_path(
        [(gram[np.ix_(linear, linear)], b[linear]) for gram, b in problems], state.penalties, tolerance
    )
    weights = [np.zeros_like(state.penalised_weights) for _ in state.penalties]
    for whole, step in zip(weights, path, strict=True):
        whole[linear] = step.weights
    return weights


def end_choice(state: RandomFeaturesState, sums: Sums) -> None:
    """Keep the model with the least loss on the held-back rows, or the middle model if no rows are held back."""
    state.held_back = sums.weight
    best = int(np.argmin(sums.losses)) if state.held_back else len(state.models) // 2
    state.model, state.models = state.models[best], []
    if len(state.penalties):
        state.penalty = float(state.penalties[best])
    if len(state.ridges):
        state.penalty, state.ridge = 0.0, float(state.ridges[best])
    drop_zeros(state)


def _refits(count: int, state: RandomFeaturesState, tolerance: float) -> list[Float64Array]:
    """Reduce the working set to the first features on the path, and return weights for several ridge penalties."""
    weights = lasso.solve_for_count(lasso_problems(state), min(count, state.n_penalised), tolerance).weights
    strength = np.linalg.norm(weights, axis=1)
    first = np.sort(np.argsort(-strength, kind="stable")[:count])
    state.model = replace(state.model, weights=all_weights(state, weights))
    keep_features(state, np.concatenate([np.arange(state.n_kept), state.n_kept + first]))
    problems = lasso_problems(state)
    square = float(np.mean([gram.diagonal().mean() for gram, _ in problems]))
    refits = [np.hstack([ridge(gram, b, share) for gram, b in problems]) for share in RIDGES]
    weights = state.penalised_weights
    unchanged = [weights] if weights.any(axis=1).all() else []  # a feature without a weight would be lost
    state.ridges = square * np.array([*RIDGES[: len(unchanged)], *RIDGES])
    return [*unchanged, *refits]
