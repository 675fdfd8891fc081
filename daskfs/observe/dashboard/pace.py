"""Who lags behind: by what workers did of late, and by how long one has been at a task without a word. No Dask here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from daskfs.engine.events.messages import Spent

HALF = 30.0
"""Seconds after which what a worker did counts half: one that becomes slow shows within a minute or two."""
SLOW = 0.5
"""A worker that does less than this share of the usual per busy second lags behind."""
SILENT = 30.0
PATIENCE = 4
"""One is stuck that has said nothing over its task for so many seconds, and for so many times as long as is usual."""


@dataclass(slots=True)
class WorkerPace:
    """What a worker did of late, in sums that fade: as small after a year as after a minute."""

    heard: float
    bytes: float = 0.0
    busy: float = 0.0
    span: float = 0.0
    """Seconds that what it last spoke of took."""

    def add(self, share: Spent, when: float) -> None:
        kept = 0.5 ** (max(0.0, when - self.heard) / HALF)
        self.bytes = kept * self.bytes + share.bytes
        self.busy = kept * self.busy + share.busy
        self.span, self.heard = share.busy + share.merging + share.waiting, when


def slow(paces: Mapping[str, WorkerPace]) -> set[str]:
    """Workers that did far less per busy second of late than the others usually do.

    >>> from daskfs.observe.dashboard.pace import WorkerPace, slow
    >>> slow({"a": WorkerPace(0.0, 100, 1.0), "b": WorkerPace(0.0, 90, 1.0), "c": WorkerPace(0.0, 30, 1.0)})
    {'c'}
    """
    speeds = {name: pace.bytes / pace.busy for name, pace in paces.items() if pace.busy > 0}
    if len(speeds) < 2:
        return set()
    usual = median(speeds.values())
    return {name for name, speed in speeds.items() if speed < SLOW * usual}


def stuck(paces: Mapping[str, WorkerPace], silent_since: Mapping[str, float], now: float) -> set[str]:
    """Workers that have long been at a task without a word; none where all are, since that is the run's silence.

    Those that wait for the next task are not among the silent: nothing is expected of them.
    """
    usual = median([pace.span for pace in paces.values()] or [0.0])
    limit = max(SILENT, PATIENCE * usual)
    late = {name for name, since in silent_since.items() if now - since > limit}
    return late if paces.keys() - late else set()
