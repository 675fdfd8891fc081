"""Asynchronous passes on a cluster, as the driver sees them: a centre, and groups of blocks that talk to it.

What can be lost, and what happens then:

* a worker: Dask runs its groups again, elsewhere. An offer that comes twice does no harm, by the protocol.
* the centre: Dask tells at once if its process has died, and its callers tell within seconds if it does not answer.
  The driver knows the state the pass began with, the groups that are done, and which features the centre held when
  it was last asked (`Ledger`); a new centre starts from these. Where workers have sets of their own, as in Asy-OS,
  a pass is begun again: whoever is given nothing more to do would not say again what it has.

Between passes the driver is given the state, closes the pass and keeps the result; the centre does the same by itself
and stays, so that the next pass begins without another journey of the state.

Columns to be seen once more are shared in the same way: a `WorkUnit` is a pass, or such a last look.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker
from numpy.typing import NDArray

from daskfs.engine.asynchronous.centre import NOTHING, CentreSpent, Report
from daskfs.engine.asynchronous.groups import even_groups, groups_of, short_groups
from daskfs.engine.asynchronous.ledger import Ledger
from daskfs.engine.asynchronous.worker import ActorCalls, CentreActor, CentreLost, Part, forget, work_on
from daskfs.engine.cluster.worker_pool import GONE, with_workers
from daskfs.engine.passes import SelectionRun
from daskfs.engine.synchronous import task_key
from daskfs.errors import Interrupted, WorkerError
from daskfs.protocol import AsynchronousAlgorithm, State
from daskfs.store.dataset.dataset import Dataset

CENTRE = "centre"
"""A worker with this resource (``dask worker --resources centre=1``) gets the centre, and little else."""
_ATTEMPTS = 10  # at a stretch
_LOOK = 2.0  # seconds between two looks at whether those who may work are still there
TOGETHER = 0.25  # seconds: the centre is asked once for all tasks that end within them, each question is a journey
_LAST_WORDS = 5.0  # seconds without news for what tasks have sent to arrive after their end
_PAUSE = 0.005  # seconds until it is looked for again
_FAREWELL = 3.0  # seconds for workers to forget a run
_GONE = "gone"  # in the place of a worker that left a lane behind


@dataclass(frozen=True, slots=True)
class WorkerAddresses:
    """Addresses of workers."""

    homes: list[str]
    """Meant for a centre."""
    others: list[str]
    threads: int = 1
    """Of those who read."""


@dataclass(slots=True)
class CentreHandle:
    """Where the centre is."""

    made: Future[Any]
    """Which keeps it there."""
    centre: Any
    spent: CentreSpent = NOTHING
    """In stretches that are done, …"""
    stretches: int = 0
    """… and their number."""
    told: int = 0
    """Groups that it has said are whole."""
    closing: Any = None
    """Its reply to being told that a pass is over."""

    @property
    def call(self) -> ActorCalls:
        return ActorCalls(self.centre)

    def report_to(self, ledger: Ledger) -> None:
        """Ask what the centre holds."""
        report: Report = self.call.now("report", self.told)
        self.told += len(report.whole)
        ledger.heard(report)

    def close_pass(self) -> None:
        """Let the centre do what is done here, with the same state: nothing has to be sent for the next pass."""
        self.closing = self.call.later("end_pass")

    def await_closing(self) -> None:
        """Nobody may join before that is done, or the centre would be a pass behind."""
        if self.closing is not None:
            self.call.answer(self.closing)
            self.closing = None


@dataclass(frozen=True)
class WorkUnit:
    """What there is to do around one centre: a pass, or a last look at some columns."""

    verb: str
    """What tasks are named after."""
    groups: Callable[[int], Iterator[range]]
    """Runs of what there is to do, one for each task, for so many threads of workers."""
    part: Callable[[range], Part]
    """What the task of a group works on."""
    run: SelectionRun

    def ask(self, home: CentreHandle, ledger: Ledger, places: WorkerAddresses) -> None:
        """Tasks have ended: ask the centre what has come of them so far."""
        home.report_to(ledger)
        spent = ledger.spent
        self.run.note_work(places.threads, spent.busy, spent.centre, spent.between, beside=True)


@dataclass(frozen=True)
class Pass(WorkUnit):
    """A stretch over all blocks, in which checkpoints may be due."""

    end: int

    def ask(self, home: CentreHandle, ledger: Ledger, places: WorkerAddresses) -> None:
        super().ask(home, ledger, places)
        if ledger.newest.preview is not None:
            self.run.watch.preview(ledger.newest.preview)
        if self.run.reached(ledger.position(self.end)):
            self.run.keep(home.call.now("state")[0])


class AsynchronousRunner:
    """Carries out passes on a cluster, around a centre."""

    def __init__(self, client: Client, dataset: Dataset, algorithm: AsynchronousAlgorithm) -> None:
        self._client, self._dataset, self._algorithm = client, dataset, algorithm
        self._sizes = dataset.block_sizes(algorithm.axis)
        self._run = os.urandom(8).hex()
        self._numbers = count()  # of groups, each once in a run: last words of an old one may come late
        self._lanes: list[str] = []
        self._home: CentreHandle | None = None
        # Asy-OS needs them. On two workers its recall fell with larger groups, a centre that stays, and all tasks in
        # one message: it keeps to short groups, a new view for each, and a new centre for every pass.
        self._fresh = algorithm.sharing.needs_fresh_views

    def one_pass(self, state: State, position: int, run: SelectionRun) -> State:
        if not self._lanes and (position or run.now.passes):  # resumed: those who had the lanes of the state are gone
            self._lanes = [_GONE] * self._algorithm.n_workers(state)
        groups = partial(short_groups if self._fresh else groups_of, self._sizes, position)
        now, _ = self._done(state, Pass(self._algorithm.verb, groups, _blocks, run, len(self._sizes)))
        self._ends_pass()
        return now

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        wanted = np.sort(ids)
        groups = partial(even_groups, len(wanted))
        return self._done(state, WorkUnit("revisit", groups, lambda some: wanted[some.start : some.stop], run))

    def _done(self, state: State, stretch: WorkUnit) -> tuple[State, int]:
        """The state after a stretch, and how many bytes were worked on."""
        ledger: Ledger | None = None
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                places = self._places()
                if ledger is None:
                    known, cost = Report(-1, self._algorithm.held_features(state)), stretch.run.now.costs[-1]
                    before = CentreSpent(centre=cost.merging, busy=cost.busy, between=cost.scheduler)
                    ledger = Ledger(state, self._numbered(stretch, places), known, before)
                elif self._fresh:  # a centre knew of what is only with workers, who may be given no more to do
                    ledger.groups = self._numbered(stretch, places)
                return self._attempt(ledger, places, stretch), ledger.spent.bytes
            except CentreLost as lost:
                reason = str(lost)
                self._leave_home()
            if self._client.status != "running":
                raise Interrupted(GONE)
        raise Interrupted(f"the centre of the run was lost again and again ({reason}); run the same again to go on")

    def _numbered(self, stretch: WorkUnit, places: WorkerAddresses) -> dict[int, range]:
        return dict(zip(self._numbers, stretch.groups(places.threads), strict=False))

    def close(self) -> None:
        """Free what workers keep for this run; should one not hear it, later runs push it out."""
        self._leave_home()
        if self._client.status == "running":
            with suppress(Exception):
                self._client.run(forget, self._run, on_error="ignore", callback_timeout=_FAREWELL)

    def _places(self) -> WorkerAddresses:
        """Who is there; waits until somebody is."""
        try:
            with_workers(self._client)
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except Interrupted:
            raise
        except Exception as error:
            raise CentreLost(repr(error)) from error
        if not workers:
            raise CentreLost("the last worker has left")
        homes = {address for address, worker in workers.items() if CENTRE in worker["resources"]}
        others = workers.keys() - homes
        threads = sum(workers[address]["nthreads"] for address in others or homes)
        return WorkerAddresses(sorted(homes), sorted(others), threads)

    def _attempt(self, ledger: Ledger, places: WorkerAddresses, stretch: WorkUnit) -> State:
        """A stretch from what the ledger knows to its end, unless the centre is lost."""
        if self._home is None:
            self._home = self._opened(ledger, places)
        home = self._home
        home.await_closing()
        ledger.since(home.spent)
        futures: list[Future[Any]] = []
        try:
            for _ in range(_ATTEMPTS):
                if not ledger.groups:
                    break  # else, the second time, workers died with the last words of some on their lips
                futures = self._submitted(home, places, stretch, ledger.groups)
                for some in self._as_they_end(futures, places):
                    self._check(some, home.made)
                    stretch.ask(home, ledger, places)
                if ledger.groups:
                    self._await_the_rest(ledger, home)
                    stretch.ask(home, ledger, places)
        finally:
            self._cancel(futures)
        if ledger.groups:
            raise CentreLost("what workers say does not reach it")
        last: tuple[State, list[str]] = home.call.now("state")
        home.spent, home.stretches, self._lanes = ledger.here, home.stretches + 1, last[1]
        return last[0]

    def _opened(self, ledger: Ledger, places: WorkerAddresses) -> CentreHandle:
        """A new centre, from what the ledger knows."""
        made = self._client.submit(
            CentreActor, actor=True, key=task_key("centre"), priority=100,
            resources={CENTRE: 1} if places.homes else None,
        )  # fmt: skip
        try:
            home = CentreHandle(made, self._actor(made, places))
            start = ledger.begun, ledger.newest.kept, self._lanes
            home.call.now("open", self._algorithm, self._dataset, *start)
        except BaseException:
            self._cancel([made])
            raise
        return home

    def _ends_pass(self) -> None:
        """Let the centre go on to the next pass, or let it go."""
        try:
            if self._fresh:
                self._leave_home()
            elif self._home is not None:
                self._home.close_pass()
        except CentreLost:
            self._leave_home()

    def _leave_home(self) -> None:
        """Let the centre go: it is lost, or not needed any more."""
        if self._home is not None:
            self._cancel([self._home.made])
        self._home = None

    def _await_the_rest(self, ledger: Ledger, home: CentreHandle) -> None:
        """Tasks have ended, and what they sent is about to arrive: wait until it has, or will not any more."""
        patience = monotonic() + _LAST_WORDS
        while ledger.groups and monotonic() < patience:
            left = len(ledger.groups)
            home.report_to(ledger)
            if len(ledger.groups) < left:
                patience = monotonic() + _LAST_WORDS
            else:
                sleep(_PAUSE)

    def _actor(self, made: Future[Any], places: WorkerAddresses) -> Any:
        """The actor, once it is there: a cluster that is busy with something else takes its time."""
        while True:
            try:
                with self._client.as_current():  # a copy belongs to this client, the original to whichever is default
                    return copy(made.result(_LOOK))
            except TimeoutError:
                if places.homes and not self._places().homes:
                    raise CentreLost("the worker that is meant for it has left") from None
                with_workers(self._client)
            except KilledWorker as killed:
                raise self._deadly(killed) from killed
            except Exception as error:
                raise CentreLost(repr(error)) from error

    def _submitted(
        self, home: CentreHandle, places: WorkerAddresses, stretch: WorkUnit, groups: dict[int, range]
    ) -> list[Future[Any]]:
        """A task for every group, all in one message, but for Asy-OS.

        Only if there are many of them does Dask give one to whoever has time; the first ones that come alone all go to
        the worker that holds the centre. Those of a message are in the order of their keys.
        """
        name, told = task_key(stretch.verb), stretch.run.watch.run
        each = (
            (self._run, self._algorithm, self._dataset, home.centre, home.stretches, number, stretch.part(group), told)
            for number, group in groups.items()
        )
        where = places.others if places.homes and places.others else None
        keys = [f"{name}{number:08x}" for number in groups]
        if self._fresh:
            return [
                self._client.submit(work_on, *of_one, key=key, pure=False, workers=where)
                for of_one, key in zip(each, keys, strict=True)
            ]
        return self._client.map(work_on, *zip(*each, strict=True), key=keys, pure=False, workers=where)

    def _as_they_end(self, futures: list[Future[Any]], places: WorkerAddresses) -> Iterator[list[Future[Any]]]:
        """Futures in the order in which they end, those together that end at about the same time."""
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        for future in futures:
            future.add_done_callback(ended.put)
        left = len(futures)
        while left:
            some: list[Future[Any]] = []
            until = inf
            while len(some) < left and monotonic() < until:
                try:
                    some.append(ended.get(timeout=min(_LOOK, max(0.0, until - monotonic()))))
                except Empty:
                    if not some:
                        self._look_around(places)
                else:
                    until = min(until, monotonic() + TOGETHER)
            left -= len(some)
            yield some

    def _look_around(self, places: WorkerAddresses) -> None:
        """CentreLost where nobody is left to do the work."""
        try:
            there = self._client.nthreads().keys()
        except Exception as error:
            raise CentreLost(repr(error)) from error
        if not there:
            raise CentreLost("all workers have left")
        if places.homes and places.others and there.isdisjoint(places.others):  # one that came back has another address
            raise CentreLost("all workers but that of the centre have left")

    def _check(self, ended: list[Future[Any]], made: Future[Any]) -> None:
        """Raise what a task has raised. What a task has done, the centre knows."""
        for future in ended:
            try:
                if future.status in ("error", "cancelled"):
                    future.result(_LOOK)
            except KilledWorker as killed:
                raise self._deadly(killed) from killed
            except Exception as error:
                # Tasks that need an actor fail with it, and what they are said to have raised then is Dask's affair.
                if made.status != "finished" or isinstance(error, CancelledError):
                    raise CentreLost(repr(error)) from error
                raise
            future.release()

    def _deadly(self, killed: KilledWorker) -> WorkerError:
        return WorkerError(f"{self._dataset.url}: workers died of the same blocks: {killed}")

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)


def _blocks(group: range) -> Part:
    """A group of blocks, as it is."""
    return group
