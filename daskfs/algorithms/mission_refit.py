"""The selected features, fitted once more without a sketch: their weights no longer make up for what was not selected.

Rows that were held back from all passes decide whether the new weights are better: those of the first refit pass
stay in memory, reduced to the selected features. Weights are averaged over all rows of the refit (Polyak), since
steps that follow single rows never come to rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission_memory import Pace, Shape, memory_of, rule_of
from daskfs.algorithms.mission_memory_kernels import LOSS, WEIGHT, Rows
from daskfs.algorithms.mission_refit_kernels import Way, only_known, refitted
from daskfs.algorithms.mission_rows import NO_PAIRS, frozen, picked
from daskfs.protocol import Meta, State, copied

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

_ONE_IN = 16  # rows, at most, are held back
_HELD_ROWS = 4096
_HELD_ENTRIES = 1 << 20  # of those rows, on average
_MEANS = ("weights", "sums", "bias", "bias_sum", "path", "bias_path")
_HELD = ("numbers", "indptr", "ids", "values", "y", "weight")


def held_back_share(meta: Meta) -> float:
    """The share of rows that decide whether a refit is better."""
    per_row = max(1.0, meta.n_entries / meta.n_samples)
    return min(1 / _ONE_IN, _HELD_ROWS / meta.n_samples, _HELD_ENTRIES / per_row / meta.n_samples)


def is_held_back(first: int, count: int, seed: int, share: float) -> NDArray[np.bool_]:
    """Which of some rows are held back: a matter of a row's number and the seed alone."""
    numbers = np.arange(first, first + count, dtype=np.uint64) + (np.uint64(seed) << np.uint64(32))
    mixed = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(32)) < np.uint64(share * 2**32)


def without(rows: Rows, held: NDArray[np.bool_]) -> Rows:
    """The rows, those held back with a weight of 0, which teaches nothing."""
    weight = rows.weight if len(rows.weight) else np.ones(len(held), np.float32)
    return rows._replace(weight=frozen_array(np.where(held, np.float32(0), weight)))


