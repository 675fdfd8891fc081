"""Rows in the form that MISSION's kernels read, and features that are derived while rows are read.

An interaction is a feature for a pair of features of a row, or of two name spaces, whose value is the product of both
values. Interactions are derived for a window of rows at a time and never stored. The id of an interaction is a hash;
the tables keep the ids of its two parents, from which its name follows.

With `idf`, a first pass counts the rows that have each feature, and values are multiplied by 1 + log(n / count). The
weights of a result include the idf factors, so that weights apply to the values in the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.error_control import check_group_numbers
from daskfs.algorithms.mission.feature_kernels import append_pairs, count_features, count_pairs, larger_of_two
from daskfs.algorithms.mission.memory_kernels import Memory, SparseRows
from daskfs.algorithms.mission.table_kernels import insert_ids
from daskfs.algorithms.mission.unit_kernels import values_outside
from daskfs.errors import OptionError, RowError
from daskfs.protocol import NO_PARENT, Meta, RowBlock, SparseBlock

WINDOW = 1 << 20  # entries, pairs included
MAX_PAIRS = 1 << 21  # of one row
_ENTRY_BYTES = 8 + 4 + 16
_ALL = "all"
_MIN_COUNTERS = 1 << 17  # enough for a million features, most of them rare
_NO_PAIRS = np.empty((0, 2), np.uint64)
_NO_WEIGHT = np.empty(0, np.float32)


def rows_of(block: RowBlock | SparseBlock, y: NDArray[np.float64]) -> SparseRows:
    """Return the rows of a block in CSR form, with the target y."""
    weight = _NO_WEIGHT if block.weight is None else block.weight
    if isinstance(block, SparseBlock):
        return read_only(block.indptr, block.ids, block.values, block.values, _NO_PAIRS, y, weight)
    row, column = np.nonzero(block.X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(block.X)))])
    values = block.X[row, column].astype(np.float32)
    return read_only(indptr, column.astype(np.uint64), values, values, _NO_PAIRS, y, weight)


def read_only(*arrays: NDArray[Any]) -> SparseRows:
    """Return rows of read-only views, so that numba compiles each kernel only once, for read-only arrays."""
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    return SparseRows(*views)


NO_ROWS = read_only(
    np.zeros(1, np.int64), np.empty(0, np.uint64), _NO_WEIGHT, _NO_WEIGHT, _NO_PAIRS, np.empty(0), _NO_WEIGHT
)


def outside_of(rows: SparseRows) -> NDArray[np.float32]:
    """Return the values that entries have while their features are in no table."""
    return rows.outside if len(rows.outside) else values_outside(rows.ids, rows.values, rows.units)


def slice_rows(rows: SparseRows, start: int, stop: int) -> SparseRows:
    """Return the rows from `start` up to, but not including, `stop`."""
    first, last = rows.indptr[start], rows.indptr[stop]
    pairs = rows.pairs[first:last] if len(rows.pairs) else rows.pairs
    weight, y = rows.weight[start:stop] if len(rows.weight) else rows.weight, rows.y[start:stop]
    ids, values, outside = (array[first:last] for array in (rows.ids, rows.values, rows.outside))
    return read_only(rows.indptr[start : stop + 1] - first, ids, values, outside, pairs, y, weight, rows.units)


def take_rows(rows: SparseRows, numbers: NDArray[np.intp]) -> SparseRows:
    """Return copies of the rows with these numbers, without pairs of features and without separate `outside` values."""
    starts, sizes = rows.indptr[numbers], np.diff(rows.indptr)[numbers]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.repeat(starts - indptr[:-1], sizes) + np.arange(indptr[-1])
    weight = rows.weight[numbers] if len(rows.weight) else rows.weight
    values = rows.values[entries]
    return read_only(indptr, rows.ids[entries], values, values, _NO_PAIRS, rows.y[numbers], weight)


def join_rows(parts: Sequence[SparseRows]) -> SparseRows:
    """Return the rows of all parts together, without pairs of features and without separate `outside` values."""
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    ids, values, y, weight = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "values", "y", "weight")
    )
    return read_only(indptr, ids, values, values, _NO_PAIRS, y, weight)


def ignore_rows(rows: SparseRows, which: NDArray[np.bool_]) -> SparseRows:
    """Return the rows with weight 0 for the rows in the mask `which`, from which kernels learn nothing."""
    weight = rows.weight if len(rows.weight) else np.ones(len(which), np.float32)
    return read_only(*rows._replace(weight=np.where(which, np.float32(0), weight)))


def without_features(rows: SparseRows, features: NDArray[np.uint64]) -> SparseRows:
    """Return the rows without some features, given ascending ids of these."""
    if not len(features):
        return rows
    stay = ~_are_in(rows.ids, features)
    indptr = np.concatenate([[0], np.cumsum(stay)])[rows.indptr]
    ids, values, outside, pairs = (
        array[stay] if len(array) else array for array in (rows.ids, rows.values, rows.outside, rows.pairs)
    )
    return read_only(indptr, ids, values, outside, pairs, rows.y, rows.weight, rows.units)


def keys_of_groups(rows: SparseRows, features: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a number for the group of every row: the one of `features` that it has, or the value of a single feature.

    Raise OptionError if a row has no group.
    """
    entries = np.flatnonzero(_are_in(rows.ids, features))
    row = np.searchsorted(rows.indptr, entries, side="right") - 1
    keys = np.zeros(len(rows.y), np.uint64)
    if len(features) == 1:  # 0 where it is not stored
        check_group_numbers(rows.values[entries])
        keys[row] = rows.values[entries].astype(np.float64).view(np.uint64)
        return keys
    keys[row] = rows.ids[entries] + np.uint64(1)
    if not keys.all():
        raise OptionError("groups: there are rows that belong to no group; leave them out")
    return keys


