"""Gaps (missing values): the choices for them, and the exact mean or median that fills the gaps of each column.

While rows are staged, a gap is NaN. When all rows are staged, the mean or median of each column with gaps is computed
from the staged rows, in bounded memory and without rounding, so that the result depends on nothing but the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.errors import SourceError
from daskfs.store.ingest import gaps_kernels as kernels

_NINES, _FEWEST_OTHERS = frozenset(10.0**digits - 1 for digits in range(2, 10)), 10
Missing = Literal["auto", "error", "mean", "median", "indicator", "drop", "zero"]
"""What becomes of a missing number; see `MISSING`."""
MISSING = {
    "auto": "the mean, as with mean, computed only for columns with gaps",
    "error": "a row with a gap is an error",
    "mean": "the mean of the column",
    "median": "the median of the column, the lower of two middle values",
    "indicator": "the mean, and a feature NAME=(missing) that is 1 in rows with a gap",
    "drop": "rows with a gap are left out",
    "zero": "0, as if the gap were nothing",
}
GAP = "(missing)"
COLUMNS_AT_ONCE = {"mean": 4096, "median": 8}  # so that sums, or counts of digits, take a few megabytes
_TASKS = 8  # at most, as the sums of all tasks are in memory at once


_ROWS_AT_ONCE = 4096


def gap_number(numbers: NDArray[np.float64], counts: NDArray[np.int64]) -> float | None:
    """Return the number of nines, such as -999, that seems to stand for gaps among distinct ascending numbers, or None.

    It is in several rows, and farther from the nearest of the other numbers than these are from each other.

    >>> ages = np.arange(20.0, 80.0)
    >>> [gap_number(np.sort([*ages, number]), np.full(61, 2)) for number in (-999.0, 99.0, 9999.0, 1000.0)]
    [-999.0, None, 9999.0, None]
    """
    numbers, counts = numbers[np.isfinite(numbers)], counts[np.isfinite(numbers)]
    for at, others in ((0, numbers[1:]), (-1, numbers[:-1])):
        is_candidate = len(others) >= _FEWEST_OTHERS and counts[at] > 1 and abs(numbers[at]) in _NINES
        if is_candidate and np.abs(others - numbers[at]).min() > others[-1] - others[0]:
            return float(numbers[at])
    return None


def indicator_name(name: str) -> str:
    """Return the name of the feature that is 1 where the column `name` has a gap."""
    return f"{name}={GAP}"


@dataclass(frozen=True)
class Fills:
    """How the gaps of a dataset were filled, stored with the dataset and with selections from it.

    Parameters
    ----------
    how
        The choice, one of `Missing`.
    values
        The number that fills the gaps of each column, by name.
    indicators
        The number of the column whose gaps an indicator shows, by the name of the indicator.
    """

    how: Missing
    values: dict[str, float] = field(default_factory=dict)
    indicators: dict[str, int] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return the fills as values for JSON."""
        return {"how": self.how, "values": self.values, "indicators": self.indicators}

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Fills | None:
        """Return the fills of a record, or None for no record."""
        return None if record is None else cls(record["how"], dict(record["values"]), dict(record["indicators"]))

    def value(self, name: str) -> float | None:
        """Return the number that fills a gap of the column `name`, or None if there is none."""
        return 0.0 if self.how == "zero" else self.values.get(name)

    def of(self, names: Iterable[str]) -> Fills:
        """Return the fills of some features, and of the columns of their indicators."""
        wanted = set(names)
        values = {name: value for name, value in self.values.items() if name in wanted}
        return Fills(self.how, values, {name: at for name, at in self.indicators.items() if name in wanted})


def columns_to_fill(how: Missing, names: Sequence[str], gaps: Mapping[str, int]) -> list[int]:
    """Return the positions of the columns whose mean or median is needed: all, or with "auto" those with gaps."""
    if how in ("mean", "median", "indicator"):
        return list(range(len(names)))
    return [column for column, name in enumerate(names) if how == "auto" and gaps.get(name)]


def check_given(given: Fills, gaps: Mapping[str, int], names: Sequence[str]) -> None:
    """Raise SourceError if a column of numbers has gaps that the fills of another dataset do not fill."""
    for name in names:
        if gaps.get(name) and given.how in ("auto", "mean", "median", "indicator") and given.value(name) is None:
            raise SourceError(
                f"column {name} has {gaps[name]:,} gaps, and had none in the dataset to be like: "
                "ingest that one with --missing mean, so that the means of all columns are known"
            )


class CellsPart(Protocol):
    """Some rows of a table, whose columns can be read one by one; the object is small and picklable."""

    def columns(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float64], int]]:
        """Yield for each column its numbers, NaN for a gap, and how many further numbers of the column are 0."""


