"""Where a run stands, and how it is kept: the state and the place in the data it belongs to, in one file.

A checkpoint says what it is of (digest of the dataset, algorithm with all its fields, seed), so that it is never
taken for one of another run, and it is written in one step, so that state and place are always of one moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from time import monotonic
from typing import Any, Literal, get_args

import numpy as np

from daskfs.errors import CheckpointError
from daskfs.protocol import Algorithm, State, flatten, restore
from daskfs.store.dataset.container import DamagedContainer, read_container, write_container
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.places.location import Location

EVERY_SECONDS = 30.0
"""Within a pass; beside this one is written at every end of a pass."""
KEY = "checkpoint"
_SPENT = ("closing", "workers", "busy", "merging", "beside", "scheduler")  # of a cost, in this order
_STATE = "state."  # before the names of a state's values, which are none of ours
Stage = Literal["passes", "revisit", "finished"]


@dataclass(slots=True)
class Cost:
    """What a pass took."""

    seconds: float = 0.0
    bytes: int = 0
    closing: float = 0.0
    """Of these seconds, those after the last block: `end_pass`, where the selection was started."""
    workers: int = 0
    """That shared the pass; 0 where there was no cluster."""
    busy: float = 0.0
    """Seconds, summed over workers, that they read blocks and worked on them."""
    merging: float = 0.0
    """Seconds that states were merged; around a centre, seconds that it was at work, beside the workers."""
    beside: bool = False
    """Whether merging was none of the workers' business."""
    scheduler: float = 0.0
    """Seconds, summed over workers, from when all that a task needs was ready to its begin: of Dask's scheduler, and of
    states on their way. AsynchronousRunner a centre, from the end of a worker's task to the begin of its next."""

    def times(self) -> dict[str, float]:
        """Seconds by what they were for; on a cluster also of the workers together.

        `idle` is the rest of the workers' time until the last block was done: waiting for each other or for the centre,
        and for the first task of a pass.
        """
        if not self.workers:
            return {"seconds": self.seconds, "closing": self.closing}
        known = self.busy + self.scheduler + (0.0 if self.beside else self.merging)
        idle = max(0.0, self.workers * (self.seconds - self.closing) - known)
        of_workers = {"busy": self.busy, "merging": self.merging, "scheduler": self.scheduler, "idle": idle}
        return {"seconds": self.seconds, "closing": self.closing, **of_workers}


@dataclass(slots=True)
class Snapshot:
    """A run at one moment."""

    state: State
    lanes: int
    """How many workers share a pass, which decides the result; 0 where they do so in no fixed order."""
    stage: Stage = "passes"
    position: int = 0
    """Blocks of the open pass that are in the state."""
    costs: list[Cost] = field(default_factory=lambda: [Cost()])
    """One of every pass, the open one last; then that of the columns seen once more."""

    @property
    def passes(self) -> int:
        """Passes that are closed."""
        return len(self.costs) - 1


class Checkpoint:
    """The one checkpoint of a run. Keep it open while the run lasts: a second run at the same place is refused."""

    def __init__(self, location: Location, of: Mapping[str, Any]) -> None:
        self._location, self._of = location, json.loads(json.dumps(of, default=_plain))
        self._written = monotonic()

    def is_due(self) -> bool:
        """Whether the last one was written long enough ago."""
        return monotonic() - self._written >= EVERY_SECONDS

    def write(self, now: Snapshot) -> None:
        """Replace the checkpoint."""
        at = {"lanes": now.lanes, "stage": now.stage, "position": now.position}
        values = {f"{_STATE}{name}": value for name, value in flatten(now.state).items()}
        values["seconds"] = np.array([cost.seconds for cost in now.costs])
        values["bytes"] = np.array([cost.bytes for cost in now.costs])
        values["spent"] = np.array([[float(getattr(cost, name)) for name in _SPENT] for cost in now.costs])
        try:
            write_container(self._location, KEY, {"of": self._of, "at": at}, values)
        except OSError as error:
            raise CheckpointError(f"{self._location.url}: the checkpoint cannot be written: {error}") from error
        self._written = monotonic()

    def read(self, kind: type) -> Snapshot | None:
        """Return what was written last, with a state of type `kind`; None if nothing was.

        CheckpointError if the checkpoint is damaged, or belongs to another run.
        """
        try:
            about, values = read_container(self._location, KEY)
        except FileNotFoundError:
            return None
        except (DamagedContainer, OSError) as error:
            raise self._refusal(f"the checkpoint cannot be read: {error}") from error
        try:
            changes = list(_changes(about["of"], self._of))
            snapshot = None if changes else _snapshot(about["at"], values, kind)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self._refusal("not a checkpoint as daskfs writes them") from error
        if changes:
            raise self._refusal(f"the checkpoint is of another run: {'; '.join(changes)}")
        return snapshot

    def _refusal(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"{self._location.url}: {reason}; start over without resume (--overwrite on the command line)"
        )


