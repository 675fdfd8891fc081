"""Quadratic models of the objective on a working set: the squared loss itself, and the steps of Newton's method.

With the squared loss all scores share one Gram matrix; otherwise every score has its own, weighted by the curvature of
its loss at the scores of the moment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.random_features import lasso
from daskfs.protocol import State

_TINY = float(np.finfo(np.float64).tiny)  # curvature of rows that are all on the right side
_FLAT = 1e-12  # of the weight of all rows: a curvature below that says nothing of where a score should go
_LEAST_RAISED, _MOST_RAISED = 1e-8, 1e-3
Floats = NDArray[np.float64]
Quadratic = lasso.Problem
"""G (A, A) and b (A, scores) of ½ wᵀGw − bᵀw, the intercept already at its best for every w."""


class Step(NamedTuple):
    """Where a quadratic model is least."""

    weights: NDArray[np.float64]
    intercept: NDArray[np.float64]
    promised: float
    """By how much the model's objective falls."""
    residual: float
    """How far from optimal the weights before the step are: of the penalty, or of pulls where there is none."""


def newton_step(state: State, tolerance: float) -> Step:
    """A step from the weights of a state."""
    weights, penalty = state["weights"], state["penalty"]
    promised = residual = 0.0
    if penalty:
        models, new, _ = minimised(state, tolerance)
    else:
        models, everything = without_intercepts(state), np.arange(len(weights))
        for gram, _ in models:
            gram.flat[:: len(gram) + 1] += state["ridge"]
        new = np.hstack([lasso.ridge(gram, b, everything, 0.0) for gram, b in models])
    for number, (gram, b) in enumerate(models):
        before, after = weights[:, number], new[:, number]
        promised += _value(gram, b[:, 0], before, penalty) - _value(gram, b[:, 0], after, penalty)
        distance = (
            lasso.kkt_residual(gram, b[:, 0], before, penalty) if penalty else np.abs(gram @ before - b[:, 0]).max()
        )
        residual = max(residual, float(distance))
    return Step(new, intercepts(state, new), promised, residual)


def minimised(state: State, tolerance: float) -> tuple[list[Quadratic], Floats, float]:
    """The quadratic models of a state, the weights where these are least, and how exactly.

    Sums in float32 leave a Gram matrix with eigenvalues a little below zero. Where the penalty is too small to make up
    for these, weights grow and grow; then every diagonal is raised by a tiny share of itself, now and from now on.
    """
    penalty, most = state["penalty"], state["objective"]
    while True:
        models = without_intercepts(state)
        with np.errstate(over="ignore", invalid="ignore"):
            found = lasso.solve_each(models, penalty, state["weights"], tolerance, most)
            if _is_possible(state, models, found.weights) or state["raised"] > _MOST_RAISED:
                return models, found.weights, found.residual
        models = []  # as large as all that is kept
        state["raised"] = max(10 * state["raised"], _LEAST_RAISED)


def _is_possible(state: State, models: list[Quadratic], weights: Floats) -> bool:
    """Whether there could be such weights at the least value of a true model: losses are not below zero.

    So the penalty alone cannot be above what the objective was, and no step can lower it by more than there is.
    """
    penalty, most = state["penalty"], state["objective"]
    if not penalty * np.abs(weights).sum() <= most:
        return False
    if state["stage"] == "gram":
        return bool(state["constant"] + lasso.objective(*models[0], weights, penalty) >= 0.0)
    before, after = (np.split(of, len(models), axis=1) for of in (state["weights"], weights))
    promised = sum(
        _value(gram, b[:, 0], old[:, 0], penalty) - _value(gram, b[:, 0], new[:, 0], penalty)
        for (gram, b), old, new in zip(models, before, after, strict=True)
    )
    return bool(promised <= most)


def _value(gram: Floats, b: Floats, w: Floats, penalty: float) -> float:
    return float(w @ (gram @ w / 2 - b) + penalty * np.abs(w).sum())


def without_intercepts(state: State) -> list[Quadratic]:
    """The quadratic model of every Gram matrix of a state, the intercepts removed by a Schur complement."""
    b, t, s, n = (state[name] for name in "btsn")
    models = []
    for number, gram in enumerate(state["gram"]):
        columns = slice(None) if len(state["gram"]) == 1 else slice(number, number + 1)
        model = lasso.centred(gram, b[:, columns], s[:, number], max(float(n[number]), _TINY), t[columns])
        more, pull = state["raised"] * model.gram.diagonal(), model.pull
        model.gram.flat[:: len(gram) + 1] += more
        if state["stage"] != "gram":  # of a step it is the distance that costs more, and not the weights
            pull = pull + more[:, None] * state["weights"][:, columns]
        models.append((model.gram, pull))
    return models


def intercepts(state: State, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The best intercept of every score for some weights; the one it has where no row bends its loss."""
    s, n = np.broadcast_to(state["s"], weights.shape), state["n"]
    best: NDArray[np.float64] = state["intercept"].copy()
    np.divide(state["t"] - np.einsum("ac,ac->c", s, weights), n, out=best, where=n > _FLAT * state["total"])
    return best


def linearise(state: State) -> None:
    """Turn pulls, which are relative to the weights of a state, into b and t of its quadratic models."""
    weights, intercept, s = state["weights"], state["intercept"], state["s"]
    state["t"] = state["t"] + np.einsum("ac,ac->c", s, weights) + state["n"] * intercept
    state["b"] = state["b"] + s * intercept
    for number, gram in enumerate(state["gram"]):
        state["b"][:, number] += gram @ weights[:, number]


def keep_only(state: State, at: NDArray[np.intp]) -> None:
    """Leave some features in the working set, by position, and in what is known of it."""
    if len(at) == len(state["active"]):
        return
    state["active"], state["weights"] = state["active"][at], state["weights"][at]
    state["b"], state["s"] = state["b"][at], state["s"][at]
    state["gram"] = np.ascontiguousarray(state["gram"][:, at[:, None], at])
    state["n_known"] = len(at)
