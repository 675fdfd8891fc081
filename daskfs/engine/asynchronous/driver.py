"""The asynchronous schedule as the driver sees it: a centre, and tasks that call it.

What can be lost, and what happens then:

* A worker: Dask runs its groups again, elsewhere. By the protocol an offer that comes twice does no harm.
* The centre: Dask reports at once if its process has died, and its callers notice within seconds if it does not answer.
  The driver knows the state the pass began with, the groups that are finished, and which features the centre last held
  (`Ledger`); a new centre starts from these. If workers have sets of their own, as in Asy-OS, the pass is begun again,
  since a worker without another group would not offer its set again.

At the end of a pass the driver fetches the state and closes the pass. The centre does the same with its own copy and
stays, so that the next pass begins without sending the state again.

Columns to revisit are shared in the same way: a `WorkUnit` is a pass, or such a revisit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker
from numpy.typing import NDArray

from daskfs.engine.asynchronous.centre import CentreReport
from daskfs.engine.asynchronous.worker import ActorCalls, CentreActor, CentreLost, GroupItems, forget, work_on
from daskfs.engine.cluster.worker_pool import GONE, require_worker
from daskfs.engine.events.messages import Spent
from daskfs.engine.events.send import TaskReports
from daskfs.engine.passes import SelectionRun
from daskfs.engine.shards import revisit_groups, short_groups, shrinking_groups
from daskfs.engine.synchronous import task_key
from daskfs.errors import Interrupted, WorkerError
from daskfs.protocol import AsynchronousAlgorithm, State
from daskfs.store.dataset.dataset import Dataset

CENTRE = "centre"
"""A worker with this resource (``dask worker --resources centre=1``) gets the centre, and no groups."""
_ATTEMPTS = 10  # at a unit of work
_POLL = 2.0  # seconds between two checks that there are workers
TOGETHER = 0.25  # seconds: tasks that end within them cost one call of the centre
_LAST_OFFERS = 5.0  # seconds without news until the offers of tasks that have ended count as lost
_PAUSE = 0.005  # seconds until the centre is asked for them again
_FORGET_SECONDS = 3.0  # for workers to drop the sessions of a run
_GONE_WORKER = "gone"  # in place of the name of a worker that is known to the state only


@dataclass(frozen=True, slots=True)
class WorkerAddresses:
    """Addresses of the workers of a cluster."""

    centres: list[str]
    """Workers with the resource `CENTRE`."""
    others: list[str]
    threads: int
    """Threads of the workers that process groups."""


@dataclass(slots=True)
class CentreHandle:
    """The driver's end of a centre."""

    future: Future[Any]
    """The task of the actor, which lives as long as this is held."""
    actor: Any
    units: int = 0
    """How many units of work this centre has completed."""
    closing: Any = None
    """The reply to `end_pass`, until it is awaited."""

    @property
    def call(self) -> ActorCalls:
        """Return what calls the centre."""
        return ActorCalls(self.actor)

    def close_pass(self) -> None:
        """Let the centre close the pass, without waiting."""
        self.closing = self.call.later("end_pass")

    def await_closing(self) -> None:
        """Wait until the pass is closed: a worker that joined before would be given a view of the old pass."""
        if self.closing is not None:
            self.call.answer(self.closing)
            self.closing = None


@dataclass(slots=True)
class Ledger:
    """What the driver knows of a unit of work; enough to go on after the centre is lost. No Dask here."""

    start: State
    """The state at the start of the unit."""
    groups: dict[int, range]
    """Groups that are not finished, by number."""
    held: NDArray[np.uint64]
    """Ids of the features that the centre held at its last report."""
    merging: float = 0.0
    """Seconds that centres were busy."""

    def note(self, report: CentreReport) -> None:
        """Note a report of the centre."""
        for number in report.finished:
            self.groups.pop(number, None)
        self.held = report.held
        self.merging += report.merging

    def position(self, end: int) -> int:
        """Return the first block that is not finished, or `end`; some blocks behind it may be finished."""
        return min((group.start for group in self.groups.values()), default=end)


@dataclass(frozen=True)
class WorkUnit:
    """A pass, or a revisit of some columns."""

    run: SelectionRun
    verb: str
    """The name of its tasks."""
    groups: Callable[[int], Iterator[range]]
    """Returns the groups for a number of threads."""
    columns: NDArray[np.uint64] | None = None
    """The columns to revisit, of which a group is a range; None for a pass, whose groups are ranges of blocks."""

    def items(self, group: range) -> GroupItems:
        """Return what the task of a group works on."""
        return group if self.columns is None else self.columns[group.start : group.stop]


