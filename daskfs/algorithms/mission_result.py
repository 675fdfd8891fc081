"""The result of MISSION: the features of the tables, largest first, and the linear model over them."""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.loss import labels_written
from daskfs.protocol import Result, State

HISTORY = ("objective", "rows", "rate")


def result_of(state: State, bias_value: float) -> Result:
    """From a state whose tables hold what was selected, and no more."""
    keys, weights = state["keys"], state["weights"]
    features = np.unique(keys[keys > 0])
    by_class = np.zeros((len(features), len(state["bias"])))
    vector = weights.shape[2]
    for t in range(len(keys)):
        slots = np.flatnonzero(keys[t])
        by_class[np.searchsorted(features, keys[t, slots]), t * vector : (t + 1) * vector] = weights[t, slots]
    order = np.argsort(-np.linalg.norm(by_class, axis=1), kind="stable")
    one = by_class.shape[1] == 1
    passes = state["passes"]
    return Result(
        features=features[order] - np.uint64(1),
        weights=by_class[order, 0] if one else by_class[order],
        intercept=state["bias"].astype(np.float64) * bias_value,
        classes=labels_written(state["classes"]),
        history=[dict(zip(HISTORY, record, strict=True)) for record in state["history"][:passes].tolist()],
    )
