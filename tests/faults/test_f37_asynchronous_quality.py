"""F37: schedules without waiting, as they come, on three workers: within 1 % of the serial run, whoever is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import numpy as np
import pytest
from centre_runs import K, Once, found, kill, paced, planted
from distributed import Client
from fault_notes import note
from toy_runs import local_cluster, wait_for_no_tasks, worker_pids

import daskfs

SLOW = 0.01  # seconds a block, so that there is a middle to strike in
RUNS = 20  # of each method, with and without kills; pipelines/benchmarks/asynchronous.py has the 50


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Client]:
    with local_cluster(3) as client:
        yield client


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    return planted(tmp_path_factory.mktemp("f37") / "d")


def objective(selection: daskfs.Selection, dataset: daskfs.Dataset) -> float:
    """The sum of squared residuals over the training rows, of the data as they are and not by the run's own count."""
    arrays = dataset.to_xarray()
    predicted = selection.predict(np.asarray(arrays.X.transpose("sample", "feature")))
    return float(((predicted - np.asarray(arrays.y)) ** 2).sum())


def struck_by(client: Client, seed: int) -> Once:
    """Kill one of three workers, whether or not it holds the centre, at some moment of the first two passes."""
    rng = random.Random(seed)
    victim = rng.choice(worker_pids(client, 3))
    return Once(lambda: kill(victim), rng.randint(1, 2), rng.randrange(12))


@pytest.mark.parametrize(
    ("method", "kills", "seed"),
    [
        ("async", True, 0),
        *(
            pytest.param(method, kills, seed, marks=pytest.mark.faults)
            for seed in range(1, RUNS + 1)
            for method in ("block", "async")
            for kills in (False, True)
        ),
    ],
)
def test_f37_within_one_per_cent_of_the_serial_run(dataset, three_workers, method, kills, seed):
    serial = daskfs.select(dataset, paced(method))
    struck = struck_by(three_workers, seed) if kills else None
    began = time.monotonic()
    given = daskfs.select(dataset, paced(method, SLOW), client=three_workers, progress=struck)
    assert struck is None or struck.struck is not None
    assert objective(given, dataset) <= 1.01 * objective(serial, dataset)
    assert found(given) / K >= found(serial) / K - 0.01
    if struck is not None:
        note(recovery=time.monotonic() - max(began, struck.struck))
    wait_for_no_tasks(three_workers)
