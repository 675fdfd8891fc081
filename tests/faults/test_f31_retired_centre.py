"""F31: the worker of the centre is scaled away in the middle of a run, which does not mind."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from centre_runs import Once, centres
from distributed import Client
from toy_algorithms import Census
from toy_runs import check_same, local_cluster, small_dataset, wait_for_no_tasks

import daskfs

pytestmark = pytest.mark.slow


def retired(client: Client) -> bool:
    """As an adaptive cluster does first: Dask moves what the worker holds, and cannot move an actor."""
    addresses = centres(client)
    if addresses:
        client.retire_workers(addresses)
    return bool(addresses)


def scaled_down(client: Client) -> bool:
    """As an adaptive cluster does then: the process ends, actor or not."""
    addresses = centres(client)
    names = [name for name, nanny in client.cluster.workers.items() if nanny.worker_address in addresses]
    if names:
        client.sync(client.cluster.scale_down, names)
    return bool(names)


@pytest.fixture(scope="module")
def three_workers() -> Iterator[Client]:
    with local_cluster(3) as client:
        yield client


@pytest.mark.parametrize("leave", [retired, scaled_down])
def test_f31_the_centre_is_retired(tmp_path, leave: Callable[[Client], bool], three_workers):
    small, struck = small_dataset(tmp_path / "d"), Once(lambda: leave(three_workers), 1, 0)
    given = daskfs.select(small, Census(seconds=0.1), client=three_workers, progress=struck)
    assert struck.struck is not None
    check_same(given, daskfs.select(small, Census(seconds=1e-4)))
    wait_for_no_tasks(three_workers)
