"""The state of the selection runs on a scheduler, from their events, for the dashboard page and for Prometheus.

The module needs neither Dask nor Bokeh. Events come over the network from any process that can reach the scheduler:
malformed events are ignored, and memory stays bounded however many arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from daskfs.engine.events.messages import TOP, Spent, short

MOST_RUNS = 5
MOST_WORKERS = 512
MOST_POINTS = 600
"""The most points of a series; when there are more, every second point is dropped."""
BIN_SECONDS = 2.0
OTHERS = "others"
MOST_STALENESS = 64
GONE = "whoever started it is gone"
HALF_LIFE = 30.0
"""Seconds after which the work of a worker counts half, so that a slow worker shows within a minute or two."""
SLOW = 0.5
"""A worker is slow when it does less than this share of the median work per busy second."""
SILENT, PATIENCE = 30.0, 4
"""A worker is stuck when it has been silent for longer than max(30 s, 4 × the median time of a report)."""
LARGEST = 1e300
_TIMES = ("seconds", "closing", "busy", "merging", "scheduler", "idle")


@dataclass(slots=True)
class Line:
    """Points of a line, thinned out so that there are at most `MOST_POINTS`."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def add(self, x: float, y: float | None) -> None:
        """Append a point, unless y is None."""
        if y is None:
            return
        if len(self.x) >= MOST_POINTS:
            del self.x[1::2], self.y[1::2]
        self.x.append(x)
        self.y.append(y)


@dataclass(slots=True)
class Flow:
    """Bytes and items per time bin, where bins become twice as long whenever there would be more than `MOST_POINTS`."""

    begun: float | None = None
    span: float = BIN_SECONDS
    bytes: list[float] = field(default_factory=list)
    items: list[float] = field(default_factory=list)

    def add(self, when: float, nbytes: float, items: float) -> None:
        """Add bytes and items to the time bin that contains `when`."""
        if self.begun is None:
            self.begun = when
        at = int(max(0.0, when - self.begun) / self.span)
        while at >= MOST_POINTS:
            self.bytes, self.items = _in_pairs(self.bytes), _in_pairs(self.items)
            self.span *= 2
            at = int((when - self.begun) / self.span)
        for amounts, amount in ((self.bytes, nbytes), (self.items, items)):
            amounts.extend([0.0] * (at + 1 - len(amounts)))
            amounts[at] += amount

    def rates(self, now: float | None = None) -> tuple[list[float], list[float], list[float]]:
        """Return the middle of every time bin in seconds since the first, bytes per second and items per second.

        If `now` is given, bins without events up to `now` have rate 0, and the last, unfinished bin is left out.
        """
        count = len(self.bytes)
        if now is not None and self.begun is not None:
            self.add(now, 0.0, 0.0)
            count = len(self.bytes) - 1
        middle = [(at + 0.5) * self.span for at in range(count)]
        return middle, [x / self.span for x in self.bytes[:count]], [x / self.span for x in self.items[:count]]


@dataclass(slots=True)
class WorkerPace:
    """The recent work of a worker, in sums that decay with time."""

    heard: float
    """Time of the worker's last report."""
    bytes: float = 0.0
    busy: float = 0.0
    span: float = 0.0
    """Seconds that the worker's last report covered."""

    def add(self, share: Spent, when: float) -> None:
        """Add a report of the worker to the decaying sums."""
        decay = 0.5 ** (max(0.0, when - self.heard) / HALF_LIFE)
        self.bytes = decay * self.bytes + share.bytes
        self.busy = decay * self.busy + share.busy
        self.span, self.heard = share.busy + share.merging + share.waiting, when


def slow_workers(paces: Mapping[str, WorkerPace]) -> set[str]:
    """Return the workers that recently did far less work per busy second than the median worker.

    >>> from daskfs.observe.dashboard.live_runs import WorkerPace, slow_workers
    >>> slow_workers({"a": WorkerPace(0.0, 100, 1.0), "b": WorkerPace(0.0, 90, 1.0), "c": WorkerPace(0.0, 30, 1.0)})
    {'c'}
    """
    speeds = {name: pace.bytes / pace.busy for name, pace in paces.items() if pace.busy > 0}
    usual = median(speeds.values()) if len(speeds) > 1 else 0.0
    return {name for name, speed in speeds.items() if speed < SLOW * usual}


def stuck_workers(paces: Mapping[str, WorkerPace], silent_since: Mapping[str, float], now: float) -> set[str]:
    """Return the workers that have been silent for too long while they had a task.

    If all workers are silent, no worker is returned, since the whole run is silent. Workers without a task are not in
    `silent_since`.
    """
    usual = median([pace.span for pace in paces.values()] or [0.0])
    limit = max(SILENT, PATIENCE * usual)
    late = {name for name, since in silent_since.items() if now - since > limit}
    return late if paces.keys() - late else set()


