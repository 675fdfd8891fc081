"""The workers of a selection run: how many to expect, waiting for a worker, and checks of their memory.

An adaptive cluster starts workers when there are tasks and stops workers without tasks, even between two passes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from daskfs.engine.cluster.waiting import GONE, WORKERLESS, call, call_briefly, patience
from daskfs.engine.memory import MemoryPlan
from daskfs.errors import Interrupted, OptionError

if TYPE_CHECKING:
    from distributed import Client, SchedulerPlugin, WorkerPlugin

_COUNT_EVERY = 2.0  # seconds between two checks for lost workers, while a run goes on
logger = logging.getLogger("daskfs")
ProgressValue = TypeVar("ProgressValue")


def expected_workers(client: Client) -> int:
    """Return how many workers will share the work: the present workers, or the maximum of an adaptive cluster."""
    maximum = getattr(getattr(client.cluster, "_adaptive", None), "maximum", 0)  # of LocalCluster and job queues
    count = len(call(client, client.nthreads))
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


def workers_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of its workers, by their addresses."""
    scheduler: Any = client.scheduler
    workers: dict[str, Any] = call(client, scheduler.identity)["workers"]
    return workers


def await_worker(client: Client, seconds: float) -> None:
    """Return as soon as there is a worker. Raise TimeoutError if no worker comes in time."""
    with nullcontext() if call(client, client.nthreads) else keep_a_worker(client):
        call(client, partial(client.wait_for_workers, 1, timeout=seconds), within=2 * seconds)


def require_worker(client: Client) -> None:
    """Return as soon as there is a worker. Raise Interrupted if no worker comes in time, or the scheduler is gone."""
    try:
        await_worker(client, patience().workerless)
    except TimeoutError:
        raise Interrupted(WORKERLESS) from None
    except OSError as error:
        raise Interrupted(GONE) from error


@contextmanager
def guard_memory(client: Client | None, plan: MemoryPlan, checked: frozenset[str]) -> Iterator[None]:
    """Keep at least one worker during a selection run, and refuse workers with less memory than the plan needs.

    Workers at the addresses in `checked` are known to have enough memory; all other workers are checked when they join.
    """
    if client is None:
        yield
        return
    from daskfs.engine.cluster.plugin import EnoughMemory, RemoveGuards  # imports Dask, which a run here does without

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
                    call_briefly(client, client.unregister_worker_plugin, guard.name)


def warn_of_lost_workers(
    client: Client | None, progress: Callable[[ProgressValue], None] | None
) -> Callable[[ProgressValue], None] | None:
    """Return a progress callback that also logs a warning when a worker has left the cluster."""
    if client is None:
        return progress
    known, checked = set(call(client, client.nthreads)), monotonic()

    def callback(value: ProgressValue) -> None:
        nonlocal known, checked
        if monotonic() - checked > _COUNT_EVERY:
            with suppress(Exception):  # a run does not end because its workers cannot be counted
                alive = set(call_briefly(client, client.nthreads))
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
        call(client, client.register_plugin, plugin)
    except OSError:  # a worker left meanwhile; the others, and those that join, have it
        if client.status != "running":
            raise
