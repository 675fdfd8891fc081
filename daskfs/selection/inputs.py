"""Random features of the columns of an array or a dataset, computed row by row while the columns are read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.basis import KERNELS, LINEAR, Basis, RandomFeatures, is_linear
from daskfs.errors import public_url
from daskfs.protocol import Expansion
from daskfs.selection.column_slices import ColumnSlice, ColumnSlices, FeatureIds, as_dataset, slice_columns
from daskfs.store.dataset.json_checks import (
    Check,
    check_members,
    is_count,
    is_number,
    is_one_of,
    is_text,
    list_of,
    with_members,
)
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
        """The family of random features, for this kernel, gamma, seed and these columns."""
        expansion = self.expansion
        return Basis(expansion.kernel, expansion.gamma, expansion.seed, len(self.names), expansion.inputs_per_feature)

    def has_columns_of(self, features: FeatureIds) -> bool:
        """Return whether the linear terms among features are of columns that exist."""
        return bool((features[is_linear(features)] < LINEAR + len(self.names)).all())

    def feature_names(self, features: FeatureIds) -> list[str]:
        """Return names: a column's own for a linear term, or the kernel and id with the columns, if these are few."""
        names = []
        kernel, per_feature = self.expansion.kernel, self.basis.inputs_of(features)
        for feature, linear, columns in zip(features.tolist(), is_linear(features), per_feature, strict=True):
            if linear:
                names.append(self.names[feature - LINEAR])
            elif columns is None:
                names.append(f"{kernel} {feature}")
            else:
                names.append(f"{kernel} {feature} ({', '.join(self.names[column] for column in columns.tolist())})")
        return names

    def record(self) -> dict[str, Any]:
        """Return the expansion's parameters as values for JSON, with one object for every input column."""
        expansion = self.expansion
        columns = zip(self.names, *(getattr(expansion, name).tolist() for name in COLUMNS), strict=True)
        inputs = [dict(zip(("name", *COLUMNS), values, strict=True)) for values in columns]
        record = {"kernel": expansion.kernel, "gamma": expansion.gamma, "seed": expansion.seed, "inputs": inputs}
        per_feature = list(expansion.inputs_per_feature)
        return record | ({"inputs_per_feature": per_feature} if per_feature else {})


_RECORD: dict[str, Check] = {
    "kernel": is_one_of(*KERNELS),
    "gamma": lambda gamma: is_number(gamma) and gamma > 0,
    "seed": lambda seed: type(seed) is int,
    "inputs": list_of(with_members(name=is_text, **dict.fromkeys(COLUMNS, is_number))),
}


def inputs_from_record(record: Any) -> Inputs:
    """Return the `Inputs` of a record that `Inputs.record` returned; raise ValueError for any other value."""
    check_members(record, _RECORD, {"inputs_per_feature": list_of(is_count)})
    columns, per_feature = record["inputs"], tuple(record.get("inputs_per_feature", ()))
    arrays = {name: np.array([column[name] for column in columns], np.float64) for name in COLUMNS}
    gamma = float(record["gamma"])
    expansion = Expansion(record["kernel"], gamma, record["seed"], **arrays, inputs_per_feature=per_feature)
    return Inputs([column["name"] for column in columns], expansion)


def expand_columns(
    X: Any,
    features: FeatureIds,
    inputs: Inputs,
    fills: Fills | None = None,
    date_formats: Mapping[str, str] | None = None,
) -> ColumnSlices:
    """Return random features of the rows of X; columns that no feature is a function of are not read.

    After the last row, a warning says how many rows have a value outside the range of the training data.
    """
    dataset = as_dataset(X)
    source, where = (X, "X") if dataset is None else (dataset, public_url(dataset.url))
    drawn = inputs.basis.features(features)
    used = np.arange(len(inputs.names))
    if inputs.expansion.inputs_per_feature and drawn.W.any():
        used = np.flatnonzero(drawn.W.any(axis=0))
        drawn = replace(drawn, W=np.ascontiguousarray(drawn.W[:, used]))
    names = [inputs.names[column] for column in used.tolist()]
    base = slice_columns(source, used.astype(np.uint64), names, fills, date_formats)
    slices = _expand(base, drawn, _columns_of(inputs.expansion, used), names, where)
    return ColumnSlices((base.shape[0], len(features)), "dense", np.dtype(np.float32), slices)


def _columns_of(expansion: Expansion, used: NDArray[np.intp]) -> Expansion:
    return replace(expansion, **{name: getattr(expansion, name)[used] for name in COLUMNS})


def _expand(
    base: ColumnSlices, drawn: RandomFeatures, expansion: Expansion, names: list[str], where: str
) -> Iterator[ColumnSlice]:
    n_features = len(drawn.b)
    columns, outside = np.arange(n_features), np.zeros(len(names), np.int64)
    rows, rows_outside = 0, 0
    step = max(1, SLICE_CELLS // max(n_features, 1))
    for part in base.with_all_columns():  # a feature needs all columns of a row at once
        for start in range(0, part.cells.shape[0], step):
            cells = part.cells[start : start + step]
            X = np.asarray(cells.toarray() if scipy.sparse.issparse(cells) else cells, np.float64)
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
            f"most of them in {names[worst]!r} ({outside[worst]:,}); what is predicted there is a guess",
            stacklevel=2,
        )
