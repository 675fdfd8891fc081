"""`method="block"`: passes over blocks, the choice of the ridge penalty, and a second try for rejected columns.

The ridge penalty affects *which* columns are selected, not only their weights. With a small ridge penalty columns are
selected by their correlation with the residuals of the other columns. With a large ridge penalty columns are selected
by their own correlation with the target, which is safer if there are far more columns than rows. Ridge penalties can be
compared only by the features they select, after two passes, because features improve more slowly with a small penalty.
Therefore several selected sets are built side by side without some held-back rows, and compared on the held-back rows.
The best selected set continues with all rows. With many rows the ridge penalty matters little, so a small penalty is
used and no rows are held back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms import losses
from daskfs.algorithms.losses import CURVATURE, Floats
from daskfs.algorithms.substitution import exchange
from daskfs.algorithms.substitution.columns import AnyColumns, ColumnMethod, columns_of
from daskfs.algorithms.substitution.exchange import Candidates, SetView
from daskfs.algorithms.substitution.selected_set import LEAST_RIDGE, RejectedColumns, SelectedSet, set_nbytes
from daskfs.protocol import AsynchronousAlgorithm, Block, Meta, Preview, Result, Schedule, Sharing, copy_state

# Ridges on columns of unit norm, divided by the largest curvature of the loss:
_COMPARED_RIDGES = (1e-4, 0.02, 1.0, 10.0)
_REFIT_RIDGES = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # for the weights of a known set
SMALL_RIDGE = 1e-3  # if there are many rows
_COMPARED_PASSES = 2
_COMPARED_ROWS = range(24, 4097)  # with fewer no row can be held back, with more no comparison is needed
_HELD_BACK = 0.1  # the share of rows held back,
_ENOUGH_HELD_BACK = 100  # but at least as many,
_MOST_HELD_BACK = 0.25  # and at most this share; always this share of labels, which say less than numbers
_HARDLY_WORSE = 1.05  # times the least loss
_NEARLY_PERFECT = 0.02  # sets with less loss are still improving, and a small ridge leads furthest

_SCORING_BYTES = 256  # for every column of a block: sums, moments, scores
_MAX_STALENESS = 64  # larger values are counted as the largest below it


@dataclass(slots=True)
class BlockState:
    """The state of `BlockMethod`: one selected set, or one set per ridge penalty while penalties are compared."""

    sets: list[SelectedSet]
    held_back: NDArray[np.int64]  # the rows on which ridges are compared
    weight: Floats  # the weight of every row, 1 on average
    positive: float  # see `positive_target`
    labels: Floats  # see `several_labels`
    classes: str  # see `encode_classes`
    refit_ridge: float  # the ridge of the final fit
    history: Floats
    staleness: NDArray[np.int64]  # how many offers of this pass were based on a view 0, 1, 2, … versions old
    started: bool = False  # whether the target is known
    target_mean: float = 0.0  # subtracted from a target of numbers
    passes: int = 0
    version: int = 0
    changes: int = 0  # columns that entered in this pass; with several shards, since the last merge
    changes_before_merge: int = 0
    just_merged: bool = False
    held_back_score: float = np.nan  # balanced accuracy or R² on held-back rows


@dataclass(slots=True)
class BlockView:
    """The part of a `BlockState` that a worker needs to nominate columns."""

    version: int
    sets: list[SetView]


@dataclass(slots=True)
class BlockOffer:
    """The columns that a worker nominates for every selected set, and the columns that the worker rejected."""

    version: int | None  # the version of the view it is based on; None if nothing is nominated
    candidates: list[Candidates | None]
    rejected: list[RejectedColumns]


@dataclass(slots=True)
class BlockWorker:
    """A worker's own state: columns that the worker rejected for every selected set and has not reported yet."""

    rejected: list[RejectedColumns]


