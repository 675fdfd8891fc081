"""A matrix in memory as a dataset, with the same blocks as the dataset would have on disk.

A block is a view of the matrix if the matrix has the dtype (float32 or float64) and the memory order of a block. A
matrix of another dtype or memory order is converted one block at a time. A sparse matrix that is read in columns is
transposed as a whole.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NoReturn

import google_crc32c
import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.jit import read_only
from daskfs.protocol import Axis, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.blocks import BlocksOfColumns, SparseBlocks, SparseBuffers, SparseColumnBlocks
from daskfs.store.dataset.codec import LZ4
from daskfs.store.dataset.dataset import AnyBlocks, Dataset
from daskfs.store.dataset.label_order import LabelOrder
from daskfs.store.dataset.layout import (
    CHUNK_BYTES,
    ArraySpec,
    Attributes,
    DenseShape,
    Labels,
    dense_specs,
    target_spec,
    weight_spec,
)
from daskfs.store.dataset.names import check_column_names, feature_spec
from daskfs.store.dataset.reader import ChunkBuffer
from daskfs.store.ingest.arrays import BLOCK_ENTRIES, rows_shape, stored_dtype
from daskfs.store.ingest.gaps import Fills
from daskfs.store.places.location import Location
from daskfs.store.reorder.columns import IdSample, column_shape
from daskfs.store.reorder.plan import block_ends
from daskfs.store.reorder.runs import row_keys

_TILE = (64, 1024)  # rows and columns


class InMemory(Dataset):
    """A matrix and labels in memory, with the members of `Dataset` that a selection uses; it cannot be pickled.

    Parameters
    ----------
    X
        A matrix of finite numbers: numpy, or scipy.sparse.
    target, labels
        The two values that `arrays.encode_target` returns for y.
    axis
        The axis along which blocks will be read.
    names
        The names of the columns, or None if the columns have no names.
    weight
        The weights of the rows, or None if the rows have no weights.
    fills
        How gaps of X were filled, or None if X had no gaps.

    Examples
    --------
    >>> from daskfs.store.ingest.arrays import encode_target
    >>> from daskfs.store.in_memory import InMemory
    >>> X = np.eye(4)
    >>> here = InMemory(X, *encode_target(np.array([0, 1, 1, 0])), axis="columns")
    >>> here, np.shares_memory(here.read(0).X, X)
    (<daskfs.Dataset X: dense, 4 samples x 4 features, classes 0, 1>, False)
    """

    travels = False

    def __init__(
        self,
        X: Any,
        target: NDArray[np.float64],
        labels: Labels,
        axis: Axis,
        names: Sequence[Any] | None = None,
        weight: NDArray[np.float32] | None = None,
        fills: Fills | None = None,
    ) -> None:
        super().__init__(Location("X"))
        self._fills = fills
        self._labels = labels
        self._X = _canonical(X) if scipy.sparse.issparse(X) else X
        self._held: dict[str, HeldArray] = {}
        if not scipy.sparse.issparse(X):
            cut = dense_specs(X.shape, stored_dtype(X.dtype), DenseShape(axis, CHUNK_BYTES))
            self._hold(cut[0], X)
        self._hold(target_spec(len(target), labels.targets), target)
        if weight is not None:
            self._hold(weight_spec(len(weight)), weight)
        if names is not None:
            self._hold(feature_spec(X.shape[1]), check_column_names(names, X.shape[1]))
        self._layout: Axis = axis
        self._order: NDArray[np.int64] | None = None  # of rows that are not read in the order of X

    def __reduce__(self) -> NoReturn:
        raise TypeError("a matrix in memory stays in its process: write it with daskfs.write_dataset")

    def with_real_target(self) -> InMemory:
        self._labels = Labels(False, None, self._labels.targets)
        return self

    def in_random_order(self) -> InMemory:
        """Return the same rows in the order that `shuffle` gives them; rows are copied one block at a time."""
        order = np.argsort(row_keys(0, 0, self.n_samples), kind="stable")
        y, weight = (self._held[name].array[order] if name in self._held else None for name in ("y", "weight"))
        names = [*self._held["feature"].array] if "feature" in self._held else None
        assert y is not None
        same = InMemory(self._X, y, self._labels, self._layout, names, weight, self._fills)
        same._order = order
        if "X" in self._held:
            same._held["X"] = HeldArray(self._held["X"].spec, self._X, order)
        return same

    def _hold(self, spec: ArraySpec, array: NDArray[Any]) -> None:
        self._held[spec.name] = HeldArray(spec, array)

    @cached_property
    def _root(self) -> tuple[Attributes, dict[str, ArraySpec]]:
        is_sparse, (n_samples, n_features) = scipy.sparse.issparse(self._X), self._X.shape
        attributes = {
            "kind": "sparse" if is_sparse else "dense",
            "layout": self._layout,
            "n_samples": n_samples,
            "n_features": n_features,
            "n_entries": self._X.nnz if is_sparse else n_samples * n_features,
            "max_id": int(self._X.indices.max(initial=0)) if is_sparse else n_features - 1,
            "labels": self._labels.attributes(),
            **({} if self._fills is None or self._fills.how == "error" else {"missing": self._fills.record()}),
            "mixed": LabelOrder.of(self._held["y"].array).mixed,
            "names": {"from": "columns"} if "feature" in self._held else {"from": "ids", "prefix": "x"},
        }
        return attributes, {name: held.spec for name, held in self._held.items()}

    @cached_property
    def digest(self) -> str:
        """A hash of all values, names and labels, which differs from the digest of the same data on disk."""
        total = hashlib.sha256(json.dumps(self.attributes, sort_keys=True).encode())
        parts = (self._X.indptr, self._X.indices, self._X.data) if scipy.sparse.issparse(self._X) else ()
        for part in (*parts, *(held.array for held in self._held.values())):
            total.update(_checksum(part).to_bytes(4, "little"))
        return total.hexdigest()

    def _reader(self, name: str) -> Any:
        return self._held[name]

    def _new_blocks(self, axis: Axis) -> AnyBlocks:
        if not scipy.sparse.issparse(self._X):
            return super()._new_blocks(axis)
        y, weight = self._held["y"], self._held.get("weight")
        return _HeldRows(self._X, y, weight, self._order) if axis == "rows" else _HeldColumns(self._X, y, weight)


class HeldArray:
    """An array in memory, with the members of an `ArrayReader` that blocks use."""

    def __init__(self, spec: ArraySpec, array: NDArray[Any], order: NDArray[np.int64] | None = None) -> None:
        self.spec, self.array, self._order = spec, array, order

    def read(self, number: int, buffer: ChunkBuffer | None = None) -> NDArray[Any]:
        """Return the cells of chunk `number`, as a view if dtype and memory order fit, else as a converted copy."""
        where = np.unravel_index(number, self.spec.grid)
        first, *others = (slice(i * c, (i + 1) * c) for i, c in zip(where, self.spec.chunks, strict=True))
        cells = self.array[(first if self._order is None else self._order[first], *others)]
        if self.spec.is_text:
            return cells
        has_order = cells.flags.f_contiguous if self.spec.codec.columns_contiguous else cells.flags.c_contiguous
        if cells.dtype == self.spec.dtype and has_order:
            return cells
        converted: NDArray[Any] = (buffer or ChunkBuffer(self.spec)).cells[tuple(map(slice, cells.shape))]
        for tile in tiles(cells.shape):
            converted[tile] = cells[tile]
        return converted

    def read_strings(self, number: int, positions: NDArray[np.int64]) -> list[str]:
        return [str(name) for name in self.read(number)[positions]]

    def read_all(self) -> NDArray[Any]:
        return self.array


class _HeldRows(SparseBlocks):
    """The rows of a CSR matrix, cut into the same blocks that `arrays.write_sparse` would write."""

    def __init__(self, matrix: Any, y: HeldArray, weight: HeldArray | None, order: NDArray[np.int64] | None) -> None:
        self._matrix, self._y, self._weight = matrix, y.array, None if weight is None else weight.array
        self._order = order
        indptr, shape = matrix.indptr, rows_shape(len(self._y), matrix.nnz, LZ4)
        if order is not None:
            indptr = np.concatenate([[0], np.cumsum(np.diff(indptr)[order], dtype=np.int64)])
        edges = [0]
        while edges[-1] < len(self._y):
            room = shape.entries
            while indptr[edges[-1] + 1] - indptr[edges[-1]] > room:
                room *= 2  # as `RowBuilder` enlarges a block for one huge row
            fitting = int(np.searchsorted(indptr, indptr[edges[-1]] + room, side="right")) - 1
            edges.append(min(fitting, edges[-1] + shape.rows))
        n_targets = math.prod(self._y.shape[1:])
        self._set_sizes(np.diff(edges), np.diff(indptr[edges]).astype(np.int64), weight is not None, n_targets)

    def new_buffers(self) -> SparseBuffers:
        return {}

    def read(self, number: int, buffers: SparseBuffers) -> SparseBlock:
        rows = slice(int(self._first[number]), int(self._first[number + 1]))
        matrix, start = self._matrix, rows.start
        if self._order is not None:
            matrix, start = matrix[self._order[rows]], 0
        edges = matrix.indptr[start : start + rows.stop - rows.start + 1].astype(np.int64)
        entries = slice(edges[0], edges[-1])
        ids, values = matrix.indices[entries].astype(np.uint64), _float32(matrix.data[entries])
        weight = None if self._weight is None else read_only(self._weight[rows])
        indptr, ids, values, y = map(read_only, (edges - edges[0], ids, values, self._y[rows]))
        return SparseBlock(rows.start, indptr, ids, values, y, weight)


class _HeldColumns(SparseColumnBlocks):
    """The non-empty columns of a sparse matrix, cut into the same blocks that `transpose` would write."""

    def __init__(self, matrix: Any, y: Any, weight: Any) -> None:
        if matrix.nnz == 0:
            raise OptionError("X has no entries, and so no columns to choose from")
        BlocksOfColumns.__init__(self, y, weight)
        self._matrix = matrix.tocsc()
        lengths = np.diff(self._matrix.indptr)
        self._ids = np.flatnonzero(lengths).astype(np.uint64)
        self._edges = np.concatenate([[0], np.cumsum(lengths[lengths > 0], dtype=np.int64)])
        shape = column_shape([IdSample.of(self._ids)], matrix.nnz, BLOCK_ENTRIES, LZ4)
        self._starts = np.array([0, *block_ends(np.arange(len(self._edges)), self._edges, shape)])
        self._set_sizes(np.diff(self._starts), np.diff(self._edges[self._starts]), self._ids[self._starts[:-1]])

    def new_buffers(self) -> SparseBuffers:
        return {}

    def read(self, number: int, buffers: SparseBuffers) -> SparseColumnBlock:
        first, last = self._starts[number], self._starts[number + 1]
        edges, ids = self._edges[first : last + 1], self._ids[first:last]
        entries = slice(edges[0], edges[-1])
        rows, values = self._matrix.indices[entries].astype(np.uint32), _float32(self._matrix.data[entries])
        ids, indptr, rows, values = map(read_only, (ids, edges - edges[0], rows, values))
        return SparseColumnBlock(ids, indptr, rows, values, self.target, self.weight)


def _canonical(X: Any) -> Any:
    """Return X as a CSR matrix with ascending column ids and no duplicates, without a copy if X is such a matrix."""
    matrix = X.tocsr()
    if not matrix.has_canonical_format:
        matrix = matrix.astype(np.float32)  # a copy, with sums in the precision of the store
        matrix.sum_duplicates()
    if not np.isfinite(_float32(matrix.data)).all():
        raise OptionError("X has values that are not finite, or too large for float32, in which sparse data are kept")
    return matrix


def _float32(values: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        return values.astype(np.float32, copy=False)


def _checksum(array: NDArray[Any]) -> int:
    """Return the crc32c of the values of an array, independent of the memory order of the array."""
    if array.dtype.kind == "O":
        return int(google_crc32c.value("\0".join(array).encode()))
    checksum = 0
    for tile in tiles(array.shape):
        checksum = google_crc32c.extend(checksum, np.ascontiguousarray(array[tile]).reshape(-1).view(np.uint8))
    return checksum


def tiles(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield slices of an array that fit the processor's cache, so that changing the memory order is fast."""
    if len(shape) == 1:
        yield from ((slice(start, start + _TILE[0] * _TILE[1]),) for start in range(0, shape[0], _TILE[0] * _TILE[1]))
        return
    for row in range(0, shape[0], _TILE[0]):
        for column in range(0, shape[1], _TILE[1]):
            yield slice(row, row + _TILE[0]), slice(column, column + _TILE[1])
