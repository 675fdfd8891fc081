"""Asynchronous passes on a cluster, as the driver sees them: a centre, and groups of blocks that talk to it.

What can be lost, and what happens then:

* a worker: Dask runs its groups again, elsewhere. An offer that comes twice does no harm, by the protocol.
* the centre: Dask tells at once if its process has died, and its callers tell within seconds if it does not answer.
  The driver knows the state the pass began with, the groups that are done, and which features the centre held when
  the last of them ended; a new centre starts from these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, as_completed
from numpy.typing import NDArray

from daskfs.errors import Interrupted, WorkerError
from daskfs.protocol import Central, State
from daskfs.store.dataset import Dataset
from daskfs.stream.central import Report
from daskfs.stream.fold import Run
from daskfs.stream.lanes import groups
from daskfs.stream.presence import result_of, with_workers
from daskfs.stream.rounds import Rounds, task_key
from daskfs.stream.watching import verb_of
from daskfs.stream.workers import Calls, CentreActor, CentreLost, forget, work_on

CENTRE = "centre"
"""A worker with this resource (``dask worker --resources centre=1``) gets the centre, and little else."""
_GROUPS_PER_WORKER = 8  # in a pass: a lost centre or worker costs the groups that were running
_GROUP_BYTES = 1 << 30  # at most: some tenths of a second of reading
_ATTEMPTS = 10  # at a pass
_START = 30.0  # seconds for an empty actor to be made: until a worker ends the block that it is at
_LOOK = 2.0  # seconds between two looks at whether those who may work are still there
_FAREWELL = 3.0  # seconds for workers to forget a run
_GONE = "gone"  # in the place of a worker that left a lane behind


@dataclass(slots=True)
class Ledger:
    """What the driver knows of a pass: the truth, as far as there is one."""

    begun: State
    """The state the pass began with."""
    groups: dict[int, range]
    """Those still to do, by number."""
    newest: Report
    """What the centre held when a group ended, at the newest version known."""
    busy: float = 0.0
    """Seconds that workers were, in groups that are done."""
    at_work: float = 0.0
    """Seconds that this centre was, as far as it is known; …"""
    before: float = 0.0
    """… and those that were lost."""

    def done(self, number: int, report: Report) -> None:
        """Strike out a group; what the centre held when it ended is remembered, if nothing newer is known."""
        self.groups.pop(number, None)
        self.busy += report.busy
        self.at_work = max(self.at_work, report.at_work)
        if report.version >= self.newest.version:
            self.newest = report

    def new_centre(self) -> None:
        """From now on versions are those of another centre, which begins to count where the pass began."""
        self.newest = Report(-1, self.newest.kept)
        self.before, self.at_work = self.before + self.at_work, 0.0

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


class Around:
    """Carries out passes on a cluster, around a centre."""

    def __init__(self, client: Client, dataset: Dataset, algorithm: Central) -> None:
        self._client, self._dataset, self._algorithm = client, dataset, algorithm
        self._sizes = dataset.block_sizes(algorithm.axis)
        self._run = os.urandom(8).hex()
        self._lanes: list[str] = []

    def one_pass(self, state: State, position: int, run: Run) -> State:
        if not self._lanes and (position or run.now.passes):  # resumed: those who had the lanes of the state are gone
            self._lanes = [_GONE] * state.get("lanes", 0)
        ledger: Ledger | None = None
        reason = ""
        for _ in range(_ATTEMPTS):
            try:
                places = self._places()
                if ledger is None:
                    tasks = groups_of(self._sizes, position, len(places.others or places.homes))
                    spent = run.now.costs[-1]
                    known = Report(-1, self._algorithm.keeps(state))
                    ledger = Ledger(state, dict(enumerate(tasks)), known, busy=spent.busy, before=spent.merging)
                return self._attempt(ledger, places, run)
            except CentreLost as lost:
                reason = str(lost)
            if self._client.status != "running":
                raise Interrupted("the Dask scheduler or its workers are gone; when they are back, run the same again")
        raise Interrupted(f"the centre of the run was lost again and again ({reason}); run the same again to go on")

    def revisit(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, int]:
        self.close()  # passes are over, and the memory is needed
        return Rounds(self._client, self._dataset, self._algorithm, lanes=1).revisit(state, ids)

    def close(self) -> None:
        """Free what workers keep for this run; should one not hear it, later runs push it out."""
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

    def _attempt(self, ledger: Ledger, places: Places, run: Run) -> State:
        """A pass from what the ledger knows to its end, unless the centre is lost."""
        made = self._client.submit(
            CentreActor, actor=True, key=task_key("centre"), priority=100,
            resources={CENTRE: 1} if places.homes else None,
        )  # fmt: skip
        futures: dict[Any, int] = {}
        try:
            centre = self._actor(made)
            ledger.new_centre()
            call = Calls(centre)
            call.now("open", self._algorithm, self._dataset, ledger.begun, ledger.newest.kept, self._lanes)
            submitted = partial(self._submitted, centre, places, run.watch.run)
            futures = {submitted(group): number for number, group in ledger.groups.items()}
            for future in self._as_they_end(list(futures), places):
                report = self._report(future, made)
                ledger.done(futures[future], report)
                future.release()
                run.note_work(places.threads, ledger.busy, ledger.before + ledger.at_work, beside=True)
                if report.glance is not None:
                    run.watch.glance(report.glance)
                if run.reached(ledger.position(len(self._sizes))):
                    run.keep(call.now("state")[0])
            last: tuple[State, list[str]] = call.now("state")
            self._lanes = last[1]
            return last[0]
        finally:
            self._cancel([*futures, made])

    def _actor(self, made: Future[Any]) -> Any:
        """The actor, once it is there."""
        try:
            with self._client.as_current():  # a copy belongs to this client, the original to whichever is the default
                return copy(made.result(_START))
        except KilledWorker as killed:
            raise self._deadly(killed) from killed
        except Exception as error:
            raise CentreLost(repr(error)) from error

    def _submitted(self, centre: Any, places: Places, told: str, group: range) -> Future[Any]:
        return self._client.submit(
            work_on, self._run, self._algorithm, self._dataset, centre, group, told,
            key=task_key(verb_of(self._algorithm)), pure=False,
            workers=places.others if places.homes and places.others else None,
        )  # fmt: skip

    def _as_they_end(self, futures: list[Future[Any]], places: Places) -> Iterator[Future[Any]]:
        """Futures in the order in which they end."""
        ended, looked = as_completed(futures, loop=self._client.loop), monotonic()
        while not ended.is_empty():
            if ended.has_ready():
                yield next(ended)
            elif monotonic() - looked > _LOOK:
                if places.homes and places.others and not self._places().others:
                    raise CentreLost("all workers but that of the centre have left")
                if not self._client.nthreads():
                    raise CentreLost("all workers have left")
                looked = monotonic()
            else:
                sleep(0.01)

    def _report(self, future: Future[Any], made: Future[Any]) -> Report:
        try:
            report: Report = result_of(self._client, future)
        except KilledWorker as killed:
            raise self._deadly(killed) from killed
        except Exception as error:
            # Tasks that need an actor fail with it, and what they are said to have raised then is Dask's affair.
            if made.status != "finished" or isinstance(error, CancelledError):
                raise CentreLost(repr(error)) from error
            raise
        return report

    def _deadly(self, killed: KilledWorker) -> WorkerError:
        return WorkerError(f"{self._dataset.url}: workers died of the same blocks: {killed}")

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)


def groups_of(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Runs of blocks from `position` on, each a task; several for every worker, none too large.

    >>> from daskfs.stream.around import groups_of
    >>> list(groups_of(np.full(6, 100), 2, workers=1))
    [range(2, 3), range(3, 4), range(4, 5), range(5, 6)]
    """
    return groups(sizes, position, min(_GROUP_BYTES, int(sizes.sum()) // (_GROUPS_PER_WORKER * workers)))
