"""The centre of an asynchronous pass: it owns the state, folds offers into it, and shows everybody the result.

A plain class, without Dask: `workers` puts it into a process of the cluster and calls it from there. It is a cache,
never the truth: should it be lost, a new one is made from the state the pass began with and the ids of the features
it was last known to hold (`rebuilt`), and work goes on.

Nobody waits for it: a worker sends the last of a group and begins the next one. A group is done when all that was sent
of it has arrived, in whatever order, and it is the centre that says so (`report`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.events.listener import PREVIEW_EVERY
from daskfs.engine.events.messages import TOP
from daskfs.protocol import AsynchronousAlgorithm, ColumnBlock, Preview, State, copy_state
from daskfs.store.dataset.dataset import Dataset

_NOBODY = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class CentreSpent:
    """What work has taken, in seconds: it adds up."""

    centre: float = 0.0
    """That the centre was at work."""
    busy: float = 0.0
    """That workers were, in groups that have ended; …"""
    between: float = 0.0
    """… and from the end of one group to the begin of their next."""
    bytes: int = 0
    """Of the blocks that they worked on."""

    def __add__(self, other: CentreSpent) -> CentreSpent:
        return CentreSpent(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: CentreSpent) -> CentreSpent:
        return CentreSpent(*(mine - its for mine, its in zip(astuple(self), astuple(other), strict=True)))


NOTHING = CentreSpent()


@dataclass(frozen=True, slots=True)
class Report:
    """What a centre holds, as small as can be: enough to make another one like it."""

    version: int
    kept: NDArray[np.uint64]
    whole: Sequence[int] = ()
    """Groups of which everything has arrived, less those that were told before."""
    spent: CentreSpent = NOTHING
    """Since the centre was made."""
    preview: Preview | None = None
    """What the state shows, now and then."""


class Mark(NamedTuple):
    """What an offer belongs to: a group, and one attempt at it, for Dask may run a task again."""

    group: int
    attempt: str


class View(NamedTuple):
    """What a worker sees of the state."""

    version: int
    view: State


class Centre:
    """Owns the state of a pass. What it hands out is a copy: it is on its way while the next offer changes the state.

    Parameters
    ----------
    algorithm
        Whose state it is.
    state
        As the pass begins; it belongs to the centre from now on.
    lanes
        The workers known from earlier passes, in the order of their lanes.
    """

    def __init__(self, algorithm: AsynchronousAlgorithm, state: State, lanes: Sequence[str] = ()) -> None:
        self._algorithm, self._state, self._lanes = algorithm, state, list(lanes)
        self._spent, self._next_preview = NOTHING, 0.0
        self._arrived: Counter[Mark] = Counter()
        self._sent: dict[Mark, int] = {}
        self._whole: list[int] = []

    def join(self, who: str) -> tuple[int, View]:
        """The lane of a worker, its old one if it has been here before, and what it needs to see."""
        with self._working():
            if who not in self._lanes:
                self._lanes.append(who)
            lane = self._lanes.index(who)
            return lane, self._view(lane)

    def offer(self, lane: int, mark: Mark, offer: State, known: int) -> View | None:
        """Take an offer in, and answer with a new view, unless the worker knows that version."""
        with self._working():
            self._state = self._algorithm.accept(self._state, offer)
            self._arrived[mark] += 1
            self._note_if_whole(mark)
            return self._newer(lane, known)

    def leave(
        self, lane: int, mark: Mark, sent: int, rest: Sequence[State], known: int, spent: CentreSpent
    ) -> View | None:
        """Take in what a worker has left at the end of a group, of which it has sent so many offers before."""
        with self._working():
            for offer in rest:
                self._state = self._algorithm.accept(self._state, offer)
            self._spent += spent
            self._sent[mark] = sent
            self._note_if_whole(mark)
            return self._newer(lane, known)

    def report(self, told: int) -> Report:
        """What is held now, and of which groups that is all, less the first so many, which were told before."""
        kept = self._algorithm.held_features(self._state)
        return Report(version_of(self._state), kept, self._whole[told:], self._spent, self._preview())

    def _note_if_whole(self, mark: Mark) -> None:
        if mark in self._sent and self._arrived[mark] >= self._sent[mark]:
            self._whole.append(mark.group)
            del self._arrived[mark], self._sent[mark]  # a run may have very many

    def _preview(self) -> Preview | None:
        if monotonic() < self._next_preview:
            return None
        self._next_preview = monotonic() + PREVIEW_EVERY
        return self._algorithm.preview(self._state, TOP)

    @contextmanager
    def _working(self) -> Iterator[None]:
        begun = monotonic()
        yield
        self._spent += CentreSpent(centre=monotonic() - begun)

    def _newer(self, lane: int, known: int) -> View | None:
        return None if known == version_of(self._state) else self._view(lane)

    def _view(self, lane: int) -> View:
        return View(version_of(self._state), copy_state(self._algorithm.view(self._state, lane)))

    def end_pass(self) -> None:
        """Do what the driver does with the copy of the state that it has just been given, and go on from there."""
        with self._working():
            self._state, _ = self._algorithm.end_pass(self._state)

    def state(self) -> tuple[State, list[str]]:
        """All of it, and the lanes: for a checkpoint, or the end of the pass."""
        return copy_state(self._state), list(self._lanes)


def version_of(state: State) -> int:
    version: int = state["version"] if isinstance(state, dict) else state.version
    return version


def rebuilt(algorithm: AsynchronousAlgorithm, dataset: Dataset, state: State, kept: NDArray[np.uint64]) -> State:
    """A state like the one that was lost: an older one, and the columns that one held by then."""
    missing = np.setdiff1d(kept, algorithm.held_features(state))
    if len(missing):
        for block in dataset.columns(missing):
            state = algorithm.update(state, block)
    return state


def introduced(algorithm: AsynchronousAlgorithm, dataset: Dataset, state: State) -> State:
    """The state of a first pass with the target taken over, which comes with every block of columns."""
    y, weights = np.concatenate(list(dataset.targets())), list(dataset.weights())
    nothing = np.empty((len(y), 0), np.float32)
    return algorithm.update(state, ColumnBlock(_NOBODY, nothing, y, np.concatenate(weights) if weights else None))
