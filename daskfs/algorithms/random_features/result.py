"""The result of Sparse Random Features: integers with weights, and which inputs they depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import decode_classes
from daskfs.basis import Basis, multiply
from daskfs.protocol import Expansion, Preview, Result, State

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

HISTORY = ("objective", "round", "features", "drawn", "residual")
"""After every pass: the objective per row (of a target scaled as inputs are), the round, features in the working set,
features drawn so far, and by how much the solution on the working set violates the conditions of optimality."""

FAR = 0.1
"""Of the penalty: a residual above that is worth a word."""


def add_record(state: State) -> None:
    """Note where a pass has led."""
    record = (
        state["objective"] / state["total"],
        state["round"],
        len(state["active"]),
        state["drawn"],
        state["residual"],
    )
    state["history"] = np.concatenate([state["history"], [record]])


def result_of(params: SparseRandomFeatures, state: State) -> Result:
    order = np.argsort(-np.linalg.norm(state["weights"], axis=1), kind="stable")
    weights = state["weights"][order] / state["target_scale"]
    intercept = state["intercept"] / state["target_scale"] + state["target_offset"]
    features = state["active"][order]
    return Result(
        features=features,
        weights=weights[:, 0] if weights.shape[1] == 1 else weights,
        intercept=intercept,
        classes=decode_classes(state["classes"]),
        history=[dict(zip(HISTORY, record, strict=True)) for record in state["history"].tolist()],
        remarks=_remarks(params, state),
        expansion=Expansion(
            kernel=params.kernel,
            gamma=state["gamma"],
            seed=state["seed"],
            offset=state["offset"],
            scale=state["scale"],
            low=state["low"],
            high=state["high"],
            importance=importance(Basis(params.kernel, state["gamma"], state["seed"], len(state["offset"])), state),
        ),
    )


def preview_of(params: SparseRandomFeatures, state: State, most: int) -> Preview:
    """The working set as it was solved last; features that have just entered come behind it, and have no weight yet."""
    weights = state["weights"][: len(state["active"])]
    order = np.argsort(-np.linalg.norm(weights, axis=1), kind="stable")[:most]
    shown = weights[order] / state["target_scale"]
    is_known = state["total"] > 0 and np.isfinite(state["objective"])
    return Preview(
        objective=float(state["objective"] / state["total"]) if is_known else np.nan,
        changes=np.nan,
        features=state["active"][order],
        weights=shown[:, 0] if shown.shape[1] == 1 else shown,
        kind=params.kernel,
    )


def importance(basis: Basis, state: State) -> NDArray[np.float64]:
    """How much every input matters to the scores, as shares of one: its total effect, as Sobol and Jansen have it.

    Every row of the sample is given the value that another row has there, the others kept, and the mean square is taken
    of what that does to the scores. Effects of inputs that work together count for each of them.
    """
    X = ((state["sample"] - state["offset"]) * state["scale"]).astype(np.float32)
    largest = np.abs(state["weights"]).max(initial=0.0)  # of a target as it is they may be too large for 32 bits
    weights, drawn = (state["weights"] / (largest or 1.0)).astype(np.float32), basis.features(state["active"])
    effects = np.zeros(X.shape[1])
    if len(X) < 2 or not len(weights):
        return effects
    products, scores = multiply(X, drawn.W.T), multiply(drawn.expand(X), weights)
    for column in range(X.shape[1]):
        features = drawn.expand_changed(products, column, np.roll(X[:, column], 1) - X[:, column])
        effects[column] = float(np.square(multiply(features, weights) - scores).mean())
    shares: NDArray[np.float64] = effects / max(float(effects.sum()), float(np.finfo(float).tiny))
    return shares


def _remarks(params: SparseRandomFeatures, state: State) -> tuple[str, ...]:
    remarks = []
    if not len(state["active"]):
        remarks.append(
            f"penalty={state['penalty']:g} lets no feature in, every row is predicted the same: "
            f"it must be below {state['strongest']:.3g}"
            if state["strongest"]
            else "no feature has a weight"
        )
    elif len(state["active"]) == params.max_features and params.n_select is None:
        remarks.append(
            f"there are as many features as max_features={params.max_features:,} allows: raise it, or penalty"
        )
    is_asked_for = params.n_select is None and params.penalty != "auto"  # else the choice is made on other rows
    if is_asked_for and state["residual"] > max(FAR, params.tolerance):
        remarks.append(
            f"at the end weights are {state['residual']:.1g} times the penalty away from optimal: "
            "it is too small to be met in so few passes, or in float32; raise it"
        )
    if not state["held_back"]:
        remarks.append("too few rows to hold one back: penalty or ridge is the middle one of a list, and no choice")
    return tuple(remarks)
