"""Some of the rows or columns of a block, as a block of the same kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Block, ColumnBlock, RowBlock, SparseBlock, SparseColumnBlock


def take_rows(block: Block, is_in: NDArray[np.bool_], first: int = 0) -> Block:
    """Return a copy of the rows of a block for which `is_in` is True; a block of rows then begins at row `first`."""
    if isinstance(block, SparseBlock):
        return take_sparse_rows(block, is_in, first)
    rows = np.flatnonzero(is_in)
    y, weight = block.y[rows], None if block.weight is None else block.weight[rows]
    if isinstance(block, RowBlock):
        return RowBlock(first, block.X[rows], y, weight)
    if isinstance(block, ColumnBlock):
        return ColumnBlock(block.ids.copy(), block.X.T.take(rows, axis=1).T, y, weight)
    is_taken, numbers = is_in[block.rows], (np.cumsum(is_in) - 1).astype(np.uint32)  # among the rows taken
    indptr = np.concatenate([[0], np.cumsum(is_taken)])[block.indptr]
    return SparseColumnBlock(block.ids.copy(), indptr, numbers[block.rows[is_taken]], block.values[is_taken], y, weight)


def take_sparse_rows(block: SparseBlock, is_in: NDArray[np.bool_], first: int = 0) -> SparseBlock:
    """Return a copy of the rows of a sparse block for which `is_in` is True, to begin at row `first`."""
    lengths = np.diff(block.indptr)
    is_taken, indptr = np.repeat(is_in, lengths), np.concatenate([[0], np.cumsum(lengths[is_in])])
    weight = None if block.weight is None else block.weight[is_in]
    return SparseBlock(first, indptr, block.ids[is_taken], block.values[is_taken], block.y[is_in], weight)


def take_columns(block: Block, ids: NDArray[np.uint64]) -> Block | None:
    """Return the columns of a block of columns that are among `ids`, or None if there are none."""
    assert isinstance(block, ColumnBlock | SparseColumnBlock)
    is_in = np.isin(block.ids, ids)
    if not is_in.any():
        return None
    if isinstance(block, ColumnBlock):
        return replace(block, ids=block.ids[is_in], X=block.X[:, is_in])
    lengths = np.diff(block.indptr)
    is_taken, indptr = np.repeat(is_in, lengths), np.concatenate([[0], np.cumsum(lengths[is_in])])
    return replace(block, ids=block.ids[is_in], indptr=indptr, rows=block.rows[is_taken], values=block.values[is_taken])
