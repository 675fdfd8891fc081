"""The workers of a selection run: how many to expect, waiting for a worker, and checks of their memory.

An adaptive cluster starts workers when there are tasks and stops workers without tasks, even between two passes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from typing import Any, TypeVar

from distributed import Client, Future, SchedulerPlugin, WorkerPlugin

from daskfs.engine.cluster.plugin import EnoughMemory, RemoveGuards
from daskfs.engine.memory import MemoryPlan
from daskfs.errors import Interrupted, OptionError

NO_WORKERS = 60.0  # seconds without a single worker until a run gives up; a restart takes some
GONE = "the Dask scheduler or its workers are gone; when they are back, run the same again to go on"
LOOK_EVERY = 10  # seconds between two checks that there are workers, while nothing happens
_COUNT_EVERY = 2.0  # seconds between two checks for lost workers, while a run goes on
logger = logging.getLogger("daskfs")
ProgressValue = TypeVar("ProgressValue")


def expected_workers(client: Client) -> int:
    """Return how many workers will share the work: the present workers, or the maximum of an adaptive cluster."""
    maximum = getattr(getattr(client.cluster, "_adaptive", None), "maximum", 0)  # of LocalCluster and job queues
    count = len(client.nthreads())
    return max(count, int(maximum)) if maximum != float("inf") else count


@contextmanager
def keep_a_worker(client: Client) -> Iterator[None]:
    """Make an adaptive cluster without workers start a worker, and keep its last worker from leaving."""
    # Dask starts a worker for a task, and closes none whose results would be lost.
    seat = client.submit(bytes, 1, key=f"daskfs-seat-{os.urandom(8).hex()}", pure=False)
    try:
        yield
    finally:
        if client.status == "running":
            seat.release()


def await_worker(client: Client, seconds: float) -> None:
    """Return as soon as there is a worker. Raise TimeoutError if no worker comes in time."""
    with nullcontext() if client.nthreads() else keep_a_worker(client):
        client.wait_for_workers(1, timeout=seconds)


def require_worker(client: Client) -> None:
    """Return as soon as there is a worker. Raise Interrupted if no worker comes in time, or the scheduler is gone."""
    try:
        await_worker(client, NO_WORKERS)
    except TimeoutError:
        raise Interrupted("the cluster has no workers any more; start some, and run the same again") from None
    except OSError as error:
        raise Interrupted(GONE) from error


def await_result(client: Client, future: Future[Any]) -> Any:
    """Return the result of a task. Raise Interrupted if all workers are gone, where Dask would wait forever."""
    while True:
        try:
            return future.result(timeout=LOOK_EVERY)
        except TimeoutError:
            if future.status == "error":  # the task itself raised it
                raise
            require_worker(client)


@contextmanager
def guard_memory(client: Client | None, plan: MemoryPlan, checked: frozenset[str]) -> Iterator[None]:
    """Keep at least one worker during a selection run, and refuse workers with less memory than the plan needs.

    Workers at the addresses in `checked` are known to have enough memory; all other workers are checked when they join.
    """
    if client is None:
        yield
        return
    with keep_a_worker(client):
        guard = EnoughMemory(plan, checked, client.id)
        register(client, RemoveGuards())
        try:
            try:
                register(client, guard)
            except OptionError as refusal:  # the run goes on with the other workers
                logger.warning("note: %s; it leaves", refusal)
            yield
        finally:
            if client.status == "running":
                with suppress(Exception):  # the scheduler is gone, and the guard with it
                    client.unregister_worker_plugin(guard.name)


def warn_of_lost_workers(
    client: Client | None, progress: Callable[[ProgressValue], None] | None
) -> Callable[[ProgressValue], None] | None:
    """Return a progress callback that also logs a warning when a worker has left the cluster."""
    if client is None:
        return progress
    known, checked = set(client.nthreads()), monotonic()

    def callback(value: ProgressValue) -> None:
        nonlocal known, checked
        if monotonic() - checked > _COUNT_EVERY:
            with suppress(Exception):  # a run does not end because its workers cannot be counted
                alive = set(client.nthreads())
                for address in sorted(known - alive):
                    logger.warning("note: worker %s has left the cluster; others do its part", address)
                known = alive
            checked = monotonic()
        if progress is not None:
            progress(value)

    return callback


def register(client: Client, plugin: WorkerPlugin | SchedulerPlugin) -> None:
    """Register a plugin on the scheduler, or on all present and future workers."""
    try:
        client.register_plugin(plugin)
    except OSError:  # a worker left meanwhile; the others, and those that join, have it
        if client.status != "running":
            raise
