"""Asynchronous passes on a cluster, as the driver sees them: a centre, and groups of blocks that talk to it.

What can be lost, and what happens then:

* a worker: Dask runs its groups again, elsewhere. An offer that comes twice does no harm, by the protocol.
* the centre: Dask tells at once if its process has died, and its callers tell within seconds if it does not answer.
  The driver knows the state the pass began with, the groups that are done, and which features the centre held when
  the last of them ended; a new centre starts from these.

Between passes the driver is given the state, closes the pass and keeps the result; the centre does the same by itself
and stays, so that the next pass begins without another journey of the state.

Columns to be seen once more are shared in the same way: a `Stretch` is a pass, or such a last look.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker
from numpy.typing import NDArray

from daskfs.errors import Interrupted, WorkerError
from daskfs.protocol import Central, State
from daskfs.store.dataset import Dataset
from daskfs.stream.central import Report
from daskfs.stream.fold import Run
from daskfs.stream.lanes import groups
from daskfs.stream.presence import result_of, with_workers
from daskfs.stream.rounds import task_key
from daskfs.stream.watching import verb_of
from daskfs.stream.workers import Calls, CentreActor, CentreLost, Share, Worked, forget, work_on

CENTRE = "centre"
"""A worker with this resource (``dask worker --resources centre=1``) gets the centre, and little else."""
_GROUPS_PER_WORKER = 6  # in a pass, at least: a lost centre or worker costs the groups that were running
_LOOKS_PER_WORKER = 3  # at columns that are seen once more
_SHORT_GROUPS = 8  # in a pass for every worker, where each begins with a new view
_GROUP_BYTES = 1 << 30  # at most: some tenths of a second of reading
_AHEAD = 3  # parts of what is left of a pass, for every worker: it is at one, and Dask has given it another
_LEAST_BYTES = 64 << 20  # towards the end of a pass: a hundredth of a second is what a group takes beside its blocks
_ATTEMPTS = 10  # at a stretch
_START = 30.0  # seconds for an empty actor to be made: until a worker ends the block that it is at
_LOOK = 2.0  # seconds between two looks at whether those who may work are still there
_LAST_WORDS = 5.0  # seconds for what tasks have sent to arrive after their end
_FAREWELL = 3.0  # seconds for workers to forget a run
_GONE = "gone"  # in the place of a worker that left a lane behind


@dataclass(slots=True)
class Ledger:
    """What the driver knows of a stretch: the truth, as far as there is one."""

    begun: State
    """The state it began with."""
    groups: dict[int, range]
    """Those still to do, by number."""
    newest: Report
    """What the centre held when it was last asked."""
    busy: float = 0.0
    """Seconds that workers were, in tasks that have ended."""
    at_work: float = 0.0
    """Seconds that this centre was since it was made, as far as it is known; …"""
    before: float = 0.0
    """… and what is to be added: those of centres that were lost, less those of earlier stretches."""
    bytes: int = 0
    """Of what they have worked on."""

    def worked(self, on: Worked) -> None:
        """A task has ended."""
        self.busy += on.busy
        self.bytes += on.bytes

    def heard(self, report: Report) -> None:
        """Strike out groups of which everything has arrived; what the centre held then is remembered."""
        for number in report.whole:
            self.groups.pop(number, None)
        self.at_work = max(self.at_work, report.at_work)
        self.newest = report

    def since(self, at_work: float) -> None:
        """From now on it may be another centre that says what it holds; it has been at work for so long before."""
        self.before, self.at_work = self.before + self.at_work - at_work, at_work

    def position(self, end: int) -> int:
        """All blocks before this one are done; some behind it may be."""
        return min((group.start for group in self.groups.values()), default=end)


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses of workers."""

    homes: list[str]
    """Meant for a centre."""
    others: list[str]
    threads: int = 1
    """Of those who read."""


@dataclass(slots=True)
class Home:
    """Where the centre is."""

    made: Future[Any]
    """Which keeps it there."""
    centre: Any
    at_work: float = 0.0
    """Seconds that it has been, in stretches that are done, …"""
    stretches: int = 0
    """… and their number."""


@dataclass(frozen=True)
class Stretch:
    """What there is to do around one centre: a pass, or a last look at some columns."""

    verb: str
    """What tasks are named after."""
    groups: Callable[[int], Iterator[range]]
    """Runs of what there is to do, one for each task, for so many threads of workers."""
    share: Callable[[range], Share]
    """What the task of a group works on."""
    run: Run

    def heard(self, ledger: Ledger, places: Places, call: Calls) -> None:
        """A task has ended: ask the centre what has come of it so far."""
        ledger.heard(call.now("report"))
        self.run.note_work(places.threads, ledger.busy, ledger.before + ledger.at_work, beside=True)


