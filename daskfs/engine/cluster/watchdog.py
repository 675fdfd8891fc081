"""Whether a process that waits for a Dask cluster should go on waiting: a decision without Dask and without a clock.

A waiting process looks around every few seconds. It asks the scheduler directly what became of the tasks it waits for,
and the scheduler also sends an *echo*, an event with a number, through the stream that brings the news of finished
tasks. So a look finds one of these:

- The scheduler answers, and the echo of the previous look has arrived: all is well, however long the tasks take.
- The scheduler answers, but the stream is *overdue*: an echo is missing, or a task that had ended at the previous look
  still counts as pending here. The connection must be made anew.
- The scheduler does not answer: it is gone, frozen, or cut off.
- The scheduler has no workers.
- The scheduler has not heard from a worker for a while: the worker is frozen or cut off, and others must do its part.
- All tasks have ended, and what was asked for still has not arrived.

Only time in which this process was awake counts, so that a process that was stopped for an hour does not conclude that
the others have been silent for an hour.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from math import inf


class Verdict(Enum):
    """What to do after a look around."""

    WAIT = "wait"
    RECONNECT = "reconnect"
    SILENT = "the scheduler does not answer"
    NO_WORKERS = "the scheduler has no workers"
    DROP_WORKERS = "workers are silent"
    NO_VALUE = "the value does not arrive"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait before giving up, in seconds; all limits but `workerless` are proportional to `silent`.

    >>> Patience(40).deaf, Patience(40).every
    (10.0, 3.0)
    """

    silent: float = 40.0
    """Seconds without an answer of the scheduler; with the time of the last question, less than a minute."""
    workerless: float = 60.0
    """Seconds without a single worker, enough for workers to restart."""

    @property
    def deaf(self) -> float:
        """Seconds with answers but an overdue stream, after which to reconnect; three times of it fit into a minute."""
        return self.silent / 4

    @property
    def every(self) -> float:
        """Seconds between two looks around."""
        return self.silent * 3 / 40

    @property
    def answer(self) -> float:
        """Seconds to wait for the scheduler's answer to one question."""
        return self.silent / 8

    @property
    def value(self) -> float:
        """Seconds to wait for a value that needs no task: large states travel for long, and workers compile kernels."""
        return self.silent * 15


@dataclass(frozen=True, slots=True)
class Answer:
    """What the scheduler answers to one question."""

    echo: int
    """The number of the echo that the scheduler has sent through its stream."""
    workers: int
    """How many workers the scheduler has."""
    ended: frozenset[str] = frozenset()
    """Those of the tasks in question that have ended, or that the scheduler does not know."""
    unheard: frozenset[str] = frozenset()
    """Addresses of the workers that have missed several heartbeats."""


@dataclass(slots=True)
class Watchdog:
    """Collects the answers of the scheduler during one wait, and decides whether to go on waiting."""

    patience: Patience
    within: float = inf
    """How many seconds the awaited value may take after the last task has ended."""
    silent: float = 0.0
    """Seconds since the last answer. This and all times below count only while this process was awake."""
    deaf: float = 0.0
    """Seconds since the stream was last up to date."""
    workerless: float = 0.0
    """Seconds since there was a worker."""
    settled: float = 0.0
    """Seconds for which no task has been pending."""
    unheard: dict[str, float] = field(default_factory=dict)
    """For each worker that misses heartbeats, the seconds since the scheduler first reported this."""
    _last: float | None = None
    _echo: int = 0
    _ended: frozenset[str] = field(default_factory=frozenset)

    def look(self, now: float, answer: Answer | None, heard: int, pending: Collection[str]) -> Verdict:
        """Return what to do after a question to the scheduler.

        Parameters
        ----------
        now
            The time in seconds.
        answer
            The answer of the scheduler; None if there was none in time.
        heard
            The number of the newest echo that had arrived before the question was asked.
        pending
            The tasks that this process still considered pending before the question was asked.
        """
        awake = self.patience.every + self.patience.answer  # a longer time was not spent here
        seconds = 0.0 if self._last is None else min(now - self._last, awake)
        self._last = now
        if answer is None:
            self.silent += seconds
            return Verdict.SILENT if self.silent >= self.patience.silent else Verdict.WAIT
        is_overdue = heard < self._echo or not self._ended.isdisjoint(pending)
        self.silent = 0.0
        self.deaf = self.deaf + seconds if is_overdue else 0.0
        self.workerless = 0.0 if answer.workers else self.workerless + seconds
        self.settled = 0.0 if pending else self.settled + seconds
        self.unheard = {name: self.unheard.get(name, -seconds) + seconds for name in answer.unheard}
        self._echo, self._ended = answer.echo, answer.ended
        if self.deaf >= self.patience.deaf:
            return Verdict.RECONNECT
        if any(seconds >= self.patience.silent for seconds in self.unheard.values()):
            return Verdict.DROP_WORKERS
        if self.workerless >= self.patience.workerless:
            return Verdict.NO_WORKERS
        return Verdict.NO_VALUE if self.settled >= self.within else Verdict.WAIT

    def give_up(self) -> list[str]:
        """Return the addresses of the workers that have been silent for too long, and forget for how long."""
        silent = [name for name, seconds in self.unheard.items() if seconds >= self.patience.silent]
        self.unheard.clear()
        return silent