@dataclass(frozen=True)
class BlockMethod(ColumnMethod, AsynchronousAlgorithm):
    """The default method, which fits the best columns of a block jointly with the selected set and drops the worst."""

    history_fields = ("objective", "changes", "ridge", "held_back", "staleness", "staleness_max", "offers")

    def start(self, meta: Meta, seed: int) -> BlockState:
        ridges, n = self._ridges(meta.n_samples), meta.n_samples
        labels = losses.several_labels(self.params.loss, meta)
        shape = n, self.n_select, meta.itemsize, losses.CODE[self.params.loss], self.params.intercept, len(labels) or 1
        rows = _rows_to_hold_back(n, meta.classes is not None, seed) if len(ridges) > 1 else np.empty(0, np.int64)
        return BlockState(
            sets=[SelectedSet.empty(*shape, ridge) for ridge in ridges],
            held_back=rows,
            weight=np.ones(n),
            positive=losses.positive_target(meta),
            labels=labels,
            classes=losses.encode_classes(meta, len(labels) > 0),
            refit_ridge=ridges[0],
            history=self.new_history(),
            staleness=np.zeros(_MAX_STALENESS, np.int64),
        )

    @property
    def sharing(self) -> Sharing:
        # With fewer merges, shards select the same features more often, of which a merge keeps one.
        return Sharing(Schedule.ASYNCHRONOUS, min_merges_per_pass=10)

    def update(self, state: BlockState, any_block: Block) -> BlockState:
        block = columns_of(any_block)
        self._take_target(state, block)
        if state.just_merged:
            state.changes_before_merge += state.changes
            state.changes, state.just_merged = 0, False
        if len(block.ids):
            state.changes += max(exchange.update_set(selected, block, self.n_select) for selected in state.sets)
        return state

    def view(self, state: BlockState, worker: int) -> BlockView:
        return BlockView(state.version, [exchange.view_set(selected, self.n_select) for selected in state.sets])

    def work(
        self, own: BlockWorker | None, view: BlockView, any_block: Block, worker: int
    ) -> tuple[BlockWorker, BlockOffer | None]:
        own, block = BlockWorker([]) if own is None else own, columns_of(any_block)
        own.rejected += [RejectedColumns() for _ in view.sets[len(own.rejected) :]]
        candidates = [
            exchange.nominate(rejected, seen, exchange.score_block(seen, block), self.n_select)
            for rejected, seen in zip(own.rejected, view.sets, strict=False)
        ]
        return own, BlockOffer(view.version, candidates, []) if any(candidates) else None

    def combine_offers(self, offer: BlockOffer, later: BlockOffer, view: BlockView) -> BlockOffer:
        combined = BlockOffer(view.version, [], [])
        for number, seen in enumerate(view.sets):
            rejected = RejectedColumns()
            for part in (offer, later):
                for pool in part.rejected[number : number + 1]:
                    rejected.add(pool.ids, pool.scores, self.n_select)
            nominated = (part.candidates[number] for part in (offer, later) if number < len(part.candidates))
            parts = [candidates for candidates in nominated if candidates is not None]
            joint = exchange.combine_candidates(parts, rejected, seen, self.n_select) if parts else None
            combined.candidates.append(joint)
            combined.rejected.append(rejected)
        return combined

    def remaining_offer(self, own: BlockWorker) -> BlockOffer | None:
        rejected, own.rejected = own.rejected, []
        return BlockOffer(None, [], rejected) if rejected else None

    def accept(self, state: BlockState, offer: BlockOffer) -> BlockState:
        n_entered = [0]
        for selected, candidates in zip(state.sets, offer.candidates, strict=False):
            if candidates is not None:
                n_entered.append(exchange.accept(selected, candidates, self.n_select))
        for selected, rejected in zip(state.sets, offer.rejected, strict=False):
            selected.rejected.add(rejected.ids, rejected.scores, self.n_select)
        if offer.version is not None:
            state.staleness[min(state.version - offer.version, _MAX_STALENESS - 1)] += 1
        state.changes += max(n_entered)
        state.version += any(n_entered)
        return state

    def held_features(self, state: BlockState) -> NDArray[np.uint64]:
        return np.unique(np.concatenate([selected.features for selected in state.sets])).astype(np.uint64)

    def _take_target(self, state: BlockState, block: AnyColumns) -> None:
        """Copy the target from the first block into the state."""
        if state.started:
            return
        state.started = True
        if block.weight is not None:
            state.weight[:] = losses.normalise_weights(block.weight)
        target = losses.encode_targets(block.y, state.positive, state.labels)
        if self.params.intercept and not state.classes:  # float32 would lose digits to a large mean
            state.target_mean = float(np.average(target[0], weights=state.weight))
        for selected in state.sets:
            selected.target[:] = target - state.target_mean
            selected.importance[:] = state.weight
            selected.importance[state.held_back] = 0.0
            selected.refresh()

    def merge(self, states: Sequence[BlockState]) -> BlockState:
        ordered = sorted(states, key=lambda state: [np.sort(selected.features).tolist() for selected in state.sets])
        first = next((state for state in ordered if state.started), ordered[0])
        others = [other for other in ordered if other.started and other is not first]
        merged: BlockState = copy_state(first)
        for sets in zip(*(state.sets for state in (merged, *others)), strict=True):
            exchange.merge_sets(sets, self.n_select)
        merged.changes += sum(other.changes for other in others)
        merged.just_merged = True
        return merged

    def end_pass(self, state: BlockState) -> tuple[BlockState, bool]:
        state.passes += 1
        state.changes += state.changes_before_merge
        for selected in state.sets if state.changes else ():
            selected.refresh()  # removes accumulated rounding errors
        go_on = state.changes > 0 or len(state.sets) > 1
        if len(state.sets) > 1:
            self._compare_ridges(state)
        state.history[state.passes - 1] = self._history_row(state, state.sets[0])
        state.staleness[:] = 0
        state.changes, state.changes_before_merge, state.just_merged = 0, 0, False
        state.version += 1
        return state, go_on and state.passes < self.passes

    def _history_row(self, state: BlockState, selected: SelectedSet) -> list[float]:
        staleness = self.summarise_staleness(state.staleness)
        return [selected.objective, state.changes, selected.ridge, state.held_back_score, *staleness]

    def revisit(self, state: BlockState) -> NDArray[np.uint64]:
        rejected = state.sets[0].rejected
        return rejected.ids[rejected.scores > exchange.USELESS].astype(np.uint64)

    def result(self, state: BlockState) -> Result:
        selected = state.sets[0].copy_fit()
        selected.fit(state.refit_ridge)
        spare = selected.rejected.ids[np.argsort(-selected.rejected.scores, kind="stable")]
        rows = [*state.history[: state.passes].tolist(), self._history_row(state, selected)]
        classes, history = losses.decode_classes(state.classes), self.history_records(rows)
        result = selected.result(self.n_select, spare, classes, history, self.chosen(state.sets[0].ridge))
        return replace(result, intercept=result.intercept + state.target_mean)

    def preview(self, state: BlockState, limit: int) -> Preview:
        selected, changes = state.sets[0], state.changes + state.changes_before_merge
        w, objective = selected.w[:, selected.fixed : selected.k], selected.objective if state.started else np.nan
        return self.preview_weights(selected.columns, w, limit, objective, changes, state.staleness)

    def nbytes(self, meta: Meta) -> int:
        entering = exchange.max_candidates(self.n_select)
        widest = meta.block_nbytes // (meta.n_samples * meta.itemsize)  # dense; a sparse block has its columns' ids too
        n_scores = len(losses.several_labels(self.params.loss, meta)) or 1
        one_set = set_nbytes(meta.n_samples, self.n_select, entering, meta.itemsize, n_scores)
        return len(self._ridges(meta.n_samples)) * one_set + 16 * meta.n_samples + _SCORING_BYTES * widest

    def _ridges(self, n_samples: int) -> list[float]:
        """Return the ridge penalties to compare, or a single penalty if no comparison is needed."""
        if self.params.ridge != "auto":
            return [max(float(self.params.ridge), LEAST_RIDGE)]
        ridges = _COMPARED_RIDGES if n_samples in _COMPARED_ROWS else (SMALL_RIDGE,)
        return [ridge * CURVATURE[self.params.loss] for ridge in ridges]

    def _compare_ridges(self, state: BlockState) -> None:
        """Compare the selected sets on held-back rows; after the last comparison, fit the best on all rows."""
        evaluations = [_evaluate(selected, state.held_back, state.weight, self.params.loss) for selected in state.sets]
        best = _best_set(evaluations)
        state.held_back_score = evaluations[best].score
        if state.passes >= min(_COMPARED_PASSES, self.passes):
            state.sets, state.held_back = [state.sets[best]], np.empty(0, np.int64)
            state.sets[0].importance[:] = state.weight
            state.sets[0].refresh()
            state.refit_ridge = evaluations[best].ridge


