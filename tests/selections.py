"""Selections made by hand, for tests that need one and no algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from daskfs.protocol import Label, Result
from daskfs.selection.selection import Selection

HISTORY = [{"objective": 3.5, "changes": 7, "seconds": 0.25}, {"objective": 1.25, "changes": 0, "seconds": 0.125}]


def selection_of(
    features: Sequence[int],
    weights: Any = None,
    *,
    intercept: Any = (0.5,),
    classes: tuple[Label, ...] | None = None,
    names: Sequence[str] | None = None,
    history: Sequence[dict[str, float]] = HISTORY,
    url: str = "data/genes.zarr",
    loss: str = "squared",
    targets: tuple[str, ...] | None = None,
) -> Selection:
    """A selection of these features, with weights 1, 2, 3, … and nameless columns unless told otherwise."""
    weights = np.arange(1.0, 1 + len(features)) if weights is None else np.array(weights, np.float64)
    result = Result(np.array(features, np.uint64), weights, np.array(intercept, np.float64), classes, history)
    return Selection.from_result(
        result,
        [f"x{feature}" for feature in features] if names is None else list(names),
        algorithm={"name": "OnlineSubstitution", "n_select": len(features), "ridge": "auto", "loss": loss},
        source={"url": url, "digest": "ab" * 32, "n_samples": 50, "n_features": 12},
        seed=3,
        targets=targets,
    )
