"""The tables of a job file: what a job can be told, and which combinations make no sense."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from daskfs.algorithms.registry import fields_of, registrations
from daskfs.engine.data.ingest import OnBadLine
from daskfs.engine.memory import parse_memory
from daskfs.errors import OptionError, nearest, public_url
from daskfs.protocol import Algorithm
from daskfs.store.dataset.codec import Compression
from daskfs.store.dataset.layout import Layout
from daskfs.store.ingest.formats import make_format, options_of
from daskfs.store.ingest.formats.base import Format

SHORT = {"k": "n_select"}
"""What a field may be called besides."""

BOUNDED = ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "r2")
"""Scores of which more is better."""


class Table(BaseModel):
    """A table of the file; a key that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Ingest(Table):
    """Sources to make datasets of. Other keys are options of the format, as ``daskfs ingest --help`` lists them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    sources: list[str] = Field(min_length=1)
    format: str
    test_sources: list[str] = []
    layout: Layout | None = None
    """Of dense data; None for what the algorithm reads."""
    memory: str | None = None
    on_bad_line: OnBadLine = "error"
    max_bad_lines: int = 1000
    compression: Compression | None = None
    shuffle: bool | int = False

    @model_validator(mode="after")
    def _check_options(self) -> Ingest:
        given = self.model_extra or {}
        known = [*type(self).model_fields, *options_of(self.format)]
        for key in given:
            if key not in known:
                raise OptionError(f"{key}: no such key{nearest(key, known)}; there are {', '.join(known)}")
        _ = self.made  # raises what is wrong with it
        if self.memory is not None:
            parse_memory(self.memory)
        return self

    @cached_property
    def made(self) -> Format:
        """The format with its options."""
        return make_format(self.format, self.model_extra or {})

    @property
    def options(self) -> dict[str, Any]:
        """What `daskfs.ingest` takes beside sources and target."""
        return self.model_dump(exclude={"sources", "test_sources"})


class Data(Table):
    """Datasets that are there already."""

    train: str
    test: str | None = None


class Split(Table):
    """Rows to be held back from the selection, for its evaluation."""

    test: float = Field(gt=0, lt=1)
    seed: int = Field(default=0, ge=0)


class Select(Table):
    """What selects. Other keys are fields of the algorithm, as ``daskfs select --help`` lists them."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    algorithm: str
    seed: int = Field(default=0, ge=0)
    synchronous: bool = False

    @model_validator(mode="after")
    def _check_fields(self) -> Select:
        _ = self.made  # raises what is wrong with it
        return self

    @cached_property
    def made(self) -> Algorithm:
        """The algorithm with its fields."""
        entries, name = registrations(), self.algorithm
        if name not in entries:
            raise OptionError(f"algorithm: {name!r}{nearest(name, entries)} is none of {', '.join(entries)}")
        algorithm, given = entries[name].algorithm, self.model_extra or {}
        values = {SHORT.get(name, name): value for name, value in given.items()}
        if len(values) < len(given):
            raise OptionError(f"{', '.join(f'{short} and {name}' for short, name in SHORT.items())}: give one of them")
        for name in values:
            if name not in fields_of(algorithm):
                known = ", ".join(fields_of(algorithm))
                raise OptionError(f"{name}: no such key{nearest(name, fields_of(algorithm))}; there are {known}")
        try:
            return algorithm(**values)
        except TypeError as error:  # one that must be given is missing
            raise OptionError(f"{self.algorithm}: {str(error).rpartition(': ')[2]} must be given") from error


class Evaluate(Table):
    """What is found out on the rows held back."""

    sizes: bool = True


class Stability(Table):
    """Whether halves of the rows, in pairs that have none in common, or other seeds select the same."""

    pairs: int | None = Field(default=None, ge=1, le=50)
    seeds: int | None = Field(default=None, ge=1, le=100)

    @model_validator(mode="after")
    def _check_one(self) -> Stability:
        if (self.pairs is None) == (self.seeds is None):
            raise OptionError("give either pairs, of halves of the rows, or seeds")
        return self


class Report(Table):
    """The page for people: in the folder of the run, and perhaps in another place too."""

    to: str | None = None
    performance: bool = False
    """Keep Dask's performance report of the selection in the folder of the run, too."""


class Publish(Table):
    """When and where the result is made known."""

    to: str | None = None
    at_least: dict[str, float] = {}

    @model_validator(mode="after")
    def _check_metrics(self) -> Publish:
        if self.to is not None and not self.to.endswith(".json"):
            raise OptionError(f"to: {self.to!r:.80}: must end with .json, by which a pointer is known")
        for name in self.at_least:
            if name not in BOUNDED:  # or the whole job would run first
                known = ", ".join(BOUNDED)
                raise OptionError(f"at_least: {name}: no such score{nearest(name, BOUNDED)}; there are {known}")
        return self


class Cluster(Table):
    """Where it runs: on a cluster that is there, on one to be started, or in one process."""

    scheduler: str | None = None
    serial: bool = False
    processes: int | None = Field(default=None, ge=1)
    start: str | None = None
    arguments: dict[str, Any] = {}
    workers: int | None = Field(default=None, ge=1)
    adapt: dict[str, int] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Cluster:
        if sum((self.scheduler is not None, self.serial, self.processes is not None, self.start is not None)) > 1:
            raise OptionError("scheduler, serial, processes, start: choose one of them")
        if self.start is None and (self.arguments or self.workers or self.adapt):
            raise OptionError('arguments, workers and adapt are for a class to start: say which, start = "…"')
        if self.adapt is not None:
            _check_bounds(self.adapt)
        return self


def _check_bounds(adapt: dict[str, int]) -> None:
    if adapt.keys() != {"minimum", "maximum"} or not 0 <= adapt["minimum"] <= adapt["maximum"] >= 1:
        raise OptionError("adapt: must be {minimum = …, maximum = …}, from 0 and from 1 on")


class Job(Table):
    """The whole file."""

    out: str
    name: str = ""
    ingest: Ingest | None = None
    data: Data | None = None
    split: Split | None = None
    select: Select
    evaluate: Evaluate | None = None
    stability: Stability | None = None
    report: Report = Report()
    publish: Publish = Publish()
    cluster: Cluster = Cluster()
    storage: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check_whole(self) -> Job:
        if (self.ingest is None) == (self.data is None):
            raise OptionError("give either [ingest], for sources, or [data], for datasets that are there")
        if self.report.performance and self.cluster.serial:
            raise OptionError("report.performance is of a cluster: leave out cluster.serial")
        if self.split and self.has_test_data:
            raise OptionError("split: there are test rows already; leave one of them out")
        if not (self.split or self.has_test_data):
            if self.evaluate:
                raise OptionError("evaluate: on what? give test data, or [split]")
            if self.publish.at_least:
                raise OptionError("publish.at_least: there is no score without test data; give some, or [split]")
        return self

    @property
    def has_test_data(self) -> bool:
        """True if rows to evaluate on are given, and need not be split off."""
        return bool(self.data and self.data.test) or bool(self.ingest and self.ingest.test_sources)

    @property
    def record(self) -> dict[str, Any]:
        """The job as a run's record has it: without what is nobody's business."""
        return _public(self.model_dump(mode="json", exclude={"storage", "cluster"}, exclude_none=True))  # type: ignore[no-any-return]


def _public(value: Any) -> Any:
    """The same without what URLs hold besides a place: ``${NAME}`` may have put a password there."""
    if isinstance(value, dict):
        return {key: _public(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_public(member) for member in value]
    return public_url(value) if isinstance(value, str) else value
