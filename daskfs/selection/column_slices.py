"""Selected columns of an array in memory, of a lazy array, or of a dataset that is read block by block.

The columns come in slices, so that a caller who needs a sum over columns never holds all columns:

    for part in columns.slices:
        scores[part.rows] += part.cells @ weights[part.columns]
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import ColumnBlock, Kind, RowBlock, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.names import check_labels, check_vocabulary
from daskfs.store.ingest.arrays import stored_dtype

SLICE_CELLS = 1 << 20  # of an array in memory, in one slice
WINDOW_CELLS = 1 << 21  # of dense columns, in one window of rows

FeatureIds = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSlice:
    """Values of a range of rows in some of the selected columns.

    Parameters
    ----------
    rows
        The rows.
    columns
        The positions of the columns among the selected ids.
    cells
        The values, ``(rows, columns)``: numpy or scipy.sparse.
    """

    rows: slice
    columns: NDArray[np.intp]
    cells: Any


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSlices:
    """Iterable of the selected columns' slices, which can be read once.

    Parameters
    ----------
    shape
        The number of rows and of selected columns.
    kind
        "dense" or "sparse".
    dtype
        The type of the values.
    slices
        The slices: all those of some rows, then those of the next rows.
    whole_rows
        Whether every slice has all columns; otherwise every slice has all rows.
    """

    shape: tuple[int, int]
    kind: Kind
    dtype: np.dtype[Any]
    slices: Iterable[ColumnSlice]
    whole_rows: bool = True

    def to_array(self) -> Any:
        """Return all selected columns in one array: numpy, or CSR where the source is sparse."""
        if self.kind == "dense":
            cells = np.zeros(self.shape, self.dtype)
            for part in self.slices:
                cells[part.rows, part.columns] = part.cells
            return cells
        entries = [(np.empty(0, self.dtype), np.empty(0, np.intp), np.empty(0, np.intp))]
        for part in self.slices:
            coo = part.cells.tocoo()
            entries.append((coo.data, coo.coords[0] + part.rows.start, part.columns[coo.coords[1]]))
        values, rows, columns = (np.concatenate(column) for column in zip(*entries, strict=True))
        return sp.coo_array((values, (rows, columns)), shape=self.shape).tocsr()

    def with_all_columns(self) -> Iterator[ColumnSlice]:
        """Yield slices of rows with all columns in order; for data laid out in columns, yield one slice of all rows."""
        columns = np.arange(self.shape[1])
        if not self.whole_rows:
            yield ColumnSlice(slice(0, self.shape[0]), columns, self.to_array())
            return
        for part in self.slices:
            in_order = np.array_equal(part.columns, columns)
            yield ColumnSlice(part.rows, columns, part.cells if in_order else part.cells[:, np.argsort(part.columns)])

    def row_windows(self) -> Iterator[Any]:
        """Yield windows of rows with all columns in order: float64 arrays, or CSR where the source is sparse.

        Dense columns of a dataset laid out in columns go through a temporary file, so that only one window is in
        memory. The entries of sparse columns are held in memory.

        >>> [window] = slice_columns(np.eye(3), np.array([2, 0], np.uint64), ["x2", "x0"]).row_windows()
        >>> window
        array([[0., 1.],
               [0., 0.],
               [1., 0.]])
        """
        if self.kind == "dense" and not self.whole_rows:
            with tempfile.TemporaryFile() as file:  # it has no name: a killed process leaves nothing behind
                yield from self._windows_of_columns(file)
            return
        for part in self.with_all_columns():
            if sp.issparse(part.cells):
                yield part.cells.tocsr()
                continue
            for rows in _steps(*part.cells.shape):
                yield part.cells[rows].astype(np.float64)

    def _windows_of_columns(self, file: IO[bytes]) -> Iterator[NDArray[np.float64]]:
        n_rows, width = self.shape
        for part in self.slices:
            for column, cells in zip(part.columns.tolist(), part.cells.T, strict=True):
                file.seek(column * n_rows * self.dtype.itemsize)
                file.write(np.ascontiguousarray(cells, self.dtype).data)
        for rows in _steps(n_rows, width):
            window = np.empty((width, rows.stop - rows.start), self.dtype)
            for column in range(width):
                read_into(file, (column * n_rows + rows.start) * self.dtype.itemsize, window[column])
            yield window.T.astype(np.float64)


def read_into(file: IO[bytes], start: int, out: NDArray[Any]) -> None:
    """Fill an array with the bytes of a file from `start` on."""
    file.seek(start)
    file.readinto(out.data)  # type: ignore[attr-defined]  # files that are not text have it


def _steps(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, WINDOW_CELLS // max(width, 1))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def as_dataset(X: Any) -> Dataset | None:
    """Return X if it is a dataset, the opened dataset if X is a path or URL, and None for any other type."""
    if isinstance(X, str | os.PathLike):
        return open_dataset(X)
    return X if isinstance(X, Dataset) else None


def slice_columns(X: Any, ids: FeatureIds, names: Sequence[str]) -> ColumnSlices:
    """Return the columns of X with these ids, and raise an error if X has other names for the columns.

    Examples
    --------
    >>> slice_columns(np.eye(3), np.array([2, 0], np.uint64), ["x2", "x0"]).to_array()
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """
    dataset = as_dataset(X)
    return _from_array(X, ids, names) if dataset is None else _from_dataset(dataset, ids, names)


def _from_dataset(dataset: Dataset, ids: FeatureIds, names: Sequence[str]) -> ColumnSlices:
    check_vocabulary(dataset, ids, names)
    dtype = dataset.arrays["X"].dtype if dataset.kind == "dense" else np.dtype(np.float32)
    in_rows = dataset.axis == "rows"
    slices = _by_rows(dataset, ids) if in_rows else _by_columns(dataset, ids)
    return ColumnSlices((dataset.n_samples, len(ids)), dataset.kind, dtype, slices, whole_rows=in_rows)


def _by_columns(dataset: Dataset, ids: FeatureIds) -> Iterator[ColumnSlice]:
    order = np.argsort(ids)
    present = order[ids[order] <= dataset.attributes["max_id"]]  # a sparse dataset need not have seen every feature
    done = 0
    for block in dataset.columns(ids[present]):
        columns = present[done : done + len(block.ids)]
        done += len(columns)
        yield ColumnSlice(slice(0, dataset.n_samples), columns, _cells(block, dataset.n_samples))


def _cells(block: ColumnBlock | SparseColumnBlock, n_rows: int) -> Any:
    if isinstance(block, ColumnBlock):
        return block.X
    return sp.csc_array((block.values, block.rows, block.indptr), shape=(n_rows, len(block.ids)))


def _by_rows(dataset: Dataset, ids: FeatureIds) -> Iterator[ColumnSlice]:
    order = np.argsort(ids)
    for block in dataset.blocks(axis="rows"):
        assert isinstance(block, RowBlock | SparseBlock)
        cells = block.X[:, ids[order]] if isinstance(block, RowBlock) else _entries(block, ids[order])
        yield ColumnSlice(slice(block.first, block.first + len(block.y)), order, cells)


def _entries(block: SparseBlock, ids: FeatureIds) -> Any:
    """Return the entries of a block whose feature is among ascending ids, as a matrix with a column for each id."""
    at = np.searchsorted(ids, block.ids)
    hit = np.append(ids, np.uint64(0))[at] == block.ids
    hit &= at < len(ids)
    hits_before = np.concatenate([[0], np.cumsum(hit)])
    return sp.csr_array((block.values[hit], at[hit], hits_before[block.indptr]), shape=(len(block.y), len(ids)))


def _from_array(X: Any, ids: FeatureIds, names: Sequence[str]) -> ColumnSlices:
    X, labels = _unwrap(X)
    if len(X.shape) != 2:
        raise OptionError(f"X has shape {X.shape}: give rows and columns (a single row as X[None, :])")
    n_rows, width = X.shape
    if n_rows != n_rows:  # dask's NaN for "not known"
        raise OptionError("X does not know how many rows it has: call X.compute_chunk_sizes() first")
    if len(ids) and int(ids.max()) >= width:
        worst = int(ids.argmax())
        raise OptionError(
            f"feature {ids[worst]} ({names[worst]!r}) is beyond the {width} columns of X: "
            "give an array with the columns of the selection's dataset, or a dataset"
        )
    if labels is not None:
        check_labels("X", [str(labels[column]) for column in ids.tolist()], ids, names)
    order = np.argsort(ids)
    columns = ids[order].astype(np.intp)
    if hasattr(X, "iloc"):  # a DataFrame: its other columns, of whatever type, are not converted
        X, columns = X.iloc[:, columns].to_numpy(), np.arange(len(columns))
    kind: Kind = "sparse" if sp.issparse(X) else "dense"
    return ColumnSlices((n_rows, len(ids)), kind, stored_dtype(X.dtype), _array_slices(X, order, columns))


def _unwrap(X: Any) -> tuple[Any, Any]:
    """Return the array inside an xarray.DataArray, and the column names of a DataArray or DataFrame (or None)."""
    if hasattr(X, "iloc"):
        return X, X.columns if X.columns.dtype.kind in "OUT" else None
    labels = None
    if hasattr(X, "dims") and hasattr(X, "coords"):
        coordinate = X.coords.get(X.dims[-1])
        labels = coordinate.values if coordinate is not None and coordinate.dtype.kind in "OUT" else None
        X = X.data
    if np.ma.is_masked(X):
        raise OptionError("X has masked values: fill them (X.filled(...)) or drop their rows first")
    if sp.issparse(X):
        X = X if X.format in ("csr", "csc") else X.tocsr()  # the formats that index columns
    elif not hasattr(X, "dtype") or not hasattr(X, "shape"):
        X = np.asarray(X)
    return X, labels


def _array_slices(X: Any, order: NDArray[np.intp], columns: NDArray[np.intp]) -> Iterator[ColumnSlice]:
    dtype, sparse = stored_dtype(X.dtype), sp.issparse(X)
    for start, stop in pairwise(_edges(X, len(columns))):
        cells: Any = X[:, columns].astype(dtype) if sparse else np.asarray(X[start:stop][:, columns], dtype)
        bad = np.flatnonzero(~np.isfinite(cells.data if sparse else cells))
        if len(bad):
            row = cells.tocoo().coords[0][bad[0]] if sparse else start + bad[0] // len(columns)
            raise OptionError(f"X[{row}] has a selected value that is not finite: fill it, or drop the row")
        yield ColumnSlice(slice(start, stop), order, cells)


def _edges(X: Any, width: int) -> list[int]:
    """Return the row numbers at which the slices of an array begin and end; a lazy array is cut at its chunks."""
    n_rows = int(X.shape[0])
    if sp.issparse(X):
        return [0, n_rows]
    if hasattr(X, "compute"):
        return [0, *accumulate(X.chunks[0])]
    step = max(1, SLICE_CELLS // max(width, 1))
    return [*range(0, n_rows, step), n_rows]
