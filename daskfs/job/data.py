"""A job's datasets: ingested, split and laid out as its algorithm reads them, each made once.

What a job makes lies in ``OUT/data/KEY``, where the key is a digest of everything it is made from: a changed source is
another key. So what is there and complete is what is asked for, and what was cut short is finished where it was begun.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client

from daskfs.engine.data.ingest import IngestProgress, ingest
from daskfs.engine.data.reorder import transpose
from daskfs.engine.data.split import split
from daskfs.jit import COMPILING, is_cold
from daskfs.job.selecting import must_transpose
from daskfs.job.tables import Ingest, Job
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import ROOT
from daskfs.store.ingest.plan import content_digest
from daskfs.store.ingest.sources import find_sources
from daskfs.store.places.location import Location

DATA = "data"
Told = Callable[[str], None]
Shown = Callable[[], AbstractContextManager[Callable[[IngestProgress], None]]]
Counted = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


class _NotThereError(Exception):
    """Something would have to be made first; only `Preparation.found` sees it."""


@dataclass(frozen=True)
class Datasets:
    """What a selection is made from, and what it is judged by."""

    train: Dataset
    test: Dataset | None
    key: str | None
    """Of the folder they lie in; None if none of them is the job's own."""


@dataclass(frozen=True)
class Preparation:
    """How a job gets its datasets.

    Parameters
    ----------
    job, out
        The job, and the folder of all it makes.
    client
        The cluster to use; None for this process.
    tell
        Called with a line for every step.
    there
        Called with the name of a step whose output is there already, and where.
    shown, counted
        Show the progress of an ingest, and of whatever else takes long.
    only_looks
        Make nothing, see `found`.
    """

    job: Job
    out: Location
    client: Client | None
    tell: Told
    there: Callable[[str, str], None]
    shown: Shown
    counted: Counted
    only_looks: bool = False

    def check(self) -> None:
        """Raise what is wrong with the job's sources or datasets, before anything is written."""
        if self.job.data is not None:
            for url in filter(None, (self.job.data.train, self.job.data.test)):
                open_dataset(url, self.job.storage)
        if self.job.ingest is not None:
            self._key_of_sources(self.job.ingest)

    def ingested(self) -> Datasets:
        """The datasets as they are given, or as they come out of the sources."""
        if self.job.data is not None:
            test = self.job.data.test and open_dataset(self.job.data.test, self.job.storage)
            return Datasets(open_dataset(self.job.data.train, self.job.storage), test or None, None)
        assert self.job.ingest is not None
        key = self._key_of_sources(self.job.ingest)
        train = self._ingested(self.job.ingest.sources, self._place(key, "ingested.zarr"))
        others = self.job.ingest.test_sources
        return Datasets(train, self._ingested(others, self._place(key, "test.zarr")) if others else None, key)

    def arranged(self, found: Datasets) -> Datasets:
        """The same, split if the job says so, and in columns if its algorithm reads them."""
        train, test, key = found.train, found.test, found.key
        if self.job.split is not None:
            key = key_of([key, train.digest, self.job.split.model_dump()])
            train, test = self._split(train, key)
        if must_transpose(train, self.job.select.made):
            key = key or key_of([train.digest])
            train = self._in_columns(train, self._place(key, "columns.zarr"))
        return Datasets(train, test, key)

    def found(self) -> Datasets | None:
        """What `arranged` would give, if it is all there: of the sources and datasets as they are now."""
        looking = replace(self, only_looks=True, there=lambda step, where: None)
        try:
            return looking.arranged(looking.ingested())
        except _NotThereError:
            return None

    def _before_making(self) -> None:
        if self.only_looks:
            raise _NotThereError

    def halves(self, dataset: Dataset, place: Location, seed: int) -> tuple[Dataset, Dataset]:
        """The rows of a dataset in two halves that the seed draws."""
        one, other = place.below("one.zarr"), place.below("other.zarr")
        storage = self.job.storage or None
        with self.counted("halves") as progress:
            return split(
                dataset,
                one.url,
                other.url,
                0.5,
                seed=seed,
                client=self.client,
                storage_options=storage,
                progress=progress,
            )

    def drop_others(self, kept: set[str | None]) -> None:
        """Delete datasets of the job that were made from what is no more."""
        for key in self.out.members(DATA) if self.out.exists(DATA) else ():
            if is_key(key) and key not in kept:  # nothing else here is ours
                self.out.delete(f"{DATA}/{key}")

    def _ingested(self, sources: list[str], place: Location) -> Dataset:
        assert self.job.ingest is not None
        if place.exists(ROOT):
            self.there("ingest", place.url)
            return open_dataset(place.url, place.options)
        self._before_making()
        if is_cold(self.job.ingest.made.__module__):
            self.tell(f"ingest: {COMPILING}")
        storage = self.job.storage or None
        with self.shown() as progress:
            dataset = ingest(
                sources,
                place.url,
                client=self.client,
                storage_options=storage,
                source_options=storage,
                progress=progress,
                **{**self.job.ingest.options, "layout": self._layout},
            )
        self.tell(f"ingest: {dataset!r}"[:-1].replace("<daskfs.Dataset ", ""))
        return dataset

    def _split(self, dataset: Dataset, key: str) -> tuple[Dataset, Dataset]:
        assert self.job.split is not None
        train, test = self._place(key, "train.zarr"), self._place(key, "test.zarr")
        if train.exists(ROOT) and test.exists(ROOT):
            self.there("split", test.url)
            return open_dataset(train.url, train.options), open_dataset(test.url, test.options)
        self._before_making()
        with self.counted("split") as progress:
            parts = split(
                dataset,
                train.url,
                test.url,
                self.job.split.test,
                seed=self.job.split.seed,
                client=self.client,
                storage_options=self.job.storage or None,
                progress=progress,
            )
        self.tell(f"split: {parts[0].n_samples:,} rows to select from, {parts[1].n_samples:,} held back")
        return parts

    def _in_columns(self, dataset: Dataset, place: Location) -> Dataset:
        if place.exists(ROOT):
            self.there("transpose", place.url)
            return open_dataset(place.url, place.options)
        self._before_making()
        with self.counted("transpose") as progress:
            storage = self.job.storage or None
            turned = transpose(dataset, place.url, client=self.client, storage_options=storage, progress=progress)
        self.tell(f"transpose: {turned.n_features:,} columns, which {self.job.select.algorithm} reads")
        return turned

    def _place(self, key: str, name: str) -> Location:
        return self.out.below(f"{DATA}/{key}/{name}")

    def _key_of_sources(self, given: Ingest) -> str:
        """Changes when a source does, or how it is read; SourceError if there is none."""
        found = find_sources([*given.sources, *given.test_sources], self.job.storage or None, (self.out.url,))
        return key_of([given.model_dump(mode="json"), self._layout, content_digest(found)])

    @property
    def _layout(self) -> str:
        told = self.job.ingest and self.job.ingest.layout
        return told or self.job.select.made.axis


def key_of(content: Any) -> str:
    """The name of a folder for what is made of this, whatever it is."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]


def is_key(name: str) -> bool:
    """True if a folder of that name can be a job's."""
    return re.fullmatch("[0-9a-f]{12}", name) is not None
