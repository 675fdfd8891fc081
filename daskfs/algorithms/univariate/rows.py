"""Scoring of dense rows: one pass for the scores of all columns, and one for the model of the selected columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.univariate.fit import FitSums, fit_nbytes
from daskfs.algorithms.univariate.moments import Moments, best_columns, column_scores, dense_moments, mean_and_variance
from daskfs.algorithms.univariate.scoring import Scoring, TargetKind
from daskfs.protocol import Axis, Block, Meta, Result, RowBlock, copy_state


@dataclass(slots=True)
class RowSums:
    """Sums over rows: the moments of all columns in the first pass, and the sums of the model in the second."""

    moments: Moments
    fit: FitSums

    def merge(self, other: RowSums) -> RowSums:
        """Return the sums over the rows of both; neither is changed."""
        return RowSums(self.moments.merge(other.moments), self.fit.merge(other.fit))

    def zero(self) -> RowSums:
        """Return sums over no rows, for the same columns."""
        count, width = self.moments.mean.shape
        return RowSums(Moments.zero(width, count, len(self.moments.target) > 0), self.fit.zero_like())


@dataclass(slots=True)
class RowState:
    """The sums over all rows that have been read in this pass, and the selected columns once these are known."""

    target: TargetKind
    own: RowSums  # over the rows of this shard since the last merge
    before: RowSums  # over earlier rows, which all shards have in common
    is_merged: bool  # whether `own` is that of all shards
    passes: int
    selected: NDArray[np.uint64]  # (k,), best first

    @property
    def total(self) -> RowSums:
        return self.before.merge(self.own)


@dataclass(frozen=True)
class RowScoring(Scoring):
    """Scoring of blocks of dense rows."""

    axis: ClassVar[Axis] = "rows"

    @property
    def passes(self) -> int:
        return 2 if self.fits else 1

    def start(self, meta: Meta, seed: int) -> RowState:
        target, k = self.target_of(meta), self.n_fitted
        moments = Moments.zero(meta.n_features, target.n_groups, numbers=not self.by_class)
        sums = RowSums(moments, FitSums.zero(k, target.n_groups))
        return RowState(target, sums, sums.zero(), is_merged=False, passes=0, selected=np.zeros(k, np.uint64))

    def update(self, state: RowState, block: Block) -> RowState:
        assert isinstance(block, RowBlock)
        if state.is_merged:
            state.before, state.own, state.is_merged = state.total, state.own.zero(), False
        groups, y = state.target.encode(block.y)
        if state.passes == 0:
            self.check_values(block.X, lambda at: at % block.X.shape[1])
            moments = dense_moments(block.X, groups, state.target.n_groups, y)
            state.own.moments = state.own.moments.merge(moments)
        elif self.fits:
            y = y - state.before.moments.target_mean
            state.own.fit.add(block.X, state.target.columns(groups, y), state.selected.astype(np.intp))
        return state

    def merge(self, states: Sequence[RowState]) -> RowState:
        own = reduce(RowSums.merge, [state.own for state in states])
        merged: RowState = copy_state(replace(states[0], own=own, is_merged=True))
        return merged

    def end_pass(self, state: RowState) -> tuple[RowState, bool]:
        state.passes += 1
        state.before, state.is_merged = state.total, False
        if state.passes == 1:
            moments = state.before.moments
            best = best_columns(column_scores(self.score, moments), self.n_fitted)
            state.selected = best.astype(np.uint64)
            mean, variance = mean_and_variance(moments)
            state.before.fit.scale_by(mean[best], variance[best])
        state.own = state.before.zero()
        return state, state.passes < self.passes

    def result(self, state: RowState) -> Result:
        moments = state.before.moments
        ids, scores = np.arange(len(moments.origin), dtype=np.uint64), column_scores(self.score, moments)
        return self.make_result(ids, scores, state.target, state.before.fit, moments)

    def nbytes(self, meta: Meta) -> int:
        n_groups = self.target_of(meta).n_groups
        moments = 8 * meta.n_features * (n_groups + 3)
        work = 4 * moments + 8 * 10 * meta.n_features  # of a block, merged, and differences; ranks and p-values
        return 2 * moments + work + 3 * fit_nbytes(self.n_fitted, n_groups)
