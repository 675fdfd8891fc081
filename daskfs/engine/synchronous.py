"""Passes on a cluster whose workers wait for each other: rounds of pure tasks, merged in the tasks that follow.

A pass is submitted at once. The tasks of a round take the states of the round before, merge them, and fold blocks
of their own into the result, so that states travel between workers and never come here, except for a checkpoint
and at the end of the pass. Up to `FAN_IN` lanes each merges for itself; more are merged by tasks like a tree.
With one lane the same tasks are a chain: one worker goes on where another left off.

    lane 0   fold ─┬─ merge, fold ─┬─ merge, fold ─┬─ merge ─► end of the pass
    lane 1   fold ─┴─ merge, fold ─┴─ merge, fold ─┘

A worker that dies takes states with it; Dask runs the tasks that made them again, from those that are left or
from the state the pass began with, and since tasks are pure the result is the same to the last bit. Should even that
one be lost, the pass is submitted again from the newest state this process knows. Tasks are not retried when they
raise: what a pure task raises once it raises again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import sleep
from typing import Any, TypeVar

import numpy as np
from distributed import Client, Future, KilledWorker
from numpy.typing import NDArray

from daskfs.engine.cluster.worker_pool import GONE, result_of, with_workers
from daskfs.engine.events.listener import RunListener
from daskfs.engine.memory import MemoryPlan
from daskfs.engine.passes import SelectionRun
from daskfs.engine.shards import FAN_IN, Round, joined, rounds_of
from daskfs.engine.synchronous_tasks import (
    ShardSeconds,
    arrived,
    fold_share,
    look_at_share,
    merge_shares,
    revisit_a_copy,
)
from daskfs.errors import Interrupted, WorkerError
from daskfs.protocol import Algorithm, State, put_fields, take_fields
from daskfs.store.dataset.dataset import Dataset

Value = TypeVar("Value")

_ATTEMPTS = 10  # at a pass that loses the state it began with, and all that could replace it
_POLL = 5.0  # seconds between two looks at whether there are any
_SOON = 1.0  # seconds for something small that is there to be fetched
_PAUSE = 1.0  # seconds before another attempt, for the scheduler to notice who is gone


@dataclass(slots=True)
class _Known:
    """The newest state of a pass that this process has."""

    state: State
    position: int


class SynchronousRunner:
    """Carries out passes on the workers of a cluster, in a fixed number of lanes."""

    def __init__(self, client: Client, dataset: Dataset, algorithm: Algorithm, lanes: int) -> None:
        self._client, self._dataset, self._algorithm, self._lanes = client, dataset, algorithm, lanes
        self._look: Future[Any] | None = None  # at a state, under way
        self._sizes = dataset.block_sizes(algorithm.axis)

    def one_pass(self, state: State, position: int, run: SelectionRun) -> State:
        return self._until_done(partial(self._pass, _Known(state, position), run))

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        return self._until_done(partial(self._revisit, state, ids, run))

    def _pass(self, known: _Known, run: SelectionRun) -> State:
        shares = rounds_of(self._sizes, self._lanes, self._algorithm.sharing.min_merges_per_pass, known.position)
        if not shares:
            return known.state
        travelling, staying = take_fields(known.state, self._algorithm.sharing.driver_only)
        root = self._sent(travelling)  # held to the end: every other state can be made again from it
        pending = self._submitted(shares, root, run.watch.run)
        heads: list[Future[Any]] = []
        cost = run.now.costs[-1]
        before = ShardSeconds(cost.busy, cost.merging, cost.scheduler)
        try:
            while pending:
                _let_go(heads)  # states of the round before
                position, heads = pending.popleft()
                self._wait(heads)
                if run.reached(position):
                    known.state, known.position = put_fields(self._fetched(heads, run, before), staying), position
                    run.keep(known.state)
                self._look_at(heads[0], run.watch)
            return put_fields(self._fetched(heads, run, before), staying)
        finally:
            self._look_away()
            _let_go((root, *heads, *(head for _, waiting in pending for head in waiting)))

    def _look_at(self, head: Future[Any], watch: RunListener) -> None:
        """Tell what a lane's state shows, now and then: a small task where the state is, that nobody waits for."""
        if self._look is not None and self._look.status == "finished":
            with suppress(Exception):
                watch.preview(self._look.result(timeout=_SOON))
        if self._look is not None and self._look.status != "pending":
            self._look_away()
        if self._look is None and watch.is_preview_due():
            self._look = self._submit("preview", look_at_share, self._algorithm, head)

    def _look_away(self) -> None:
        if self._look is not None:
            _let_go([self._look])
        self._look = None

    def _submitted(self, shares: Sequence[Round], root: Future[Any], run: str) -> deque[tuple[int, list[Future[Any]]]]:
        """All tasks of a pass: where each round ends, and the states the next one begins with."""
        heads = [root]
        pending: deque[tuple[int, list[Future[Any]]]] = deque()
        homes, verb = sorted(self._client.nthreads()), self._algorithm.verb
        for share in shares:
            work = partial(self._submit, verb, fold_share, run)
            heads = [
                work(
                    lane, self._lanes, self._algorithm, self._dataset, numbers, *heads,
                    at=homes[lane % len(homes)] if homes else None,
                )
                for lane, numbers in enumerate(share)
            ]  # fmt: skip
            if len(heads) > FAN_IN:
                heads = [joined(heads, partial(self._submit, "merge", merge_shares, run, self._algorithm))]
            pending.append((share[-1].stop, heads))
        return pending

    def _fetched(self, heads: list[Future[Any]], run: SelectionRun, before: ShardSeconds) -> State:
        """The state that a round has led to; the run hears what workers have spent on it, beside what was known."""
        merge = partial(self._submit, "merge", merge_shares, run.watch.run, self._algorithm)
        last = joined(heads, merge)
        try:
            state, spent = arrived(self._brought_here(last))
        finally:
            if last not in heads:
                _let_go([last])
        run.note_work(self._lanes, *map(sum, zip(before, spent, strict=True)))
        return state

    def _revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        sent, told = self._sent(state), run.watch.run
        future = self._submit("revisit", revisit_a_copy, told, self._algorithm, self._dataset, ids, sent)
        try:
            now, took = self._brought_here(future)
        finally:
            _let_go([future])
        run.note_work(self._lanes, took.busy, took.merging)
        return now, took.bytes

    def _brought_here(self, future: Future[Any]) -> Any:
        """What a task makes, as soon as it has."""
        self._wait([future])
        with _lost_if_unreachable():
            return result_of(self._client, future)

    def _sent(self, state: State) -> Future[Any]:
        """A state on its way to the workers; in no task's arguments, which would all pass through the scheduler."""
        self._await_workers()
        with _lost_if_unreachable():
            # To one of them: Dask's own broadcast waits forever for a worker that is killed meanwhile.
            future: Future[Any] = self._client.scatter([state], hash=False)[0]
        return future

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any, at: str | None = None) -> Future[Any]:
        """A task, preferably on the worker at an address: lanes would all go where the state is, one after the other.

        Preferably, since that worker may die, and come back at another address.
        """
        key = task_key(name)
        return self._client.submit(
            function, *arguments, key=key, pure=False, workers=at, allow_other_workers=at is not None
        )

    def _wait(self, futures: Sequence[Future[Any]]) -> None:
        """Wait for tasks without fetching what they made; raise what one of them raised."""
        for future in futures:
            while future.status in ("pending", "lost"):
                try:
                    future.exception(timeout=_POLL)
                except TimeoutError:
                    self._await_workers()
            if future.status != "finished":
                future.result()

    def _await_workers(self) -> None:
        with _lost_if_unreachable():
            with_workers(self._client)

    def _until_done(self, work: Callable[[], Value]) -> Value:
        """Do something on the cluster, again if the state that was sent there is lost with all its replicas."""
        for _ in range(_ATTEMPTS):
            try:
                return work()
            except CancelledError as error:
                lost = error
            except KilledWorker as killed:
                raise self._deadly(killed) from killed
            if self._client.status != "running":
                break
            sleep(_PAUSE)
        raise Interrupted(GONE) from lost

    def _deadly(self, killed: KilledWorker) -> WorkerError:
        plan = MemoryPlan.of(self._algorithm, self._dataset.meta, self._lanes, self._dataset.ahead)
        return WorkerError(
            f"{self._dataset.url}: {killed.allowed_failures + 1} workers died of the same task; "
            f"their logs say why, and if it was memory: each needs {plan}"
        )


def task_key(name: str) -> str:
    """A key of its own that Dask's pages show as ``daskfs-name``.

    >>> from distributed.utils import key_split
    >>> from daskfs.engine.synchronous import task_key
    >>> key_split(task_key("merge"))
    'daskfs-merge'
    """
    return f"daskfs-{name}-0x{os.urandom(8).hex()}"  # what has a digit in it is no part of a name


@contextmanager
def _lost_if_unreachable() -> Iterator[None]:
    """Treat a worker or scheduler that does not answer like one that is known to be gone."""
    try:
        yield
    except OSError as error:
        raise CancelledError from error


def _let_go(futures: Iterable[Future[Any]]) -> None:
    """Tell the scheduler that nobody waits for these any more.

    Said aloud, since the frames of an error hold on to them. `Client.cancel` would also cancel tasks behind them that
    this client no longer wants, at which the scheduler of Dask 2026.8 closes the connection.
    """
    for future in futures:
        future.release()
