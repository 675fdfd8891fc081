"""From chunks to blocks: how each kind of dataset is cut, and how one block is put together.

Each class has `count`, `nbytes` (of the largest block), `new_buffers()` and ``read(number, buffers)``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import ColumnBlock, RowBlock, SparseBlock
from daskfs.store.reader import ArrayReader, ChunkBuffer


class ColumnBlocks:
    """Whole columns of a dense matrix, one chunk a block; every block carries the whole target."""

    def __init__(self, X: ArrayReader, y: ArrayReader) -> None:
        self._X, self._y = X, y
        self.count = X.spec.n_chunks
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize

    @cached_property
    def target(self) -> NDArray[np.float64]:
        return _frozen(self._y.read_all())

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> ColumnBlock:
        X = self._X.read(number, buffers)
        first = number * self._X.spec.chunks[1]
        ids = np.arange(first, first + X.shape[1], dtype=np.uint64)
        return ColumnBlock(_frozen(ids), _frozen(X), self.target)


class RowBlocks:
    """Whole rows of a dense matrix, one chunk a block."""

    def __init__(self, X: ArrayReader, y: ArrayReader) -> None:
        self._X, self._y = X, y
        self.count = X.spec.n_chunks
        self.nbytes = int(np.prod(X.spec.chunks)) * X.spec.dtype.itemsize + 8 * X.spec.chunks[0]

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> RowBlock:
        X = self._X.read(number, buffers)
        first = number * self._X.spec.chunks[0]
        return RowBlock(first, _frozen(X), _frozen(self._targets(first, first + len(X))))

    def _targets(self, start: int, stop: int) -> NDArray[np.float64]:
        step = self._y.spec.chunks[0]
        parts = []
        for number in range(start // step, -(-stop // step)):
            begin = number * step
            parts.append(self._y.read(number)[max(start - begin, 0) : stop - begin])
        return np.concatenate(parts)


class SparseBlocks:
    """Whole rows of a sparse matrix; see `layout` for how blocks, chunks and padding fit together."""

    def __init__(self, arrays: dict[str, ArrayReader]) -> None:
        self._ids, self._indptr, self._y = arrays["ids"], arrays["indptr"], arrays["y"]
        self._values, self._weight = arrays.get("values"), arrays.get("weight")
        self.rows: NDArray[np.int64] = arrays["block_rows"].read_all()
        self.entries: NDArray[np.int64] = arrays["block_entries"].read_all()
        self._chunk: NDArray[np.int64] = arrays["block_chunk"].read_all()
        self._first = np.concatenate([[0], np.cumsum(self.rows)])
        self.count = len(self.rows)
        self.nbytes = int(np.max(12 * self.entries + 16 * self.rows + 8)) if self.count else 0

    @cached_property
    def _ones(self) -> NDArray[np.float32]:
        return np.ones(int(self.entries.max()), np.float32)

    def new_buffers(self) -> dict[str, ChunkBuffer]:
        readers = {
            "ids": self._ids,
            "values": self._values,
            "indptr": self._indptr,
            "y": self._y,
            "weight": self._weight,
        }
        return {name: ChunkBuffer(reader.spec) for name, reader in readers.items() if reader is not None}

    def read(self, number: int, buffers: dict[str, ChunkBuffer]) -> SparseBlock:
        rows, entries = int(self.rows[number]), int(self.entries[number])
        values = self._ones if self._values is None else self._entries(self._values, number, buffers["values"])
        weight = None if self._weight is None else _frozen(self._weight.read(number, buffers["weight"])[0, :rows])
        return SparseBlock(
            first=int(self._first[number]),
            indptr=_frozen(self._indptr.read(number, buffers["indptr"])[0, : rows + 1]),
            ids=_frozen(self._entries(self._ids, number, buffers["ids"])[:entries]),
            values=_frozen(values[:entries]),
            y=_frozen(self._y.read(number, buffers["y"])[0, :rows]),
            weight=weight,
        )

    def _entries(self, array: ArrayReader, number: int, buffer: ChunkBuffer) -> NDArray[Any]:
        start, stop = int(self._chunk[number]), int(self._chunk[number + 1])
        if stop - start == 1:
            cells: NDArray[Any] = array.read(start, buffer)[0]
            return cells
        return np.concatenate([array.read(chunk, buffer)[0].copy() for chunk in range(start, stop)])


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to: blocks share memory, and algorithms must not change them."""
    view = array.view()
    view.flags.writeable = False
    return view
