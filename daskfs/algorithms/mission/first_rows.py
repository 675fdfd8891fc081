"""The first rows wait until there are enough to measure values and race rates by, however blocks are cut."""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.mission.memory_kernels import Rows
from daskfs.algorithms.mission.rows import NO_PAIRS, frozen
from daskfs.protocol import Meta, State

FIRST_ROWS = 8192
FIRST_ENTRIES = 1 << 20  # a few rows of very many entries are enough


def nobody() -> State:
    """What a state has before the first row; `waiting_from` is the number of that row."""
    return {
        "waiting_indptr": np.zeros(1, np.int64),
        "waiting_ids": np.empty(0, np.uint64),
        "waiting_values": np.empty(0, np.float32),
        "waiting_y": np.empty(0),
        "waiting_weight": np.empty(0, np.float32),
        "waiting_from": 0,
    }


def waiting(state: State) -> Rows:
    """The rows that wait."""
    indptr, ids, values, y, weight = (state[f"waiting_{name}"] for name in ("indptr", "ids", "values", "y", "weight"))
    return frozen(indptr, ids, values, NO_PAIRS, y, weight)


def wait(state: State, rows: Rows, first: int) -> None:
    """Let rows wait, behind those that do already; `first` is the number of the first of them."""
    if len(state["waiting_y"]) == 0:
        state["waiting_from"] = first
    ends = rows.indptr[1:] + state["waiting_indptr"][-1]
    state["waiting_indptr"] = np.concatenate([state["waiting_indptr"], ends])
    for name in ("ids", "values", "y", "weight"):
        state[f"waiting_{name}"] = np.concatenate([state[f"waiting_{name}"], getattr(rows, name)])


def enough(rows: Rows) -> int | None:
    """How many of these rows are the first ones; None if there are too few."""
    by_entries = int(np.searchsorted(rows.indptr, FIRST_ENTRIES))
    count = min(FIRST_ROWS, by_entries)
    return count if count <= len(rows.y) else None


def waiting_nbytes(meta: Meta) -> int:
    """Memory of rows that wait, the block that makes them enough included."""
    return 2 * (12 * min(FIRST_ENTRIES, meta.n_entries) + 24 * min(FIRST_ROWS, meta.n_samples)) + meta.block_nbytes
