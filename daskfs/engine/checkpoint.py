"""Checkpoints: the state of a selection run and its position in the data, in one file that is replaced atomically."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from math import isnan, nan
from time import monotonic
from typing import Any, Literal, get_args

import numpy as np

from daskfs.engine.events.messages import Spent
from daskfs.errors import CheckpointError, explain_os_error
from daskfs.protocol import Algorithm, Schedule, State, flatten, restore
from daskfs.store.dataset.container import DamagedContainer, read_container, write_container
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.places.location import Location

EVERY_SECONDS = 30.0
"""Seconds between two checkpoints within a pass; another checkpoint is written at the end of every pass."""
KEY = "checkpoint"
_STATE = "state."  # prefix of the names of a state's values
_SHARDS = "lanes"  # the word of the file for the number of shards, which is 0 under the asynchronous schedule
RunStage = Literal["passes", "revisit", "finished"]


@dataclass(slots=True)
class PassCost:
    """The seconds and bytes that one pass took."""

    seconds: float = 0.0
    bytes: float = 0
    closing: float = 0.0
    """The part of `seconds` after the last block, in which the driver runs `end_pass`."""
    workers: int = 0
    """How many workers shared the pass; 0 without a cluster."""
    has_centre: bool = False
    """Whether a centre (the dask actor that owns the state) did the merging, instead of the workers."""
    spent: Spent = field(default_factory=Spent)
    """Time of all workers added up, and time of the centre."""

    def times(self) -> dict[str, float]:
        """Return the seconds of the pass by purpose, on a cluster with the seconds of all workers added up by purpose.

        The idle seconds are the rest of the workers' time until the last block, in which workers waited for each other,
        for the centre, or for the first task of the pass. Seconds are NaN if the reports of tasks have not arrived.
        """
        times = {"seconds": self.seconds, "closing": self.closing}
        if not self.workers:
            return times
        busy, merging, scheduler = self.spent.busy, self.spent.merging, self.spent.scheduler
        known = busy + scheduler + (0.0 if self.has_centre else merging)
        idle = max(self.workers * (self.seconds - self.closing) - known, 0.0)  # NaN if seconds are not known
        return {**times, "busy": busy, "merging": merging, "scheduler": scheduler, "idle": idle}


@dataclass(slots=True)
class Snapshot:
    """The state, position and costs of a selection run at one moment."""

    state: State
    n_shards: int = 1
    """How many shards a pass has, which affects the result; 1 where workers do not wait for each other."""
    schedule: Schedule = Schedule.SYNCHRONOUS
    stage: RunStage = "passes"
    position: int = 0
    """How many blocks of the current pass have been folded into the state."""
    costs: list[PassCost] = field(default_factory=lambda: [PassCost()])
    """One cost for every pass, the current pass last; after the last pass, the cost of the columns to revisit."""

    @property
    def passes(self) -> int:
        """The number of passes that have ended."""
        return len(self.costs) - 1


class Checkpoint:
    """The file with the checkpoint of a selection run, which is overwritten again and again.

    The `identity` is the digest of the dataset, the seed and the algorithm; a file with another identity is refused.
    """

    def __init__(self, location: Location, identity: Mapping[str, Any]) -> None:
        self._location, self._identity = location, json.loads(json.dumps(identity, default=_plain))
        self._written = monotonic()

    def is_due(self) -> bool:
        """Return whether the last checkpoint is at least `EVERY_SECONDS` old."""
        return monotonic() - self._written >= EVERY_SECONDS

    def write(self, snapshot: Snapshot) -> None:
        """Replace the checkpoint. Raise TypeError if the state has values that cannot be stored."""
        n_shards = 0 if snapshot.schedule == Schedule.ASYNCHRONOUS else snapshot.n_shards
        at = {_SHARDS: n_shards, "stage": snapshot.stage, "position": snapshot.position}
        values = {f"{_STATE}{name}": value for name, value in flatten(snapshot.state).items()}
        values["seconds"] = np.array([cost.seconds for cost in snapshot.costs])
        values["bytes"] = np.array([cost.bytes for cost in snapshot.costs])
        values["spent"] = np.array([_spent_row(cost, cost.spent) for cost in snapshot.costs])
        try:
            write_container(self._location, KEY, {"of": self._identity, "at": at}, values)
        except OSError as error:
            raise CheckpointError(
                f"{self._location.url}: the checkpoint cannot be written: {explain_os_error(error)}"
            ) from error
        self._written = monotonic()

    def read(self, kind: type) -> Snapshot | None:
        """Return the last snapshot, with a state of type `kind`, or None if there is no checkpoint.

        Raise CheckpointError if the checkpoint is damaged, or belongs to another selection run.
        """
        try:
            about, values = read_container(self._location, KEY)
        except FileNotFoundError:
            return None
        except (DamagedContainer, OSError) as error:
            raise self._refusal(f"the checkpoint cannot be read: {error}") from error
        try:
            if differences := "; ".join(_differences(about["of"], self._identity)):
                raise self._refusal(f"the checkpoint is of another run: {differences}")
            return _snapshot(about["at"], values, kind)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self._refusal("not a checkpoint as daskfs writes them") from error

    def _refusal(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"{self._location.url}: {reason}; start over without resume (--overwrite on the command line)"
        )


@contextmanager
def checkpoint_at(
    url: str | os.PathLike[str] | None, options: Mapping[str, Any], dataset: Dataset, algorithm: Algorithm, seed: int
) -> Iterator[Checkpoint | None]:
    """Yield the checkpoint of a selection run and lock its folder against other runs; yield None without a URL."""
    if url is None:
        yield None
        return
    location = Location(url, options)
    identity = {"dataset": dataset.digest, "seed": seed, "algorithm": describe_algorithm(algorithm)}
    with ExitStack() as lock:
        try:
            lock.enter_context(location.one_writer())
            location.sweep(KEY)
        except OSError as error:
            raise CheckpointError(f"{location.url}: no place for a checkpoint: {explain_os_error(error)}") from error
        yield Checkpoint(location, identity)


def describe_algorithm(algorithm: Algorithm) -> dict[str, Any]:
    """Return the name of an algorithm and the values of its parameters."""
    values = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}  # type: ignore[arg-type]
    return {"name": type(algorithm).__name__} | values


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else repr(value)


def _snapshot(at: dict[str, Any], values: dict[str, Any], kind: type) -> Snapshot:
    """Return the content of a checkpoint. Raise KeyError, TypeError or ValueError if the content is malformed."""
    if not all(type(at[name]) is int and at[name] >= 0 for name in (_SHARDS, "position")):
        raise TypeError(f"{_SHARDS}, position")
    if at["stage"] not in get_args(RunStage):
        raise ValueError(at["stage"])
    flat = {name.removeprefix(_STATE): values[name] for name in values if name.startswith(_STATE)}
    state = restore(kind, flat)
    if flatten(state).keys() != flat.keys():  # such as more sets than the file says there are
        raise ValueError("the state has other values")
    seconds, nbytes = values["seconds"].tolist(), values["bytes"].tolist()
    costs = [_cost(*row) for row in zip(seconds, nbytes, values["spent"].tolist(), strict=True)]
    if not costs:
        raise ValueError("costs")
    schedule = Schedule.SYNCHRONOUS if at[_SHARDS] else Schedule.ASYNCHRONOUS
    return Snapshot(state, max(at[_SHARDS], 1), schedule, at["stage"], at["position"], costs)


def _spent_row(cost: PassCost, spent: Spent) -> list[float]:
    return [cost.closing, cost.workers, spent.busy, spent.merging, float(cost.has_centre), spent.scheduler]


def _cost(seconds: float, nbytes: float, row: list[float]) -> PassCost:
    closing, workers, busy, merging, has_centre, scheduler = map(float, row)
    nbytes, spent = nan if isnan(nbytes) else int(nbytes), Spent(busy=busy, merging=merging, scheduler=scheduler)
    return PassCost(float(seconds), nbytes, closing, int(workers), bool(has_centre), spent)


def _differences(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yield a text for every difference between this selection run and that of a checkpoint, with long values cut."""
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
