"""The result of MISSION: the features of the tables, largest first, and the linear model over them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import decode_classes
from daskfs.algorithms.mission.frequency import factors
from daskfs.algorithms.mission.pairs import is_made, parents_of
from daskfs.protocol import Preview, Result, State

HISTORY = ("objective", "rows", "rate", "held_back_loss", "refitted")
"""Of every pass: the mean loss of rows before they were learned, how many, the rate for rows of unit norm; and of the
last refit the loss of what was kept on rows that were held back, and whether that are the new weights."""


_REMARKS = {
    "begins_with_one_class": (
        "its first rows are all of one class; MISSION learns row by row, and from rows in the order of their classes "
        "next to nothing: daskfs shuffle IN.zarr OUT.zarr writes them in random order"
    ),
    "is_far_from_zero": (
        "its target is far from zero beside its spread; MISSION learns the intercept row by row like everything else, "
        "and meanwhile chooses by chance: subtract the mean of the target first"
    ),
}
"""What should be known of a result, by the fields of a state that say so."""


def result_of(state: State, bias_value: float) -> Result:
    """From a state whose tables hold what was selected, and no more."""
    keys, weights = state["keys"], state["weights"]
    features = np.unique(keys[keys > 0]) - np.uint64(1)
    by_class = np.zeros((len(features), len(state["bias"])))
    vector = weights.shape[2]
    for t in range(len(keys)):
        slots = np.flatnonzero(keys[t])
        at = np.searchsorted(features, keys[t, slots] - np.uint64(1))
        by_class[at, t * vector : (t + 1) * vector] = weights[t, slots]
    order = np.argsort(-np.linalg.norm(by_class, axis=1), kind="stable")
    parents = parents_of(state, features) if state["parents"].size else None
    by_class *= _factors(state, features, parents)[:, None]
    one = by_class.shape[1] == 1
    passes = state["passes"]
    return Result(
        features=features[order],
        weights=by_class[order, 0] if one else by_class[order],
        intercept=state["bias"].astype(np.float64) * bias_value,
        classes=decode_classes(state["classes"]),
        history=[dict(zip(HISTORY, record, strict=True)) for record in state["history"][:passes].tolist()],
        parents=None if parents is None else parents[order],
        remarks=tuple(remark for name, remark in _REMARKS.items() if state[name]),
    )


def preview_of(state: State, most: int) -> Preview:
    """What the tables hold at the moment: perhaps a little more than was asked for, and a little old."""
    passes, (loss, weight, _) = state["passes"], state["tally"] + state["tally_before"]
    so_far = loss / weight if weight else np.nan
    now = result_of(state, 0.0)
    return Preview(
        objective=float(state["history"][passes - 1, 0] if passes and not weight else so_far),
        changes=np.nan,
        features=now.features[:most],
        weights=now.weights[:most],
        parents=None if now.parents is None else now.parents[:most],
    )


def _factors(state: State, features: NDArray[np.uint64], parents: NDArray[np.uint64] | None) -> NDArray[np.float64]:
    """What learning multiplied the values of features by: of a pair, those of both parents."""
    own = factors(state, features).astype(np.float64)
    if parents is None:
        return own
    both = factors(state, parents[:, 0].copy()) * factors(state, parents[:, 1].copy())
    return np.where(is_made(parents), both, own)
