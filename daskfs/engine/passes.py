"""The loop over passes and blocks.

A `SelectionRun` holds the position of a selection run, its costs, its checkpoint and its listener. Passes are carried
out by a `PassRunner`, which is a `SerialRunner` in this process or another class on a Dask cluster.
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

from daskfs.engine.checkpoint import Checkpoint, PassCost, Snapshot
from daskfs.engine.events.listener import RunListener
from daskfs.engine.events.messages import Spent
from daskfs.engine.events.meter import Meter
from daskfs.engine.shards import fold_shard, merge_states, merge_tree, revisit_columns, rounds_of
from daskfs.protocol import Algorithm, Axis, Preview, State
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


class PassRunner(Protocol):
    """Interface of classes that carry out the passes of a selection run."""

    def run_pass(self, state: State, position: int, run: SelectionRun) -> State:
        """Return the state after all blocks from number `position` on have been folded into the state.

        After every block or round of blocks the runner calls ``if run.advance(position): run.save(state)``, which
        reports the progress and saves checkpoints.
        """

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        """Fold the columns `ids` into the state once more. Return the state and the bytes of these columns."""


class SelectionRun:
    """One run of an algorithm over a dataset.

    Parameters
    ----------
    dataset, algorithm
        The dataset to read, and the resolved algorithm.
    snapshot
        Where the run begins: at the start, or at a checkpoint.
    checkpoint
        The file where snapshots are saved, or None.
    progress
        Called with a `PassProgress` after every block or round.
    listener
        Sends events about the run.
    """

    def __init__(
        self,
        dataset: Dataset,
        algorithm: Algorithm,
        snapshot: Snapshot,
        checkpoint: Checkpoint | None = None,
        progress: Callable[[PassProgress], None] | None = None,
        listener: RunListener | None = None,
    ) -> None:
        self.snapshot, self._dataset, self._algorithm = snapshot, dataset, algorithm
        self.listener = listener or RunListener(dataset, algorithm)
        self._checkpoint, self._progress = checkpoint, progress
        self._bytes = np.concatenate([[0], np.cumsum(dataset.block_sizes(algorithm.axis))])
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
            self._run_pass(runner)
        if self.snapshot.stage == "revisit":
            self._revisit(runner)
        return self.snapshot

    def advance(self, position: int) -> bool:
        """Record how many blocks of the pass are done. Return whether the state should be saved now."""
        self.snapshot.position = position
        self._update_cost()
        progress = self._pass_progress()
        self.listener.progress(progress)
        if self._progress is not None:
            self._progress(progress)
        at_end = position == len(self._bytes) - 1  # where a checkpoint is written anyway
        return self._checkpoint is not None and not at_end and self._checkpoint.is_due()

    def note_work(self, workers: int, spent: Spent, has_centre: bool = False) -> None:
        """Record the time and bytes that the workers of a cluster have spent on the current pass so far."""
        self.cost.workers, self.cost.spent, self.cost.has_centre = workers, spent, has_centre

    def save(self, state: State) -> None:
        """Write a checkpoint of the state at the current position."""
        if self._checkpoint is not None:
            began, now = monotonic(), self.snapshot
            self._checkpoint.write(Snapshot(state, now.n_shards, now.schedule, now.stage, now.position, now.costs))
            self.listener.checkpoint(monotonic() - began)

    def _run_pass(self, runner: PassRunner) -> None:
        now = self.snapshot
        self._started = monotonic() - self.cost.seconds
        state = runner.run_pass(self._hand_over_state(), now.position, self)
        before, began = self._preview(state), monotonic()
        now.state, go_on = self._algorithm.end_pass(state)
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
        nbytes, ids = 0, self._algorithm.revisit(self.snapshot.state)
        if len(ids):
            self.snapshot.state, nbytes = runner.revisit(self._hand_over_state(), ids, self)
        self.cost.seconds, self.cost.bytes = monotonic() - self._started, nbytes
        self.snapshot.stage = "finished"
        self.save(self.snapshot.state)

    def _hand_over_state(self) -> State:
        """Return the state and drop the stored reference, so that a runner can free the state when it is replaced."""
        state, self.snapshot.state = self.snapshot.state, None
        return state

    def _update_cost(self) -> None:
        self.cost.seconds, self.cost.bytes = monotonic() - self._started, int(self._bytes[self.snapshot.position])

    def _preview(self, state: State) -> Preview | None:
        """Return a preview of the selected set, or None if nobody receives previews or if the preview fails."""
        with suppress(Exception):
            limit = self._algorithm.n_select or _ALL  # some algorithms hold more candidates than they select
            return self._algorithm.preview(state, limit) if self._progress or self.listener.run else None
        return None

    def _count_changes(self, before: Preview | None, after: Preview | None) -> float:
        """Return the algorithm's own count of changes in a pass, or else the number of features new in the preview."""
        features = set() if after is None else set(after.features.tolist())
        new, self._last_features = float(len(features - self._last_features)), features
        if before is not None and not isnan(before.changes):
            return before.changes
        return nan if after is None else new

    def _pass_progress(self) -> PassProgress:
        columns = self._algorithm.axis == "columns"
        return PassProgress(
            number=self.snapshot.passes + 1,
            passes=self._algorithm.passes,
            blocks_done=self.snapshot.position,
            blocks=len(self._bytes) - 1,
            bytes_done=self.cost.bytes,
            bytes=int(self._bytes[-1]),
            axis=self._algorithm.axis,
            items=self._dataset.n_features if columns else self._dataset.n_samples,
            seconds=self.cost.seconds,
            objective=self._last_preview.objective if self._last_preview else nan,
            changes=self._last_changes,
        )


class SerialRunner:
    """Carries out passes in this process: block by block, or shard by shard to repeat the result of a cluster."""

    def __init__(self, dataset: Dataset, algorithm: Algorithm, n_shards: int = 1) -> None:
        self._dataset, self._algorithm, self._n_shards = dataset, algorithm, n_shards

    def run_pass(self, state: State, position: int, run: SelectionRun) -> State:
        """Carry out a pass; see `PassRunner.run_pass`."""
        if self._n_shards > 1:
            return self._run_shards(state, position, run)
        axis = self._algorithm.axis
        for block in self._dataset.blocks(range(position, self._dataset.n_blocks(axis)), axis):
            state = self._algorithm.update(state, block)
            position += 1
            if run.advance(position):
                run.save(state)
        return state

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        """Fold the columns `ids` into the state once more; see `PassRunner.revisit`."""
        meter = Meter()
        return revisit_columns(self._algorithm, self._dataset, ids, state, meter), meter.total.bytes

    def _run_shards(self, state: State, position: int, run: SelectionRun) -> State:
        sizes, merges = self._dataset.block_sizes(self._algorithm.axis), self._algorithm.sharing.min_merges_per_pass
        fold, merge = partial(fold_shard, meter=Meter()), partial(merge_states, self._algorithm)
        for shards in rounds_of(sizes, self._n_shards, merges, position):
            state = merge_tree([fold(self._algorithm, self._dataset, blocks, state) for blocks in shards], merge)
            if run.advance(shards[-1].stop):
                run.save(state)
        return state
