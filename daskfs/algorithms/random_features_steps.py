"""Quadratic models of the objective on a working set: the squared loss itself, and the steps of Newton's method.

With the squared loss all scores share one Gram matrix; otherwise every score has its own, weighted by the curvature of
its loss at the scores of the moment.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms import lasso
from daskfs.protocol import State

_TINY = float(np.finfo(np.float64).tiny)  # curvature of rows that are all on the right side
Floats = NDArray[np.float64]
Quadratic = tuple[Floats, Floats]
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
    weights, penalty, ridge = state["weights"], state["penalty"], state["ridge"]
    new, promised, residual = np.empty_like(weights), 0.0, 0.0
    everything = np.arange(len(weights))
    for number, (gram, b) in enumerate(without_intercepts(state)):
        start = weights[:, number]
        if penalty:
            new[:, number] = lasso.solve(gram, b[:, 0], penalty, start, tolerance).weights
            residual = max(residual, lasso.kkt_residual(gram, b[:, 0], start, penalty))
        else:
            gram.flat[:: len(gram) + 1] += ridge
            new[:, number] = lasso.ridge(gram, b[:, 0], everything, 0.0)
            residual = max(residual, float(np.abs(gram @ start - b[:, 0]).max(initial=0.0)))
        promised += _value(gram, b[:, 0], start, penalty) - _value(gram, b[:, 0], new[:, number], penalty)
    return Step(new, intercepts(state, new), promised, residual)


def _value(gram: Floats, b: Floats, w: Floats, penalty: float) -> float:
    return float(w @ (gram @ w / 2 - b) + penalty * np.abs(w).sum())


def without_intercepts(state: State) -> list[Quadratic]:
    """The quadratic model of every Gram matrix of a state, the intercepts removed by a Schur complement."""
    b, t, s, n = (state[name] for name in "btsn")
    models = []
    for number, gram in enumerate(state["gram"]):
        columns = slice(None) if len(state["gram"]) == 1 else slice(number, number + 1)
        model = lasso.centred(gram, b[:, columns], s[:, number], max(float(n[number]), _TINY), t[columns])
        models.append((model.gram, model.pull))
    return models


def intercepts(state: State, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The best intercept of every score for some weights."""
    s = np.broadcast_to(state["s"], weights.shape)
    best: NDArray[np.float64] = (state["t"] - np.einsum("ac,ac->c", s, weights)) / np.maximum(state["n"], _TINY)
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


def mirror(gram: NDArray[np.float64]) -> None:
    """Fill the upper triangle of a matrix from the lower one, in place and without a copy of it."""
    for row in range(1, len(gram)):
        gram[:row, row] = gram[row, :row]