@contextmanager
def checkpoint_at(
    url: str | os.PathLike[str] | None, options: Mapping[str, Any], dataset: Dataset, algorithm: Algorithm, seed: int
) -> Iterator[Checkpoint | None]:
    """The checkpoint of a run at a place that is nobody else's meanwhile; None without a place."""
    if url is None:
        yield None
        return
    location = Location(url, options)
    with ExitStack() as held:
        try:
            held.enter_context(location.one_writer())
            location.sweep(KEY)
        except OSError as error:
            raise CheckpointError(f"{location.url}: no place for a checkpoint: {error}") from error
        yield Checkpoint(
            location, {"dataset": dataset.digest, "seed": seed, "algorithm": describe_algorithm(algorithm)}
        )


def describe_algorithm(algorithm: Algorithm) -> dict[str, Any]:
    """The name of an algorithm and the values of its fields."""
    values = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}  # type: ignore[arg-type]
    return {"name": type(algorithm).__name__} | values


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else repr(value)


def _snapshot(at: dict[str, Any], values: dict[str, Any], kind: type) -> Snapshot:
    """What a checkpoint holds; KeyError, TypeError or ValueError if daskfs would not have written it so."""
    if not all(type(at[name]) is int and at[name] >= 0 for name in ("lanes", "position")):
        raise TypeError("lanes, position")
    if at["stage"] not in get_args(Stage):
        raise ValueError(at["stage"])
    flat = {name.removeprefix(_STATE): value for name, value in values.items() if name.startswith(_STATE)}
    state = restore(kind, flat)
    seconds, nbytes = values["seconds"].tolist(), values["bytes"].tolist()
    nothing = np.zeros((len(seconds), len(_SPENT)))  # is known of checkpoints of earlier versions
    spent = values.get("spent", nothing).tolist()
    costs = [_cost(*row) for row in zip(seconds, nbytes, spent, strict=True)]
    if not costs:
        raise ValueError("costs")
    return Snapshot(state, at["lanes"], at["stage"], at["position"], costs)


def _cost(seconds: float, nbytes: int, spent: list[float]) -> Cost:
    known = [*spent, 0.0][: len(_SPENT)]  # the last of them an earlier version has not
    closing, workers, busy, merging, beside, scheduler = known
    of_workers = int(workers), float(busy), float(merging), bool(beside), float(scheduler)
    return Cost(float(seconds), int(nbytes), float(closing), *of_workers)


def _changes(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """What a run is of that the other was not, in words; those of a file are kept short."""
    if before["dataset"] != now["dataset"]:
        yield "the dataset has changed since"
    if before["seed"] != now["seed"]:
        yield f"seed={before['seed']!r:.40}, now {now['seed']!r}"
    old, new = before["algorithm"], now["algorithm"]
    if old["name"] != new["name"]:
        yield f"{old['name']!r:.40}, now {new['name']!r}"
    elif old.keys() != new.keys():
        yield f"a {new['name']} of another version, with other fields"
    else:
        yield from (f"{name}={old[name]!r:.40}, now {new[name]!r}" for name in new if old[name] != new[name])
