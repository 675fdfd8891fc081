"""One request from source files to a result: choose format, algorithm and loss by the data, and run the job of it.

Every choice is reported in one line, with its reason and the flag that overrides it.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from daskfs.algorithms.registry import registrations
from daskfs.engine.cluster.choose import SERIAL_BYTES
from daskfs.engine.data.in_text import can_read_in_place
from daskfs.errors import OptionError, SourceError, public_url
from daskfs.job.choice import MOST_KMER, Facts, choose_algorithm, choose_kmers
from daskfs.job.data import DATA, Datasets, JobListener
from daskfs.job.execute import JobOutcome, announce, job_cluster
from daskfs.job.file import first_reason
from daskfs.job.plan import Cost, Sample, sample_sources
from daskfs.job.runner import JobRun, check_folder
from daskfs.job.tables import Job
from daskfs.observe.describe import decision_lines
from daskfs.protocol import Axis
from daskfs.store.dataset.dataset import is_dataset, open_dataset
from daskfs.store.in_place import Gap
from daskfs.store.ingest.formats import make_format
from daskfs.store.ingest.formats.fasta import Fasta
from daskfs.store.ingest.recognise import recognise
from daskfs.store.ingest.sources import Source, find_sources, spool
from daskfs.store.matrix import is_matrix, open_matrix
from daskfs.store.places.location import Location

STDIN = "-"
LETTERS_A_BYTE = 4
"""Letters of sequence in a byte of a compressed file, about."""


def read_stdin(out: str) -> str:
    """Write standard input to a file in the output folder of a job, and return the path of the file."""
    if "://" in out:
        raise OptionError(f"--out {public_url(out)}: standard input is kept in --out, which must be a local folder")
    check_folder(Location(out))
    path = spool(sys.stdin.buffer, Path(out).absolute() / DATA)
    if not path.stat().st_size:
        drop_stdin(str(path))
        raise SourceError("standard input: is empty")
    return str(path)


def drop_stdin(path: str) -> None:
    """Remove the file that `read_stdin` wrote, and its folders if nothing else is in them."""
    _, key, data, out, *_ = (Path(path), *Path(path).parents)
    shutil.rmtree(key, ignore_errors=True)
    with suppress(OSError):
        data.rmdir()
        out.rmdir()


def folder_for(sources: Sequence[str]) -> str:
    """Return the name of a folder for the results of some sources, named after the first.

    >>> from daskfs.job.front_door import folder_for
    >>> folder_for(["s3://bucket/logs/clicks.vw.gz"])
    'clicks-selected'
    """
    if sources[0] == STDIN:
        return "stdin-selected"
    name = sources[0].rstrip("/").rsplit("/", 1)[-1].lstrip(".").split(".")[0].strip("*?-_")
    return f"{name or 'data'}-selected"


def refuse_flags(url: str, flags: Iterable[str], reason: str = "a dataset, and is read as it is") -> None:
    """Raise OptionError if there are flags on how to read files, and the source at a URL is none."""
    for flag in flags:
        if flag != "order":
            raise OptionError(f"--{flag.replace('_', '-')}: {public_url(url)} is {reason}")


@dataclass
class FrontDoor:
    """A request to select features from any sources, with everything chosen by the data that is not given.

    Parameters
    ----------
    sources
        Paths, folders, globs or URLs of files of one format; or the path or URL of one dataset.
    out
        The folder or URL of the job: datasets, runs and the published run.
    algorithms
        The names of the algorithms to choose from.
    fields
        A function that returns the parameters of an algorithm, given its name.
    given
        Tables of a job file with values that are given and not chosen, such as ``{"ingest": {"label": "y"}}``.
    test
        The share of rows that are held back for the score; 0 for none.
    listener
        Callbacks that report the choices and the progress.
    """

    sources: Sequence[str]
    out: str
    algorithms: Sequence[str]
    fields: Callable[[str], dict[str, Any]]
    given: Mapping[str, Mapping[str, Any]]
    test: float
    listener: JobListener

    def run(self) -> JobOutcome:
        """Choose, ingest, hold rows back, select, evaluate and write the report; finished steps are not repeated."""
        tables = self._data_tables()
        try:
            return self._run(tables)
        except Gap as gap:
            self.listener.notify(f"gaps: {gap}".partition(";")[0])
            self.listener.notify("gaps: are filled with the means of columns, in a copy (--missing)")
            return self._run({**tables, "data": {**tables["data"], "missing": "auto"}})

    def _run(self, tables: Mapping[str, Any]) -> JobOutcome:
        early = self._job(tables, self.algorithms[0])  # of any algorithm, for the steps before its choice
        before = JobRun(early, None, self.listener)
        before.check()
        ingested = before.find_ingested()
        job = None if ingested is None else self._job_for(tables, ingested)
        is_finished = job is not None and not JobRun(job, None, self.listener, ingested=ingested).needs_cluster()
        with nullcontext() if is_finished else job_cluster(early.cluster) as client:
            announce(client, self.listener.notify)
            if ingested is None or job is None:
                ingested = JobRun(early, client, self.listener).ingest()
                job = self._job_for(tables, ingested)
            run = JobRun(job, client, self.listener, ingested=ingested)
            return JobOutcome(job, run.run(), run.seconds)

    def _job_for(self, tables: Mapping[str, Any], ingested: Datasets) -> Job:
        """Return the job with the algorithm that suits the data, and report how data are read and what was chosen."""
        for line in decision_lines(ingested.train):
            self.listener.notify(line)
        return self._job(tables, self._choose(Facts.of(ingested.train.meta, ingested.train.n_features_is_limit)))

    def plan(self) -> Cost:
        """Make the choices of `run`, report them, and return the cost of the request, without running it."""
        tables = self._data_tables()
        if (table := tables.get("ingest")) is None:
            job = self._job(tables, self.algorithms[0])
            sample, source_bytes = Sample.of(JobRun(job, None, self.listener, dry_run=True).ingest().train), 0
        else:
            files = find_sources(self.sources, self.storage)
            options = {name: value for name, value in table.items() if name not in ("sources", "in_place")}
            with sample_sources(files, options) as sample:
                source_bytes = sum(file.size for file in files)
        n_features_is_limit = table is not None and table["format"] == Fasta.name
        job = self._job(tables, self._choose(Facts.of(sample.meta, n_features_is_limit)))
        algorithm = job.select.params
        if job.ingest is None:
            is_in_place = is_matrix(Location(self.sources[0], self.storage))
        else:
            is_in_place = job.ingest.in_place and can_read_in_place(job.ingest.source_format, files, algorithm)
        in_rows = sample.meta.kind == "sparse" and algorithm.axis == "columns"
        copies = 0 if is_in_place else bool(source_bytes) + bool(self.test) + in_rows
        ahead = Location(self.sources[0], self.storage).folder.ahead
        return Cost.of(algorithm, sample, source_bytes, self.test, copies, ahead)

    def _data_tables(self) -> dict[str, Any]:
        """Return the tables [ingest] or [data], and [cluster], of the job."""
        if len(self.sources) == 1 and is_dataset(place := Location(self.sources[0], self.storage)):
            refuse_flags(place.url, self._given("ingest"))
            dataset = open_dataset(self.sources[0], self.storage)
            return {"data": {"train": dataset.url}, "cluster": self._cluster(dataset.stored_bytes)}
        if len(self.sources) == 1 and is_matrix(place := Location(self.sources[0], self.storage)):
            given = {name: value for name, value in self._given("ingest").items() if name != "order"}
            others = [name for name in given if name not in ("label", "missing", "array")]
            refuse_flags(place.url, others, "an array, which has no such option")
            matrix = open_matrix(place, given.get("array", ""), given.get("label", ""))
            nbytes = matrix.cells.dtype.itemsize * math.prod(matrix.cells.shape)
            return {"data": {"train": self.sources[0], **given}, "cluster": self._cluster(nbytes)}
        files = find_sources(self.sources, self.storage, (Location(self.out, self.storage).url,))
        axis = self._axis()
        ingest = {"sources": list(self.sources), "layout": axis, "in_place": axis == "rows", **self._format(files)}
        return {"ingest": ingest, "cluster": self._cluster(sum(file.size for file in files))}

    def _given(self, table: str) -> dict[str, Any]:
        return dict(self.given.get(table, {}))

    @property
    def storage(self) -> dict[str, Any]:
        """Options of the stores of sources and results."""
        return self._given("storage")

    def _cluster(self, nbytes: int) -> dict[str, Any]:
        """Return the table [cluster]: as given, or this process for data of up to `SERIAL_BYTES`."""
        return self._given("cluster") or {"serial": nbytes <= SERIAL_BYTES}

    def _format(self, files: list[Source]) -> dict[str, Any]:
        """Return the format of the source files and its options."""
        table = self._given("ingest")
        if "format" not in table:
            recognised = recognise(files)
            self.listener.notify(f"format: {recognised.format}, since {recognised.reason} (--format)")
            table = {"format": recognised.format, **recognised.options, **table}
        groups = self.fields(self.algorithms[0]).get("groups")
        if groups and make_format(table["format"], {}).is_table:  # even if it looks like an identifier
            table = {**table, "include": [*table.get("include", ()), groups]}
        if table["format"] == Fasta.name and "k" not in table:
            n_letters = sum(file.size * (LETTERS_A_BYTE if file.compression else 1) for file in files)
            n_letters = round(n_letters * table.get("coverage", 1))
            k = table["k"] = min(choose_kmers(n_letters), table.get("read_length", MOST_KMER))
            self.listener.notify(f"k-mers: {k} letters long, for about {n_letters:,} letters (--set ingest.k={k})")
        return table

    def _axis(self) -> Axis:
        """Return the layout of a dense dataset: columns, or rows if no algorithm that may be chosen reads columns."""
        axes = {registrations()[name].algorithm.axis for name in self.algorithms}  # type: ignore[attr-defined]
        return "columns" if "columns" in axes else "rows"

    def _choose(self, facts: Facts) -> str:
        """Return the name of the algorithm, and report it."""
        k = self.fields(self.algorithms[0]).get("n_select") or 1
        name, reason = choose_algorithm(facts.kind, facts.n_samples, facts.n_features, k, self.algorithms)
        self.listener.notify(f"data: {facts}")
        self.listener.notify(f"algorithm: {name}, {reason} (--algorithm)")
        if "loss" not in self.fields(name):
            self.listener.notify(f"loss: {facts.loss}, for {facts.target} (--loss)")
        return name

    def _job(self, tables: Mapping[str, Any], algorithm: str) -> Job:
        """Return the job of this request with an algorithm."""
        others = {name: self._given(name) for name in self.given if name not in ("ingest", "select", "cluster")}
        content = {
            "out": self.out,
            "name": self.out.rstrip("/").rsplit("/", 1)[-1],
            **tables,
            "split": {"test": self.test} if self.test else None,
            "select": {**self.fields(algorithm), **self._given("select"), "algorithm": algorithm},
            "publish": {"even_if_useless": True},
            **others,
        }
        try:
            return Job.model_validate(content)
        except ValidationError as error:
            where, reason = first_reason(error)
            if len(where) == 1 and where[0] in Job.model_fields:  # of a table as a whole: the reason names the field
                raise OptionError(f"--set {where[0]}.{reason}" if "no such key" in reason else reason) from None
            raise OptionError(f"--set {'.'.join(where)}: {reason}") from None  # other values are right
