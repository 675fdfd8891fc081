"""How a worker talks to a centre that may be slow, wrong or dead; no cluster here."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from distributed import KilledWorker
from distributed.actor import _OK, ActorFuture, _Error
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from tornado.ioloop import IOLoop
from toy_algorithms import Census
from toy_runs import small_dataset

import daskfs
from daskfs.algorithms.substitution.asynchronous import AsynchronousMethod
from daskfs.algorithms.substitution.block import BlockMethod
from daskfs.engine.asynchronous import worker
from daskfs.engine.asynchronous.worker import ActorCalls, CentreActor, CentreLost, Failure, forget, work_on
from daskfs.engine.events.messages import Meter
from daskfs.errors import ColumnError, DaskfsError

LOST = [
    OSError("Unable to contact Actor's worker"),
    CommClosedError("in <TCP (closed)>"),
    TimeoutError("timed out"),
    RuntimeError("Worker holding Actor was lost"),
    KeyError("daskfs-centre-1"),
    CancelledError(),
    FutureCancelledError("key", "lost"),
]
"""What the installed Dask is known to raise for an actor that is gone."""


class Reply:
    """An answer that is there, or comes only after some impatience, or never."""

    def __init__(self, answer: Any, impatience: int = 0) -> None:
        self._answer, self._impatience = answer, impatience

    def done(self) -> bool:
        return self._impatience == 0

    def result(self, timeout: float) -> Any:
        assert 0 < timeout <= worker._PING_SECONDS
        if self._impatience:
            self._impatience -= 1
            raise TimeoutError(f"timed out after {timeout} s")
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def __await__(self) -> Iterator[None]:
        if not self.done():
            yield
        return self.result(worker._PATIENCE)


NEVER = 1 << 30


class FakeActor:
    """Answers as it is told to."""

    def __init__(self, reply: Callable[[], Reply], alive: Callable[[], Reply] = lambda: Reply(True)) -> None:
        self._reply, self._alive, self.pings = reply, alive, 0

    def do(self, method: str, *arguments: Any) -> Reply:
        return self._reply()

    def ping(self) -> Reply:
        self.pings += 1
        return self._alive()


def test_a_busy_centre_is_waited_for():
    actor = FakeActor(lambda: Reply(7, impatience=5))
    assert ActorCalls(actor).now("end_group") == 7
    assert actor.pings == 5


def test_a_reply_that_is_there_is_taken_without_a_turn_of_the_loop():
    loop = IOLoop(make_current=False)  # which does not run
    try:
        for out, expected in ((_OK(7), 7), (_OK(None), None)):
            reply = ActorFuture(loop)
            reply._set_result(out)
            assert ActorCalls(None).answer(reply) == expected
        reply = ActorFuture(loop)
        reply._set_result(_Error(CommClosedError("gone")))
        with pytest.raises(CentreLost):
            ActorCalls(None).answer(reply)
    finally:
        loop.close()


@pytest.mark.parametrize("error", LOST, ids=repr)
def test_a_centre_that_shows_no_sign_of_life_is_lost(error):
    def fails() -> Reply:
        raise error

    with pytest.raises(CentreLost):
        ActorCalls(FakeActor(fails)).later("end_group")
    for alive in (fails, lambda: Reply(error), lambda: Reply(True, NEVER)):
        with pytest.raises(CentreLost):
            ActorCalls(FakeActor(lambda: Reply(7, NEVER), alive)).now("end_group")


@pytest.mark.parametrize("error", [error for error in LOST if not isinstance(error, TimeoutError)], ids=repr)
def test_a_centre_that_was_lost_on_the_way_is_lost(error):
    with pytest.raises(CentreLost):
        ActorCalls(FakeActor(lambda: Reply(error))).now("end_group")


@pytest.mark.parametrize(
    "error", [*LOST[:-1], ZeroDivisionError(), np.linalg.LinAlgError(), ColumnError(3, "odd")], ids=repr
)
def test_what_is_raised_at_the_centre_is_no_loss(error):
    """Be it of the kind that Dask raises itself."""
    actor = CentreActor()
    actor._centre = Raising(error)
    answer = pickle.loads(pickle.dumps(actor.do("end_group")))
    with pytest.raises(type(error)) as caught:
        ActorCalls(FakeActor(lambda: Reply(answer))).now("end_group")
    assert str(caught.value) == str(error)
    assert "At the centre:\nTraceback" in caught.value.__notes__[0]
    assert "in end_group" in caught.value.__notes__[0]


def test_an_error_that_no_worker_waited_for_is_in_the_report():
    actor = CentreActor()
    actor._centre = Raising(ColumnError(3, "odd"))
    actor.do("end_group")
    with pytest.raises(ColumnError, match="odd"):
        ActorCalls(FakeActor(lambda: Reply(actor.do("report")))).now("report")


class Raising:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def end_group(self) -> None:
        raise self._error


def test_an_error_while_a_centre_is_made_is_no_loss(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    algorithm = daskfs.OnlineSubstitution(3).resolve(dataset.meta)
    answer = CentreActor().do("open", algorithm, dataset, {"no": "state"}, np.empty(0, np.uint64), [])
    assert isinstance(answer, Failure)
    assert isinstance(answer.error, AttributeError)


def test_a_centre_is_alive_while_it_works():
    assert asyncio.iscoroutinefunction(CentreActor.ping)  # Dask runs these beside the thread of the actor
    assert asyncio.run(CentreActor().ping())


def test_an_error_of_a_task_is_no_loss():
    assert not issubclass(CentreLost, DaskfsError)
    assert not issubclass(KilledWorker, CentreLost)


class Answer(Future):
    """Can be awaited, as those of Dask can."""

    def __await__(self) -> Iterator[None]:
        if not self.done():
            yield
        return self.result()


class Here:
    """An actor in this process; a busy one answers an offer when it is asked for something else."""

    def __init__(
        self, algorithm: Any, dataset: daskfs.Dataset, busy: bool = False, late: Sequence[str] = ("offer",)
    ) -> None:
        self.late = late if busy else ()
        self.actor, self.key = CentreActor(), os.urandom(4).hex()
        self.asked: list[str] = []
        self._open: list[tuple[Answer, Any]] = []
        state = algorithm.start(dataset.meta, seed=0)
        assert self.actor.do("open", algorithm, dataset, state, np.empty(0, np.uint64), []) is None

    def do(self, method: str, *arguments: Any) -> Answer:
        self.asked.append(method)
        reply = Answer()
        self._open.append((reply, lambda: self.actor.do(method, *arguments)))
        if method not in self.late:
            self._answer()
        return reply

    def ping(self) -> Reply:
        self._answer()
        return Reply(True)

    def _answer(self) -> None:
        for waiting, answer in self._open:
            waiting.set_result(answer())
        self._open = []


@pytest.fixture
def run() -> Iterator[str]:
    name = os.urandom(4).hex()
    yield name
    forget(name)


def test_a_group_of_blocks(tmp_path, run):
    dataset, algorithm = small_dataset(tmp_path / "d"), Census()
    centre = Here(algorithm, dataset)
    work_on(run, algorithm, dataset, centre, 0, 7, range(2, 6))
    widths = [len(dataset.read(number, "columns").ids) for number in range(6)]
    report = centre.actor.do("report")
    assert report.finished == [7]
    assert report.held.tolist() == list(range(sum(widths[:2]), sum(widths)))
    assert centre.asked == [
        "join",
        "offer",
        "offer",
        "end_group",
    ]  # of four blocks two are gathered, and left in the end


@pytest.mark.parametrize(("method", "joins"), [("block", 1), ("async", 2)])
def test_the_next_group_begins_with_the_view_of_the_last(tmp_path, run, method, joins, monkeypatch):
    """Asy-OS asks for a new one: an old view leads it astray."""
    dataset = small_dataset(tmp_path / "d")
    algorithm = daskfs.OnlineSubstitution(3, method=method).resolve(dataset.meta)
    centre = Here(algorithm, dataset)
    work_on(run, algorithm, dataset, centre, 0, 0, range(3))
    newest = centre.actor.do("state")[0].version
    with seen_versions(monkeypatch) as versions:
        work_on(run, algorithm, dataset, centre, 0, 1, range(3, 5))
    assert versions[0] == newest > 0  # the reply to its last words
    assert centre.asked.count("join") == joins
    desk = worker._session(run)
    another = Here(algorithm, dataset)  # of the next pass, or in the place of one that was lost
    work_on(run, algorithm, dataset, another, 0, 0, range(1))
    assert another.asked[0] == "join"
    work_on(run, algorithm, dataset, another, 1, 0, range(1))
    assert another.asked.count("join") == 2  # in the next pass an old view may be of no use
    assert desk is worker._session(run)


def test_columns_seen_once_more(tmp_path, run, monkeypatch):
    dataset, algorithm, meters = small_dataset(tmp_path / "d"), Census(), []
    monkeypatch.setattr("daskfs.engine.events.send.Meter", lambda *notify: meters.append(Meter(*notify)) or meters[-1])
    centre = Here(algorithm, dataset)
    ids = np.array([3, 17, 30], np.uint64)
    work_on(run, algorithm, dataset, centre, 0, 0, ids)
    report = centre.actor.do("report")
    assert report.held.tolist() == ids.tolist()
    assert meters[0].total.bytes == sum(block.nbytes for block in dataset.columns(ids))


def test_while_the_centre_is_busy_offers_become_one(tmp_path, run, monkeypatch):
    monkeypatch.setattr(worker, "_PATIENCE", 0.01)
    dataset, algorithm = small_dataset(tmp_path / "d"), Census()
    centre = Here(algorithm, dataset, busy=True)
    work_on(run, algorithm, dataset, centre, 0, 0, range(dataset.n_blocks("columns")))
    report = centre.actor.do("report")
    assert report.finished == [0]
    assert report.held.tolist() == list(range(dataset.n_features))
    assert centre.asked == ["join", "offer", "end_group"]


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("method", ["block", "async"])
def test_nobody_goes_back_to_an_older_view(tmp_path, run, method, busy, monkeypatch):
    monkeypatch.setattr(worker, "_PATIENCE", 0.01)
    dataset = small_dataset(tmp_path / "d")
    algorithm = daskfs.OnlineSubstitution(3, method=method).resolve(dataset.meta)
    centre = Here(algorithm, dataset, busy)
    with seen_versions(monkeypatch) as versions:
        for number, numbers in enumerate((range(3), range(3, dataset.n_blocks("columns")))):
            work_on(run, algorithm, dataset, centre, 0, number, numbers)
    assert versions == sorted(versions)
    assert versions[-1] > 0


@contextmanager
def seen_versions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The versions of the views with which blocks are worked on."""
    versions: list[int] = []

    def noting(work):
        def wrapper(self, own, view, block, worker):
            versions.append(view.version)
            return work(self, own, view, block, worker)

        return wrapper

    with monkeypatch.context() as patch:
        for method in (BlockMethod, AsynchronousMethod):
            patch.setattr(method, "work", noting(method.work))
        yield versions


