"""Threads and clusters run the same tasks to the same results."""

from __future__ import annotations

import threading
from importlib import import_module

import pytest
from distributed import Client

import daskfs
from daskfs.engine.cluster.plugin import keep_freed_memory
from daskfs.engine.cluster.pool import DaskWorkers, Threads, in_order, pool, prepare_workers


def square(x: int) -> int:
    if x == 13:
        raise ValueError("unlucky")
    return x * x


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_results_keep_their_order(where, two_workers):
    chosen = Threads(3) if where == "threads" else DaskWorkers(two_workers)
    assert in_order(chosen, "square")(square, [(x,) for x in range(12)]) == [x * x for x in range(12)]


@pytest.mark.parametrize("where", ["threads", "cluster"])
def test_an_error_ends_the_rest(where, two_workers):
    chosen = Threads(2) if where == "threads" else DaskWorkers(two_workers)
    with pytest.raises(ValueError, match="unlucky"):
        in_order(chosen, "square")(square, [(x,) for x in range(10, 400)])


def test_threads_hold_no_more_tasks_than_threads():
    running, most = 0, 0
    lock = threading.Lock()

    def task(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1

    in_order(Threads(3), "count")(task, [(x,) for x in range(30)])
    assert most <= 3


def test_the_current_client_is_used(two_workers):
    assert isinstance(pool(), Threads)
    assert isinstance(pool(two_workers), DaskWorkers)
    with Client(two_workers.scheduler.address):  # becomes the current one
        assert isinstance(pool(), DaskWorkers)
        assert isinstance(pool(workers=2), Threads)


def test_workers_are_prepared(two_workers):
    DaskWorkers(two_workers)
    plugins = two_workers.run(lambda dask_worker: "daskfs" in dask_worker.plugins)
    assert all(plugins.values())


def test_kernels_are_ready_before_the_first_task(two_workers):
    prepare_workers(two_workers, kernels_of=[daskfs.OnlineSubstitution(3)])
    compiled = two_workers.run(lambda: len(import_module("daskfs.algorithms.substitution.kernels").sweep.signatures))
    assert min(compiled.values()) >= 1


def test_memory_can_be_kept():
    assert keep_freed_memory() in (True, False)
