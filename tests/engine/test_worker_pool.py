"""Who takes part in a run on a real cluster: those who leave are named, and nobody is kept out by runs of the dead."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, ExitStack, suppress

import pytest
from distributed import Client
from toy_runs import local_cluster, small_dataset, tangled, wait_until, worker_pids

import daskfs
from daskfs.engine.cluster.worker_pool import guard_memory
from daskfs.engine.memory import MemoryPlan
from daskfs.errors import OptionError
from daskfs.observe.dashboard import NAME, enable_for
from daskfs.observe.dashboard.series import headline

HUGE = MemoryPlan(state=1 << 50, blocks=0)
DRIVER = """
import sys
import daskfs
from distributed import Client
from toy_algorithms import Tangled
told = lambda now: print(now.blocks_done, flush=True)
with Client(sys.argv[1], set_as_default=False) as client:
    daskfs.select(sys.argv[2], Tangled(seconds=0.2), client=client, progress=told)
"""


def guards(client: Client) -> list[str]:
    plugins = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.worker_plugins))
    return [name for name in plugins if name.startswith("daskfs-memory")]


def guards_on_workers(client: Client) -> list[str]:
    plugins = client.run(lambda dask_worker: list(dask_worker.plugins)).values()
    return [name for names in plugins for name in names if name.startswith("daskfs-memory")]


def guarded(client: Client, plan: MemoryPlan) -> AbstractContextManager[None]:
    """As in a run that has looked at all workers."""
    return guard_memory(client, plan, frozenset(client.nthreads()))


def share_of_worker(client: Client, share: float) -> MemoryPlan:
    """A plan that takes a share of the one worker's memory."""
    (worker,) = client.scheduler_info()["workers"].values()
    return MemoryPlan(state=int(share * worker["memory_limit"]), blocks=0)


def test_a_guard_lasts_as_long_as_its_run_or_its_client():
    with local_cluster(1, processes=False) as client:
        with guarded(client, HUGE), guarded(client, HUGE):
            assert len(guards(client)) == 2
        assert guards(client) == []
        other = Client(client.scheduler.address, set_as_default=False)
        begun = guarded(other, HUGE)
        begun.__enter__()
        assert len(guards(client)) == 1
        other.close()
        wait_until(lambda: guards(client) == [])
        with suppress(Exception):  # it cannot end well
            begun.__exit__(None, None, None)


def spilling(client: Client) -> list[float]:
    """From which shares of its memory on the one worker spills: of the process, and of results."""
    (found,) = client.run(
        lambda dask_worker: [
            dask_worker.memory_manager.memory_spill_fraction,
            dask_worker.memory_manager.data.fast.n / dask_worker.memory_manager.memory_limit,
        ]
    ).values()
    return found


def test_workers_keep_in_memory_what_the_plan_says_and_no_more_than_before_afterwards():
    with local_cluster(1) as client:
        before = spilling(client)
        assert before == pytest.approx([0.7, 0.6], abs=1e-6)
        with guarded(client, share_of_worker(client, 0.65)):
            share = spilling(client)[1]
            assert 0.65 < share < 0.8
            assert spilling(client)[0] == pytest.approx(max(0.7, share))
        assert spilling(client) == before
        with guarded(client, MemoryPlan(state=1000, blocks=0)):
            assert spilling(client) == before


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_runs_that_overlap_each_keeps_what_it_takes_until_it_ends(first):
    with local_cluster(1) as client, ExitStack() as left:
        before, shares = spilling(client), (0.62, 0.66)
        runs = [left.enter_context(ExitStack()) for _ in shares]
        for run, share in zip(runs, shares, strict=True):
            run.enter_context(guarded(client, share_of_worker(client, share)))
        assert spilling(client) == pytest.approx([0.8, 0.8])  # all that Dask lets them have: together they take more
        runs[first].close()
        last = shares[1 - first]
        assert last < spilling(client)[1] < last + 0.1
        runs[1 - first].close()
        assert spilling(client) == before


def test_workers_spill_as_before_when_whoever_ran_something_is_gone():
    with local_cluster(1) as client:
        before = spilling(client)
        other = Client(client.scheduler.address, set_as_default=False)
        begun = guarded(other, share_of_worker(client, 0.75))
        begun.__enter__()
        assert spilling(client)[0] > 0.75
        other.close()
        wait_until(lambda: spilling(client) == before)
        assert guards_on_workers(client) == []
        with suppress(Exception):
            begun.__exit__(None, None, None)


def test_a_worker_that_is_too_small_is_told_what_to_do():
    with pytest.raises(OptionError, match=r"each thread of worker w has 1.00 kiB .* start it with a larger --memory-l"):
        MemoryPlan(state=1 << 20, blocks=0).check_worker("w", 1280, 0, 1)


@pytest.mark.slow
def test_a_worker_that_leaves_is_named_while_the_run_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("daskfs.engine.cluster.worker_pool._COUNT_EVERY", 0.0)
    dataset = small_dataset(tmp_path / "d")
    with local_cluster(2) as client, caplog.at_level(logging.WARNING, "daskfs"):
        assert enable_for(client.cluster)
        gone = min(client.nthreads())
        pid = client.run(os.getpid)[gone]

        def strike(now: object) -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        selection = daskfs.select(dataset, tangled(seconds=0.05), client=client, progress=strike)
        run = client.cluster.scheduler.plugins[NAME].live_runs.latest
        wait_until(lambda: run.ended)
    assert len(selection.features) > 0
    assert f"note: worker {gone} has left the cluster; others do its part" in caplog.text
    assert len(run.left) == 1


@pytest.mark.slow
def test_a_driver_that_is_killed_shows_and_leaves_no_guard(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    with local_cluster(1) as client:
        worker_pids(client, 1)
        assert enable_for(client.cluster)
        command = [sys.executable, "-c", DRIVER, client.scheduler.address, str(dataset.url)]
        where = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=where) as driver:
            try:
                assert driver.stdout is not None
                assert driver.stdout.readline()  # it is at work
                assert guards(client)
                assert guards_on_workers(client)
            finally:
                driver.kill()
        watched = client.cluster.scheduler.plugins[NAME].live_runs
        wait_until(lambda: watched.latest is not None and watched.latest.ended)
        assert "stopped: whoever started it is gone" in headline(watched.latest, 0.0)
        wait_until(lambda: guards(client) == guards_on_workers(client) == [])
