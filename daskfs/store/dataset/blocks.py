"""From chunks to blocks: how a dense dataset is cut, and how one block is put together (sparse: `sparse_blocks`).

Each class has `count`, `nbytes` (of the largest block), `sizes` (bytes of each as it is handed out),
`new_buffers()` and ``read(number, buffers)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import ColumnBlock, RowBlock
from daskfs.store.dataset.reader import ArrayReader, ChunkBuffer
from daskfs.store.dataset.shared_reads import RecentChunks, WholeArray


class ColumnBlocks:
    """Whole columns of a dense matrix, one chunk a block; every block carries the whole target."""

    def __init__(self, X: ArrayReader, y: ArrayReader, weight: ArrayReader | None = None) -> None:
        self._X, self._y = X, WholeArray(y)
        self._weight = None if weight is None else WholeArray(weight)
        self.count, self.width = X.spec.n_chunks, X.spec.chunks[1]
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize

    @property
    def sizes(self) -> NDArray[np.int64]:
        return _extents(self._X, 1) * (self._X.spec.shape[0] * int(self._X.spec.dtype.itemsize))

    @property
    def target(self) -> NDArray[np.float64]:
        return self._y.cells()

    @property
    def weight(self) -> NDArray[np.float32] | None:
        return None if self._weight is None else self._weight.cells()

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> ColumnBlock:
        X = self._X.read(number, buffers)
        first = number * self.width
        ids = np.arange(first, first + X.shape[1], dtype=np.uint64)
        return ColumnBlock(read_only(ids), read_only(X), self.target, self.weight)

    def holding(self, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The number of the block that each column is in."""
        return ids // np.uint64(self.width)

    def picked(self, block: ColumnBlock, ids: NDArray[np.uint64]) -> ColumnBlock:
        """Some columns of a block, in memory of their own."""
        X = block.X.T[np.searchsorted(block.ids, ids)].T
        return ColumnBlock(read_only(ids), read_only(X), block.y, block.weight)

    def joined(self, parts: list[ColumnBlock]) -> ColumnBlock:
        """The columns of several blocks in one."""
        if len(parts) == 1:
            return parts[0]
        ids = np.concatenate([part.ids for part in parts])
        X = np.concatenate([part.X.T for part in parts]).T
        return ColumnBlock(read_only(ids), read_only(X), parts[0].y, parts[0].weight)


class RowBlocks:
    """Whole rows of a dense matrix, one chunk a block."""

    def __init__(self, X: ArrayReader, y: ArrayReader, weight: ArrayReader | None = None) -> None:
        self._X, self._y = X, RecentChunks(y)
        self._weight = None if weight is None else RecentChunks(weight)
        self.count = X.spec.n_chunks
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize + 8 * X.spec.chunks[0]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return _extents(self._X, 0) * (self._X.spec.shape[1] * int(self._X.spec.dtype.itemsize) + 8)

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> RowBlock:
        X = self._X.read(number, buffers)
        first = number * self._X.spec.chunks[0]
        rows = first, first + len(X)
        weight = None if self._weight is None else read_only(_between(self._weight, *rows))
        return RowBlock(first, read_only(X), read_only(_between(self._y, *rows)), weight)


def _between(array: RecentChunks, start: int, stop: int) -> NDArray[Any]:
    """Some of the numbers that there is one of for every row."""
    step = array.spec.chunks[0]
    parts = []
    for number in range(start // step, -(-stop // step)):
        begin = number * step
        parts.append(array.read(number)[max(start - begin, 0) : stop - begin])
    return np.concatenate(parts)


def _extents(array: ArrayReader, dimension: int) -> NDArray[np.int64]:
    """How long each chunk is along a dimension; the last one may be shorter."""
    size, step = array.spec.shape[dimension], array.spec.chunks[dimension]
    return np.minimum(size - step * np.arange(-(-size // step)), step)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to: blocks share memory, and algorithms must not change them."""
    view = array.view()
    view.flags.writeable = False
    return view
