"""Blocks of whole rows or whole columns of a dense or sparse matrix, made from chunks.

Each class of blocks has `count`, `nbytes` (of the largest block), `sizes` (bytes of every block), `new_buffers()` and
``read(number, buffers)``. A *line* is a row or a column of a sparse matrix. The module `layout` describes how blocks of
lines are stored in padded chunks.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import ChunkError, DatasetError, OptionError
from daskfs.jit import read_only
from daskfs.protocol import Axis, ColumnBlock, RowBlock, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.reader import ArrayReader, ChunkBuffer
from daskfs.store.places.read_ahead import Prefetcher

_RECENT = 4  # chunks of labels, and of weights, in memory: blocks are read a few at a time, nearly in order

Arrays = dict[str, ArrayReader]
SparseBuffers = dict[str, ChunkBuffer]
B = TypeVar("B", ColumnBlock, SparseColumnBlock)


class RowBlocks:
    """Blocks of whole rows of a dense matrix, one chunk per block."""

    def __init__(self, X: ArrayReader, y: ArrayReader, weight: ArrayReader | None = None) -> None:
        self._X, self._y, self._weight, self._lock = X, y, weight, threading.Lock()
        kept = _RECENT if weight is None else 2 * _RECENT
        self._label_chunk = lru_cache(kept)(lambda array, number: array.read(number))
        self.count = X.spec.n_chunks
        target_bytes = 8 * math.prod(y.spec.shape[1:])
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize + target_bytes * X.spec.chunks[0]
        self.sizes = _extents(X, 0) * (X.spec.shape[1] * int(X.spec.dtype.itemsize) + target_bytes)

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> RowBlock:
        X = self._X.read(number, buffers)
        first = number * self._X.spec.chunks[0]
        weight = None if self._weight is None else self._labels(self._weight, first, first + len(X))
        return RowBlock(first, read_only(X), self._labels(self._y, first, first + len(X)), weight)

    def _labels(self, array: ArrayReader, start: int, stop: int) -> NDArray[Any]:
        """Return the labels or weights of the rows `start` … `stop` - 1, of which the last few chunks are kept."""
        step, parts = array.spec.chunks[0], []
        for number in range(start // step, -(-stop // step)):
            with self._lock:  # so that one thread reads a chunk that several need
                chunk = self._label_chunk(array, number)
            parts.append(chunk[max(start - number * step, 0) : stop - number * step])
        return read_only(np.concatenate(parts))


def _extents(array: ArrayReader, dimension: int) -> NDArray[np.int64]:
    """Return the length of each chunk along a dimension, where the last chunk may be shorter."""
    size, step = array.spec.shape[dimension], array.spec.chunks[dimension]
    return np.minimum(size - step * np.arange(-(-size // step)), step)


class BlocksOfColumns(ABC, Generic[B]):
    """Blocks of whole columns; every block carries the whole target, which is read once."""

    width: int
    """Number of columns in the widest block."""
    nbytes: int
    """Size of the largest block in bytes."""

    def __init__(self, y: ArrayReader, weight: ArrayReader | None) -> None:
        self._y, self._weight, self._lock = y, weight, threading.Lock()
        self._whole = lru_cache(lambda array: read_only(array.read_all()))

    @property
    def target(self) -> NDArray[np.float64]:
        with self._lock:  # the first thread reads, the others wait
            return self._whole(self._y)

    @property
    def weight(self) -> NDArray[np.float32] | None:
        with self._lock:
            return None if self._weight is None else self._whole(self._weight)

    @abstractmethod
    def new_buffers(self) -> Any: ...

    @abstractmethod
    def read(self, number: int, buffers: Any) -> B: ...

    @abstractmethod
    def block_numbers(self, ids: NDArray[np.uint64]) -> NDArray[np.integer[Any]]:
        """Return the number of the block that holds each of the columns `ids`."""

    @abstractmethod
    def select_columns(self, block: B, ids: NDArray[np.uint64]) -> B:
        """Return a copy of the columns `ids` of a block."""

    @abstractmethod
    def concatenate(self, parts: list[B]) -> B:
        """Return the columns of several blocks as one block."""

    def columns(self, ids: NDArray[np.uint64], max_width: int | None) -> Iterator[B]:
        """Yield the columns `ids` in blocks, none larger than a block of the dataset nor wider than `max_width`.

        Every chunk is read once, and a thread reads the next chunk while the caller works.
        """
        if max_width is not None and max_width < 1:
            raise OptionError(f"columns_per_block: {max_width} columns are no block; 1 is the least")
        width = min(max_width or self.width, self.width)
        numbers, starts = np.unique(self.block_numbers(ids), return_index=True)
        groups = np.split(ids, starts[1:])

        def read(i: int, buffers: Any) -> list[B]:
            block = self.read(int(numbers[i]), buffers)
            slices = (groups[i][start : start + width] for start in range(0, len(groups[i]), width))
            return [self.select_columns(block, some) for some in slices]

        return self._regroup(Prefetcher[list[B], Any](read, range(len(numbers)), self.new_buffers, 1), width)

    def _regroup(self, slices: Prefetcher[list[B], Any], width: int) -> Iterator[B]:
        """Yield the columns of several chunks together, as many columns as fit into a block."""
        group: list[B] = []
        columns, nbytes = 0, 0
        for parts in slices:
            for part in parts:
                if group and (columns + len(part.ids) > width or nbytes + part.nbytes > self.nbytes):
                    yield self.concatenate(group) if len(group) > 1 else group[0]
                    group, columns, nbytes = [], 0, 0
                group.append(part)
                columns, nbytes = columns + len(part.ids), nbytes + part.nbytes
        if group:
            yield self.concatenate(group) if len(group) > 1 else group[0]


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


class ColumnBlocks(BlocksOfColumns[ColumnBlock]):
    """Blocks of whole columns of a dense matrix, one chunk per block."""

    def __init__(self, X: ArrayReader, y: ArrayReader, weight: ArrayReader | None = None) -> None:
        super().__init__(y, weight)
        self._X, self.count, self.width = X, X.spec.n_chunks, X.spec.chunks[1]
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize
        self.sizes = _extents(X, 1) * (X.spec.shape[0] * int(X.spec.dtype.itemsize))

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


class _StoredLines:
    """Reader of the lines (rows or columns) of a sparse matrix; the array `index` holds positions on a line."""

    def __init__(self, arrays: Arrays, along: Axis, index: str, others: list[str]) -> None:
        names = ["indptr", index, "values", *others]
        self._arrays, self._index = {name: arrays[name] for name in names if name in arrays}, index
        self.lines: NDArray[np.int64] = arrays[f"block_{along}"].read_all()
        self.entries: NDArray[np.int64] = arrays["block_entries"].read_all()
        self._chunk: NDArray[np.int64] = arrays["block_chunk"].read_all()
        self._check_index()

    def _check_index(self) -> None:
        """Raise DatasetError if the block index says that a block has more lines, entries or chunks than there are."""
        indptr, index = self._arrays["indptr"].spec, self._arrays[self._index]
        (n_chunks, width), chunks = index.spec.shape, np.diff(self._chunk)
        good_lines = (self.lines >= 0) & (self.lines < indptr.shape[1])
        good_entries = (self.entries >= 0) & (self.entries <= chunks * width)
        edges = [*self._chunk[:1].tolist(), *self._chunk[-1:].tolist()]
        if edges != [0, n_chunks] or not (good_lines & good_entries & (chunks >= 0)).all():
            raise DatasetError(f"{index.location.url}: the index of its blocks is damaged; ingest the data again")

    @cached_property
    def _ones(self) -> NDArray[np.float32]:
        return np.ones(int(self.entries.max()), np.float32)

    def new_buffers(self) -> SparseBuffers:
        return {name: ChunkBuffer(array.spec) for name, array in self._arrays.items()}

    def read(self, number: int, buffers: SparseBuffers) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return the arrays indptr, index and values of a block."""
        entries = int(self.entries[number])
        values = self._read_entries("values", number, buffers) if "values" in self._arrays else self._ones
        indptr = self.per_line("indptr", number, buffers, more=1)
        if indptr[0] != 0 or indptr[-1] != entries or (np.diff(indptr) < 0).any():  # kernels do not check bounds
            url, key = self._arrays["indptr"].location.url, self._arrays["indptr"].spec.key(number)
            raise ChunkError(url, key, "rows or columns begin where there are no entries")
        index = self._read_entries(self._index, number, buffers)
        return indptr, read_only(index[:entries]), read_only(values[:entries])

    def per_line(self, name: str, number: int, buffers: SparseBuffers, more: int = 0) -> NDArray[Any]:
        """Return the cells of an array with one cell per line, such as the labels of rows, for one block."""
        return read_only(self._arrays[name].read(number, buffers[name])[0, : int(self.lines[number]) + more])

    def _read_entries(self, name: str, number: int, buffers: SparseBuffers) -> NDArray[Any]:
        array, buffer = self._arrays[name], buffers[name]
        start, stop = int(self._chunk[number]), int(self._chunk[number + 1])
        if stop - start == 1:
            cells: NDArray[Any] = array.read(start, buffer)[0]
            return cells
        return np.concatenate([array.read(chunk, buffer)[0].copy() for chunk in range(start, stop)])


