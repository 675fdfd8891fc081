"""F9: one worker fifty times as slow as the other: staleness is bounded and reported, and the loss still falls."""

from __future__ import annotations

import numpy as np
import pytest
from centre_runs import K, found, paced, planted

import daskfs

pytestmark = pytest.mark.slow

PACE = {"seconds": 0.004, "slow_worker": 0, "slower_by": 50.0}
MOST = 4  # pushes of others


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    return planted(tmp_path_factory.mktemp("f9") / "d")


def test_f9_pushes_that_are_too_stale_are_not_applied(dataset, two_workers):
    given = daskfs.select(dataset, paced("faithful", max_staleness=MOST, passes=4, **PACE), client=two_workers)
    history = given.history
    assert history.staleness_max.max() <= MOST
    assert (history.staleness <= history.staleness_max).all()
    assert history.late.sum() > 0  # or the bound was never in question
    pushes = history.offers + history.late
    assert (pushes <= dataset.n_blocks("columns")).all()
    assert (pushes >= 8).all()  # of every group at least the last: what waits for the centre becomes one push
    assert history.objective[-1] < 0.5 * variance(dataset)
    assert history.objective[-1] <= history.objective[0]


def test_f9_a_bound_of_nothing_leaves_the_fast_worker_at_work(dataset, two_workers):
    given = daskfs.select(dataset, paced("faithful", max_staleness=0, **PACE), client=two_workers)
    assert given.history.staleness_max.max() == 0
    assert given.history.objective[-1] < variance(dataset)


def test_f9_nominations_are_scored_again_however_old(dataset, two_workers):
    given = daskfs.select(dataset, paced("block", **PACE), client=two_workers)
    assert found(given) == K
    assert given.history.staleness_max.max() >= 1


def variance(dataset: daskfs.Dataset) -> float:
    """The loss of no features at all."""
    y = np.asarray(dataset.to_xarray().y.values)
    return float(((y - y.mean()) ** 2).sum() / 2)
