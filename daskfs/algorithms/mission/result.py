"""The result of MISSION: the features of the tables, largest first, and the linear model over them."""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.losses import decode_classes
from daskfs.algorithms.mission.features import factors_of, parents_of
from daskfs.algorithms.mission.state import MissionState
from daskfs.protocol import Preview, Result

HISTORY = ("objective", "rows", "rate", "held_back_loss", "refitted")
"""Columns of the history. Every pass has the mean loss of rows before they were learned, the number of rows, and the
learning rate for rows of unit norm. The last refit has the loss of the final weights on the held-back rows, and whether
these weights are new."""


def result_of(state: MissionState, bias_value: float) -> Result:
    """Return the result of a state whose tables hold the selected features only."""
    keys, weights = state.memory.keys, state.memory.weights
    features = np.unique(keys[keys > 0]) - np.uint64(1)
    by_class = np.zeros((len(features), len(state.memory.bias)))
    vector = weights.shape[2]
    for t in range(len(keys)):
        slots = np.flatnonzero(keys[t])
        at = np.searchsorted(features, keys[t, slots] - np.uint64(1))
        by_class[at, t * vector : (t + 1) * vector] = weights[t, slots]
    order = np.argsort(-np.linalg.norm(by_class, axis=1), kind="stable")
    parents = parents_of(state.memory, features) if state.memory.parents.size else None
    by_class *= factors_of(state.idf, features, parents)[:, None]
    return Result(
        features=features[order],
        weights=by_class[order, 0] if by_class.shape[1] == 1 else by_class[order],
        intercept=state.memory.bias.astype(np.float64) * bias_value,
        classes=decode_classes(state.classes),
        history=[dict(zip(HISTORY, record, strict=True)) for record in state.history[: state.passes].tolist()],
        parents=None if parents is None else parents[order],
        remarks=(state.remark,) if state.remark else (),
    )


def preview_of(state: MissionState, limit: int) -> Preview:
    """Return what the tables hold now: perhaps some features too many, and weights that are a little old."""
    loss, weight, _ = state.memory.totals + state.totals_before
    objective = loss / weight if weight else np.nan
    if state.passes and not weight:
        objective = state.history[state.passes - 1, 0]
    result = result_of(state, 0.0)
    return Preview(
        objective=float(objective),
        changes=np.nan,
        features=result.features[:limit],
        weights=result.weights[:limit],
        parents=None if result.parents is None else result.parents[:limit],
    )
