"""An algorithm that counts blocks; it has no kernels, which workers would load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import AsynchronousAlgorithm, Block, ColumnBlock, Meta, Result, Schedule, Sharing, State


@dataclass
class Counted:
    """The state of `Counting`: an array of the size of a real state, and how often each block was folded in."""

    filler: NDArray[np.float32]
    blocks: NDArray[np.float32]
    version: int = 0
    passes: int = 0
    offers: int = 0
    objectives: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass
class View:
    """What a worker gets from the centre."""

    number: int
    filler: NDArray[np.float32]


@dataclass(frozen=True)
class Counting(AsynchronousAlgorithm):
    """Counts blocks, with states, offers and merges of a given size: a block that is lost or counted twice shows."""

    axis = "columns"

    n_select: int = 1
    passes: int = 2
    schedule: Schedule = Schedule.SYNCHRONOUS
    n_blocks: int = 1
    merges: int = 10
    state_bytes: int = 0
    offer_bytes: int = 0

    @property
    def sharing(self) -> Sharing:
        return Sharing(self.schedule, min_merges_per_pass=self.merges)

    def start(self, meta: Meta, seed: int) -> State:
        return Counted(np.zeros(self.state_bytes // 4, np.float32), np.zeros(self.n_blocks, np.float32))

    def update(self, state: State, block: Block) -> State:
        assert isinstance(block, ColumnBlock)
        state.blocks[block.ids] = state.passes + 1
        return state

    def merge(self, states: Sequence[State]) -> State:
        filler = np.maximum.reduce([state.filler for state in states])
        blocks = np.maximum.reduce([state.blocks for state in states])
        return Counted(filler, blocks, states[0].version, states[0].passes, 0, states[0].objectives)

    def view(self, state: State, worker: int) -> State:
        return View(state.passes + 1, state.filler)

    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State | None, State | None]:
        assert isinstance(block, ColumnBlock)
        return None, Counted(np.zeros(self.offer_bytes // 4, np.float32), block.ids.astype(np.float32), view.number)

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        return Counted(later.filler, np.concatenate([offer.blocks, later.blocks]), later.version)

    def accept(self, state: State, offer: State) -> State:
        state.blocks[offer.blocks.astype(int)] = offer.version
        state.version += 1
        state.offers += 1
        return state

    def held_features(self, state: State) -> NDArray[np.uint64]:
        """Return the blocks counted in this pass, which a new centre would otherwise not know of."""
        return np.flatnonzero(state.blocks == state.passes + 1).astype(np.uint64)

    def end_pass(self, state: State) -> tuple[State, bool]:
        state.passes += 1
        state.objectives = np.append(state.objectives, float((state.blocks == state.passes).sum()))
        state.objectives = np.append(state.objectives, float(state.offers))
        state.offers = 0
        return state, state.passes < self.passes

    def result(self, state: State) -> Result:
        counts, offers = state.objectives[::2].tolist(), state.objectives[1::2].tolist()
        history = [{"objective": count, "offers": n_offers} for count, n_offers in zip(counts, offers, strict=True)]
        return Result(np.zeros(1, np.uint64), np.ones(1), np.zeros(1), None, history)

    def nbytes(self, meta: Meta) -> int:
        return self.state_bytes

    def driver_nbytes(self, meta: Meta) -> int:
        return 0
