"""Units of features: MISSION learns from values that do not depend on the units in which features are measured.

Features that are in most of the first rows are called *numeric*. Their values v become (v − mean) / standard deviation.

Values of other features are divided by the mean size of the feature's values in the first rows. There are 2¹⁶ slots for
these units: see `unit_kernels`. Features without a slot are rare, or have values of one size only, such as words; their
values count as −1 or +1 while they are outside the tables. A table of largest weights keeps the unit of each of
its features: that of the feature's slot, or else the absolute value of the first entry that was learned in the table.

The scaling of a feature does not depend on the values of other features. So a change of a feature's unit changes
nothing.

A real target is divided by its standard deviation in the first rows, since the steps get smaller with the sum of the
squared residuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.feature_kernels import scale_entries
from daskfs.algorithms.mission.memory_kernels import LOSS, NO_UNITS, SUM, UNIT, Memory, SparseRows
from daskfs.algorithms.mission.rows import NO_ROWS, outside_of, read_only, slice_rows
from daskfs.algorithms.mission.table_kernels import find_ids, insert_ids
from daskfs.algorithms.mission.unit_kernels import measure_units
from daskfs.protocol import Meta

_UNIT_BITS = 16  # 2^16 slots take 512 KiB, and fit into the cache of a processor
_SAME = 1e-9  # relative variance of |v| below which all values are the same
_MAX_ID = 1 << 16  # up to which ids index arrays
_LOOK = 1 << 15  # entries to look at where ids are larger and must be sorted, in at least _LOOK_ROWS rows
_LOOK_ROWS = 64
_STEPS = 2.0**24  # of a scaled target from 0 to 1
_NO_MOMENTS = np.zeros(1, np.uint64), np.zeros(1), np.zeros(1)


@dataclass(slots=True)
class Scaling:
    """The moments of numeric features, in a hash table, and the typical values of others."""

    keys: NDArray[np.uint64]
    mean: NDArray[np.float64]
    unit: NDArray[np.float64]
    """A value v becomes (v − mean) · unit; the unit is 0 where all first rows have the same value."""
    units: NDArray[np.uint64]
    """The units of other features, in the slots that `unit_kernels` describes."""

    @classmethod
    def measure(cls, rows: SparseRows, centre: bool) -> Scaling:
        """Return moments and typical values from the first rows, with no numeric features unless `centre` is true."""
        if _are_all_one(rows.values):  # words, of which none is numeric
            return cls(*_NO_MOMENTS, NO_UNITS)
        max_id = int(rows.ids.max())
        units = measure_units(rows.ids, rows.values, _count_unit_bits(min(len(rows.ids), max_id + 1)))
        if not centre:
            return cls(*_NO_MOMENTS, units)
        if max_id > _MAX_ID:
            stop = int(np.searchsorted(rows.indptr, _LOOK, side="right")) - 1
            rows = slice_rows(rows, 0, min(len(rows.y), max(stop, _LOOK_ROWS)))
            features, at = np.unique(rows.ids, return_inverse=True)
        else:
            features, at = np.arange(max_id + 1, dtype=np.uint64), rows.ids.view(np.int64)
        n, values = len(rows.y), rows.values.astype(np.float64)
        count = np.bincount(at, minlength=len(features))
        often = np.maximum(count, 1)
        size = np.bincount(at, np.abs(values), len(features)) / often
        spread = np.bincount(at, np.square(np.abs(values) - size[at]), len(features)) / often
        is_constant = spread <= _SAME * size**2
        mean = np.bincount(at, values, len(features)) / n
        numeric = (2 * count > n) & (~is_constant | (count == n))
        # Rows without a feature have the value 0.
        variance = (np.bincount(at, np.square(values - mean[at]), len(features)) + (n - count) * mean**2) / n
        single = variance <= _SAME * mean**2
        unit = np.where(single, 0.0, 1 / np.sqrt(np.where(single, 1.0, variance)))
        keys = np.zeros(1 << (2 * int(numeric.sum())).bit_length(), np.uint64)
        insert_ids(features[numeric], keys)
        slots = find_ids(features[numeric], keys)
        scaling = cls(keys, np.zeros(len(keys)), np.zeros(len(keys)), units)
        scaling.mean[slots], scaling.unit[slots] = mean[numeric], unit[numeric]
        return scaling

    def moments_of(self, ids: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        """Return for features whether they are numeric, their means and their units, which are 0 and 1 for others."""
        slots = find_ids(ids, self.keys)
        numeric = slots >= 0
        unit = np.where(numeric, self.unit[slots], 1.0)
        return numeric & (unit > 0), np.where(numeric, self.mean[slots], 0.0), np.where(unit > 0, unit, 1.0)


def scale_rows(rows: SparseRows, scaling: Scaling | None) -> SparseRows:
    """Return rows with standardised numeric features, and with the slots that have the units of other features."""
    if scaling is None:
        return rows
    scaled = read_only(*rows._replace(outside=NO_ROWS.outside, units=scaling.units))
    if not scaling.keys.any():
        return scaled
    arrays = scale_entries(*rows[:3], scaling.keys, scaling.mean, scaling.unit, scaled.units)
    return read_only(*arrays, *scaled[4:])


def target_unit_of(y: NDArray[np.float64]) -> float:
    """Return the standard deviation of the targets of the first rows, or 1 if all of them are the same."""
    return float(y.std()) or 1.0 if len(y) else 1.0


def scale_target(y: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return targets divided by a unit, rounded so that they are the same to the last bit for a target in another unit.

    >>> scale_target(np.array([1.0, 4.0]), 2.0).tolist()
    [0.5, 2.0]
    """
    scaled: NDArray[np.float64] = y if unit == 1 else np.rint(y * (_STEPS / unit)) / _STEPS
    return scaled


