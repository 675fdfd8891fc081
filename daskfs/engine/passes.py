"""The loop over passes: a `SelectionRun`, whose passes are carried out by a `PassRunner`, here or on a Dask cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, nan
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.checkpoint import Checkpoint, PassCost, Snapshot
from daskfs.engine.events.listener import RunListener
from daskfs.engine.events.messages import Event, Meter, Spent
from daskfs.engine.shards import fold_blocks, merge_states, merge_tree, rounds_of
from daskfs.protocol import Algorithm, Axis, Preview, State, copy_state
from daskfs.store.dataset.dataset import Dataset

_ALL = 1 << 20  # more features than a selected set has


@dataclass(frozen=True, slots=True)
class PassProgress:
    """The progress of a pass, as a progress bar shows it."""

    number: int
    """The number of the pass, counted from 1."""
    passes: int | None
    """The maximum number of passes; None if the number is not known beforehand."""
    blocks_done: int
    blocks: int
    bytes_done: int
    bytes: int
    axis: Axis
    items: int
    """How many rows a pass reads, or how many columns if the algorithm streams columns."""
    seconds: float
    objective: float = nan
    """The objective after the previous pass; NaN in the first pass, or if the algorithm has no objective."""
    changes: float = nan
    """How many features entered the selected set in the previous pass."""


class PassRunner(ABC):
    """Base class of classes that carry out the passes of a selection run."""

    def __init__(self, run: SelectionRun) -> None:
        self._run, self._dataset, self._algorithm = run, run.dataset, run.algorithm
        self._n_shards, self._sizes = run.snapshot.n_shards, run.dataset.block_sizes(run.algorithm.axis)

    @abstractmethod
    def run_pass(self, state: State, position: int) -> State:
        """Return the state after all blocks from number `position` on have been folded into the state.

        After every block or round of blocks the runner calls ``if run.advance(position): run.save(state)``, which
        reports the progress and saves checkpoints.
        """

    @abstractmethod
    def fold_columns(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, Spent]:
        """Fold the columns `ids` into the state. Return the new state, the seconds taken and the bytes read."""

    def close(self) -> None:  # noqa: B027  # nothing, in this process
        """Release what the runner holds on a cluster; to be called when the selection run ends."""


@dataclass
class SelectionRun:
    """One run of an algorithm over a dataset: its position, costs, checkpoint and events."""

    dataset: Dataset
    algorithm: Algorithm
    """The algorithm, resolved for the dataset."""
    snapshot: Snapshot
    """The state and position of the run, at first those of the start or of a checkpoint."""
    checkpoint: Checkpoint | None = None
    progress: Callable[[PassProgress], None] | None = None
    """Called after every block or round of blocks."""
    send: Callable[[Event], None] | None = None
    """Sends an event; None if events are turned off."""

    def __post_init__(self) -> None:
        self.listener = RunListener(self.dataset, self.algorithm, self.send)
        self._bytes = np.concatenate([[0], np.cumsum(self.dataset.block_sizes(self.algorithm.axis))])
        self._started = 0.0
        self._last_preview: Preview | None = None
        self._last_changes = nan
        self._last_features: set[int] = set()

    @property
    def cost(self) -> PassCost:
        """The seconds and bytes that the current pass has taken so far."""
        return self.snapshot.costs[-1]

    def finish(self, runner: PassRunner) -> Snapshot:
        """Carry out all remaining passes, then fold in the columns to revisit, and return the final snapshot."""
        while self.snapshot.stage == "passes":
            if self.snapshot.position == 0:
                self._fold_columns(runner, self.algorithm.visit_first(self.snapshot.state))
            self._run_pass(runner)
        if self.snapshot.stage == "revisit":
            self._revisit(runner)
        return self.snapshot

    def advance(self, position: int) -> bool:
        """Record how many blocks of the pass are done. Return whether the state should be saved now."""
        self.snapshot.position = position
        self._update_cost()
        is_in_columns, last = self.algorithm.axis == "columns", self._last_preview
        number, most = self.snapshot.passes + 1, self.algorithm.max_reads
        now = PassProgress(
            number=number,
            passes=None if most is None else max(number, most),  # several workers may need more
            blocks_done=position,
            blocks=len(self._bytes) - 1,
            bytes_done=int(self._bytes[position]),
            bytes=int(self._bytes[-1]),
            axis=self.algorithm.axis,
            items=self.dataset.n_features if is_in_columns else self.dataset.n_samples,
            seconds=self.cost.seconds,
            objective=last.objective if last else nan,
            changes=self._last_changes,
        )
        self.listener.progress(now)
        if self.progress is not None:
            self.progress(now)
        # At the end of a pass a checkpoint is written anyway.
        return self.checkpoint is not None and position < len(self._bytes) - 1 and self.checkpoint.is_due()

    def note_work(self, workers: int, spent: Spent, has_centre: bool = False) -> None:
        """Record the time and bytes that the workers of a cluster have spent on the current pass so far."""
        self.cost.workers, self.cost.spent, self.cost.has_centre = workers, spent, has_centre

    def save(self, state: State) -> None:
        """Write a checkpoint of the state at the current position."""
        if self.checkpoint is not None:
            began = monotonic()
            self.checkpoint.write(replace(self.snapshot, state=state))
            self.listener.checkpoint(monotonic() - began)

    def _run_pass(self, runner: PassRunner) -> None:
        now = self.snapshot
        self._started = monotonic() - self.cost.seconds
        state = runner.run_pass(self._hand_over_state(), now.position)
        before, began = self._preview(state), monotonic()
        now.state, go_on = self.algorithm.end_pass(state)
        self.cost.closing = monotonic() - began
        now.position = len(self._bytes) - 1
        self._update_cost()
        self._last_preview = self._preview(now.state)
        self._last_changes = self._count_changes(before, self._last_preview)
        self.listener.pass_ended(self.cost, len(now.costs), self._last_changes, before, self._last_preview)
        now.costs.append(PassCost())
        now.position, now.stage = 0, "passes" if go_on else "revisit"
        self.save(now.state)

    def _revisit(self, runner: PassRunner) -> None:
        self._started = monotonic()
        spent = self._fold_columns(runner, self.algorithm.revisit(self.snapshot.state))
        self.cost.seconds, self.cost.bytes = monotonic() - self._started, nan if isnan(spent.busy) else spent.bytes
        self.snapshot.stage = "finished"
        self.save(self.snapshot.state)

    def _fold_columns(self, runner: PassRunner, ids: NDArray[np.uint64]) -> Spent:
        if not len(ids):
            return Spent()
        self.snapshot.state, spent = runner.fold_columns(self._hand_over_state(), ids)
        return spent

    def _hand_over_state(self) -> State:
        """Return the state and drop the stored reference, so that a runner can free the state when it is replaced."""
        state, self.snapshot.state = self.snapshot.state, None
        return state

    def _update_cost(self) -> None:
        self.cost.seconds, self.cost.bytes = monotonic() - self._started, int(self._bytes[self.snapshot.position])

    def _preview(self, state: State) -> Preview | None:
        """Return a preview of the selected set, or None if the algorithm fails to compute a preview.

        Without a progress callback and without events there is no use for a preview, so that the result is None, too.
        """
        if self.progress is not None or self.send is not None:
            with suppress(Exception):
                limit = self.algorithm.n_select or _ALL  # some algorithms hold more candidates than they select
                return self.algorithm.preview(state, limit)
        return None

    def _count_changes(self, before: Preview | None, after: Preview | None) -> float:
        """Return the algorithm's own count of changes in a pass, or else the number of features new in the preview."""
        features = set() if after is None else set(after.features.tolist())
        new, self._last_features = float(len(features - self._last_features)), features
        if before is not None and not isnan(before.changes):
            return before.changes
        return nan if after is None else new


class SerialRunner(PassRunner):
    """Carries out passes in this process: block by block, or shard by shard to repeat the result of a cluster."""

    def run_pass(self, state: State, position: int) -> State:
        if self._n_shards > 1:
            return self._run_shards(state, position)
        axis = self._algorithm.axis
        for block in self._dataset.blocks(range(position, self._dataset.n_blocks(axis)), axis):
            state = self._algorithm.update(state, block)
            position += 1
            if self._run.advance(position):
                self._run.save(state)
        return state

    def fold_columns(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, Spent]:
        meter = Meter()
        return fold_blocks(self._algorithm, state, self._dataset.columns(ids), meter), meter.total

    def _run_shards(self, state: State, position: int) -> State:
        for shards in rounds_of(self._sizes, self._n_shards, self._algorithm.sharing.min_merges_per_pass, position):
            parts = (self._dataset.blocks(blocks, self._algorithm.axis) for blocks in shards)
            states = [fold_blocks(self._algorithm, copy_state(state), blocks, Meter()) for blocks in parts]
            state = merge_tree(states, partial(merge_states, self._algorithm))
            if self._run.advance(shards[-1].stop):
                self._run.save(state)
        return state
