"""The steps of algorithm 1 (and of a worker in algorithm 3) over a block of columns.

For the squared loss u is never formed: in coefficient space every step needs X_SᵀX_B, X_BᵀX_B and X_Bᵀy of a
batch of columns, three products of matrices, where the listing multiplies X_S with a vector twice for each
column. The iterates are the same. The other losses bend with u, so they go column by column as the listing does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import SQUARED, pulls
from daskfs.algorithms.substitution_columns import AnyColumns, swept, unit_columns
from daskfs.algorithms.substitution_kernels import FREE, NEVER, power_step, slot_for, substitute
from daskfs.algorithms.substitution_refit import Fields, cross, transposed
from daskfs.protocol import State

Floats = NDArray[np.float64]
_BATCH = 64  # columns whose products are taken at once


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
        "v": np.ones(slots),
        "L": 1.0,
    }


def slots_nbytes(n: int, slots: int, itemsize: int) -> int:
    """Bytes of the slots and of the work on a batch."""
    return n * (slots + 2 * _BATCH) * itemsize + 8 * (slots + _BATCH) ** 2 + 6 * 8 * n


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
        found = swept(block, np.zeros(len(block.y), dtype), np.ones(len(block.y), dtype), self.centred)
        passed_over = (found.norm == 0) | np.isin(block.ids.astype(np.int64), others)
        came = 0
        advance = self._batch if self.code == SQUARED else self._columns
        for start in range(0, len(block.ids), _BATCH):
            chosen = np.arange(start, min(start + _BATCH, len(block.ids)))
            norm = np.where(found.norm > 0, found.norm, 1.0)[chosen]
            seat = _seats(own, block.ids[chosen].astype(np.int64))
            seat[passed_over[chosen]] = NEVER
            XB = unit_columns(block, chosen, found.mean[chosen], norm, dtype)
            before = own["k"]
            holder = _holders(seat, len(own["w"]))
            came += advance(own, XB, seat, holder)
            self._move_in(own, block.ids[chosen], XB, found.mean[chosen], norm, holder, before)
        return came

    def _batch(self, own: Fields, XB: NDArray[Any], seat: NDArray[np.int64], holder: NDArray[np.int64]) -> int:
        """Squared loss: all steps of a batch from three products."""
        k, slots, dtype = own["k"], len(own["w"]), own["X"].dtype
        rest = (self.target - self.offset).astype(dtype)
        C = np.zeros((slots, XB.shape[1]))
        C[:k] = cross(own["X"][:, :k], XB)
        c = np.zeros(slots)
        c[:k] = transposed(own["X"][:, :k], rest)
        own["k"], own["L"], taken = substitute(
            C, cross(XB, XB), transposed(XB, rest), self.gamma, self.least_L, seat,
            own["w"], own["G"], c, own["v"], own["L"], k, self.budget, self.bar, holder,
        )  # fmt: skip
        return int(taken)

    def _columns(self, own: Fields, XB: NDArray[Any], seat: NDArray[np.int64], holder: NDArray[np.int64]) -> int:
        """Any loss: column by column."""
        X, w, r = own["X"], own["w"], np.empty(len(self.target), own["X"].dtype)
        taken, one = 0, np.ones(len(self.target))
        for q in np.flatnonzero(seat != NEVER):
            if seat[q] != FREE:
                continue
            k = own["k"]
            u = self.offset + X[:, :k] @ w[:k].astype(X.dtype)
            pulls(self.code, u, self.target, one, r)
            gamma = self.gamma / max(own["L"], self.least_L)
            w_q = gamma * float(XB[:, q] @ r)
            w[:k] += gamma * transposed(X[:, :k], r)
            slot = slot_for(w_q, w, k, self.budget, self.bar)
            if slot == FREE:
                continue
            if slot < k and holder[slot] >= 0:
                seat[holder[slot]] = FREE
            own["k"] = k = max(k, slot + 1)
            w[slot], holder[slot], seat[q] = w_q, q, slot
            X[:, slot] = XB[:, q]
            own["G"][:k, slot] = own["G"][slot, :k] = transposed(X[:, :k], XB[:, q])
            own["L"] = power_step(own["G"], own["v"], k, slot, own["L"])
            taken += 1
        return taken

    @staticmethod
    def _move_in(
        own: Fields,
        ids: NDArray[np.uint64],
        XB: NDArray[Any],
        mean: Floats,
        norm: Floats,
        holder: NDArray[np.int64],
        before: int,
    ) -> None:
        """Copy the columns that hold a slot now and did not before."""
        for slot in np.flatnonzero(holder[: own["k"]] >= 0):
            q = holder[slot]
            if slot >= before or own["ids"][slot] != int(ids[q]):
                own["X"][:, slot] = XB[:, q]
                own["ids"][slot], own["mean"][slot], own["norm"][slot] = int(ids[q]), mean[q], norm[q]


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


def _holders(seat: NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    holder = np.full(slots, FREE, np.int64)
    held = np.flatnonzero(seat >= 0)
    holder[seat[held]] = held
    return holder
