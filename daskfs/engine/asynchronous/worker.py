"""The workers of an asynchronous pass, and their calls of the centre, the dask actor that owns the state.

A task is a group of blocks. A worker sends an offer without waiting, and goes on with the next blocks while the reply
of the centre, a newer view of the state, is on its way. Until the reply arrives, all new offers of the worker are
combined into one offer. At the end of a group the worker sends the remaining offers and begins the next group. A pass
with few offers is as fast as reading, and a pass with many offers is as fast as the centre accepts the offers.

    worker 0   read, work ──offer──►┐            ┌◄── view
    worker 1   read, work ──offer──►│  centre    │
                                    └─ accept ───┘

The centre may die at any time. A caller of a dead centre raises `CentreLost` within seconds, and the driver starts a
new centre.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from traceback import format_exc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.asynchronous.centre import Attempt, Centre, VersionedView, rebuild_state, with_target
from daskfs.engine.events.messages import Meter
from daskfs.engine.events.send import measure_task
from daskfs.protocol import AsynchronousAlgorithm, State, copy_state
from daskfs.store.dataset.dataset import Dataset

GroupItems = range | NDArray[np.uint64]
"""The work of one task: a range of block numbers, or ids of columns."""

_PATIENCE = 1.0  # seconds until a caller that waits for the centre checks whether it is alive
_PING_SECONDS = 3.0  # for the answer to that check
_IN_FLIGHT = 2  # replies that may be outstanding: to an offer, and to the end of a group
_UNANSWERED = 1  # blocks that a worker may process without a reply if outdated views mislead it
_SESSIONS = 2  # that a thread keeps; those of a driver that was killed are pushed out by later runs


class CentreLost(Exception):
    """Raised if the process of the centre (the dask actor that owns the state) has died, or does not answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that the algorithm or the dataset raised inside the centre actor, while the actor itself is alive."""

    error: Exception


class CentreActor:
    """The dask actor around a `Centre` object, which `open` creates in the process of the actor.

    Errors of the algorithm are returned as `Failure` objects, since an exception of a call means a lost process. A
    `Failure` is also returned by the next report, since workers do not wait for the replies to their last offers.
    """

    _centre: Centre
    _failure: Failure | None = None

    def open(
        self, algorithm: AsynchronousAlgorithm, dataset: Dataset, state: State, held: NDArray[np.uint64],
        workers: list[str],
    ) -> None:  # fmt: skip
        """Create the `Centre` from a state and the ids of features that the state of the centre must hold."""
        state = with_target(algorithm, dataset, copy_state(state))
        self._centre = Centre(algorithm, rebuild_state(algorithm, dataset, state, held), workers)

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the `Centre` object by name, or call `open`."""
        if method == "report" and self._failure is not None:
            return self._failure
        try:
            return getattr(self if method == "open" else self._centre, method)(*arguments)
        except Exception as error:
            error.add_note(f"At the centre:\n{format_exc()}")  # a pickle has no traceback
            self._failure = Failure(error)
            return self._failure

    async def ping(self) -> bool:
        """Return True; Dask answers this call even while another call keeps the actor busy."""
        return True


class ActorCalls:
    """Calls of a `CentreActor` that raise `CentreLost` instead of waiting for a dead actor."""

    def __init__(self, centre: Any) -> None:
        self._centre = centre

    def now(self, method: str, *arguments: Any) -> Any:
        """Call a method of the centre actor, wait, and return the value or raise the exception of the method."""
        return self.answer(self.later(method, *arguments))

    def later(self, method: str, *arguments: Any) -> Any:
        """Call a method of the centre actor without waiting. Return a reply object, to be passed to `answer`."""
        try:
            return self._centre.do(method, *arguments)
        except Exception as error:
            raise CentreLost(repr(error)) from error

    def answer(self, reply: Any) -> Any:
        """Return the value of a call, and wait for the value as long as the process of the centre actor is alive."""
        while True:
            try:
                answer = _take(reply) if reply.done() else reply.result(_PATIENCE)
            except TimeoutError:  # never the answer itself: Dask turns that of a connection into another OSError
                try:
                    self._centre.ping().result(_PING_SECONDS)
                except Exception as error:
                    raise CentreLost("no sign of life") from error
            except Exception as error:  # Dask raises OSError, RuntimeError, KeyError or CancelledError
                raise CentreLost(repr(error)) from error
            else:
                if isinstance(answer, Failure):
                    raise answer.error
                return answer