def in_target_unit(memory: Memory, ratio: float) -> Memory:
    """Return what was learned from a target with one score, converted to a unit by which targets are `ratio` larger."""
    if ratio == 1:
        return memory
    once, twice = np.float32(ratio), np.float32(ratio**2)
    pace, totals = memory.pace.copy(), memory.totals.copy()
    pace[..., SUM] *= twice
    totals[LOSS] *= ratio**2
    cells = memory.cells.reshape(-1, 2) * np.array([once, twice])
    weights, bias = memory.weights * once, memory.bias * once
    return memory._replace(
        cells=cells.reshape(-1), weights=weights, pace=pace, bias=bias, bias_sum=memory.bias_sum * twice, totals=totals
    )


def units_of(ids: NDArray[np.uint64], rows: SparseRows) -> NDArray[np.float32]:
    """Return the units of features `ids` that enter a table, by which their values are multiplied in the table.

    With this unit the first nonzero value of the feature in `rows` counts the same inside and outside the table. A
    feature without a nonzero value has the unit 1.
    """
    order = np.flatnonzero((rows.values != 0) & np.isin(rows.ids, ids))
    features, first = np.unique(rows.ids[order], return_index=True)
    units, at = np.ones(len(ids), np.float32), np.searchsorted(features, ids)
    known = np.isin(ids, features)
    entries = order[first[at[known]]]
    units[known] = outside_of(rows)[entries] / rows.values[entries]
    return units


def _count_unit_bits(features: int) -> int:
    """Return b such that 2^b slots are more than four for each feature, or the largest b, `_UNIT_BITS`."""
    return min(_UNIT_BITS, max(1, (4 * features).bit_length()))


def _are_all_one(values: NDArray[np.float32]) -> bool:
    return len(values) == 0 or bool(values.min() == 1 == values.max())


def scaling_nbytes(meta: Meta) -> int:
    """Return the most bytes that moments, their computation, and the scaled rows of a block take."""
    per_row = meta.n_entries / max(1, meta.n_samples)
    entries = min(meta.n_entries, meta.block_nbytes // (meta.itemsize if meta.kind == "dense" else 12))
    looked_at = min(meta.n_entries, max(_LOOK, int(_LOOK_ROWS * per_row)))
    numeric = min(meta.n_features, int(2 * per_row) + 1)
    arrays = 12 * 8 * (min(meta.n_features, _MAX_ID) + looked_at) + (34 << _count_unit_bits(meta.n_entries))
    return arrays + 24 * 4 * numeric + (48 if meta.kind == "dense" else 16) * entries


def in_units_of(common: Scaling, own: Scaling | None, memory: Memory) -> Memory:
    """Return what was learned from values scaled by `own`, converted to values scaled by `common`.

    The weights and units of the memory are converted; without `own`, nothing had been scaled.
    """
    if own is None:
        return memory
    ids = memory.keys - np.uint64(1)  # free slots have an id that no feature has
    numeric, _, unit = common.moments_of(ids.ravel())
    numeric, unit = numeric.reshape(ids.shape), unit.reshape(ids.shape)
    pace, raw = memory.pace.copy(), memory.pace[..., UNIT] * own.moments_of(ids.ravel())[2].reshape(ids.shape)
    pace[..., UNIT] = np.where(numeric, 1.0, raw)
    factors = np.where(numeric, raw / unit, 1.0).astype(np.float32)
    return memory._replace(pace=pace, weights=memory.weights * factors[..., None])
