"""Algorithms small enough to read at a glance, for tests of the engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import (
    Algorithm,
    AsynchronousAlgorithm,
    Axis,
    Block,
    ColumnBlock,
    Meta,
    Result,
    RowBlock,
    Schedule,
    Sharing,
    SparseBlock,
    State,
    copy_state,
)


@dataclass
class Norms:
    norms: NDArray[np.float64]


@dataclass(frozen=True)
class LargestColumns(Algorithm):
    """Selects the columns of largest norm: the least an algorithm can be."""

    axis = "columns"

    n_select: int
    passes: int = 1

    @property
    def sharing(self) -> Sharing:
        return Sharing(Schedule.SYNCHRONOUS, min_merges_per_pass=10)

    def start(self, meta: Meta, seed: int) -> State:
        return Norms(np.zeros(meta.n_features))

    def update(self, state: State, block: Block) -> State:
        assert isinstance(block, ColumnBlock)
        state.norms[block.ids] = np.linalg.norm(block.X, axis=0)
        return state

    def merge(self, states: Sequence[State]) -> State:
        return Norms(np.maximum.reduce([state.norms for state in states]))

    def end_pass(self, state: State) -> tuple[State, bool]:
        return state, False

    def result(self, state: State) -> Result:
        best = np.argsort(-state.norms)[: self.n_select]
        return Result(best.astype(np.uint64), state.norms[best], np.zeros(1), None, [{"objective": 0.0}])

    def nbytes(self, meta: Meta) -> int:
        return 8 * meta.n_features


@dataclass
class TangledState:
    """All kinds of values that a state may have."""

    memory: NDArray[np.float64]
    scores: NDArray[np.float64]
    objectives: NDArray[np.float32]
    shards: int = 1
    blocks: int = 0
    fresh: int = 0
    rate: float = 0.9
    is_merged: bool = False
    motto: str = "a ≠ b"
    nothing: NDArray[np.float64] | None = None
    sizes: list[int] = field(default_factory=lambda: [1, 2])


@dataclass(frozen=True)
class Tangled(Algorithm):
    """Selects nothing sensible, but a lost, repeated or misplaced block or pass changes every number it gives.

    Its state has all kinds of values a state may have. `merge` is associative, as a tree of merges needs it:
    a merged state knows how many it stands for until the next block is folded into it.
    """

    n_select: int = 3
    passes: int = 3
    axis: Axis = "columns"
    schedule: Schedule = Schedule.SYNCHRONOUS
    min_bytes_per_merge: int = 0
    min_merges_per_pass: int = 10
    revisits: bool = False
    seconds: float = 0.0
    """To sleep over a block, so that a test can strike in the middle."""

    @property
    def sharing(self) -> Sharing:
        return Sharing(self.schedule, self.min_merges_per_pass, self.min_bytes_per_merge)

    def start(self, meta: Meta, seed: int) -> State:
        rng = np.random.default_rng(seed)
        memory = rng.normal(size=meta.n_samples if self.axis == "columns" else meta.n_features)
        return TangledState(memory, np.asfortranarray(np.zeros((meta.n_features, 2))), np.empty(0, np.float32))

    def update(self, state: State, block: Block) -> State:
        time.sleep(self.seconds)
        if state.is_merged:
            state.blocks, state.fresh, state.shards, state.is_merged = state.blocks + state.fresh, 0, 1, False
        state.fresh += 1
        X, ids = _cells(block, len(state.scores))
        if self.axis == "rows":
            X = X.T  # what is said of rows here, is said of columns there
        state.memory *= state.rate
        state.memory += X.sum(axis=1)
        if self.axis == "rows":
            state.scores[:, 0] += state.memory * (X @ X.sum(axis=0))
        else:
            state.scores[ids, 0] += X.T @ state.memory
        state.scores[:, 1] = 0.5 * state.scores[:, 1] + state.scores[:, 0]
        return state

    def merge(self, states: Sequence[State]) -> State:
        shards = sum(state.shards for state in states)
        merged = copy_state(states[0])
        for name in ("memory", "scores"):
            mean = getattr(merged, name)
            mean *= states[0].shards / shards
            for other in states[1:]:
                mean += getattr(other, name) * (other.shards / shards)
        merged.shards, merged.fresh, merged.is_merged = shards, sum(state.fresh for state in states), True
        return merged

    def end_pass(self, state: State) -> tuple[State, bool]:
        state.objectives = np.append(state.objectives, np.float32(state.scores.sum()))
        state.memory = np.roll(state.memory, 1)
        return state, len(state.objectives) < self.passes

    def revisit(self, state: State) -> NDArray[np.uint64]:
        return self._best(state)[:2] if self.revisits else np.empty(0, np.uint64)

    def result(self, state: State) -> Result:
        best = self._best(state)
        values = [*state.objectives, *([state.scores.sum()] if self.revisits else [])]
        history = [{"objective": float(value), "blocks": state.blocks + state.fresh} for value in values]
        return Result(best, state.scores[best, 1], state.memory[:1], None, history)

    def nbytes(self, meta: Meta) -> int:
        return 8 * (2 * meta.n_features + max(meta.n_samples, meta.n_features))

    def _best(self, state: State) -> NDArray[np.uint64]:
        return np.argsort(-np.abs(state.scores[:, 1]), kind="stable")[: self.n_select].astype(np.uint64)


def _cells(block: Block, p: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The cells of any block, and which columns they are of."""
    if isinstance(block, SparseBlock):
        cells = np.zeros((len(block.y), p))
        cells[np.repeat(np.arange(len(block.y)), np.diff(block.indptr)), block.ids] = block.values
        return cells, np.arange(p)
    if isinstance(block, RowBlock):
        return block.X.astype(np.float64), np.arange(p)
    assert isinstance(block, ColumnBlock)
    return block.X.astype(np.float64), block.ids.astype(np.int64)


