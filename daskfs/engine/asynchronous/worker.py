"""The workers of an asynchronous pass: they offer, a centre decides, and nobody waits for anybody.

The centre is a Dask actor. Tasks are groups of blocks. A worker sends an offer without waiting, goes on with the next
blocks, as far as the algorithm lets it, and takes the reply, a newer view, when it is there; what it has to offer until
then becomes one offer. With nothing to offer it says nothing, and at the end of a group it sends the last of it and
begins the next one. So a pass that changes little is as fast as reading, and one that changes much is as fast as the
centre.

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
from dataclasses import dataclass, field
from time import monotonic
from traceback import format_exc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.asynchronous.centre import Centre, CentreSpent, Mark, View, introduced, rebuilt
from daskfs.engine.events.meter import Meter
from daskfs.engine.events.send import from_task
from daskfs.protocol import AsynchronousAlgorithm, Block, State, copy_state
from daskfs.store.dataset.dataset import Dataset

Part = range | NDArray[np.uint64]
"""What a task works on: blocks by their numbers, or columns by their ids."""

_PATIENCE = 1.0  # seconds until someone who waits for the centre asks whether it is alive
_SIGN_OF_LIFE = 3.0  # seconds for the answer
_IN_FLIGHT = 2  # replies that a worker may have to wait for: to an offer, and to the last words of a group
_UNANSWERED = 1  # blocks that a worker goes on with where old views lead astray
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
    Workers do not wait for an answer to their last words, so an error is also told to whoever asks for a report.
    """

    _centre: Centre
    _unheard: Failure | None = None

    def open(
        self,
        algorithm: AsynchronousAlgorithm,
        dataset: Dataset,
        state: State,
        kept: NDArray[np.uint64],
        lanes: list[str],
    ) -> None:
        state = introduced(algorithm, dataset, copy_state(state))
        self._centre = Centre(algorithm, rebuilt(algorithm, dataset, state, kept), lanes)

    def do(self, method: str, *arguments: Any) -> Any:
        """Call a method of the centre, or `open` it."""
        if method == "report" and self._unheard is not None:
            return self._unheard
        try:
            return getattr(self if method == "open" else self._centre, method)(*arguments)
        except Exception as error:
            error.add_note(f"At the centre:\n{format_exc()}")  # a pickle forgets where it was raised
            self._unheard = Failure(error)
            return self._unheard

    async def ping(self) -> bool:
        """Answered by the process even while the centre is busy."""
        return True


class ActorCalls:
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
                answer = _at_once(reply) if reply.done() else reply.result(_PATIENCE)
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


def _at_once(reply: Any) -> Any:
    """What a reply says that is there. It is awaited by hand: `result` takes turns with Dask's loop, which is busy."""
    try:
        reply.__await__().send(None)
    except StopIteration as there:
        return there.value
    return reply.result(_PATIENCE)  # of a Dask that thinks otherwise


@dataclass(slots=True)
class WorkerSession:
    """What a worker's thread keeps from one group of a run to the next."""

    who: str = field(default_factory=lambda: os.urandom(8).hex())
    """A name for the lane that goes with `own`: whoever starts with nothing gets a lane of its own."""
    own: State | None = None
    lane: int = -1
    """The number of this worker at the centre."""
    joined: tuple[str, int] | None = None
    """The centre that was, and for which stretch of work; …"""
    seen: View = field(default_factory=lambda: View(-1, {}))
    """… what was last seen of it: a group begins where the one before it ended, without asking, …"""
    replies: deque[Any] = field(default_factory=deque)
    """… and those that are still to come, also to the last words of the group before."""
    left: float = 0.0
    """When the last group ended."""


_desks: dict[int, dict[str, WorkerSession]] = {}
_over: deque[str] = deque(maxlen=100)  # runs that are: a group that was cancelled may begin all the same


def _desk(run: str) -> WorkerSession:
    """This thread's desk for a run."""
    if run in _over:
        return WorkerSession()
    mine = _desks.setdefault(threading.get_ident(), {})
    mine[run] = desk = mine.pop(run, None) or WorkerSession()
    while len(mine) > _RUNS:
        del mine[next(iter(mine))]
    return desk


def forget(run: str) -> None:
    """Drop what this process keeps for a run that is over."""
    _over.append(run)
    for desks in list(_desks.values()):
        desks.pop(run, None)


def work_on(
    run: str,
    algorithm: AsynchronousAlgorithm,
    dataset: Dataset,
    centre: Any,
    stretch: int,
    group: int,
    part: Part,
    told: str = "",
) -> None:
    """One group of blocks, on a worker; what it did is told under the name of the run that is watched, if it is.

    Groups have numbers, and so have stretches of work, such as a pass: each begins with a new view. What comes of it,
    and what it took, the centre is told.
    """
    desk, call, meter = _desk(run), ActorCalls(centre), Meter(from_task(told))
    here, fresh = (centre.key, stretch), algorithm.sharing.needs_fresh_views
    between = monotonic() - desk.left if desk.joined == here else 0.0
    if desk.joined != here or fresh:
        joining = call.later("join", desk.who)  # answered while the first block is read
        desk.joined, desk.replies = None, deque([joining])
    mark, sent, unanswered = Mark(group, os.urandom(4).hex()), 0, 0  # blocks since something was said to the centre
    unsent: State | None = None
    for block in meter.over(_blocks(dataset, algorithm, part)):
        if desk.joined is None:
            with meter.waiting():
                desk.lane, desk.seen = call.answer(desk.replies.popleft())
            desk.joined = here
        _listen(desk, call, meter, 0 if fresh and unanswered > _UNANSWERED else _IN_FLIGHT)
        unanswered += 1
        desk.own, offer = algorithm.work(desk.own, desk.seen.view, block, desk.lane)
        _listen(desk, call, meter, _IN_FLIGHT)
        if offer is not None:
            unsent = offer if unsent is None else algorithm.combine_offers(unsent, offer, desk.seen.view)
        if unsent is not None and not desk.replies:
            desk.replies.append(call.later("offer", desk.lane, mark, unsent, desk.seen.version))
            unsent, unanswered, sent = None, 0, sent + 1
    last = None if desk.own is None else algorithm.remaining_offer(desk.own)
    rest = [offer for offer in (unsent, last) if offer is not None]
    _listen(desk, call, meter, 0 if fresh else _IN_FLIGHT - 1)  # two that are under way may change places
    spent = CentreSpent(busy=meter.total.busy, between=between, bytes=meter.total.bytes)
    desk.replies.append(call.later("leave", desk.lane, mark, sent, rest, desk.seen.version, spent))
    _listen(desk, call, meter, 0 if fresh else _IN_FLIGHT)
    meter.done()
    desk.left = monotonic()


def _listen(desk: WorkerSession, call: ActorCalls, meter: Meter, most: int) -> None:
    """Take the replies that are there, and wait for others while there are more than `most` to come."""
    while desk.replies and (len(desk.replies) > most or desk.replies[0].done()):
        with meter.waiting():
            desk.seen = call.answer(desk.replies.popleft()) or desk.seen


def _blocks(dataset: Dataset, algorithm: AsynchronousAlgorithm, part: Part) -> Iterable[Block]:
    return dataset.blocks(part, axis=algorithm.axis) if isinstance(part, range) else dataset.columns(part)
