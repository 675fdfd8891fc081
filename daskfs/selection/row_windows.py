"""Chosen columns row by row, whichever way they are laid out: windows of some rows with all the columns in their order.

What comes in rows is cut into windows. Dense columns, which come one after the other, go through a temporary file, so
that no more than a window is in memory. Of sparse columns the entries are held.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskfs.selection.column_slices import Chosen, Piece
from daskfs.selection.ranking import read_into

WINDOW_CELLS = 1 << 21  # of dense columns


def row_windows(chosen: Chosen) -> Iterator[Any]:
    """Windows of rows, in order: float64 arrays ``(rows, columns)``, or CSR ones where the columns are sparse.

    >>> from daskfs.selection.column_slices import chosen_columns
    >>> [window] = row_windows(chosen_columns(np.eye(3), np.array([2, 0], np.uint64), ["x2", "x0"]))
    >>> window
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """
    rows, width = chosen.shape
    pieces = iter(chosen.pieces)
    first = next(pieces, None)
    if first is not None and len(first.columns) == width:  # then so it is with all
        yield from _cut(chain([first], pieces))
    elif chosen.kind == "dense":
        with tempfile.TemporaryFile() as file:  # it has no name: nothing stays of a process that is killed
            for piece in () if first is None else chain([first], pieces):
                for number, column in zip(piece.columns.tolist(), piece.cells.T, strict=True):
                    file.seek(number * rows * chosen.dtype.itemsize)
                    file.write(np.ascontiguousarray(column, chosen.dtype).data)
            yield from _read_back(file, chosen.shape, chosen.dtype)
    else:
        held = () if first is None else chain([first], pieces)
        yield Chosen(chosen.shape, chosen.kind, chosen.dtype, held).together()


def _cut(pieces: Iterable[Piece]) -> Iterator[Any]:
    for piece in pieces:
        order = np.argsort(piece.columns)
        if sp.issparse(piece.cells):
            yield piece.cells.tocsr()[:, order]
            continue
        for rows in _steps(*piece.cells.shape):
            yield piece.cells[rows][:, order].astype(np.float64)


def _read_back(file: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Iterator[NDArray[np.float64]]:
    rows, width = shape
    for step in _steps(rows, width):
        columns = np.empty((width, step.stop - step.start), dtype)
        for number in range(width):
            read_into(file, (number * rows + step.start) * dtype.itemsize, columns[number])
        yield columns.T.astype(np.float64)


def _steps(rows: int, width: int) -> Iterator[slice]:
    step = max(1, WINDOW_CELLS // max(width, 1))
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))
