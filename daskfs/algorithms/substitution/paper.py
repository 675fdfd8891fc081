"""`method="paper"`: algorithm 1 as published, on columns that are centred and scaled to unit norm.

For every column of a block the weights take one gradient step, after which the column with the least |weight| leaves
the selected set S. Workers of algorithm 3 take the same gradient steps, see `asynchronous`.

For the squared loss the scores u = X_S w are never computed. A gradient step needs only the products X_Sᵀx and xᵀy of a
new column x, which one matrix product computes for a whole batch of columns, while the paper multiplies X_S with a
vector twice for every column. When a column enters S, its products with the rest of the batch are computed. The weights
after every gradient step are those of the paper. Columns that do not enter S are never centred, because the columns of
X_S have mean 0 and X_Sᵀx of a raw column x only has to be divided by its norm. For other losses the gradients depend on
the scores u, so columns are processed one by one, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms import losses
from daskfs.algorithms.loss_kernels import SQUARED, residuals
from daskfs.algorithms.losses import CODE, CURVATURE, Floats
from daskfs.algorithms.substitution.block import SMALL_RIDGE
from daskfs.algorithms.substitution.columns import (
    AnyColumns,
    ColumnMethod,
    Sweep,
    UnitColumns,
    columns_of,
    standardise,
    sweep_block,
)
from daskfs.algorithms.substitution.final_fit import fit, fit_best
from daskfs.algorithms.substitution.grams import cross_product, products
from daskfs.algorithms.substitution.kernels import EXCLUDED, FREE, power_step, slot_for, substitute
from daskfs.algorithms.substitution.result import make_result
from daskfs.algorithms.substitution.selected_set import SelectedSet, set_nbytes, work_nbytes
from daskfs.protocol import Block, ColumnBlock, Meta, Preview, Result

if TYPE_CHECKING:
    from daskfs.algorithms.substitution import OnlineSubstitution

_BATCHES = (128, 64, 32, 16)  # columns whose products are computed at once: fewer, the more of them enter
_FAR = 1e3  # if a mean is more standard deviations from 0, products of the raw column lose digits


@dataclass(slots=True)
class Target:
    """The target of every row, which is copied from the first block."""

    y: Floats
    positive: float  # see `positive_target`
    classes: str  # see `encode_classes`
    constant: float = 0.0  # the best constant score, if there is an intercept
    known: bool = False

    @classmethod
    def unknown(cls, meta: Meta) -> Target:
        """Return a target without values, for the time before the first block."""
        return cls(np.zeros(meta.n_samples), losses.positive_target(meta), losses.encode_classes(meta))

    def take(self, block: AnyColumns, params: OnlineSubstitution) -> None:
        """Copy the target from a block, unless the target is known already."""
        if self.known:
            return
        self.known = True
        self.y[:] = losses.encode_target(block.y, self.positive)
        losses.check_size(self.y)
        if params.intercept:
            self.constant = losses.best_constant(params.loss, self.y)

    def loss(self, u: Floats, params: OnlineSubstitution) -> float:
        """Return the loss of the scores `constant` + u, summed over all rows."""
        u = (self.constant + u).astype(np.float64)
        return float(residuals(CODE[params.loss], u, self.y, np.ones(len(u)), np.empty(len(u))))


@dataclass(slots=True)
class ColumnSlots:
    """The selected set S of algorithm 1, as arrays with a fixed number of slots, of which `k` are in use."""

    ids: NDArray[np.int64]
    X: NDArray[Any]  # (n, slots), Fortran order
    mean: Floats
    norm: Floats
    w: Floats
    G: Floats  # X_Sᵀ X_S
    c: Floats  # X_Sᵀ y
    v: Floats  # of the power iteration
    k: int = 0
    number: int = 0  # of the last push, if the slots belong to one of several workers
    L: float = 1.0  # the running estimate of λ_max(X_Sᵀ X_S)
    entry_rate: float = 1.0  # the share of recent columns that entered

    @classmethod
    def empty(cls, n: int, slots: int, itemsize: int) -> ColumnSlots:
        """Return empty slots, for which the operating system allocates memory only when columns enter."""
        ids, X = np.full(slots, -1, np.int64), np.zeros((n, slots), f"f{itemsize}", order="F")
        G, zeros, ones = np.zeros((slots, slots)), np.zeros(slots), np.ones(slots)
        return cls(ids, X, zeros, ones, w=zeros.copy(), G=G, c=zeros.copy(), v=ones.copy())

    @property
    def columns(self) -> UnitColumns:
        """The columns in the slots that are in use, as views without copies."""
        k = self.k
        return UnitColumns(self.ids[:k], self.X[:, :k], self.mean[:k], self.norm[:k])

    def trim(self, budget: int) -> None:
        """Drop the columns with the smallest weights until the number of slots in use fits the budget."""
        if self.k <= budget:
            return
        stay = np.sort(np.argsort(-np.abs(self.w[: self.k]), kind="stable")[:budget])
        for values in (self.ids, self.mean, self.norm, self.w, self.v):
            values[:budget] = values[stay]
        for slot, old in enumerate(stay):
            if slot != old:
                self.X[:, slot] = self.X[:, old]
        self.G[:budget, :budget] = self.G[np.ix_(stay, stay)]
        self.k = budget

    def put(self, slot: int, batch: ColumnBatch, q: int, w_q: float) -> None:
        """Copy column q of a batch, with weight w_q, into a slot."""
        self.k = max(self.k, slot + 1)
        self.w[slot], self.ids[slot] = w_q, batch.ids[q]
        self.mean[slot], self.norm[slot] = batch.mean[q], batch.norm[q]
        self.X[:, slot] = batch.standardised(q)

    def update_gram(self, slot: int, products: Floats) -> None:
        """Write the products of the new column in a slot into G = X_SᵀX_S, and update the estimate L of λ_max(G)."""
        k = self.k
        self.G[:k, slot] = self.G[slot, :k] = products[:k]
        self.L = power_step(self.G, self.v, k, slot, self.L)


def slots_nbytes(n: int, slots: int, itemsize: int) -> int:
    """Return the bytes of a `ColumnSlots` with `slots` columns, and of the work on a batch of columns."""
    return n * (slots + 2 * _BATCHES[0]) * itemsize + 8 * (slots + _BATCHES[0]) ** 2 + 6 * 8 * n


class Steps:
    """The gradient steps of algorithm 1 for one block of columns.

    `offset` is the part of the scores that does not come from the selected columns X_S, and `least_L` is a lower bound
    of λ_max(X_SᵀX_S). The arguments `budget` and `cutoff` are passed to `slot_for`.
    """

    def __init__(
        self, params: OnlineSubstitution, target: Floats, offset: Floats, budget: int, cutoff: float, least_L: float
    ) -> None:
        self._code, self._gamma = CODE[params.loss], params.step / CURVATURE[params.loss]
        self._centred, self._target, self._offset = params.intercept, target, offset
        self._budget, self._cutoff, self._least_L = budget, cutoff, least_L

    def process(self, slots: ColumnSlots, block: AnyColumns, others: NDArray[np.int64]) -> int:
        """Process all columns of a block except the ids in `others`, and return how many columns have entered."""
        dtype = slots.X.dtype
        sweep = sweep_block(block, (self._target - self._offset).astype(dtype)[None], np.empty(0, dtype), self._centred)
        is_excluded = (sweep.norm == 0) | np.isin(block.ids.astype(np.int64), others)
        process = self._process_batch if self._code == SQUARED else self._process_one_by_one
        start = total = 0
        while start < len(block.ids):
            columns = np.arange(start, min(start + _batch_size(slots.entry_rate), len(block.ids)))
            batch = ColumnBatch(block, columns, sweep, dtype)
            slot_of = _slots_of(slots, batch.ids)
            slot_of[is_excluded[columns]] = EXCLUDED
            n_entered = process(slots, batch, slot_of)
            slots.entry_rate = 0.5 * slots.entry_rate + 0.5 * n_entered / len(columns)
            total += n_entered
            start += len(columns)
        return total

    def update_products(self, slots: ColumnSlots) -> None:
        """Recompute the products X_Sᵀ(y − offset) of the columns in the slots, after the offset has changed."""
        X = slots.X[:, : slots.k]
        slots.c[: slots.k] = products(X, (self._target - self._offset).astype(X.dtype)[None])[0]

    def _process_batch(self, slots: ColumnSlots, batch: ColumnBatch, slot_of: NDArray[np.int64]) -> int:
        """Process a batch under the squared loss, with all products of columns computed at once."""
        n_entered = q = 0
        C = np.zeros((len(slots.w), len(batch.g)))
        C[: slots.k] = batch.products(slots.X[:, : slots.k], 0)
        while True:
            q, slot, w_q = substitute(
                q, C, batch.g, self._gamma, self._least_L, slot_of, slots.w, slots.G, slots.c,
                slots.L, slots.k, self._budget, self._cutoff,
            )  # fmt: skip
            if slot == FREE:
                return n_entered
            n_entered += 1
            column = C[:, q].copy()
            column[slot] = 1.0
            _assign(slot_of, q, slot)
            slots.put(slot, batch, q, w_q)
            slots.c[slot] = batch.g[q]
            slots.update_gram(slot, column)
            q += 1
            C[slot, q:] = batch.products(slots.X[:, slot : slot + 1], q)[0]

    def _process_one_by_one(self, slots: ColumnSlots, batch: ColumnBatch, slot_of: NDArray[np.int64]) -> int:
        """Process a batch under any loss, column by column."""
        X, w, r = slots.X, slots.w, np.empty(len(self._target), slots.X.dtype)
        n_entered, ones = 0, np.ones(len(self._target))
        for q in range(len(slot_of)):
            if slot_of[q] != FREE:
                continue
            k = slots.k
            u = self._offset + X[:, :k] @ w[:k].astype(X.dtype)
            residuals(self._code, u, self._target, ones, r)
            gamma = self._gamma / max(slots.L, self._least_L)
            x = batch.standardised(q)
            w_q = gamma * float(x @ r)
            w[:k] += gamma * products(X[:, :k], r[None])[0]
            slot = slot_for(w_q, w, k, self._budget, self._cutoff)
            if slot == FREE:
                continue
            n_entered += 1
            _assign(slot_of, q, slot)
            slots.put(slot, batch, q, w_q)
            slots.update_gram(slot, products(X[:, : slots.k], x[None])[0])
        return n_entered


class ColumnBatch:
    """A few columns of a block, with methods for products of raw columns and copies of standardised columns."""

    def __init__(self, block: AnyColumns, columns: NDArray[np.int64], sweep: Sweep, dtype: Any) -> None:
        self._block, self._columns, self._dtype = block, columns, dtype
        self.ids = block.ids[columns].astype(np.int64)
        self.mean, self.g = sweep.mean[columns], sweep.g[0, columns]
        self.norm = np.where(sweep.norm[columns] > 0, sweep.norm[columns], 1.0)
        near = np.abs(self.mean) * np.sqrt(len(block.y)) < _FAR * self.norm
        if isinstance(block, ColumnBlock) and near.all() and np.isfinite(1 / self.norm**2).all():
            self._X, self._scale = block.X[:, columns[0] : columns[-1] + 1], self.norm
        else:
            self._X = standardise(block, columns, self.mean, self.norm, dtype)
            self._scale = np.ones(len(columns))

    def products(self, A: NDArray[Any], first: int) -> Floats:
        """Return Aᵀ times the columns of the batch from `first` on, for a matrix A whose columns have mean 0."""
        return cross_product(A, self._X[:, first:]) / self._scale[first:]

    def standardised(self, q: int) -> NDArray[Any]:
        """Return column q of the batch, centred and scaled to unit norm."""
        at = slice(q, q + 1)
        return standardise(self._block, self._columns[at], self.mean[at], self.norm[at], self._dtype)[:, 0]


def _batch_size(entry_rate: float) -> int:
    """Return how many columns to process at once, fewer if many columns enter and make computed products useless."""
    return next((size for size in _BATCHES if entry_rate * size < 4), _BATCHES[-1])


def _slots_of(slots: ColumnSlots, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slot of every column, or FREE for a column that is not in the selected set."""
    slot_of = {int(feature): slot for slot, feature in enumerate(slots.ids[: slots.k])}
    return np.array([slot_of.get(int(feature), FREE) for feature in ids], np.int64)


