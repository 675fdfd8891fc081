"""Passes around a centre on real processes: what is found, what is said, and what is left behind."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from centre_runs import K, Once, Paced, centres, found, kill, paced, planted
from distributed import Client, Nanny, SpecCluster, Worker, get_worker
from distributed.comm.core import CommClosedError
from distributed.scheduler import Scheduler
from hypothesis import given
from hypothesis import strategies as st
from toy_algorithms import Census
from toy_runs import (
    Stop,
    always_due,
    check_same,
    local_cluster,
    small_dataset,
    stopping_after,
    submitted_bytes,
    wait_for_no_tasks,
    wait_until,
)

import daskfs
from daskfs.engine import shards
from daskfs.engine.asynchronous import driver, worker
from daskfs.engine.asynchronous.centre import CentreReport
from daskfs.engine.asynchronous.driver import CENTRE, Ledger
from daskfs.engine.asynchronous.worker import CentreLost
from daskfs.engine.events.messages import Spent
from daskfs.engine.events.send import REPORTS, TaskReports
from daskfs.engine.shards import shrinking_groups
from daskfs.errors import DatasetError, Interrupted, OptionError

__all__ = ["always_due"]
METHODS = ["block", "async"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    return planted(tmp_path_factory.mktemp("around") / "d")


@pytest.fixture(scope="module")
def three_threads() -> Iterator[Client]:
    """Three workers in this process: they share memory, so whoever changes what is not his shows."""
    with local_cluster(3, processes=False) as client:
        yield client


@given(
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=200),
    position=st.integers(0, 60),
    workers=st.integers(1, 9),
)
def test_groups_are_all_blocks_that_are_left_in_order(sizes, position, workers):
    groups = list(shrinking_groups(np.array(sizes), position, workers))
    assert [number for group in groups for number in group] == list(range(position, len(sizes)))
    most = sum(sizes) // (6 * workers)
    assert all(sum(sizes[number] for number in group[:-1]) < max(most, 1) for group in groups)


@pytest.mark.parametrize("workers", [1, 2, 5, 40])
def test_groups_become_smaller_so_that_workers_end_together(workers, monkeypatch):
    """Every other one is half as fast; each is at one group, and has been given the next."""
    monkeypatch.setattr(shards, "_LAST_GROUP_BYTES", 2000)
    sizes = np.full(8000, 100)
    groups = list(shrinking_groups(sizes, 0, workers))
    assert len(groups[0]) == pytest.approx(8000 / (6 * workers), abs=1)
    assert all(len(group) >= min(20, 8000 // (12 * workers)) for group in groups[:-1])
    left, busy_until = deque(map(len, groups)), np.zeros(workers)
    given = [left.popleft() for _ in range(workers)]
    while any(given):
        first = int(np.where(given, busy_until, np.inf).argmin())
        busy_until[first] += given[first] * (1 + first % 2)
        given[first] = left.popleft() if left else 0
    even = len(sizes) / sum(1 / (1 + number % 2) for number in range(workers))
    assert even <= busy_until.max() <= 1.02 * even + 60


def test_no_group_is_too_large(monkeypatch):
    monkeypatch.setattr(shards, "ASYNCHRONOUS_GROUP_BYTES", 250)
    assert list(shrinking_groups(np.full(100, 100), 94, workers=1)) == [range(94, 96), range(96, 98), range(98, 100)]


def report(finished: set[int], *held: int, merging: float = 0.0) -> CentreReport:
    return CentreReport(np.array(held, np.uint64), sorted(finished), merging)


def test_the_ledger_strikes_out_finished_groups():
    groups = {number: range(3 * number, 3 * number + 3) for number in range(3)}
    ledger = Ledger({}, groups, np.empty(0, np.uint64), merging=0.5)
    ledger.note(report({1}, 50, merging=2.0))
    assert (ledger.position(9), ledger.held.tolist()) == (0, [50])
    ledger.note(report({0, 1}, 51, merging=1.0))  # a group that was done twice
    assert (ledger.position(9), ledger.held.tolist()) == (6, [51])
    ledger.note(report({2}, 10, merging=1.0))  # of another centre, which knows of no other groups
    assert (ledger.held.tolist(), ledger.position(9)) == ([10], 9)
    assert ledger.merging == 4.5


def test_a_task_that_reports_twice_is_counted_once(two_workers):
    reports = TaskReports(two_workers)
    try:
        message = {"run": reports.run, "task": "first", "inputs": [], "began": 1.0, "ended": 2.0}

        def is_subscribed() -> bool:  # events of a client overtake its subscription
            two_workers.log_event(REPORTS, {**message, "spent": asdict(Spent(busy=1.0))})
            return bool(np.isfinite(reports.total(["first"]).busy))

        wait_until(is_subscribed)
        message |= {"task": "a", "inputs": ["b"], "began": 10.0, "ended": 12.0}
        for busy in (1.0, 2.0):
            two_workers.log_event(REPORTS, {**message, "spent": asdict(Spent(busy=busy))})
        message |= {"task": "b", "inputs": ["a", "unknown"], "began": 12.5, "ended": 13.0}
        message |= {"spent": asdict(Spent(busy=4.0))}
        two_workers.log_event(REPORTS, message)
        two_workers.log_event(REPORTS, {**message, "run": "another", "task": "c"})
        wait_until(lambda: reports.total(["a", "b"]).busy == 6.0, lambda: reports.total(["a"]))
        assert reports.total(["b"]) == Spent(busy=4.0, scheduler=0.5)
        assert reports.total(["a"]) == Spent(busy=2.0)  # clocks of two machines may differ
        assert np.isnan([reports.total(["a", "c"]).busy, reports.total(["unknown"]).scheduler]).all()
    finally:
        reports.close()


@pytest.mark.parametrize("where", ["two_workers", "three_threads"])
def test_nothing_is_lost_or_counted_twice(tmp_path, where, request):
    small = small_dataset(tmp_path / "d")
    given = daskfs.select(small, Census(), client=request.getfixturevalue(where))
    check_same(given, daskfs.select(small, Census()))
    assert given.history.applied.values.tolist() == [40, 80]


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("where", ["two_workers", "three_threads"])
@pytest.mark.parametrize("method", METHODS)
def test_features_are_found(dataset, method, where, request):
    given = daskfs.select(dataset, paced(method), client=request.getfixturevalue(where))
    assert found(given) == K
    history = given.history
    assert history.offers[0] > 0
    assert (history.staleness <= history.staleness_max).all()
    assert (history.staleness_max[:3] >= 0).all()


@pytest.fixture
def every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The centre is asked after every task, so that there is a middle of a short pass."""
    monkeypatch.setattr(driver, "TOGETHER", 0.0)


