"""Asynchronous passes on a cluster: workers offer, a centre decides, and nobody waits for anybody.

The centre is a Dask actor. Tasks are groups of blocks; for each block a worker sends its offer without waiting and
takes the reply, a newer view, one block later; with nothing to offer it says nothing. So a pass that changes little is
as fast as reading.

    worker 0   read, work ──offer──►┐            ┌◄── view
    worker 1   read, work ──offer──►│  centre    │
                                    └─ accept ───┘

What can be lost, and what happens then:

* a worker: Dask runs its groups again, elsewhere. An offer that comes twice does no harm, by the protocol.
* the centre: its next caller notices within seconds. The driver knows the state the pass began with, the groups that
  are done, and which features the centre held when the last of them ended; a new centre starts from these.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, as_completed, get_worker
from numpy.typing import NDArray

from daskfs.errors import DaskfsError, Interrupted, WorkerError
from daskfs.protocol import Central, State
from daskfs.store.dataset import Dataset
from daskfs.stream.central import Centre, Report, introduced, rebuilt
from daskfs.stream.fold import Run
from daskfs.stream.lanes import AHEAD, copied
from daskfs.stream.rounds import Rounds

CENTRE = "centre"
"""A worker with this resource (``dask worker --resources centre=1``) gets the centre, and little else."""
_PATIENCE = 1.0  # seconds until someone who waits for the centre asks whether it is alive
_SIGN_OF_LIFE = 3.0  # seconds for the answer
_IN_FLIGHT = 1  # offers whose reply a worker has not taken yet
_GROUPS_PER_WORKER = 8  # in a pass: a lost centre or worker costs the groups that were running
_GROUP_BYTES = 1 << 30  # at most: some tenths of a second of reading
_ATTEMPTS = 10  # at a pass
_START = 60.0  # seconds for a centre to be made, columns to be read again included
_LOST = (OSError, TimeoutError, RuntimeError, CancelledError, KeyError)
"""Ways in which Dask says that an actor is gone; KeyError where its worker was restarted at the same address."""


class CentreLost(Exception):
    """The process of the centre has died, or does not answer."""


class CentreActor(Centre):
    """The thin edge: a centre that is made, or made again, where it will live."""

    def __init__(
        self, algorithm: Central, dataset: Dataset, state: State, kept: NDArray[np.uint64], lanes: list[str]
    ) -> None:
        state = introduced(algorithm, dataset, copied(state))
        super().__init__(algorithm, rebuilt(algorithm, dataset, state, kept), lanes)

    async def ping(self) -> bool:
        """Answered by the process even while the centre is busy."""
        return True


@dataclass(slots=True)
class Desk:
    """What a worker's thread keeps from one group of a run to the next."""

    run: str
    own: State = field(default_factory=dict)


_desks: dict[int, Desk] = {}


def work_on(run: str, algorithm: Central, dataset: Dataset, centre: Any, numbers: range) -> Report:
    """One group of blocks, on a worker."""
    desk = _desks.get(threading.get_ident())
    if desk is None or desk.run != run:
        desk = _desks[threading.get_ident()] = Desk(run)
    call = Calls(centre)
    lane = call.now("join", f"{get_worker().address} {threading.get_ident()}")
    desk.own["lane"] = lane
    known, view = call.now("view", lane)
    replies: deque[Any] = deque()

    def newest(most: int) -> None:
        nonlocal known, view
        while len(replies) > most or (replies and replies[0].done()):
            if (reply := call.answer(replies.popleft())) is not None:
                known, view = reply

    for block in dataset.blocks(numbers, axis=algorithm.axis, ahead=AHEAD):
        newest(_IN_FLIGHT)
        desk.own, offer = algorithm.work(desk.own, view, block)
        if offer is not None:
            replies.append(call.later("offer", lane, offer, known))
    if (offer := algorithm.rest(desk.own)) is not None:
        replies.append(call.later("offer", lane, offer, known))
    newest(0)
    report: Report = call.now("report")
    return report


def forget(run: str) -> None:
    """Drop what this process keeps for a run."""
    for thread in [thread for thread, desk in _desks.items() if desk.run == run]:
        del _desks[thread]


class Calls:
    """Calls of an actor that never wait for a dead one."""

    def __init__(self, centre: Any) -> None:
        self._centre = centre

    def later(self, method: str, *arguments: Any) -> Any:
        """Call without waiting; `answer` has the result."""
        try:
            return getattr(self._centre, method)(*arguments)
        except _LOST as error:
            raise CentreLost(repr(error)) from error

    def now(self, method: str, *arguments: Any) -> Any:
        return self.answer(self.later(method, *arguments))

    def answer(self, reply: Any) -> Any:
        """What a call returns, however long it takes, as long as the centre's process shows that it is alive."""
        while True:
            try:
                return reply.result(_PATIENCE)
            except DaskfsError:
                raise
            except TimeoutError:
                self._check_alive()
            except _LOST as error:
                raise CentreLost(repr(error)) from error

    def _check_alive(self) -> None:
        try:
            self._centre.ping().result(_SIGN_OF_LIFE)
        except _LOST as error:
            raise CentreLost("no sign of life") from error


