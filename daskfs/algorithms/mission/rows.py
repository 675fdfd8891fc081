"""Blocks as the kernels of MISSION take them: sparse rows, and a target in their terms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import encode_target
from daskfs.algorithms.mission.frequency import factors
from daskfs.algorithms.mission.memory_kernels import Rows
from daskfs.errors import RowError
from daskfs.protocol import Meta, RowBlock, SparseBlock, State

NO_PAIRS = np.empty((0, 2), np.uint64)
_NO_WEIGHT = np.empty(0, np.float32)


def rows_of(block: RowBlock | SparseBlock, state: State) -> Rows:
    """The rows of a block."""
    if isinstance(block, RowBlock):
        indptr, ids, values = _sparse(block.X)
    else:
        indptr, ids, values = block.indptr, block.ids, block.values
    if state["idf"].size:
        values = values * factors(state, ids)
    if len(state["labels"]):
        y = np.searchsorted(state["labels"], block.y).astype(np.float64)
    else:
        y = encode_target(block.y, state["positive"])
    return frozen(indptr, ids, values, NO_PAIRS, y, _NO_WEIGHT if block.weight is None else block.weight)


def numbers_of(meta: Meta) -> NDArray[np.float64]:
    """The classes as blocks carry them, ascending: the labels themselves, or where those are text their numbers."""
    classes = meta.classes or ()
    return np.arange(len(classes), dtype=np.float64) if classes and isinstance(classes[0], str) else np.array(classes)


def are_usable(rows: Rows) -> NDArray[np.bool_]:
    """Which values are finite, and their squares too."""
    with np.errstate(over="ignore"):
        usable: NDArray[np.bool_] = np.isfinite(np.square(rows.values))
    return usable


def first_unusable(rows: Rows, first: int) -> RowError:
    """What to say of the first value that cannot be used; `first` is the first row's number."""
    entry = int(np.argmin(are_usable(rows)))
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    reason = f"the value {rows.values[entry]} is not finite, or too large; write the data again without it"
    return RowError(first + row, int(rows.ids[entry]), reason)


def frozen(*arrays: NDArray[Any]) -> Rows:
    """Rows that kernels may only read: one machine code serves blocks, whose memory is protected, and all others."""
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return Rows(*views)


def part(rows: Rows, start: int, stop: int) -> Rows:
    """Some of the rows, that follow each other."""
    first, last = rows.indptr[start], rows.indptr[stop]
    pairs = rows.pairs[first:last] if len(rows.pairs) else rows.pairs
    weight = rows.weight[start:stop] if len(rows.weight) else rows.weight
    indptr = rows.indptr[start : stop + 1] - first
    return frozen(indptr, rows.ids[first:last], rows.values[first:last], pairs, rows.y[start:stop], weight)


def picked(rows: Rows, numbers: NDArray[np.intp]) -> Rows:
    """Some of the rows, copied."""
    starts, sizes = rows.indptr[numbers], np.diff(rows.indptr)[numbers]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.repeat(starts - indptr[:-1], sizes) + np.arange(indptr[-1])
    weight = rows.weight[numbers] if len(rows.weight) else rows.weight
    return frozen(indptr, rows.ids[entries], rows.values[entries], NO_PAIRS, rows.y[numbers], weight)


def _sparse(X: NDArray[np.floating[Any]]) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32]]:
    """The cells that are not zero, row by row."""
    line, column = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=len(X)))])
    return indptr, column.astype(np.uint64), X[line, column].astype(np.float32)
