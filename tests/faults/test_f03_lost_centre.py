"""F3: the process that holds the centre killed, at bad moments: another one accepts within seconds, nothing is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from centre_runs import BLOCKS, K, Once, found, kill_centre, paced, planted
from distributed import Client
from fault_notes import note
from toy_algorithms import Census
from toy_runs import always_due, check_same, local_cluster, small_dataset, wait_for_no_tasks, worker_pids

import daskfs
from daskfs.engine.asynchronous import driver
from daskfs.errors import Interrupted

__all__ = ["always_due"]
LIMIT = 10.0  # seconds from the kill until a new centre takes offers: the requirement itself
SLOW = 0.1  # seconds a block, so that there is a middle to strike in
SMALL = 14  # blocks of the small dataset


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(3) as client:
        yield client


@pytest.fixture
def three_workers(cluster: Client) -> Client:
    worker_pids(cluster, 3)
    return cluster


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each centre of a run was ready to take offers."""
    times: list[float] = []

    class Timed(driver.ActorCalls):
        def now(self, method, *arguments):
            answer = super().now(method, *arguments)
            if method == "open":
                times.append(time.monotonic())
            return answer

    monkeypatch.setattr(driver, "ActorCalls", Timed)
    return times


def check_in_time(struck: Once, opened: list[float]) -> None:
    after = min(moment for moment in opened if moment > struck.struck) - struck.struck
    note(recovery=after)
    assert after < LIMIT


def check_exact(given: daskfs.Selection, small: daskfs.Dataset, passes: int = 2) -> None:
    check_same(given, daskfs.select(small, Census(seconds=1e-4, passes=passes)))


@pytest.mark.slow
def test_f3_in_flight(tmp_path, three_workers, opened):
    small, struck = small_dataset(tmp_path / "d"), Once(lambda: kill_centre(three_workers), 2, 3)
    given = daskfs.select(small, Census(seconds=SLOW), client=three_workers, progress=struck)
    check_exact(given, small)
    check_in_time(struck, opened)
    assert len(opened) == 2  # one stays from pass to pass, if it is not killed
    wait_for_no_tasks(three_workers)


def test_f3_idle(tmp_path, three_workers, opened):
    """All workers are deep in a block, and nobody waits for the centre."""
    small = small_dataset(tmp_path / "d")

    def strike() -> bool:
        time.sleep(0.2)
        return kill_centre(three_workers)

    struck = Once(strike, 1, 2)
    given = daskfs.select(small, Census(seconds=0.6, passes=1), client=three_workers, progress=struck)
    check_exact(given, small, passes=1)
    check_in_time(struck, opened)


@pytest.mark.usefixtures("always_due")
def test_f3_during_a_checkpoint(tmp_path, three_workers, opened):
    """The driver is told that a group has ended, and the next it does is to ask for the state."""
    small, struck = small_dataset(tmp_path / "d"), Once(lambda: kill_centre(three_workers), 2, 3)
    algorithm = Census(seconds=SLOW)
    given = daskfs.select(small, algorithm, client=three_workers, progress=struck, checkpoint=tmp_path / "c")
    check_exact(given, small)
    check_in_time(struck, opened)


@pytest.mark.slow
def test_f3_when_all_is_done_but_the_handing_over(tmp_path, three_workers, opened):
    small, struck = small_dataset(tmp_path / "d"), Once(lambda: kill_centre(three_workers), 1, SMALL)
    given = daskfs.select(small, Census(seconds=0.01), client=three_workers, progress=struck)
    check_exact(given, small)
    check_in_time(struck, opened)


@pytest.mark.slow
def test_f3_what_is_only_with_workers_is_not_lost(tmp_path, three_workers, opened):
    """In Asy-OS that is everything, and after the last group of the only pass nobody would say it again."""
    struck = Once(lambda: kill_centre(three_workers), 1, BLOCKS)
    algorithm = paced("faithful", 0.01, passes=1)
    given = daskfs.select(planted(tmp_path / "d"), algorithm, client=three_workers, progress=struck)
    assert len(given.features) == algorithm.n_select
    assert found(given) >= K - 1  # of one pass
    check_in_time(struck, opened)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(20))
def test_f3_at_some_moment(tmp_path, three_workers, opened, seed):
    rng, small = random.Random(seed), small_dataset(tmp_path / "d")

    def strike() -> bool:
        time.sleep(rng.uniform(0, 2 * SLOW))
        return kill_centre(three_workers)

    struck = Once(strike, rng.randint(1, 2), rng.randrange(SMALL - 4))
    check_exact(daskfs.select(small, Census(seconds=SLOW), client=three_workers, progress=struck), small)
    check_in_time(struck, opened)
    wait_for_no_tasks(three_workers)


@pytest.mark.slow
def test_f3_twice_in_a_pass(tmp_path, three_workers, opened):
    """What was done between the two must not be lost, although the second centre has begun to count anew."""
    small = small_dataset(tmp_path / "d")
    first = Once(lambda: kill_centre(three_workers), 1, 0)  # as soon as a group has ended
    second = Once(lambda: len(opened) == 2 and kill_centre(three_workers), 1, 0)

    def progress(event: object) -> None:
        first(event)
        second(event)

    given = daskfs.select(small, Census(seconds=0.2), client=three_workers, progress=progress)
    check_exact(given, small)
    for struck in (first, second):
        check_in_time(struck, opened)
    assert len(opened) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("method", "number"), [("block", 1), ("async", 3)])
def test_f3_the_same_features_are_found(tmp_path, method, number, three_workers, opened):
    struck = Once(lambda: kill_centre(three_workers), number, BLOCKS // 3)
    given = daskfs.select(planted(tmp_path / "d"), paced(method, 0.05), client=three_workers, progress=struck)
    assert found(given) == K  # as without a fault: see test_around
    check_in_time(struck, opened)
    wait_for_no_tasks(three_workers)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["block", "async"])
def test_f3_in_the_last_look_at_columns(tmp_path, method, three_workers, opened, monkeypatch):
    """Some of them are there when the centre is killed, and are read again for the next one."""
    struck, dataset = Once(lambda: kill_centre(three_workers), 1, 1), planted(tmp_path / "d")
    ask = driver.AsynchronousRunner._ask_centre

    def asked_and_struck(self, centre, unit, threads):
        ask(self, centre, unit, threads)
        struck(Event(int(unit.verb == "revisit"), len(unit.ledger.held)))

    monkeypatch.setattr(driver.AsynchronousRunner, "_ask_centre", asked_and_struck)
    given = daskfs.select(dataset, paced(method, 0.02), client=three_workers)
    check_in_time(struck, opened)
    assert found(given) == K
    assert given.score(dataset) > 0.99
    wait_for_no_tasks(three_workers)


class Event(NamedTuple):
    number: int
    blocks_done: int


@pytest.mark.slow
def test_f3_a_centre_that_never_lives_long_ends_the_run(tmp_path: Path, three_workers, monkeypatch):
    monkeypatch.setattr(driver, "_ATTEMPTS", 2)
    small = small_dataset(tmp_path / "d")
    with pytest.raises(Interrupted, match=r"lost again and again .* run the same again") as caught:
        daskfs.select(
            small, Census(seconds=SLOW), client=three_workers, progress=lambda event: kill_centre(three_workers)
        )
    assert "\n" not in str(caught.value)
