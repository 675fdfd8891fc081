"""The driver of the asynchronous schedule, which starts the tasks and the centre (the dask actor with the state).

If a worker is lost, Dask runs its groups of blocks again on other workers. An offer that arrives twice at the
centre does no harm.

If the centre is lost, the driver starts a new centre from its `Ledger`: the state at the start of the pass, the groups
that are finished, and the features that the centre last reported. If workers have selected sets of their own, as in
Asy-OS, the whole pass is repeated, since a worker without another group would not offer its selected set again.

At the end of a pass the driver fetches the state and calls `end_pass`. The centre also calls `end_pass` on its own
copy, so that the next pass begins without sending the state to the centre again.

A `WorkUnit` is a pass, or a visit of some columns before the first or after the last pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, NamedTuple

import numpy as np
from distributed import Client, Future, KilledWorker
from numpy.typing import NDArray

from daskfs.engine.asynchronous.centre import CentreReport
from daskfs.engine.asynchronous.worker import ActorCalls, CentreActor, CentreLost, GroupItems, forget, work_on
from daskfs.engine.cluster.waiting import Vigil, await_connection, await_result, call, call_briefly
from daskfs.engine.cluster.worker_pool import require_worker, workers_of
from daskfs.engine.events.messages import Spent
from daskfs.engine.events.send import TaskReports
from daskfs.engine.passes import PassRunner, SelectionRun
from daskfs.engine.shards import revisit_groups, short_groups, shrinking_groups
from daskfs.engine.synchronous import task_key
from daskfs.errors import Interrupted, WorkerError
from daskfs.protocol import AsynchronousAlgorithm, State

CENTRE = "centre"
"""A worker with this resource (``dask worker --resources centre=1``) gets the actor with the state, and no groups."""
_ATTEMPTS = 10  # at a unit of work
_POLL = 2.0  # seconds between two checks that there are workers
TOGETHER = 0.25  # seconds: tasks that end within them cost one call of the centre
_LAST_OFFERS = 5.0  # seconds without news until the offers of tasks that have ended count as lost
_PAUSE = 0.005  # seconds until the centre is asked for them again
_GONE_WORKER = "gone"  # in place of the name of a worker that is known to the state only


class WorkerAddresses(NamedTuple):
    """The workers of a cluster that process groups of blocks."""

    workers: list[str] | None
    """Addresses of the workers without the resource `CENTRE`; None if all workers are alike."""
    threads: int
    """Total number of threads of the workers that process groups of blocks."""
    has_centre: bool
    """Whether a worker has the resource `CENTRE`."""


@dataclass(slots=True)
class CentreHandle:
    """The driver's reference to the centre, the dask actor that owns the state."""

    future: Future[Any]
    """The future of the dask actor, which keeps the actor alive."""
    actor: Any
    units: int = 0
    """How many units of work (passes or visits) this centre actor has completed."""
    closing: Any = None
    """The outstanding reply of the centre actor to the call of `end_pass`, or None."""

    @property
    def call(self) -> ActorCalls:
        """Return an object that calls methods of the centre actor."""
        return ActorCalls(self.actor)


@dataclass(slots=True)
class Ledger:
    """The driver's record of a unit of work, from which the work continues after the centre actor is lost."""

    start: State
    """The state at the start of the unit of work."""
    groups: dict[int, range]
    """Groups of blocks that are not finished, by number."""
    held: NDArray[np.uint64]
    """Ids of the features in the last report of the centre actor."""
    merging: float = 0.0
    """Seconds that centre actors were busy during this unit of work."""

    def note(self, report: CentreReport) -> None:
        """Record a report of the centre actor: finished groups, features in the state, and busy seconds."""
        for number in report.finished:
            self.groups.pop(number, None)
        self.held = report.held
        self.merging += report.merging

    def position(self, end: int) -> int:
        """Return the first block that is not finished, or `end`; some later blocks may be finished."""
        return min((group.start for group in self.groups.values()), default=end)


@dataclass
class WorkUnit:
    """A unit of work for an asynchronous schedule: a pass, or a visit of some columns."""

    ledger: Ledger
    before: Spent
    """The time and bytes of the pass before the run was resumed."""
    verb: str
    """The verb after which the Dask tasks of the unit of work are named."""
    cut: Callable[[int], Iterator[range]]
    """Function that returns the groups of blocks or columns for a number of threads."""
    columns: NDArray[np.uint64] | None = None
    """Ids of the columns to visit, of which a group is a range; None for a pass, which has ranges of blocks."""
    ended: list[str] = field(default_factory=list)
    """Keys of tasks that have ended."""

    def items(self, group: range) -> GroupItems:
        """Return the block numbers or the column ids of a group."""
        return group if self.columns is None else self.columns[group.start : group.stop]


