"""Pydantic models of the tables of a job file, with checks of keys and of combinations of tables."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from daskfs.algorithms.registry import fields_of, registrations
from daskfs.engine.data.ingest import OnBadLine
from daskfs.engine.memory import parse_memory
from daskfs.errors import OptionError, nearest, nearest_or_some, without_secrets
from daskfs.protocol import Algorithm
from daskfs.store.dataset.codec import Compression
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.dataset.layout import Layout
from daskfs.store.ingest.formats import make_format, options_of
from daskfs.store.ingest.formats.base import Format
from daskfs.store.ingest.gaps import Missing

SHORT = {"k": "n_select"}
"""Short names of parameters of algorithms, as accepted in a job file."""

BOUNDED = ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "r2")
"""Metrics for which a larger value is better, so that `at_least` can set a lower bound."""


class JobTable(BaseModel):
    """Base class of the tables of a job file, which rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class IngestTable(JobTable):
    """The table [ingest] with source files and options of the format (see ``daskfs ingest --help``)."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    sources: list[str] = Field(min_length=1)
    format: str
    test_sources: list[str] = []
    layout: Layout | None = None
    """The layout of dense data, or None for the layout that the algorithm reads."""
    memory: str | None = None
    on_bad_line: OnBadLine = "error"
    max_bad_lines: int = 1000
    compression: Compression | None = None
    order: RowOrder = "auto"
    shuffle: bool | int = False
    in_place: bool = False
    """Whether text files are read in place, where that is possible (see `in_text.can_read_in_place`)."""

    @model_validator(mode="after")
    def _check_options(self) -> IngestTable:
        known = [*type(self).model_fields, *options_of(self.format)]
        for key in self.model_extra or {}:
            if key not in known:
                raise OptionError(f"{key}: no such key{nearest_or_some(key, known)}")
        _ = self.source_format  # raises OptionError
        if self.memory is not None:
            parse_memory(self.memory)
        return self

    @cached_property
    def source_format(self) -> Format:
        """The source format with the options of the table [ingest]."""
        return make_format(self.format, self.model_extra or {})

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `daskfs.ingest` except the sources and the target."""
        return self.model_dump(exclude={"sources", "test_sources", "in_place"})


class DataTable(JobTable):
    """The table [data] with the locations of existing datasets, or of a matrix that is read in place.

    The matrix is an array of any Zarr group, or a ``.npy`` file. `array` and `label` are the names of the matrix and of
    the target in the group; `label` may also be a file of labels. With `missing`, gaps are filled in a copy.
    """

    train: str
    test: str | None = None
    array: str = ""
    label: str = ""
    missing: Missing | None = None


class SplitTable(JobTable):
    """The table [split] with the share of rows that are held back from the selection for the evaluation."""

    test: float = Field(gt=0, lt=1)
    seed: int = Field(default=0, ge=0)


class SelectTable(JobTable):
    """The table [select] with the algorithm and its parameters (see ``daskfs select --help``)."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    algorithm: str
    seed: int = Field(default=0, ge=0)
    synchronous: bool = False
    order: RowOrder = "auto"
    """Whether rows that are sorted by label are read in random order if the algorithm learns row by row."""

    @model_validator(mode="after")
    def _check_fields(self) -> SelectTable:
        _ = self.params  # raises OptionError
        return self

    @cached_property
    def params(self) -> Algorithm:
        """The algorithm with the parameters of the table [select]."""
        entries, name = registrations(), self.algorithm
        if name not in entries:
            raise OptionError(f"algorithm: {name!r} is none of {', '.join(entries)}{nearest(name, entries)}")
        algorithm, given = entries[name].algorithm, self.model_extra or {}
        values = {SHORT.get(name, name): value for name, value in given.items()}
        if len(values) < len(given):
            raise OptionError(f"{', '.join(f'{short} and {name}' for short, name in SHORT.items())}: give one of them")
        for name in values:
            if name not in fields_of(algorithm):
                raise OptionError(f"{name}: no such key{nearest_or_some(name, fields_of(algorithm))}")
        try:
            return algorithm(**values)
        except TypeError as error:  # a field without a default is missing
            raise OptionError(f"{self.algorithm}: {str(error).rpartition(': ')[2]} must be given") from error


class EvaluateTable(JobTable):
    """The table [evaluate] with options of the evaluation on the test rows."""

    sizes: bool = True
    univariate: bool = True
    """Whether to evaluate also as many features that are each chosen by itself, for comparison."""


class StabilityTable(JobTable):
    """The table [stability] with the number of repeated selections, on halves of the rows or with other seeds."""

    pairs: int | None = Field(default=None, ge=1, le=50)
    seeds: int | None = Field(default=None, ge=1, le=100)

    @model_validator(mode="after")
    def _check_one(self) -> StabilityTable:
        if (self.pairs is None) == (self.seeds is None):
            raise OptionError("give either pairs, of halves of the rows, or seeds")
        return self


class ReportTable(JobTable):
    """The table [report] with options of the HTML report, such as a location for a second copy."""

    to: str | None = None
    profiles: bool = True
    """Whether to read the training data once more for the distributions and correlations of selected features."""
    performance: bool = False
    """Whether to store Dask's performance report of the selection in the folder of the selection run."""