@dataclass(slots=True)
class Ledger:
    """What the driver knows of a pass: the truth, as far as there is one."""

    begun: State
    """The state the pass began with."""
    groups: dict[int, range]
    """Those still to do, by number."""
    newest: Report

    def done(self, number: int, report: Report) -> None:
        """Strike out a group; what the centre held when it ended is remembered, if nothing newer is known."""
        self.groups.pop(number, None)
        if report.version >= self.newest.version:
            self.newest = report

    def position(self, end: int) -> int:
        """All blocks before this one are done; some behind it may be."""
        return min((group.start for group in self.groups.values()), default=end)


class Around:
    """Carries out passes on a cluster, around a centre."""

    def __init__(self, client: Client, dataset: Dataset, algorithm: Central) -> None:
        self._client, self._dataset, self._algorithm = client, dataset, algorithm
        self._sizes = dataset.block_sizes(algorithm.axis)
        self._run = os.urandom(8).hex()
        self._lanes: list[str] = []

    def one_pass(self, state: State, position: int, run: Run) -> State:
        groups = dict(enumerate(groups_of(self._sizes, position, len(self._client.nthreads()))))
        ledger = Ledger(state, groups, Report(-1, self._algorithm.keeps(state)))
        reasons = ""
        for _ in range(_ATTEMPTS):
            try:
                with self._client.as_current():  # an actor's proxy looks for its client there
                    return self._attempt(ledger, run)
            except CentreLost as lost:
                reasons = str(lost)
            if self._client.status != "running":
                break
        raise Interrupted(f"the centre of the run was lost again and again ({reasons}); run the same again to go on")

    def revisit(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, int]:
        with suppress(Exception):  # passes are over; what is not dropped now goes with the next run
            self._client.run(forget, self._run)
        return Rounds(self._client, self._dataset, self._algorithm, lanes=1).revisit(state, ids)

    def _attempt(self, ledger: Ledger, run: Run) -> State:
        """A pass from what the ledger knows to its end, unless the centre is lost."""
        made = self._new_centre(ledger)
        futures: dict[Any, int] = {}
        try:
            centre = _resolved(made)
            futures = {self._submitted(centre, group): number for number, group in ledger.groups.items()}
            for future in as_completed(list(futures), loop=self._client.loop):
                ledger.done(futures[future], self._report(future))
                future.release()
                if run.reached(ledger.position(len(self._sizes))):
                    run.keep(Calls(centre).now("state")[0])
            last: tuple[State, list[str]] = Calls(centre).now("state")
            self._lanes = last[1]
            return last[0]
        finally:
            self._cancel([*futures, made])

    def _new_centre(self, ledger: Ledger) -> Future[Any]:
        try:
            begun = self._client.scatter([ledger.begun], hash=False)[0]
        except OSError as error:
            raise CentreLost(repr(error)) from error
        return self._client.submit(
            CentreActor, self._algorithm, self._dataset, begun, ledger.newest.kept, self._lanes,
            actor=True, key=f"daskfs-centre-{os.urandom(8).hex()}", pure=False, priority=100,
            resources={CENTRE: 1} if self._homes() else None,
        )  # fmt: skip

    def _submitted(self, centre: Any, group: range) -> Future[Any]:
        elsewhere = sorted(set(self._client.nthreads()) - self._homes()) if self._homes() else []
        return self._client.submit(
            work_on, self._run, self._algorithm, self._dataset, centre, group,
            key=f"daskfs-offer-{os.urandom(8).hex()}", pure=False,
            workers=elsewhere or None, allow_other_workers=bool(elsewhere),
        )  # fmt: skip

    def _homes(self) -> set[str]:
        """Addresses of workers that are meant for a centre."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        return {address for address, worker in workers.items() if CENTRE in worker["resources"]}

    def _report(self, future: Future[Any]) -> Report:
        try:
            report: Report = future.result()
        except KilledWorker as killed:
            raise WorkerError(f"{self._dataset.url}: workers died of the same blocks: {killed}") from killed
        except CancelledError as error:  # what Dask does with tasks that need an actor whose worker has died
            raise CentreLost(repr(error)) from error
        return report

    def _cancel(self, futures: list[Any]) -> None:
        if self._client.status == "running":
            with suppress(Exception):
                self._client.cancel(futures, force=True)


def groups_of(sizes: NDArray[np.int64], position: int, workers: int) -> Iterator[range]:
    """Runs of blocks from `position` on, each a task; several for every worker, none too large.

    >>> list(groups_of(np.full(6, 100), 2, workers=1))
    [range(2, 3), range(3, 4), range(4, 5), range(5, 6)]
    """
    most = min(_GROUP_BYTES, int(sizes.sum()) // (_GROUPS_PER_WORKER * workers))
    first, total = position, 0
    for number in range(position, len(sizes)):
        total += int(sizes[number])
        if total >= most or number == len(sizes) - 1:
            yield range(first, number + 1)
            first, total = number + 1, 0


def _resolved(made: Future[Any]) -> Any:
    try:
        return made.result(_START)
    except DaskfsError:
        raise
    except _LOST as error:
        raise CentreLost(repr(error)) from error