class AsynchronousRunner(PassRunner):
    """Carries out asynchronous passes on a cluster, with a centre (the dask actor that owns the state)."""

    _algorithm: AsynchronousAlgorithm

    def __init__(self, client: Client, run: SelectionRun) -> None:
        super().__init__(run)
        self._client, self._reports = client, TaskReports(client)
        self._numbers = count()  # of groups, unique in a run: offers of an old group may come late
        self._workers: list[str] = []
        self._centre: CentreHandle | None = None
        # Asy-OS needs them. On two workers its recall fell with larger groups, a centre that stays, and all tasks in
        # one message: it keeps to short groups, a new view for each, and a new centre for every pass.
        self._fresh = run.algorithm.sharing.needs_fresh_views

    def run_pass(self, state: State, position: int) -> State:
        if not self._workers and (position or self._run.snapshot.passes):  # resumed: the workers of the state are gone
            self._workers = [_GONE_WORKER] * self._algorithm.n_workers(state)
        groups = partial(short_groups if self._fresh else shrinking_groups, self._sizes, position)
        state = self._complete(self._unit(state, self._algorithm.verb, groups))
        if self._fresh:
            self._drop_centre()
        elif self._centre is not None:
            try:
                self._centre.closing = self._centre.call.later("end_pass")
            except CentreLost:
                self._drop_centre()
        return state

    def fold_columns(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, Spent]:
        unit = self._unit(state, "revisit", partial(revisit_groups, len(ids)), np.sort(ids))
        return self._complete(unit), self._reports.total(unit.ended)

    def close(self) -> None:
        """Free the workers' sessions; a worker that cannot be reached drops its sessions in later selection runs."""
        self._reports.close()
        self._drop_centre()
        if self._client.status == "running":
            with suppress(Exception):
                call_briefly(self._client, partial(self._client.run, forget, self._reports.run, on_error="ignore"))

    def _unit(self, state: State, *arguments: Any) -> WorkUnit:
        before = self._run.cost.spent
        return WorkUnit(Ledger(state, {}, self._algorithm.held_features(state), before.merging), before, *arguments)

    def _complete(self, unit: WorkUnit) -> State:
        """Return the state after a unit of work, which goes on with a new centre actor whenever the actor is lost."""
        reason, is_cut = "", False
        self._reports.clear()
        for _ in range(_ATTEMPTS):
            try:
                addresses = self._addresses()
                if self._fresh or not is_cut:  # what a lost centre knew of workers' own sets is known to no other
                    unit.ledger.groups = dict(zip(self._numbers, unit.cut(addresses.threads), strict=False))
                    is_cut = True
                return self._attempt(unit, addresses)
            except KilledWorker as killed:
                raise WorkerError(f"{self._dataset.url}: workers died of the same blocks: {killed}") from killed
            except CentreLost as lost:
                reason = str(lost)
                self._drop_centre()
            await_connection(self._client)
        raise Interrupted(f"the centre of the run was lost again and again ({reason}); run the same again to go on")

    def _addresses(self) -> WorkerAddresses:
        """Return the addresses of the workers, after waiting until there is at least one worker."""
        try:
            require_worker(self._client)
            workers = workers_of(self._client)
        except Interrupted:
            raise
        except Exception as error:
            raise CentreLost(repr(error)) from error
        if not workers:
            raise CentreLost("the last worker has left")
        centres = {address for address, worker in workers.items() if CENTRE in worker["resources"]}
        others = workers.keys() - centres
        threads = sum(workers[address]["nthreads"] for address in others or centres)
        return WorkerAddresses(sorted(others) if centres and others else None, threads, bool(centres))

    def _attempt(self, unit: WorkUnit, addresses: WorkerAddresses) -> State:
        """Return the state after a unit of work that starts from the ledger. Raise CentreLost if the actor is lost."""
        if self._centre is None:
            self._centre = self._open_centre(unit.ledger, addresses)
        centre, groups = self._centre, unit.ledger.groups
        if centre.closing is not None:  # so that no worker gets a view of the previous pass
            centre.call.answer(centre.closing)
            centre.closing = None
        futures: list[Future[Any]] = []
        try:
            for _ in range(_ATTEMPTS):
                if not groups:
                    break  # otherwise workers died before the last offers of some groups had arrived
                futures = self._submit_groups(centre, addresses, unit)
                for ended in self._as_they_end(futures, addresses):
                    self._check(ended, centre.future)
                    unit.ended += [str(future.key) for future in ended]
                    self._ask_centre(centre, unit, addresses.threads)
                self._await_last_offers(centre, unit, addresses.threads)
        finally:
            self._cancel(futures)
        if groups:
            raise CentreLost("what workers say does not reach it")
        state, self._workers = centre.call.now("state")
        centre.units += 1
        return state

    def _ask_centre(self, centre: CentreHandle, unit: WorkUnit, threads: int) -> None:
        """Record a report of the centre actor in the ledger and the run, and save a checkpoint if one is due."""
        report: CentreReport = centre.call.now("report")
        unit.ledger.note(report)
        spent = self._reports.total(unit.ended)
        spent.add(unit.before)
        self._run.note_work(threads, replace(spent, merging=unit.ledger.merging), has_centre=True)
        if unit.columns is not None:
            return
        if report.preview is not None:
            self._run.listener.preview(report.preview)
        if self._run.advance(unit.ledger.position(len(self._sizes))):
            self._run.save(centre.call.now("state")[0])

    def _await_last_offers(self, centre: CentreHandle, unit: WorkUnit, threads: int) -> None:
        """Wait for the offers of all tasks that have ended, until no more offers arrive for a few seconds."""
        groups, deadline = unit.ledger.groups, monotonic() + _LAST_OFFERS
        while groups and monotonic() < deadline:
            left = len(groups)
            self._ask_centre(centre, unit, threads)
            if len(groups) < left:
                deadline = monotonic() + _LAST_OFFERS
            else:
                sleep(_PAUSE)

    def _open_centre(self, ledger: Ledger, addresses: WorkerAddresses) -> CentreHandle:
        """Start a new centre actor with the state and the features of the ledger."""
        resources = {CENTRE: 1} if addresses.has_centre else None
        future = self._client.submit(CentreActor, actor=True, key=task_key("centre"), priority=100, resources=resources)
        try:
            centre = CentreHandle(future, self._await_actor(future, addresses))
            centre.call.now("open", self._algorithm, self._dataset, ledger.start, ledger.held, self._workers)
        except BaseException:
            self._cancel([future])
            raise
        return centre

    def _drop_centre(self) -> None:
        """Cancel the centre actor, which is lost or no longer needed."""
        if self._centre is not None:
            self._cancel([self._centre.future])
        self._centre = None

    def _await_actor(self, future: Future[Any], addresses: WorkerAddresses) -> Any:
        """Return the centre actor as soon as Dask has started the actor, which takes a while on a busy cluster."""
        vigil = Vigil(self._client)
        while True:
            try:
                with self._client.as_current():  # a copy belongs to this client, the original to the default one
                    return copy(call_briefly(self._client, future.result, seconds=_POLL))
            except TimeoutError:
                if addresses.has_centre and not self._addresses().has_centre:
                    raise CentreLost("the worker that is meant for it has left") from None
                vigil.look([future])
            except KilledWorker:
                raise
            except Exception as error:
                raise CentreLost(repr(error)) from error

    def _submit_groups(self, centre: CentreHandle, addresses: WorkerAddresses, unit: WorkUnit) -> list[Future[Any]]:
        """Submit a task for every group of blocks, in one message to the scheduler (for Asy-OS in many messages).

        Dask spreads tasks over idle workers only if many tasks come at once; single tasks would all go to the worker
        that holds the centre actor. Dask runs the tasks of one message in the order of their keys.
        """
        name, run, groups = task_key(unit.verb), self._reports.run, unit.ledger.groups
        common, events = (run, self._algorithm, self._dataset, centre.actor, centre.units), self._run.listener.run
        tasks = [(*common, number, unit.items(group), events) for number, group in groups.items()]
        keys = [f"{name}{number:08x}" for number in groups]
        options: dict[str, Any] = {"pure": False, "workers": addresses.workers}
        if self._fresh:
            pairs = zip(tasks, keys, strict=True)
            return [self._client.submit(work_on, *task, key=key, **options) for task, key in pairs]
        return self._client.map(work_on, *zip(*tasks, strict=True), key=keys, **options)

    def _as_they_end(self, futures: list[Future[Any]], addresses: WorkerAddresses) -> Iterator[list[Future[Any]]]:
        """Yield lists of futures that have ended at about the same time."""
        ended: SimpleQueue[Future[Any]] = SimpleQueue()
        for future in futures:
            future.add_done_callback(ended.put)
        left, vigil = set(futures), Vigil(self._client)
        while left:
            batch: list[Future[Any]] = []
            until = inf
            while len(batch) < len(left) and monotonic() < until:
                try:
                    batch.append(ended.get(timeout=min(_POLL, max(0.0, until - monotonic()))))
                except Empty:
                    if not batch:
                        self._check_workers(addresses)
                        vigil.look(left)
                else:
                    until = min(until, monotonic() + TOGETHER)
            left.difference_update(batch)
            vigil.succeed()
            yield batch

    def _check_workers(self, addresses: WorkerAddresses) -> None:
        """Raise CentreLost if no worker is left that could process groups of blocks."""
        try:
            alive = call(self._client, self._client.nthreads).keys()
        except Interrupted:
            raise
        except Exception as error:
            raise CentreLost(repr(error)) from error
        if not alive:
            raise CentreLost("all workers have left")
        if addresses.workers is not None and alive.isdisjoint(addresses.workers):  # a restart changes addresses
            raise CentreLost("all workers but that of the centre have left")

    def _check(self, ended: list[Future[Any]], centre: Future[Any]) -> None:
        """Raise the exception of a failed task, or CentreLost if the task failed because of the centre actor."""
        for future in ended:
            try:
                if future.status in ("error", "cancelled"):
                    await_result(self._client, future)
            except KilledWorker:
                raise
            except Exception as error:
                # Tasks that use an actor fail with it, and Dask decides what they are said to have raised.
                if centre.status != "finished" or isinstance(error, CancelledError):
                    raise CentreLost(repr(error)) from error
                raise
            future.release()

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            with suppress(Exception):
                call_briefly(self._client, partial(self._client.cancel, futures, force=True))
