"""The result of Sparse Random Features: feature ids with weights, and the importance of the input columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import decode_classes
from daskfs.algorithms.random_features.inputs import features_with_ids, linear_columns
from daskfs.algorithms.random_features.lasso import Float64Array
from daskfs.algorithms.random_features.state import RandomFeaturesState, ScoreModel
from daskfs.basis import Kernel, is_linear, multiply
from daskfs.protocol import Expansion, Preview, Result

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

HISTORY = ("objective", "round", "features", "drawn", "residual")
"""The columns of the history, which has a row for every pass: the objective per row (of a scaled target), the round,
features in the working set without kept ones, features drawn so far, and the KKT residual of the weights as a share of
the penalty."""
_LARGE_RESIDUAL = 0.1
"""The KKT residual, as a share of the penalty, above which the result has a remark."""


def add_record(state: RandomFeaturesState) -> None:
    """Append the record of a pass to the history."""
    assert state.history is not None, "workers do not have it"
    objective = state.objective / state.total
    record = (objective, state.round, state.n_penalised, state.drawn, state.kkt_residual)
    state.history = np.concatenate([state.history, [record]])


def make_result(params: SparseRandomFeatures, state: RandomFeaturesState) -> Result:
    """Return the features of the final state by descending contribution, with weights for the target's own scale."""
    assert state.history is not None, "workers do not have it"
    inputs = state.inputs
    contributions = _contributions(params.kernel, state)
    n_kept = state.n_kept
    by_contribution = n_kept + np.argsort(-contributions[n_kept:], kind="stable")
    order = np.concatenate([by_contribution, np.arange(n_kept)])
    model = _in_own_scales(state, state.model)
    weights = model.weights[order]
    return Result(
        features=state.active[order],
        weights=weights[:, 0] if weights.shape[1] == 1 else weights,
        intercept=model.intercept,
        classes=decode_classes(state.classes),
        history=[dict(zip(HISTORY, record, strict=True)) for record in state.history.tolist()],
        importance=contributions[order],
        n_kept=n_kept,
        chosen=_chosen(params, state),
        remarks=_remarks(params, state),
        expansion=Expansion(
            *(params.kernel, inputs.gamma, state.seed, inputs.offset, inputs.scale, inputs.low, inputs.high),
            importance=_input_effects(params.kernel, state),
            inputs_per_feature=tuple(state.inputs_per_feature.tolist()),
        ),
    )


def _in_own_scales(state: RandomFeaturesState, model: ScoreModel) -> ScoreModel:
    """Return a model of the target's own scale, in which a linear term is the scaled input itself."""
    inputs, weights = state.inputs, model.weights.copy()
    linear = np.flatnonzero(is_linear(state.active))
    columns = linear_columns(state.active[linear])
    weights[linear] *= inputs.stretch[columns, None]
    intercept = model.intercept - inputs.centre[columns] @ weights[linear]
    return ScoreModel(weights / inputs.target_scale, intercept / inputs.target_scale + inputs.target_offset)


def make_preview(params: SparseRandomFeatures, state: RandomFeaturesState, limit: int) -> Preview:
    """Return the working set as it was last solved, with features that have just entered last, at weight zero."""
    weights = state.model.weights[: len(state.active)]
    size = np.linalg.norm(weights[state.n_kept :], axis=1)
    order = state.n_kept + np.argsort(-size, kind="stable")[:limit]
    shown = _in_own_scales(state, ScoreModel(weights, state.model.intercept)).weights[order]
    is_known = state.total > 0 and np.isfinite(state.objective)
    return Preview(
        objective=float(state.objective / state.total) if is_known else np.nan,
        changes=np.nan,
        features=state.active[order],
        weights=shown[:, 0] if shown.shape[1] == 1 else shown,
        kind=params.kernel,
    )


def _contributions(kernel: Kernel, state: RandomFeaturesState) -> Float64Array:
    """Return the standard deviation of every feature's term of the scores over the sampled rows, normed over scores."""
    values = features_with_ids(kernel, state, state.active).expand(_scaled_sample(state))
    strength = np.linalg.norm(state.model.weights, axis=1)
    return np.asarray(strength * values.std(axis=0, dtype=np.float64) if len(values) else strength)


def _chosen(params: SparseRandomFeatures, state: RandomFeaturesState) -> dict[str, float | str]:
    """Return the values that the data decided for parameters."""
    values: dict[str, float | str] = {"loss": state.loss, "gamma": state.inputs.gamma, "penalty": state.penalty}
    return {name: value for name, value in values.items() if getattr(params, name) == "auto"}


def _scaled_sample(state: RandomFeaturesState) -> NDArray[np.float32]:
    inputs = state.inputs
    return np.asarray((inputs.sample - inputs.offset) * inputs.scale, np.float32)


def _input_effects(kernel: Kernel, state: RandomFeaturesState) -> Float64Array:
    """Return the total effect of every input on the scores (Sobol, Jansen), as shares that add up to one.

    The effect of an input is the mean squared change of the scores when every sampled row gets another row's value of
    the input. A joint effect of several inputs counts for each of these inputs.
    """
    X = _scaled_sample(state)
    largest = np.abs(state.model.weights).max(initial=0.0)  # of an unscaled target they may exceed float32
    weights = (state.model.weights / (largest or 1.0)).astype(np.float32)
    features = features_with_ids(kernel, state, state.active)
    effects = np.zeros(X.shape[1])
    if len(X) < 2 or not len(weights):
        return effects
    products, scores = multiply(X, features.W.T), multiply(features.expand(X), weights)
    for column in np.flatnonzero(features.W.any(axis=0)).tolist():
        expanded = features.expand_changed(products, column, np.roll(X[:, column], 1) - X[:, column])
        effects[column] = float(np.square(multiply(expanded, weights) - scores).mean())
    return np.asarray(effects / max(float(effects.sum()), float(np.finfo(float).tiny)))


def _remarks(params: SparseRandomFeatures, state: RandomFeaturesState) -> tuple[str, ...]:
    """Return remarks for the user about the result, one line each."""
    remarks = []
    if not state.n_penalised:
        alone = "the model is the kept features alone" if state.n_kept else "every row is predicted the same"
        remarks.append(
            f"penalty={state.penalty:g} lets no feature in, {alone}: it must be below {state.strongest:.3g}"
            if state.strongest
            else "no feature has a weight"
        )
    elif state.n_penalised == params.max_features and params.n_select is None:
        remarks.append(
            f"there are as many features as max_features={params.max_features:,} allows: raise it, or penalty"
        )
    is_final = not state.holds_back  # else the held-back rows chose the model
    if is_final and state.kkt_residual > max(_LARGE_RESIDUAL, params.tolerance):
        remarks.append(
            f"at the end weights are {state.kkt_residual:.1g} times the penalty away from optimal: "
            "it is too small to be met in so few passes, or in float32; raise it"
        )
    if not state.held_back:
        remarks.append("too few rows to hold one back: penalty or ridge is the middle one of a list, and no choice")
    return tuple(remarks)
