"""Rows and columns of blocks of every kind are those that numpy and scipy take from the matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from daskfs.protocol import Block, ColumnBlock, RowBlock, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.slicing import take_columns, take_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(9, 6)).astype(np.float32) * (RNG.random((9, 6)) < 0.5)
X[4], X[:, 2] = 0, 0  # a row and a column without entries
Y, WEIGHT = np.arange(9.0), np.arange(9, dtype=np.float32)
IDS = np.array([3, 5, 8, 13, 21, 34], np.uint64)
ROWS = np.array([1, 0, 0, 1, 1, 0, 1, 1, 0], bool)


def block_of(kind: type, X: np.ndarray, ids: np.ndarray, y: np.ndarray, weight: np.ndarray | None, first: int) -> Block:
    rows, columns = sp.csr_array(X), sp.csc_array(X)
    if kind is ColumnBlock:
        return ColumnBlock(ids, np.asfortranarray(X), y, weight)
    if kind is RowBlock:
        return RowBlock(first, X, y, weight)
    if kind is SparseBlock:
        return SparseBlock(first, rows.indptr, ids[rows.indices], rows.data, y, weight)
    return SparseColumnBlock(ids, columns.indptr, columns.indices.astype(np.uint32), columns.data, y, weight)


def assert_same(block: Block, expected: Block) -> None:
    assert type(block) is type(expected)
    for name in type(block).__dataclass_fields__:
        np.testing.assert_array_equal(getattr(block, name), getattr(expected, name))


@pytest.mark.parametrize(
    "rows", [ROWS, ~ROWS, np.zeros(9, bool), np.ones(9, bool)], ids=["some", "others", "no", "all"]
)
@pytest.mark.parametrize("kind", [ColumnBlock, SparseColumnBlock, RowBlock, SparseBlock])
def test_rows(kind, rows):
    taken = take_rows(block_of(kind, X, IDS, Y, WEIGHT, 40), rows, 20)
    assert_same(taken, block_of(kind, X[rows], IDS, Y[rows], WEIGHT[rows], 20))


@pytest.mark.parametrize("kind", [ColumnBlock, SparseColumnBlock])
def test_columns(kind):
    block = block_of(kind, X, IDS, Y, None, 0)
    taken = take_columns(block, np.array([34, 8, 5, 6], np.uint64))
    assert_same(taken, block_of(kind, X[:, [1, 2, 5]], IDS[[1, 2, 5]], Y, None, 0))
    assert take_columns(block, np.array([6], np.uint64)) is None
