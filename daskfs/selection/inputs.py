"""Random features of the columns of an array or a dataset, computed row by row while the columns are read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from daskfs.basis import KERNELS, LINEAR, Basis, is_linear
from daskfs.errors import public_url
from daskfs.protocol import Expansion
from daskfs.selection.column_slices import ColumnSlice, ColumnSlices, FeatureIds, as_dataset, slice_columns
from daskfs.selection.records import is_number
from daskfs.store.ingest.gaps import Fills

SLICE_CELLS = 1 << 20  # features of one slice, so that no more than a few megabytes are in memory
_FAR = 1e18  # beyond this a cosine is noise, and a step function is constant
COLUMNS = ("offset", "scale", "low", "high", "importance")


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The columns that random features are computed from, and the parameters of the expansion."""

    names: list[str]
    expansion: Expansion

    @property
    def basis(self) -> Basis:
        """The family of random features, for this kernel, gamma, seed and number of columns."""
        return Basis(self.expansion.kernel, self.expansion.gamma, self.expansion.seed, len(self.names))

    def has_columns_of(self, features: FeatureIds) -> bool:
        """Return whether the linear terms among features are of columns that exist."""
        return bool((features[is_linear(features)] < LINEAR + len(self.names)).all())

    def record(self) -> dict[str, Any]:
        """Return the expansion's parameters as values for JSON, with one object for every input column."""
        expansion = self.expansion
        columns = zip(self.names, *(getattr(expansion, name).tolist() for name in COLUMNS), strict=True)
        inputs = [dict(zip(("name", *COLUMNS), values, strict=True)) for values in columns]
        return {"kernel": expansion.kernel, "gamma": expansion.gamma, "seed": expansion.seed, "inputs": inputs}


def inputs_from_record(record: Any) -> Inputs:
    """Return the `Inputs` of a record that `Inputs.record` returned; raise ValueError for any other value."""
    if not isinstance(record, dict):
        raise ValueError("the random features are no object")
    kernel, gamma, seed, inputs = (record.get(name) for name in ("kernel", "gamma", "seed", "inputs"))
    if kernel not in KERNELS or not is_number(gamma) or type(seed) is not int:
        raise ValueError("the random features are of no known kind")
    if not isinstance(inputs, list) or not all(
        isinstance(column, dict) and isinstance(column.get("name"), str) for column in inputs
    ):
        raise ValueError("the inputs of the random features are no list of columns with names")
    if not all(is_number(column.get(name)) for column in inputs for name in COLUMNS):
        raise ValueError("an input of the random features lacks a finite number")
    if not gamma > 0:
        raise ValueError("the gamma of the random features is not above 0")
    arrays = {name: np.array([column[name] for column in inputs], np.float64) for name in COLUMNS}
    return Inputs([column["name"] for column in inputs], Expansion(kernel, float(gamma), seed, **arrays))


def expand_columns(X: Any, features: FeatureIds, inputs: Inputs, fills: Fills | None = None) -> ColumnSlices:
    """Return random features of the rows of X.

    After the last row, a warning says how many rows have a value outside the range of the training data.
    """
    dataset = as_dataset(X)
    source, where = (X, "X") if dataset is None else (dataset, public_url(dataset.url))
    base = slice_columns(source, np.arange(len(inputs.names), dtype=np.uint64), inputs.names, fills)
    slices = _expand(base, features, inputs, where)
    return ColumnSlices((base.shape[0], len(features)), "dense", np.dtype(np.float32), slices)


def _expand(base: ColumnSlices, features: FeatureIds, inputs: Inputs, where: str) -> Iterator[ColumnSlice]:
    expansion, drawn, columns = inputs.expansion, inputs.basis.features(features), np.arange(len(features))
    outside = np.zeros(len(inputs.names), np.int64)
    rows, rows_outside = 0, 0
    step = max(1, SLICE_CELLS // max(len(features), 1))
    for part in base.with_all_columns():  # a feature needs all columns of a row at once
        for start in range(0, part.cells.shape[0], step):
            cells = part.cells[start : start + step]
            X = np.asarray(cells.toarray() if sp.issparse(cells) else cells, np.float64)
            beyond = (expansion.low > X) | (expansion.high < X)
            outside += beyond.sum(axis=0)
            rows, rows_outside = rows + len(X), rows_outside + int(beyond.any(axis=1).sum())
            with np.errstate(over="ignore"):  # clipped, so that products with a direction are finite in float32
                scaled = np.clip((X - expansion.offset) * expansion.scale, -_FAR, _FAR).astype(np.float32)
            first = part.rows.start + start
            yield ColumnSlice(slice(first, first + len(X)), columns, drawn.expand(scaled))
    if rows_outside:
        worst = int(np.argmax(outside))
        warnings.warn(
            f"{where}: {rows_outside:,} of {rows:,} rows have values outside the range that was learned from, "
            f"most of them in {inputs.names[worst]!r} ({outside[worst]:,}); what is predicted there is a guess",
            stacklevel=2,
        )
