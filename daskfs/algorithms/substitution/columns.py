"""Columns as Online Substitution sees them: centred, of unit norm, with a gradient and a curvature each.

Dense and sparse blocks differ here and nowhere else. One sweep over a block gives every number a score
needs; only the few columns that are nominated are ever copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.substitution.kernels import (
    N_SUMS,
    products,
    products_sparse,
    standardised,
    standardised_sparse,
    sweep,
    sweep_sparse,
    sweep_uniform,
)
from daskfs.errors import ColumnError
from daskfs.protocol import ColumnBlock, SparseColumnBlock

AnyColumns = ColumnBlock | SparseColumnBlock
Floats = NDArray[np.float64]
_CANCELLED = 1e-3  # share of Σz² that is left after centring, below which too few of its digits are
_CONSTANT = 1e-12  # share of Σx² that is left after centring where a column of float64 sums is constant


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one sweep learns of every column of a block; `g` and `d` refer to the standardised column."""

    mean: Floats
    norm: Floats  # 0 for a constant column, which can tell nothing
    g: Floats
    """xᵀr: how strongly the rows pull at the column's weight."""
    d: Floats
    """Curvature along the column, what the intercept explains taken out."""


def swept(block: AnyColumns, r: NDArray[Any], h: NDArray[Any], centred: bool) -> Sweep:
    """One sweep over a block with the pull `r` and the curvature `h` of every row; an empty `h` is 1 in all of them.

    Raises
    ------
    ColumnError
        Where a column holds NaN or infinity.
    """
    sums = np.empty((len(block.ids), N_SUMS))
    every = h if len(h) else np.ones(len(r), r.dtype)
    if isinstance(block, ColumnBlock):
        if len(h):
            sweep(block.X, r, h, sums)
        else:
            sweep_uniform(block.X, r, sums)
        shift = block.X[0].astype(np.float64)
        scale = _rescued(block, r, every, sums, shift, centred)
    else:
        sweep_sparse(block.indptr, block.rows, block.values, r, every, sums)
        shift, scale = np.zeros(len(block.ids)), np.ones(len(block.ids))
        if not np.isfinite(sums).all():
            bad = int(np.flatnonzero(~np.isfinite(sums).all(axis=1))[0])
            raise ColumnError(int(block.ids[bad]), "holds NaN or infinity; ingest the data again without it")
    r_sum, h_sum = float(r.sum(dtype=np.float64)), float(every.sum(dtype=np.float64))
    return _moments(sums, shift, scale, len(block.y), r_sum, h_sum, centred)


def _rescued(
    block: ColumnBlock, r: NDArray[Any], h: NDArray[Any], sums: Floats, shift: Floats, centred: bool
) -> Floats:
    """Take sums again in float64 that left the range of the data's precision, or whose digits cancel.

    They do where the first row is far from the others: then the shift by it does harm. Such columns are divided by
    their scale and shifted by their mean.
    """
    scale = np.ones(len(sums))
    tiny = np.finfo(block.X.dtype).tiny * 1e8
    z, zz = sums[:, 0], sums[:, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        left = zz - z * z / len(r) if centred else zz + 2 * shift * z + len(r) * shift**2
        doubtful = ~np.isfinite(sums).all(axis=1) | (zz < tiny) | (left < _CANCELLED * zz)
    for j in np.flatnonzero(doubtful):
        column = block.X[:, j]
        if zz[j] == 0 and (column == column[0]).all():
            continue  # constant
        x = column.astype(np.float64)
        if not np.isfinite(x).all():
            raise ColumnError(int(block.ids[j]), "holds NaN or infinity; write the data again without it")
        scale[j] = np.abs(x - x[0]).max() or 1.0
        x /= scale[j]
        shift[j] = x.mean()
        y = (x - shift[j])[:, None]
        sums[j] = np.hstack([y, y * y, r[:, None] * y, h[:, None] * y, h[:, None] * y * y]).sum(axis=0)
    return scale


def _moments(sums: Floats, shift: Floats, scale: Floats, n: int, r_sum: float, h_sum: float, centred: bool) -> Sweep:
    z, zz, rz, hz, hzz = sums.T
    if centred:
        offset = z / n  # of the mean from the shift
        square = zz - offset * z
        square[square <= _CONSTANT * zz] = 0.0
        g = rz - offset * r_sum
        tilt = hz - offset * h_sum
        d = hzz - 2 * offset * hz + offset**2 * h_sum - tilt**2 / h_sum
        mean = (shift + offset) * scale
    else:
        square = zz + 2 * shift * z + n * shift**2
        g = rz + shift * r_sum
        d = hzz + 2 * shift * hz + h_sum * shift**2
        mean = np.zeros(len(sums))
    norm = np.sqrt(np.maximum(square, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return Sweep(
            mean=mean,
            norm=norm * scale,
            g=np.where(norm > 0, g / norm, 0.0),
            d=np.where(norm > 0, np.maximum(d, 0) / square, 0.0),
        )


def pulled(block: AnyColumns, columns: NDArray[np.int64], found: Sweep, r: NDArray[Any]) -> Floats:
    """How strongly the rows pull at some columns of a block that has been swept before."""
    out = np.empty(len(columns))
    if isinstance(block, ColumnBlock):
        products(block.X, columns, found.mean[columns], found.norm[columns], r, out)
    else:
        products_sparse(
            block.indptr, block.rows, block.values, columns, found.mean[columns], found.norm[columns], r, out
        )
    return out


def unit_columns(block: AnyColumns, columns: NDArray[np.int64], mean: Floats, norm: Floats, dtype: Any) -> NDArray[Any]:
    """The chosen columns of a block, centred and of unit norm, in Fortran order."""
    out = np.empty((len(block.y), len(columns)), dtype, order="F")
    if isinstance(block, ColumnBlock):
        standardised(block.X, columns, mean, norm, out)
    else:
        standardised_sparse(block.indptr, block.rows, block.values, columns, mean, norm, out)
    return out