def _take(reply: Any) -> Any:
    """Return the value of a reply that has arrived, without calling `result`, which waits for Dask's event loop."""
    try:
        reply.__await__().send(None)
    except StopIteration as stop:
        return stop.value
    return reply.result(_PATIENCE)  # if Dask implements it differently


@dataclass(slots=True)
class WorkerSession:
    """The data that a worker's thread keeps from one group of blocks to the next group of the same selection run."""

    name: str = field(default_factory=lambda: os.urandom(8).hex())
    """The random name of the owner of `own` at the centre actor; a session without `own` counts as a new worker."""
    own: State | None = None
    worker: int = -1
    """The number that the centre actor has given to this worker."""
    joined: tuple[str, int] | None = None
    """The key of the centre actor that was joined, and the number of the unit of work; None before joining."""
    newest: VersionedView = field(default_factory=lambda: VersionedView(-1, None))
    """The newest view of the state; a group of blocks begins with the last view of the previous group."""
    replies: deque[Any] = field(default_factory=deque)
    """Outstanding replies of the centre actor, including the reply to the end of the previous group."""
    ended: float = 0.0
    """The time when the last group of blocks ended."""


_sessions: dict[int, dict[str, WorkerSession]] = {}  # by thread and run
_ended_runs: deque[str] = deque(maxlen=100)  # a group that was cancelled may begin all the same


def _session(run: str) -> WorkerSession:
    """Return this thread's session for a selection run."""
    if run in _ended_runs:
        return WorkerSession()
    sessions = _sessions.setdefault(threading.get_ident(), {})
    sessions[run] = session = sessions.pop(run, None) or WorkerSession()
    while len(sessions) > _SESSIONS:
        del sessions[next(iter(sessions))]
    return session


def forget(run: str) -> None:
    """Drop the sessions of a selection run that has ended."""
    _ended_runs.append(run)
    for sessions in list(_sessions.values()):
        sessions.pop(run, None)


def work_on(
    run: str, algorithm: AsynchronousAlgorithm, dataset: Dataset, centre: Any, unit: int, group: int,
    items: GroupItems, events: str = "",
) -> None:  # fmt: skip
    """Process one group of blocks or columns (`items`) on a worker, and send the resulting offers to the centre actor.

    The `unit` is the number of the unit of work, such as a pass; every unit begins with a new view. The selection run
    is named `run` in sessions and reports, and `events` in events ("" if events are turned off).
    """
    session, call, joins = _session(run), ActorCalls(centre), (centre.key, unit)
    fresh = algorithm.sharing.needs_fresh_views
    attempt, sent, unanswered = Attempt(group, os.urandom(4).hex()), 0, 0  # blocks since the centre was called
    unsent: State | None = None
    with measure_task(run, events) as meter:
        take_replies = partial(_take_replies, session, call, meter)
        blocks = dataset.blocks(items, algorithm.axis) if isinstance(items, range) else dataset.columns(items)
        if session.joined == joins:
            meter.total.scheduler += monotonic() - session.ended
        if session.joined != joins or fresh:
            session.joined, session.replies = None, deque([call.later("join", session.name)])
        for block in meter.over(blocks):
            if session.joined is None:  # the reply came while the first block was read
                with meter.waiting():
                    session.worker, session.newest = call.answer(session.replies.popleft())
                session.joined = joins
            take_replies(0 if fresh and unanswered > _UNANSWERED else _IN_FLIGHT)
            unanswered += 1
            session.own, offer = algorithm.work(session.own, session.newest.view, block, session.worker)
            take_replies(_IN_FLIGHT)
            if offer is not None:
                unsent = offer if unsent is None else algorithm.combine_offers(unsent, offer, session.newest.view)
            if unsent is not None and not session.replies:
                reply = call.later("offer", session.worker, attempt, unsent, session.newest.version)
                session.replies.append(reply)
                unsent, unanswered, sent = None, 0, sent + 1
        last = None if session.own is None else algorithm.remaining_offer(session.own)
        rest = [offer for offer in (unsent, last) if offer is not None]
        take_replies(0 if fresh else _IN_FLIGHT - 1)  # the replies to two calls may change places
        session.replies.append(call.later("end_group", session.worker, attempt, sent, rest, session.newest.version))
        take_replies(0 if fresh else _IN_FLIGHT)
    session.ended = monotonic()


def _take_replies(session: WorkerSession, call: ActorCalls, meter: Meter, most: int) -> None:
    """Take replies of the centre actor that have arrived, and wait while more than `most` replies are outstanding."""
    while session.replies and (len(session.replies) > most or session.replies[0].done()):
        with meter.waiting():
            session.newest = call.answer(session.replies.popleft()) or session.newest