@pytest.mark.slow_but_first
@pytest.mark.usefixtures("always_due", "every_task")
@pytest.mark.parametrize("stop", [1, 5, 18])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_stopped_in_the_middle_of_a_pass_goes_on(dataset, tmp_path, method, stop, two_workers):
    with pytest.raises(Stop):
        daskfs.select(
            dataset, paced(method), client=two_workers, checkpoint=tmp_path / "c", progress=stopping_after(stop)
        )
    events: list[Any] = []
    given = daskfs.select(
        dataset, paced(method), client=two_workers, checkpoint=tmp_path / "c", resume=True, progress=events.append
    )
    assert found(given) == K
    assert events[0].number == 1 + stop // 16
    assert events[-1].number in ({3, 4, 5} if method == "async" else {3})  # up to two passes more settle the set
    assert not given.history.late.values.any() if method == "async" else True
    wait_for_no_tasks(two_workers)


@pytest.mark.parametrize("method", METHODS)
def test_a_column_that_cannot_be_used_is_named(tmp_path, method, two_workers):
    bad = planted(tmp_path / "d", bad_columns=[301])
    with pytest.raises(DatasetError) as caught:
        daskfs.select(bad, paced(method), client=two_workers)
    said = "holds NaN or infinity; write the data again without it"
    assert str(caught.value) == f"{bad.url}: column 'gene301' (number 301): {said}"
    wait_for_nothing(two_workers)


