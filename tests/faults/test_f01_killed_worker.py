"""F1, F2: workers killed in the middle of a pass; where they wait for each other, not a bit of the result changes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from distributed import Client, LocalCluster, get_worker
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
        self._rng = random.Random(seed)
        self._pids = self._rng.sample(worker_pids(client, 3), victims)
        self._left = self._rng.randint(1, 6)

    def __call__(self, _: object) -> None:
        self._left -= 1
        if self._left == 0:
            time.sleep(self._rng.uniform(0, 3 * SLOW))
            for pid in self._pids:
                kill(pid)

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


@pytest.mark.slow_but_first
@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize(
    ("schedule", "victims", "seed", "kept"),
    [
        ("synchronous", 1, 0, False),
        ("synchronous", 1, 1, True),
        ("serial", 1, 3, False),
        ("synchronous", 2, 4, False),
        ("synchronous", 3, 5, True),
    ],
)
def test_f1_f2_killed_workers_change_nothing(
    tmp_path, schedule, victims, seed, kept, three_workers, expected, monkeypatch
):
    monkeypatch.setattr("daskfs.engine.shards.GROUP_BYTES", 4000)
    dataset, strike = small_dataset(tmp_path / "d"), Striking(three_workers, seed, victims)
    given = daskfs.select(
        dataset,
        slow(schedule),
        client=three_workers,
        progress=strike,
        checkpoint=tmp_path / "c" if kept else None,
    )
    assert strike.struck
    check_same(given, expected[schedule])
    wait_for_no_tasks(three_workers)


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
    assert "each needs state 5 x " in said
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
