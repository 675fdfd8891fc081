"""The steps of a job, from ingest to publish, where finished steps are skipped.

::

    OUT/data/KEY/                the datasets of the job, if it writes any
    OUT/runs/KEY/                a selection run: selection.json, history.zarr, run.json, metrics.json, …, report.html
    OUT/published.json           the key of the published selection run

Keys are digests of all inputs. A step whose output exists is skipped. A changed source, parameter or seed gives another
key and so a new selection run, while the old selection run stays published until the new selection run is published.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal, get_args

import numpy as np

from daskfs.algorithms.registry import registrations, words_of
from daskfs.engine.checkpoint import describe_algorithm
from daskfs.engine.run import halves_at_once, select, select_from_halves
from daskfs.errors import NotPublished, OptionError, check_choice, public_url
from daskfs.jit import COMPILING, announced, is_cold
from daskfs.job.data import DATA, Datasets, DataSteps, is_key, key_of
from daskfs.job.request import Request, must_transpose
from daskfs.job.tables import Job, StabilityTable
from daskfs.observe.report import check_replaceable as check_report
from daskfs.observe.report import write_report
from daskfs.selection.profiles import columns_used, feature_profiles
from daskfs.selection.records import (
    METRICS,
    PROFILES,
    RUN_RECORD,
    SIZES,
    STABILITY,
    read_record,
    without_nan,
    write_record,
)
from daskfs.selection.run_folder import PUBLISHED, RECORD, publish
from daskfs.selection.run_folder import check_replaceable as check_pointer
from daskfs.selection.selection import Selection
from daskfs.selection.sizes import size_path
from daskfs.selection.stability import Over, Stability, sentence_on_halves, stability
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.places.location import Location

JobStep = Literal["ingest", "split", "select", "stability", "evaluate", "report", "publish"]
STEPS: tuple[JobStep, ...] = get_args(JobStep)
RUNS = "runs"
AGAIN = "again"
"""The subfolder of a selection run for repeated selections, from which the stability is computed."""
PERFORMANCE = "performance.html"


@dataclass
class JobRun(DataSteps):
    """One execution of a job, which runs the steps whose output is missing."""

    seconds: dict[str, float] = field(default_factory=dict)
    """The time in seconds of every step that was not skipped."""

    def check(self) -> None:
        """Raise an error if the job cannot run, before anything is written."""
        check_folder(self.out)
        self.check_sources()
        check_pointer(pointer_of(self.job))
        if self.job.report.to is not None:
            check_report(self.job.report.to, self.storage)

    def needs_cluster(self) -> bool:
        """Return True if a dataset, the selection or the stability of the job is not computed yet."""
        datasets = self.find()
        if datasets is None:
            return True
        place = self._run_folder(datasets)
        return not place.exists(RECORD) or not self._is_stability_known(place)

    def run(self, until: JobStep = "publish") -> Location | None:
        """Run all steps up to `until` whose output is missing, and return the folder of the selection run, if any."""
        check_choice("until", until, JobStep)
        with self.out.one_writer():
            with self._timed("ingest"):
                ingested = self.ingest()
            if until == "ingest":
                return None
            with self._timed("split"):
                datasets = self.split_and_transpose(ingested)
            if until == "split":
                return None
            place = self._run_folder(datasets)
            place.sweep("*")
            with self._timed("select", place):
                selection = self._select(datasets, place)
            todo: dict[str, Callable[[], object]] = {
                "stability": lambda: self._stability(datasets, place, selection),
                "evaluate": lambda: self._evaluate(datasets.with_features(columns_used(selection)), place, selection),
                "report": lambda: self._report(place),
                "publish": lambda: self._publish(place),
            }
            for step in STEPS[3 : STEPS.index(until) + 1]:
                with self._timed(step, place):
                    todo[step]()
            if until == "publish":
                self.drop_others({ingested.key, datasets.key})
        return place

    def _run_folder(self, datasets: Datasets) -> Location:
        """Return the folder of the selection run of the job's algorithm on `datasets`."""
        select = self.job.select
        test = None if datasets.test is None else datasets.test.digest
        inputs = [datasets.train.digest, test, describe_algorithm(select.params), select.seed, select.synchronous]
        inputs += [self.job.order] if self.job.order != "auto" else []
        return self.out.below(f"{RUNS}/{key_of(inputs)}")

    def _request(self, dataset: Dataset, place: Location, seed: int) -> Request:
        select = self.job.select
        return Request(dataset, select.params, place, seed, select.synchronous, self.job.order)

    def _select(self, datasets: Datasets, place: Location) -> Selection:
        request = self._request(datasets.train, place, self.job.select.seed)
        if (finished := request.load_finished()) is not None:
            self.skip("select", place)
            return finished
        request.check()
        if request.algorithm.groups and self.job.split:
            self.listener.notify("note: rows of a group are on both sides of the split, so the score may be too good")
        self.listener.notify(f"select: memory {request.plan(self.client)}")
        if request.algorithm.extra_work:
            self.listener.notify(f"select: {request.algorithm.extra_work}")
        if self.client is not None and is_cold(type(request.algorithm).__module__):
            self.listener.notify(f"select: {COMPILING}")
        if request.is_begun():
            self.listener.notify("select: going on with the unfinished run that is there")
        with self._performance_report(place) as record, announced(self._say("select")):
            selection = self._run(request, **record)
        self.listener.notify(f"select: {len(selection.features):,} features in {public_url(place.url)}")
        return selection

    def _say(self, step: str) -> Callable[[str], None]:
        """Return a function that sends a line on a step to the listener."""
        return lambda line: self.listener.notify(f"{step}: {line}")

    @contextmanager
    def _performance_report(self, place: Location) -> Iterator[dict[str, str]]:
        """Store Dask's performance report of the `with` block if the job requests one, and yield items for run.json."""
        if self.client is None or not self.job.report.performance:
            yield {}
            return
        from distributed import performance_report

        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / PERFORMANCE
            with self.client.as_current(), performance_report(str(page)):
                yield {"performance_report": PERFORMANCE}
            place.write(PERFORMANCE, page.read_bytes())

    def _run(self, request: Request, **record: str) -> Selection:
        with self.listener.selecting() as progress:
            return request.run(self.client, {"job": self.job.record, **record}, progress=progress)

    def _stability(self, datasets: Datasets, place: Location, selection: Selection) -> None:
        if (table := self.job.stability) is None:
            return
        if self._is_stability_known(place):
            self.skip("stability", place)
            return
        seeds, over = self._repetitions(table)
        selections = [] if table.pairs else [selection]
        repeat = self._repeat_on_halves if table.pairs else self._repeat_with_seeds
        selections += repeat(datasets, place, seeds[len(selections) :])
        result = stability(selections, over)
        record = result.record()
        if self._has_false_bounds(datasets.train, result):
            record["false_bounds"] = result.false_bounds()
            self.listener.notify(f"stability: {sentence_on_halves(record['false_bounds'])}")
        write_record(place, STABILITY, without_nan(record))
        place.delete(AGAIN)

    def _has_false_bounds(self, train: Dataset, result: Stability) -> bool:
        """Return whether `Stability.false_bounds` applies to selections by the job's algorithm."""
        select = self.job.select
        is_bound = registrations()[select.algorithm].bounds_false and train.kind == "dense" and not select.params.keep
        return is_bound and (result.over, result.of) == ("halves", "features")

    def _repetitions(self, table: StabilityTable) -> tuple[list[int], Over]:
        """Return the seeds of the selections to compare, and "halves" or "seeds" for the kind of repetition."""
        first = self.job.select.seed
        seeds = [first + more for more in range(2 * table.pairs if table.pairs else 1 + (table.seeds or 0))]
        return seeds, "halves" if table.pairs else "seeds"

    def _is_stability_known(self, place: Location) -> bool:
        """Return True if the stability that the job requests is stored, or if the job does not request stability."""
        if self.job.stability is None:
            return True
        known = read_record(place, STABILITY)
        return known is not None and (known["seeds"], known.get("over")) == self._repetitions(self.job.stability)

    def _repeat_with_seeds(self, datasets: Datasets, place: Location, seeds: list[int]) -> Iterator[Selection]:
        """Yield selections from the same dataset with different seeds."""
        for number, seed in enumerate(seeds, 1):
            request = self._request(datasets.train, place.below(f"{AGAIN}/{seed}"), seed)
            yield request.load_finished() or self._run(request)
            self.listener.notify(f"stability: {number} of {len(seeds)} further seeds")

    def _repeat_on_halves(self, datasets: Datasets, place: Location, seeds: list[int]) -> Iterator[Selection]:
        """Yield selections from pairs of disjoint random halves of the rows, as many as memory allows side by side."""
        select, train = self.job.select, datasets.train
        for of_some in halves_at_once(train, select.params, seeds, self.client, select.synchronous):
            self.listener.notify(f"stability: {len(of_some)} halves in the passes of one selection")
            folder = place.below(f"{AGAIN}/halves-{of_some[0]}-{of_some[-1]}")
            with self.listener.selecting() as progress:
                yield from select_from_halves(
                    train,
                    select.params,
                    of_some,
                    client=self.client,
                    checkpoint=folder.url,
                    synchronous=select.synchronous,
                    progress=progress,
                    order=self.job.order,
                )

    def _evaluate(self, datasets: Datasets, place: Location, selection: Selection) -> None:
        if self.job.report.profiles and not _is_of(read_record(place, PROFILES), datasets.train.digest):
            with self.listener.counting("profiles") as progress:
                write_record(place, PROFILES, feature_profiles(selection, datasets.train, progress))
        if (test := datasets.test) is None:
            return
        about: dict[str, Any] = {"dataset": public_url(test.url), "digest": test.digest}
        record = {**about, "held_back": self.job.split is not None}
        if not _is_of(read_record(place, METRICS), test.digest):
            with self.listener.counting("evaluate") as progress:
                evaluation = selection.evaluate(test, progress=progress)
            record |= {**evaluation.record(), "curves": evaluation.curves, **self._univariate(datasets, selection)}
            write_record(place, METRICS, without_nan(record))
            shown = ", ".join(f"{name} {value:.4f}" for name, value in list(evaluation.metrics.items())[:3])
            self.listener.notify(f"evaluate: {shown} on {evaluation.rows:,} rows held back")
            if evaluation.verdict:
                self.listener.notify(f"evaluate: {evaluation.verdict}")
        else:
            self.skip("evaluate", place)
        with_sizes = (self.job.evaluate is None or self.job.evaluate.sizes) and len(selection.features) > 0
        if with_sizes and not _is_of(read_record(place, SIZES), test.digest):
            with self.listener.counting("sizes") as progress:
                path = size_path(selection, datasets.train, test, progress=progress)
            write_record(place, SIZES, without_nan({**about, **path.record()}))
            self.listener.notify("evaluate: score against the number of features")

    def _univariate(self, datasets: Datasets, selection: Selection) -> dict[str, Any]:
        """Return the item "univariate" of the metrics, for as many features with the best univariate scores.

        The result is empty if the job does not ask for it, if no feature is selected, or if features of these data
        cannot be scored one by one.
        """
        train, test = datasets.train, datasets.test
        assert test is not None
        if not len(selection.features):  # error control reports none
            return {}
        params, count = self.job.select.params, min(len(selection.features), train.meta.n_features)
        algorithm = registrations()["univariate"].algorithm(count, balanced=params.balanced)
        wanted = self.job.evaluate is None or self.job.evaluate.univariate
        if not wanted or isinstance(params, type(algorithm)) or must_transpose(train, algorithm):
            return {}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                other = select(train, algorithm, client=self.client)
                metrics = other.evaluate(test).metrics
        except OptionError:  # row weights, several targets
            return {}
        in_common = None if selection.inputs is not None else len(np.intersect1d(other.features, selection.features))
        return {"univariate": {"features": len(other.features), "in_common": in_common, "metrics": metrics}}

    def _report(self, place: Location) -> None:
        for out in (None, self.job.report.to) if self.job.report.to else (None,):
            written = write_report(place.url, out, overwrite=True, storage_options=self.storage, words_of=words_of)
            self.listener.notify(f"report: {public_url(written)}")

    def _publish(self, place: Location) -> None:
        metrics = read_record(place, METRICS)
        for name, bound in self.job.publish.at_least.items():
            value = (metrics or {}).get("metrics", {}).get(name)
            if value is None or value < bound:
                score = "is not known" if value is None else f"is {value:.4f}"
                raise NotPublished(
                    f"not published: {name} {score}, at least {bound:g} was asked for; "
                    f"the run is in {public_url(place.url)}"
                )
        if metrics is not None and metrics.get("is_useless") and not self.job.publish.even_if_useless:
            raise NotPublished(
                f"not published: {metrics.get('verdict')}; the run is in {public_url(place.url)}; "
                "publish.even_if_useless = true publishes it"
            )
        pointer = pointer_of(self.job)
        files = [name for name in (RECORD, METRICS, PROFILES, SIZES, STABILITY) if place.exists(name)]
        changed = publish(pointer, place, files, self.job.name)
        self.listener.notify(f"publish: {public_url(pointer.url)}{'' if changed else ', as it was'}")

    @contextmanager
    def _timed(self, step: str, place: Location | None = None) -> Iterator[None]:
        """Measure the seconds of a step, and add them to run.json in the folder of the selection run.

        A skipped step keeps its recorded seconds. The seconds of "select" include its interrupted parts.
        """
        begun, self.is_skipped = monotonic(), False
        yield
        if not self.is_skipped:
            self.seconds[step] = round(monotonic() - begun, 3)
        record = None if place is None else read_record(place, RUN_RECORD)
        if place is None or record is None:
            return
        known = record.get("steps", {})
        steps = {**self.seconds, **known}
        steps["select"] = max(steps.get("select", 0.0), round(record.get("seconds") or 0.0, 3))
        if steps != known:
            write_record(place, RUN_RECORD, {**record, "steps": steps})


def check_folder(out: Location) -> None:
    """Raise OptionError if the output folder of a job contains anything but what a job writes."""
    there = [folder for folder in (DATA, RUNS) if out.exists(folder)]
    has_keys_only = bool(there) and all(is_key(name) for folder in there for name in out.members(folder))
    if not (out.is_empty() or out.exists(PUBLISHED) or has_keys_only):
        raise OptionError(f"{public_url(out.url)}: holds something that is no job's; choose another out")


def pointer_of(job: Job) -> Location:
    """Return the location of the file that points to the published selection run of a job."""
    return Location(job.publish.to or f"{Location(job.out, job.storage).url}/{PUBLISHED}", job.storage)


def _is_of(record: dict[str, Any] | None, digest: str) -> bool:
    return record is not None and record.get("digest") == digest