@dataclass(frozen=True)
class Failing(Census):
    """Fails at the centre, in a way in which Dask fails as well."""

    kind: type[Exception] = KeyError

    def accept(self, state, offer):
        raise self.kind("by itself")


@pytest.mark.slow_but_first
@pytest.mark.parametrize("kind", [KeyError, RuntimeError, OSError, ZeroDivisionError])
def test_an_error_at_the_centre_comes_back_as_it_is(tmp_path, kind, two_workers, monkeypatch):
    attempts = count_attempts(monkeypatch)
    with pytest.raises(kind, match="by itself"):
        daskfs.select(small_dataset(tmp_path / "d"), Failing(kind=kind), client=two_workers)
    assert len(attempts) == 1
    wait_for_nothing(two_workers)


@dataclass(frozen=True)
class FailingAtTheEnd(Census):
    """Has nothing to offer but the rest, at which the centre fails: no worker waits for the answer."""

    def work(self, own, view, block, worker):
        own, offer = super().work(own, view, block, worker)
        return offer or own, None

    def accept(self, state, offer):
        raise ZeroDivisionError("by itself")


def test_an_error_at_the_last_words_of_a_group_ends_the_run(tmp_path, two_workers, monkeypatch):
    attempts = count_attempts(monkeypatch)
    with pytest.raises(ZeroDivisionError, match="by itself"):
        daskfs.select(small_dataset(tmp_path / "d"), FailingAtTheEnd(), client=two_workers)
    assert len(attempts) == 1
    wait_for_nothing(two_workers)


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.slow), 9])
def test_groups_whose_last_words_were_lost_are_done_again(tmp_path, two_workers, monkeypatch, times):
    """But not for ever."""
    monkeypatch.setattr(driver, "_LAST_OFFERS", 0.3)
    monkeypatch.setattr(driver, "_ATTEMPTS", 3)
    small, note, submitted = small_dataset(tmp_path / "d"), driver.Ledger.note, driver.AsynchronousRunner._submit_groups
    done: list[list[int]] = []

    def counting(self, centre, addresses, unit):
        done.append(list(unit.ledger.groups))
        return submitted(self, centre, addresses, unit)

    def deaf(self, report):
        unheard = done[0][-1] if len(done) <= times else None
        note(self, replace(report, finished=[number for number in report.finished if number != unheard]))

    monkeypatch.setattr(driver.AsynchronousRunner, "_submit_groups", counting)
    monkeypatch.setattr(driver.Ledger, "note", deaf)
    if times == 9:
        with pytest.raises(Interrupted, match="what workers say does not reach it"):
            daskfs.select(small, Census(passes=1), client=two_workers)
    else:
        given = daskfs.select(small, Census(passes=1), client=two_workers)
        assert done == [done[0], *[done[0][-1:]] * times]
        monkeypatch.undo()
        check_same(given, daskfs.select(small, Census(passes=1)))
    wait_for_nothing(two_workers)