class AsynchronousRunner:
    """Carries out passes on a cluster, around a centre. Close it when the run ends."""

    def __init__(self, client: Client, dataset: Dataset, algorithm: AsynchronousAlgorithm) -> None:
        self._client, self._dataset, self._algorithm = client, dataset, algorithm
        self._sizes = dataset.block_sizes(algorithm.axis)
        self._reports = TaskReports(client)
        self._numbers = count()  # of groups, unique in a run: offers of an old group may come late
        self._workers: list[str] = []
        self._centre: CentreHandle | None = None
        # Asy-OS needs them. On two workers its recall fell with larger groups, a centre that stays, and all tasks in
        # one message: it keeps to short groups, a new view for each, and a new centre for every pass.
        self._fresh = algorithm.sharing.needs_fresh_views

    def run_pass(self, state: State, position: int, run: SelectionRun) -> State:
        """Carry out a pass; see `PassRunner.run_pass`."""
        if not self._workers and (position or run.snapshot.passes):  # resumed: the workers of the state are gone
            self._workers = [_GONE_WORKER] * self._algorithm.n_workers(state)
        groups = partial(short_groups if self._fresh else shrinking_groups, self._sizes, position)
        state, _ = self._complete(state, WorkUnit(run, self._algorithm.verb, groups))
        self._close_pass()
        return state

    def revisit(self, state: State, ids: NDArray[np.uint64], run: SelectionRun) -> tuple[State, int]:
        """Share a revisit of columns among the workers; see `PassRunner.revisit`."""
        return self._complete(state, WorkUnit(run, "revisit", partial(revisit_groups, len(ids)), np.sort(ids)))

    def close(self) -> None:
        """Free what workers keep for this run; a worker that cannot be reached drops it in later runs."""
        self._reports.close()
        self._drop_centre()
        if self._client.status == "running":
            with suppress(Exception):
                self._client.run(forget, self._reports.run, on_error="ignore", callback_timeout=_FORGET_SECONDS)

    def _complete(self, state: State, unit: WorkUnit) -> tuple[State, int]:
        """Return the state after a unit of work, and how many bytes were processed."""
        ledger: Ledger | None = None
        reason, before = "", replace(unit.run.cost.spent)
        self._reports.clear()
        for _ in range(_ATTEMPTS):
            try:
                addresses = self._addresses()
                if ledger is None:
                    held = self._algorithm.held_features(state)
                    ledger = Ledger(state, self._number_groups(unit, addresses), held, before.merging)
                elif self._fresh:  # what the lost centre knew of workers' own sets is known to no other
                    ledger.groups = self._number_groups(unit, addresses)
                return self._attempt(ledger, addresses, unit, before), self._reports.total().bytes
            except CentreLost as lost:
                reason = str(lost)
                self._drop_centre()
            if self._client.status != "running":
                raise Interrupted(GONE)
        raise Interrupted(f"the centre of the run was lost again and again ({reason}); run the same again to go on")

    def _number_groups(self, unit: WorkUnit, addresses: WorkerAddresses) -> dict[int, range]:
        return dict(zip(self._numbers, unit.groups(addresses.threads), strict=False))

    def _addresses(self) -> WorkerAddresses:
        """Return the addresses of the workers; wait until there is one."""
        try:
            require_worker(self._client)
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except Interrupted:
            raise
        except Exception as error:
            raise CentreLost(repr(error)) from error
        if not workers:
            raise CentreLost("the last worker has left")
        centres = {address for address, worker in workers.items() if CENTRE in worker["resources"]}
        others = workers.keys() - centres
        threads = sum(workers[address]["nthreads"] for address in others or centres)
        return WorkerAddresses(sorted(centres), sorted(others), threads)

    def _attempt(self, ledger: Ledger, addresses: WorkerAddresses, unit: WorkUnit, before: Spent) -> State:
        """Return the state after a unit of work, begun from the ledger; CentreLost if the centre is lost."""
        if self._centre is None:
            self._centre = self._open_centre(ledger, addresses)
        centre = self._centre
        centre.await_closing()
        futures: list[Future[Any]] = []
        try:
            for _ in range(_ATTEMPTS):
                if not ledger.groups:
                    break  # otherwise workers died before the last offers of some groups had arrived
                futures = self._submit_groups(centre, addresses, unit, ledger.groups)
                for ended in self._as_they_end(futures, addresses):
                    self._check(ended, centre.future)
                    self._ask_centre(centre, ledger, addresses, unit, before)
                if ledger.groups:
                    self._await_last_offers(ledger, centre)
                    self._ask_centre(centre, ledger, addresses, unit, before)
        finally:
            self._cancel(futures)
        if ledger.groups:
            raise CentreLost("what workers say does not reach it")
        state, self._workers = centre.call.now("state")
        centre.units += 1
        return state

    def _ask_centre(
        self, centre: CentreHandle, ledger: Ledger, addresses: WorkerAddresses, unit: WorkUnit, before: Spent
    ) -> None:
        """Ask for a report after tasks have ended, and pass it on to the run; in a pass a checkpoint may be due."""
        report: CentreReport = centre.call.now("report")
        ledger.note(report)
        spent = self._reports.total()
        spent.add(replace(before, merging=ledger.merging))
        unit.run.note_work(addresses.threads, spent, has_centre=True)
        if unit.columns is not None:
            return
        if report.preview is not None:
            unit.run.listener.preview(report.preview)
        if unit.run.advance(ledger.position(len(self._sizes))):
            unit.run.save(centre.call.now("state")[0])

    def _open_centre(self, ledger: Ledger, addresses: WorkerAddresses) -> CentreHandle:
        """Start a new centre from the ledger."""
        future = self._client.submit(
            CentreActor, actor=True, key=task_key("centre"), priority=100,
            resources={CENTRE: 1} if addresses.centres else None,
        )  # fmt: skip
        try:
            centre = CentreHandle(future, self._await_actor(future, addresses))
            centre.call.now("open", self._algorithm, self._dataset, ledger.start, ledger.held, self._workers)
        except BaseException:
            self._cancel([future])
            raise
        return centre

    def _close_pass(self) -> None:
        """Let the centre go on to the next pass; drop one that cannot."""
        try:
            if self._fresh:
                self._drop_centre()
            elif self._centre is not None:
                self._centre.close_pass()
        except CentreLost:
            self._drop_centre()

    def _drop_centre(self) -> None:
        """Cancel the centre, which is lost or no longer needed."""
        if self._centre is not None:
            self._cancel([self._centre.future])
        self._centre = None

    def _await_last_offers(self, ledger: Ledger, centre: CentreHandle) -> None:
        """Wait until the offers of all tasks that have ended have arrived, or none arrives any more."""
        deadline = monotonic() + _LAST_OFFERS
        while ledger.groups and monotonic() < deadline:
            left = len(ledger.groups)
            ledger.note(centre.call.now("report"))
            if len(ledger.groups) < left:
                deadline = monotonic() + _LAST_OFFERS
            else:
                sleep(_PAUSE)

    def _await_actor(self, future: Future[Any], addresses: WorkerAddresses) -> Any:
        """Return the actor as soon as it has started, which takes a while on a busy cluster."""
        while True:
            try:
                with self._client.as_current():  # a copy belongs to this client, the original to the default one
                    return copy(future.result(_POLL))
            except TimeoutError:
                if addresses.centres and not self._addresses().centres:
                    raise CentreLost("the worker that is meant for it has left") from None
                require_worker(self._client)
            except KilledWorker as killed:
                raise self._killed_error(killed) from killed
            except Exception as error:
                raise CentreLost(repr(error)) from error

    def _submit_groups(
        self, centre: CentreHandle, addresses: WorkerAddresses, unit: WorkUnit, groups: dict[int, range]
    ) -> list[Future[Any]]:
        """Submit a task for every group, all in one message; for Asy-OS one by one.

        Only if it has many tasks does Dask give them to idle workers; tasks that come alone all go to the worker that
        holds the centre. Dask runs the tasks of a message in the order of their keys.
        """
        name, events = task_key(unit.verb), unit.run.listener.run
        arguments = [
            (
                self._reports.run, self._algorithm, self._dataset, centre.actor, centre.units, number,
                unit.items(group), events,
            )
            for number, group in groups.items()
        ]  # fmt: skip
        workers = addresses.others if addresses.centres and addresses.others else None
        keys = [f"{name}{number:08x}" for number in groups]
        if self._fresh:
            return [
                self._client.submit(work_on, *each, key=key, pure=False, workers=workers)
                for each, key in zip(arguments, keys, strict=True)
            ]
        return self._client.map(work_on, *zip(*arguments, strict=True), key=keys, pure=False, workers=workers)

    def _as_they_end(self, futures: list[Future[Any]], addresses: WorkerAddresses) -> Iterator[list[Future[Any]]]:
        """Yield futures as they end, together with those that end at about the same time."""
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        for future in futures:
            future.add_done_callback(ended.put)
        left = len(futures)
        while left:
            batch: list[Future[Any]] = []
            until = inf
            while len(batch) < left and monotonic() < until:
                try:
                    batch.append(ended.get(timeout=min(_POLL, max(0.0, until - monotonic()))))
                except Empty:
                    if not batch:
                        self._check_workers(addresses)
                else:
                    until = min(until, monotonic() + TOGETHER)
            left -= len(batch)
            yield batch

    def _check_workers(self, addresses: WorkerAddresses) -> None:
        """Raise CentreLost if no worker is left that could process groups."""
        try:
            alive = self._client.nthreads().keys()
        except Exception as error:
            raise CentreLost(repr(error)) from error
        if not alive:
            raise CentreLost("all workers have left")
        if addresses.centres and addresses.others and alive.isdisjoint(addresses.others):  # a restart changes addresses
            raise CentreLost("all workers but that of the centre have left")

    def _check(self, ended: list[Future[Any]], centre: Future[Any]) -> None:
        """Raise what one of some tasks has raised."""
        for future in ended:
            try:
                if future.status in ("error", "cancelled"):
                    future.result(_POLL)
            except KilledWorker as killed:
                raise self._killed_error(killed) from killed
            except Exception as error:
                # Tasks that use an actor fail with it, and Dask decides what they are said to have raised.
                if centre.status != "finished" or isinstance(error, CancelledError):
                    raise CentreLost(repr(error)) from error
                raise
            future.release()

    def _killed_error(self, killed: KilledWorker) -> WorkerError:
        return WorkerError(f"{self._dataset.url}: workers died of the same blocks: {killed}")

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)
