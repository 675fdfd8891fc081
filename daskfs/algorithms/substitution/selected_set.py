"""The selected set of `method="block"`: columns in slots, fitted jointly, and exchanged by exact loss.

The weights w of the set S minimise Σ m_i L(u_i, y_i) + ½ λ ‖w‖² with scores u = X_S w over standardised columns. The
row weight m_i is 0 while row i is held back. The first slots are fixed: their columns are hardly penalised and never
dropped. These are the intercept, a constant column in slot 0 if there is one, and the columns to keep. With more than
two classes every class has a score, a target and weights of its own, over the same columns.

The Hessian H = X_Sᵀ diag(h) X_S + λI is stored as its inverse, where h is the curvature of the loss in every row. A
Newton step with a slightly outdated h still points downhill, and h is recomputed when it has changed much. For the
squared loss h is constant and a single Newton step is exact. All scores share one H, and with several of them h is an
average curvature. New columns enter by a block-wise extension of the
inverse, and old columns leave by `prune`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import (
    SOFTMAX,
    SQUARED,
    curvatures,
    residuals,
    softmax_curvatures,
    softmax_residuals,
)
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution.columns import UnitColumns
from daskfs.algorithms.substitution.grams import (
    TILE,
    cross_product,
    extend_inverse,
    inverse_of,
    products,
    weighted_gram,
)
from daskfs.algorithms.substitution.kernels import prune
from daskfs.protocol import copy_state

INTERCEPT = -1  # the id in slot 0
_WORTHWHILE = 1e-9  # another step follows if one promises at least this share of the objective
_HALVINGS = 20  # of a step that leads uphill
_LEAST_CURVATURE = 1e-2  # of a row: it makes steps shorter, and an outdated H useful for longer
_DRIFT = 0.1  # share of the curvature that may change before H is computed anew
_NO_IDS = np.empty(0, np.int64)
LEAST_RIDGE = 1e-7  # on columns of unit norm; the effect of a smaller one is lost in rounding
_DUPLICATE = {4: 1e-5, 8: 1e-9}  # two columns are duplicates if 1 − |cosine| is smaller, by the bytes of a number
POOL_PER_FEATURE = 5  # rejected columns that are remembered for each feature to select


@dataclass(slots=True)
class RejectedColumns:
    """The best of the columns that did not enter a selected set, which are tried once more after the last pass."""

    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    scores: Floats = field(default_factory=lambda: np.empty(0))

    def add(self, ids: NDArray[np.int64], scores: Floats, n_select: int) -> None:
        """Add columns with their newest scores, and keep only the columns with the best scores."""
        size = POOL_PER_FEATURE * n_select
        if len(self.ids) >= size:
            better = scores > self.scores.min()
            if not better.any():
                return
            ids, scores = ids[better], scores[better]
        others = ~np.isin(self.ids, ids)
        self.ids = np.concatenate([self.ids[others], ids])
        self.scores = np.concatenate([self.scores[others], scores])
        if len(self.ids) > size:
            best = np.argsort(-self.scores, kind="stable")[:size]
            self.ids, self.scores = self.ids[best], self.scores[best]

    def remove(self, ids: NDArray[np.int64]) -> None:
        """Remove columns that have entered the selected set."""
        others = ~np.isin(self.ids, ids)
        self.ids, self.scores = self.ids[others], self.scores[others]


@dataclass(slots=True)
class SelectedSet:
    """Selected columns with their joint fit, as arrays with a fixed number of slots, of which `k` are in use."""

    code: int  # the code of the loss
    intercept: int  # 1 with an intercept in slot 0, else 0
    fixed: int  # how many slots are never dropped: the intercept, and the columns to keep that have entered
    k: int
    ids: NDArray[np.int64]
    X: NDArray[Any]  # (n, slots), Fortran order
    mean: Floats
    norm: Floats
    w: Floats  # (scores, slots)
    inverse: Floats  # of H
    diagonal: Floats  # of X_Sᵀ diag(h) X_S
    target: Floats  # (scores, n)
    row_weight: Floats
    u: Floats  # (scores, n): the scores of every row
    r: NDArray[Any]  # (scores, n): the weighted residuals of every row
    h: NDArray[Any]  # the weighted curvature of every row
    uniform: bool = False  # whether h is 1 in all rows
    ridge: float = 0.0
    threshold: float = 0.0  # by how much the loss would rise without the least useful feature, times two
    objective: float = np.nan
    version: int = 0  # rises whenever the set changes
    keep: NDArray[np.int64] = field(default_factory=lambda: _NO_IDS)  # ids of the columns to keep
    beside: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))  # see `_write_beside`
    rejected: RejectedColumns = field(default_factory=RejectedColumns)

    @classmethod
    def empty(
        cls,
        n: int,
        slots: int,
        itemsize: int,
        code: int,
        intercept: bool,
        n_scores: int = 1,
        ridge: float = 0.0,
        keep: NDArray[Any] = _NO_IDS,
    ) -> SelectedSet:
        """Return a set with room for `slots` features beside those to keep, empty except for the intercept."""
        dtype, size, fixed = np.dtype(f"f{itemsize}"), slots + len(keep) + intercept, int(intercept)
        X, inverse = np.zeros((n, size), dtype, order="F"), np.zeros((size, size))
        X[:, :fixed] = 1 / np.sqrt(n)
        return cls(
            code, fixed, fixed, fixed, np.full(size, INTERCEPT, np.int64), X, mean=np.zeros(size), norm=np.ones(size),
            w=np.zeros((n_scores, size)), inverse=inverse, diagonal=np.ones(size), target=np.zeros((n_scores, n)),
            row_weight=np.ones(n), u=np.zeros((n_scores, n)), r=np.zeros((n_scores, n), dtype), h=np.zeros(n, dtype),
            ridge=ridge, keep=keep.astype(np.int64),
        )  # fmt: skip

    @property
    def features(self) -> NDArray[np.int64]:
        """The ids of the selected features, in the order of slots."""
        return self.ids[self.fixed : self.k]

    @property
    def columns(self) -> UnitColumns:
        """The columns of the selected features, as views without copies."""
        return self._slots(self.fixed)

    @property
    def held(self) -> UnitColumns:
        """The columns to keep that have entered, and those of the selected features, as views without copies."""
        return self._slots(self.intercept)

    @property
    def awaited(self) -> NDArray[np.int64]:
        """The ids of the columns to keep that have not entered yet."""
        return np.setdiff1d(self.keep, self.ids[self.intercept : self.fixed])

    def _slots(self, start: int) -> UnitColumns:
        at = slice(start, self.k)
        return UnitColumns(self.ids[at], self.X[:, at], self.mean[at], self.norm[at])

    def refresh(self, steps: int = 3, least_curvature: float = _LEAST_CURVATURE) -> None:
        """Recompute the curvature and the inverse Hessian, and take at most `steps` Newton steps."""
        k = self.k
        for number in range(steps):
            if number == 0 or self.code != SQUARED:
                self._write_curvatures(least_curvature, self.h)
                self.uniform = bool((self.h == 1).all())
                H = weighted_gram(self.X[:, :k], self.h)
                self.diagonal[:k] = np.diag(H)
                self.inverse[:k, :k] = inverse_of(H + np.diag(self.penalty()))
                self._write_beside(H)
            if not self._step():
                break
        self._update_objective()

    def _write_beside(self, H: Floats) -> None:
        """Write the matrix B (columns kept, n) with ‖Bx‖², the part of a column's curvature that kept columns explain.

        A column x is without its projection on the intercept. H is the Hessian without ridge penalty.
        """
        start, stop = self.intercept, self.fixed
        if start == stop:
            return
        K, gram = self.X[:, start:stop] * self.h[:, None], H[start:stop, start:stop]
        if start:
            tilt = H[0, start:stop] / H[0, 0]
            K -= (self.h * self.X[0, 0])[:, None] * tilt.astype(K.dtype)
            gram = gram - np.outer(tilt, tilt) * H[0, 0]
        root = np.linalg.cholesky(inverse_of(gram + LEAST_RIDGE * np.eye(stop - start)))
        self.beside = np.ascontiguousarray(root.T.astype(K.dtype) @ K.T)

    def curvature_of(self, new: UnitColumns) -> Floats:
        """Return the curvature of the loss along new columns, after the kept columns have adapted."""
        whole: Floats = (new.X**2).T @ self.h
        return np.maximum(whole - (products(new.X, self.beside) ** 2).sum(axis=0), 0) if len(self.beside) else whole

    def settle(self, steps: int = 3) -> None:
        """Take Newton steps after columns were exchanged, with a new Hessian if the curvature has changed much."""
        if self.code == SQUARED:
            return
        h = np.empty_like(self.h)
        self._write_curvatures(_LEAST_CURVATURE, h)
        if np.abs(h - self.h).sum() > _DRIFT * self.h.sum():
            self.refresh(steps)
            return
        for _ in range(steps):
            if not self._step():
                break
        self._update_objective()

    def _step(self) -> bool:
        """Take a Newton step with the stored inverse Hessian; return whether another step is worthwhile."""
        k, X = self.k, self.X
        self.write_residuals(self.u, self.r)
        slope = self.slope()
        step = slope @ self.inverse[:k, :k]
        before = self.search_line(step, step.astype(X.dtype) @ X[:, :k].T)
        return float((slope * step).sum()) > _WORTHWHILE * before

    def slope(self) -> Floats:
        """Return the negative gradient of the objective, from the residuals."""
        return products(self.X[:, : self.k], self.r) - self.penalty() * self.w[:, : self.k]

    def enter(self, new: UnitColumns, n_select: int) -> int:
        """Fit new columns jointly with the selected set and keep the best columns; return how many new columns stay."""
        awaited = np.isin(new.ids, self.awaited)
        if awaited.any():
            self._fix(new.take(awaited))
            return int(awaited.sum()) + (0 if awaited.all() else self.enter(new.take(~awaited), n_select))
        fixed, k, X = self.fixed, self.k, self.X
        weighted = new.X if self.uniform else new.X * self.h[:, None]
        C, B = cross_product(X[:, :k], weighted), cross_product(new.X, weighted)
        distinct = _distinct(C[self.intercept :], B, self.diagonal[self.intercept : k], _DUPLICATE[X.dtype.itemsize])
        if not len(distinct):
            return 0
        if len(distinct) < len(new.ids):
            new, C, B = new.take(distinct), C[:, distinct], B[np.ix_(distinct, distinct)]
        inverse = extend_inverse(self.inverse[:k, :k], C, B + self.ridge * np.eye(len(distinct)))
        old = np.pad(self.w[:, :k], ((0, 0), (0, len(distinct))))
        w = old + products(new.X, self.r) @ inverse[k:]
        alive, _, _ = prune(inverse, w, fixed, min(fixed + n_select, len(inverse)))
        holders = _slot_holders(alive, k)
        for slot in np.flatnonzero(holders >= k):
            source = holders[slot] - k
            X[:, slot] = new.X[:, source]
            self.ids[slot], self.mean[slot], self.norm[slot] = new.ids[source], new.mean[source], new.norm[source]
            self.diagonal[slot] = B[source, source]
        self._take_fit(inverse[np.ix_(holders, holders)], w[:, holders], old[:, holders])
        return int(alive[k:].sum())

    def _fix(self, new: UnitColumns) -> None:
        """Put columns to keep behind the other fixed columns, whose places selected columns may have to leave."""
        for number in range(len(new.ids)):
            fixed, last = self.fixed, self.k
            for array in (self.ids, self.mean, self.norm, self.diagonal):
                array[last] = array[fixed]
            self.X[:, last], self.w[:, last] = self.X[:, fixed], self.w[:, fixed]
            self.X[:, fixed], self.w[:, fixed] = new.X[:, number], 0.0
            self.ids[fixed], self.mean[fixed], self.norm[fixed] = new.ids[number], new.mean[number], new.norm[number]
            self.fixed, self.k = fixed + 1, last + 1
        self.refresh()

    def _take_fit(self, inverse: Floats, w: Floats, old: Floats) -> None:
        """Store the inverse Hessian and the weights of the columns that are in the slots now.

        The new weights `w` minimise a quadratic approximation of the loss. Unless the loss is the squared loss, the
        step from the `old` weights to `w` is shortened until the loss falls.
        """
        size, X = len(inverse), self.X
        self.k = size
        self.inverse[:size, :size] = inverse
        self.w[:, :size] = w
        self.u[:] = w.astype(X.dtype) @ X[:, :size].T
        if self.code != SQUARED:
            self.w[:, :size] = old
            start = old.astype(X.dtype) @ X[:, :size].T
            change = self.u - start
            self.u[:] = start
            self.search_line(w - old, change)
        self._update_objective()

    def search_line(self, step: Floats, change: Floats) -> float:
        """Take a step of weights and scores, halved until the objective falls; return the objective before the step."""
        k = self.k
        before = self._objective(self.u, self.w[:, :k])
        for _ in range(_HALVINGS):
            u, w = self.u + change, self.w[:, :k] + step
            if self._objective(u, w) <= before + 1e-12 * abs(before):
                self.u[:], self.w[:, :k] = u, w
                break
            step, change = step / 2, change / 2
        return before

    def _update_objective(self) -> None:
        """Recompute the residuals, the objective, and the threshold that new columns must exceed."""
        w = self.w[:, : self.k]
        self.objective = self.write_residuals(self.u, self.r) + 0.5 * float((w**2 @ self.penalty()).sum())
        self.threshold = float(self.usefulness().min()) if self.k > self.fixed else 0.0

    def write_residuals(self, u: Floats, r: NDArray[Any]) -> float:
        """Write the weighted residuals for the scores u into r, and return the weighted sum of losses."""
        if self.code == SOFTMAX:
            return float(softmax_residuals(u, self.target, self.row_weight, r))
        total = 0.0
        for scores, target, out in zip(u, self.target, r, strict=True):
            total += residuals(self.code, scores, target, self.row_weight, out)
        return total

    def _write_curvatures(self, least: float, h: NDArray[Any]) -> None:
        """Write the weighted curvature of every row into h, of which none but by its weight is below `least`."""
        if self.code == SOFTMAX:
            softmax_curvatures(self.u, self.row_weight, least, h)
            return
        curvatures(self.code, self.u[0], self.target[0], self.row_weight, least, h)
        if len(self.u) > 1 and self.code != SQUARED:
            of_score = np.empty_like(h)
            for u, target in zip(self.u[1:], self.target[1:], strict=True):
                curvatures(self.code, u, target, self.row_weight, least, of_score)
                h += of_score
            h /= len(self.u)

    def quadratic(self) -> tuple[Floats, Floats]:
        """Return the Hessian H, without ridge penalty, and c of the quadratic ½ wᵀHw − cᵀw approximating the loss."""
        X = self.X[:, : self.k]
        H = weighted_gram(X, self.h)
        return H, products(X, self.r) + self.w[:, : self.k] @ H

    def usefulness(self) -> Floats:
        """Return, for every feature, twice the rise of the loss if the feature were removed from the set."""
        at = slice(self.fixed, self.k)
        usefulness: Floats = (self.w[:, at] ** 2).sum(axis=0) / np.diag(self.inverse)[at]
        return usefulness

    def penalty(self) -> Floats:
        """Return the ridge penalty of every slot in use, which is 0 for the intercept and tiny for columns to keep."""
        ridge = np.full(self.k, self.ridge)
        ridge[: self.fixed], ridge[: self.intercept] = LEAST_RIDGE, 0.0
        return ridge

    def _objective(self, u: Floats, w: Floats) -> float:
        return self.write_residuals(u, np.empty_like(self.r)) + 0.5 * float((w**2 @ self.penalty()).sum())

    def copy_fit(self) -> SelectedSet:
        """Return a copy of the set that shares the matrix X, which needs most of the memory."""
        copied: SelectedSet = copy_state(replace(self, X=self.X[:0]))
        return replace(copied, X=self.X)


def set_nbytes(n: int, slots: int, itemsize: int, n_scores: int = 1, n_kept: int = 0) -> int:
    """Return the bytes of a selected set with `slots` features, of which `n_kept` are to be kept."""
    size = slots + 1
    return n * (size + n_kept) * itemsize + 8 * size * (size + 8) + n * (8 + itemsize) + n * n_scores * (16 + itemsize)


def work_nbytes(n: int, slots: int, entering: int, itemsize: int, n_scores: int = 1) -> int:
    """Return the bytes of the work on a selected set if `entering` columns enter at once, and of the final fit."""
    size = slots + 1
    columns = 2 * n * entering * itemsize + min(n, TILE) * size * (itemsize + 16)
    return columns + 8 * 6 * (size + entering) ** 2 + n * (16 + itemsize) + n * n_scores * (40 + 2 * itemsize)


def _slot_holders(alive: NDArray[np.bool_], k: int) -> NDArray[np.int64]:
    """Return which column every slot gets, of k old and some new columns; new columns replace dropped columns."""
    total = int(alive.sum())
    stays = alive.copy()
    stays[min(k, total) :] = False
    holders = np.arange(total)
    holders[~stays[:total]] = np.flatnonzero(alive & ~stays)
    return holders


def _distinct(C: Floats, B: Floats, diagonal: Floats, tolerance: float) -> NDArray[np.int64]:
    """Return positions of the new columns that duplicate neither a column of the set nor an earlier new column."""
    lengths = np.sqrt(np.diag(B))
    in_set = (np.abs(C) > (1 - tolerance) * np.sqrt(diagonal)[:, None] * lengths).any(axis=0)
    earlier = np.triu(np.abs(B) > (1 - tolerance) * lengths[:, None] * lengths, k=1)
    keep: list[int] = []
    for j in np.flatnonzero(~in_set & (lengths > 0)):
        if not earlier[keep, j].any():
            keep.append(int(j))
    return np.array(keep, np.int64)