@dataclass(frozen=True, eq=False)
class ArrayCells:
    """Rows of a matrix in memory that implement `CellsPart`."""

    X: NDArray[Any]

    def columns(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float64], int]]:
        for column in ids:
            yield np.ascontiguousarray(self.X[:, column], np.float64), 0


def fill_values(
    how: Missing, ids: Sequence[int], parts: Sequence[CellsPart], run: Any, dtype: np.dtype[Any]
) -> list[float]:
    """Return the number that fills the gaps of each column, rounded to `dtype`; 0 for a column without any number.

    >>> X = np.array([[1, np.nan], [5, 4], [np.nan, 6]])
    >>> run = lambda task, arguments: [task(*each) for each in arguments]
    >>> fill_values("mean", [0, 1], [ArrayCells(X[:2]), ArrayCells(X[2:])], run, X.dtype)
    [3.0, 5.0]
    >>> fill_values("median", [0, 1], [ArrayCells(X)], run, X.dtype)
    [1.0, 4.0]
    """
    compute = _medians if how == "median" else _means
    step = COLUMNS_AT_ONCE["median" if how == "median" else "mean"]
    groups = (ids[first : first + step] for first in range(0, len(ids), step))
    with np.errstate(over="ignore"):  # of infinities, which are reported where cells are written
        return [float(dtype.type(value)) for group in groups for value in compute(group, parts, run)]


def _means(ids: Sequence[int], parts: Sequence[CellsPart], run: Any) -> list[float]:
    sums, counts = np.zeros((len(ids), kernels.LIMBS), np.int64), np.zeros(len(ids), np.int64)
    for more, count in run(_sum_parts, [(some, ids) for some in _shares(parts)]):
        sums += more
        counts += count
    return [_mean(limbs, int(count)) for limbs, count in zip(sums, counts, strict=True)]


def _mean(limbs: NDArray[np.int64], count: int) -> float:
    total = sum(limb << (kernels.LIMB_BITS * i) for i, limb in enumerate(limbs.tolist()))
    return float(Fraction(total, count << kernels.EXPONENT_BIAS)) if count else 0.0


def _shares(parts: Sequence[CellsPart]) -> list[Sequence[CellsPart]]:
    """Divide the parts into a few groups, one for each task."""
    step = -(-len(parts) // _TASKS)
    return [parts[first : first + step] for first in range(0, len(parts), step)]


def _sum_parts(parts: Sequence[CellsPart], ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    sums, counts = np.zeros((len(ids), kernels.LIMBS), np.int64), np.zeros(len(ids), np.int64)
    for part in parts:
        for i, (values, zeros) in enumerate(part.columns(ids)):
            counts[i] += zeros + kernels.add_exactly(values, sums[i])
    return sums, counts


def _medians(ids: Sequence[int], parts: Sequence[CellsPart], run: Any) -> list[float]:
    """Return the medians of columns, from four readings that each find 16 bits of every median."""
    prefixes, ranks = [0] * len(ids), [-1] * len(ids)
    for shift in range(64 - kernels.DIGIT_BITS, -1, -kernels.DIGIT_BITS):
        counts = np.zeros((len(ids), 1 << kernels.DIGIT_BITS), np.int64)
        for more in run(_count_parts, [(some, ids, shift, prefixes) for some in _shares(parts)]):
            counts += more
        for i, below in enumerate(map(np.cumsum, counts)):
            if ranks[i] < 0:
                ranks[i] = (int(below[-1]) - 1) // 2
            digit = int(np.searchsorted(below, ranks[i], side="right"))
            if digit < len(below):  # else the column has no number at all
                ranks[i] -= int(below[digit] - counts[i, digit])
                prefixes[i] = (prefixes[i] << kernels.DIGIT_BITS) | digit
    return [_number(prefix) for prefix in prefixes]


def _count_parts(
    parts: Sequence[CellsPart], ids: Sequence[int], shift: int, prefixes: Sequence[int]
) -> NDArray[np.int64]:
    counts = np.zeros((len(ids), 1 << kernels.DIGIT_BITS), np.int64)
    for part in parts:
        for i, (values, zeros) in enumerate(part.columns(ids)):
            kernels.count_digit(values, shift, prefixes[i], counts[i])
            if zeros:
                zero = np.zeros(1 << kernels.DIGIT_BITS, np.int64)
                kernels.count_digit(np.zeros(1), shift, prefixes[i], zero)
                counts[i] += zeros * zero
    return counts


def _number(digits: int) -> float:
    """Return the float64 whose place in the order of all float64 is `digits`; 0 for no digits at all."""
    if not digits:
        return 0.0
    bits = digits ^ (1 << 63) if digits >> 63 else digits ^ ((1 << 64) - 1)
    return float(np.array(bits, np.uint64).view(np.float64))


@dataclass(frozen=True, eq=False)
class SparseCells:
    """The columns of a scipy.sparse matrix in CSC form that implement `CellsPart`."""

    matrix: Any

    def columns(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float64], int]]:
        for column in ids:
            values = self.matrix.data[self.matrix.indptr[column] : self.matrix.indptr[column + 1]].astype(np.float64)
            yield values, self.matrix.shape[0] - len(values)


