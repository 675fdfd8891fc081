"""Adaptive clusters: workers come when there is work and go when there is none, also in the middle of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from distributed import Client, LocalCluster
from toy_algorithms import Census, Tangled
from toy_runs import check_same, small_dataset, wait_for_no_tasks

import daskfs
from daskfs.engine.cluster.worker_pool import expected_workers


@dataclass(frozen=True)
class Thoughtful(Tangled):
    """Thinks after every pass, so long that a cluster may believe it has been forgotten."""

    seconds: float = 0.05

    def end_pass(self, state):
        time.sleep(1.5)
        return super().end_pass(state)


@dataclass(frozen=True)
class ThoughtfulCensus(Census):
    seconds: float = 0.05

    def end_pass(self, state):
        time.sleep(1.5)
        return super().end_pass(state)


@contextmanager
def adaptive(minimum: int) -> Iterator[Client]:
    """None to two workers, real processes, gone a moment after they have nothing to do."""
    with (
        LocalCluster(
            n_workers=minimum,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=60,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=minimum, maximum=2, interval="100ms", wait_count=2, target_duration="100ms")
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("minimum", [0, 1])
def test_nobody_gives_up_on_a_cluster_without_workers(tmp_path, minimum, monkeypatch):
    """Asynchronous; and nothing of ours keeps a worker when the run is over."""
    monkeypatch.setattr("daskfs.engine.cluster.waiting.NO_WORKERS", 20.0)
    dataset = small_dataset(tmp_path / "d")
    with adaptive(minimum) as client:
        assert expected_workers(client) == 2
        given = daskfs.select(dataset, ThoughtfulCensus(), client=client)
        check_same(given, daskfs.select(dataset, Census()))
        wait_for_no_tasks(client)
        deadline = time.monotonic() + 150
        while len(client.nthreads()) > minimum:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.slow
def test_a_synchronous_run_gives_the_bits_of_as_many_as_there_may_be(tmp_path, two_workers, monkeypatch):
    monkeypatch.setattr("daskfs.engine.cluster.waiting.NO_WORKERS", 20.0)
    dataset = small_dataset(tmp_path / "d")
    with adaptive(minimum=0) as client:
        given = daskfs.select(dataset, Thoughtful(passes=2), client=client)
    check_same(given, daskfs.select(dataset, Tangled(passes=2), client=two_workers))