@dataclass(slots=True)
class ClosedPass:
    """A finished pass, with the seconds spent busy, merging, idle and so on in `times` (see `Cost.times`)."""

    number: int
    objective: float | None
    changes: float | None
    times: dict[str, float]


@dataclass(slots=True)
class LiveRun:
    """The state of a selection run as its events describe it; a method ``on_…`` handles the events with that "what"."""

    run: str
    began: float
    algorithm: str = "?"
    dataset: str = ""
    blocks: int = 0
    passes: int | None = None
    n_workers: int = 0
    number: int = 1
    """The number of the current pass, from 1."""
    passes_done: int = 0
    """Finished passes, including those before the selection run was resumed."""
    blocks_done: int = 0
    fraction: float = 0.0
    """The finished share of the current pass."""
    objective: float | None = None
    changes: float | None = None
    """Changes of the selected set of features in the current pass."""
    changes_before: float = 0.0
    features: list[tuple[str, float | None]] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)
    objectives: Line = field(default_factory=Line)
    closed: list[ClosedPass] = field(default_factory=list)
    """The last finished passes, at most `MOST_POINTS`."""
    merging_before: float = 0.0
    """Seconds of merging in all finished passes."""
    checkpoints: Line = field(default_factory=Line)
    n_checkpoints: int = 0
    flow: Flow = field(default_factory=Flow)
    workers: dict[str, Spent] = field(default_factory=dict)
    paces: dict[str, WorkerPace] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    """Workers that were stuck at the last call of `LiveRuns.look`."""
    alone: dict[str, float] = field(default_factory=dict)
    """For each worker, the highest rate of reading a first block, in bytes per second, with no other work to do."""
    total: Spent = field(default_factory=Spent)
    ended: bool = False
    why: str | None = None
    client: str = ""
    """The id of the Dask client that started the selection run."""
    heard: float = 0.0
    """Time of the last event of the selection run."""
    left: list[str] = field(default_factory=list)
    """Workers that left the cluster during the selection run; a worker may leave several times."""

    @property
    def storage_rate(self) -> float:
        """The best rate, in bytes per second, at which all workers together read and do nothing else; 0 if unknown."""
        return sum(self.alone.values())

    @property
    def merging(self) -> float:
        """Seconds spent on merging states, in finished passes and in the current pass."""
        return max(self.total.merging, self.merging_before)

    def stragglers(self) -> set[str]:
        """Return the workers that are slow or, while the selection run lasts, stuck."""
        return slow_workers(self.paces) | (set() if self.ended else self.stuck)

    def on_begun(self, event: Mapping[str, Any], when: float) -> None:
        self.algorithm, self.dataset = _text(event["algorithm"]), _text(event["dataset"])
        self.blocks, self.n_workers = _count(event["blocks"]), _count(event["workers"])
        self.passes = None if event["passes"] is None else _count(event["passes"])
        self.passes_done, self.client = _count(event["done"]), _text(event.get("client", ""))
        self.number = self.passes_done + 1

    def on_progress(self, event: Mapping[str, Any], when: float) -> None:
        number, blocks = _count(event["number"]), _count(event["blocks"])
        self.number, self.blocks, self.blocks_done = number, blocks, _count(event["blocks_done"])
        self.fraction = min(1.0, self.blocks_done / blocks) if blocks else 0.0

    def on_share(self, event: Mapping[str, Any], when: float) -> None:
        counts = {name: _count(event[name]) for name in ("blocks", "items", "bytes", "alone_bytes")}
        names = ("busy", "reading", "merging", "waiting", "alone_seconds")
        share = Spent(**counts, **{name: _positive(event[name]) for name in names})  # type: ignore[arg-type]
        worker = _text(event["name"])
        if worker not in self.workers and len(self.workers) >= MOST_WORKERS:
            worker = OTHERS
        self.workers.setdefault(worker, Spent()).add(share)
        self.paces.setdefault(worker, WorkerPace(when)).add(share, when)
        self.total.add(share)
        if share.alone_seconds > 0:
            self.alone[worker] = max(self.alone.get(worker, 0.0), share.alone_bytes / share.alone_seconds)
        self.flow.add(when, share.bytes, share.items)

    def on_preview(self, event: Mapping[str, Any], when: float) -> None:
        objective, changes = _maybe(event["objective"]), _maybe(event["changes"])
        staleness = [] if event["staleness"] is None else [_count(lag) for lag in event["staleness"][:MOST_STALENESS]]
        features = _features(event["features"])
        self.objective, self.features = objective, features
        self.changes = None if changes is None else max(changes, self.changes or 0.0)  # a lost centre's count too
        if any(staleness):  # counts begin anew with every pass
            self.staleness = staleness
        if objective != next(reversed(self.objectives.y), None):
            self.objectives.add(self.number - 1 + self.fraction, objective)

    def on_pass(self, event: Mapping[str, Any], when: float) -> None:
        times = {name: _positive(event[name]) for name in _TIMES if name in event}
        over = ClosedPass(_count(event["number"]), _maybe(event["objective"]), _maybe(event["changes"]), times)
        self.closed = [*self.closed[-(MOST_POINTS - 1) :], over]
        self.objective = self.objective if over.objective is None else over.objective
        self.objectives.add(over.number, over.objective)
        self.changes_before += over.changes or 0.0
        self.merging_before += times.get("merging", 0.0)
        self.changes, self.passes_done, self.number, self.fraction = None, over.number, over.number + 1, 0.0

    def on_checkpoint(self, event: Mapping[str, Any], when: float) -> None:
        self.checkpoints.add(when - self.began, _positive(event["seconds"]))
        self.n_checkpoints += 1

    def on_ended(self, event: Mapping[str, Any], when: float) -> None:
        why = None if event["why"] is None else _text(event["why"])
        if event["features"] is not None:
            self.features = _features(event["features"])
        self.ended, self.why = True, why


