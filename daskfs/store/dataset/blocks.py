"""Blocks of a dense dataset, made from chunks, and the selection of columns by feature id.

Each class of blocks has `count`, `nbytes` (of the largest block), `sizes` (bytes of every block), `new_buffers()` and
``read(number, buffers)``. The module `sparse_blocks` has the classes for sparse datasets.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import OptionError
from daskfs.protocol import ColumnBlock, RowBlock, SparseColumnBlock
from daskfs.store.dataset.reader import ArrayReader, ChunkBuffer
from daskfs.store.places.read_ahead import Prefetcher

_RECENT = 4  # chunks held by `RecentChunks`: blocks are read a few at a time, nearly in order

B = TypeVar("B", ColumnBlock, SparseColumnBlock)


class WholeArray:
    """A one-dimensional array that all blocks share and that is read once, such as the target of column blocks."""

    def __init__(self, array: ArrayReader) -> None:
        self._array, self._lock = array, threading.Lock()
        self._cells: NDArray[Any] | None = None

    def cells(self) -> NDArray[Any]:
        """Return the whole array, which the first calling thread reads from the store."""
        with self._lock:
            if self._cells is None:
                self._cells = read_only(self._array.read_all())
            return self._cells


class RecentChunks:
    """An array with one number per row, such as the target of row blocks; the last few chunks stay in memory."""

    def __init__(self, array: ArrayReader) -> None:
        self._array, self._lock = array, threading.Lock()
        self._chunks: dict[int, NDArray[Any]] = {}

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return the cells of the rows `start` … `stop` - 1."""
        step = self._array.spec.chunks[0]
        parts = []
        for number in range(start // step, -(-stop // step)):
            begin = number * step
            parts.append(self._chunk(number)[max(start - begin, 0) : stop - begin])
        return read_only(np.concatenate(parts))

    def _chunk(self, number: int) -> NDArray[Any]:
        with self._lock:
            if number not in self._chunks:
                if len(self._chunks) == _RECENT:
                    del self._chunks[next(iter(self._chunks))]
                self._chunks[number] = self._array.read(number)
            return self._chunks[number]


class ColumnBlocks:
    """Blocks of whole columns of a dense matrix, one chunk per block; every block carries the whole target."""

    def __init__(self, X: ArrayReader, y: ArrayReader, weight: ArrayReader | None = None) -> None:
        self._X, self._y = X, WholeArray(y)
        self._weight = None if weight is None else WholeArray(weight)
        self.count, self.width = X.spec.n_chunks, X.spec.chunks[1]
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize
        self.sizes = _extents(X, 1) * (X.spec.shape[0] * int(X.spec.dtype.itemsize))

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

    def block_numbers(self, ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return ids // np.uint64(self.width)

    def select_columns(self, block: ColumnBlock, ids: NDArray[np.uint64]) -> ColumnBlock:
        X = block.X.T[np.searchsorted(block.ids, ids)].T
        return ColumnBlock(read_only(ids), read_only(X), block.y, block.weight)

    def concatenate(self, parts: list[ColumnBlock]) -> ColumnBlock:
        ids = np.concatenate([part.ids for part in parts])
        X = np.concatenate([part.X.T for part in parts]).T
        return ColumnBlock(read_only(ids), read_only(X), parts[0].y, parts[0].weight)


class RowBlocks:
    """Blocks of whole rows of a dense matrix, one chunk per block."""

    def __init__(self, X: ArrayReader, y: ArrayReader, weight: ArrayReader | None = None) -> None:
        self._X, self._y = X, RecentChunks(y)
        self._weight = None if weight is None else RecentChunks(weight)
        self.count = X.spec.n_chunks
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize + 8 * X.spec.chunks[0]
        self.sizes = _extents(X, 0) * (X.spec.shape[1] * int(X.spec.dtype.itemsize) + 8)

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> RowBlock:
        X = self._X.read(number, buffers)
        first = number * self._X.spec.chunks[0]
        last = first + len(X)
        weight = None if self._weight is None else self._weight.rows(first, last)
        return RowBlock(first, read_only(X), self._y.rows(first, last), weight)


def _extents(array: ArrayReader, dimension: int) -> NDArray[np.int64]:
    """Return the length of each chunk along a dimension, where the last chunk may be shorter."""
    size, step = array.spec.shape[dimension], array.spec.chunks[dimension]
    return np.minimum(size - step * np.arange(-(-size // step)), step)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array, since blocks share memory and algorithms must not change a block."""
    view = array.view()
    view.flags.writeable = False
    return view


class BlocksOfColumns(Protocol[B]):
    """Interface of a dense or sparse dataset that is read in blocks of whole columns."""

    width: int
    """Number of columns in the widest block."""
    nbytes: int
    """Size of the largest block in bytes."""

    def new_buffers(self) -> Any: ...

    def read(self, number: int, buffers: Any, /) -> B: ...

    def block_numbers(self, ids: NDArray[np.uint64], /) -> NDArray[np.integer[Any]]:
        """Return the number of the block that holds each of the columns `ids`."""

    def select_columns(self, block: B, ids: NDArray[np.uint64], /) -> B:
        """Return a copy of the columns `ids` of a block."""

    def concatenate(self, parts: list[B], /) -> B:
        """Return the columns of several blocks as one block."""


def check_column_ids(ids: ArrayLike, size: int) -> NDArray[np.uint64]:
    """Return feature ids in ascending order. Raise an error if an id is repeated, negative or not below `size`."""
    array = np.asarray(ids).reshape(-1)
    if len(array) and array.dtype.kind not in "iu":
        raise OptionError(f"columns are asked for by feature id, a whole number, not {array.dtype}")
    if len(array) and array.min() < 0:
        raise IndexError(f"feature {array.min()}: ids are not negative")
    ascending = np.sort(array.astype(np.uint64))
    if len(ascending) and int(ascending[-1]) >= size:
        raise IndexError(f"feature {ascending[-1]} of {size}")
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    if len(repeated):
        raise OptionError(f"feature {repeated[0]} is asked for twice; ask once")
    return ascending


def read_columns(blocks: BlocksOfColumns[B], ids: NDArray[np.uint64], max_width: int | None) -> Iterator[B]:
    """Yield the columns `ids` in blocks, none larger than a block of the dataset nor wider than `max_width`.

    Every chunk is read once, and a thread reads the next chunk while the caller works.
    """
    if max_width is not None and max_width < 1:
        raise OptionError(f"columns_per_block: {max_width} columns are no block; 1 is the least")
    width = min(max_width or blocks.width, blocks.width)
    numbers, starts = np.unique(blocks.block_numbers(ids), return_index=True)
    groups = np.split(ids, starts[1:])

    def read(i: int, buffers: Any) -> list[B]:
        block = blocks.read(int(numbers[i]), buffers)
        slices = (groups[i][start : start + width] for start in range(0, len(groups[i]), width))
        return [blocks.select_columns(block, some) for some in slices]

    return _regroup(blocks, Prefetcher[list[B], Any](read, range(len(numbers)), blocks.new_buffers, 1), width)


def _regroup(blocks: BlocksOfColumns[B], slices: Prefetcher[list[B], Any], width: int) -> Iterator[B]:
    """Yield the columns of several chunks together, as many columns as fit into a block."""
    group: list[B] = []
    columns, nbytes = 0, 0
    for parts in slices:
        for part in parts:
            if group and (columns + len(part.ids) > width or nbytes + part.nbytes > blocks.nbytes):
                yield blocks.concatenate(group) if len(group) > 1 else group[0]
                group, columns, nbytes = [], 0, 0
            group.append(part)
            columns, nbytes = columns + len(part.ids), nbytes + part.nbytes
    if group:
        yield blocks.concatenate(group) if len(group) > 1 else group[0]
