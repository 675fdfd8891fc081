"""Rows as the kernels of MISSION take them: from blocks, in slices, and joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.memory_kernels import SparseRows
from daskfs.errors import RowError
from daskfs.protocol import RowBlock, SparseBlock

_NO_PAIRS = np.empty((0, 2), np.uint64)
_NO_WEIGHT = np.empty(0, np.float32)


def rows_of(block: RowBlock | SparseBlock, y: NDArray[np.float64]) -> SparseRows:
    """Return the rows of a block, with their target as kernels take it."""
    weight = _NO_WEIGHT if block.weight is None else block.weight
    if isinstance(block, SparseBlock):
        return read_only(block.indptr, block.ids, block.values, _NO_PAIRS, y, weight)
    row, column = np.nonzero(block.X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(block.X)))])
    values = block.X[row, column].astype(np.float32)
    return read_only(indptr, column.astype(np.uint64), values, _NO_PAIRS, y, weight)


def read_only(*arrays: NDArray[Any]) -> SparseRows:
    """Return rows of read-only arrays: one compiled kernel serves blocks, whose memory is protected, and all others."""
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return SparseRows(*views)


NO_ROWS = read_only(np.zeros(1, np.int64), np.empty(0, np.uint64), _NO_WEIGHT, _NO_PAIRS, np.empty(0), _NO_WEIGHT)


def slice_rows(rows: SparseRows, start: int, stop: int) -> SparseRows:
    """Return rows start … stop - 1."""
    first, last = rows.indptr[start], rows.indptr[stop]
    pairs = rows.pairs[first:last] if len(rows.pairs) else rows.pairs
    weight = rows.weight[start:stop] if len(rows.weight) else rows.weight
    indptr = rows.indptr[start : stop + 1] - first
    return read_only(indptr, rows.ids[first:last], rows.values[first:last], pairs, rows.y[start:stop], weight)


def take_rows(rows: SparseRows, numbers: NDArray[np.intp]) -> SparseRows:
    """Return copies of some rows, without pairs."""
    starts, sizes = rows.indptr[numbers], np.diff(rows.indptr)[numbers]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.repeat(starts - indptr[:-1], sizes) + np.arange(indptr[-1])
    weight = rows.weight[numbers] if len(rows.weight) else rows.weight
    return read_only(indptr, rows.ids[entries], rows.values[entries], _NO_PAIRS, rows.y[numbers], weight)


def join_rows(parts: Sequence[SparseRows]) -> SparseRows:
    """Return the rows of all parts in one, without pairs."""
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    ids, values, y, weight = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "values", "y", "weight")
    )
    return read_only(indptr, ids, values, _NO_PAIRS, y, weight)


def ignore_rows(rows: SparseRows, which: NDArray[np.bool_]) -> SparseRows:
    """Return the rows with weight 0 for some of them, from which kernels learn nothing."""
    weight = rows.weight if len(rows.weight) else np.ones(len(which), np.float32)
    return read_only(*rows[:-1], np.where(which, np.float32(0), weight))


def are_usable(rows: SparseRows) -> NDArray[np.bool_]:
    """Return for every value whether it and its square are finite."""
    with np.errstate(over="ignore"):
        usable: NDArray[np.bool_] = np.isfinite(np.square(rows.values))
    return usable


def unusable_value(rows: SparseRows, first: int) -> RowError:
    """Return an error that names the first value that is not usable; `first` is the number of the first row."""
    entry = int(np.argmin(are_usable(rows)))
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    reason = f"the value {rows.values[entry]} is not finite, or too large; write the data again without it"
    return RowError(first + row, int(rows.ids[entry]), reason)
