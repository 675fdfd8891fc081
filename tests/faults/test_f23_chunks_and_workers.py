"""F23: other chunk sizes, other numbers of workers that wait for each other: the same features and their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client
from fault_notes import note
from toy_runs import local_cluster, worker_pids

import daskfs
from daskfs.protocol import Algorithm
from daskfs.store.ingest import arrays

TRUE = (2, 17, 33, 48, 51, 59)
K = len(TRUE)
CHUNKS = (5_000, 20_000, 100_000)  # bytes: a few columns or rows each, up to some tens
TOLERANCE = 1e-4  # of the largest weight: another order of adding, and a solver that ends a step earlier or later
CASES: dict[str, Algorithm] = {
    "univariate": daskfs.Univariate(K),
    "block": daskfs.OnlineSubstitution(K, ridge=0.1),
    "paper": daskfs.OnlineSubstitution(K, method="paper"),
    "random": daskfs.SparseRandomFeatures(rounds=2, per_round=20, n_select=K, max_features=50),
    "mission": daskfs.Mission(K, passes=20, width=2**12),
    "iht": daskfs.Mission(K, passes=20, method="iht"),
}
LONG = pytest.mark.faults


@pytest.fixture(scope="module", params=[2, pytest.param(1, marks=LONG), pytest.param(3, marks=LONG)])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with local_cluster(request.param) as client:
        worker_pids(client, request.param)
        yield client


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Algorithm, int], daskfs.Dataset]:
    """The same cells, laid out for an algorithm, in chunks of a size."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 60)).astype(np.float32)
    y = X[:, TRUE] @ [3, -3, 2.5, 2.5, -2, 2] + 0.3 * rng.normal(size=800) > 0

    def write(folder: Path, algorithm: Algorithm, chunk_bytes: int) -> None:
        if isinstance(algorithm, daskfs.Mission):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(arrays, "BLOCK_ENTRIES", chunk_bytes // 8)
                daskfs.write_dataset(folder, sp.csr_array(X), y)
        else:
            daskfs.write_dataset(folder, X, y, layout=algorithm.axis, chunk_bytes=chunk_bytes)

    def get(algorithm: Algorithm, chunk_bytes: int) -> daskfs.Dataset:
        folder = tmp_path_factory.mktemp("f23") / "d"
        write(folder, algorithm, chunk_bytes)
        return daskfs.open_dataset(folder)

    return get


@pytest.mark.parametrize("name", ["univariate", "block", *(pytest.param(name, marks=LONG) for name in list(CASES)[2:])])
def test_f23_the_same_features_and_weights(name, dataset, client, monkeypatch):
    """All workers take part, although the data are small."""
    monkeypatch.setattr("daskfs.engine.run.most_shards", lambda workers, blocks, *_: min(workers, blocks))
    algorithm = CASES[name]
    of_size = [dataset(algorithm, size) for size in CHUNKS]
    assert len({each.n_blocks() for each in of_size}) == len(CHUNKS)
    expected = by_id(daskfs.select(of_size[0], algorithm))
    for each in of_size:
        given = by_id(daskfs.select(each, algorithm, client=client, synchronous=True))
        assert list(given) == list(expected)
        largest = max(map(abs, expected.values()))
        np.testing.assert_allclose(list(given.values()), list(expected.values()), rtol=0, atol=TOLERANCE * largest)
    note(runs=len(CHUNKS))


def by_id(selection: daskfs.Selection) -> dict[int, float]:
    """The weight of every feature, in the order of their ids."""
    return dict(sorted(zip(selection.features.tolist(), np.ravel(selection.weights).tolist(), strict=True)))
