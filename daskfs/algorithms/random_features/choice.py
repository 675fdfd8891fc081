"""What Sparse Random Features choose when they have grown: a penalty, or exactly so many features.

Both come from the path of solutions on the one Gram matrix there is, without another pass over the data, and the last
word have rows that nobody learned from, which are read once for all models in question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.random_features import lasso, lasso_path
from daskfs.algorithms.random_features.steps import intercepts, keep_only, without_intercepts
from daskfs.algorithms.random_features.sums import Sums
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

PATH = 20  # penalties to choose from, from the largest that lets a feature in to the one of the rounds
RIDGES = (1e-7, 1e-5, 1e-3)  # of the mean square of a feature: for the refit of exactly so many


def begin_choice(params: SparseRandomFeatures, state: State) -> bool:
    """Put up models to choose from; False if there is nothing to choose."""
    if params.n_select is not None:
        models = _of_exactly(params.n_select, state, params.tolerance)
    elif params.penalty == "auto":
        models = _along_the_path(state, params.tolerance)
    else:
        return False
    state["models"] = np.array(models)
    state["model_intercepts"] = np.array([intercepts(state, weights) for weights in models])
    return True


def end_choice(state: State, sums: Sums) -> None:
    """Keep the model that does best on rows held back."""
    state["held_back"] = float(sums["weight"])
    best = int(np.argmin(sums["losses"])) if state["held_back"] else len(state["models"]) // 2
    state["weights"], state["intercept"] = state["models"][best], state["model_intercepts"][best]
    if len(state["penalties"]):
        state["penalty"] = float(state["penalties"][best])
    if len(state["ridges"]):
        state["penalty"], state["ridge"] = 0.0, float(state["ridges"][best])
    keep_only(state, np.flatnonzero(state["weights"].any(axis=1)))
    state["models"], state["model_intercepts"] = state["models"][:0, :0], state["model_intercepts"][:0]


def _along_the_path(state: State, tolerance: float) -> list[NDArray[np.float64]]:
    quadratics = without_intercepts(state)
    largest = max(lasso.largest_penalty(b) for _, b in quadratics)
    state["penalties"] = np.geomspace(largest, state["penalty"], PATH + 1)[1:]
    return [found.weights for found in lasso_path.path(quadratics, state["penalties"], tolerance)]


def _of_exactly(count: int, state: State, tolerance: float) -> list[NDArray[np.float64]]:
    """Models of the features that come first on the path, refitted; the working set is cut down to them."""
    quadratics = without_intercepts(state)
    weights = lasso_path.first_with(quadratics, min(count, len(state["active"])), tolerance).weights
    strength = np.linalg.norm(weights, axis=1)
    first = np.argsort(-strength, kind="stable")[:count]
    state["weights"] = weights
    keep_only(state, np.sort(first))
    quadratics = without_intercepts(state)
    square = float(np.mean([gram.diagonal().mean() for gram, _ in quadratics]))
    everything = np.arange(len(state["active"]))
    refits = [np.hstack([lasso.ridge(*one, everything, share) for one in quadratics]) for share in RIDGES]
    as_found = [state["weights"]] if state["weights"].any(axis=1).all() else []  # else there would be fewer
    state["ridges"] = square * np.array([*RIDGES[: len(as_found)], *RIDGES])
    return [*as_found, *refits]
