"""F1, F2: workers killed in the middle of a pass; where they wait for each other, not a bit of the result changes."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster, get_worker
from distributed.chaos import KillWorker
from fault_notes import note
from toy_algorithms import Tangled
from toy_runs import always_due, check_same, local_cluster, small_dataset, wait_for_no_tasks, worker_pids

import daskfs
from daskfs.errors import Interrupted, WorkerError

__all__ = ["always_due"]
SLOW = 0.02  # seconds a block, so that there is a middle to strike in


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Client]:
    with local_cluster(3) as client:
        yield client


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class Striking:
    """A progress callback that kills workers after one of its events."""

    def __init__(self, client: Client, seed: int, victims: int) -> None:
        self.seed, self._rng = seed, random.Random(seed)
        self._pids = self._rng.sample(worker_pids(client, 3), victims)
        self._left = self._rng.randint(1, 6)

    def __call__(self, _: object) -> None:
        self._left -= 1
        if self._left == 0:
            time.sleep(self._rng.uniform(0, 3 * SLOW))
            for pid in self._pids:
                kill(pid)
            self._at = time.monotonic()
        elif self._left == -1:
            note(recovery=time.monotonic() - self._at)

    @property
    def struck(self) -> bool:
        return self._left <= 0


@pytest.fixture(scope="module")
def expected(three_workers, tmp_path_factory):
    """The undisturbed results."""
    dataset = small_dataset(tmp_path_factory.mktemp("f1") / "d")
    return {
        schedule: daskfs.select(dataset, Tangled(schedule=schedule, passes=2), client=three_workers)
        for schedule in ("synchronous", "serial")
    }


def cases(seeds: Iterable[int]) -> list[Any]:
    """Seeded runs: one for `make test`, some for `make test-all`, twenty of each schedule for `make faults`."""
    pairs = product(seeds, ("synchronous", "serial"))
    marks = [[], [pytest.mark.slow], [pytest.mark.slow], *([pytest.mark.faults] for _ in range(100))]
    return [pytest.param(schedule, seed, marks=mark) for mark, (seed, schedule) in zip(marks, pairs, strict=False)]


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize(("schedule", "seed"), cases(range(20)))
def test_f1_a_killed_worker_changes_nothing(tmp_path, schedule, seed, three_workers, expected, monkeypatch):
    check_exact(tmp_path, schedule, Striking(three_workers, seed, 1), three_workers, expected, monkeypatch)


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize(("schedule", "seed"), cases(range(20, 31))[1:])
def test_f2_killed_workers_change_nothing(tmp_path, schedule, seed, three_workers, expected, monkeypatch):
    """All but one, or even all, which nannies start again."""
    strike = Striking(three_workers, seed, 2 + seed % 2)
    check_exact(tmp_path, schedule, strike, three_workers, expected, monkeypatch)


def check_exact(folder, schedule, strike, client, expected, monkeypatch) -> None:
    """Check that a run with killed workers gives the bits of an undisturbed one, with and without checkpoints."""
    monkeypatch.setattr("daskfs.engine.shards.GROUP_BYTES", 4000)
    checkpoint = folder / "c" if strike.seed % 2 else None
    given = daskfs.select(
        small_dataset(folder / "d"), slow(schedule), client=client, progress=strike, checkpoint=checkpoint
    )
    assert strike.struck
    check_same(given, expected[schedule])
    wait_for_no_tasks(client)


@pytest.mark.faults
@pytest.mark.parametrize("mode", ["segfault", "graceful"])  # after `sys.exit`, nannies start no other worker
def test_f1_workers_that_die_all_the_time_change_nothing(tmp_path, mode):
    """Dask's own `KillWorker`: every worker dies within seconds, and so do those that come after it."""
    dataset, survived = small_dataset(tmp_path / "d"), 0
    with dask.config.set({"distributed.scheduler.allowed-failures": 1000}), local_cluster(3) as client:
        expected = daskfs.select(dataset, slow("synchronous"), client=client)
        client.register_plugin(KillWorker("4 s", mode))  # a start on a busy machine takes some seconds
        for number in range(10):
            worker_pids(client, 3)  # which give a run its number of shards
            folder = tmp_path / str(number)
            while survived == number:
                with suppress(Interrupted):  # exit code 75: the same again goes on
                    given = daskfs.select(dataset, slow("synchronous"), client=client, checkpoint=folder, resume=True)
                    survived += 1
            assert given.features.tolist() == expected.features.tolist()
    note(runs=survived)


def slow(schedule: str) -> Tangled:
    return Tangled(schedule=schedule, passes=2, seconds=SLOW)


@dataclass(frozen=True)
class Deadly(Tangled):
    """Kills the worker that reads a certain block."""

    def update(self, state, block):
        if 20 in block.ids:
            get_worker()  # nowhere else
            kill(os.getpid())
        return super().update(state, block)


def test_f10_a_task_that_kills_every_worker_is_said_with_the_memory_plan(tmp_path, three_workers):
    dataset = small_dataset(tmp_path / "d")
    three_workers.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(WorkerError) as caught:
        daskfs.select(dataset, Deadly(), client=three_workers)
    said = str(caught.value)
    assert said.startswith(f"{dataset.url}: 1 workers died of the same task")
    assert re.search(r"each needs state [45] x .* \+ blocks .* = ", said)  # a worker may still be on its way
    assert "\n" not in said


def test_a_cluster_without_workers_ends_a_run_and_leaves_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.engine.cluster.waiting.NO_WORKERS", 0.5)
    dataset = small_dataset(tmp_path / "d")
    with local_cluster(2, processes=False) as client:
        reference = daskfs.select(dataset, Tangled(), client=client)

        def leave(event: object) -> None:
            if event.number == 2:
                client.cluster.scale(0)

        with pytest.raises(Interrupted, match="no workers any more"):
            daskfs.select(dataset, Tangled(seconds=SLOW), client=client, progress=leave, checkpoint=tmp_path / "c")
    check_same(daskfs.select(dataset, Tangled(seconds=SLOW), checkpoint=tmp_path / "c", resume=True), reference)


@pytest.mark.slow
def test_an_ingest_whose_workers_are_all_gone_ends_and_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.engine.cluster.waiting.NO_WORKERS", 1)
    for number in range(8):
        (tmp_path / f"{number}.svm").write_text(f"{number % 2} {number + 1}:1\n" * 1000)
    sources = str(tmp_path / "*.svm")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def strike(event: object) -> None:
            cluster.scale(0)

        with pytest.raises(Interrupted, match="no workers any more"):
            daskfs.ingest(sources, tmp_path / "d.zarr", format="svmlight", client=client, progress=strike)
    assert daskfs.ingest(sources, tmp_path / "d.zarr", format="svmlight").n_samples == 8000
