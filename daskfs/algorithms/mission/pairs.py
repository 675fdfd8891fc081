"""Interactions: a feature for every pair of features in a row, or of two name spaces, with the product of their values.

They are made while rows are read, a window at a time, and stored nowhere. Their ids are hashes, so the two parents of
those in a table are kept beside them: names come back complete.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.memory_kernels import Rows
from daskfs.algorithms.mission.pairs_kernels import add_members, counted_pairs, with_pairs
from daskfs.algorithms.mission.rows import frozen, part
from daskfs.errors import OptionError, RowError
from daskfs.protocol import NO_PARENT, Meta, State

WINDOW = 1 << 20  # entries, pairs included
MOST_PAIRS = 1 << 21  # of one row
_ENTRY_BYTES = 8 + 4 + 16
_ALL = "all"


def check_interactions(given: str | None) -> None:
    """OptionError for what names neither all features nor two name spaces."""
    if given is not None and given != _ALL and len([space for space in given.split(",") if space.strip()]) != 2:
        raise OptionError(f"interactions={given!r:.80}: must be 'all', or two name spaces such as 'user,ad'")


def name_spaces(interactions: str | None, meta: Meta) -> State:
    """The features on either side of a pair, in tables; empty tables where all are."""
    sides = (interactions or _ALL).split(",")
    if sides == [_ALL]:
        return {"left": np.empty(0, np.uint64), "right": np.empty(0, np.uint64)}
    return {side: _table(space.strip(), meta) for side, space in zip(("left", "right"), sides, strict=True)}


def pairs_nbytes(interactions: str | None, meta: Meta) -> int:
    """Memory of a window and of the name spaces, at their largest."""
    if interactions is None:
        return 0
    tables = 0 if interactions == _ALL else 2 * 8 * _capacity(meta.n_features)
    return (WINDOW + MOST_PAIRS) * _ENTRY_BYTES + tables


def windows(rows: Rows, state: State, first: int) -> Iterator[Rows]:
    """Rows with their pairs, some at a time; `first` is the number of the first of them."""
    if "left" not in state:
        yield rows
        return
    left, right = state["left"], state["right"]
    counts = counted_pairs(rows.indptr, rows.ids, left, right)
    if counts.max(initial=0) > MOST_PAIRS:
        row = int(counts.argmax())
        feature, size = int(rows.ids[rows.indptr[row]]), np.diff(rows.indptr)[row]
        raise RowError(
            first + row, feature, f"one of {size:,} that make {counts[row]:,} pairs, of at most {MOST_PAIRS:,}"
        )
    ends = np.cumsum(counts) + rows.indptr[1:]
    start = 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + WINDOW, side="right")))
        some = part(rows, start, stop)
        made = with_pairs(some.indptr, some.ids, some.values, left, right, counts[start:stop])
        yield frozen(*made, some.y, some.weight)
        start = stop


def parents_of(state: State, features: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The two features that each of these is made of, or twice `NO_PARENT`."""
    keys, parents = state["keys"].ravel(), state["parents"].reshape(-1, 2)
    slots = np.flatnonzero(keys)
    order = slots[np.argsort(keys[slots], kind="stable")]
    found: NDArray[np.uint64] = parents[order[np.searchsorted(keys[order], features + np.uint64(1))]]
    return found


def is_made(parents: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which features are pairs."""
    made: NDArray[np.bool_] = parents[:, 0] != np.uint64(NO_PARENT)
    return made


def _capacity(members: int) -> int:
    return 1 << (2 * members).bit_length()


def _table(space: str, meta: Meta) -> NDArray[np.uint64]:
    members = meta.members(space)
    if len(members) == 0:
        raise OptionError(f"interactions: no feature is of the name space {space!r:.80}, like {space}^… or {space}=…")
    keys = np.zeros(_capacity(len(members)), np.uint64)
    add_members(members, keys)
    return keys
