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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from math import nan
from time import time
from typing import TYPE_CHECKING, Any

from daskfs.engine.events.messages import TOPIC, Event, Meter, Spent, share_event

if TYPE_CHECKING:
    from distributed import Client

SWITCH = "daskfs.events"
"""The key in Dask's configuration that turns off the events of this process's selection runs if its value is False."""
EVERY = 0.5
"""Least number of seconds between two events of a worker about the same selection run."""
REPORTS = "daskfs-reports"
"""The Dask topic of the reports of tasks."""
_unsent: dict[tuple[str, str], Spent] = {}  # of the workers in this process, by address and run
_receivers: dict[str, TaskReports] = {}  # in this process, by run
_lock = threading.Lock()


def events_enabled() -> bool:
    """Return whether selection runs that start in this process send events."""
    from dask import config  # here, since a selection run without a cluster starts sooner without Dask

    return bool(config.get(SWITCH, True))


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


@contextmanager
def measure_task(run: str, events: str) -> Iterator[Meter]:
    """Measure the task that this thread runs, and report its time and bytes to the driver when the task has ended.

    The argument `run` is the name of the selection run in `TaskReports`, and `events` is its name in events, or "" if
    events are turned off.
    """
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # outside of a task
        yield Meter()
        return
    began, meter = time(), Meter(_share_sender(worker, events) if events else None)
    yield meter
    with suppress(Exception):
        task = worker.get_current_task()
        inputs = [str(state.key) for state in worker.state.tasks[task].dependencies]
        times = {"began": began, "ended": time(), "spent": asdict(meter.total)}
        worker.log_event(REPORTS, {"run": run, "task": str(task), "inputs": inputs, **times})


def _share_sender(worker: Any, run: str) -> Callable[[Spent], None]:
    """Return a function that adds up the time and bytes of a worker's tasks, which its event loop sends as an event."""

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
    with _lock:
        spent = _unsent.pop((worker.address, run))
    with suppress(Exception):
        worker.log_event(TOPIC, share_event(run, str(worker.name), spent))


class TaskReports:
    """Receives the reports of the tasks of the selection run `run` on the driver.

    Reports are stored by the key of their task, so that a task that Dask runs again is counted once.
    """

    def __init__(self, client: Client) -> None:
        self.run = os.urandom(8).hex()
        self._client, self._reports = client, dict[str, Event]()
        with _lock:
            _receivers[self.run] = self
            client.subscribe_topic(REPORTS, _receive)

    def total(self, tasks: Iterable[str]) -> Spent:
        """Return the time and bytes of tasks that have ended, with NaN for seconds if the report of a task is missing.

        The scheduler's seconds of a task are those from the end of its last input to its start. Inputs from the driver
        are not counted, and neither are negative times, which come from the clocks of different machines.
        """
        total = Spent()
        for task in tasks:
            if (report := self._reports.get(task)) is None:
                return Spent(busy=nan, merging=nan, scheduler=nan)
            total.add(Spent(**report["spent"]))
            ready = [self._reports[name]["ended"] for name in report["inputs"] if name in self._reports]
            total.scheduler += max(0.0, report["began"] - max(ready)) if ready else 0.0
        return total

    def clear(self) -> None:
        """Delete all reports received so far."""
        self._reports.clear()

    def add(self, message: Event) -> None:
        """Store a report, in place of an earlier report of the same task."""
        self._reports[message["task"]] = message

    def close(self) -> None:
        """Stop receiving the reports of tasks; to be called when the selection run ends."""
        with _lock:
            del _receivers[self.run]
            if not any(other._client is self._client for other in _receivers.values()):
                with suppress(Exception):  # the scheduler is gone
                    self._client.unsubscribe_topic(REPORTS)


def _receive(event: tuple[float, Event]) -> None:
    """Pass a report to the receiver of its selection run, without raising, on the event loop of the client."""
    with suppress(Exception):
        _receivers[event[1]["run"]].add(event[1])
