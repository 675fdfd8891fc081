"""Summaries of columns by class, or beside a real target, from one pass over the columns (see `profiles`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Label
from daskfs.selection.column_slices import ColumnSlice, ColumnSlices
from daskfs.selection.intervals import FloatArray
from daskfs.selection.metrics import ratio
from daskfs.selection.records import Record
from daskfs.selection.row_sample import RowSample

MOST_CLASSES = 6  # the most frequent ones, whose distributions are drawn beside each other
SAMPLE_ROWS, SAMPLE_CELLS = 1 << 14, 1 << 20
BINS = 24  # of a distribution
TARGET_BINS = 12  # of equally many rows, whose mean target is computed
TAIL = 0.01  # the share of rows at either end that falls into the outermost bins


class Summary:
    """Summaries of all columns; this base class counts the rows of every class.

    Parameters
    ----------
    columns
        The columns, for their number and that of the rows.
    classes
        The classes; None for real targets.
    """

    def __init__(self, columns: ColumnSlices, classes: Sequence[Label] | None) -> None:
        self.classes, self.width = classes, columns.shape[1]
        self._class_rows = np.zeros(len(classes or ()), np.int64)

    def add_rows(self, first: int, targets: NDArray[Any]) -> None:
        """Add the targets, or the class numbers, of rows `first` and following; every row once."""
        if self.classes is not None:
            counts = np.bincount(targets, minlength=len(self.classes))
            self._class_rows += counts[: len(self.classes)]  # further numbers are of unknown labels

    def add(self, part: ColumnSlice, targets: NDArray[Any]) -> None:
        """Add values of some columns, with the targets of the same rows."""
        raise NotImplementedError

    def record(self) -> Record:
        """Return the classes, and a record of every column in "features"."""
        rows = self._class_rows.tolist()
        classes = None if self.classes is None else [
            {"class": label, "rows": count} for label, count in zip(self.classes, rows, strict=True)
        ]  # fmt: skip
        return {"classes": classes, "shown": self._shown, "features": self._columns()}

    @property
    def _shown(self) -> list[int]:
        """The numbers of the most frequent classes, in ascending order."""
        return sorted(np.argsort(-self._class_rows, kind="stable")[:MOST_CLASSES].tolist())

    def _columns(self) -> list[Record]:
        raise NotImplementedError


class DenseSummary(Summary):
    """Summaries of the values of evenly spaced rows.

    For classes, a column has "counts" of rows for every class shown, in bins between "edges". For a real target it has
    "places", the mean of the column, "means" of the target, and "counts" of rows, in bins of about equally many rows.
    For several targets it has "counts" of all rows as of one class.
    """

    def __init__(self, columns: ColumnSlices, classes: Sequence[Label] | None) -> None:
        super().__init__(columns, classes)
        most_rows = min(SAMPLE_ROWS, SAMPLE_CELLS // max(self.width, 1))
        self.sample = RowSample(columns.shape[0], self.width, most_rows)
        self._targets: list[NDArray[Any]] = []

    def add_rows(self, first: int, targets: NDArray[Any]) -> None:
        super().add_rows(first, targets)
        self._targets.append(self.sample.of(targets, first))

    def add(self, part: ColumnSlice, targets: NDArray[Any]) -> None:
        self.sample.add(part)

    def record(self) -> Record:
        return {**super().record(), "sampled": len(self.sample.cells)}

    def _columns(self) -> list[Record]:
        targets = np.concatenate(self._targets)
        if self.classes is None and targets.ndim == 1:
            return [_means(values, targets) for values in self.sample.cells.T]
        groups = np.zeros(len(targets), np.int64) if self.classes is None else targets
        shown = [0] if self.classes is None else self._shown
        return [_counts(values, groups, shown) for values in self.sample.cells.T]


def _counts(values: FloatArray, groups: NDArray[np.int64], shown: Sequence[int]) -> Record:
    """Return counts of rows in bins of equal width, for every group shown; outliers are in the outermost bins."""
    low, high = np.quantile(values, [TAIL, 1 - TAIL])
    if low == high:
        low, high = values.min(), values.max()
    edges = np.linspace(low, high, BINS + 1) if low < high else np.array([low, high])
    at = np.searchsorted(edges[1:-1], values, side="right")
    counts = [np.bincount(at[groups == group], minlength=len(edges) - 1) for group in shown]
    return {"edges": edges.tolist(), "counts": [each.tolist() for each in counts]}


def _means(values: FloatArray, target: FloatArray) -> Record:
    """Return the mean value and the mean target in bins of about equally many rows, or of every value if few differ."""
    distinct, at = np.unique(values, return_inverse=True)
    if len(distinct) > TARGET_BINS:
        edges = np.unique(np.quantile(values, np.linspace(0, 1, TARGET_BINS + 1)))
        at = np.searchsorted(edges[1:-1], values, side="right")
    counts = np.bincount(at)
    places, means = (ratio(np.bincount(at, of), counts)[counts > 0] for of in (values, target))
    return {"places": places.tolist(), "means": means.tolist(), "counts": counts[counts > 0].tolist()}


class SparseSummary(Summary):
    """Summaries of the entries of all rows, where values that are 0 are no entries.

    For classes, a column has "present", the rows with an entry, and "values", the mean of the entries, for every class
    shown. For a real target it has "present" of all rows, and the mean target of rows "with" and "without" an entry
    (of several targets NaN).
    """

    def __init__(self, columns: ColumnSlices, classes: Sequence[Label] | None) -> None:
        super().__init__(columns, classes)
        n_groups = 1 if classes is None else len(classes)
        self._rows, self._target_sum = 0, 0.0
        self._present, self._sums = np.zeros((n_groups, self.width), np.int64), np.zeros((n_groups, self.width))
        self._targets = np.zeros(self.width)

    def add_rows(self, first: int, targets: NDArray[Any]) -> None:
        super().add_rows(first, targets)
        self._rows += len(targets)
        self._target_sum += float(targets.sum()) if targets.ndim == 1 else np.nan

    def add(self, part: ColumnSlice, targets: NDArray[Any]) -> None:
        entries = part.cells.tocoo()
        rows, columns = entries.coords[0], part.columns[entries.coords[1]]
        groups = np.zeros(len(rows), np.int64) if self.classes is None else targets[rows]
        counts = (entries.data != 0) & (groups < len(self._present))
        at = (groups * self.width + columns)[counts]
        self._present += np.bincount(at, minlength=self._present.size).reshape(self._present.shape)
        self._sums += np.bincount(at, entries.data[counts], self._sums.size).reshape(self._sums.shape)
        if self.classes is None:
            of_rows = targets[rows[counts]] if targets.ndim == 1 else np.full(len(at), np.nan)
            self._targets += np.bincount(columns[counts], of_rows, self.width)

    def _columns(self) -> list[Record]:
        if self.classes is None:
            [present] = self._present
            means = ratio(self._targets, present), ratio(self._target_sum - self._targets, self._rows - present)
            lines = zip(present.tolist(), *(mean.tolist() for mean in means), strict=True)
            return [{"present": [count], "with": high, "without": low} for count, high, low in lines]
        present, values = self._present[self._shown], ratio(self._sums, self._present)[self._shown]
        return [
            {"present": count, "values": mean}
            for count, mean in zip(present.T.tolist(), values.T.tolist(), strict=True)
        ]
