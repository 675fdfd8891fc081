"""Algorithms small enough to read at a glance, for tests of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Block, ColumnBlock, Meta, Result, State


@dataclass(frozen=True)
class LargestColumns:
    """Selects the columns of largest norm: the least an algorithm can be."""

    n_select: int
    axis = "columns"
    schedule = "rounds"

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

    def revisit(self, state: State) -> NDArray[np.uint64]:
        return np.empty(0, np.uint64)

    def nbytes(self, meta: Meta) -> int:
        return 8 * meta.n_features
