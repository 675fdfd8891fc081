"""The selected features, fitted once more without a sketch: their weights no longer make up for what was not selected.

Several rates are tried side by side, since what is fast enough to select may be too slow to fit. Of each, the weights
in the end and their average over the last pass (Polyak) compete with the weights there were, on rows that were held
back from all passes; those stay in memory, reduced to the selected features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.memory import Pace, Shape, memory_of, rule_of
from daskfs.algorithms.mission.memory_kernels import LOSS, WEIGHT, Rows, keep_largest
from daskfs.algorithms.mission.refit_kernels import Way, only_known, refitted
from daskfs.algorithms.mission.rows import NO_PAIRS, frozen, picked
from daskfs.protocol import Meta, State, copy_state

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

_ONE_IN = 16  # rows, at most, are held back
_HELD_ROWS = 4096
_HELD_ENTRIES = 1 << 20  # of those rows, on average
_FACTORS = (1.0, 4.0)  # of the rate: what each trial learns with
_LEARNED = ("weights", "sums", "bias", "bias_sum")  # of a trial
_WAY = ("drift", "bias_drift", "clock")  # of a trial, since its lane met others
_PATH = ("path", "bias_path", "path_rows")  # of a trial before that: sums over rows
_TRIAL = "trial"
_HELD = ("numbers", "indptr", "ids", "values", "y", "weight")


def held_back_share(meta: Meta) -> float:
    """The share of rows that decide whether a refit is better."""
    per_row = max(1.0, meta.n_entries / meta.n_samples)
    return min(1 / _ONE_IN, _HELD_ROWS / meta.n_samples, _HELD_ENTRIES / per_row / meta.n_samples)


def is_held_back(first: int, count: int, seed: int, share: float) -> NDArray[np.bool_]:
    """Which of some rows are held back: a matter of a row's number and the seed alone."""
    numbers = np.arange(first, first + count, dtype=np.uint64) + (np.uint64(seed % 2**32) << np.uint64(32))
    mixed = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(32)) < np.uint64(share * 2**32)


def without(rows: Rows, held: NDArray[np.bool_]) -> Rows:
    """The rows, those held back with a weight of 0, which teaches nothing."""
    weight = rows.weight if len(rows.weight) else np.ones(len(held), np.float32)
    return rows._replace(weight=_frozen(np.where(held, np.float32(0), weight)))


