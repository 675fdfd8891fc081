"""The centre of an asynchronous pass: a dask actor that owns the state, accepts offers and gives workers views.

The class `Centre` does not use Dask; the module `worker` wraps a `Centre` into a dask actor. If the centre is lost,
`rebuild_state` computes its state again, from the state at the start of the pass and the last reported feature ids.

A worker sends the last offers of a group of blocks to the centre and begins the next group without waiting. A group of
blocks is finished when all offers of the group have arrived at the centre. Reports of the centre list finished groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.events.listener import PREVIEW_EVERY
from daskfs.engine.events.messages import TOP
from daskfs.protocol import AsynchronousAlgorithm, ColumnBlock, Preview, State, copy_state
from daskfs.store.dataset.dataset import Dataset


@dataclass(frozen=True, slots=True)
class CentreReport:
    """A report of the centre actor to the driver, from which the driver can replace a centre actor that is lost."""

    held: NDArray[np.uint64]
    """Ids of the features that the state holds."""
    finished: Sequence[int] = ()
    """Numbers of the groups of blocks that were finished since the last report."""
    merging: float = 0.0
    """Seconds that the centre was busy since the last report."""
    preview: Preview | None = None
    """A preview of the state, or None if the last preview is recent."""


class Attempt(NamedTuple):
    """One attempt at a group of blocks, with a random token, since Dask may run the task of a group again."""

    group: int
    token: str


class VersionedView(NamedTuple):
    """A view (the part of the state that workers need) and the version of the state that the view shows."""

    version: int
    view: State


class Centre:
    """Owner of the state of an asynchronous pass, which accepts offers of workers and returns copies of the state.

    The `state` at the start of the pass is changed in place. The names of the `workers` of earlier passes come in the
    order of their numbers.
    """

    def __init__(self, algorithm: AsynchronousAlgorithm, state: State, workers: Sequence[str] = ()) -> None:
        self._algorithm, self._state, self._workers = algorithm, state, list(workers)
        self._merging, self._next_preview = 0.0, 0.0
        self._arrived: Counter[Attempt] = Counter()
        self._sent: dict[Attempt, int] = {}
        self._finished: list[int] = []

    def join(self, name: str) -> tuple[int, VersionedView]:
        """Return the number of a worker and its first view; a worker whose name is known keeps its number."""
        with self._busy():
            if name not in self._workers:
                self._workers.append(name)
            worker = self._workers.index(name)
            return worker, self._view(worker)

    def offer(self, worker: int, attempt: Attempt, offer: State, known: int) -> VersionedView | None:
        """Accept an offer. Return a new view, or None if the version `known` to the worker is the newest."""
        self._arrived[attempt] += 1
        return self._accept(worker, attempt, [offer], known)

    def end_group(
        self, worker: int, attempt: Attempt, sent: int, offers: Sequence[State], known: int
    ) -> VersionedView | None:
        """Accept the last offers of a group after `sent` earlier offers. Return a view if `known` is outdated."""
        self._sent[attempt] = sent
        return self._accept(worker, attempt, offers, known)

    def _accept(self, worker: int, attempt: Attempt, offers: Sequence[State], known: int) -> VersionedView | None:
        with self._busy():
            for offer in offers:
                self._state = self._algorithm.accept(self._state, offer)
            if attempt in self._sent and self._arrived[attempt] >= self._sent[attempt]:
                self._finished.append(attempt.group)
                del self._arrived[attempt], self._sent[attempt]  # a run may have very many
            return None if known == self._state.version else self._view(worker)

    def report(self) -> CentreReport:
        """Return the ids of the features in the state, and the groups finished since the last report."""
        finished, merging = self._finished, self._merging
        self._finished, self._merging = [], 0.0
        return CentreReport(self._algorithm.held_features(self._state), finished, merging, self._preview())

    def end_pass(self) -> None:
        """Close the pass, as the driver does with its copy of the state, so that this object serves the next pass."""
        with self._busy():
            self._state, _ = self._algorithm.end_pass(self._state)

    def state(self) -> tuple[State, list[str]]:
        """Return a copy of the state, and the names of the workers."""
        return copy_state(self._state), list(self._workers)

    def _preview(self) -> Preview | None:
        if monotonic() < self._next_preview:
            return None
        self._next_preview = monotonic() + PREVIEW_EVERY
        return self._algorithm.preview(self._state, TOP)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        began = monotonic()
        yield
        self._merging += monotonic() - began

    def _view(self, worker: int) -> VersionedView:
        return VersionedView(self._state.version, copy_state(self._algorithm.view(self._state, worker)))


def rebuild_state(algorithm: AsynchronousAlgorithm, dataset: Dataset, state: State, held: NDArray[np.uint64]) -> State:
    """Return a state equivalent to that of a lost centre, from an older state and the ids `held` by the lost centre."""
    missing = np.setdiff1d(held, algorithm.held_features(state))
    if len(missing):
        for block in dataset.columns(missing):
            state = algorithm.update(state, block)
    return state


def with_target(algorithm: AsynchronousAlgorithm, dataset: Dataset, state: State) -> State:
    """Return the state with the target of the dataset, which otherwise comes with the first block of columns."""
    y, weights = np.concatenate(list(dataset.targets())), list(dataset.weights())
    no_ids, no_columns = np.empty(0, np.uint64), np.empty((len(y), 0), np.float32)
    return algorithm.update(state, ColumnBlock(no_ids, no_columns, y, np.concatenate(weights) if weights else None))
