"""F1: workers killed in the middle of a pass around a centre: nothing is lost, nothing counts twice."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from centre_runs import BLOCKS, K, Once, found, kill, paced, planted
from distributed import Client
from toy_algorithms import Census
from toy_runs import check_same, local_cluster, small_dataset, wait_for_no_tasks, worker_pids

import daskfs

SLOW = 0.03  # seconds a block, so that there is a middle to strike in


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Client]:
    with local_cluster(3) as client:
        yield client


def strike(client: Client, seed: int, blocks: int, victims: int = 1) -> Once:
    """Kill some of three workers, whether or not one holds the centre, at some moment of some pass."""
    rng = random.Random(seed)
    pids = rng.sample(sorted(worker_pids(client, 3)), victims)

    def act() -> None:
        time.sleep(rng.uniform(0, 2 * SLOW))
        for pid in pids:
            kill(pid)

    return Once(act, rng.randint(1, 2), rng.randrange(blocks // 2))


LONG = [pytest.param(seed, marks=pytest.mark.slow if seed < 4 else pytest.mark.faults) for seed in range(1, 20)]


@pytest.mark.parametrize("seed", [0, *LONG])
def test_f1_every_contribution_is_applied_once(tmp_path, seed, three_workers):
    small = small_dataset(tmp_path / "d")
    struck = strike(three_workers, seed, small.n_blocks("columns"))
    given = daskfs.select(small, Census(seconds=SLOW), client=three_workers, progress=struck)
    assert struck.struck is not None
    check_same(given, daskfs.select(small, Census(seconds=0.001)))
    assert given.history.applied.values.tolist() == [40, 80]
    wait_for_no_tasks(three_workers)


FEW = [pytest.param(seed, marks=pytest.mark.slow if seed == 20 else pytest.mark.faults) for seed in range(20, 40)]


@pytest.mark.parametrize("seed", FEW)
def test_f2_every_contribution_is_applied_once_by_the_worker_that_is_left(tmp_path, seed, three_workers):
    small = small_dataset(tmp_path / "d")
    struck = strike(three_workers, seed, small.n_blocks("columns"), victims=2)
    given = daskfs.select(small, Census(seconds=SLOW), client=three_workers, progress=struck)
    assert struck.struck is not None
    check_same(given, daskfs.select(small, Census(seconds=0.001)))
    assert given.history.applied.values.tolist() == [40, 80]
    wait_for_no_tasks(three_workers)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "seed"), [("block", 0), ("async", 1)])
def test_f1_the_same_features_are_found(tmp_path, method, seed, three_workers):
    dataset, struck = planted(tmp_path / "d"), strike(three_workers, seed, BLOCKS)
    given = daskfs.select(dataset, paced(method, SLOW), client=three_workers, progress=struck)
    assert struck.struck is not None
    assert found(given) == K  # as without a fault: see test_around
    wait_for_no_tasks(three_workers)