def count_missing(X: Any) -> NDArray[np.int64]:
    """Return the number of NaN in each column of a numpy or scipy.sparse matrix of floats, 0 for other types."""
    gaps = np.zeros(X.shape[1], np.int64)
    if X.dtype.kind == "f" and scipy.sparse.issparse(X):
        entries = X.tocoo()
        gaps += np.bincount(entries.coords[1][np.isnan(entries.data)], minlength=X.shape[1])
    elif X.dtype in (np.float32, np.float64):
        for first in range(0, len(X), _ROWS_AT_ONCE):
            gaps += np.isnan(X[first : first + _ROWS_AT_ONCE]).sum(axis=0)
    return gaps


def fill_matrix(X: Any, missing: Missing, names: Sequence[Any] | None) -> tuple[Any, Sequence[Any] | None, Fills]:
    """Return a matrix with its gaps filled, its column names with those of indicators, and what was filled in.

    A matrix without gaps is returned as it is. Rows with gaps are not dropped here; see `complete_rows`.

    >>> X, names, fills = fill_matrix(np.array([[1.0, np.nan], [3.0, 4.0]]), "indicator", ["a", "b"])
    >>> X, names, fills.values
    (array([[1., 4., 1.],
           [3., 4., 0.]]), ['a', 'b', 'b=(missing)'], {'a': 2.0, 'b': 4.0})
    """
    if missing in ("error", "drop"):
        return X, names, Fills(missing)
    counts = count_missing(X)
    known = [f"x{column}" for column in range(X.shape[1])] if names is None else list(names)
    gaps = {known[column]: int(counts[column]) for column in np.flatnonzero(counts)}
    wanted = columns_to_fill(missing, known, gaps)
    parts: list[CellsPart] = [SparseCells(X.tocsc()) if scipy.sparse.issparse(X) else ArrayCells(X)]
    dtype = np.dtype(np.float32) if scipy.sparse.issparse(X) or X.dtype.kind != "f" else X.dtype
    values = fill_values(missing, wanted, parts, lambda task, tasks: [task(*each) for each in tasks], dtype)
    marked = np.flatnonzero(counts) if missing == "indicator" else np.empty(0, np.intp)
    indicators = {indicator_name(known[column]): int(column) for column in marked}
    fills = Fills(missing, {known[column]: value for column, value in zip(wanted, values, strict=True)}, indicators)
    if not gaps:
        return X, names, fills
    fill = np.zeros(X.shape[1])
    fill[wanted] = np.where(np.isfinite(values), values, 0)  # of infinities, which are reported where they are written
    if scipy.sparse.issparse(X):
        entries = X.tocoo(copy=True)
        is_gap = np.isnan(entries.data)
        entries.data[is_gap] = fill[entries.coords[1][is_gap]]
        at = {int(column): number for number, column in enumerate(marked)}
        rows, columns = (coordinate[is_gap] for coordinate in entries.coords)
        shown = np.array([at[column] for column in columns.tolist() if at], np.intp)
        ones = scipy.sparse.coo_array(
            (np.ones(len(shown)), (rows[: len(shown)], shown)), shape=(X.shape[0], len(marked))
        )
        X = scipy.sparse.hstack([entries, ones], format="csr") if at else entries.tocsr()
    else:
        gap_cells = np.isnan(X[:, marked])
        X = np.where(np.isnan(X), fill.astype(X.dtype), X)
        X = np.hstack([X, gap_cells.astype(X.dtype)]) if len(marked) else X
    return X, [*known, *indicators] if indicators else names, fills


def complete_rows(X: Any) -> NDArray[np.bool_]:
    """Return which rows of a numpy or scipy.sparse matrix have no NaN."""
    complete = np.ones(X.shape[0], np.bool_)
    if X.dtype.kind == "f" and scipy.sparse.issparse(X):
        entries = X.tocoo()
        complete[entries.coords[0][np.isnan(entries.data)]] = False
    elif X.dtype.kind == "f":
        for first in range(0, len(X), _ROWS_AT_ONCE):
            complete[first : first + _ROWS_AT_ONCE] = ~np.isnan(X[first : first + _ROWS_AT_ONCE]).any(axis=1)
    return complete