def frozen_array(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """An array that kernels may only read."""
    array.flags.writeable = False
    return array


def begin(selected: State) -> State:
    """A state whose tables hold what was selected, ready to be refitted; nothing is left of the sketch."""
    nothing = np.empty(0, np.float32)
    return selected | {
        "sketch": nothing,
        "tail": nothing,
        "before": selected["weights"].copy(),
        "bias_before": selected["bias"].copy(),
        "drift": np.zeros(selected["weights"].shape),
        "bias_drift": np.zeros(len(selected["bias"])),
        "clock": np.zeros(1),
        "path": np.zeros(selected["weights"].shape),
        "bias_path": np.zeros(len(selected["bias"])),
        "path_rows": 0.0,
        **_nobody_held(),
    }


def hold(state: State, rows: Rows, held: NDArray[np.bool_], first: int) -> None:
    """Keep what the selected features are in the rows held back."""
    numbers = np.flatnonzero(held)
    if len(numbers) == 0:
        return
    own = picked(rows, numbers)
    indptr, ids, values = only_known(own, state["keys"])
    weight = own.weight if len(own.weight) else np.ones(len(numbers), np.float32)
    later = dict(zip(_HELD, (numbers + first, indptr, ids, values, own.y, weight), strict=True))
    state.update(_joined([{name: state[f"held_{name}"] for name in _HELD}, later]))


def refit(chosen: Mission, shape: Shape, pace: Pace, state: State, rows: Rows) -> int:
    """Learn rows up to one with a value that is not finite, and say how many those were."""
    way = Way(state["drift"], state["bias_drift"], state["clock"])
    return int(refitted(rows, memory_of(state), way, rule_of(chosen, shape, pace, state["lanes"])))


def _arrived(state: State) -> State:
    """A copy of the state whose way so far is part of its path."""
    state = copied(state)
    rows = float(state["clock"][0])
    state["path"] += rows * state["weights"] - state["drift"]
    state["bias_path"] += rows * state["bias"] - state["bias_drift"]
    state["path_rows"] += rows
    for name in ("drift", "bias_drift", "clock"):
        state[name][:] = 0
    return state


def merged_refits(states: Sequence[State]) -> State:
    """What lanes that began with a common state make of it together; theirs stay as they are."""
    states = [_arrived(state) for state in states]
    lanes = np.array([state["merged_lanes"] for state in states])
    shares = lanes / lanes.sum()
    means: State = {}
    for name in (*_MEANS, "path_rows"):
        mean = sum(share * state[name] for share, state in zip(shares, states, strict=True))
        means[name] = float(mean) if name == "path_rows" else mean.astype(states[0][name].dtype)
    merged = states[0] | means
    merged["tally"] = np.sum([state["tally"] for state in states], axis=0)
    merged["merged_lanes"] = int(lanes.sum())
    merged.update(_joined([{name: state[f"held_{name}"] for name in _HELD} for state in states]))
    return merged


def keep_the_better(chosen: Mission, shape: Shape, pace: Pace, state: State) -> tuple[float, bool]:
    """Give the state the better of its weights; returns their loss on the rows held back, and whether they are new."""
    end = _arrived(state)
    rows = max(1.0, end["path_rows"])
    averages = (end["path"] / rows).astype(np.float32), (end["bias_path"] / rows).astype(np.float32)
    both = [(state["before"], state["bias_before"]), averages]
    losses = [_held_back_loss(chosen, shape, pace, state, *one) for one in both]
    is_new = losses[1] < losses[0]
    state["weights"], state["bias"] = (one.copy() for one in both[is_new])
    return losses[is_new], is_new


def refit_nbytes(shape: Shape, meta: Meta) -> int:
    """Memory of a refit beyond the tables."""
    weights = shape.n_tables * shape.capacity * (shape.n_scores // shape.n_tables)
    rows = held_back_share(meta) * meta.n_samples
    return 8 * weights * 6 + int(rows * (40 + 12 * meta.n_entries / meta.n_samples)) * 3


def _held_back_loss(
    chosen: Mission, shape: Shape, pace: Pace, state: State, weights: NDArray[np.float32], bias: NDArray[np.float32]
) -> float:
    """The mean loss over the rows held back: learned at a rate of nothing, they are only scored."""
    own = state | {"weights": weights, "bias": bias, "sums": state["sums"].copy(), "tally": np.zeros(3)}
    own["bias_sum"] = state["bias_sum"].copy()
    way = Way(np.zeros(weights.shape), np.zeros(len(bias)), np.zeros(1))
    still = Pace(0.0, pace.per_sighting, pace.bias_value)
    _, indptr, ids, values, y, weight = (state[f"held_{name}"] for name in _HELD)
    refitted(frozen(indptr, ids, values, NO_PAIRS, y, weight), memory_of(own), way, rule_of(chosen, shape, still))
    tally = own["tally"]
    return float(tally[LOSS] / tally[WEIGHT]) if tally[WEIGHT] else float("nan")


def _nobody_held() -> State:
    kinds = (np.int64, np.int64, np.uint64, np.float32, np.float64, np.float32)
    return {f"held_{name}": np.zeros(int(name == "indptr"), kind) for name, kind in zip(_HELD, kinds, strict=True)}


def _joined(parts: Sequence[State]) -> State:
    """Rows held back by several, each once, in the order of their numbers: lanes have in common what was before."""
    sizes = np.concatenate([np.diff(part["indptr"]) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    numbers, ids, values, y, weight = (
        np.concatenate([part[name] for part in parts]) for name in ("numbers", "ids", "values", "y", "weight")
    )
    _, order = np.unique(numbers, return_index=True)
    own = picked(frozen(indptr, ids, values, NO_PAIRS, y, weight), order)
    kept = (numbers[order], own.indptr, own.ids, own.values, own.y, own.weight)
    return {f"held_{name}": np.array(array) for name, array in zip(_HELD, kept, strict=True)}
