"""Sparse Random Features on real processes: shared passes, what travels, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from distributed import Client
from toy_runs import local_cluster, wait_for_no_tasks

import daskfs
from daskfs.algorithms.random_features.rounds import begin_pass
from daskfs.algorithms.random_features.state import ScoreModel
from daskfs.engine.checkpoint import Snapshot
from daskfs.engine.passes import SelectionRun, SerialRunner
from daskfs.engine.run import n_shards_for
from daskfs.engine.shards import one_blas_thread
from daskfs.protocol import flatten
from daskfs.selection.selection import KeptFeatures

CASES = {
    "squared": daskfs.SparseRandomFeatures(rounds=3, per_round=40),
    "logistic": daskfs.SparseRandomFeatures(loss="logistic", rounds=2, per_round=30),
    "chosen": daskfs.SparseRandomFeatures(n_select=10, rounds=2, per_round=30),
    "kept": daskfs.SparseRandomFeatures(rounds=2, per_round=30, keep=("x3", "x2")),
}
MB = 10**6


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    X = np.random.default_rng(0).uniform(size=(5000, 4))
    folder = tmp_path_factory.mktemp("srf") / "d.zarr"
    daskfs.write_dataset(folder, X, np.sin(7 * X[:, 1]) > X[:, 2], layout="rows", chunk_bytes=10_000)
    return daskfs.open_dataset(folder)


@pytest.fixture
def shares_little(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = replace(daskfs.SparseRandomFeatures().sharing, min_bytes_per_merge=0)
    monkeypatch.setattr(daskfs.SparseRandomFeatures, "sharing", shared)


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("shares_little")
def test_two_processes_give_what_their_shards_give_and_what_one_gives(dataset, two_workers, name):
    algorithm = CASES[name]
    assert n_shards_for(dataset, algorithm, two_workers, synchronous=False) == 2
    shared = daskfs.select(dataset, algorithm, client=two_workers)
    run = SelectionRun(dataset, algorithm, Snapshot(algorithm.start(dataset.meta, 0), 2))
    with one_blas_thread():  # as `select` and the workers have it
        by_shards = algorithm.result(run.finish(SerialRunner(run)).state)
    kept = shared.kept or KeptFeatures(np.empty(0, np.uint64), [], np.empty(0))
    assert [*shared.features, *kept.features] == by_shards.features.tolist()
    assert shared.weights.tobytes() + kept.weights.tobytes() == by_shards.weights.tobytes()
    assert kept.names == list(algorithm.keep)
    alone = daskfs.select(dataset, algorithm)
    assert shared.history.objective.values[-1] == pytest.approx(alone.history.objective.values[-1], rel=1e-3)
    assert shared.score(dataset) == pytest.approx(alone.score(dataset), abs=0.005)
    wait_for_no_tasks(two_workers)


@pytest.mark.usefixtures("shares_little")
def test_the_gram_matrix_stays(dataset, two_workers, monkeypatch):
    sent, scatter = [], Client.scatter

    def noting(self, data, **options):
        sent.extend(data)
        return scatter(self, data, **options)

    monkeypatch.setattr(Client, "scatter", noting)
    daskfs.select(dataset, CASES["squared"], client=two_workers)
    assert len(sent) >= 5
    assert all(state.quadratic is state.history is None for state in sent)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
@pytest.mark.parametrize("kind", ["screen", "gram", "newton"])
def test_no_result_of_a_task_is_large_with_five_thousand_features(dataset, loss, kind):
    algorithm = daskfs.SparseRandomFeatures(loss=loss, max_features=5000)
    state = algorithm.start(dataset.meta, 0)
    state.active, state.model = np.arange(5000, dtype=np.uint64), ScoreModel(np.ones((5000, 1)), np.zeros(1))
    state.candidates = np.arange(2000, dtype=np.uint64)
    begin_pass(state, kind)
    sums = sum(np.asarray(value).nbytes for value in flatten(state.sums).values())
    most = 2 * sums  # those since the pass began, and those since the last merge
    assert 0 < most < 64 * MB


def test_little_data_is_worked_on_by_one(dataset, two_workers):
    assert n_shards_for(dataset, CASES["squared"], two_workers, synchronous=False) == 1
