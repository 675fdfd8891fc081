"""Blocks of columns for the methods of Online Substitution, centred and scaled to unit norm.

Only this module distinguishes dense blocks from sparse blocks. One sweep over a block computes the gradient and the
curvature of every column, and only the few columns that may enter a selected set are copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution import kernels
from daskfs.errors import ColumnError, OptionError
from daskfs.protocol import Algorithm, Axis, Block, ColumnBlock, Preview, SparseColumnBlock

if TYPE_CHECKING:
    from daskfs.algorithms.substitution import OnlineSubstitution

AnyColumns = ColumnBlock | SparseColumnBlock
_CANCELLED = 1e-3  # if centring leaves a smaller share of Σz², too few digits of the sum are significant
_LANES = 8  # numbers of 4 bytes that a processor handles at once
_CONSTANT = 1e-12  # a column is constant if centring leaves a smaller share of Σx² in float64


@dataclass(frozen=True)
class ColumnMethod(Algorithm):
    """Base class of the methods "block", "paper" and "async" of Online Substitution."""

    axis: ClassVar[Axis] = "columns"
    verb: ClassVar[str] = "score"
    history_fields: ClassVar[tuple[str, ...]]
    """The names of the numbers that are recorded after every pass."""

    params: OnlineSubstitution
    """The parameters, with the loss that "auto" stands for."""
    asked: OnlineSubstitution
    """The parameters as the user gave them."""

    @property
    def name(self) -> str:
        return self.params.name

    @property
    def n_select(self) -> int:
        return self.params.n_select

    @property
    def passes(self) -> int:
        return self.params.passes

    def chosen(self, ridge: float) -> dict[str, float | str]:
        """Return the values that the data decided for parameters that were "auto", in the form of `Result.chosen`."""
        values = {"loss": self.params.loss, "ridge": ridge}
        return {name: value for name, value in values.items() if getattr(self.asked, name) == "auto"}

    def new_history(self) -> Floats:
        """Return an array with a row of NaN for every pass."""
        return np.full((self.passes, len(self.history_fields)), np.nan)

    def history_records(self, rows: Sequence[Sequence[float]]) -> list[dict[str, float]]:
        """Return the rows of a history as dicts, in the format of `Result.history`."""
        return [dict(zip(self.history_fields, row, strict=True)) for row in rows]

    @staticmethod
    def last_objective(history: Floats, passes: int) -> float:
        """Return the objective of the last finished pass; return NaN before the end of the first pass."""
        return float(history[passes - 1, 0]) if passes else np.nan

    @staticmethod
    def summarise_staleness(counts: NDArray[np.int64]) -> tuple[float, float, int]:
        """Return the mean and largest staleness and the number of offers, of which ``counts[v]`` have staleness v."""
        offers = int(counts.sum())
        if not offers:
            return 0.0, 0.0, 0
        return float(counts @ np.arange(len(counts)) / offers), float(np.flatnonzero(counts)[-1]), offers

    @staticmethod
    def preview_weights(
        columns: UnitColumns, w: Floats, limit: int, objective: float, changes: int, staleness: Any = None
    ) -> Preview:
        """Return a preview of the columns with the largest weights `w`, converted to the units of the data."""
        w = np.atleast_2d(w)
        order = np.argsort(-(w**2).sum(axis=0), kind="stable")[:limit]
        features, counts = columns.ids[order].astype(np.uint64), None if staleness is None else staleness.copy()
        weights = (w[:, order] / columns.norm[order]).T
        weights = weights[:, 0] if len(w) == 1 else weights
        return Preview(float(objective), float(changes), features, weights, staleness=counts)


@dataclass(slots=True)
class UnitColumns:
    """Copies of columns of the dataset, centred and scaled to unit norm."""

    ids: NDArray[np.int64]
    X: NDArray[Any]  # (n, b), Fortran order
    mean: Floats
    norm: Floats  # mean and norm are those of the original columns

    def take(self, which: NDArray[Any]) -> UnitColumns:
        """Return some of the columns, by position or by a mask."""
        X = np.asfortranarray(self.X[:, which])
        return UnitColumns(self.ids[which], X, self.mean[which], self.norm[which])

    @staticmethod
    def join(parts: Sequence[UnitColumns]) -> UnitColumns:
        """Return the columns of several `UnitColumns` side by side."""
        fields = (("ids", 0), ("X", 1), ("mean", 0), ("norm", 0))
        return UnitColumns(*(np.concatenate([getattr(part, name) for part in parts], axis) for name, axis in fields))


@dataclass(frozen=True, slots=True)
class Sweep:
    """Mean and norm of every column of a block, and the gradients g and curvature d of the loss along the column."""

    mean: Floats
    norm: Floats  # 0 for a constant column, which cannot explain anything
    g: Floats  # (scores, b): xᵀr, the negative gradient of the loss with respect to the column's weights
    d: Floats  # the curvature of the loss along the column, after the intercept has adapted


def columns_of(block: Block) -> AnyColumns:
    """Return the block unchanged, or raise OptionError if the block is not a block of columns."""
    if not isinstance(block, ColumnBlock | SparseColumnBlock):
        raise OptionError("Online Substitution reads columns: write dense data with layout='columns', transpose sparse")
    return block


def dense_column(block: AnyColumns, number: int) -> Floats:
    """Return one column of a block with all its rows."""
    if isinstance(block, ColumnBlock):
        return block.X[:, number].astype(np.float64)
    entries = slice(block.indptr[number], block.indptr[number + 1])
    column = np.zeros(len(block.y))
    column[block.rows[entries]] = block.values[entries]
    return column


def windows_of(block: AnyColumns, most: int) -> Iterator[AnyColumns]:
    """Yield the columns of a block: a dense block as it is, of a sparse one at most `most` columns at a time.

    A sparse block may have very many columns, of which each takes more memory while it is scored than it has entries.
    """
    if isinstance(block, ColumnBlock):
        yield block
        return
    for start in range(0, len(block.ids), most):  # the entries of all columns stay where they are
        indptr = block.indptr[start : start + most + 1]
        yield replace(block, ids=block.ids[start : start + most], indptr=indptr)


def sweep_block(block: AnyColumns, r: NDArray[Any], h: NDArray[Any], centred: bool) -> Sweep:
    """Return the moments of all columns of a block, given residuals `r` (scores, n) and the curvature `h` of every row.

    An empty `h` stands for a curvature of 1 in all rows. Raise ColumnError if a column holds NaN or infinity.
    """
    sums = np.empty((len(block.ids), kernels.N_SUMS))
    rz = sums[:, 2][None] if len(r) == 1 else np.empty((len(r), len(block.ids)))
    row_curvature = h if len(h) else np.ones(r.shape[1], r.dtype)
    if isinstance(block, ColumnBlock):
        if len(h):
            kernels.sweep(block.X, r[0], h, sums)
        else:
            kernels.sweep_uniform(block.X, r[0], sums)
        shift = block.X[0].astype(np.float64)
        if len(r) > 1:
            kernels.several_products(block.X, r, rz)
        scale = _repeat_inexact_sums(block, r, row_curvature, sums, rz, shift, centred)
    else:
        kernels.sweep_sparse(block.indptr, block.rows, block.values, r[0], row_curvature, sums)
        shift, scale = np.zeros(len(block.ids)), np.ones(len(block.ids))
        if len(r) > 1:
            kernels.several_products_sparse(block.indptr, block.rows, block.values, np.ascontiguousarray(r.T), rz)
        _check_finite(block, sums)
    r_sum, h_sum = r.sum(axis=1, dtype=np.float64), float(row_curvature.sum(dtype=np.float64))
    return _moments(sums, rz, shift, scale, len(block.y), r_sum, h_sum, centred)


def sweep_sets(block: AnyColumns, r: NDArray[Any], h: NDArray[Any], centred: bool) -> list[Sweep]:
    """Return the moments of all columns of a block for several sets with one score each, read once for all sets.

    The residuals `r` and the curvatures `h` have a row for each set; an empty `h` stands for 1 everywhere.
    """
    if not len(h):
        whole = sweep_block(block, r, h, centred)
        return [replace(whole, g=g[None]) for g in whole.g]
    sums = np.empty((len(r), len(block.ids), kernels.N_SUMS))
    if isinstance(block, SparseColumnBlock):
        _sum_sparse_sets(block, r, h, sums)
    else:
        kernels.several_sweeps(block.X, r, h, sums)
    sweeps = []
    for residual, curvature, of_set in zip(r[:, None], h, sums, strict=True):
        rz = of_set[:, 2][None]
        if isinstance(block, SparseColumnBlock):
            shift, scale = np.zeros(len(block.ids)), np.ones(len(block.ids))
        else:
            shift = block.X[0].astype(np.float64)
            scale = _repeat_inexact_sums(block, residual, curvature, of_set, rz, shift, centred)
        r_sum, h_sum = residual.sum(axis=1, dtype=np.float64), float(curvature.sum(dtype=np.float64))
        sweeps.append(_moments(of_set, rz, shift, scale, len(block.y), r_sum, h_sum, centred))
    return sweeps


def _sum_sparse_sets(block: SparseColumnBlock, r: NDArray[Any], h: NDArray[Any], sums: Floats) -> None:
    """Compute the sums of `kernels.sweep`, without a shift, of sparse columns for several residuals and curvatures."""
    n_sets = len(r)
    weights = np.zeros((r.shape[1], -(-(2 * n_sets + 1) // _LANES) * _LANES), r.dtype)  # as processors add them up
    weights[:, :n_sets], weights[:, n_sets : 2 * n_sets], weights[:, 2 * n_sets] = r.T, h.T, 1.0
    weighted = np.empty((len(block.ids), 2, weights.shape[1]))
    kernels.weighted_sums_sparse(block.indptr, block.rows, block.values, weights, weighted)
    sums[:, :, :2] = weighted[:, :, 2 * n_sets]
    sums[:, :, 2] = weighted[:, 0, :n_sets].T
    sums[:, :, 3:] = weighted[:, :, n_sets : 2 * n_sets].transpose(2, 0, 1)
    _check_finite(block, sums[0])


def _check_finite(block: SparseColumnBlock, sums: Floats) -> None:
    """Raise ColumnError if a column of a block holds NaN or infinity, given its sums."""
    if not np.isfinite(sums).all():
        bad = int(np.flatnonzero(~np.isfinite(sums).all(axis=1))[0])
        raise ColumnError(int(block.ids[bad]), "holds NaN or infinity; ingest the data again without it")


def _repeat_inexact_sums(
    block: ColumnBlock, r: NDArray[Any], h: NDArray[Any], sums: Floats, rz: Floats, shift: Floats, centred: bool
) -> Floats:
    """Recompute in float64 the sums that overflowed, underflowed or lost digits, and return the columns' scales.

    Digits are lost if the first row, by which columns are shifted, is far from the other rows. Columns with inexact
    sums are divided by their scale and shifted by their mean instead.
    """
    scale = np.ones(len(sums))
    tiny = np.finfo(block.X.dtype).tiny * 1e8
    z, zz = sums[:, 0], sums[:, 1]
    with np.errstate(invalid="ignore", over="ignore"):
        left = zz - z * z / len(h) if centred else zz + 2 * shift * z + len(h) * shift**2
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
        sums[j] = np.hstack([y, y * y, r[0][:, None] * y, h[:, None] * y, h[:, None] * y * y]).sum(axis=0)
        rz[:, j] = r @ y[:, 0]
    return scale


def _moments(
    sums: Floats, rz: Floats, shift: Floats, scale: Floats, n: int, r_sum: Floats, h_sum: float, centred: bool
) -> Sweep:
    """Return the moments of standardised columns from the sums over shifted and scaled columns."""
    z, zz, _, hz, hzz = sums.T
    if centred:
        offset = z / n  # of the mean from the shift
        square = zz - offset * z
        square[square <= _CONSTANT * zz] = 0.0
        g = rz - r_sum[:, None] * offset
        tilt = hz - offset * h_sum
        d = hzz - 2 * offset * hz + offset**2 * h_sum - tilt**2 / h_sum
        mean = (shift + offset) * scale
    else:
        square = zz + 2 * shift * z + n * shift**2
        g = rz + r_sum[:, None] * shift
        d = hzz + 2 * shift * hz + h_sum * shift**2
        mean = np.zeros(len(sums))
    norm = np.sqrt(np.maximum(square, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        g = np.where(norm > 0, g / norm, 0.0)
        d = np.where(norm > 0, np.maximum(d, 0) / square, 0.0)
    return Sweep(mean, norm * scale, g, d)


def gradients(block: AnyColumns, which: NDArray[np.int64], sweep: Sweep, r: NDArray[Any]) -> Floats:
    """Return the gradients xᵀr (scores, columns) of some standardised columns x of a block, given its `Sweep`."""
    mean, norm, out = sweep.mean[which], sweep.norm[which], np.empty((len(r), len(which)))
    for row, of_score in zip(out, r, strict=True):
        if isinstance(block, ColumnBlock):
            kernels.products(block.X, which, mean, norm, of_score, row)
        else:
            kernels.products_sparse(block.indptr, block.rows, block.values, which, mean, norm, of_score, row)
    return out


def standardise(block: AnyColumns, which: NDArray[np.int64], mean: Floats, norm: Floats, dtype: Any) -> NDArray[Any]:
    """Return some columns of a block, centred and scaled to unit norm, in Fortran order."""
    out = np.empty((len(block.y), len(which)), dtype, order="F")
    if isinstance(block, ColumnBlock):
        kernels.standardise(block.X, which, mean, norm, out)
    else:
        kernels.standardise_sparse(block.indptr, block.rows, block.values, which, mean, norm, out)
    return out


def take_columns(block: AnyColumns, which: NDArray[np.int64], sweep: Sweep, dtype: Any) -> UnitColumns:
    """Return standardised copies of some columns of a block, given the block's `Sweep`."""
    mean, norm = sweep.mean[which], sweep.norm[which]
    return UnitColumns(block.ids[which].astype(np.int64), standardise(block, which, mean, norm, dtype), mean, norm)


def standardise_block(block: AnyColumns, centred: bool) -> UnitColumns:
    """Return standardised copies of all columns of a block."""
    zeros = np.zeros(len(block.y), block.X.dtype if isinstance(block, ColumnBlock) else np.float32)
    sweep = sweep_block(block, zeros[None], zeros[:0], centred)
    return take_columns(block, np.arange(len(block.ids)), sweep, zeros.dtype)
