"""Error control on two workers in rounds gives the q-values of the same rounds in one process, also after a kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from distributed import Client
from toy_runs import Stop, local_cluster, stopping_after, worker_pids

import daskfs
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


@pytest.fixture(scope="module")
def expected(dataset: daskfs.Dataset) -> Selection:
    """The result of two shards, one after the other in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskfs.engine.run.n_shards_for", lambda *_: 2)
        return daskfs.select(dataset, ALGORITHM)


def check_same(given: Selection, expected: Selection) -> None:
    assert given.features.tolist() == expected.features.tolist()
    assert given.weights.tobytes() == expected.weights.tobytes()
    assert given.error_control == expected.error_control
    for name, numbers in expected.statistics.items():
        assert given.statistics[name].tobytes() == numbers.tobytes()


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
