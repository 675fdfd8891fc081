"""The workers of an asynchronous pass: they offer, a centre decides, and nobody waits for anybody.

The centre is a Dask actor. Tasks are groups of blocks. A worker sends an offer without waiting, goes on with the next
blocks, as far as the algorithm lets it, and takes the reply, a newer view, when it is there; what it has to offer until
then becomes one offer. With nothing to offer it says nothing. So a pass that changes little is as fast as reading, and
one that changes much is as fast as the centre.

    worker 0   read, work ──offer──►┐            ┌◄── view
    worker 1   read, work ──offer──►│  centre    │
                                    └─ accept ───┘

A centre may die at any time. Whoever calls it notices within seconds, and says `CentreLost`; what to do about it is
the business of `around`.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from traceback import format_exc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Block, Central, State, copied
from daskfs.store.dataset import Dataset
from daskfs.stream.central import Centre, Report, View, introduced, rebuilt
from daskfs.stream.meter import Meter
from daskfs.stream.reporting import from_task

Share = range | NDArray[np.uint64]
"""What a task works on: blocks by their numbers, or columns by their ids."""

_PATIENCE = 1.0  # seconds until someone who waits for the centre asks whether it is alive
_SIGN_OF_LIFE = 3.0  # seconds for the answer
_RUNS = 2  # whose desks a thread keeps at a time; those of a driver that was killed are pushed out by later runs


class CentreLost(Exception):
    """The process of the centre has died, or does not answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What the algorithm or the dataset raised at the centre: no sign that the centre is gone."""

    error: Exception


class CentreActor:
    """The thin edge: a centre that is made, or made again, in the process where it will live.

    Errors come back as answers, so that all that Dask raises for a call is about the process and not about the work.
    """

    _centre: Centre

    def open(
        self, algorithm: Central, dataset: Dataset, state: State, kept: NDArray[np.uint64], lanes: list[str]
    ) -> None:
        state = introduced(algorithm, dataset, copied(state))
        self._centre = Centre(algorithm, rebuilt(algorithm, dataset, state, kept), lanes)

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the centre, or `open` it."""
        try:
            return getattr(self if method == "open" else self._centre, method)(*arguments)
        except Exception as error:
            error.add_note(f"At the centre:\n{format_exc()}")  # a pickle forgets where it was raised
            return Failure(error)

    async def ping(self) -> bool:
        """Answered by the process even while the centre is busy."""
        return True


class Calls:
    """Calls of a `CentreActor` that never wait for a dead one."""

    def __init__(self, centre: Any) -> None:
        self._centre = centre

    def now(self, method: str, *arguments: Any) -> Any:
        """What a method of the centre returns; raises what it raises."""
        return self.answer(self.later(method, *arguments))

    def later(self, method: str, *arguments: Any) -> Any:
        """Call without waiting; `answer` has the result."""
        try:
            return self._centre.do(method, *arguments)
        except Exception as error:
            raise CentreLost(repr(error)) from error

    def answer(self, reply: Any) -> Any:
        """What a call returns, however long it takes, as long as the centre's process shows that it is alive."""
        while True:
            try:
                answer = reply.result(_PATIENCE)
            except TimeoutError:  # never the answer itself: Dask turns that of a connection into another OSError
                self._check_alive()
            except Exception as error:  # OSError, RuntimeError, KeyError, CancelledError: Dask has many words for it
                raise CentreLost(repr(error)) from error
            else:
                if isinstance(answer, Failure):
                    raise answer.error
                return answer

    def _check_alive(self) -> None:
        try:
            self._centre.ping().result(_SIGN_OF_LIFE)
        except Exception as error:
            raise CentreLost("no sign of life") from error


@dataclass(slots=True)
class Desk:
    """What a worker's thread keeps from one group of a run to the next."""

    who: str = field(default_factory=lambda: os.urandom(8).hex())
    """A name for the lane that goes with `own`: whoever starts with nothing gets a lane of its own."""
    own: State = field(default_factory=dict)
    centre: str = ""
    """The one that was joined last, …"""
    seen: View = field(default_factory=lambda: View(-1, {}))
    """… and what was last seen of it: a group begins where the one before it ended, without asking."""


_desks: dict[int, dict[str, Desk]] = {}
_over: deque[str] = deque(maxlen=100)  # runs that are: a group that was cancelled may begin all the same


def _desk(run: str) -> Desk:
    """This thread's desk for a run."""
    if run in _over:
        return Desk()
    mine = _desks.setdefault(threading.get_ident(), {})
    mine[run] = desk = mine.pop(run, None) or Desk()
    while len(mine) > _RUNS:
        del mine[next(iter(mine))]
    return desk


def forget(run: str) -> None:
    """Drop what this process keeps for a run that is over."""
    _over.append(run)
    for desks in list(_desks.values()):
        desks.pop(run, None)


def work_on(run: str, algorithm: Central, dataset: Dataset, centre: Any, share: Share, told: str = "") -> Report:
    """One group of blocks, on a worker; what it did is told under the name of the run that is watched, if it is."""
    desk, call, meter = _desk(run), Calls(centre), Meter(from_task(told))
    joining = call.later("join", desk.who) if desk.centre != centre.key else None  # answered while a block is read
    unsent: State | None = None
    reply: Any = None
    unanswered = 0  # blocks since an offer was sent
    for block in meter.over(_blocks(dataset, algorithm, share)):
        if joining is not None:
            with meter.waiting():
                desk.own["lane"], desk.seen = call.answer(joining)
            desk.centre, joining = centre.key, None
        if reply is not None and (unanswered > algorithm.patience or reply.done()):
            with meter.waiting():
                desk.seen, reply = call.answer(reply) or desk.seen, None
        unanswered += 1
        desk.own, offer = algorithm.work(desk.own, desk.seen.view, block)
        if offer is not None:
            unsent = offer if unsent is None else algorithm.both(unsent, offer, desk.seen.view)
        if unsent is not None and reply is None:
            reply, unsent, unanswered = call.later("offer", desk.own["lane"], unsent, desk.seen.version), None, 0
    with meter.waiting():
        if reply is not None:
            desk.seen = call.answer(reply) or desk.seen  # offers of a worker arrive in their order
        left = [offer for offer in (unsent, algorithm.rest(desk.own)) if offer is not None]
        report: Report
        report, newer = call.now("leave", desk.own["lane"], left, desk.seen.version)
        desk.seen = newer or desk.seen
    did = meter.done()
    return replace(report, busy=did.busy, bytes=did.bytes)


def _blocks(dataset: Dataset, algorithm: Central, share: Share) -> Iterable[Block]:
    return dataset.blocks(share, axis=algorithm.axis) if isinstance(share, range) else dataset.columns(share)
