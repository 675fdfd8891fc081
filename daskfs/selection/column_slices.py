"""Selected columns of an array in memory, of a lazy array, or of a dataset that is read block by block.

The columns come in slices, so that a caller who needs a sum over columns never holds all columns:

    for part in columns.slices:
        scores[part.rows] += part.cells @ weights[part.columns]
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import IO, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.errors import OptionError, public_url
from daskfs.protocol import ColumnBlock, Kind, RowBlock, SparseBlock, SparseColumnBlock
from daskfs.selection.frames import CategoryCheck, find_column, is_frame, numbers_of, row_slices
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.names import check_labels, check_vocabulary
from daskfs.store.ingest.arrays import stored_dtype
from daskfs.store.ingest.formats.dates import first_day_of
from daskfs.store.ingest.gaps import GAP, Fills

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
        return scipy.sparse.coo_array((values, (rows, columns)), shape=self.shape).tocsr()

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
            if scipy.sparse.issparse(part.cells):
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


def slice_columns(
    X: Any,
    ids: FeatureIds,
    names: Sequence[str],
    fills: Fills | None = None,
    date_formats: Mapping[str, str] | None = None,
) -> ColumnSlices:
    """Return the columns of X with these ids, and raise an error if X has other names for the columns.

    Missing values (NaN) of an array are filled as `fills` says, and are an error where it says nothing. An array need
    not have columns for indicators of missing values, which are computed. Dates of a DataFrame are read with the format
    of their column in `date_formats`, else as ISO 8601. With `date_formats`, which selections pass, an ingested table
    must count its dates as the data of the selection did.

    Examples
    --------
    >>> slice_columns(np.eye(3), np.array([2, 0], np.uint64), ["x2", "x0"]).to_array()
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """
    dataset = as_dataset(X)
    if dataset is not None:
        if date_formats is not None:
            _check_table(dataset, names, fills, date_formats)
        return _from_dataset(dataset, ids, names)
    if is_frame(X):
        return _from_frame(X, ids, names, fills, date_formats or {})
    return _from_array(X, ids, names, fills)


def _check_table(dataset: Dataset, names: Sequence[str], fills: Fills | None, date_formats: Mapping[str, str]) -> None:
    """Raise OptionError if an ingested table lacks a column of features, or counts its dates from another day.

    Sparse data would have zeros for the features of a column that is not there. Gaps that were filled with another
    number than in the data of the selection are a warning.
    """
    rows = {row["column"]: row for row in dataset.attributes.get("columns") or ()}
    read = {column for column, row in rows.items() if row["kind"] not in ("label", "identifier", "ignored")}
    url = public_url(dataset.url)
    for name in names if rows else ():
        if name not in read and not any(name[: at.start()] in read for at in re.finditer("[=:]", name)):
            raise OptionError(f"{url}: the table has no column of the feature {name!r:.80}, which the selection needs")
        if name in read and rows[name]["kind"] == "date":
            here, there = (first_day_of(form)[1] for form in (rows[name].get("format", ""), date_formats.get(name, "")))
            if here != there:
                raise OptionError(
                    f"{url}: column {name!r:.80} is in seconds since {here}, and was since {there} in the data of the "
                    "selection: ingest the table with --like and the dataset that was selected from"
                )
        if "fill" in rows.get(name, ()) and (known := (fills or Fills("error")).value(name)) != rows[name]["fill"]:
            before = "there were none" if known is None else f"with {known:.6g}"
            warnings.warn(
                f"{url}: gaps of column {name!r:.80} are filled with {rows[name]['fill']:.6g}, and {before} in "
                "the data of the selection: ingest the table with --like and the dataset that was selected from",
                stacklevel=2,
            )


def _from_frame(
    frame: Any, ids: FeatureIds, names: Sequence[str], fills: Fills | None, date_formats: Mapping[str, str]
) -> ColumnSlices:
    """Return the columns of a DataFrame that have the names of features, with their values as numbers."""
    order = np.argsort(ids)  # as of other data, so that sums of products have the same last bits
    features = [find_column(frame, names[at], date_formats) for at in order.tolist()]
    n_rows, parts = row_slices(frame, [feature.column for feature in features], max(1, SLICE_CELLS // len(features)))
    values = [(fills or Fills("error")).value(names[at]) for at in order.tolist()]
    fill = np.array([np.nan if value is None else value for value in values], np.float64)
    check = CategoryCheck(features)

    def slices() -> Iterator[ColumnSlice]:
        for rows, part in parts:
            check.look(part)
            cells = np.stack([numbers_of(part, feature) for feature in features], axis=1)
            cells = np.where(np.isnan(cells), fill, cells)
            for row, column in _not_finite(cells)[:1]:
                raise _gap_error(rows.start + row, names[order[column]])
            yield ColumnSlice(rows, order, cells)
        check.warn()

    return ColumnSlices((n_rows, len(names)), "dense", np.dtype(np.float64), slices())


def _gap_error(row: int, name: str) -> OptionError:
    return OptionError(
        f"X[{row}] has a value of {name!r} that is not finite, and nothing says how to fill gaps there: "
        "fill it, or drop the row"
    )


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
    return scipy.sparse.csc_array((block.values, block.rows, block.indptr), shape=(n_rows, len(block.ids)))


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
    return scipy.sparse.csr_array(
        (block.values[hit], at[hit], hits_before[block.indptr]), shape=(len(block.y), len(ids))
    )


def _from_array(X: Any, ids: FeatureIds, names: Sequence[str], fills: Fills | None) -> ColumnSlices:
    X, labels = _unwrap(X)
    if len(X.shape) != 2:
        raise OptionError(f"X has shape {X.shape}: give rows and columns (a single row as X[None, :])")
    n_rows, width = X.shape
    if n_rows != n_rows:  # dask's NaN for "not known"
        raise OptionError("X does not know how many rows it has: call X.compute_chunk_sizes() first")
    ids, names, fill = _columns_and_fills(ids, names, fills or Fills("error"), width)
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
    kind: Kind = "sparse" if scipy.sparse.issparse(X) else "dense"
    slices = _array_slices(X, order, columns, fill[order], names)
    return ColumnSlices((n_rows, len(ids)), kind, stored_dtype(X.dtype), slices)


def _columns_and_fills(
    ids: FeatureIds, names: Sequence[str], fills: Fills, width: int
) -> tuple[FeatureIds, Sequence[str], NDArray[np.float64]]:
    """Return the columns to read of an array of `width` columns, with their names and fills, which replace NaN.

    The fill is NaN if missing values are an error. For an indicator of missing values that is not in the array, the
    column with the missing values is read, with the fill inf.
    """
    values = [fills.value(name) for name in names]
    fill = np.array([np.nan if value is None else value for value in values], np.float64)
    marked = [at for at, name in enumerate(names) if name in fills.indicators and ids[at] >= width]
    if not marked:
        return ids, names, fill
    ids, fill[marked] = ids.copy(), np.inf
    ids[marked] = [fills.indicators[names[at]] for at in marked]
    return ids, [name.removesuffix(f"={GAP}") if at in marked else name for at, name in enumerate(names)], fill


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
    if scipy.sparse.issparse(X):
        X = X if X.format in ("csr", "csc") else X.tocsr()  # the formats that index columns
    elif not hasattr(X, "dtype") or not hasattr(X, "shape"):
        X = np.asarray(X)
    return X, labels


def _array_slices(
    X: Any, order: NDArray[np.intp], columns: NDArray[np.intp], fill: NDArray[np.float64], names: Sequence[str]
) -> Iterator[ColumnSlice]:
    dtype, sparse = stored_dtype(X.dtype), scipy.sparse.issparse(X)
    for start, stop in pairwise(_edges(X, len(columns))):
        cells: Any = X[:, columns].astype(dtype) if sparse else np.asarray(X[start:stop][:, columns], dtype)
        if not np.isfinite(cells.data if sparse else cells).all() or np.isinf(fill).any():
            cells = _filled(cells, fill)
            for row, column in _not_finite(cells)[:1]:
                raise _gap_error(start + row, names[order[column]])
        yield ColumnSlice(slice(start, stop), order, cells)


def _not_finite(cells: Any) -> NDArray[np.intp]:
    """Return row and column of every cell that is not finite."""
    if not scipy.sparse.issparse(cells):
        return np.argwhere(~np.isfinite(cells))
    entries = cells.tocoo()
    return np.stack([coordinate[~np.isfinite(entries.data)] for coordinate in entries.coords], axis=1)


def _filled(cells: Any, fill: NDArray[np.float64]) -> Any:
    """Return cells with NaN replaced by the fill of each column; a column of fill inf becomes 1 at NaN and else 0."""
    if scipy.sparse.issparse(cells):
        entries = cells.tocoo()
        entries.data[:] = np.where(np.isnan(entries.data), fill[entries.coords[1]], entries.data)
        return entries.tocsr()
    gaps, marked = np.isnan(cells), np.isinf(fill)
    cells = np.where(gaps, fill.astype(cells.dtype), cells)
    cells[:, marked] = gaps[:, marked]
    return cells


def _edges(X: Any, width: int) -> list[int]:
    """Return the row numbers at which the slices of an array begin and end; a lazy array is cut at its chunks."""
    n_rows = int(X.shape[0])
    if scipy.sparse.issparse(X):
        return [0, n_rows]
    if hasattr(X, "compute"):
        return [0, *accumulate(X.chunks[0])]
    step = max(1, SLICE_CELLS // max(width, 1))
    return [*range(0, n_rows, step), n_rows]