class PublishTable(JobTable):
    """The table [publish] with the lowest scores to publish, and the file that points to the published result."""

    to: str | None = None
    at_least: dict[str, float] = {}
    even_if_useless: bool = False

    @model_validator(mode="after")
    def _check_metrics(self) -> PublishTable:
        if self.to is not None and not self.to.endswith(".json"):
            raise OptionError(f"to: {self.to!r:.80}: must end with .json, by which a pointer is known")
        for name in self.at_least:
            if name not in BOUNDED:  # otherwise the whole job would run first
                raise OptionError(f"at_least: {name}: no such score{nearest_or_some(name, BOUNDED)}")
        return self


class ClusterTable(JobTable):
    """The table [cluster], which names a running Dask cluster, a cluster to start, or this process to run the job."""

    scheduler: str | None = None
    serial: bool = False
    processes: int | None = Field(default=None, ge=1)
    start: str | None = None
    arguments: dict[str, Any] = {}
    workers: int | None = Field(default=None, ge=1)
    adapt: dict[str, int] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> ClusterTable:
        if sum((self.scheduler is not None, self.serial, self.processes is not None, self.start is not None)) > 1:
            raise OptionError("scheduler, serial, processes, start: choose one of them")
        if self.start is None and (self.arguments or self.workers or self.adapt):
            raise OptionError('arguments, workers and adapt are for a class to start: say which, start = "…"')
        if (adapt := self.adapt) is not None and (
            adapt.keys() != {"minimum", "maximum"} or not 0 <= adapt["minimum"] <= adapt["maximum"] >= 1
        ):
            raise OptionError("adapt: must be {minimum = …, maximum = …}, from 0 and from 1 on")
        return self


class Job(JobTable):
    """The content of a whole job file."""

    out: str
    name: str = ""
    ingest: IngestTable | None = None
    data: DataTable | None = None
    split: SplitTable | None = None
    select: SelectTable
    evaluate: EvaluateTable | None = None
    stability: StabilityTable | None = None
    report: ReportTable = ReportTable()
    publish: PublishTable = PublishTable()
    cluster: ClusterTable = ClusterTable()
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
    def order(self) -> RowOrder:
        """Whether rows sorted by label may be put in random order: not if [select] or [ingest] says "as-is"."""
        orders = (self.select.order, self.ingest.order if self.ingest else "auto")
        return "as-is" if "as-is" in orders else "auto"

    @property
    def has_test_data(self) -> bool:
        """Whether the job file names test data, so that no test rows need to be split off."""
        return bool(self.data and self.data.test) or bool(self.ingest and self.ingest.test_sources)

    @property
    def record(self) -> dict[str, Any]:
        """The content of the job file without credentials and addresses of clusters, to be stored in a record."""
        whole = self.model_dump(mode="json", exclude={"storage", "cluster"}, exclude_none=True)
        return without_secrets(whole)  # type: ignore[no-any-return]
