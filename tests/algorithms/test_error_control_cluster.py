"""Error control gives the same q-values in one process and on two workers, in any number of shards and after a kill."""

from __future__ import annotations

import os
import signal
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from distributed import Client
from toy_runs import Stop, local_cluster, stopping_after, worker_pids

import daskfs
from daskfs.engine.memory import MemoryPlan
from daskfs.engine.run import memory_plan, n_shards_for
from daskfs.protocol import Axis
from daskfs.selection.selection import Selection

ALGORITHM = daskfs.OnlineSubstitution(15, error_control="permuted", groups="x0")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture
def workers(cluster: Client) -> Client:
    """Two workers, also after one was killed."""
    worker_pids(cluster, 2)
    return cluster


@pytest.fixture(scope="module", params=["numbers", "classes"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 400)).astype(np.float32)
    X[:, 0] = np.arange(240) // 2
    y = X[:, 100:108].sum(axis=1) + 2 * rng.normal(size=240)
    place = tmp_path_factory.mktemp("errors") / "d.zarr"
    return daskfs.write_dataset(place, X, y if request.param == "numbers" else y > 0, chunk_bytes=10 * 240 * 4)


@contextmanager
def shards_of(dataset: daskfs.Dataset, n_shards: int, axis: Axis = "columns") -> Iterator[None]:
    """Let so small a dataset have several shards. Workers need not know of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskfs.engine.shards.FIXED_SHARD_BYTES", int(dataset.block_sizes(axis).sum()) // n_shards)
        yield


@pytest.fixture(autouse=True)
def _two_shards(dataset: daskfs.Dataset) -> Iterator[None]:
    with shards_of(dataset, 2):
        yield


@pytest.fixture(scope="module")
def expected(dataset: daskfs.Dataset) -> Selection:
    """The result of a plain selection in this process."""
    with shards_of(dataset, 2):
        return daskfs.select(dataset, ALGORITHM)


def check_same(given: Selection, expected: Selection) -> None:
    assert given.features.tolist() == expected.features.tolist()
    assert given.weights.tobytes() == expected.weights.tobytes()
    assert given.error_control == expected.error_control
    for name, numbers in expected.statistics.items():
        assert given.statistics[name].tobytes() == numbers.tobytes()


@pytest.mark.slow_but_first
@pytest.mark.parametrize("n_shards", [1, 3, 4])
def test_any_number_of_shards_gives_on_two_workers_what_it_gives_here(dataset, expected, workers, n_shards):
    with shards_of(dataset, n_shards):
        assert n_shards_for(dataset, ALGORITHM, None, False) == n_shards
        assert n_shards_for(dataset, ALGORITHM, workers, False) == n_shards
        here = daskfs.select(dataset, ALGORITHM)
        check_same(daskfs.select(dataset, ALGORITHM, client=workers), here)
        assert here.error_control.q_values != expected.error_control.q_values


def test_shards_follow_from_the_size_of_the_data(dataset, workers, monkeypatch):
    for client in (None, workers):
        assert n_shards_for(dataset, ALGORITHM, client, False) == 2
    monkeypatch.setattr("daskfs.engine.shards.FIXED_SHARD_BYTES", 1)
    assert n_shards_for(dataset, ALGORITHM, None, False) == 4  # at most


def test_memory_of_shards_is_promised_and_kept(tmp_path):
    """The shards of a round are held side by side, here and on a worker that has several of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 200)).astype(np.float32)
    y = X[:, 5] + rng.normal(size=4000)
    dataset = daskfs.write_dataset(tmp_path / "d.zarr", X, y, layout="columns", chunk_bytes=10 * 4000 * 4)
    algorithm = daskfs.OnlineSubstitution(40, error_control="permuted", passes=2)
    daskfs.select(dataset, algorithm)  # kernels are loaded by now
    with shards_of(dataset, 4):
        plan = memory_plan(dataset, algorithm)
        assert plan.states == 6
        tracemalloc.start()
        daskfs.select(dataset, algorithm)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= plan.total
        assert MemoryPlan.of(algorithm, dataset.meta, 4, n_workers=2).states == 7


@pytest.mark.slow_but_first
def test_two_workers_wait_for_each_other_without_being_asked(dataset, expected, workers):
    assert min(expected.statistics["q_value"]) < 0.1 < max(expected.statistics["q_value"])
    check_same(daskfs.select(dataset, ALGORITHM, client=workers), expected)


def test_a_killed_worker_changes_nothing(dataset, expected, workers):
    victims = worker_pids(workers, 2)[:1]

    def strike(now):
        if now.number == 2 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    check_same(daskfs.select(dataset, ALGORITHM, client=workers, progress=strike), expected)
    assert not victims


@pytest.mark.slow_but_first
@pytest.mark.parametrize("rounds", [1, 14])
def test_a_run_that_was_stopped_goes_on(dataset, expected, workers, tmp_path, monkeypatch, rounds):
    monkeypatch.setattr("daskfs.engine.checkpoint.EVERY_SECONDS", 0.0)
    with pytest.raises(Stop):
        daskfs.select(dataset, ALGORITHM, client=workers, checkpoint=tmp_path, progress=stopping_after(rounds))
    check_same(daskfs.select(dataset, ALGORITHM, checkpoint=tmp_path, resume=True), expected)
