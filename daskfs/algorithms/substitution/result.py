"""From a selected set to what the user gets: exactly k features, weights in the units of the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.substitution.refit import Fields, refresh, selected
from daskfs.protocol import Label, Preview, Result

_EXACT = 1e-8  # curvature that rows are said to have at least, so that H can be inverted
_STEPS = 25  # of Newton's method at most; a warm start takes a few


def fitted(one: Fields, ridge: float) -> Fields:
    """The set at the minimum of its loss under this ridge."""
    one["ridge"] = ridge
    refresh(one, _STEPS)
    refresh(one, _STEPS, least=_EXACT)
    return one


def result_of(
    one: Fields,
    wanted: int,
    spare: NDArray[np.int64],
    classes: tuple[Label, ...] | None,
    history: Sequence[dict[str, float]],
) -> Result:
    """The features of a fitted set, those first whose absence would raise the loss most.

    Where the data have fewer useful columns than were asked for (constants, near-duplicates), `spare` ones of weight
    0 make up the number.
    """
    fixed, k = one["fixed"], one["k"]
    w = one["w"][:k]
    worth = w[fixed:] ** 2 / np.diag(one["inverse"])[fixed:k]
    order = fixed + np.argsort(-worth, kind="stable")
    raw = w[order] / one["norm"][order]
    intercept = (w[0] / np.sqrt(len(one["target"])) if fixed else 0.0) - float(raw @ one["mean"][order])
    fill = spare[~np.isin(spare, selected(one))][: wanted - len(order)]
    return Result(
        features=np.concatenate([one["ids"][order], fill]).astype(np.uint64),
        weights=np.concatenate([raw, np.zeros(len(fill))]),
        intercept=np.array([intercept]),
        classes=classes,
        history=history,
    )


def preview_of(
    ids: NDArray[np.int64],
    w: NDArray[np.float64],
    norm: NDArray[np.float64],
    most: int,
    objective: float,
    changes: int,
    lags: NDArray[np.int64] | None = None,
) -> Preview:
    """The largest weights of columns as they are while a set is made; shown in the units of the data."""
    order = np.argsort(-np.abs(w), kind="stable")[:most]
    features, late = ids[order].astype(np.uint64), None if lags is None else lags.copy()
    return Preview(float(objective), float(changes), features, w[order] / norm[order], staleness=late)
