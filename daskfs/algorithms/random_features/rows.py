"""Blocks as Sparse Random Features take them: dense rows, a target for every score, and their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Loss, check_target, encode_target
from daskfs.errors import OptionError, RowError
from daskfs.protocol import Meta, RowBlock, SparseBlock, State

MOST_INPUTS = 1 << 14
"""More are not "few columns": every feature looks at all of them."""
WINDOW_CELLS = 1 << 19  # made dense and scaled at a time
HELD_BACK = 10  # one row of so many, where something is to be chosen by rows that nobody learned from

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


class Rows(NamedTuple):
    """Some rows, not yet scaled."""

    X: NDArray[np.float64]  # (r, d)
    Y: NDArray[np.float64]  # (r, scores)
    weight: NDArray[np.float64]  # (r,)
    numbers: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        return Rows(self.X[mask], self.Y[mask], self.weight[mask], self.numbers[mask])


def n_inputs(meta: Meta) -> int:
    """How many columns there are; OptionError if those are too many."""
    d = meta.n_features if meta.kind == "dense" else meta.max_id + 1
    if d > MOST_INPUTS:
        raise OptionError(
            f"{d:,} columns: random features look at all of them, and take {MOST_INPUTS:,} at most; "
            "choose some with daskfs.OnlineSubstitution or daskfs.Mission first"
        )
    return d


def labels_of(loss: Loss, meta: Meta) -> NDArray[np.float64]:
    """The classes as blocks carry them where each has a score of its own, else nothing; OptionError for a wrong target.

    Numbers with the squared loss are a target to be met, however few they are, unless there are just two.
    """
    classes = meta.classes
    if classes is None or loss == "squared" or len(classes) <= 2:
        is_text = classes is not None and isinstance(classes[0], str)
        if not (loss == "squared" and is_text and classes is not None and len(classes) > 2):
            check_target(loss, meta)
            return np.empty(0)
    return np.arange(len(classes), dtype=np.float64) if isinstance(classes[0], str) else np.array(classes)


def windows(block: RowBlock | SparseBlock, state: State) -> Iterator[Rows]:
    """The rows of a block, some at a time; RowError names the first value that is not finite."""
    d = len(state["offset"])
    step = max(1, WINDOW_CELLS // (d + len(state["intercept"])))  # scores may well outnumber inputs
    for start in range(0, len(block.y), step):
        at = slice(start, min(start + step, len(block.y)))
        X = block.X[at].astype(np.float64) if isinstance(block, RowBlock) else _dense(block, at, d)
        first = block.first + start
        finite = np.isfinite(X)
        if not finite.all():
            row, column = divmod(int(np.argmin(finite)), d)
            raise RowError(first + row, column, f"the value {X[row, column]} is not finite; fill it, or drop the row")
        weight = np.ones(len(X)) if block.weight is None else block.weight[at].astype(np.float64)
        yield Rows(X, _targets(block.y[at], state), weight, np.arange(first, first + len(X)))


def row_numbers_hashed(numbers: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Random numbers that depend on nothing but the row and the seed, one for each row.

    >>> row_numbers_hashed(np.arange(3), seed=0) == row_numbers_hashed(np.arange(2, 5), seed=0)[0]
    array([False, False,  True])
    """
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) * _MIX[0] + np.uint64((seed + 1) % 2**64) * _MIX[2]
        x = (x ^ (x >> np.uint64(30))) * _MIX[1]
        x = (x ^ (x >> np.uint64(27))) * _MIX[2]
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def are_held_back(numbers: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Which rows nobody learns from."""
    held: NDArray[np.bool_] = row_numbers_hashed(numbers, seed) % np.uint64(HELD_BACK) == 0
    return held


def _targets(y: NDArray[np.float64], state: State) -> NDArray[np.float64]:
    """A column for every score: the number, −1 or +1 for two classes, and for more of them one against the rest."""
    if len(state["labels"]):
        return np.where(y[:, None] == state["labels"], 1.0, -1.0)
    target = encode_target(y, state["positive"])
    scaled: NDArray[np.float64] = (target - state["target_offset"]) * state["target_scale"]
    return scaled[:, None]


def _dense(block: SparseBlock, at: slice, d: int) -> NDArray[np.float64]:
    indptr = block.indptr[at.start : at.stop + 1]
    entries = slice(indptr[0], indptr[-1])
    X = np.zeros((len(indptr) - 1, d))
    X[np.repeat(np.arange(len(X)), np.diff(indptr)), block.ids[entries].astype(np.intp)] = block.values[entries]
    return X
