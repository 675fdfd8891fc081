"""Quadratic models of the objective on the working set, their minimisation, and the choice among several models.

With the squared loss all scores share one Gram matrix. With other losses every score has its own Gram matrix, weighted
by the curvature of the loss at the current scores. A penalty, or exactly `n_select` features, are chosen from the path
of solutions on the last Gram matrix. The choice takes one more pass, in which all models on the path score the
held-back rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from daskfs.algorithms.random_features import lasso
from daskfs.algorithms.random_features.lasso import Float64Array, LassoProblem
from daskfs.algorithms.random_features.state import RandomFeaturesState, ScoreModel, Sums
from daskfs.errors import OptionError

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

PATH_LENGTH = 20  # penalties to choose from, from the largest that admits a feature to the one of the rounds
RIDGES = (1e-7, 1e-5, 1e-3)  # for the refit with exactly `n_select` features, as shares of the mean square of a feature
_TINY = float(np.finfo(np.float64).tiny)  # in place of the curvature where all rows are classified with a margin
_FLAT = 1e-12  # a curvature below this share of the weight of all rows does not determine an intercept
_CONSTANT = 1e-12  # a column whose variance is below this share of its mean square is constant up to rounding
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
    weights, penalty = state.model.weights, state.penalty
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
            lasso.kkt_residual(gram, b[:, 0], before, penalty) if penalty else np.abs(gram @ before - b[:, 0]).max()
        )
        residual = max(residual, float(distance))
    return NewtonStep(ScoreModel(new, best_intercepts(state, new)), promised, residual)


def minimise(state: RandomFeaturesState, tolerance: float) -> tuple[list[LassoProblem], Float64Array, float]:
    """Return the lasso problems of a state, the weights that minimise the problems, and the weights' KKT residual.

    Sums in float32 give a Gram matrix with eigenvalues slightly below zero. If the penalty is too small to make up for
    negative eigenvalues, so that weights grow without end, every diagonal is raised by a tiny share of itself, also in
    later rounds.
    """
    while True:
        problems = lasso_problems(state)
        with np.errstate(over="ignore", invalid="ignore"):
            solution = lasso.solve(problems, state.penalty, state.model.weights, tolerance, state.objective)
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
        return bool(state.constant_loss + lasso.objective(*problems[0], weights, penalty) >= 0.0)
    promised = sum(
        _value(gram, b[:, 0], state.model.weights[:, number], penalty)
        - _value(gram, b[:, 0], weights[:, number], penalty)
        for number, (gram, b) in enumerate(problems)
    )
    return bool(promised <= objective)


def _value(gram: Float64Array, b: Float64Array, w: Float64Array, penalty: float) -> float:
    return float(w @ (gram @ w / 2 - b) + penalty * np.abs(w).sum())


def lasso_problems(state: RandomFeaturesState) -> list[LassoProblem]:
    """Return G (A, A) and b (A, scores) of ½ wᵀGw − bᵀw for every Gram matrix, with the best intercept for every w."""
    quadratic, weights = state.known_quadratic(), state.model.weights
    problems = []
    for number, matrix in enumerate(quadratic.gram):
        columns = slice(None) if len(quadratic.gram) == 1 else slice(number, number + 1)
        n = max(float(quadratic.n[number]), _TINY)
        gram, b = remove_intercept(matrix, quadratic.b[:, columns], quadratic.s[:, number], n, quadratic.t[columns])
        boost = state.diagonal_boost * gram.diagonal()
        gram.flat[:: len(gram) + 1] += boost
        if state.pass_kind != "gram":  # in Newton's method the boost penalises the length of the step, not the weights
            b = b + boost[:, None] * weights[:, columns]
        problems.append((gram, b))
    return problems


def remove_intercept(G: ArrayLike, b: ArrayLike, s: ArrayLike, n: float, t: ArrayLike) -> LassoProblem:
    """Return G − ssᵀ/n and b − stᵀ/n: the problem without its unpenalised intercept, with s = ΦᵀD1, n = ΣD, t = 1ᵀDy.

    The row and column of a constant feature are set to zero, where rounding would leave small values.

    Examples
    --------
    >>> Phi, y = np.array([[0.0, 1], [1, 1], [2, 1]]), np.array([1.0, 3, 5])
    >>> gram, b = remove_intercept(Phi.T @ Phi, Phi.T @ y, Phi.sum(axis=0), 3, y.sum())
    >>> gram
    array([[2., 0.], [0., 0.]])
    """
    G, b, s, t = (np.asarray(array, dtype=np.float64) for array in (G, b, s, t))
    if not n > 0:
        raise OptionError(f"the weights of rows add up to {n}: there is nothing to fit")
    gram = np.outer(s, s / n)
    np.subtract(G, gram, out=gram)  # the only copy of G
    centred = b - np.multiply.outer(s, t / n)
    constant = np.flatnonzero(gram.diagonal() <= _CONSTANT * G.diagonal())
    gram[constant] = 0.0
    gram[:, constant] = 0.0
    centred[constant] = 0.0
    return gram, centred


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
    return np.ascontiguousarray(_shortest(H, b))


def _shortest(H: Float64Array, b: Float64Array) -> Float64Array:
    """Return the shortest w that minimises ½ wᵀHw − bᵀw."""
    noise = len(H) * lasso.EPS
    try:
        lower, _ = cho_factor(H, lower=True)
    except np.linalg.LinAlgError:
        pass
    else:
        pivots = np.square(lower.diagonal())
        if pivots.min() > noise * pivots.max():
            return np.asarray(cho_solve((lower, True), b))
        del lower  # as large as H
    values, vectors = eigh(H, overwrite_a=True)  # ten times slower, but exact for singular matrices
    inverse = np.divide(1.0, values, where=values > noise * values[-1], out=np.zeros_like(values))
    return np.asarray(vectors @ ((vectors.T @ b).T * inverse).T)


def begin_choice(params: SparseRandomFeatures, state: RandomFeaturesState) -> bool:
    """Set `state.models` to the models to choose from; return False if there is nothing to choose."""
    if params.n_select is not None:
        weights = _refits(params.n_select, state, params.tolerance)
    elif params.penalty == "auto" and state.holds_back:
        problems = lasso_problems(state)
        largest = max(lasso.largest_penalty(b) for _, b in problems)
        state.penalties = np.geomspace(largest, state.penalty, PATH_LENGTH + 1)[1:]
        weights = [step.weights for step in lasso.solve_path(problems, state.penalties, params.tolerance)]
    else:
        return False
    state.models = [ScoreModel(w, best_intercepts(state, w)) for w in weights]
    return True


def end_choice(state: RandomFeaturesState, sums: Sums) -> None:
    """Keep the model with the least loss on the held-back rows, or the middle model if no rows are held back."""
    state.held_back = sums.weight
    best = int(np.argmin(sums.losses)) if state.held_back else len(state.models) // 2
    state.model, state.models = state.models[best], []
    if len(state.penalties):
        state.penalty = float(state.penalties[best])
    if len(state.ridges):
        state.penalty, state.ridge = 0.0, float(state.ridges[best])
    keep_features(state, np.flatnonzero(state.model.weights.any(axis=1)))


def _refits(count: int, state: RandomFeaturesState, tolerance: float) -> list[Float64Array]:
    """Reduce the working set to the first features on the path, and return weights for several ridge penalties."""
    weights = lasso.solve_for_count(lasso_problems(state), min(count, len(state.active)), tolerance).weights
    strength = np.linalg.norm(weights, axis=1)
    first = np.argsort(-strength, kind="stable")[:count]
    state.model = replace(state.model, weights=weights)
    keep_features(state, np.sort(first))
    problems = lasso_problems(state)
    square = float(np.mean([gram.diagonal().mean() for gram, _ in problems]))
    refits = [np.hstack([ridge(gram, b, share) for gram, b in problems]) for share in RIDGES]
    weights = state.model.weights
    unchanged = [weights] if weights.any(axis=1).all() else []  # a feature without a weight would be lost
    state.ridges = square * np.array([*RIDGES[: len(unchanged)], *RIDGES])
    return [*unchanged, *refits]
