"""The loop over passes and blocks, in one process and without Dask; other ways to run a pass plug into it.

A `SelectionRun` knows where it stands, what it has cost, and whom to tell; a `Runner` carries out one pass for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import isnan, nan
from time import monotonic
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.checkpoint import Checkpoint, Cost, Snapshot
from daskfs.engine.events.listener import RunListener
from daskfs.engine.events.meter import Meter
from daskfs.engine.shards import fold_lane, joined, merged, revisited, rounds_of
from daskfs.protocol import Algorithm, Axis, Preview, State
from daskfs.store.dataset.dataset import Dataset

_ALL = 1 << 20  # features of a set, so that its changes can be counted


@dataclass(frozen=True, slots=True)
class PassProgress:
    """How far a pass is: what a progress bar shows."""

    number: int
    """Of the pass, from 1."""
    passes: int | None
    """How many there may be, where the algorithm says so."""
    blocks_done: int
    blocks: int
    bytes_done: int
    bytes: int
    axis: Axis
    items: int
    """Rows or columns, whichever is streamed, of a whole pass."""
    seconds: float
    objective: float = nan
    """After the pass before; NaN where there was none, or the algorithm does not say."""
    changes: float = nan
    """Of the set in the pass before."""


class Runner(Protocol):
    """Someone who can carry out a pass."""

    def one_pass(self, state: State, position: int, run: SelectionRun) -> State:
        """The state with every block from `position` on folded into it.

        The runner tells the run of every block or round it has done, and hands over the state whenever it is asked:
        ``if run.reached(position): run.keep(state)``.
        """

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        """The state with some columns folded into it once more, and how many bytes they had."""


class SelectionRun:
    """One run of an algorithm over a dataset.

    Parameters
    ----------
    dataset, algorithm
        What is run over what.
    now
        Where it begins: at the start, or where a checkpoint was written.
    checkpoint
        Where it is kept, if anywhere.
    progress
        Called with a `PassProgress` after every block or round.
    watch
        Tells others how the run goes.
    """

    def __init__(
        self,
        dataset: Dataset,
        algorithm: Algorithm,
        now: Snapshot,
        checkpoint: Checkpoint | None = None,
        progress: Callable[[PassProgress], None] | None = None,
        watch: RunListener | None = None,
    ) -> None:
        self.now, self._dataset, self._algorithm = now, dataset, algorithm
        self.watch = watch or RunListener(dataset, algorithm)
        self._checkpoint, self._progress = checkpoint, progress
        self._bytes = np.concatenate([[0], np.cumsum(dataset.block_sizes(algorithm.axis))])
        self._started = 0.0
        self._after: Preview | None = None
        self._changes = nan
        self._features: set[int] = set()

    def finish(self, runner: Runner) -> Snapshot:
        """Run to the end: all passes, then the columns to be seen once more."""
        while self.now.stage == "passes":
            self._one_pass(runner)
        if self.now.stage == "revisit":
            self._revisit(runner)
        return self.now

    def reached(self, position: int) -> bool:
        """Note that so many blocks of the pass are done; True if the state should be kept now."""
        self.now.position = position
        self._note_cost()
        told = self._told()
        self.watch.progress(told)
        if self._progress is not None:
            self._progress(told)
        at_end = position == len(self._bytes) - 1  # where a checkpoint follows anyway
        return self._checkpoint is not None and not at_end and self._checkpoint.is_due()

    def note_work(
        self, workers: int, busy: float, merging: float, scheduler: float = 0.0, *, beside: bool = False
    ) -> None:
        """What workers have spent on this pass so far, in seconds (see `Cost`)."""
        cost = self.now.costs[-1]
        cost.workers, cost.busy, cost.merging, cost.scheduler, cost.beside = workers, busy, merging, scheduler, beside

    def keep(self, state: State) -> None:
        """Write a checkpoint of the state, at the position reached last."""
        if self._checkpoint is not None:
            begun = monotonic()
            self._checkpoint.write(Snapshot(state, self.now.lanes, self.now.stage, self.now.position, self.now.costs))
            self.watch.checkpoint(monotonic() - begun)

    def _one_pass(self, runner: Runner) -> None:
        self._started = monotonic() - self.now.costs[-1].seconds
        state = runner.one_pass(self._handed_over(), self.now.position, self)
        before, begun = self._preview(state), monotonic()
        self.now.state, go_on = self._algorithm.end_pass(state)
        self.now.costs[-1].closing = monotonic() - begun
        self.now.position = len(self._bytes) - 1
        self._note_cost()
        self._after = self._preview(self.now.state)
        self._changes = self._changes_of(before, self._after)
        self.watch.closed(self.now.costs[-1], len(self.now.costs), self._changes, before, self._after)
        self.now.costs.append(Cost())
        self.now.position, self.now.stage = 0, "passes" if go_on else "revisit"
        self.keep(self.now.state)

    def _revisit(self, runner: Runner) -> None:
        self._started = monotonic()
        nbytes, ids = 0, self._algorithm.revisit(self.now.state)
        if len(ids):
            self.now.state, nbytes = runner.revisit(self._handed_over(), ids, self)
        cost = self.now.costs[-1]
        cost.seconds, cost.bytes = monotonic() - self._started, nbytes
        self.now.stage = "finished"
        self.keep(self.now.state)

    def _handed_over(self) -> State:
        """The state for someone else to change; not held here, or there would be two while it is replaced."""
        state, self.now.state = self.now.state, None
        return state

    def _note_cost(self) -> None:
        cost = self.now.costs[-1]
        cost.seconds, cost.bytes = monotonic() - self._started, int(self._bytes[self.now.position])

    def _preview(self, state: State) -> Preview | None:
        """What a state shows, if somebody looks; a run does not end because it cannot be watched."""
        asked = self._algorithm.n_select  # some hold more, to choose from
        with suppress(Exception):
            return self._algorithm.preview(state, asked or _ALL) if self._progress or self.watch.run else None
        return None

    def _changes_of(self, before: Preview | None, after: Preview | None) -> float:
        """Changes of the set in a pass: as the algorithm counts them, or features that were not there before it."""
        new = set() if after is None else set(after.features.tolist())
        came, self._features = float(len(new - self._features)), new
        if before is not None and not isnan(before.changes):
            return before.changes
        return nan if after is None else came

    def _told(self) -> PassProgress:
        cost, columns = self.now.costs[-1], self._algorithm.axis == "columns"
        return PassProgress(
            number=self.now.passes + 1,
            passes=self._algorithm.passes,
            blocks_done=self.now.position,
            blocks=len(self._bytes) - 1,
            bytes_done=cost.bytes,
            bytes=int(self._bytes[-1]),
            axis=self._algorithm.axis,
            items=self._dataset.n_features if columns else self._dataset.n_samples,
            seconds=cost.seconds,
            objective=self._after.objective if self._after else nan,
            changes=self._changes,
        )


class SerialRunner:
    """Carries out passes in this process: block by block, or lane by lane as a cluster would have shared them."""

    def __init__(self, dataset: Dataset, algorithm: Algorithm, lanes: int = 1) -> None:
        self._dataset, self._algorithm, self._lanes = dataset, algorithm, lanes

    def one_pass(self, state: State, position: int, run: SelectionRun) -> State:
        if self._lanes > 1:
            return self._in_rounds(state, position, run)
        axis = self._algorithm.axis
        for block in self._dataset.blocks(range(position, self._dataset.n_blocks(axis)), axis):
            state = self._algorithm.update(state, block)
            position += 1
            if run.reached(position):
                run.keep(state)
        return state

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        meter = Meter()
        return revisited(self._algorithm, self._dataset, ids, state, meter), meter.done().bytes

    def _in_rounds(self, state: State, position: int, run: SelectionRun) -> State:
        sizes = self._dataset.block_sizes(self._algorithm.axis)
        for shares in rounds_of(sizes, self._lanes, self._algorithm.sharing.min_merges_per_pass, position):
            lanes = [fold_lane(self._algorithm, self._dataset, numbers, state) for numbers in shares]
            state = joined(lanes, partial(merged, self._algorithm))
            if run.reached(shares[-1].stop):
                run.keep(state)
        return state