class RidgeEvaluation(NamedTuple):
    """The loss and score of a selected set on held-back rows, with weights fitted under the best ridge penalty."""

    loss: float  # divided by that of a constant
    ridge: float
    score: float  # balanced accuracy, or R²


def _rows_to_hold_back(n_samples: int, are_labels: bool, seed: int) -> NDArray[np.int64]:
    """Return the random row numbers to hold back, in ascending order."""
    most = int(_MOST_HELD_BACK * n_samples)
    count = most if are_labels else max(int(_HELD_BACK * n_samples), min(most, _ENOUGH_HELD_BACK))
    return np.sort(np.random.default_rng(seed).choice(n_samples, count, replace=False))


def _evaluate(selected: SelectedSet, rows: NDArray[np.int64], weight: Floats, loss: str) -> RidgeEvaluation:
    """Fit a selected set under several ridge penalties, and return the best evaluation on held-back rows."""
    k, X = selected.k, selected.X
    of_rows = replace(selected, target=selected.target[:, rows], importance=weight[rows])
    H, slope = selected.quadratic()
    is_penalised, unused = np.arange(k) >= selected.fixed, np.empty(of_rows.target.shape, X.dtype)
    constant = np.repeat(of_rows.target.mean(axis=1, keepdims=True), len(rows), axis=1)
    of_constant = of_rows.write_residuals(constant, unused)
    evaluations = []
    for ridge in np.array(_REFIT_RIDGES) * CURVATURE[loss]:
        w = np.linalg.solve(H + np.diag(np.where(is_penalised, ridge, 1e-9)), slope.T).T
        u = (w.astype(X.dtype) @ X[rows, :k].T).astype(np.float64)
        share = of_rows.write_residuals(u, unused) / max(of_constant, 1e-300)
        evaluations.append(RidgeEvaluation(float(share), float(ridge), _score(u, of_rows.target)))
    return min(evaluations)


def _best_set(evaluations: Sequence[RidgeEvaluation]) -> int:
    """Return the number of the set with the least ridge penalty whose loss is near zero or near the least loss."""
    limit = max(_HARDLY_WORSE * min(evaluation.loss for evaluation in evaluations), _NEARLY_PERFECT)
    return next(number for number, evaluation in enumerate(evaluations) if evaluation.loss <= limit)


def _score(u: Floats, y: Floats) -> float:
    """Return the balanced accuracy of scores u (scores, rows) if all targets y are −1 or +1, otherwise R²."""
    if (np.abs(y) == 1).all():
        says, is_ = (u.argmax(axis=0), y.argmax(axis=0)) if len(u) > 1 else (u[0] > 0, y[0] > 0)
        return float(np.mean([float((says[is_ == label] == label).mean()) for label in np.unique(is_)]))
    spread = float(((y - y.mean()) ** 2).sum())
    return 1 - float(((y - u) ** 2).sum()) / spread if spread else 0.0