@dataclass
class Counts:
    """The state of a `Census`."""

    counted: NDArray[np.float64]
    counted_in: NDArray[np.int64]
    target: float = np.nan
    passes: int = 0
    version: int = 0
    applied: int = 0
    objectives: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    applications: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass
class CensusView:
    number: int
    target: float


@dataclass
class Columns:
    """Counted columns of a pass: an offer, and a worker's own state."""

    number: int
    ids: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Census(AsynchronousAlgorithm):
    """Counts every column once in every pass, around a centre; a contribution lost or wrongly applied shows.

    Contributions are absolute and carry the number of their pass, so they may come late, twice and in any order, and
    the result is that of the plain loop to the last bit. Columns of every other block are gathered until a worker is
    asked for the rest.
    """

    n_select: int = 3
    passes: int = 2
    seconds: float = 0.0
    """For a worker to sleep over a block, so that a test can strike in the middle."""
    axis = "columns"

    @property
    def sharing(self) -> Sharing:
        return Sharing(Schedule.ASYNCHRONOUS, min_merges_per_pass=10)

    def start(self, meta: Meta, seed: int) -> State:
        return Counts(np.zeros(meta.n_features), np.zeros(meta.n_features, np.int64))

    def update(self, state: State, block: Block) -> State:
        state.target = float(block.y.sum())
        return self.accept(state, self._count(self.view(state, 0), block))

    def view(self, state: State, worker: int) -> State:
        return CensusView(state.passes + 1, state.target)

    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State, State | None]:
        own = Columns(0, np.empty(0, np.int64), np.empty(0)) if own is None else own
        time.sleep(self.seconds)
        counted = self._count(view, block)
        if counted.ids[0] // len(counted.ids) % 2:
            return own, counted
        return (self.combine_offers(own, counted, view) if own.number == view.number else counted), None

    def _count(self, view: State, block: Block) -> State:
        assert isinstance(block, ColumnBlock)
        positive = (block.X > 0).sum(axis=0)  # exact, whichever columns it is asked of at once
        return Columns(view.number, block.ids.astype(np.int64), positive * view.number + view.target)

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        if offer.number < later.number:
            return later
        ids, values = (np.concatenate([getattr(one, name) for one in (offer, later)]) for name in ("ids", "values"))
        return Columns(later.number, ids, values)

    def remaining_offer(self, own: State) -> State | None:
        left = copy_state(own) if len(own.ids) else None
        own.ids, own.values = own.ids[:0], own.values[:0]
        return left

    def accept(self, state: State, offer: State) -> State:
        ids, which = np.unique(offer.ids, return_index=True)
        new = state.counted_in[ids] < offer.number
        ids, values = ids[new], offer.values[which][new]
        state.counted[ids], state.counted_in[ids] = values, offer.number
        state.applied += len(ids)
        state.version += bool(len(ids))
        return state

    def held_features(self, state: State) -> NDArray[np.uint64]:
        return np.flatnonzero(state.counted_in > state.passes).astype(np.uint64)

    def merge(self, states: Sequence[State]) -> State:
        raise AssertionError("nobody waits here")

    def end_pass(self, state: State) -> tuple[State, bool]:
        state.passes += 1
        state.objectives = np.append(state.objectives, state.counted.sum())
        state.applications = np.append(state.applications, state.applied)
        return state, state.passes < self.passes

    def result(self, state: State) -> Result:
        best = np.argsort(-np.abs(state.counted), kind="stable")[: self.n_select].astype(np.uint64)
        rows = zip(state.objectives.tolist(), state.applications.tolist(), strict=True)
        history = [{"objective": objective, "applied": applied} for objective, applied in rows]
        return Result(best, state.counted[best], np.zeros(1), None, history)

    def nbytes(self, meta: Meta) -> int:
        return 16 * meta.n_features

    def driver_nbytes(self, meta: Meta) -> int:
        return 0