def _are_in(ids: NDArray[np.uint64], features: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which ids are among some features, given ascending."""
    at = np.minimum(np.searchsorted(features, ids), len(features) - 1)
    are_in: NDArray[np.bool_] = features[at] == ids
    return are_in


def are_usable(rows: SparseRows) -> NDArray[np.bool_]:
    """Return a mask of the values that are finite and have a finite square."""
    with np.errstate(over="ignore"):
        usable: NDArray[np.bool_] = np.isfinite(np.square(rows.values))
    return usable


def are_all_usable(rows: SparseRows) -> bool:
    """Return whether all values are finite and have a finite square."""
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(rows.values @ rows.values)  # without an array of squares
    return bool(is_finite or are_usable(rows).all())


def unusable_value(rows: SparseRows, first: int) -> RowError:
    """Return an error that names the first value that is not usable, where `first` is the number of the first row."""
    entry = int(np.argmin(are_usable(rows)))
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    reason = f"the value {rows.values[entry]} is not finite, or too large; write the data again without it"
    return RowError(first + row, int(rows.ids[entry]), reason)


# ---------------------------------------------------------------------------------------------------- derived features


@dataclass(slots=True)
class NameSpaces:
    """Hash tables of the features on either side of an interaction, where an empty table stands for all features."""

    left: NDArray[np.uint64]
    right: NDArray[np.uint64]


def check_interactions(interactions: str | None) -> None:
    """Raise OptionError if `interactions` is neither None, nor "all", nor the names of two name spaces."""
    if interactions is None or interactions == _ALL:
        return
    if len([space for space in interactions.split(",") if space.strip()]) != 2:
        raise OptionError(f"interactions={interactions!r:.80}: must be 'all', or two name spaces such as 'user,ad'")


def name_spaces_of(interactions: str | None, meta: Meta) -> NameSpaces | None:
    """Return the tables of the name spaces that the option `interactions` names, or None without interactions."""
    if interactions is None:
        return None
    if interactions == _ALL:
        return NameSpaces(np.empty(0, np.uint64), np.empty(0, np.uint64))
    return NameSpaces(*(_table_of(space.strip(), meta) for space in interactions.split(",")))


def interactions_nbytes(interactions: str | None, meta: Meta) -> int:
    """Return the most bytes that a window of rows with pairs and the tables of name spaces take."""
    if interactions is None:
        return 0
    tables = 0 if interactions == _ALL else 2 * 8 * (1 << (2 * meta.n_features).bit_length())
    return (WINDOW + MAX_PAIRS) * _ENTRY_BYTES + tables


def windows(rows: SparseRows, spaces: NameSpaces | None, first: int) -> Iterator[SparseRows]:
    """Yield windows of rows with their pairs of features, where `first` is the number of the first row."""
    if spaces is None:
        yield rows
        return
    counts = count_pairs(rows.indptr, rows.ids, spaces.left, spaces.right)
    if counts.max(initial=0) > MAX_PAIRS:
        row = int(counts.argmax())
        feature, size = int(rows.ids[rows.indptr[row]]), np.diff(rows.indptr)[row]
        reason = f"one of {size:,} that make {counts[row]:,} pairs, of at most {MAX_PAIRS:,}"
        raise RowError(first + row, feature, reason)
    ends = np.cumsum(counts) + rows.indptr[1:]
    start = 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + WINDOW, side="right")))
        part = slice_rows(rows, start, stop)
        arrays = append_pairs(*part[:3], outside_of(part), spaces.left, spaces.right, counts[start:stop])
        yield read_only(*arrays, part.y, part.weight)
        start = stop


def parents_of(memory: Memory, features: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the ids of both parents of each feature; a feature that is not a pair has `NO_PARENT` twice."""
    keys = memory.keys.ravel()
    slots = np.flatnonzero(keys)
    order = slots[np.argsort(keys[slots], kind="stable")]
    at = order[np.searchsorted(keys[order], features + np.uint64(1))]
    parents: NDArray[np.uint64] = memory.parents.reshape(-1, 2)[at]
    return parents


def _table_of(space: str, meta: Meta) -> NDArray[np.uint64]:
    members = meta.members(space)
    if len(members) == 0:
        raise OptionError(f"interactions: no feature is of the name space {space!r:.80}, like {space}^… or {space}=…")
    keys = np.zeros(1 << (2 * len(members)).bit_length(), np.uint64)
    insert_ids(members, keys)
    return keys


@dataclass(slots=True)
class RowCounts:
    """Counts of the rows that have each feature: a shared counter in each of two arrays, of shape (2, cells)."""

    before: NDArray[np.uint32]
    """Counts up to the last merge, the same for all shards."""
    since: NDArray[np.uint32]
    """Counts of this shard since the last merge."""

    @classmethod
    def empty(cls, width: int) -> RowCounts:
        """Return zero counters, whose number depends on the width of the sketch."""
        shape = (2, count_cells(width))
        return cls(np.zeros(shape, np.uint32), np.zeros(shape, np.uint32))


def count_cells(width: int) -> int:
    """Return the number of cells in an array of counters, for a sketch of this width."""
    return max(_MIN_COUNTERS, 2 * width)


def count_rows(counts: RowCounts, ids: NDArray[np.uint64]) -> None:
    """Add the entries of rows to the counts of their features."""
    count_features(ids, counts.since, _bits(counts.since.shape[1]))


def idf_of(counts: RowCounts, n_rows: float) -> NDArray[np.float32]:
    """Return the idf factors 1 + log((1 + n_rows) / (1 + count)) of all cells, (2, cells)."""
    factors = (counts.since + counts.before).astype(np.float32)
    np.minimum(factors, n_rows, out=factors)  # features that share a cell may count more than there are rows
    factors += 1
    np.log(factors, out=factors)
    np.subtract(np.float32(1 + np.log(1 + n_rows)), factors, out=factors)
    return factors


def factors_of(
    idf: NDArray[np.float32] | None, ids: NDArray[np.uint64], parents: NDArray[np.uint64] | None = None
) -> NDArray[np.float32]:
    """Return the idf factors of features, where the factor of a pair is the product of its parents' factors."""
    factors = np.ones(len(ids), np.float32)
    if idf is not None:
        larger_of_two(ids, idf, _bits(idf.shape[1]), factors)  # of the smaller count, which is nearer to the truth
        if parents is not None:
            left, right = (factors_of(idf, parents[:, side].copy()) for side in (0, 1))
            factors = np.where(parents[:, 0] != np.uint64(NO_PARENT), left * right, factors)
    return factors


def multiply_values(rows: SparseRows, idf: NDArray[np.float32] | None) -> SparseRows:
    """Return the rows with their values multiplied by the idf factors of their features."""
    if idf is None:
        return rows
    factors = factors_of(idf, rows.ids)
    return read_only(*rows[:2], rows.values * factors, outside_of(rows) * factors, *rows[4:])


def _bits(cells: int) -> int:
    return cells.bit_length() - 1