def count_attempts(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a centre was made."""
    attempts: list[float] = []
    attempt = driver.AsynchronousRunner._attempt

    def counting(self, *arguments):
        attempts.append(time.monotonic())
        return attempt(self, *arguments)

    monkeypatch.setattr(driver.AsynchronousRunner, "_attempt", counting)
    return attempts


def test_block_can_wait_so_that_the_result_can_be_repeated(dataset, two_workers, monkeypatch):
    attempts = count_attempts(monkeypatch)
    first, second = (daskfs.select(dataset, paced("block"), client=two_workers, synchronous=True) for _ in range(2))
    check_same(first, second)
    assert found(first) == K
    assert not attempts
    with pytest.raises(OptionError, match="method='async' never waits"):
        daskfs.select(dataset, paced("async"), client=two_workers, synchronous=True)


@pytest.mark.slow_but_first
@pytest.mark.usefixtures("every_task")
@pytest.mark.parametrize("stop", [None, 2, 19])
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_left_on_the_cluster(dataset, method, stop, two_workers):
    """Not even after Ctrl-C."""
    if stop is None:
        daskfs.select(dataset, paced(method), client=two_workers)
    else:
        with pytest.raises(Stop):
            daskfs.select(dataset, paced(method, 0.01), client=two_workers, progress=stopping_after(stop))
    wait_for_nothing(two_workers)


def wait_for_nothing(client: Client) -> None:
    """No tasks on the scheduler, no centre and nothing of a run on the workers."""
    wait_for_no_tasks(client)
    left: list[str] = []

    def nothing_is_left() -> bool:  # a block that was under way comes to its end first
        left[:] = [name for names in client.run(what_is_left).values() for name in names]
        return not left

    wait_until(nothing_is_left, lambda: left)


def what_is_left(dask_worker: Worker) -> list[str]:
    desks = [f"desk of {run}" for of_a_thread in worker._sessions.values() for run in of_a_thread]
    return [*desks, *map(str, dask_worker.state.actors), *map(str, dask_worker.data)]


def test_another_client_may_be_the_default(dataset, two_workers, three_threads):
    with Client(three_threads.scheduler.address):
        assert found(daskfs.select(dataset, paced("block"), client=two_workers)) == K


def test_arguments_of_tasks_are_small(dataset, two_workers, monkeypatch):
    sizes = submitted_bytes(monkeypatch)
    daskfs.select(dataset, paced("block"), client=two_workers)
    assert len(sizes) > 30
    assert max(sizes) < 2500


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Dask leaves a coroutine behind
def test_a_client_that_is_closed_ends_the_run(dataset, two_workers):
    with Client(two_workers.scheduler.address, set_as_default=False) as client:
        closing = threading.Thread(target=client.close)
        with pytest.raises(Interrupted, match="run the same again"):
            daskfs.select(dataset, paced("block", 0.05), client=client, progress=Once(closing.start, 1, 2))
        closing.join()
    wait_for_no_tasks(two_workers)


def test_a_worker_that_joins_in_the_middle_of_a_pass_takes_part(dataset):
    with local_cluster(2, processes=False) as client:

        def more() -> None:
            client.cluster.scale(3)
            client.wait_for_workers(3)

        _at_work.clear()
        daskfs.select(dataset, Watched(K, passes=1), client=client, progress=Once(more, 1, 2))
        assert _at_work == {0, 1, 2}


@dataclass(frozen=True)
class Watched(Paced):
    """Notes which worker of this process works."""

    def sleep(self) -> None:
        time.sleep(0.05)
        _at_work.add(get_worker().name)


_at_work: set[Any] = set()


@contextmanager
def with_a_home(kind: type, *others: str) -> Iterator[Client]:
    """A cluster with a worker that is meant for the centre, and others."""
    options = {"nthreads": 1, "host": "127.0.0.1"}
    specs = {name: {"cls": kind, "options": options} for name in others}
    specs["home"] = {"cls": kind, "options": options | {"resources": {CENTRE: 1}}}
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}}
    with (
        SpecCluster(specs, scheduler, silence_logs=60) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(1 + len(others))
        yield client


def test_a_worker_meant_for_the_centre_gets_it_and_nothing_else(dataset):
    with with_a_home(Worker, "a", "b") as client:
        cluster = client.cluster
        held: list[Any] = []
        _at_work.clear()
        home = cluster.workers["home"].address
        given = daskfs.select(
            dataset, Watched(K), client=client, progress=Once(lambda: held.extend(centres(client)), 2, 2)
        )
        assert found(given) == K
        assert held == [home]
        assert _at_work == {"a", "b"}


@pytest.mark.slow
def test_a_worker_that_comes_back_to_the_centre_goes_on(dataset, monkeypatch):
    """At another address: tasks that were meant for the old one would wait for ever."""
    monkeypatch.setattr(driver, "_POLL", 0.2)
    with with_a_home(Nanny, "only") as client:
        struck = Once(lambda: kill(client.cluster.workers["only"].pid), 1, 1)
        given = daskfs.select(dataset, paced("block", 0.02), client=client, progress=struck)
        assert struck.struck
        assert found(given) == K


def test_a_centre_that_is_no_more_at_the_end_of_a_pass_is_made_again(dataset, two_workers, monkeypatch):
    """It was told that the pass is over, and who knows whether it has heard it."""
    attempts = count_attempts(monkeypatch)

    class Unheard(driver.ActorCalls):
        def later(self, method: str, *arguments: Any) -> Any:
            return method if method == "end_pass" else super().later(method, *arguments)

        def answer(self, reply: Any) -> Any:
            if reply == "end_pass":
                raise CentreLost("on its way")
            return super().answer(reply)

    monkeypatch.setattr(driver, "ActorCalls", Unheard)
    given = daskfs.select(dataset, paced("block"), client=two_workers)
    assert found(given) == K
    assert len(given.history.objective.dropna("step")) >= 2
    assert len(attempts) >= 4  # each pass after the first, and the last look, is begun twice
    monkeypatch.undo()
    wait_for_no_tasks(two_workers)


def test_a_centre_waits_for_its_turn_on_a_busy_cluster(dataset, two_workers, monkeypatch):
    monkeypatch.setattr(driver, "_POLL", 0.1)
    attempts = count_attempts(monkeypatch)
    busy = [two_workers.submit(time.sleep, 2.0, pure=False, priority=200) for _ in range(2)]
    assert found(daskfs.select(dataset, paced("block"), client=two_workers)) == K
    assert all(future.status == "finished" for future in busy)
    assert len(attempts) == len(set(attempts)) <= 4  # of three passes and a last look: none twice


def test_a_scheduler_that_does_not_answer_ends_the_run(dataset, two_workers, monkeypatch):
    """With the one error that means "later", whatever Dask raises."""
    monkeypatch.setattr(driver, "_POLL", 0.1)

    def deaf(self: Client, workers: object = None) -> dict[str, int]:
        raise CommClosedError("in <TCP (closed)>")

    def cut() -> None:
        monkeypatch.setattr(Client, "nthreads", deaf)

    gone = pytest.raises(Interrupted, match=r"are gone; .* run the same again")
    with dask.config.set({"daskfs.patience": 4}), gone as caught:
        daskfs.select(dataset, paced("block", 0.3), client=two_workers, progress=Once(cut, 1, 1))
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    wait_for_no_tasks(two_workers)


@pytest.mark.parametrize("method", METHODS)
def test_the_time_between_groups_is_that_of_the_scheduler(dataset, method, two_workers):
    history = daskfs.select(dataset, paced(method, 0.01), client=two_workers).history
    passes = history.isel(step=slice(3))
    assert (passes.scheduler > 0).all()
    assert (passes.scheduler + passes.busy <= 2 * passes.seconds).all()


def test_a_cluster_without_workers_ends_the_run(dataset, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("daskfs.engine.cluster.waiting.NO_WORKERS", 0.5)
    with (
        local_cluster(2, processes=False) as client,
        pytest.raises(Interrupted, match="no workers any more") as said,
    ):
        daskfs.select(
            dataset,
            paced("block", 0.05),
            client=client,
            checkpoint=tmp_path / "c",
            progress=Once(lambda: client.cluster.scale(0), 2, 2),
        )
    assert isinstance(said.value, Interrupted)
    given = daskfs.select(dataset, paced("block", 0.05), checkpoint=tmp_path / "c", resume=True)
    assert found(given) == K
