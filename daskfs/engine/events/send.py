"""How events leave a process: quickly, rarely, and never so that the work would notice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import dask
from distributed import Client, get_worker

from daskfs.engine.events.messages import TOPIC, Event, Spent, share_event

SWITCH = "daskfs.events"
"""In Dask's configuration, where the run is started; False keeps runs to themselves."""
EVERY = 0.5
"""Seconds, at least, between two events of a worker about a run."""
_shares: dict[tuple[str, str], Spent] = {}  # of workers in this process, by address and run, that are not told yet
_lock = threading.Lock()


def are_wanted() -> bool:
    """Whether runs that are started here tell how they go."""
    return bool(dask.config.get(SWITCH, True))


def from_client(client: Client) -> Callable[[Event], None]:
    """What sends an event from the process that runs a selection; it waits for nothing and never raises."""

    async def log(event: Event) -> None:
        with suppress(Exception):
            await client.log_event(TOPIC, {**event, "client": client.id})  # on the client's own loop a coroutine

    def send(event: Event) -> None:
        with suppress(Exception):
            if client.status == "running" and client.loop is not None:
                client.loop.add_callback(log, event)

    return send


def from_task(run: str) -> Callable[[Spent], None] | None:
    """What a task of a run tells its share to; nothing for a run without a name, or outside of a task.

    Shares of a worker's tasks add up until its loop sends them: tasks may be many and short.
    """
    if not run:
        return None
    try:
        worker = get_worker()
    except ValueError:
        return None

    def tell(share: Spent) -> None:
        key = (worker.address, run)
        with _lock:
            is_first = key not in _shares
            _shares.setdefault(key, Spent()).add(share)
        if is_first:
            with suppress(Exception):
                worker.loop.add_callback(worker.loop.call_later, EVERY, _send, worker, run)

    return tell


def _send(worker: Any, run: str) -> None:
    """On the worker's loop: what it did for a run since the last time."""
    with _lock:
        share = _shares.pop((worker.address, run), None)
    if share is not None:
        with suppress(Exception):
            worker.log_event(TOPIC, share_event(run, str(worker.name), share))
