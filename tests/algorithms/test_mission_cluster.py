"""MISSION on two real processes: they share every pass, and give what their shards give one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.engine.checkpoint import Snapshot
from daskfs.engine.passes import SelectionRun, SerialRunner
from daskfs.engine.run import n_shards_for
from daskfs.protocol import Result
from daskfs.store.ingest import arrays

CASES = {
    "active": daskfs.Mission(20, width=2**10),
    "paper, two passes": daskfs.Mission(20, width=2**10, method="paper", passes=2),
    "softmax, counted and refitted": daskfs.Mission(20, width=2**8, loss="softmax", idf=True, refit=1),
    "error control": daskfs.Mission(20, width=2**10, error_control="halves"),
    "interactions": daskfs.Mission(20, width=2**12, interactions="all"),
}
SHARING = replace(daskfs.Mission(1).sharing, min_bytes_per_merge=0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    """Sixty blocks of rows whose label ten of 300 features decide."""
    rng = np.random.default_rng(0)
    X = sp.random_array((6000, 300), density=0.05, format="csr", rng=rng, data_sampler=rng.standard_normal)
    y = X @ np.where(np.arange(300) < 10, 3.0, 0.0) + 0.1 * rng.normal(size=6000) > 0
    folder = tmp_path_factory.mktemp("mission")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK_ENTRIES", 1500)
        daskfs.write_dataset(folder / "x.zarr", X, y)
    return daskfs.open_dataset(folder / "x.zarr")


def shard_by_shard(dataset: daskfs.Dataset, algorithm: daskfs.Mission, shards: int) -> Result:
    """What shards give that run one after the other in this process."""
    algorithm = algorithm.resolve(dataset.meta)
    state = algorithm.start(replace(dataset.meta, n_shards=shards), 0)
    run = SelectionRun(dataset, algorithm, Snapshot(state, shards))
    return algorithm.result(run.finish(SerialRunner(run)).state)


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_what_their_shards_give(dataset, two_workers, name, monkeypatch):
    monkeypatch.setattr(
        daskfs.Mission, "sharing", replace(daskfs.Mission(1).sharing, min_bytes_per_merge=0)
    )  # so that little data is shared too
    algorithm = CASES[name]
    assert n_shards_for(dataset, algorithm, two_workers, synchronous=False) == 2
    shared = daskfs.select(dataset, algorithm, client=two_workers)
    expected = shard_by_shard(dataset, algorithm, 2)
    assert shared.features.tolist() == expected.features.tolist()
    assert shared.weights.tobytes() == expected.weights.tobytes()
    assert shared.error_control == expected.error_control
    assert shared.history.rows.values.tolist() == [6000] * shared.history.sizes["step"]
    alone = daskfs.select(dataset, algorithm)
    found = [np.count_nonzero(one.features < 10) for one in (alone, shared)]
    assert found[0] >= 8
    assert found[1] >= found[0] - 1
    assert shared.score(dataset) > alone.score(dataset) - 0.03


@pytest.mark.slow_but_first
@pytest.mark.parametrize("n_shards", [1, 2, 3])
def test_q_values_do_not_depend_on_the_number_of_workers(dataset, two_workers, n_shards, monkeypatch):
    """Any number of shards gives on two workers what a plain selection in this process gives."""
    nbytes = int(dataset.block_sizes("rows").sum())
    monkeypatch.setattr("daskfs.engine.shards.FIXED_SHARD_BYTES", nbytes // n_shards)
    algorithm = CASES["error control"]
    for client in (None, two_workers):
        assert n_shards_for(dataset, algorithm, client, synchronous=False) == n_shards
    here, shared = daskfs.select(dataset, algorithm), daskfs.select(dataset, algorithm, client=two_workers)
    assert shared.features.tolist() == here.features.tolist()
    assert shared.weights.tobytes() == here.weights.tobytes()
    assert shared.error_control == here.error_control
    for name, numbers in here.statistics.items():
        assert shared.statistics[name].tobytes() == numbers.tobytes()


def test_both_processes_take_part(dataset, two_workers, monkeypatch):
    monkeypatch.setattr(daskfs.Mission, "sharing", SHARING)
    before = two_workers.run(lambda dask_worker: dask_worker.state.executed_count)
    daskfs.select(dataset, CASES["active"], client=two_workers)
    after = two_workers.run(lambda dask_worker: dask_worker.state.executed_count)
    shares = [after[worker] - before[worker] for worker in after]
    assert min(shares) >= 8  # of ten rounds


def test_little_data_is_learned_by_one(dataset, two_workers):
    assert n_shards_for(dataset, CASES["active"], two_workers, synchronous=False) == 1
    shared = daskfs.select(dataset, CASES["active"], client=two_workers)
    alone = daskfs.select(dataset, CASES["active"])
    assert shared.weights.tobytes() == alone.weights.tobytes()
