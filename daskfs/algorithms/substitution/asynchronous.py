"""`method="async"`: Asy-OS, the asynchronous form of Online Substitution (algorithms 2 and 3 of Yang et al., KDD 2016).

Worker t has its own selected set S(t) with weights w_S(t), and takes the steps of algorithm 1 for its columns. The
centre, the dask actor that owns the state, holds the sum u_C = Σ_t u(t) of the workers' scores u(t) = X_S(t) w_S(t).
This implementation differs from the paper in four points:

* A worker pushes its scores u(t) with a serial number, instead of the difference Δu(t), and the centre replaces the
  worker's previous scores. The sum u_C is the same, but a push that is lost, late or repeated does no harm.
* A pull returns u_C without the worker's own scores, and a worker pulls once and pushes once for every block.
* The step length γ must be below 1/L, where L is λ_max(XᵀX) for the selected columns X of *all* workers. The power
  iteration for L is distributed: the centre adds up z = Σ_t X_S(t) v(t), a worker updates its part of the eigenvector
  by v(t) = X_S(t)ᵀ z / L, and L = ‖z‖² / Σ‖v(t)‖².
* With ``budget="faithful"`` a worker with better columns than average drops features that beat those of other workers.
  With ``budget="elastic"`` a column that beats the least weight of *all* workers may take a slot beyond the budget. At
  its next pull a worker keeps only its features among the k largest weights of all workers.

After the last of these passes the features with the largest weights of all workers are joined. With
``budget="faithful"`` these are the result: the centre collects their columns for a joint fit. But what workers have
found without waiting for each other may be far from what one worker finds. Therefore ``budget="elastic"`` *settles*
the joint set as `BlockMethod` would: at most `SETTLING_PASSES` more passes, in which columns are exchanged by the exact
loss of a joint fit, and then another look at the best of the columns that were rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import CODE, CURVATURE, Floats, check_size, encode_target
from daskfs.algorithms.substitution.block import (
    SETTLING_PASSES,
    SMALL_RIDGE,
    BlockMethod,
    BlockOffer,
    BlockState,
    BlockView,
    BlockWorker,
)
from daskfs.algorithms.substitution.columns import AnyColumns, ColumnMethod, UnitColumns, columns_of, standardise_block
from daskfs.algorithms.substitution.grams import products
from daskfs.algorithms.substitution.paper import ColumnSlots, Steps, Target, add_spare, fit_columns, slots_nbytes
from daskfs.algorithms.substitution.selected_set import SelectedSet, set_nbytes, work_nbytes
from daskfs.errors import OptionError
from daskfs.protocol import AsynchronousAlgorithm, Block, Meta, Preview, Result, Schedule, Sharing

_MAX_STALENESS = 256  # larger values are counted as the largest below it


@dataclass(slots=True)
class WorkerPart:
    """The scores, features and weights of one worker, as the dask actor that owns the state stores them."""

    u: Floats
    z: Floats
    v_square: float = 0.0  # ‖v(t)‖²
    number: int = 0  # of the push that brought it
    ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    w: Floats = field(default_factory=lambda: np.empty(0))
    norm: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(slots=True)
class AsynchronousState:
    """The state of `AsynchronousMethod`, owned by a dask actor (the centre)."""

    target: Target
    itemsize: int
    u: Floats  # u_C
    z: Floats
    parts: list[WorkerPart]
    history: Floats
    staleness: NDArray[np.int64]  # how many pushes of this pass were based on a view 0, 1, 2, … versions old
    own: list[ColumnSlots] = field(default_factory=list)  # without a cluster: the workers' own states
    turn: int = 0  # without a cluster: how many blocks of this pass were processed; workers take turns
    passes: int = 0
    version: int = 0
    changes: int = 0  # columns that entered in this pass
    late: int = 0  # pushes of this pass that were not applied
    spare: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # see `PaperState.spare`
    final: UnitColumns | None = None  # after the last pass: the features, with norm 0 until a column is collected
    joint: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # features to be settled
    settled: BlockState | None = None  # while the joint set is settled

    def add_parts(self, worker: int) -> None:
        """Append empty entries to `parts` until worker number `worker` has an entry."""
        while len(self.parts) <= worker:
            self.parts.append(WorkerPart(np.zeros(len(self.u)), np.zeros(len(self.u))))


@dataclass(slots=True)
class AsynchronousView:
    """The data that a worker pulls from the dask actor that owns the state, before a block."""

    version: int
    number: int  # the number of the worker's last push that was applied
    others: Floats  # u_C without the worker's part
    z_others: Floats
    L: float
    budget: int
    cutoff: float  # see `slot_for`
    taken: NDArray[np.int64]  # the features of other workers
    constant: float
    positive: float
    itemsize: int


@dataclass(slots=True)
class Push:
    """The data that a worker pushes to the dask actor that owns the state, after a block."""

    worker: int
    version: int  # the version of the view it is based on
    part: WorkerPart
    processed: NDArray[np.int64]  # some ids of the block
    changes: int


_View = AsynchronousView | BlockView | None
_Offer = Push | UnitColumns | BlockOffer


@dataclass(frozen=True)
class AsynchronousMethod(ColumnMethod, AsynchronousAlgorithm):
    """Algorithms 2 and 3 (Asy-OS): every worker has its own selected set, and a dask actor adds up the scores."""

    history_fields = ("objective", "changes", "staleness", "staleness_max", "offers", "late")

    def start(self, meta: Meta, seed: int) -> AsynchronousState:
        state = AsynchronousState(
            target=Target.unknown(meta),
            itemsize=meta.itemsize,
            u=np.zeros(meta.n_samples),
            z=np.zeros(meta.n_samples),
            parts=[],
            history=self.new_history(),
            staleness=np.zeros(_MAX_STALENESS, np.int64),
        )
        state.add_parts(self.params.workers - 1)
        return state

    @property
    def sharing(self) -> Sharing:
        return Sharing(Schedule.ASYNCHRONOUS, min_merges_per_pass=10, needs_fresh_views=True)

    @property
    def max_reads(self) -> int:
        return self.passes + (SETTLING_PASSES if self._settles else 0)

    @property
    def _settles(self) -> bool:
        return self.params.budget != "faithful"

    @property
    def _block(self) -> BlockMethod:
        """The method that settles the joint set, with a fixed ridge penalty, so that no penalties are compared."""
        ridge = SMALL_RIDGE * CURVATURE[self.params.loss] if self.params.ridge == "auto" else self.params.ridge
        return BlockMethod(replace(self.params, ridge=ridge, passes=SETTLING_PASSES), self.asked)

    def new_history(self) -> Floats:
        return np.full((self.max_reads, len(self.history_fields)), np.nan)

    def update(self, state: AsynchronousState, any_block: Block) -> AsynchronousState:
        """Let the next simulated worker process a block; after the last pass, collect columns of final features."""
        block = columns_of(any_block)
        if state.settled is not None:
            state.settled = self._block.update(state.settled, any_block)
            return state
        if state.final is not None:
            return _collect(state, standardise_block(block, self.params.intercept)) if len(block.ids) else state
        state.target.take(block, self.params)
        if not len(block.ids):
            return state
        worker = state.turn % self.params.workers
        state.turn += 1
        own = state.own[worker] if worker < len(state.own) else None
        own, push = self._push(own, self._pull(state, worker), block, worker)
        state.own[worker : worker + 1] = [own]
        return self.accept(state, push)

    def view(self, state: AsynchronousState, worker: int) -> AsynchronousView | BlockView | None:
        """Return the data that a worker pulls; return None after the last pass, when columns are only collected."""
        if state.settled is not None:
            return self._block.view(state.settled, worker)
        return self._pull(state, worker) if state.final is None else None

    def _pull(self, state: AsynchronousState, worker: int) -> AsynchronousView:
        state.add_parts(worker)
        part = state.parts[worker]
        budget, cutoff = self._share(state, worker)
        taken = [other.ids for number, other in enumerate(state.parts) if number != worker]
        return AsynchronousView(
            version=state.version,
            number=part.number,
            others=state.u - part.u,
            z_others=state.z - part.z,
            L=_smoothness(state),
            budget=budget,
            cutoff=cutoff,
            taken=np.concatenate([np.empty(0, np.int64), *taken]),
            constant=state.target.constant,
            positive=state.target.positive,
            itemsize=state.itemsize,
        )

    def work(
        self, own: ColumnSlots | BlockWorker | None, view: _View, any_block: Block, worker: int
    ) -> tuple[ColumnSlots | BlockWorker | None, _Offer | None]:
        block = columns_of(any_block)
        if view is None:
            return None, standardise_block(block, self.params.intercept)
        if isinstance(view, BlockView):
            return self._block.work(own if isinstance(own, BlockWorker) else None, view, any_block, worker)
        return self._push(own if isinstance(own, ColumnSlots) else None, view, block, worker)

    def _push(
        self, own: ColumnSlots | None, view: AsynchronousView, block: AnyColumns, worker: int
    ) -> tuple[ColumnSlots, Push]:
        """Run algorithm 3 for a block of columns. Return the worker's selected columns and the push."""
        slots, target = own, encode_target(block.y, view.positive)
        if slots is None:
            check_size(target)
            slots = ColumnSlots.empty(len(block.y), self.n_select, view.itemsize)
            slots.number = view.number
        slots.trim(view.budget)
        offset, least_L = view.constant + view.others, max(1.0, view.L)
        steps = Steps(self.params, target, offset, view.budget, view.cutoff, least_L)
        steps.update_products(slots)
        n_entered = steps.process(slots, block, view.taken)
        k, X = slots.k, slots.X[:, : slots.k]
        v = slots.v[:k] / max(float(np.linalg.norm(slots.v[:k])), 1e-300)
        if view.z_others.any():
            z = X @ v.astype(X.dtype) + view.z_others
            v = products(X, z.astype(X.dtype)[None])[0] / least_L
        slots.number += 1
        part = WorkerPart(
            u=X @ slots.w[:k].astype(X.dtype),
            z=X @ v.astype(X.dtype),
            v_square=float(v @ v),
            number=slots.number,
            ids=slots.ids[:k].copy(),
            w=slots.w[:k].copy(),
            norm=slots.norm[:k].copy(),
        )
        return slots, Push(worker, view.version, part, block.ids[: 2 * self.n_select].astype(np.int64), n_entered)

    def combine_offers(self, offer: _Offer, later: _Offer, view: _View) -> _Offer:
        """Return the later push, which replaces the earlier push, with the counts of both pushes added up."""
        if isinstance(offer, BlockOffer) and isinstance(later, BlockOffer) and isinstance(view, BlockView):
            return self._block.combine_offers(offer, later, view)
        if isinstance(offer, Push) and isinstance(later, Push):
            processed = np.concatenate([offer.processed, later.processed])[-2 * self.n_select :]
            return replace(later, processed=processed, changes=offer.changes + later.changes)
        return UnitColumns.join([part for part in (offer, later) if isinstance(part, UnitColumns)])

    def remaining_offer(self, own: ColumnSlots | BlockWorker) -> BlockOffer | None:
        return self._block.remaining_offer(own) if isinstance(own, BlockWorker) else None

    def n_workers(self, state: AsynchronousState) -> int:
        return len(state.parts)

    def accept(self, state: AsynchronousState, offer: _Offer) -> AsynchronousState:
        """Run algorithm 2: replace a worker's scores and features in the state, unless the push is too old."""
        if state.settled is not None or isinstance(offer, BlockOffer):
            return self._exchange(state, offer)
        if isinstance(offer, UnitColumns) or state.final is not None:
            return _collect(state, offer)
        state.add_parts(offer.worker)
        part, staleness = state.parts[offer.worker], state.version - offer.version
        if offer.part.number <= part.number or staleness > self.params.max_staleness:
            state.late += 1
            return state
        state.staleness[min(staleness, _MAX_STALENESS - 1)] += 1
        state.u += offer.part.u - part.u
        state.z += offer.part.z - part.z
        state.parts[offer.worker] = offer.part
        state.spare = add_spare(state.spare, offer.processed, self.n_select)
        state.changes += offer.changes
        state.version += 1
        return state

    def _exchange(self, state: AsynchronousState, offer: _Offer) -> AsynchronousState:
        """Let nominated columns enter the joint set; ignore a push, which is left over from an earlier pass."""
        if state.settled is not None and isinstance(offer, BlockOffer):
            before = state.settled.version
            state.settled = self._block.accept(state.settled, offer)
            state.version += state.settled.version - before
        return state

    def held_features(self, state: AsynchronousState) -> NDArray[np.uint64]:
        """Return the ids of the features whose columns the state holds; no ids before the last pass of Asy-OS ends."""
        if state.settled is not None:
            return self._block.held_features(state.settled)
        if state.final is None:
            return np.empty(0, np.uint64)
        return np.sort(state.final.ids[state.final.norm > 0]).astype(np.uint64)

    def merge(self, states: Sequence[AsynchronousState]) -> AsynchronousState:
        if len(states) > 1:
            raise OptionError("method='async' never waits, so it has nothing to merge: use method='block'")
        return states[0]

    def end_pass(self, state: AsynchronousState) -> tuple[AsynchronousState, bool]:
        if state.settled is not None:
            return self._end_settling_pass(state, state.settled)
        objective, staleness = state.target.loss(state.u, self.params), self.summarise_staleness(state.staleness)
        state.history[state.passes] = objective, state.changes, *staleness, state.late
        state.passes += 1
        state.turn = 0  # a worker gets the same columns in every pass
        state.staleness[:] = 0
        state.changes = state.late = 0
        go_on = state.passes < self.passes
        if not go_on:
            self._fix_final_set(state)
        return state, go_on or self._settles

    def _end_settling_pass(self, state: AsynchronousState, settled: BlockState) -> tuple[AsynchronousState, bool]:
        changes, staleness = settled.changes, self.summarise_staleness(settled.staleness)
        state.settled, go_on = self._block.end_pass(settled)
        state.history[state.passes] = state.settled.sets[0].objective, changes, *staleness, 0
        state.passes += 1
        state.version += 1
        return state, go_on and state.passes < len(state.history)

    def visit_first(self, state: AsynchronousState) -> NDArray[np.uint64]:
        """Return the ids of the joint set, whose columns are spread over the workers, before it is settled."""
        if state.settled is None or state.settled.passes:
            return np.empty(0, np.uint64)
        return np.sort(state.joint).astype(np.uint64)

    def revisit(self, state: AsynchronousState) -> NDArray[np.uint64]:
        """Return the ids of rejected columns, or of the final features if these are not settled."""
        if state.settled is not None:
            return self._block.revisit(state.settled)
        return np.empty(0, np.uint64) if state.final is None else np.sort(state.final.ids).astype(np.uint64)

    def result(self, state: AsynchronousState) -> Result:
        history = self.history_records(state.history[: state.passes].tolist())
        if state.settled is not None:
            return replace(BlockMethod(self.params, self.asked).result(state.settled), history=history)
        assert state.final is not None, "before the last pass has ended"
        return fit_columns(self, state.final, state.target, state.spare, history)

    def preview(self, state: AsynchronousState, limit: int) -> Preview:
        if state.settled is not None and (state.settled.passes or state.settled.sets[0].k > self.params.intercept):
            return self._block.preview(state.settled, limit)
        if state.settled is not None:  # the columns of the joint set are not yet read
            nothing, w = np.ones(len(state.joint)), np.full(len(state.joint), np.nan)
            columns = UnitColumns(state.joint, np.empty((0, len(w))), nothing, nothing)
        elif state.final is not None:
            columns, w = state.final, np.full(len(state.final.ids), np.nan)  # not known before the joint fit
        else:
            (ids, w), norm = _features(state), np.concatenate([part.norm for part in state.parts])
            columns = UnitColumns(ids, np.empty((0, len(ids))), np.zeros(len(ids)), norm)
        objective = self.last_objective(state.history, state.passes)
        return self.preview_weights(columns, w, limit, objective, state.changes, state.staleness)

    def nbytes(self, meta: Meta) -> int:
        n, k, workers = meta.n_samples, self.n_select, self.params.workers
        slots = slots_nbytes(n, k, meta.itemsize) + (workers - 1) * 8 * k * k
        settling = self._block.nbytes(meta) + set_nbytes(n, k, meta.itemsize)
        collecting = 2 * set_nbytes(n, k, meta.itemsize) + work_nbytes(n, k, 0, meta.itemsize)
        return slots + (workers + 1) * 3 * 8 * n + (settling if self._settles else collecting)

    def _share(self, state: AsynchronousState, worker: int) -> tuple[int, float]:
        """Return how many columns a worker may hold, and the |weight| above which a column may exceed that number."""
        k, q, own = self.n_select, len(state.parts), np.abs(state.parts[worker].w)
        if self.params.budget == "faithful":
            return k // q + (worker < k % q), np.inf
        sizes = np.sort(np.abs(_features(state)[1]))[::-1]
        if len(sizes) < k:  # several workers may fill the free slots at once; then the least weights leave again
            return len(own) + k - len(sizes), np.inf
        cutoff = float(sizes[k - 1])
        return int((own >= cutoff).sum()), cutoff

    def _fix_final_set(self, state: AsynchronousState) -> None:
        """Store the features with the largest weights of all workers, as the joint set or as the final features."""
        ids, w = _features(state)
        ids = ids[np.argsort(-np.abs(w), kind="stable")]
        first = np.unique(ids, return_index=True)[1]  # two workers may have met the same column
        ids = ids[np.sort(first)][: self.n_select]
        state.own, state.parts = [], []
        if self._settles:
            n, code, block = len(state.u), CODE[self.params.loss], self._block
            selected = SelectedSet.empty(
                n, self.n_select, state.itemsize, code, self.params.intercept, ridge=float(block.params.ridge)
            )
            state.joint = ids
            state.settled = BlockState.of_one_set(selected, block, state.target.positive, state.target.classes)
            return
        X = np.zeros((len(state.u), len(ids)), f"f{state.itemsize}", order="F")
        state.final = UnitColumns(ids, X, np.zeros(len(ids)), np.zeros(len(ids)))


def _features(state: AsynchronousState) -> tuple[NDArray[np.int64], Floats]:
    """Return the ids of the features of all workers, and their weights."""
    return np.concatenate([part.ids for part in state.parts]), np.concatenate([part.w for part in state.parts])


def _smoothness(state: AsynchronousState) -> float:
    """Return the current estimate of λ_max(XᵀX) for the selected columns X of all workers together."""
    square = sum(part.v_square for part in state.parts)
    return float(state.z @ state.z) / square if square else 1.0


def _collect(state: AsynchronousState, offer: _Offer) -> AsynchronousState:
    """Copy columns of final features into the state, and ignore repeated columns and pushes after the last pass."""
    if state.final is None or not isinstance(offer, UnitColumns):
        return state
    columns, order = state.final, np.argsort(offer.ids)
    slots = np.flatnonzero(np.isin(columns.ids, offer.ids))
    matching = order[np.searchsorted(offer.ids, columns.ids[slots], sorter=order)]
    columns.X[:, slots] = offer.X[:, matching]
    columns.mean[slots], columns.norm[slots] = offer.mean[matching], offer.norm[matching]
    return state
