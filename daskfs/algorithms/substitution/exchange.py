"""How columns enter and leave a selected set of `method="block"`.

A worker needs a `SetView` with the residual and the curvature of every row, and a threshold. The worker scores all
columns of a block and nominates the columns whose scores exceed the threshold. The owner of the selected set fits the
nominated `Candidates` jointly with the set, and drops the columns whose removal raises the loss least (`accept`).

In a serial run a block is scored a second time if its columns have changed the selected set. On a cluster an outdated
view may cause a useless nomination, but no wrong result, because `accept` scores the candidates again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution.columns import AnyColumns, Sweep, UnitColumns, gradients, sweep_block, take_columns
from daskfs.algorithms.substitution.grams import products
from daskfs.algorithms.substitution.selected_set import RejectedColumns, SelectedSet

# How many columns of a block are nominated at most once the set is full: one in _SHARE, within two bounds.
_SHARE = 8
_LEAST_CANDIDATES = 16
_MOST_CANDIDATES = 64  # or twice the features to select; a fit costs the third power of their number
_TINY = 1e-12  # added to curvatures, some of which are 0
USELESS = -1.0  # the score of a column that cannot help, such as a constant


@dataclass(slots=True)
class SetView:
    """The residuals, curvatures and threshold of a selected set, which a worker needs to nominate columns."""

    version: int
    r: NDArray[Any]  # (scores, n)
    h: NDArray[Any]  # empty if it is 1 in all rows
    ridge: float
    threshold: float
    room: int  # how many features the set still lacks
    centred: bool
    ids: NDArray[np.int64]  # of the features in the set
    awaited: NDArray[np.int64]  # of columns to keep that are not in the set yet
    beside: NDArray[Any]  # see `SelectedSet`


@dataclass(slots=True)
class Candidates:
    """Columns that a worker nominates for a selected set."""

    version: int  # the version of the set that the scores refer to
    columns: UnitColumns
    score: Floats
    d: Floats  # the curvature along each column


class ScoredBlock(NamedTuple):
    """A block, twice the decrease of the loss by every column, and a mask of columns outside the selected set."""

    block: AnyColumns
    sweep: Sweep
    score: Floats
    is_new: NDArray[np.bool_]


def max_candidates(n_select: int) -> int:
    """Return how many columns can be nominated at once for a selected set without free slots."""
    return max(_MOST_CANDIDATES, 2 * n_select)


def view_set(selected: SelectedSet, n_select: int) -> SetView:
    """Return the view of a selected set that workers need, without copying the arrays of the set."""
    room = n_select - len(selected.features)
    return SetView(
        version=selected.version,
        r=selected.r,
        h=selected.h[:0] if selected.uniform else selected.h,
        ridge=selected.ridge,
        threshold=selected.threshold if room <= 0 else 0.0,
        room=room,
        centred=bool(selected.intercept),
        ids=np.sort(selected.held.ids),
        awaited=selected.awaited,
        beside=selected.beside,
    )


def _scores(g: Floats, d: Floats, ridge: float) -> Floats:
    """Return twice the decrease of the loss by adding columns with gradients g (scores, columns) and curvatures d."""
    scores: Floats = (g * g).sum(axis=0) / (d + ridge + _TINY)
    return scores


def score_block(view: SetView, block: AnyColumns, sweep: Sweep | None = None) -> ScoredBlock:
    """Return the scores of all columns of a block: twice the decrease of the loss by adding the column.

    The `sweep` over the block is computed unless it is given.
    """
    r = np.concatenate([view.r, view.beside]) if len(view.beside) else view.r
    sweep = sweep_block(block, r, view.h, view.centred) if sweep is None else sweep
    if len(view.beside):
        explained = (sweep.g[len(view.r) :] ** 2).sum(axis=0)
        sweep = replace(sweep, g=sweep.g[: len(view.r)], d=np.maximum(sweep.d - explained, 0))
    ids = block.ids.astype(np.int64)
    score = _with_awaited(view, ids, _scores(sweep.g, sweep.d, view.ridge))
    return ScoredBlock(block, sweep, np.where(sweep.norm > 0, score, USELESS), ~np.isin(ids, view.ids))


def _with_awaited(view: SetView, ids: NDArray[np.int64], score: Floats) -> Floats:
    """Return scores of columns, which are infinite for columns to keep that are not in the set yet."""
    return np.where(np.isin(ids, view.awaited), np.inf, score) if len(view.awaited) else score


def _score_again(before: ScoredBlock, view: SetView) -> ScoredBlock:
    """Score a block again after the selected set has changed, except columns far below the threshold."""
    block, sweep, score, is_new = before
    score = score.copy()
    near = np.flatnonzero(is_new & (score > view.threshold / 2))
    score[near] = _scores(gradients(block, near, sweep, view.r), sweep.d[near], view.ridge)
    return ScoredBlock(block, sweep, score, is_new & ~np.isin(block.ids.astype(np.int64), view.ids))


def nominate(rejected: RejectedColumns, view: SetView, scored: ScoredBlock, n_select: int) -> Candidates | None:
    """Return the best columns of a block above the threshold, or None, and add all other columns to `rejected`.

    Columns to keep that are not in the set yet are all nominated.
    """
    block, sweep, score, is_new = scored
    most = max(min(len(block.ids) // _SHARE, max_candidates(n_select)), _LEAST_CANDIDATES, view.room)
    most += int(np.isposinf(score).sum())
    best = np.flatnonzero(is_new & (score > view.threshold))
    if len(best) > most:
        best = np.sort(best[np.argsort(-score[best], kind="stable")[:most]])
    others = is_new.copy()
    others[best] = False
    rejected.add(block.ids[others].astype(np.int64), score[others], n_select)
    if not len(best):
        return None
    return Candidates(view.version, take_columns(block, best, sweep, view.r.dtype), score[best], sweep.d[best])


def combine_candidates(
    parts: Sequence[Candidates], rejected: RejectedColumns, view: SetView, n_select: int
) -> Candidates:
    """Return the best columns of several nominations, scored again, and add all other columns to `rejected`."""
    columns, d = UnitColumns.join([part.columns for part in parts]), np.concatenate([part.d for part in parts])
    score = _scores(np.hstack([products(part.columns.X, view.r) for part in parts]), d, view.ridge)
    score = _with_awaited(view, columns.ids, score)
    best = np.sort(np.argsort(-score, kind="stable")[: max(_LEAST_CANDIDATES, view.room) + len(view.awaited)])
    best = best[(score[best] > view.threshold) & ~np.isin(columns.ids[best], view.ids)]
    others = np.setdiff1d(np.arange(len(score)), best)
    rejected.add(columns.ids[others], score[others], n_select)
    return Candidates(view.version, columns.take(best), score[best], d[best])


def accept(selected: SelectedSet, candidates: Candidates, n_select: int) -> int:
    """Let candidates that still lower the loss enter the selected set, and return how many candidates stay."""
    columns, score = candidates.columns, candidates.score
    before, is_full = selected.held.ids.copy(), len(selected.features) >= n_select
    keep = ~np.isin(columns.ids, before)
    if candidates.version != selected.version and keep.any():
        score = _scores(products(columns.X, selected.r), selected.curvature_of(columns), selected.ridge)
        if is_full:
            keep &= (score > selected.threshold) | np.isin(columns.ids, selected.awaited)
    n_entered = 0
    if keep.any():
        n_entered = selected.enter(columns if keep.all() else columns.take(keep), n_select)
    if n_entered:
        selected.settle()
        selected.version += 1
    held = selected.held.ids
    selected.rejected.remove(held)
    scores = dict(zip(columns.ids.tolist(), score.tolist(), strict=True))
    out = np.setdiff1d(np.concatenate([columns.ids, before]), held)
    out_scores = np.array([scores.get(feature, selected.threshold) for feature in out.tolist()])
    selected.rejected.add(out, out_scores, n_select)
    return n_entered


def any_nominee(selected: SelectedSet, sweep: Sweep, n_select: int) -> bool:
    """Return whether a column of a block, given its `Sweep`, may enter the set; False is certain, and found quickly."""
    threshold = selected.threshold if len(selected.features) >= n_select else 0.0
    return bool((_scores(sweep.g, sweep.d, selected.ridge) > threshold).any())


def update_set(selected: SelectedSet, block: AnyColumns, n_select: int, sweep: Sweep | None = None) -> int:
    """Nominate and accept columns of a block, twice if the selected set changes; return how many have entered."""
    view, rejected = view_set(selected, n_select), RejectedColumns()
    scored = score_block(view, block, sweep)
    candidates = nominate(rejected, view, scored, n_select)
    n_entered = 0 if candidates is None else accept(selected, candidates, n_select)
    if n_entered:
        view, rejected = view_set(selected, n_select), RejectedColumns()
        candidates = nominate(rejected, view, _score_again(scored, view), n_select)
        n_entered += 0 if candidates is None else accept(selected, candidates, n_select)
    selected.rejected.add(rejected.ids, rejected.scores, n_select)
    return n_entered


def merge_sets(sets: Sequence[SelectedSet], n_select: int) -> None:
    """Let the columns of several selected sets enter the first of these sets."""
    selected = sets[0]
    for other in sets[1:]:
        is_new = ~np.isin(other.held.ids, selected.held.ids)
        if is_new.any():
            selected.enter(other.held.take(is_new), n_select)
            selected.settle()
        out = np.setdiff1d(other.held.ids, selected.held.ids)
        selected.rejected.add(out, np.full(len(out), selected.threshold), n_select)
        selected.rejected.add(other.rejected.ids, other.rejected.scores, n_select)
        selected.version = max(selected.version, other.version)
    selected.rejected.remove(selected.held.ids)
    selected.version += 1