def _assign(slot_of: NDArray[np.int64], q: int, slot: int) -> None:
    """Assign a slot to column q, and mark the column that had the slot as FREE, so that this column may enter again."""
    slot_of[slot_of == slot] = FREE
    slot_of[q] = slot


@dataclass(slots=True)
class PaperState:
    """The state of `PaperMethod`: the slots, the target and the history."""

    slots: ColumnSlots
    target: Target
    history: Floats
    passes: int = 0
    changes: int = 0  # columns that entered in this pass
    spare: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Ids of columns that fill up the number of features, with weight 0, if too few columns are useful."""


@dataclass(frozen=True)
class PaperMethod(ColumnMethod):
    """Algorithm 1 of the paper: a single selected set, and one gradient step for every column."""

    history_fields = ("objective", "changes")

    def start(self, meta: Meta, seed: int) -> PaperState:
        slots = ColumnSlots.empty(meta.n_samples, self.n_select, meta.itemsize)
        return PaperState(slots, Target.unknown(meta), self.new_history())

    def update(self, state: PaperState, any_block: Block) -> PaperState:
        block = columns_of(any_block)
        state.target.take(block, self.params)
        offset = np.full(len(block.y), state.target.constant)
        steps = Steps(self.params, state.target.y, offset, self.n_select, cutoff=np.inf, least_L=1.0)
        state.changes += steps.process(state.slots, block, others=np.empty(0, np.int64))
        state.spare = add_spare(state.spare, block.ids, self.n_select)
        return state

    def end_pass(self, state: PaperState) -> tuple[PaperState, bool]:
        X = state.slots.X
        loss = state.target.loss(X @ state.slots.w.astype(X.dtype), self.params)
        state.history[state.passes] = loss, state.changes
        state.passes += 1
        state.changes = 0
        return state, state.passes < self.passes

    def result(self, state: PaperState) -> Result:
        history = self.history_records(state.history[: state.passes].tolist())
        return fit_columns(self, state.slots.columns, state.target, state.spare, history)

    def preview(self, state: PaperState, limit: int) -> Preview:
        slots, objective = state.slots, self.last_objective(state.history, state.passes)
        return self.preview_weights(slots.columns, slots.w[: slots.k], limit, objective, state.changes)

    def nbytes(self, meta: Meta) -> int:
        n, k = meta.n_samples, self.n_select
        return slots_nbytes(n, k, meta.itemsize) + set_nbytes(n, k, meta.itemsize) + work_nbytes(n, k, 0, meta.itemsize)


def add_spare(spare: NDArray[np.int64], ids: NDArray[Any], n_select: int) -> NDArray[np.int64]:
    """Return the spare ids with ids of a block added, up to twice the number of features to select."""
    if len(spare) >= 2 * n_select:
        return spare
    return np.unique(np.concatenate([spare, ids.astype(np.int64)]))[: 2 * n_select]


def fit_columns(
    method: ColumnMethod,
    columns: UnitColumns,
    target: Target,
    spare: NDArray[np.int64],
    history: Sequence[dict[str, float]],
) -> Result:
    """Return the result for the selected columns, with weights fitted jointly."""
    (n, k), params = columns.X.shape, method.params
    selected = SelectedSet.empty(n, k, columns.X.dtype.itemsize, CODE[params.loss], params.intercept)
    fixed = selected.fixed
    selected.X[:, fixed:] = columns.X
    selected.target[:] = target.y
    selected.ids[fixed:], selected.mean[fixed:], selected.norm[fixed:] = columns.ids, columns.mean, columns.norm
    selected.k = fixed + k
    if params.ridge == "auto":
        selected.ridge = SMALL_RIDGE * CURVATURE[params.loss]
        fit_best(selected)
    else:
        selected.ridge = float(params.ridge)
        fit(selected)
    classes, chosen = losses.decode_classes(target.classes), method.chosen(selected.ridge)
    return make_result(selected, params.n_select, spare, classes, history, chosen)
