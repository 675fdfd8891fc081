"""The steps of algorithm 1 (and of a worker in algorithm 3) over a block of columns.

For the squared loss u is never formed: in coefficient space a step needs X_Sᵀx_j and x_jᵀy only, and X_SᵀX_B of a whole
batch of columns is one product of matrices, where the listing multiplies X_S with a vector twice for each column. When
a column is let in, its products with the rest of the batch follow. The iterates are the same. Nor are columns
standardised to be looked at: those of X_S have mean 0, so X_Sᵀx_j of a raw column only has to be divided by its norm.

The other losses bend with u, so they go column by column as the listing does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import SQUARED, residuals
from daskfs.algorithms.substitution.columns import AnyColumns, Sweep, swept, unit_columns
from daskfs.algorithms.substitution.kernels import FREE, NEVER, power_step, slot_for, substitute
from daskfs.algorithms.substitution.refit import Fields, cross, transposed
from daskfs.protocol import ColumnBlock, State

Floats = NDArray[np.float64]
_BATCHES = (128, 64, 32, 16)  # columns whose products are taken at once: fewer, the more of them are let in
_FAR = 1e3  # standard deviations from 0 of a column's mean, beyond which products of the raw column lose digits


def new_slots(n: int, slots: int, itemsize: int) -> State:
    """Room for so many columns; memory is touched as they come."""
    return {
        "k": 0,
        "ids": np.full(slots, -1, np.int64),
        "X": np.zeros((n, slots), f"f{itemsize}", order="F"),
        "mean": np.zeros(slots),
        "norm": np.ones(slots),
        "w": np.zeros(slots),
        "G": np.zeros((slots, slots)),
        "c": np.zeros(slots),
        "v": np.ones(slots),
        "L": 1.0,
        "pace": 1.0,  # share of the last columns that were let in
    }


def slots_nbytes(n: int, slots: int, itemsize: int) -> int:
    """Bytes of the slots and of the work on a batch."""
    return n * (slots + 2 * _BATCHES[0]) * itemsize + 8 * (slots + _BATCHES[0]) ** 2 + 6 * 8 * n


class Steps:
    """What the steps of one block share.

    Parameters
    ----------
    code
        Of the loss.
    target
        y as the loss takes it.
    offset
        The part of u that does not come from these slots.
    gamma
        The step length times L.
    least_L
        A bound for L from below.
    budget, bar
        How many slots may be used; see `slot_for`.
    centred
        Whether columns are centred.
    """

    def __init__(
        self,
        code: int,
        target: Floats,
        offset: Floats,
        gamma: float,
        least_L: float,
        budget: int,
        bar: float,
        centred: bool,
    ) -> None:
        self.code, self.target, self.offset, self.gamma, self.least_L = code, target, offset, gamma, least_L
        self.budget, self.bar, self.centred = budget, bar, centred

    def through(self, own: Fields, block: AnyColumns, others: NDArray[np.int64]) -> int:
        """Take the columns of a block one after the other, but for those that others have; how many came in."""
        dtype = own["X"].dtype
        rest = (self.target - self.offset).astype(dtype)
        found = swept(block, rest, np.empty(0, dtype), self.centred)
        passed_over = (found.norm == 0) | np.isin(block.ids.astype(np.int64), others)
        take = self._batch if self.code == SQUARED else self._columns
        start = came = 0
        while start < len(block.ids):
            columns = np.arange(start, min(start + self._width(own), len(block.ids)))
            seat = _seats(own, block.ids[columns].astype(np.int64))
            seat[passed_over[columns]] = NEVER
            taken = take(own, Batch(block, columns, found, dtype), seat)
            own["pace"] = 0.5 * own["pace"] + 0.5 * taken / len(columns)
            came += taken
            start += len(columns)
        return came

    def rebase(self, own: Fields) -> None:
        """Take the offset into account where it has changed since the columns in the slots came in."""
        k = own["k"]
        own["c"][:k] = transposed(own["X"][:, :k], (self.target - self.offset).astype(own["X"].dtype))

    def _width(self, own: Fields) -> int:
        """How many columns to take at once: the last products of many that are let in would be for nothing."""
        return next((width for width in _BATCHES if own["pace"] * width < 4), _BATCHES[-1])

    def _batch(self, own: Fields, batch: Batch, seat: NDArray[np.int64]) -> int:
        """Squared loss: the products of a batch at once."""
        k, cb, taken, q = own["k"], batch.g, 0, 0
        C = np.zeros((len(own["w"]), len(cb)))
        C[:k] = batch.products(own["X"][:, :k], 0)
        while True:
            q, slot, w_q = substitute(
                q, C, cb, self.gamma, self.least_L, seat, own["w"], own["G"], own["c"],
                own["L"], own["k"], self.budget, self.bar,
            )  # fmt: skip
            if slot == FREE:
                return taken
            taken += 1
            column = C[:, q].copy()
            self._let_in(own, batch, seat, q, slot, w_q)
            own["c"][slot] = cb[q]
            k = own["k"]
            column[slot] = 1.0
            own["G"][:k, slot] = own["G"][slot, :k] = column[:k]
            own["L"] = power_step(own["G"], own["v"], k, slot, own["L"])
            q += 1
            C[slot, q:] = batch.products(own["X"][:, slot : slot + 1], q)[0]

    def _columns(self, own: Fields, batch: Batch, seat: NDArray[np.int64]) -> int:
        """Any loss: column by column."""
        X, w, r = own["X"], own["w"], np.empty(len(self.target), own["X"].dtype)
        taken, one = 0, np.ones(len(self.target))
        for q in range(len(seat)):
            if seat[q] != FREE:
                continue
            k = own["k"]
            u = self.offset + X[:, :k] @ w[:k].astype(X.dtype)
            residuals(self.code, u, self.target, one, r)
            gamma = self.gamma / max(own["L"], self.least_L)
            x = batch.standardised(q)
            w_q = gamma * float(x @ r)
            w[:k] += gamma * transposed(X[:, :k], r)
            slot = slot_for(w_q, w, k, self.budget, self.bar)
            if slot == FREE:
                continue
            self._let_in(own, batch, seat, q, slot, w_q)
            k = own["k"]
            own["G"][:k, slot] = own["G"][slot, :k] = transposed(X[:, :k], x)
            own["L"] = power_step(own["G"], own["v"], k, slot, own["L"])
            taken += 1
        return taken

    @staticmethod
    def _let_in(own: Fields, batch: Batch, seat: NDArray[np.int64], q: int, slot: int, w_q: float) -> None:
        """Give a slot to column q of the batch."""
        seat[seat == slot] = FREE  # should its holder still have its turn, it may come back
        seat[q] = slot
        own["k"] = max(own["k"], slot + 1)
        own["w"][slot], own["ids"][slot] = w_q, batch.ids[q]
        own["mean"][slot], own["norm"][slot] = batch.mean[q], batch.norm[q]
        own["X"][:, slot] = batch.standardised(q)


class Batch:
    """A few columns of a block, of which products are taken raw and copies standardised."""

    def __init__(self, block: AnyColumns, columns: NDArray[np.int64], found: Sweep, dtype: Any) -> None:
        self._block, self._columns, self._dtype = block, columns, dtype
        self.ids = block.ids[columns].astype(np.int64)
        self.mean, self.g = found.mean[columns], found.g[columns]
        self.norm = np.where(found.norm[columns] > 0, found.norm[columns], 1.0)
        near = np.abs(self.mean) * np.sqrt(len(block.y)) < _FAR * self.norm
        if isinstance(block, ColumnBlock) and near.all() and np.isfinite(1 / self.norm**2).all():
            self._X, self._scale = block.X[:, columns[0] : columns[-1] + 1], self.norm
        else:
            self._X = unit_columns(block, columns, self.mean, self.norm, dtype)
            self._scale = np.ones(len(columns))

    def products(self, A: NDArray[Any], first: int) -> Floats:
        """Aᵀ times the columns from `first` on, for an A whose columns have mean 0."""
        return cross(A, self._X[:, first:]) / self._scale[first:]

    def standardised(self, q: int) -> NDArray[Any]:
        """Column q, centred and of unit norm."""
        return unit_columns(
            self._block, self._columns[q : q + 1], self.mean[q : q + 1], self.norm[q : q + 1], self._dtype
        )[:, 0]


def trimmed(own: Fields, budget: int) -> None:
    """Leave out the smallest weights until the slots in use fit a budget."""
    k = own["k"]
    if k <= budget:
        return
    stay = np.sort(np.argsort(-np.abs(own["w"][:k]), kind="stable")[:budget])
    for name in ("ids", "mean", "norm", "w", "v"):
        own[name][:budget] = own[name][stay]
    for slot, old in enumerate(stay):
        if slot != old:
            own["X"][:, slot] = own["X"][:, old]
    own["G"][:budget, :budget] = own["G"][np.ix_(stay, stay)]
    own["k"] = budget


def _seats(own: Fields, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The slot of every column that is in the set already."""
    slots = {int(feature): slot for slot, feature in enumerate(own["ids"][: own["k"]])}
    return np.array([slots.get(int(feature), FREE) for feature in ids], np.int64)