class LiveRuns:
    """The selection runs of a scheduler, the newest last.

    Parameters
    ----------
    at_work
        Returns the names of the workers that currently have a task.
    """

    def __init__(self, at_work: Callable[[], Iterable[str]] = tuple) -> None:
        self.runs: dict[str, LiveRun] = {}
        self.version = 0
        """A number that rises with every change of the state."""
        self.refused: str | None = None
        """Text on the last worker or selection that was refused since a selection run began, with the reason."""
        self._at_work = at_work
        self._silent: dict[str, float] = {}  # workers with a task, and since when they are silent

    @property
    def latest(self) -> LiveRun | None:
        """The newest selection run, or None before the first."""
        return next(reversed(self.runs.values()), None)

    def take(self, event: object, when: float) -> bool:
        """Update the state with an event; return False if the event is malformed."""
        try:
            if not isinstance(event, Mapping):
                return False
            if event["what"] == "refused":  # belongs to no run
                return self._note_refusal(_text(event["worker"]), _text(event["why"]))
            name = _text(event["run"])
            run = self.runs.get(name) or LiveRun(name, when)
            update = getattr(run, f"on_{event['what']}")
            if run.why == GONE and event["what"] != "share":  # a connection was lost, and made again
                run.ended, run.why = False, None
            update(event, when)
            run.heard = when
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            return False
        self.runs[name] = run
        if event["what"] == "begun":
            self.refused = None
        while len(self.runs) > MOST_RUNS:
            del self.runs[next(iter(self.runs))]
        self.version += 1
        return True

    def client_left(self, client: str) -> None:
        """End the selection runs of a client that left the scheduler, perhaps without a last event."""
        for run in self._open():
            if run.client == client:
                run.ended, run.why = True, GONE
                self.version += 1

    def worker_left(self, worker: str) -> None:
        """Record for every open selection run that a worker left the cluster, even if the worker did not take part."""
        for run in self._open():
            run.left = [*run.left[-MOST_WORKERS:], worker]
            run.alone.pop(worker, None)  # its work counts, but it reads no more
            run.paces.pop(worker, None)  # and is no straggler
            self.version += 1

    def look(self, now: float) -> None:
        """Update for every open selection run which workers are stuck: silent for too long while they have a task."""
        self._silent = {name: max(self._silent.get(name, now), self._heard(name)) for name in self._at_work()}
        for run in self._open():
            run.stuck = stuck_workers(run.paces, self._silent, now)

    def _heard(self, worker: str) -> float:
        """Return the time of a worker's last report in any open run; workers beyond `MOST_WORKERS` share one time."""
        paces = (run.paces.get(worker) or run.paces.get(OTHERS) for run in self._open())
        return max((pace.heard for pace in paces if pace is not None), default=0.0)

    def _note_refusal(self, worker: str, why: str) -> bool:
        named = "a worker" if worker in why else f"worker {worker}"  # most reasons name it
        self.refused = f"{named if worker else 'a selection'} was refused: {why}"
        self.version += 1
        return True

    def _open(self) -> list[LiveRun]:
        return [run for run in self.runs.values() if not run.ended]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return short(value)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError
    return value


def _maybe(value: object) -> float | None:
    """Return a number that is small enough for a plot, or None for None; raise TypeError for any other value."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < LARGEST:
        raise TypeError
    return float(value)


def _positive(value: object) -> float:
    return max(0.0, _maybe(value) or 0.0)


def _features(pairs: Any) -> list[tuple[str, float | None]]:
    return [(_text(name), _maybe(weight)) for name, weight in pairs[:TOP]]


def _in_pairs(amounts: list[float]) -> list[float]:
    return [sum(amounts[at : at + 2]) for at in range(0, len(amounts), 2)]