def _frozen(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """An array that kernels may only read."""
    array.flags.writeable = False
    return array


def begin(params: Mission, shape: Shape, selected: State) -> State:
    """A state whose tables hold what was selected, ready to be refitted; nothing is left of the sketch."""
    nothing = np.empty(0, np.float32)
    state = selected | _compact(params, shape, selected) | {"sketch": nothing, "tail": nothing} | _nobody_held()
    for n in range(len(_FACTORS)):
        state.update(_prefixed(n, {name: state[name].copy() for name in _LEARNED} | _no_way(state)))
    return state


def begin_pass(state: State) -> None:
    """Forget the way so far: averages are those of the last pass."""
    for n in range(len(_FACTORS)):
        state.update(_prefixed(n, _no_way(state)))


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


def refit(params: Mission, shape: Shape, pace: Pace, state: State, rows: Rows) -> int:
    """Learn rows up to one with a value that is not finite, and say how many those were."""
    for n, factor in enumerate(_FACTORS):
        own = state | _trial(state, n) | ({} if n == 0 else {"tally": np.zeros(3)})
        faster = Pace(factor * pace.rate, pace.per_sighting, pace.bias_value)
        way = Way(own["drift"], own["bias_drift"], own["clock"])
        learned = int(refitted(rows, memory_of(own), way, rule_of(params, shape, faster, state["lanes"])))
        if learned < len(rows.y):
            break
    return learned


def merged_refits(states: Sequence[State]) -> State:
    """What lanes that began with a common state make of it together; theirs stay as they are."""
    lanes = np.array([state["merged_lanes"] for state in states])
    shares = lanes / lanes.sum()
    merged = copy_state({name: value for name, value in states[0].items() if not name.startswith(_TRIAL)})
    for n in range(len(_FACTORS)):
        trials = [_arrived(_trial(state, n)) for state in states]
        means = {
            name: sum(share * trial[name] for share, trial in zip(shares, trials, strict=True)).astype(array.dtype)
            for name, array in trials[0].items()
        }
        merged.update(_prefixed(n, means))
    merged["tally"] = np.sum([state["tally"] for state in states], axis=0)
    merged["merged_lanes"] = int(lanes.sum())
    merged.update(_joined([{name: state[f"held_{name}"] for name in _HELD} for state in states]))
    return merged


def keep_the_better(params: Mission, shape: Shape, pace: Pace, state: State) -> tuple[float, bool]:
    """Give the state the best of all weights; returns their loss on the rows held back, and whether they are new."""
    choices = [(state["weights"], state["bias"])]
    for n in range(len(_FACTORS)):
        end = _arrived(_trial(state, n))
        rows = max(1.0, float(end["path_rows"][0]))
        choices += [
            (end["weights"], end["bias"]),
            (end["path"] / np.float32(rows), end["bias_path"] / np.float32(rows)),
        ]
    losses = np.array([_held_back_loss(params, shape, pace, state, *choice) for choice in choices])
    best = int(np.nan_to_num(losses, nan=np.inf).argmin())
    state["weights"], state["bias"] = choices[best]
    return float(losses[best]), best > 0


def refit_nbytes(shape: Shape, meta: Meta) -> int:
    """Memory of a refit beyond the tables."""
    weights = shape.n_tables * shape.capacity * (shape.n_scores // shape.n_tables)
    rows = held_back_share(meta) * meta.n_samples
    return 4 * weights * (1 + 5 * len(_FACTORS)) + int(rows * (40 + 12 * meta.n_entries / meta.n_samples)) * 3


def _held_back_loss(
    params: Mission, shape: Shape, pace: Pace, state: State, weights: NDArray[np.float32], bias: NDArray[np.float32]
) -> float:
    """The mean loss over the rows held back: learned at a rate of nothing, they are only scored."""
    own = state | {"weights": weights, "bias": bias, "sums": state["sums"].copy(), "tally": np.zeros(3)}
    own["bias_sum"] = state["bias_sum"].copy()
    way = Way(np.zeros(weights.shape), np.zeros(len(bias)), np.zeros(1))
    still = Pace(0.0, pace.per_sighting, pace.bias_value)
    _, indptr, ids, values, y, weight = (state[f"held_{name}"] for name in _HELD)
    refitted(frozen(indptr, ids, values, NO_PAIRS, y, weight), memory_of(own), way, rule_of(params, shape, still))
    tally = own["tally"]
    return float(tally[LOSS] / tally[WEIGHT]) if tally[WEIGHT] else float("nan")


def _prefixed(n: int, trial: State) -> State:
    return {f"{_TRIAL}{n}_{name}": value for name, value in trial.items()}


def _trial(state: State, n: int) -> State:
    """What one of the trials has learned, and where it has been."""
    return {name: state[f"{_TRIAL}{n}_{name}"] for name in (*_LEARNED, *_WAY, *_PATH)}


def _no_way(state: State) -> State:
    weights, bias = np.zeros_like(state["weights"]), np.zeros_like(state["bias"])
    way = {"drift": weights, "bias_drift": bias, "clock": np.zeros(1)}
    return way | {"path": weights.copy(), "bias_path": bias.copy(), "path_rows": np.zeros(1)}


def _arrived(trial: State) -> State:
    """A copy of a trial whose way so far is part of its path."""
    trial = copy_state(trial)
    rows = np.float32(trial["clock"][0])
    trial["path"] += rows * trial["weights"] - trial["drift"]
    trial["bias_path"] += rows * trial["bias"] - trial["bias_drift"]
    trial["path_rows"] += rows
    for name in _WAY:
        trial[name][:] = 0
    return trial


def _compact(params: Mission, shape: Shape, selected: State) -> State:
    """The tables of a state in no more slots than they need."""
    slots, has_pairs = 1 << (2 * params.n_select - 1).bit_length(), shape.has_pairs
    tables, _, vector = selected["weights"].shape
    small = selected | {
        "keys": np.zeros((tables, slots), np.uint64),
        "weights": np.zeros((tables, slots, vector), np.float32),
        "sums": np.zeros((tables, slots), np.float32),
        "parents": np.zeros((tables, slots if has_pairs else 0, 2), np.uint64),
    }
    rule = rule_of(params, shape, Pace(0.0, 0.0, 0.0))
    for t in range(tables):
        taken = np.flatnonzero(selected["keys"][t])
        keys, weights, sums = (selected[name][t, taken] for name in ("keys", "weights", "sums"))
        parents = selected["parents"][t, taken] if has_pairs else selected["parents"][t]
        keep_largest(keys, weights, sums, parents, memory_of(small), rule, t, False)
    return small


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