def test_no_more_than_a_few_words_are_under_way(tmp_path, run, monkeypatch):
    """However short groups are, and however long the centre takes."""
    monkeypatch.setattr(worker, "_PATIENCE", 0.01)
    dataset, algorithm = small_dataset(tmp_path / "d"), Census()
    centre, most = Here(algorithm, dataset, busy=True, late=("offer", "end_group")), 0
    for number in range(dataset.n_blocks("columns")):
        work_on(run, algorithm, dataset, centre, 0, number, range(number, number + 1))
        most = max(most, len(worker._session(run).replies))
    assert most == worker._IN_FLIGHT
    centre.ping()
    assert centre.actor.do("report").finished == list(range(dataset.n_blocks("columns")))


def test_a_thread_keeps_its_desk_from_group_to_group(tmp_path, run):
    dataset = small_dataset(tmp_path / "d")
    algorithm = daskfs.OnlineSubstitution(3, method="async").resolve(dataset.meta)
    centre = Here(algorithm, dataset)
    for number, numbers in enumerate((range(3), range(3, 5))):
        work_on(run, algorithm, dataset, centre, 0, number, numbers)
    other = threading.Thread(target=work_on, args=(run, algorithm, dataset, centre, 0, 2, range(5, 6)))
    other.start()
    other.join()
    state, _ = centre.actor.do("state")
    assert [part.number for part in state.parts] == [5, 1]
    worker._sessions.clear()  # as in a process that was started again
    work_on(run, algorithm, dataset, centre, 0, 3, range(6, 8))  # begins with nothing, so in a lane of its own
    state, _ = centre.actor.do("state")
    assert [part.number for part in state.parts] == [5, 1, 2]
    assert state.late == 0


def test_desks_of_runs_that_were_broken_off_do_not_pile_up():
    before = len(worker._sessions.get(threading.get_ident(), {}))
    desks = [worker._session(f"run {number}") for number in range(9)]
    assert worker._session("run 8") is desks[8]
    assert worker._session("run 7") is desks[7]  # two runs may take turns
    assert before <= len(worker._sessions[threading.get_ident()]) <= worker._SESSIONS
    for number in range(9):
        forget(f"run {number}")
    assert not worker._sessions[threading.get_ident()]
    worker._session("run 8")  # of a group that was cancelled too late
    assert not worker._sessions[threading.get_ident()]