@dataclass(frozen=True)
class Pass(Stretch):
    """A stretch over all blocks, in which checkpoints may be due."""

    end: int

    def heard(self, ledger: Ledger, places: Places, call: Calls) -> None:
        super().heard(ledger, places, call)
        if ledger.newest.glance is not None:
            self.run.watch.glance(ledger.newest.glance)
        if self.run.reached(ledger.position(self.end)):
            self.run.keep(call.now("state")[0])


class Around:
    """Carries out passes on a cluster, around a centre."""

    def __init__(self, client: Client, dataset: Dataset, algorithm: Central) -> None:
        self._client, self._dataset, self._algorithm = client, dataset, algorithm
        self._sizes = dataset.block_sizes(algorithm.axis)
        self._run = os.urandom(8).hex()
        self._numbers = count()  # of groups, each once in a run: last words of an old one may come late
        self._lanes: list[str] = []
        self._home: Home | None = None
        # Asy-OS needs them. On two workers its recall fell with larger groups, a centre that stays, and all tasks in one
        # message: it keeps to short groups, a new view for each, and a new centre for every pass.
        self._fresh = algorithm.needs_fresh_views

    def one_pass(self, state: State, position: int, run: Run) -> State:
        if not self._lanes and (position or run.now.passes):  # resumed: those who had the lanes of the state are gone
            self._lanes = [_GONE] * state.get("lanes", 0)
        groups = partial(_short_groups if self._fresh else groups_of, self._sizes, position)
        now, _ = self._done(state, Pass(verb_of(self._algorithm), groups, _blocks, run, len(self._sizes)))
        self._ends_pass()
        return now

    def revisit(self, state: State, ids: NDArray[np.uint64], run: Run) -> tuple[State, int]:
        wanted = np.sort(ids)
        groups = partial(_even_groups, len(wanted))
        return self._done(state, Stretch("revisit", groups, lambda some: wanted[some.start : some.stop], run))

    def _done(self, state: State, stretch: Stretch) -> tuple[State, int]:
        """The state after a stretch, and how many bytes were worked on."""
        ledger: Ledger | None = None
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                places = self._places()
                if ledger is None:
                    numbered = dict(zip(self._numbers, stretch.groups(places.threads), strict=False))
                    spent, known = stretch.run.now.costs[-1], Report(-1, self._algorithm.keeps(state))
                    ledger = Ledger(state, numbered, known, busy=spent.busy, before=spent.merging)
                return self._attempt(ledger, places, stretch), ledger.bytes
            except CentreLost as lost:
                reason = str(lost)
                self._leave_home()
            if self._client.status != "running":
                raise Interrupted("the Dask scheduler or its workers are gone; when they are back, run the same again")
        raise Interrupted(f"the centre of the run was lost again and again ({reason}); run the same again to go on")

    def close(self) -> None:
        """Free what workers keep for this run; should one not hear it, later runs push it out."""
        self._leave_home()
        if self._client.status == "running":
            with suppress(Exception):
                self._client.run(forget, self._run, on_error="ignore", callback_timeout=_FAREWELL)

    def _places(self) -> Places:
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
        return Places(sorted(homes), sorted(others), threads)

    def _attempt(self, ledger: Ledger, places: Places, stretch: Stretch) -> State:
        """A stretch from what the ledger knows to its end, unless the centre is lost."""
        if self._home is None:
            self._home = self._opened(ledger, places)
        home, call = self._home, Calls(self._home.centre)
        ledger.since(home.at_work)
        futures: list[Future[Any]] = []
        try:
            for _ in range(_ATTEMPTS):
                if not ledger.groups:
                    break  # else, the second time, workers died with the last words of some on their lips
                futures = self._submitted(home, places, stretch, ledger.groups)
                for future in self._as_they_end(futures, places):
                    ledger.worked(self._result(future, home.made))
                    future.release()
                    stretch.heard(ledger, places, call)
                self._await_the_rest(ledger, call)
                stretch.heard(ledger, places, call)
        finally:
            self._cancel(futures)
        if ledger.groups:
            raise CentreLost("what workers say does not reach it")
        last: tuple[State, list[str]] = call.now("state")
        home.at_work, home.stretches, self._lanes = ledger.at_work, home.stretches + 1, last[1]
        return last[0]

    def _opened(self, ledger: Ledger, places: Places) -> Home:
        """A new centre, from what the ledger knows."""
        made = self._client.submit(
            CentreActor, actor=True, key=task_key("centre"), priority=100,
            resources={CENTRE: 1} if places.homes else None,
        )  # fmt: skip
        try:
            home = Home(made, self._actor(made))
            start = ledger.begun, ledger.newest.kept, self._lanes
            Calls(home.centre).now("open", self._algorithm, self._dataset, *start)
        except BaseException:
            self._cancel([made])
            raise
        return home

    def _ends_pass(self) -> None:
        """Let the centre do what is done here, with the same state: nothing has to be sent for the next pass."""
        try:
            if self._fresh:
                self._leave_home()
            elif self._home is not None:
                Calls(self._home.centre).later("end_pass")
        except CentreLost:
            self._leave_home()

    def _leave_home(self) -> None:
        """Let the centre go: it is lost, or not needed any more."""
        if self._home is not None:
            self._cancel([self._home.made])
        self._home = None

    def _await_the_rest(self, ledger: Ledger, call: Calls) -> None:
        """Tasks have ended, and what they sent is about to arrive: wait until it has, or will not any more."""
        patience = monotonic() + _LAST_WORDS
        while ledger.groups and monotonic() < patience:
            ledger.heard(call.now("report"))

    def _actor(self, made: Future[Any]) -> Any:
        """The actor, once it is there."""
        try:
            with self._client.as_current():  # a copy belongs to this client, the original to whichever is the default
                return copy(made.result(_START))
        except KilledWorker as killed:
            raise self._deadly(killed) from killed
        except Exception as error:
            raise CentreLost(repr(error)) from error

    def _submitted(self, home: Home, places: Places, stretch: Stretch, groups: dict[int, range]) -> list[Future[Any]]:
        """A task for every group, all in one message, but for Asy-OS.

        Only if there are many of them does Dask give one to whoever has time; the first ones that come alone all go to
        the worker that holds the centre. Those of a message are in the order of their keys.
        """
        name, told = task_key(stretch.verb), stretch.run.watch.run
        each = (
            (self._run, self._algorithm, self._dataset, home.centre, home.stretches, number, stretch.share(group), told)
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

    def _as_they_end(self, futures: list[Future[Any]], places: Places) -> Iterator[Future[Any]]:
        """Futures in the order in which they end."""
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        for future in futures:
            future.add_done_callback(ended.put)
        for _ in futures:
            while True:
                try:
                    yield ended.get(timeout=_LOOK)
                    break
                except Empty:
                    self._look_around(places)

    def _look_around(self, places: Places) -> None:
        """CentreLost where nobody is left to do the work."""
        if places.homes and places.others and not self._places().others:
            raise CentreLost("all workers but that of the centre have left")
        if not self._client.nthreads():
            raise CentreLost("all workers have left")

    def _result(self, future: Future[Any], made: Future[Any]) -> Worked:
        try:
            worked: Worked = result_of(self._client, future)
        except KilledWorker as killed:
            raise self._deadly(killed) from killed
        except Exception as error:
            # Tasks that need an actor fail with it, and what they are said to have raised then is Dask's affair.
            if made.status != "finished" or isinstance(error, CancelledError):
                raise CentreLost(repr(error)) from error
            raise
        return worked

    def _deadly(self, killed: KilledWorker) -> WorkerError:
        return WorkerError(f"{self._dataset.url}: workers died of the same blocks: {killed}")

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)


