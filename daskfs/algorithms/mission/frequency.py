"""Features weighted by how rare they are: a first pass counts rows, then values carry a factor 1 + log(n / count).

The weights of a selection apply to values as they are: what a feature was weighted with is part of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.frequency_kernels import count_features, largest_of_two
from daskfs.protocol import State, copy_state

_LEAST_CELLS = 1 << 17  # enough for a million features, most of them rare


def cells_of(width: int) -> int:
    """In how many cells features are counted, each in two of them, beside a sketch of some width."""
    return max(_LEAST_CELLS, 2 * width)


def counts_nbytes(width: int) -> int:
    """Memory of the counts, and of the weights they become."""
    return 3 * 2 * 4 * cells_of(width)


def no_counts(cells: int) -> State:
    """What a state has before anything is counted; no cells if nothing is to be.

    "counts" are those of a lane since it met others, "counted" those before, which all lanes have in common.
    """
    counts = {name: np.zeros((2, cells), np.uint32) for name in ("counts", "counted")}
    return counts | {"idf": np.empty((2, 0), np.float32)}


def count(state: State, ids: NDArray[np.uint64]) -> None:
    """Count the entries of some rows."""
    count_features(ids, state["counts"], _bits(state["counts"]))


def go_on_counting(state: State) -> None:
    """After a merge: what was counted so far, lanes have in common now."""
    state["counted"] += state["counts"]
    state["counts"][:] = 0


def merged_counts(states: Sequence[State]) -> State:
    """What several lanes have counted; theirs stays as it is."""
    merged = copy_state(states[0])
    for state in states[1:]:
        merged["counts"] += state["counts"]
        merged["tally"] += state["tally"]
    merged["merged_lanes"] = sum(state["merged_lanes"] for state in states)
    return merged


def weigh_by_counts(state: State, n_rows: float) -> None:
    """Turn counts into weights."""
    weights = (state["counts"] + state["counted"]).astype(np.float32)
    state["counts"], state["counted"] = np.empty((2, 2, 0), np.uint32)
    np.minimum(weights, n_rows, out=weights)  # a cell may count more than there are rows
    weights += 1
    np.log(weights, out=weights)
    np.subtract(np.float32(1 + np.log(1 + n_rows)), weights, out=weights)
    state["idf"] = weights


def factors(state: State, ids: NDArray[np.uint64]) -> NDArray[np.float32]:
    """What the values of features are multiplied by."""
    out = np.ones(len(ids), np.float32)
    if state["idf"].size:
        largest_of_two(ids, state["idf"], _bits(state["idf"]), out)
    return out


def _bits(cells: NDArray[Any]) -> int:
    return int(cells.shape[1]).bit_length() - 1
