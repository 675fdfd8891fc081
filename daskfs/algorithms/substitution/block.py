"""`method="block"`: passes over blocks, the choice of the ridge penalty, and a second try for rejected columns.

The ridge penalty affects *which* columns are selected, not only their weights. With a small ridge penalty columns are
selected by their correlation with the residuals of the other columns. With a large ridge penalty columns are selected
by their own correlation with the target, which is safer if there are far more columns than rows. Ridge penalties can be
compared only by the features they select, after two passes, because features improve more slowly with a small penalty.
Therefore trial sets under several penalties are built beside the selected set without some held-back rows, and compared
on the held-back rows. Where rows are few, several folds of rows are held back in turn, each with trial sets of its own.
The selected set has all rows and a large penalty, and it changes to another penalty only if the held-back rows prefer
that by more than one standard error. With many rows the ridge penalty matters little, so a small penalty is used and no
rows are held back.

Workers that do not wait for each other nominate columns by outdated views, so that a set needs more passes than with
one worker until it *settles*. If columns were still exchanged in the last pass, at most `SETTLING_PASSES` more follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms import losses
from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution import exchange
from daskfs.algorithms.substitution.columns import AnyColumns, ColumnMethod, columns_of
from daskfs.algorithms.substitution.exchange import Candidates, SetView
from daskfs.algorithms.substitution.final_fit import fit, fit_best, folds_nbytes
from daskfs.algorithms.substitution.result import make_result
from daskfs.algorithms.substitution.selected_set import (
    LEAST_RIDGE,
    RejectedColumns,
    SelectedSet,
    set_nbytes,
    work_nbytes,
)
from daskfs.protocol import AsynchronousAlgorithm, Block, Meta, Preview, Result, Schedule, Sharing, copy_state

# The ridge on columns of unit norm that a comparison begins with, and the ridges compared with it, as shares of it:
_FIRST_RIDGE = {"squared": 1.0, "squared_hinge": 1.0, "logistic": 0.2, "softmax": 0.4}
_SHARES = (1.0, 10**-1.5, 1e-4)  # powers of √10, as in the search for the ridge of the final fit
_SHARES_FOR_CLASSES = _SHARES[:2]  # labels are too noisy for the least
_TRIAL_FITS = 10.0 ** np.arange(-4, 1.5, 0.5)  # shares of it for the weights of trial sets
SMALL_RIDGE = 1e-3  # if there are many rows
_COMPARED_PASSES = 2
_COMPARED_ROWS = range(24, 4097)  # with fewer no row can be held back, with more no comparison is needed
_FEW_ROWS = 250  # up to which several folds are held back
_FOLDS = 5
_HELD_BACK = 10  # with more rows, one in so many is held back
_HELD_BACK_OF_CLASSES = 4  # or of classes, which say less than numbers, one in so many, and twice
_HARDLY_WORSE = 1.05  # times the least loss
_NEARLY_PERFECT = 0.02  # of the loss of a constant

SETTLING_PASSES = 2  # at most, after passes of several workers that do not wait for each other
_SCORING_BYTES = 256  # for every column of a block: sums, moments, scores
_MAX_STALENESS = 64  # larger values are counted as the largest below it


@dataclass(slots=True)
class BlockState:
    """The state of `BlockMethod`: the selected set and, while penalties are compared, trial sets for every fold."""

    sets: list[SelectedSet]  # the selected set, then for every fold one for each of the shares
    folds: NDArray[np.int64]  # the fold of every row; before the target is known, a random order of rows
    weight: Floats  # the weight of every row, 1 on average
    positive: float  # see `positive_target`
    labels: Floats  # see `several_labels`
    classes: str  # see `encode_classes`
    history: Floats
    staleness: NDArray[np.int64]  # how many offers of this pass were based on a view 0, 1, 2, … versions old
    started: bool = False  # whether the target is known
    target_mean: Floats = field(default_factory=lambda: np.zeros(1))  # of each target of numbers, and
    target_scale: Floats = field(default_factory=lambda: np.ones(1))  # its deviation, if there are several targets
    passes: int = 0
    version: int = 0
    changes: int = 0  # columns that entered in this pass; with several shards, since the last merge
    changes_before_merge: int = 0
    just_merged: bool = False
    least_ridge: float = (
        LEAST_RIDGE  # of the final fit; held-back rows choose it, with weights of features they did not
    )
    held_back_score: float = np.nan  # balanced accuracy or R² on held-back rows

    @classmethod
    def of_one_set(cls, selected: SelectedSet, method: BlockMethod, positive: float, classes: str) -> BlockState:
        """Return a state around a selected set for one score, without trial sets."""
        n, staleness = len(selected.h), np.zeros(_MAX_STALENESS, np.int64)
        folds, labels, history = np.empty(0, np.int64), np.empty(0), method.new_history()
        return cls([selected], folds, np.ones(n), positive, labels, classes, history, staleness)


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

    several_targets = True
    history_fields = ("objective", "changes", "ridge", "held_back", "staleness", "staleness_max", "offers")

    def start(self, meta: Meta, seed: int) -> BlockState:
        n, labels, keep = meta.n_samples, losses.several_labels(self.params.loss, meta), self._keep(meta)
        code, n_scores = losses.CODE[self.params.loss], self._n_scores(meta)
        shape = n, self.n_select, meta.itemsize, code, self.params.intercept, n_scores
        ridge, n_folds = self._first_ridge(n), self._n_folds(n)
        shares = [1.0, *self._shares * n_folds]
        return BlockState(
            sets=[SelectedSet.empty(*shape, ridge * share, keep) for share in shares],
            folds=np.random.default_rng(seed).permutation(n if n_folds else 0),
            weight=np.ones(n),
            positive=losses.positive_target(meta),
            labels=labels,
            classes=losses.encode_classes(meta, len(labels) > 0),
            history=self.new_history(),
            staleness=np.zeros(_MAX_STALENESS, np.int64),
            target_mean=np.zeros(len(meta.targets or (0,))),
            target_scale=np.ones(len(meta.targets or (0,))),
        )

    def _n_scores(self, meta: Meta) -> int:
        """Return how many scores a row has: one, or one for each of several classes or targets."""
        return len(meta.targets or losses.several_labels(self.params.loss, meta)) or 1

    @property
    def sharing(self) -> Sharing:
        # With fewer merges, shards select the same features more often, of which a merge keeps one.
        return Sharing(Schedule.ASYNCHRONOUS, min_merges_per_pass=10)

    def update(self, state: BlockState, any_block: Block) -> BlockState:
        block = columns_of(any_block)
        self._take_target(state, block)
        self._begin_shard(state)
        if len(block.ids):
            state.changes += max(exchange.update_set(selected, block, self.n_select) for selected in state.sets)
        return state

    @staticmethod
    def _begin_shard(state: BlockState) -> None:
        """Count the changes of a shard from 0 on after a merge."""
        if state.just_merged:
            state.changes_before_merge += state.changes
            state.changes, state.just_merged = 0, False

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
        return np.unique(np.concatenate([selected.held.ids for selected in state.sets])).astype(np.uint64)

    def _take_target(self, state: BlockState, block: AnyColumns) -> None:
        """Copy the target from the first block into the state."""
        if state.started:
            return
        state.started = True
        if block.weight is not None:
            state.weight[:] = losses.normalise_weights(block.weight)
        target = losses.encode_targets(block.y, state.positive, state.labels)
        if len(target) == 1:
            losses.check_size(target)
        if block.y.ndim > 1:
            state.target_mean, state.target_scale = losses.target_units(target, state.weight, self.params.intercept)
        elif self.params.intercept and not state.classes:  # float32 would lose digits to a large mean
            state.target_mean[0] = np.average(target[0], weights=state.weight)
        target = (target - state.target_mean[:, None]) / state.target_scale[:, None]
        if len(state.folds):  # similar targets are spread over the folds
            order = block.y if block.y.ndim == 1 else target.sum(axis=0)
            one_in = _HELD_BACK if self.params.loss == "squared" else _HELD_BACK_OF_CLASSES
            n_folds = _FOLDS if len(state.folds) <= _FEW_ROWS else one_in
            state.folds[np.lexsort((state.folds, order))] = np.arange(len(state.folds)) % n_folds
        for number, selected in enumerate(state.sets):
            selected.target[:] = target
            selected.row_weight[:] = state.weight
            if number:
                selected.row_weight[state.folds == (number - 1) // len(self._shares)] = 0.0
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
        most = self.passes + (SETTLING_PASSES if state.staleness.any() else 0)  # counted of offers alone
        if len(state.sets) > 1 and state.passes >= min(_COMPARED_PASSES, self.passes):
            self._compare_ridges(state)
        state.history[state.passes - 1] = self._history_row(state, state.sets[0])
        state.staleness[:] = 0
        state.changes, state.changes_before_merge, state.just_merged = 0, 0, False
        state.version += 1
        return state, go_on and state.passes < min(most, len(state.history))

    def new_history(self) -> Floats:
        return np.full((self.passes + SETTLING_PASSES, len(self.history_fields)), np.nan)

    def _history_row(self, state: BlockState, selected: SelectedSet) -> list[float]:
        staleness = self.summarise_staleness(state.staleness)
        return [selected.objective, state.changes, selected.ridge, state.held_back_score, *staleness]

    def visit_first(self, state: BlockState) -> NDArray[np.uint64]:
        return state.sets[0].awaited.astype(np.uint64) if not state.passes else np.empty(0, np.uint64)

    def revisit(self, state: BlockState) -> NDArray[np.uint64]:
        rejected = state.sets[0].rejected
        return rejected.ids[rejected.scores > exchange.USELESS].astype(np.uint64)

    def result(self, state: BlockState) -> Result:
        selected = state.sets[0].copy_fit()
        if self.params.ridge == "auto":
            fit_best(selected, state.least_ridge)
        else:
            fit(selected)
        spare = selected.rejected.ids[np.argsort(-selected.rejected.scores, kind="stable")]
        rows = [*state.history[: state.passes].tolist(), self._history_row(state, selected)]
        classes, history = losses.decode_classes(state.classes), self.history_records(rows)
        result = make_result(selected, self.n_select, spare, classes, history, self.chosen(state.sets[0].ridge))
        intercept = result.intercept * state.target_scale + state.target_mean
        return replace(result, weights=result.weights * state.target_scale, intercept=intercept)

    def preview(self, state: BlockState, limit: int) -> Preview:
        selected, changes = state.sets[0], state.changes + state.changes_before_merge
        w, objective = selected.w[:, selected.fixed : selected.k], selected.objective if state.started else np.nan
        preview = self.preview_weights(selected.columns, w, limit, objective, changes, state.staleness)
        return replace(preview, weights=preview.weights * state.target_scale)

    def nbytes(self, meta: Meta) -> int:
        n_kept = len(self._keep(meta))
        shape, n_scores = (meta.n_samples, self.n_select + n_kept), self._n_scores(meta)
        n_sets = 1 + self._n_folds(meta.n_samples) * len(self._shares)
        sets = n_sets * set_nbytes(*shape, meta.itemsize, n_scores, n_kept)
        work = work_nbytes(*shape, exchange.max_candidates(self.n_select) + n_kept, meta.itemsize, n_scores)
        widest = meta.block_nbytes // (meta.n_samples * meta.itemsize)  # dense; a sparse block has its columns' ids too
        if n_scores > 1:
            work += folds_nbytes(*shape, meta.itemsize, n_scores)
        targets = 24 * meta.n_samples * len(meta.targets or ())  # of a block, encoded, and standardised
        return sets + work + 24 * meta.n_samples + targets + _SCORING_BYTES * widest

    def _keep(self, meta: Meta) -> NDArray[np.uint64]:
        return kept_features(self.params.keep, meta)

    def _first_ridge(self, n_samples: int) -> float:
        """Return the ridge penalty of the first pass."""
        if self.params.ridge != "auto":
            return max(float(self.params.ridge), LEAST_RIDGE)
        return _FIRST_RIDGE[self.params.loss] * (1 if n_samples < _COMPARED_ROWS.stop else SMALL_RIDGE)

    def _n_folds(self, n_samples: int) -> int:
        """Return how many folds of rows are held back in turn to compare ridge penalties, or 0 without comparison."""
        if self.params.ridge != "auto" or n_samples not in _COMPARED_ROWS:
            return 0
        if n_samples <= _FEW_ROWS:
            return _FOLDS
        return 1 if self.params.loss == "squared" else 2

    @property
    def _shares(self) -> tuple[float, ...]:
        """The ridge penalties that are compared, as shares of the first."""
        return _SHARES if self.params.loss == "squared" else _SHARES_FOR_CLASSES

    def _compare_ridges(self, state: BlockState) -> None:
        """Compare the trial sets on held-back rows, and change to another ridge penalty if these prefer it clearly."""
        trials = np.array(state.sets[1:], object).reshape(-1, len(self._shares))
        held_back = [np.flatnonzero(state.folds == fold) for fold in range(len(trials))]
        row_losses, scores, ridges = [], [], []
        for share in range(len(self._shares)):
            of_classes = len(state.target_mean) == 1
            fits = [_trial_fits(sets[share], rows, of_classes) for sets, rows in zip(trials, held_back, strict=True)]
            of_fits = np.hstack([loss for loss, _ in fits]) * state.weight[np.concatenate(held_back)]
            fit = int(of_fits.sum(axis=1).argmin())
            row_losses.append(of_fits[fit])
            scores.append(float(np.mean([score[fit] for _, score in fits])))
            ridges.append(float(_TRIAL_FITS[fit]) * _FIRST_RIDGE[self.params.loss])
        constant = state.sets[0].target.mean(axis=1, keepdims=True)
        y = state.sets[0].target[:, np.concatenate(held_back)]
        of_constant = losses.row_losses(state.sets[0].code, np.zeros_like(y) + constant, y)
        best = _clearly_best(row_losses, float(of_constant.mean()))
        state.held_back_score, state.least_ridge = scores[best], ridges[best]
        selected, state.folds = state.sets[0], np.empty(0, np.int64)
        if best > 0:
            of_best = list(trials[:, best])
            of_best[0].row_weight[:] = state.weight
            of_best[0].refresh()
            exchange.merge_sets([*of_best, selected], self.n_select)
            selected = of_best[0]
        state.sets = [selected]


def _trial_fits(selected: SelectedSet, rows: NDArray[np.int64], of_classes: bool) -> tuple[Floats, Floats]:
    """Return the losses (fits, rows) of held-back rows for fits under several ridge penalties, and scores of the fits.

    The score of a fit is the balanced accuracy or R², see `_score`.
    """
    k, X, y = selected.k, selected.X, selected.target[:, rows]
    H, slope = selected.quadratic()
    is_penalised, row_losses, scores = np.arange(k) >= selected.fixed, [], []
    for ridge in _FIRST_RIDGE[losses.NAMES[selected.code]] * _TRIAL_FITS:
        w = np.linalg.solve(H + np.diag(np.where(is_penalised, ridge, LEAST_RIDGE)), slope.T).T
        u = (w.astype(X.dtype) @ X[rows, :k].T).astype(np.float64)
        row_losses.append(losses.row_losses(selected.code, u, y))
        scores.append(_score(u, y, of_classes))
    return np.array(row_losses), np.array(scores)


def _clearly_best(row_losses: Sequence[Floats], of_constant: float) -> int:
    """Return the position of the ridge penalty to use, given the losses of the same held-back rows for each penalty.

    Penalties are in descending order. The first penalty is used unless the smallest mean loss is lower than that of the
    first by more than a standard error. Then the last penalty is used whose mean loss is hardly above the smallest, or
    nearly zero compared to the loss `of_constant` of a constant model: a small penalty lets the selected set improve
    faster.

    >>> rows = np.array([1.0, 2.0, 3.0, 4.0])
    >>> _clearly_best([rows, rows - [0, 0, 0, 1], rows - [0.4, 0.3, 0.2, 0.3]], 9.0)
    2
    >>> _clearly_best([rows, rows - [3, 0, 0, -2]], 9.0)
    0
    """
    means = [float(loss.mean()) for loss in row_losses]
    gain = row_losses[0] - row_losses[int(np.argmin(means))]
    if gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
        return 0
    limit = max(_HARDLY_WORSE * min(means), _NEARLY_PERFECT * of_constant)
    return max(number for number, mean in enumerate(means) if mean <= limit)


def _score(u: Floats, y: Floats, of_classes: bool) -> float:
    """Return the balanced accuracy of scores u (scores, rows) if the targets y are classes, otherwise R².

    Targets are classes if all are −1 or +1 and `of_classes` is True; it is False for several targets of numbers. Then
    R² is the mean over the targets.
    """
    if of_classes and (np.abs(y) == 1).all():
        says, is_ = (u.argmax(axis=0), y.argmax(axis=0)) if len(u) > 1 else (u[0] > 0, y[0] > 0)
        return float(np.mean([float((says[is_ == label] == label).mean()) for label in np.unique(is_)]))
    spread, missed = ((y - y.mean(axis=1, keepdims=True)) ** 2).sum(axis=1), ((y - u) ** 2).sum(axis=1)
    return float(np.mean([1 - of / whole if whole else 0.0 for of, whole in zip(missed, spread, strict=True)]))
