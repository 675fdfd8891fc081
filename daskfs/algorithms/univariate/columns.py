"""Scoring of whole columns: one pass for the scores, and the selected columns once more for the linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.univariate.fit import FitSums, fit_nbytes
from daskfs.algorithms.univariate.moments import (
    Groups,
    Moments,
    best_columns,
    column_scores,
    dense_moments,
    mean_and_variance,
    sparse_column_moments,
)
from daskfs.algorithms.univariate.scoring import Scoring, TargetKind
from daskfs.protocol import Axis, Block, ColumnBlock, Meta, Result, Sharing, SparseColumnBlock, copy_state


@dataclass(slots=True)
class ColumnState:
    """The scores of the columns that have been read, and the selected columns once these are known."""

    target: TargetKind
    groups: Groups  # (n,)
    y: Floats  # (n,), or empty if the target is a class
    started: bool  # whether the target is known
    ids: NDArray[np.uint64]  # (p,), of which `n_scored` are in use
    scores: Floats  # (p,)
    n_scored: int
    passes: int
    selected: NDArray[np.uint64]  # (k,), best first
    X: NDArray[Any] | None  # (n, k): the selected columns


@dataclass(frozen=True)
class ColumnScoring(Scoring):
    """Scoring of blocks of whole columns, dense or sparse."""

    axis: ClassVar[Axis] = "columns"

    @property
    def passes(self) -> int:
        return 1

    @property
    def sharing(self) -> Sharing:
        return replace(super().sharing, driver_only=frozenset({"X"}))  # nothing is in it before the pass ends

    def start(self, meta: Meta, seed: int) -> ColumnState:
        n, p, k = meta.n_samples, meta.n_features, self.n_fitted
        return ColumnState(
            target=self.target_of(meta),
            groups=np.zeros(n, np.int32),
            y=np.zeros(0 if self.by_class else n),
            started=False,
            ids=np.zeros(p, np.uint64),
            scores=np.zeros(p),
            n_scored=0,
            passes=0,
            selected=np.zeros(k, np.uint64),
            X=np.zeros((n, k), np.dtype(f"f{meta.itemsize}"), order="F"),
        )

    def update(self, state: ColumnState, block: Block) -> ColumnState:
        assert isinstance(block, ColumnBlock | SparseColumnBlock)
        if not state.started:
            state.groups[:], state.y[:] = state.target.encode(block.y)
            state.started = True
        if state.passes:
            _take_columns(state, block)
            return state
        scored = slice(state.n_scored, state.n_scored + len(block.ids))
        state.scores[scored] = column_scores(self.score, self._moments(state, block))
        state.ids[scored], state.n_scored = block.ids, scored.stop
        return state

    def _moments(self, state: ColumnState, block: ColumnBlock | SparseColumnBlock) -> Moments:
        target = state.groups, state.target.n_groups, state.y
        if isinstance(block, ColumnBlock):
            self.check_values(block.X, lambda at: int(block.ids[at % len(block.ids)]))
            return dense_moments(block.X, *target)
        edges = block.indptr[1:]
        self.check_values(block.values, lambda at: int(block.ids[np.searchsorted(edges, at, side="right")]))
        return sparse_column_moments(block.indptr, block.rows, block.values, *target)

    def merge(self, states: Sequence[ColumnState]) -> ColumnState:
        merged: ColumnState = copy_state(next((state for state in states if state.started), states[0]))
        ids = np.concatenate([state.ids[: state.n_scored] for state in states])
        scores = np.concatenate([state.scores[: state.n_scored] for state in states])
        ids, at = np.unique(ids, return_index=True)  # all shards have the scores of earlier rounds
        merged.ids[: len(ids)], merged.scores[: len(ids)], merged.n_scored = ids, scores[at], len(ids)
        return merged

    def end_pass(self, state: ColumnState) -> tuple[ColumnState, bool]:
        state.passes += 1
        state.selected = state.ids[: state.n_scored][best_columns(state.scores[: state.n_scored], self.n_fitted)]
        return state, False

    def revisit(self, state: ColumnState) -> NDArray[np.uint64]:
        return np.sort(state.selected)

    def result(self, state: ColumnState) -> Result:
        ids, scores = state.ids[: state.n_scored], state.scores[: state.n_scored]
        X, sums = state.X, FitSums.zero(self.n_fitted, state.target.n_groups)
        assert X is not None
        moments = dense_moments(X, state.groups, state.target.n_groups, state.y)
        if self.fits:
            sums.scale_by(*mean_and_variance(moments))
            sums.add(X, state.target.columns(state.groups, state.y - moments.target_mean), slice(None))
        return self.make_result(ids, scores, state.target, sums, moments)

    def nbytes(self, meta: Meta) -> int:
        n, k, n_groups = meta.n_samples, self.n_fitted, self.target_of(meta).n_groups
        widest = meta.block_nbytes // 8 if meta.kind == "sparse" else meta.block_nbytes // (meta.itemsize * n)
        block = 8 * min(max(widest, 1), meta.n_features) * (10 + 3 * n_groups)
        rows = n * (k * meta.itemsize + 8 * (4 + n_groups))
        return rows + 8 * 10 * meta.n_features + block + fit_nbytes(k, n_groups)


def _take_columns(state: ColumnState, block: ColumnBlock | SparseColumnBlock) -> None:
    """Copy the selected columns of a block into the state."""
    assert state.X is not None
    _, of_block, of_selected = np.intersect1d(block.ids, state.selected, return_indices=True)
    for j, slot in zip(of_block.tolist(), of_selected.tolist(), strict=True):
        if isinstance(block, ColumnBlock):
            state.X[:, slot] = block.X[:, j]
        else:
            entries = slice(block.indptr[j], block.indptr[j + 1])
            state.X[block.rows[entries], slot] = block.values[entries]