def groups_of(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Runs of blocks from `position` on, each a task: several for every worker, and towards the end smaller ones.

    With tasks of one size some workers would end a pass half a task before others.

    >>> from daskfs.stream.around import groups_of
    >>> list(groups_of(np.full(10, 100), 2, workers=1))
    [range(2, 4), range(4, 6), range(6, 8), range(8, 9), range(9, 10)]
    """
    total, first, nbytes = int(sizes.sum()), position, 0
    most = min(_GROUP_BYTES, total // (_GROUPS_PER_WORKER * workers))
    least = min(_LEAST_BYTES, most // 2)
    left = int(sizes[position:].sum())
    for number in range(position, len(sizes)):
        nbytes += int(sizes[number])
        if nbytes >= min(most, max(least, left // (_AHEAD * workers))) or number == len(sizes) - 1:
            yield range(first, number + 1)
            first, left, nbytes = number + 1, left - nbytes, 0


def _short_groups(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Runs of blocks of one size, several for every worker."""
    return groups(sizes, position, min(_GROUP_BYTES, int(sizes.sum()) // (_SHORT_GROUPS * workers)))


def _even_groups(size: int, workers: int) -> Iterator[range]:
    """A few groups for every worker, of columns for each of which a block is read, and little work done."""
    edges = np.linspace(0, size, min(size, _LOOKS_PER_WORKER * workers) + 1).astype(int).tolist()
    return (range(first, last) for first, last in pairwise(edges))


def _blocks(group: range) -> Share:
    """A group of blocks is a share as it is."""
    return group
