"""F8: offers that arrive twice, late and out of turn, and answers that get lost, on a cluster: each counts once.

Sequences of such events that hypothesis draws are in engine/test_centre.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from centre_runs import K, found, paced, planted
from distributed import Client
from harmed_offers import harm_offers, heal_offers
from toy_algorithms import Census
from toy_runs import check_same, local_cluster, small_dataset, wait_for_no_tasks, worker_pids

import daskfs
from daskfs.engine.asynchronous.driver import AsynchronousRunner


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Client]:
    with local_cluster(3) as client:
        worker_pids(client, 3)
        yield client


HARMED = [("late", 1), ("late", 2), ("unanswered", 2)]
"""What happens to offers, and how often every task is done, at the same time: two, as if a worker counted as lost."""


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    submit = AsynchronousRunner._submit_groups

    def repeat(times: int) -> None:
        monkeypatch.setattr(
            AsynchronousRunner,
            "_submit_groups",
            lambda *about: [future for _ in range(times) for future in submit(*about)],
        )

    return repeat


LONG = [pytest.param(*harmed, seed, marks=pytest.mark.faults) for seed in range(1, 21) for harmed in HARMED]


@pytest.mark.parametrize(("how", "times", "seed"), [*((*harmed, 0) for harmed in HARMED), *LONG])
def test_f8_every_offer_counts_once(tmp_path, three_workers, repeated, how, times, seed):
    small = small_dataset(tmp_path / "d")
    repeated(times)
    harm_offers(three_workers, how, seed)
    given = daskfs.select(small, Census(seconds=0.01), client=three_workers)
    assert heal_offers(three_workers) > 0
    check_same(given, daskfs.select(small, Census(seconds=1e-4)))
    assert given.history.applied.values.tolist() == [40, 80]
    wait_for_no_tasks(three_workers)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "times"), HARMED)
@pytest.mark.parametrize("method", ["block", "async"])
def test_f8_the_same_features_are_found(tmp_path, three_workers, repeated, method, how, times):
    repeated(times)
    harm_offers(three_workers, how, 0)
    given = daskfs.select(planted(tmp_path / "d"), paced(method, 0.01), client=three_workers)
    assert heal_offers(three_workers) > 0
    assert found(given) == K
    wait_for_no_tasks(three_workers)
