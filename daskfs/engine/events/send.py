"""How processes send events to Dask's scheduler, and how the driver receives the reports of tasks.

Sending does not wait and never raises, so that no selection run fails because of its events.

Workers send two kinds of messages. *Events* (see `messages`) are for the dashboard; a worker sends the sum of its
tasks' time and bytes every half second. *Reports* are for the driver: every task sends a report with its seconds and
bytes when the task ends, under a Dask topic of its own. Reports are separate from states, so that states hold no
timings. Dask keeps messages in order, so the report of a task arrives before the news that the task has ended.
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
"""The key in Dask's configuration that turns off the events of this process's selection runs if its value is False."""
EVERY = 0.5
"""Least number of seconds between two events of a worker about the same selection run."""
REPORTS = "daskfs-reports"
"""The Dask topic of the reports of tasks."""
_unsent: dict[tuple[str, str], Spent] = {}  # of the workers in this process, by address and run
_receivers: dict[tuple[str, str], TaskReports] = {}  # in this process, by client and run
_lock = threading.Lock()


def events_enabled() -> bool:
    """Return whether selection runs that start in this process send events."""
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
    """Return a function that sends a task's time and bytes as an event, or None without events or outside of a task.

    The records of a worker's tasks are added up until the worker's event loop sends the sum, since tasks may be short.
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
    """Send an event with a worker's time and bytes for a selection run since its last event, on the worker's loop."""
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
    """Measure the task that this thread runs, and report its time and bytes to the driver.

    Parameters
    ----------
    run
        The name of the selection run in `TaskReports`.
    events
        The name of the selection run in events; "" if events are turned off.
    """
    began, meter = time(), Meter(worker_sender(events))
    yield meter
    spent = asdict(meter.finish())
    with suppress(Exception):
        worker = get_worker()
        times = {"began": began, "ended": time()}
        worker.log_event(REPORTS, {"run": run, "task": str(worker.get_current_task()), **times, "spent": spent})


class TaskReport(NamedTuple):
    """The time and bytes of a task, and when the task began and ended by its worker's clock."""

    began: float
    ended: float
    spent: Spent


class TaskReports:
    """Receiver, on the driver, of the reports of one selection run's tasks.

    Reports are stored by the key of their task, so that a task that Dask runs again is counted once.
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
        """Return the time and bytes of a task, with the seconds between the end of its last input and its own start.

        These seconds are 0 if all inputs came from the driver, and the record is empty if the task has not reported.
        """
        if (report := self._reports.get(key)) is None:
            return Spent()
        ready = [self._reports[name].ended for name in inputs if name in self._reports]
        delay = max(0.0, report.began - max(ready)) if ready else 0.0  # clocks of two machines may differ
        return replace(report.spent, scheduler=delay)

    def clear(self) -> None:
        """Delete all reports received so far."""
        self._reports.clear()

    def add(self, message: Event) -> None:
        """Store the report in a message, in place of an earlier report of the same task."""
        self._reports[message["task"]] = TaskReport(message["began"], message["ended"], Spent(**message["spent"]))

    def close(self) -> None:
        """Stop receiving the reports of tasks; to be called when the selection run ends."""
        with _lock:
            del _receivers[self._client.id, self.run]
            if not any(client == self._client.id for client, _ in _receivers):
                with suppress(Exception):  # the scheduler is gone
                    self._client.unsubscribe_topic(REPORTS)


def _receive(event: tuple[float, Event]) -> None:
    """Pass a report to the receiver of its selection run, without raising, on the event loop of the client."""
    with suppress(Exception):
        for (_, run), receiver in list(_receivers.items()):
            if run == event[1]["run"]:
                receiver.add(event[1])
