"""Algorithms small enough to read at a preview, for tests of the engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

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
        return {"norms": np.zeros(meta.n_features)}

    def update(self, state: State, block: Block) -> State:
        assert isinstance(block, ColumnBlock)
        state["norms"][block.ids] = np.linalg.norm(block.X, axis=0)
        return state

    def merge(self, states: Sequence[State]) -> State:
        return {"norms": np.maximum.reduce([state["norms"] for state in states])}

    def end_pass(self, state: State) -> tuple[State, bool]:
        return state, False

    def result(self, state: State) -> Result:
        best = np.argsort(-state["norms"])[: self.n_select]
        return Result(best.astype(np.uint64), state["norms"][best], np.zeros(1), None, [{"objective": 0.0}])

    def nbytes(self, meta: Meta) -> int:
        return 8 * meta.n_features


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
        return {
            "memory": rng.normal(size=meta.n_samples if self.axis == "columns" else meta.n_features),
            "scores": np.asfortranarray(np.zeros((meta.n_features, 2))),
            "objectives": np.empty(0, np.float32),
            "lanes": 1,
            "blocks": 0,
            "fresh": 0,
            "rate": 0.9,
            "is_merged": False,
            "motto": "a ≠ b",
        }

    def update(self, state: State, block: Block) -> State:
        time.sleep(self.seconds)
        if state["is_merged"]:
            state |= {"blocks": state["blocks"] + state["fresh"], "fresh": 0, "lanes": 1, "is_merged": False}
        state["fresh"] += 1
        X, ids = _cells(block, len(state["scores"]))
        if self.axis == "rows":
            X = X.T  # what is said of rows here, is said of columns there
        state["memory"] *= state["rate"]
        state["memory"] += X.sum(axis=1)
        if self.axis == "rows":
            state["scores"][:, 0] += state["memory"] * (X @ X.sum(axis=0))
        else:
            state["scores"][ids, 0] += X.T @ state["memory"]
        state["scores"][:, 1] = 0.5 * state["scores"][:, 1] + state["scores"][:, 0]
        return state

    def merge(self, states: Sequence[State]) -> State:
        lanes = sum(state["lanes"] for state in states)
        merged = copy_state(states[0])
        for name in ("memory", "scores"):
            merged[name] *= states[0]["lanes"] / lanes
            for other in states[1:]:
                merged[name] += other[name] * (other["lanes"] / lanes)
        return merged | {"lanes": lanes, "fresh": sum(state["fresh"] for state in states), "is_merged": True}

    def end_pass(self, state: State) -> tuple[State, bool]:
        state["objectives"] = np.append(state["objectives"], np.float32(state["scores"].sum()))
        state["memory"] = np.roll(state["memory"], 1)
        return state, len(state["objectives"]) < self.passes

    def revisit(self, state: State) -> NDArray[np.uint64]:
        return self._best(state)[:2] if self.revisits else np.empty(0, np.uint64)

    def result(self, state: State) -> Result:
        best = self._best(state)
        values = [*state["objectives"], *([state["scores"].sum()] if self.revisits else [])]
        history = [{"objective": float(value), "blocks": state["blocks"] + state["fresh"]} for value in values]
        return Result(best, state["scores"][best, 1], state["memory"][:1], None, history)

    def nbytes(self, meta: Meta) -> int:
        return 8 * (2 * meta.n_features + max(meta.n_samples, meta.n_features))

    def _best(self, state: State) -> NDArray[np.uint64]:
        return np.argsort(-np.abs(state["scores"][:, 1]), kind="stable")[: self.n_select].astype(np.uint64)


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
        nothing = np.zeros(meta.n_features)
        state: State = {"counted": nothing, "counted_in": np.zeros(meta.n_features, np.int64), "target": np.nan}
        return state | {"passes": 0, "version": 0, "applied": 0, "objectives": np.empty(0), "applications": np.empty(0)}

    def update(self, state: State, block: Block) -> State:
        state["target"] = float(block.y.sum())
        return self.accept(state, self._found(self.view(state, 0), block))

    def view(self, state: State, lane: int) -> State:
        return {"pass": state["passes"] + 1, "target": state["target"]}

    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State, State | None]:
        own = {} if own is None else own
        time.sleep(self.seconds)
        found = self._found(view, block)
        if found["ids"][0] // len(found["ids"]) % 2:
            return own, found
        if own.get("pass") == view["pass"]:
            found |= {name: np.concatenate([own[name], found[name]]) for name in ("ids", "values")}
        return own | found, None

    def _found(self, view: State, block: Block) -> State:
        assert isinstance(block, ColumnBlock)
        positive = (block.X > 0).sum(axis=0)  # exact, whichever columns it is asked of at once
        ids = block.ids.astype(np.int64)
        return {"pass": view["pass"], "ids": ids, "values": positive * view["pass"] + view["target"]}

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        if offer["pass"] < later["pass"]:
            return later
        return later | {name: np.concatenate([offer[name], later[name]]) for name in ("ids", "values")}

    def remaining_offer(self, own: State) -> State | None:
        left = {name: own.pop(name) for name in ("pass", "ids", "values") if name in own}
        return left or None

    def accept(self, state: State, offer: State) -> State:
        ids, which = np.unique(offer["ids"], return_index=True)
        new = state["counted_in"][ids] < offer["pass"]
        ids, values = ids[new], offer["values"][which][new]
        state["counted"][ids], state["counted_in"][ids] = values, offer["pass"]
        state["applied"] += len(ids)
        state["version"] += bool(len(ids))
        return state

    def held_features(self, state: State) -> NDArray[np.uint64]:
        return np.flatnonzero(state["counted_in"] > state["passes"]).astype(np.uint64)

    def merge(self, states: Sequence[State]) -> State:
        raise AssertionError("nobody waits here")

    def end_pass(self, state: State) -> tuple[State, bool]:
        state["passes"] += 1
        state["objectives"] = np.append(state["objectives"], state["counted"].sum())
        state["applications"] = np.append(state["applications"], state["applied"])
        return state, state["passes"] < self.passes

    def result(self, state: State) -> Result:
        best = np.argsort(-np.abs(state["counted"]), kind="stable")[: self.n_select].astype(np.uint64)
        rows = zip(state["objectives"].tolist(), state["applications"].tolist(), strict=True)
        history = [{"objective": objective, "applied": applied} for objective, applied in rows]
        return Result(best, state["counted"][best], np.zeros(1), None, history)

    def nbytes(self, meta: Meta) -> int:
        return 16 * meta.n_features

    def driver_nbytes(self, meta: Meta) -> int:
        return 0
