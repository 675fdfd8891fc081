"""Runs as those see them who watch: the events of `stream.events` become series that a page or a metric can show.

No Dask and no Bokeh here. Events come over the network from whoever can reach the scheduler: what does not look like
one is left out, and however many come, memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daskfs.engine.events.messages import TOP, Spent, short
from daskfs.observe.dashboard.pace import WorkerPace, slow, stuck

MOST_RUNS = 5
MOST_WORKERS = 512
MOST_POINTS = 600
"""Of a series; when there are more, every second one goes."""
BIN_SECONDS = 2.0
OTHERS = "others"
_LAGS = 64
GONE = "whoever started it is gone"
_TIMES = ("seconds", "closing", "busy", "merging", "scheduler", "idle")


@dataclass(slots=True)
class Line:
    """Points that are drawn as a line; of very many, as many as the eye can tell apart."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)

    def add(self, x: float, y: float | None) -> None:
        if y is None:
            return
        if len(self.x) >= MOST_POINTS:
            del self.x[1::2], self.y[1::2]
        self.x.append(x)
        self.y.append(y)


@dataclass(slots=True)
class Flow:
    """How much came in every span of time; spans grow longer as a run does."""

    begun: float | None = None
    span: float = BIN_SECONDS
    bytes: list[float] = field(default_factory=list)
    items: list[float] = field(default_factory=list)

    def add(self, when: float, nbytes: float, items: float) -> None:
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
        """Seconds since the begin, bytes and items per second.

        Until `now`, where more may come: silence is a rate of 0, and a last span that is not over is left out.
        """
        count = len(self.bytes)
        if now is not None and self.begun is not None:
            self.add(now, 0.0, 0.0)
            count = len(self.bytes) - 1
        middle = [(at + 0.5) * self.span for at in range(count)]
        return middle, [x / self.span for x in self.bytes[:count]], [x / self.span for x in self.items[:count]]


@dataclass(slots=True)
class ClosedPass:
    """A pass that is over."""

    number: int
    objective: float | None
    changes: float | None
    times: dict[str, float]
    """Seconds by what they were for (see `Cost.times`)."""


@dataclass(slots=True)
class WatchedRun:
    """All that is known of a run."""

    run: str
    began: float
    algorithm: str = "?"
    dataset: str = ""
    blocks: int = 0
    passes: int | None = None
    n_workers: int = 0
    number: int = 1
    """Of the pass that it is in, from 1."""
    passes_done: int = 0
    """Also those before it was resumed."""
    blocks_done: int = 0
    fraction: float = 0.0
    """Of the pass that is done."""
    objective: float | None = None
    changes: float | None = None
    """In this pass so far."""
    changes_before: float = 0.0
    features: list[tuple[str, float | None]] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)
    objectives: Line = field(default_factory=Line)
    closed: list[ClosedPass] = field(default_factory=list)
    """The last of them; how many there were, and what they took together, is counted beside."""
    merging_before: float = 0.0
    """Seconds, in all passes that are over."""
    checkpoints: Line = field(default_factory=Line)
    n_checkpoints: int = 0
    flow: Flow = field(default_factory=Flow)
    workers: dict[str, Spent] = field(default_factory=dict)
    paces: dict[str, WorkerPace] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    """Workers that are at a task and say nothing, when somebody looked last."""
    alone: dict[str, float] = field(default_factory=dict)
    """The most bytes per second that a worker has read a first block at, before there was anything to work on."""
    total: Spent = field(default_factory=Spent)
    ended: bool = False
    why: str | None = None
    client: str = ""
    """Of Dask, that started it."""
    heard: float = 0.0
    """When there was news of it."""
    left: list[str] = field(default_factory=list)
    """Workers that left the cluster meanwhile; one may leave again and again."""

    @property
    def storage_rate(self) -> float:
        """Bytes per second that all workers together read at their best, while they do nothing else; 0 if unknown."""
        return sum(self.alone.values())

    @property
    def merging(self) -> float:
        """Seconds, over all passes that are over and of the workers' in this one."""
        return max(self.total.merging, self.merging_before)

    def stragglers(self) -> set[str]:
        """Workers that did far less of late than the others, or are stuck."""
        return slow(self.paces) if self.ended else slow(self.paces) | self.stuck


