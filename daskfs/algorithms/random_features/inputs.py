"""What the first pass learns of the inputs: their ranges, their moments, the target's, and a few rows to look at.

Everything here is a sum, a least, a greatest, or the rows with the smallest of some random numbers, so that it does not
matter who saw which rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.random_features.rows import Rows, row_numbers_hashed
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

SAMPLE = 512  # rows at most that are kept to look at
_SAMPLE_CELLS = 1 << 18  # and fewer where they are long, but
_LEAST_SAMPLE = 32
_FLAT = 1e-12  # of the square of the mean: a variance below that is rounding


def blank_inputs(d: int, n_scores: int) -> State:
    """Fields for what is learned of `d` inputs, before the first row."""
    return {
        "low": np.full(d, np.inf),
        "high": np.full(d, -np.inf),
        "target_low": np.inf,
        "target_high": -np.inf,
        "sample": np.empty((0, d)),
        "sample_keys": np.empty(0, np.uint64),
        "offset": np.zeros(d),
        "scale": np.ones(d),
        "target_offset": 0.0,
        "target_scale": 1.0,
        "gamma": 1.0,
        "intercept": np.zeros(n_scores),
    }


def inputs_layout(d: int, n_scores: int) -> dict[str, tuple[int, ...]]:
    """What is added up."""
    return {"rows": (), "weight": (), "x": (d,), "x²": (d,), "y": (n_scores,), "y²": (n_scores,)}


def look_at(state: State, sums: dict[str, NDArray[np.float64]], rows: Rows, learned: NDArray[np.bool_]) -> None:
    """Take some rows into account; of the target only that of rows that will be learned from."""
    if not len(rows.X):
        return
    np.minimum(state["low"], rows.X.min(axis=0), out=state["low"])
    np.maximum(state["high"], rows.X.max(axis=0), out=state["high"])
    weight = np.where(learned, rows.weight, 0.0)
    state["target_low"] = min(state["target_low"], float(rows.Y[weight > 0].min(initial=np.inf)))
    state["target_high"] = max(state["target_high"], float(rows.Y[weight > 0].max(initial=-np.inf)))
    with np.errstate(over="ignore", invalid="ignore"):  # targets so large are refused later
        for name, value in {
            "rows": len(rows.X),
            "weight": weight.sum(),
            "x": rows.X.sum(axis=0),
            "x²": np.square(rows.X).sum(axis=0),
            "y": weight @ rows.Y,
            "y²": weight @ np.square(rows.Y),
        }.items():
            sums[name] += value
    keep_sample(state, row_numbers_hashed(rows.numbers, state["seed"]), rows.X)


def keep_sample(state: State, keys: NDArray[np.uint64], X: NDArray[np.float64]) -> None:
    """Keep the rows whose keys are the smallest; a row that is there already does not count twice."""
    room = _sample_rows(X.shape[1])
    if len(state["sample_keys"]) == room:
        better = keys < state["sample_keys"][-1]
        keys, X = keys[better], X[better]
    all_keys, first = np.unique(np.concatenate([state["sample_keys"], keys]), return_index=True)
    state["sample"] = np.concatenate([state["sample"], X])[first[:room]]
    state["sample_keys"] = all_keys[:room]


def sample_nbytes(d: int) -> int:
    """What the sample takes, with its copies while rows are scaled and compared."""
    return 4 * 8 * d * _sample_rows(d)


def _sample_rows(d: int) -> int:
    return int(np.clip(_SAMPLE_CELLS // max(d, 1), _LEAST_SAMPLE, SAMPLE))


def united_inputs(states: list[State] | tuple[State, ...]) -> State:
    """What several have learned of ranges and rows, put together."""
    together: State = {
        "low": np.minimum.reduce([state["low"] for state in states]),
        "high": np.maximum.reduce([state["high"] for state in states]),
        "target_low": min(state["target_low"] for state in states),
        "target_high": max(state["target_high"] for state in states),
        "sample": states[0]["sample"],
        "sample_keys": states[0]["sample_keys"],
    }
    for state in states[1:]:
        keep_sample(together, state["sample_keys"], state["sample"])
    return together


def settle_inputs(params: SparseRandomFeatures, state: State, sums: dict[str, NDArray[np.float64]]) -> None:
    """Fix how inputs and target are scaled, and how fine the features are."""
    low, span = state["low"], state["high"] - state["low"]
    if params.scaling == "unit":
        state["offset"], state["scale"] = low, _inverse(span)
    elif params.scaling == "standard":
        mean = sums["x"] / sums["rows"]
        variance = sums["x²"] / sums["rows"] - mean**2
        rounding = variance <= _FLAT * mean**2
        state["offset"] = np.where(rounding, low, mean)
        state["scale"] = np.where(rounding, _inverse(span), 1 / np.sqrt(np.where(rounding, 1.0, variance)))
    if params.scaling != "none" and not state["classes"] and state["target_high"] > state["target_low"]:
        state["target_offset"] = state["target_low"]
        state["target_scale"] = 1 / (state["target_high"] - state["target_low"])
    if params.gamma == "auto":
        scaled = (state["sample"] - state["offset"]) * state["scale"]
        state["gamma"] = usual_gamma(params.kernel, scaled)
    else:
        state["gamma"] = float(params.gamma)


def usual_gamma(kernel: str, sample: NDArray[np.float64]) -> float:
    """A bandwidth by the median heuristic: the kernel of two rows that are as far apart as usual is exp(−½).

    For the Laplacian kernel exp(−1), also found in books, does worse on rows held back, with more features.
    """
    if len(sample) < 2:
        return 1.0
    if kernel == "perceptron":  # whose thresholds lie within 1/γ: where rows are
        return 1 / max(float(np.linalg.norm(sample, axis=1).max()), np.finfo(float).tiny)
    order = 1 if kernel == "laplacian" else 2
    half = len(sample) // 2
    apart = np.linalg.norm(sample[:half] - sample[half : 2 * half], ord=order, axis=1)
    median = float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0
    return 1 / (2 * median) if kernel == "laplacian" else 1 / (2 * median**2)


def _inverse(span: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / span, 0 where there is none: a constant input tells nothing, and becomes 0 in every row."""
    return np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
