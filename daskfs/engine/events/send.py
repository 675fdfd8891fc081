"""How events leave a process, and how the driver receives what tasks report.

Sending is quick and never raises: no run fails because it cannot be watched.

Two kinds of messages come from workers. *Events* (see `messages`) are for the dashboard: those of a worker add up and
are sent every half second. *Reports* are for the driver: a task sends one when it ends, under a topic of their own,
with its seconds and bytes. They travel beside the states, so that a state is only a state. Worker, scheduler and
client keep messages in order, so a report arrives before the news that its task has ended.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from time import time
from typing import Any, NamedTuple

import dask
from distributed import Client, get_worker

from daskfs.engine.events.messages import TOPIC, Event, Spent, share_event
from daskfs.engine.events.meter import Meter

SWITCH = "daskfs.events"
"""In Dask's configuration of the driver; False turns the events of its runs off."""
EVERY = 0.5
"""Seconds, at least, between two events of a worker about a run."""
REPORTS = "daskfs-reports"
"""The topic of reports."""
_unsent: dict[tuple[str, str], Spent] = {}  # of the workers in this process, by address and run
_receivers: dict[tuple[str, str], TaskReports] = {}  # in this process, by client and run
_lock = threading.Lock()


def events_enabled() -> bool:
    """Return whether runs that start in this process send events."""
    return bool(dask.config.get(SWITCH, True))


def client_sender(client: Client) -> Callable[[Event], None]:
    """Return a function that sends an event from the driver without waiting."""

    async def log(event: Event) -> None:
        with suppress(Exception):
            await client.log_event(TOPIC, {**event, "client": client.id})  # on the client's own loop a coroutine

    def send(event: Event) -> None:
        with suppress(Exception):
            if client.status == "running" and client.loop is not None:
                client.loop.add_callback(log, event)

    return send


def worker_sender(run: str) -> Callable[[Spent], None] | None:
    """Return a function that sends what a task did as an event; None for a run without events, or outside of a task.

    The records of a worker's tasks add up until its loop sends them, since tasks may be many and short.
    """
    worker = _worker() if run else None
    if worker is None:
        return None

    def send(spent: Spent) -> None:
        key = (worker.address, run)
        with _lock:
            is_first = key not in _unsent
            _unsent.setdefault(key, Spent()).add(spent)
        if is_first:
            with suppress(Exception):
                worker.loop.add_callback(worker.loop.call_later, EVERY, _send, worker, run)

    return send


def _send(worker: Any, run: str) -> None:
    """Send what a worker did for a run since its last event; runs on the worker's loop."""
    with _lock:
        spent = _unsent.pop((worker.address, run), None)
    if spent is not None:
        with suppress(Exception):
            worker.log_event(TOPIC, share_event(run, str(worker.name), spent))


def _worker() -> Any | None:
    try:
        return get_worker()
    except ValueError:
        return None


@contextmanager
def measure_task(run: str, events: str) -> Iterator[Meter]:
    """Measure the task that this thread runs, and report to the driver what it took.

    Parameters
    ----------
    run
        The run as `TaskReports` names it.
    events
        The run as events name it; "" for a run without events.
    """
    began, meter = time(), Meter(worker_sender(events))
    yield meter
    spent = asdict(meter.finish())
    with suppress(Exception):
        worker = get_worker()
        times = {"began": began, "ended": time()}
        worker.log_event(REPORTS, {"run": run, "task": str(worker.get_current_task()), **times, "spent": spent})


class TaskReport(NamedTuple):
    """What a task took, and when it began and ended by its worker's clock."""

    began: float
    ended: float
    spent: Spent


class TaskReports:
    """Receives the reports of one run's tasks, on the driver. Close it when the run ends.

    Reports are kept by the key of their task: a task that Dask runs again is counted once.
    """

    def __init__(self, client: Client) -> None:
        self.run = os.urandom(8).hex()
        self._client, self._reports = client, dict[str, TaskReport]()
        with _lock:
            _receivers[client.id, self.run] = self
            client.subscribe_topic(REPORTS, _receive)

    def total(self) -> Spent:
        """Return the sum of all reports since the last `clear`."""
        total = Spent()
        for report in list(self._reports.values()):
            total.add(report.spent)
        return total

    def of_task(self, key: str, inputs: tuple[str, ...]) -> Spent:
        """Return what a task took, with the seconds between the end of its last input and its own begin.

        Nothing is known of the time of an input that the driver sent, nor of a task that has not reported.
        """
        if (report := self._reports.get(key)) is None:
            return Spent()
        ready = [self._reports[name].ended for name in inputs if name in self._reports]
        delay = max(0.0, report.began - max(ready)) if ready else 0.0  # clocks of two machines may differ
        return replace(report.spent, scheduler=delay)

    def clear(self) -> None:
        """Forget the reports so far."""
        self._reports.clear()

    def add(self, message: Event) -> None:
        """Keep the report in a message; one of the same task is replaced."""
        self._reports[message["task"]] = TaskReport(message["began"], message["ended"], Spent(**message["spent"]))

    def close(self) -> None:
        """Stop receiving."""
        with _lock:
            del _receivers[self._client.id, self.run]
            if not any(client == self._client.id for client, _ in _receivers):
                with suppress(Exception):  # the scheduler is gone
                    self._client.unsubscribe_topic(REPORTS)


def _receive(event: tuple[float, Event]) -> None:
    """Hand a report to its run's receiver; runs on the client's loop, which no message may break."""
    with suppress(Exception):
        for (_, run), receiver in list(_receivers.items()):
            if run == event[1]["run"]:
                receiver.add(event[1])
