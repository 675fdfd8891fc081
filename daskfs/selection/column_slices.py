"""A few chosen columns of whatever holds them: an array in memory, a lazy one, or a dataset read block by block.

They come in pieces, so that a caller who needs a sum over columns never holds them all:

    for piece in chosen.pieces:
        scores[piece.rows] += piece.cells @ weights[piece.columns]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import ColumnBlock, Kind, RowBlock, SparseBlock, SparseColumnBlock
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.names import check_labels, check_vocabulary
from daskfs.store.ingest.arrays import stored_dtype

WINDOW_CELLS = 1 << 20  # of an array in memory, looked at in one go


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some rows of some of the chosen columns."""

    rows: slice
    columns: NDArray[np.intp]
    """Positions among the chosen ids."""
    cells: Any
    """(rows, columns), numpy or scipy.sparse."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """The chosen columns: how large they are together, of what kind, and the pieces."""

    shape: tuple[int, int]
    kind: Kind
    dtype: np.dtype[Any]
    pieces: Iterable[Piece]

    def together(self) -> Any:
        """All of them in one array: numpy, or CSR where they come from something sparse."""
        if self.kind == "dense":
            cells = np.zeros(self.shape, self.dtype)
            for piece in self.pieces:
                cells[piece.rows, piece.columns] = piece.cells
            return cells
        parts = [(np.empty(0, self.dtype), np.empty(0, np.intp), np.empty(0, np.intp))]
        for piece in self.pieces:
            part = piece.cells.tocoo()
            parts.append((part.data, part.coords[0] + piece.rows.start, piece.columns[part.coords[1]]))
        values, rows, columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        return sp.coo_array((values, (rows, columns)), shape=self.shape).tocsr()


def as_dataset(X: Any) -> Dataset | None:
    """X as a dataset, if it is one or says where one is."""
    if isinstance(X, str | os.PathLike):
        return open_dataset(X)
    return X if isinstance(X, Dataset) else None


def chosen_columns(X: Any, ids: NDArray[np.uint64], names: Sequence[str]) -> Chosen:
    """The columns of X with these ids, after a check that they go by these names there.

    Examples
    --------
    >>> found = chosen_columns(np.eye(3), np.array([2, 0], np.uint64), ["x2", "x0"])
    >>> found.together()
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """
    dataset = as_dataset(X)
    return _of_array(X, ids, names) if dataset is None else _of_dataset(dataset, ids, names)


def _of_dataset(dataset: Dataset, ids: NDArray[np.uint64], names: Sequence[str]) -> Chosen:
    check_vocabulary(dataset, ids, names)
    dtype = dataset.arrays["X"].dtype if dataset.kind == "dense" else np.dtype(np.float32)
    pieces = _by_rows(dataset, ids) if dataset.axis == "rows" else _by_columns(dataset, ids)
    return Chosen((dataset.n_samples, len(ids)), dataset.kind, dtype, pieces)


def _by_columns(dataset: Dataset, ids: NDArray[np.uint64]) -> Iterator[Piece]:
    order = np.argsort(ids)
    there = order[ids[order] <= dataset.attributes["max_id"]]  # a sparse dataset need not have seen every feature
    done = 0
    for block in dataset.columns(ids[there]):
        columns = there[done : done + len(block.ids)]
        done += len(columns)
        yield Piece(slice(0, dataset.n_samples), columns, _cells(block, dataset.n_samples))


def _cells(block: ColumnBlock | SparseColumnBlock, n_rows: int) -> Any:
    if isinstance(block, ColumnBlock):
        return block.X
    return sp.csc_array((block.values, block.rows, block.indptr), shape=(n_rows, len(block.ids)))


def _by_rows(dataset: Dataset, ids: NDArray[np.uint64]) -> Iterator[Piece]:
    order = np.argsort(ids)
    for block in dataset.blocks(axis="rows"):
        assert isinstance(block, RowBlock | SparseBlock)
        cells = block.X[:, ids[order]] if isinstance(block, RowBlock) else _matched(block, ids[order])
        yield Piece(slice(block.first, block.first + len(block.y)), order, cells)


def _matched(block: SparseBlock, ids: NDArray[np.uint64]) -> Any:
    """The entries of a block whose feature is among ascending ids, as a matrix with a column for each."""
    at = np.searchsorted(ids, block.ids)
    hit = np.append(ids, np.uint64(0))[at] == block.ids
    hit &= at < len(ids)
    kept = np.concatenate([[0], np.cumsum(hit)])
    return sp.csr_array((block.values[hit], at[hit], kept[block.indptr]), shape=(len(block.y), len(ids)))


def _of_array(X: Any, ids: NDArray[np.uint64], names: Sequence[str]) -> Chosen:
    X, labels = _unwrapped(X)
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
    if hasattr(X, "iloc"):  # a DataFrame: only now do its other columns not matter any more
        X, columns = X.iloc[:, columns].to_numpy(), np.arange(len(columns))
    kind: Kind = "sparse" if sp.issparse(X) else "dense"
    return Chosen((n_rows, len(ids)), kind, stored_dtype(X.dtype), _windows(X, order, columns))


def _unwrapped(X: Any) -> tuple[Any, Any]:
    """The array inside an xarray.DataArray, and the names of columns that it or a DataFrame brings."""
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
        X = X if X.format in ("csr", "csc") else X.tocsr()  # those that can pick columns
    elif not hasattr(X, "dtype") or not hasattr(X, "shape"):
        X = np.asarray(X)
    return X, labels


def _windows(X: Any, order: NDArray[np.intp], columns: NDArray[np.intp]) -> Iterator[Piece]:
    dtype, sparse = stored_dtype(X.dtype), sp.issparse(X)
    for start, stop in pairwise(_edges(X, len(columns))):
        cells: Any = X[:, columns].astype(dtype) if sparse else np.asarray(X[start:stop][:, columns], dtype)
        bad = np.flatnonzero(~np.isfinite(cells.data if sparse else cells))
        if len(bad):
            row = cells.tocoo().coords[0][bad[0]] if sparse else start + bad[0] // len(columns)
            raise OptionError(f"X[{row}] has a selected value that is not finite: fill it, or drop the row")
        yield Piece(slice(start, stop), order, cells)


def _edges(X: Any, width: int) -> list[int]:
    """Where the windows of an array begin and end: a lazy one has chunks already."""
    n_rows = int(X.shape[0])
    if sp.issparse(X):
        return [0, n_rows]
    if hasattr(X, "compute"):
        return [0, *accumulate(X.chunks[0])]
    step = max(1, WINDOW_CELLS // max(width, 1))
    return [*range(0, n_rows, step), n_rows]
