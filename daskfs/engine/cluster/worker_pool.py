"""Which workers take part in a run: how many to reckon with, that there is one, and that none is too small.

The workers of an adaptive cluster come when there are tasks and go when there are none, also between two passes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from typing import Any, TypeVar

from distributed import Client, Future, SchedulerPlugin, WorkerPlugin

from daskfs.engine.cluster.plugin import EnoughMemory, WithoutGuards
from daskfs.engine.memory import MemoryPlan
from daskfs.errors import Interrupted, OptionError

NO_WORKERS = 60.0  # seconds without a single worker until somebody gives up; a restart takes some
GONE = "the Dask scheduler or its workers are gone; when they are back, run the same again to go on"
LOOK_EVERY = 10  # seconds, while nothing happens
_LOOK_AROUND = 2.0  # seconds between two looks at who is there, while a run goes on
logger = logging.getLogger("daskfs")
Told = TypeVar("Told")


def expected_workers(client: Client) -> int:
    """How many share the work: those that are there, or as many as an adaptive cluster may start, where it says so."""
    most = getattr(getattr(client.cluster, "_adaptive", None), "maximum", 0)  # of LocalCluster and job queues
    there = len(client.nthreads())
    return max(there, int(most)) if most != float("inf") else there


@contextmanager
def a_worker_stays(client: Client) -> Iterator[None]:
    """An adaptive cluster without workers starts one, and the last one does not leave."""
    # A task whose result somebody must hold: Dask starts a worker for it, and closes none that it has no other for.
    seat = client.submit(bytes, 1, key=f"daskfs-seat-{os.urandom(8).hex()}", pure=False)
    try:
        yield
    finally:
        if client.status == "running":
            seat.release()


def await_worker(client: Client, seconds: float) -> None:
    """Return as soon as there is a worker; TimeoutError if none comes in time."""
    with nullcontext() if client.nthreads() else a_worker_stays(client):
        client.wait_for_workers(1, timeout=seconds)


def with_workers(client: Client) -> None:
    """Return as soon as there is a worker; Interrupted if none comes in time, or the scheduler does not answer."""
    try:
        await_worker(client, NO_WORKERS)
    except TimeoutError:
        raise Interrupted("the cluster has no workers any more; start some, and run the same again") from None
    except OSError as error:
        raise Interrupted(GONE) from error


def result_of(client: Client, future: Future[Any]) -> Any:
    """What a task made; Interrupted where that was lost with the last worker, for which Dask would wait for ever."""
    while True:
        try:
            return future.result(timeout=LOOK_EVERY)
        except TimeoutError:
            if future.status == "error":  # it is the task's own
                raise
            with_workers(client)


@contextmanager
def taking_part(client: Client | None, plan: MemoryPlan, checked: frozenset[str]) -> Iterator[None]:
    """For the time of a run: no cluster leaves it without a worker, and none stays that is too small for it.

    Those that have been `checked` are large enough; one that came since then, or comes later, is looked at.
    """
    if client is None:
        yield
        return
    with a_worker_stays(client):
        guard = EnoughMemory(plan, checked, client.id)
        register(client, WithoutGuards())
        try:
            _on_guard(client, guard)
            yield
        finally:
            if client.status == "running":
                with suppress(Exception):  # the scheduler is gone, and the guard with it
                    client.unregister_worker_plugin(guard.name)


def _on_guard(client: Client, guard: EnoughMemory) -> None:
    """Register a guard; of a worker that it refuses no more than a note is made, as of one that comes later."""
    try:
        register(client, guard)
    except OptionError as refusal:
        logger.warning("note: %s; it leaves", refusal)


def attended(client: Client | None, progress: Callable[[Told], None] | None) -> Callable[[Told], None] | None:
    """`progress`, which looks around now and then, and says in the log if a worker has left."""
    if client is None:
        return progress
    there, looked = set(client.nthreads()), monotonic()

    def looking_around(now: Told) -> None:
        nonlocal there, looked
        if monotonic() - looked > _LOOK_AROUND:
            with suppress(Exception):  # a run does not end because nobody can be counted
                are_left = set(client.nthreads())
                for address in sorted(there - are_left):
                    logger.warning("note: worker %s has left the cluster; others do its part", address)
                there = are_left
            looked = monotonic()
        if progress is not None:
            progress(now)

    return looking_around


def register(client: Client, plugin: WorkerPlugin | SchedulerPlugin) -> None:
    """Give the scheduler or every worker a plugin, now and when one joins."""
    try:
        client.register_plugin(plugin)
    except OSError:  # a worker left while it was told; the others, and all that come, have it
        if client.status != "running":
            raise
