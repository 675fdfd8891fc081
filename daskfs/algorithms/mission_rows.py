"""Blocks as the kernels of MISSION take them: sparse rows, a target in their terms, pairs of features if wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss import coded
from daskfs.algorithms.mission_kernels import Rows
from daskfs.protocol import Meta, RowBlock, SparseBlock, State

_NO_PAIRS = np.empty((0, 2), np.uint64)
_NO_WEIGHT = np.empty(0, np.float32)


def rows_of(block: RowBlock | SparseBlock, state: State) -> Rows:
    """The rows of a block."""
    if isinstance(block, RowBlock):
        indptr, ids, values = _sparse(block.X)
    else:
        indptr, ids, values = block.indptr, block.ids, block.values
    if len(state["labels"]):
        y = np.searchsorted(state["labels"], block.y).astype(np.float64)
    else:
        y = coded(block.y, state["positive"])
    return frozen(indptr, ids, values, _NO_PAIRS, y, _NO_WEIGHT if block.weight is None else block.weight)


def numbers_of(meta: Meta) -> NDArray[np.float64]:
    """The classes as blocks carry them, ascending: the labels themselves, or where those are text their numbers."""
    classes = meta.classes or ()
    return np.arange(len(classes), dtype=np.float64) if classes and isinstance(classes[0], str) else np.array(classes)


def first_not_finite(rows: Rows, row: int) -> int:
    """The first feature of a row whose value is not finite."""
    entries = slice(rows.indptr[row], rows.indptr[row + 1])
    return int(rows.ids[entries][~np.isfinite(rows.values[entries])][0])


def frozen(*arrays: NDArray[Any]) -> Rows:
    """Rows that kernels may only read: one machine code serves blocks, whose memory is protected, and all others."""
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return Rows(*views)


def part(rows: Rows, start: int, stop: int) -> Rows:
    """Some of the rows."""
    first, last = rows.indptr[start], rows.indptr[stop]
    pairs = rows.pairs[first:last] if len(rows.pairs) else rows.pairs
    weight = rows.weight[start:stop] if len(rows.weight) else rows.weight
    indptr = rows.indptr[start : stop + 1] - first
    return frozen(indptr, rows.ids[first:last], rows.values[first:last], pairs, rows.y[start:stop], weight)


def _sparse(X: NDArray[np.floating[Any]]) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32]]:
    """The cells that are not zero, row by row."""
    line, column = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(line, minlength=len(X)))])
    return indptr, column.astype(np.uint64), X[line, column].astype(np.float32)
