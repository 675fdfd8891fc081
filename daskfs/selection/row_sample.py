"""Evenly spaced rows of some columns, collected while the columns are read slice by slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.selection.column_slices import ColumnSlice


class RowSample:
    """Values of some columns in rows 0, step, 2 step, …, whatever the order and the size of slices.

    Parameters
    ----------
    n_rows
        The number of all rows.
    width
        The number of columns.
    most_rows
        The most rows that are collected.

    Examples
    --------
    >>> from daskfs.selection.column_slices import ColumnSlice
    >>> sample = RowSample(n_rows=4, width=2, most_rows=2)
    >>> sample.add(ColumnSlice(slice(0, 4), np.array([1, 0]), np.arange(8.0).reshape(4, 2)))
    >>> sample.cells
    array([[1., 0.],
           [5., 4.]])
    """

    def __init__(self, n_rows: int, width: int, most_rows: int) -> None:
        self.step = max(1, -(-n_rows // max(most_rows, 1)))
        self.cells = np.zeros((-(-n_rows // self.step), width))

    def add(self, part: ColumnSlice, first: int = 0) -> None:
        """Collect the values of a slice; column `first` of the slices is the first column of the sample."""
        columns = part.columns - first
        here = np.flatnonzero((columns >= 0) & (columns < self.cells.shape[1]))
        if not len(here):
            return
        start = -part.rows.start % self.step
        cells = part.cells[:, here].tocsr() if scipy.sparse.issparse(part.cells) else part.cells
        cells = cells[start :: self.step] if scipy.sparse.issparse(cells) else cells[start :: self.step, here]
        at = (part.rows.start + start) // self.step
        dense = cells.toarray() if scipy.sparse.issparse(cells) else cells
        self.cells[at : at + len(dense), columns[here]] = dense

    def of(self, values: NDArray[Any], first_row: int = 0) -> NDArray[Any]:
        """Return a copy of the values of the rows in the sample, from the values of rows `first_row` and following."""
        return values[-first_row % self.step :: self.step].copy()  # a view would keep all rows
