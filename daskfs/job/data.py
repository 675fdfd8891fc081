"""The steps of a job that write datasets: ingest, split and transpose.

A job writes datasets to ``OUT/data/KEY``, where KEY is a digest of all inputs and so changes with the sources. A
complete dataset with the right key is not written again, and an interrupted step is resumed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.keep import kept_features
from daskfs.engine.data.in_text import can_read_in_place, open_text
from daskfs.engine.data.ingest import IngestProgress, ingest
from daskfs.engine.data.mix import must_mix
from daskfs.engine.data.reorder import transpose
from daskfs.engine.data.split import split
from daskfs.engine.passes import PassProgress
from daskfs.errors import public_url
from daskfs.jit import COMPILING, announced, is_cold
from daskfs.job.request import must_transpose
from daskfs.job.tables import DataTable, IngestTable, Job
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import ROOT
from daskfs.store.in_place import InPlace
from daskfs.store.in_text import InText
from daskfs.store.ingest.formats.tabular import TableOptions
from daskfs.store.ingest.plan import content_digest
from daskfs.store.ingest.sources import Source, find_sources
from daskfs.store.matrix import is_matrix, open_matrix
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    from distributed import Client

DATA = "data"


class _MissingError(Exception):
    """Raised in a dry run if a dataset of the job is not written yet, and caught by `DataSteps.find`."""


@dataclass(frozen=True)
class JobListener:
    """Callbacks that report the progress of a job.

    Parameters
    ----------
    notify
        A function that is called with a line of text for every step.
    ingesting, selecting
        Context managers that show the progress of an ingest, and of a selection.
    counting
        A context manager that shows the progress (items done, items in all) of any other step, given the step's name.
    """

    notify: Callable[[str], None]
    ingesting: Callable[[], AbstractContextManager[Callable[[IngestProgress], None]]]
    selecting: Callable[[], AbstractContextManager[Callable[[PassProgress], None]]]
    counting: Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True)
class Datasets:
    """The training dataset, from which features are selected, and the test dataset for the evaluation."""

    train: Dataset
    test: Dataset | None
    key: str | None
    """The key of the folder of the datasets, or None if the job did not write the datasets."""

    def with_features(self, ids: NDArray[np.uint64]) -> Datasets:
        """Return datasets of the same rows, where text that is read in place has only the features `ids`.

        Fewer features fit better into memory. If ids are not hashes of names, the datasets keep all features, because
        the report also lists features that are correlated with the selected ones.
        """
        if not isinstance(self.train, InText) or not self.train.text.has_hashed_ids:
            return self
        text = self.train.text.with_features(ids)
        test = self.test.of_text(text) if isinstance(self.test, InText) else self.test
        return replace(self, train=self.train.of_text(text), test=test)


@dataclass
class DataSteps:
    """The steps that write the datasets of a job from its sources.

    Parameters
    ----------
    job
        The job to run.
    client
        The Dask client to use, or None to use this process.
    listener
        Callbacks that report the progress of the job.
    dry_run
        Raise an internal error instead of writing a missing dataset (used by `find`).
    ingested
        The datasets of the step "ingest", if the step was run before.
    """

    job: Job
    client: Client | None
    listener: JobListener
    dry_run: bool = False
    ingested: Datasets | None = None

    def __post_init__(self) -> None:
        self.out, self.storage = Location(self.job.out, self.job.storage), self.job.storage or None
        self.is_skipped = False
        """Whether the output of the last step was there already."""

    def check_sources(self) -> None:
        """Raise an error if a source or dataset of the job cannot be read, before anything is written."""
        to_keep = self.job.select.params.keep
        if self.job.data is not None:
            kept_features(to_keep, self.ingest().train.meta)
            return
        assert self.job.ingest is not None
        resolved = self.job.ingest.source_format.resolve(self._sources())
        if isinstance(resolved, TableOptions):  # features of other formats are not known before they are read
            resolved.check_features("keep", to_keep)

    def ingest(self) -> Datasets:
        """Return the datasets that the job file names, or ingest the sources and return the new datasets."""
        if self.ingested is not None:
            return self.ingested
        if (data := self.job.data) is not None:
            test = open_dataset(data.test, self.storage) if data.test else None
            if not is_matrix(Location(data.train, self.storage)):
                return Datasets(open_dataset(data.train, self.storage), test, None)
            return self._open_matrix(data, test)
        assert self.job.ingest is not None
        if (text := self._open_text(self.job.ingest)) is not None:
            return Datasets(text, None, None)
        key = self._key_of_sources()
        train = self._ingest(self.job.ingest.sources, self._place(key, "ingested.zarr"))
        others = self.job.ingest.test_sources
        return Datasets(train, self._ingest(others, self._place(key, "test.zarr"), train) if others else None, key)

    def _open_text(self, table: IngestTable) -> InText | None:
        """Return the text files of the job, to be read in place, or None if a dataset must be written."""
        writes = table.test_sources or table.shuffle or table.on_bad_line == "skip" or self.job.stability is not None
        sources, kind = self._sources(), table.source_format
        if not table.in_place or writes or not can_read_in_place(kind, sources, self.job.select.params):
            return None
        with announced(lambda line: self.listener.notify(f"ingest: {line}")):
            text = open_text(sources, kind, self.client)
        if text.meta.mixed is False and table.order == "auto":
            self.listener.notify(
                "ingest: labels come in runs; a dataset is written, with rows in random order (--order)"
            )
            return None
        self.listener.notify(f"ingest: {text!r}"[:-1].replace("<daskfs.Dataset ", "") + ", read in place")
        return text

    def _open_matrix(self, data: DataTable, test: Dataset | None) -> Datasets:
        """Return the matrix of the table [data], in place, or as a copy if its chunks do not fit or to fill gaps."""
        matrix = open_matrix(Location(data.train, self.storage), data.array, data.label)
        axis, is_sorted = self.job.select.params.axis, False
        if matrix.fits(axis) and data.missing is None:
            in_place = InPlace(matrix, axis)
            is_sorted = self._must_mix(in_place)
            if not is_sorted:
                return Datasets(in_place, test, None)
        key = key_of([matrix.digest, data.model_dump(), axis])
        place = self._place(key, "copy.zarr")
        if not (existing := self._existing("copy", place)):
            reason = "to fill its gaps" if matrix.fits(axis) else f"its chunks do not make up blocks of whole {axis}"
            reason = "since its rows are sorted by label" if is_sorted else reason
            self.listener.notify(f"copy: {public_url(data.train)} is copied to {public_url(place.url)}, {reason}")
            from daskfs.engine.data.write import write_matrix  # here, since it imports pandas and dask.array

            existing = [write_matrix(place, matrix, axis, data.missing or "error")]
        return Datasets(existing[0], test, key)

    def split_and_transpose(self, ingested: Datasets) -> Datasets:
        """Split the dataset if the job file has a table [split], and transpose it if the algorithm reads columns."""
        train, test, key = ingested.train, ingested.test, ingested.key
        if self.job.split is not None and isinstance(train, InPlace | InText):
            train, test = train.held_back(self.job.split.test, self.job.split.seed)
        elif self.job.split is not None:
            mixes = self._must_mix(train)
            key = key_of([key, train.digest, self.job.split.model_dump(), *(["mixed"] if mixes else [])])
            train, test = self._split(train, key, mixes)
        if must_transpose(train, self.job.select.params):
            key = key or key_of([train.digest])
            train = self._transpose(train, self._place(key, "columns.zarr"))
        return Datasets(train, test, key)

    def find(self) -> Datasets | None:
        """Return the datasets for the current sources if all datasets are complete, otherwise None."""
        silent = replace(self.listener, notify=lambda line: None)
        looking = DataSteps(self.job, self.client, silent, dry_run=True, ingested=self.ingested)
        try:
            return looking.split_and_transpose(looking.ingest())
        except _MissingError:
            return None

    def find_ingested(self) -> Datasets | None:
        """Return the datasets of the step "ingest" if they are complete, otherwise None; report a step that is done."""
        try:
            return DataSteps(self.job, None, self.listener, dry_run=True).ingest()
        except _MissingError:
            return None

    def _existing(self, step: str, *places: Location) -> list[Dataset]:
        """Return the output datasets of a step if they are complete, else [] (in a dry run, raise _MissingError)."""
        if all(place.exists(ROOT) for place in places):
            self.skip(step, places[-1])
            return [open_dataset(place.url, place.options) for place in places]
        if self.dry_run:
            raise _MissingError
        return []

    def skip(self, step: str, place: Location) -> None:
        """Report that a step is skipped because the output of the step exists."""
        self.is_skipped = True
        self.listener.notify(f"{step}: there already, {public_url(place.url)}")

    def drop_others(self, keys: set[str | None]) -> None:
        """Delete the datasets of this job whose key is not in `keys`, such as datasets of earlier sources."""
        for key in self.out.members(DATA) if self.out.exists(DATA) else ():
            if is_key(key) and key not in keys:  # other names are not of this job
                self.out.delete(f"{DATA}/{key}")

    def _ingest(self, sources: list[str], place: Location, train: Dataset | None = None) -> Dataset:
        """Return the dataset of some sources. Columns and gaps of test tables are treated as those of `train`."""
        assert self.job.ingest is not None
        if existing := self._existing("ingest", place):
            return existing[0]
        if self.client is not None and is_cold(self.job.ingest.source_format.__module__):
            self.listener.notify(f"ingest: {COMPILING}")
        compiling = announced(lambda line: self.listener.notify(f"ingest: {line}"))
        with compiling, self.listener.ingesting() as progress:
            dataset = ingest(
                sources,
                place.url,
                client=self.client,
                storage_options=self.storage,
                source_options=self.storage,
                progress=progress,
                like=train if self.job.ingest.source_format.is_table else None,
                **{**self.job.ingest.options, "layout": self._layout},
            )
        self.listener.notify(f"ingest: {dataset!r}"[:-1].replace("<daskfs.Dataset ", ""))
        return dataset

    def _must_mix(self, dataset: Dataset) -> bool:
        return must_mix(dataset, self.job.select.params, self.job.order)

    def _split(self, dataset: Dataset, key: str, mixes: bool) -> tuple[Dataset, Dataset]:
        assert self.job.split is not None
        train, test = self._place(key, "train.zarr"), self._place(key, "test.zarr")
        if existing := self._existing("split", train, test):
            return existing[0], existing[1]
        options: dict[str, Any] = {"seed": self.job.split.seed, "shuffle": mixes}
        options |= {"client": self.client, "storage_options": self.storage}
        with self.listener.counting("split") as progress:
            parts = split(dataset, train.url, test.url, self.job.split.test, progress=progress, **options)
        if mixes:
            name = self.job.select.algorithm
            self.listener.notify(
                f"split: rows are sorted by label, and {name} learns row by row: written in random order (--order)"
            )
        self.listener.notify(f"split: {parts[0].n_samples:,} rows to select from, {parts[1].n_samples:,} held back")
        return parts

    def _transpose(self, dataset: Dataset, place: Location) -> Dataset:
        if existing := self._existing("transpose", place):
            return existing[0]
        with self.listener.counting("transpose") as progress:
            options: dict[str, Any] = {"client": self.client, "storage_options": self.storage}
            columns = transpose(dataset, place.url, progress=progress, **options)
        up_to = "up to " if columns.n_features_is_limit else ""
        count = f"{up_to}{columns.n_features:,}"
        self.listener.notify(f"transpose: {count} columns, which {self.job.select.algorithm} reads")
        return columns

    def _place(self, key: str, name: str) -> Location:
        return self.out.below(f"{DATA}/{key}/{name}")

    def _key_of_sources(self) -> str:
        """Return a digest of the sources and their format options, or raise SourceError if no source exists."""
        assert self.job.ingest is not None
        return key_of([self.job.ingest.model_dump(mode="json"), self._layout, content_digest(self._sources())])

    def _sources(self) -> list[Source]:
        """Return the source files of the job, training and test, without files in the output folder."""
        table = self.job.ingest
        assert table is not None
        return find_sources([*table.sources, *table.test_sources], self.storage, (self.out.url,))

    @property
    def _layout(self) -> str:
        layout = self.job.ingest and self.job.ingest.layout
        return layout or self.job.select.params.axis


def key_of(content: Any) -> str:
    """Return a digest of the inputs of a step, which is the folder name of the step's output."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]


def is_key(name: str) -> bool:
    """Return True if a folder name has the form of a key (12 hexadecimal digits)."""
    return re.fullmatch("[0-9a-f]{12}", name) is not None