class SparseBlocks:
    """Blocks of whole rows of a sparse matrix."""

    def __init__(self, arrays: Arrays) -> None:
        self._stored = _StoredLines(arrays, "rows", "ids", ["y", "weight"])
        n_targets = math.prod(arrays["y"].spec.shape[2:])
        self._set_sizes(self._stored.lines, self._stored.entries, "weight" in arrays, n_targets)

    def _set_sizes(
        self, lines: NDArray[np.int64], entries: NDArray[np.int64], weighted: bool, n_targets: int = 1
    ) -> None:
        self.lines, self._weighted, self.count = lines, weighted, len(lines)
        self._first = np.concatenate([[0], np.cumsum(lines)])
        self.sizes = 12 * entries + (8 * n_targets + (12 if weighted else 8)) * lines + 8
        self.nbytes = int(self.sizes.max(initial=0))

    def new_buffers(self) -> SparseBuffers:
        return self._stored.new_buffers()

    def read(self, number: int, buffers: SparseBuffers) -> SparseBlock:
        y = self._stored.per_line("y", number, buffers)
        weight = self._stored.per_line("weight", number, buffers) if self._weighted else None
        return SparseBlock(int(self._first[number]), *self._stored.read(number, buffers), y, weight)


class SparseColumnBlocks(BlocksOfColumns[SparseColumnBlock]):
    """Blocks of whole non-empty columns of a sparse matrix."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays["y"], arrays.get("weight"))
        self._stored = _StoredLines(arrays, "columns", "rows", ["ids"])
        self._set_sizes(self._stored.lines, self._stored.entries, arrays["block_first"].read_all())

    def _set_sizes(self, lines: NDArray[np.int64], entries: NDArray[np.int64], first: NDArray[np.uint64]) -> None:
        self.lines, self._first, self.count, self.width = lines, first, len(lines), int(lines.max())
        self.sizes = 8 * entries + 16 * lines + 8
        self.nbytes = int(8 * entries.max() + 16 * self.width + 8)

    def new_buffers(self) -> SparseBuffers:
        return self._stored.new_buffers()

    def read(self, number: int, buffers: SparseBuffers) -> SparseColumnBlock:
        ids = self._stored.per_line("ids", number, buffers)
        return SparseColumnBlock(ids, *self._stored.read(number, buffers), self.target, self.weight)

    def block_numbers(self, ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of the block that holds each column, or would hold the column if it had entries."""
        return np.maximum(np.searchsorted(self._first, ids, side="right") - 1, 0)

    def select_columns(self, block: SparseColumnBlock, ids: NDArray[np.uint64]) -> SparseColumnBlock:
        """Return a copy of the columns `ids` of a block, where a column that the block lacks is empty."""
        at = np.minimum(np.searchsorted(block.ids, ids), len(block.ids) - 1)
        lengths = np.where(block.ids[at] == ids, np.diff(block.indptr)[at], 0)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(block.indptr[at] - indptr[:-1], lengths) + np.arange(indptr[-1])
        ids, indptr, rows, values = map(read_only, (ids, indptr, block.rows[entries], block.values[entries]))
        return SparseColumnBlock(ids, indptr, rows, values, block.y, block.weight)

    def concatenate(self, parts: list[SparseColumnBlock]) -> SparseColumnBlock:
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        ids, rows, values = (
            read_only(np.concatenate([getattr(part, name) for part in parts])) for name in ("ids", "rows", "values")
        )
        return SparseColumnBlock(ids, read_only(indptr), rows, values, parts[0].y, parts[0].weight)
