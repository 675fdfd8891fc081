"""Blocks of whole rows (CSR) or whole columns (CSC) of a sparse matrix, made from chunks.

A *line* is a row or a column of the matrix. The module `layout` describes how blocks are stored in padded chunks.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Axis, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.blocks import WholeArray, read_only
from daskfs.store.dataset.reader import ArrayReader, ChunkBuffer

Arrays = dict[str, ArrayReader]
SparseBuffers = dict[str, ChunkBuffer]


class _SparseLines:
    """Blocks of lines (rows or columns) of a sparse matrix; the array `index` holds positions of entries on a line."""

    def __init__(self, arrays: Arrays, along: Axis, index: str) -> None:
        self._indptr, self._index, self._values = arrays["indptr"], arrays[index], arrays.get("values")
        self.lines: NDArray[np.int64] = arrays[f"block_{along}"].read_all()
        self.entries: NDArray[np.int64] = arrays["block_entries"].read_all()
        self._chunk: NDArray[np.int64] = arrays["block_chunk"].read_all()
        self.count = len(self.lines)

    @cached_property
    def _ones(self) -> NDArray[np.float32]:
        return np.ones(int(self.entries.max()), np.float32)

    def _buffers(self, *readers: ArrayReader | None) -> SparseBuffers:
        every = (self._indptr, self._index, self._values, *readers)
        return {reader.spec.name: ChunkBuffer(reader.spec) for reader in every if reader is not None}

    def _read_lines(self, number: int, buffers: SparseBuffers) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the arrays indptr, index and values of a block."""
        entries = int(self.entries[number])
        values = self._ones if self._values is None else self._read_entries(self._values, number, buffers)
        indptr = self._read_per_line(self._indptr, number, buffers, more=1)
        return (
            indptr,
            read_only(self._read_entries(self._index, number, buffers)[:entries]),
            read_only(values[:entries]),
        )

    def _read_per_line(self, array: ArrayReader, number: int, buffers: SparseBuffers, more: int = 0) -> NDArray[Any]:
        return read_only(array.read(number, buffers[array.spec.name])[0, : int(self.lines[number]) + more])

    def _read_entries(self, array: ArrayReader, number: int, buffers: SparseBuffers) -> NDArray[Any]:
        buffer = buffers[array.spec.name]
        start, stop = int(self._chunk[number]), int(self._chunk[number + 1])
        if stop - start == 1:
            cells: NDArray[Any] = array.read(start, buffer)[0]
            return cells
        return np.concatenate([array.read(chunk, buffer)[0].copy() for chunk in range(start, stop)])


class SparseBlocks(_SparseLines):
    """Blocks of whole rows of a sparse matrix."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays, "rows", "ids")
        self._y, self._weight = arrays["y"], arrays.get("weight")
        self._first = np.concatenate([[0], np.cumsum(self.lines)])
        self.sizes = 12 * self.entries + (16 if self._weight is None else 20) * self.lines + 8
        self.nbytes = int(np.max(self.sizes)) if self.count else 0

    def new_buffers(self) -> SparseBuffers:
        return self._buffers(self._y, self._weight)

    def read(self, number: int, buffers: SparseBuffers) -> SparseBlock:
        indptr, ids, values = self._read_lines(number, buffers)
        y = self._read_per_line(self._y, number, buffers)
        weight = None if self._weight is None else self._read_per_line(self._weight, number, buffers)
        return SparseBlock(int(self._first[number]), indptr, ids, values, y, weight)


class SparseColumnBlocks(_SparseLines):
    """Blocks of whole non-empty columns of a sparse matrix; every block carries the whole target."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays, "columns", "rows")
        self._ids, self._y = arrays["ids"], WholeArray(arrays["y"])
        self._weight = WholeArray(arrays["weight"]) if "weight" in arrays else None
        self._first: NDArray[np.uint64] = arrays["block_first"].read_all()
        self.width = int(self.lines.max())
        self.sizes = 8 * self.entries + 16 * self.lines + 8
        self.nbytes = int(8 * self.entries.max() + 16 * self.width + 8)

    @property
    def target(self) -> NDArray[np.float64]:
        return self._y.cells()

    @property
    def weight(self) -> NDArray[np.float32] | None:
        return None if self._weight is None else self._weight.cells()

    def new_buffers(self) -> SparseBuffers:
        return self._buffers(self._ids)

    def read(self, number: int, buffers: SparseBuffers) -> SparseColumnBlock:
        ids = self._read_per_line(self._ids, number, buffers)
        return SparseColumnBlock(ids, *self._read_lines(number, buffers), self.target, self.weight)

    def block_numbers(self, ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of the block that holds each column, or would hold the column if it had entries."""
        return np.maximum(np.searchsorted(self._first, ids, side="right") - 1, 0)

    def select_columns(self, block: SparseColumnBlock, ids: NDArray[np.uint64]) -> SparseColumnBlock:
        """Return a copy of the columns `ids` of a block, where a column that the block lacks is empty."""
        at = np.minimum(np.searchsorted(block.ids, ids), len(block.ids) - 1)
        lengths = np.where(block.ids[at] == ids, np.diff(block.indptr)[at], 0)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(block.indptr[at] - indptr[:-1], lengths) + np.arange(indptr[-1])
        rows, values = block.rows[entries], block.values[entries]
        return SparseColumnBlock(
            read_only(ids),
            read_only(indptr),
            read_only(rows),
            read_only(values),
            block.y,
            block.weight,
        )

    def concatenate(self, parts: list[SparseColumnBlock]) -> SparseColumnBlock:
        """Return the columns of several blocks as one block."""
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        ids, rows, values = (np.concatenate([getattr(p, name) for p in parts]) for name in ("ids", "rows", "values"))
        y, weight = parts[0].y, parts[0].weight
        return SparseColumnBlock(read_only(ids), read_only(indptr), read_only(rows), read_only(values), y, weight)
