"""F35: twenty busy processes beside a run: slower, and nothing else, also if a stream is harmed or a worker freezes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dask
import pytest
from busy_machine import busy_machine
from centre_runs import Once
from distributed import Client
from fault_notes import note
from harmed_streams import HARMS, SECONDS, harm
from toy_algorithms import Census, Tangled
from toy_runs import check_same, local_cluster, small_dataset, worker_pids

import daskfs
from daskfs.protocol import Algorithm

pytestmark = [
    pytest.mark.faults,
    pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"),
]
SCHEDULES = ("synchronous", "serial", "asynchronous")
LOST = ("has left the cluster", "not been heard from", "connecting anew")


def toy(schedule: str, seconds: float) -> Algorithm:
    """One of each schedule, whose result is the same to the last bit whatever happens on the way."""
    return Census(seconds=seconds) if schedule == "asynchronous" else Tangled(schedule=schedule, seconds=seconds)


@pytest.fixture(scope="module")
def busy() -> Iterator[Client]:
    """A cluster on a busy machine."""
    with busy_machine(), local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    return small_dataset(tmp_path_factory.mktemp("f35") / "d")


@pytest.fixture(scope="module")
def expected(dataset: daskfs.Dataset, busy: Client) -> dict[str, daskfs.Selection]:
    """What undisturbed runs give."""
    worker_pids(busy, 2)
    return {schedule: daskfs.select(dataset, toy(schedule, 1e-4), client=busy) for schedule in SCHEDULES}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_f35_runs_are_slower_and_nothing_else(dataset, busy, expected, caplog, schedule, number):
    caplog.clear()
    check_same(daskfs.select(dataset, toy(schedule, 0.02), client=busy), expected[schedule])
    assert [text for text in caplog.messages for lost in LOST if lost in text] == []  # nobody counts as lost


def freeze_one(pids: list[int], rng: random.Random) -> None:
    """Freeze a worker, which its nanny kills when it is given up."""
    os.kill(rng.choice(pids), signal.SIGSTOP)


@pytest.mark.parametrize("seed", range(200))
def test_f33_no_run_hangs_on_a_busy_machine(tmp_path: Path, dataset, busy, expected, seed):
    rng, schedule = random.Random(seed), SCHEDULES[seed % 3]
    how = (*HARMS, "frozen")[seed % 5]
    pids = worker_pids(busy, 2)
    strike = partial(freeze_one, pids, rng) if how == "frozen" else partial(harm, busy, how)
    struck = Once(strike, rng.randint(1, 2), rng.randrange(7))
    with dask.config.set({"daskfs.patience": SECONDS}):
        given = daskfs.select(
            dataset, toy(schedule, 0.05), client=busy, progress=struck, checkpoint=tmp_path / "c", resume=True
        )
    assert struck.struck is not None
    note(recovery=time.monotonic() - struck.struck)
    check_same(given, expected[schedule])