class Watched:
    """The runs of a scheduler, the newest last.

    Parameters
    ----------
    at_work
        Says which workers are at a task at the moment, by name.
    """

    def __init__(self, at_work: Callable[[], Iterable[str]] = tuple) -> None:
        self.runs: dict[str, WatchedRun] = {}
        self.version = 0
        """Rises with everything that is learned."""
        self.refused: str | None = None
        """Who may not take part, and why: the last of them since a run began."""
        self._at_work = at_work
        self._silent: dict[str, float] = {}  # workers at a task, and since when without a word

    @property
    def latest(self) -> WatchedRun | None:
        return next(reversed(self.runs.values()), None)

    def take(self, event: object, when: float) -> bool:
        """Learn from an event; False if it is none."""
        try:
            if not isinstance(event, Mapping):
                return False
            if event["what"] == "refused":  # of no run
                return self._note_refusal(_text(event["worker"]), _text(event["why"]))
            name = _text(event["run"])
            learn = _LEARN[event["what"]]
            run = self.runs.get(name) or WatchedRun(name, when)
            if run.why == GONE and event["what"] != "share":  # a connection was lost, and made again
                run.ended, run.why = False, None
            learn(run, event, when)
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
        """Whoever ran something as this client does so no more, even if nobody said so."""
        for run in self._open():
            if run.client == client:
                run.ended, run.why = True, GONE
                self.version += 1

    def worker_left(self, worker: str) -> None:
        """A worker has left the cluster; whether it took part already, nobody knows for sure."""
        for run in self._open():
            run.left = [*run.left[-MOST_WORKERS:], worker]
            run.alone.pop(worker, None)  # what it did counts, but it reads no more …
            run.paces.pop(worker, None)  # … and lags behind nobody
            self.version += 1

    def look(self, now: float) -> None:
        """See who is at a task, and how long each has said nothing: whoever is stuck sends no event."""
        self._silent = {name: max(self._silent.get(name, now), self._heard(name)) for name in self._at_work()}
        for run in self._open():
            run.stuck = stuck(run.paces, self._silent, now)

    def _heard(self, worker: str) -> float:
        """When a worker spoke last, of whatever run; of those that are too many to tell apart, when one of them did."""
        paces = (run.paces.get(worker) or run.paces.get(OTHERS) for run in self._open())
        return max((pace.heard for pace in paces if pace is not None), default=0.0)

    def _note_refusal(self, worker: str, why: str) -> bool:
        named = "a worker" if worker in why else f"worker {worker}"  # most reasons name it
        self.refused = f"{named if worker else 'a selection'} was refused: {why}"
        self.version += 1
        return True

    def _open(self) -> list[WatchedRun]:
        return [run for run in self.runs.values() if not run.ended]


def _begun(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    run.algorithm, run.dataset = _text(event["algorithm"]), _text(event["dataset"])
    run.blocks, run.n_workers = _count(event["blocks"]), _count(event["workers"])
    run.passes = None if event["passes"] is None else _count(event["passes"])
    run.passes_done, run.client = _count(event["done"]), _text(event.get("client", ""))
    run.number = run.passes_done + 1


def _progress(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    number, blocks = _count(event["number"]), _count(event["blocks"])
    run.number, run.blocks, run.blocks_done = number, blocks, _count(event["blocks_done"])
    run.fraction = min(1.0, run.blocks_done / blocks) if blocks else 0.0


def _share(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    counts = {name: _count(event[name]) for name in ("blocks", "items", "bytes", "alone_bytes")}
    names = ("busy", "reading", "merging", "waiting", "alone_seconds")
    share = Spent(**counts, **{name: _positive(event[name]) for name in names})  # type: ignore[arg-type]
    worker = _text(event["name"])
    if worker not in run.workers and len(run.workers) >= MOST_WORKERS:
        worker = OTHERS
    run.workers.setdefault(worker, Spent()).add(share)
    run.paces.setdefault(worker, WorkerPace(when)).add(share, when)
    run.total.add(share)
    if share.alone_seconds > 0:
        run.alone[worker] = max(run.alone.get(worker, 0.0), share.alone_bytes / share.alone_seconds)
    run.flow.add(when, share.bytes, share.items)


def _preview(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    objective, changes = _maybe(event["objective"]), _maybe(event["changes"])
    staleness = [] if event["staleness"] is None else [_count(lag) for lag in event["staleness"][:_LAGS]]
    features = _features(event["features"])
    run.objective, run.features = objective, features
    run.changes = None if changes is None else max(changes, run.changes or 0.0)  # those of a lost centre count too
    if any(staleness):  # begin anew with every pass
        run.staleness = staleness
    if objective != next(reversed(run.objectives.y), None):
        run.objectives.add(run.number - 1 + run.fraction, objective)


def _pass(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    times = {name: _positive(event[name]) for name in _TIMES if name in event}
    over = ClosedPass(_count(event["number"]), _maybe(event["objective"]), _maybe(event["changes"]), times)
    run.closed = [*run.closed[-(MOST_POINTS - 1) :], over]
    run.objective = run.objective if over.objective is None else over.objective
    run.objectives.add(over.number, over.objective)
    run.changes_before += over.changes or 0.0
    run.merging_before += times.get("merging", 0.0)
    run.changes, run.passes_done, run.number, run.fraction = None, over.number, over.number + 1, 0.0


def _checkpoint(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    run.checkpoints.add(when - run.began, _positive(event["seconds"]))
    run.n_checkpoints += 1


def _ended(run: WatchedRun, event: Mapping[str, Any], when: float) -> None:
    why = None if event["why"] is None else _text(event["why"])
    if event["features"] is not None:
        run.features = _features(event["features"])
    run.ended, run.why = True, why


_LEARN = {
    "begun": _begun,
    "progress": _progress,
    "share": _share,
    "preview": _preview,
    "pass": _pass,
    "checkpoint": _checkpoint,
    "ended": _ended,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return short(value)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise TypeError
    return value


def _maybe(value: object) -> float | None:
    """A number, or none."""
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise TypeError
    return float(value)  # type: ignore[arg-type]


def _positive(value: object) -> float:
    return max(0.0, _maybe(value) or 0.0)


def _features(told: Any) -> list[tuple[str, float | None]]:
    return [(_text(name), _maybe(weight)) for name, weight in told[:TOP]]


def _in_pairs(amounts: list[float]) -> list[float]:
    return [sum(amounts[at : at + 2]) for at in range(0, len(amounts), 2)]
