"""daskfs run: the steps of a job, each done once.

::

    OUT/data/KEY/                the job's datasets, if it makes any
    OUT/runs/KEY/                a run: selection.json, history.zarr, run.json, metrics.json, …, report.html
    OUT/published.json           which run counts

Keys are digests of all that goes in. A step whose output is there is done; a changed source, parameter or seed leads to
another key, and to another run beside the old one, which counts until the new one is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal, get_args

from distributed import Client

from daskfs.algorithms.registry import words_of
from daskfs.engine.checkpoint import describe_algorithm
from daskfs.engine.passes import PassProgress
from daskfs.errors import JobError, OptionError, check_choice, public_url
from daskfs.jit import COMPILING, is_cold
from daskfs.job.data import DATA, Counted, Datasets, Preparation, Shown, Told, is_key, key_of
from daskfs.job.performance import PERFORMANCE, performance_kept
from daskfs.job.selecting import Request
from daskfs.job.tables import Job, Stability
from daskfs.observe.report import check_replaceable as check_report
from daskfs.observe.report import write_report
from daskfs.selection.records import METRICS, RUN_RECORD, SIZES, STABILITY, read_record, without_nan, write_record
from daskfs.selection.run_folder import PUBLISHED, RECORD, publish, resolve_run
from daskfs.selection.run_folder import check_replaceable as check_pointer
from daskfs.selection.selection import Selection
from daskfs.selection.sizes import size_path
from daskfs.selection.stability import Over, stability
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.places.location import Location

Step = Literal["ingest", "split", "select", "stability", "evaluate", "report", "publish"]
RUNS = "runs"
AGAIN = "again"
"""In a run, while it lasts: the same selection once more, for its stability."""


@dataclass(frozen=True)
class Watch:
    """Who is told how a job gets on.

    Parameters
    ----------
    tell
        Called with a line for every step.
    ingesting, selecting
        Show the progress of an ingest, and of a selection.
    counting
        Given what is done, shows how much of it, of how much.
    """

    tell: Told
    ingesting: Shown
    selecting: Callable[[], AbstractContextManager[Callable[[PassProgress], None]]]
    counting: Counted


@dataclass
class JobRun:
    """One execution of a job.

    Parameters
    ----------
    job
        What to do.
    client
        The cluster to use; None for this process.
    watch
        Who is told.
    """

    job: Job
    client: Client | None
    watch: Watch
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._found = False
        self.out = Location(self.job.out, self.job.storage)
        told = self.watch.tell, self._there, self.watch.ingesting, self.watch.counting
        self._preparation = Preparation(self.job, self.out, self.client, *told)

    def check(self) -> None:
        """Raise what stands in the way, before anything is written."""
        if not (self.out.is_empty() or self.out.exists(PUBLISHED) or self._holds_runs_only()):
            raise OptionError(f"{public_url(self.out.url)}: holds something that is no job's; choose another out")
        self._preparation.check()
        check_pointer(pointer_of(self.job))
        if self.job.report.to is not None:
            check_report(self.job.report.to, self.job.storage or None)

    def _holds_runs_only(self) -> bool:
        """True if a job has begun here; others have folders called data and runs, too."""
        there = [folder for folder in (DATA, RUNS) if self.out.exists(folder)]
        return bool(there) and all(is_key(name) for folder in there for name in self.out.members(folder))

    def needs_cluster(self) -> bool:
        """False if all that a cluster helps with is there, as asked for now: datasets, selection, stability."""
        datasets = self._preparation.found()
        if datasets is None:
            return True
        place = self._place(datasets)
        return not place.exists(RECORD) or not self._is_stability_known(place)

    def run(self, until: Step = "publish") -> Location | None:
        """Do what is not done yet, up to a step; the run's folder, if it gets that far."""
        check_choice("until", until, Step)
        steps = list(get_args(Step))
        last = steps.index(until)
        with self.out.one_writer():
            found = self._timed("ingest", self._preparation.ingested)
            if last < steps.index("split"):
                return None
            datasets = self._timed("split", lambda: self._preparation.arranged(found))
            if last < steps.index("select"):
                return None
            place = self._place(datasets)
            selection = self._timed("select", lambda: self._selected(datasets, place))
            self._note_seconds(place)
            todo: dict[str, Callable[[], object]] = {
                "stability": lambda: self._stability(datasets, place, selection),
                "evaluate": lambda: self._evaluate(datasets, place, selection),
                "report": lambda: self._report(place),
                "publish": lambda: self._publish(place),
            }
            for step in steps[3 : last + 1]:
                self._timed(step, todo[step])
                self._note_seconds(place)
            if until == "publish":
                self._preparation.drop_others({found.key, datasets.key})
        return place

    def _place(self, datasets: Datasets) -> Location:
        """The folder of the run that these datasets and the job's algorithm make."""
        select = self.job.select
        test = None if datasets.test is None else datasets.test.digest
        made_of = [datasets.train.digest, test, describe_algorithm(select.made), select.seed, select.synchronous]
        return self.out.below(f"{RUNS}/{key_of(made_of)}")

    def _request(self, dataset: Dataset, place: Location, seed: int) -> Request:
        return Request(dataset, self.job.select.made, place, seed, self.job.select.synchronous)

    def _selected(self, datasets: Datasets, place: Location) -> Selection:
        request = self._request(datasets.train, place, self.job.select.seed)
        if (kept := request.found()) is not None:
            self._there("select", place.url)
            return kept
        request.check()
        self.watch.tell(f"select: memory {request.plan(self.client)}")
        if is_cold(type(request.algorithm).__module__):
            self.watch.tell(f"select: {COMPILING}")
        if request.is_begun():
            self.watch.tell("select: going on with the unfinished run that is there")
        with self._performance(place) as asked:
            selection = self._made(request, **asked)
        self.watch.tell(f"select: {len(selection.features):,} features in {public_url(place.url)}")
        return selection

    @contextmanager
    def _performance(self, place: Location) -> Iterator[dict[str, str]]:
        """Keep Dask's own report, if it is wanted; what the record of the run says of it."""
        if self.client is None or not self.job.report.performance:
            yield {}
            return
        with performance_kept(self.client, place):
            yield {"performance_report": PERFORMANCE}

    def _made(self, request: Request, **asked: str) -> Selection:
        with self.watch.selecting() as progress:
            return request.made(self.client, {"job": self.job.record, **asked}, progress=progress)

    def _stability(self, datasets: Datasets, place: Location, selection: Selection) -> None:
        if (asked := self.job.stability) is None:
            return
        if self._is_stability_known(place):
            self._there("stability", place.url)
            return
        seeds, over = self._repeated(asked)
        found = self._of_halves(datasets, place, seeds) if asked.pairs else self._of_seeds(datasets, place, seeds[1:])
        selections = [] if asked.pairs else [selection]
        for one in found:
            selections.append(one)
            self.watch.tell(f"stability: {len(selections)} of {len(seeds)} {over}")
        write_record(place, STABILITY, without_nan(stability(selections, over).record()))
        place.delete(AGAIN)

    def _repeated(self, asked: Stability) -> tuple[list[int], Over]:
        """The seeds of the selections that are compared, and what else is different about them."""
        first = self.job.select.seed
        seeds = [first + more for more in range(2 * asked.pairs if asked.pairs else 1 + (asked.seeds or 0))]
        return seeds, "halves" if asked.pairs else "seeds"

    def _is_stability_known(self, place: Location) -> bool:
        """True if the run has what is asked for, which may be nothing."""
        if self.job.stability is None:
            return True
        known = read_record(place, STABILITY)
        return known is not None and (known["seeds"], known.get("over")) == self._repeated(self.job.stability)

    def _of_seeds(self, datasets: Datasets, place: Location, seeds: list[int]) -> Iterator[Selection]:
        """The same selection under other seeds."""
        for seed in seeds:
            request = self._request(datasets.train, place.below(f"{AGAIN}/{seed}"), seed)
            yield request.found() or self._made(request)

    def _of_halves(self, datasets: Datasets, place: Location, seeds: list[int]) -> Iterator[Selection]:
        """The same selection from halves of the rows; each pair is there only as long as it is needed."""
        for one, other in zip(seeds[::2], seeds[1::2], strict=True):
            halves = self._preparation.halves(datasets.train, place.below(f"{AGAIN}/halves-{one}"), one)
            for half, seed in zip(halves, (one, other), strict=True):
                request = self._request(half, place.below(f"{AGAIN}/half-{seed}"), seed)
                yield request.found() or self._made(request)
            place.delete(f"{AGAIN}/halves-{one}")

    def _evaluate(self, datasets: Datasets, place: Location, selection: Selection) -> None:
        if (test := datasets.test) is None:
            return
        about: dict[str, Any] = {"dataset": public_url(test.url), "digest": test.digest}
        judged = {**about, "held_back": self.job.split is not None}
        if not _is_of(read_record(place, METRICS), test.digest):
            with self.watch.counting("evaluate") as progress:
                found = selection.evaluate(test, progress=progress)
            write_record(place, METRICS, without_nan({**judged, **found.record()}))
            shown = ", ".join(f"{name} {value:.4f}" for name, value in list(found.metrics.items())[:3])
            self.watch.tell(f"evaluate: {shown} on {found.rows:,} rows held back")
        else:
            self._there("evaluate", place.url)
        with_sizes = self.job.evaluate is None or self.job.evaluate.sizes
        if with_sizes and not _is_of(read_record(place, SIZES), test.digest):
            with self.watch.counting("sizes") as progress:
                path = size_path(selection, datasets.train, test, progress=progress)
            write_record(place, SIZES, without_nan({**about, **path.record()}))
            self.watch.tell("evaluate: score against the number of features")

    def _report(self, place: Location) -> None:
        for out in (None, self.job.report.to) if self.job.report.to else (None,):
            storage = self.job.storage or None
            written = write_report(place.url, out, overwrite=True, storage_options=storage, words_of=words_of)
            self.watch.tell(f"report: {public_url(written)}")

    def _publish(self, place: Location) -> None:
        metrics = read_record(place, METRICS)
        for name, bound in self.job.publish.at_least.items():
            value = (metrics or {}).get("metrics", {}).get(name)
            if value is None or value < bound:
                told = "is not known" if value is None else f"is {value:.4f}"
                raise JobError(
                    f"not published: {name} {told}, at least {bound:g} was asked for; "
                    f"the run is in {public_url(place.url)}"
                )
        pointer = pointer_of(self.job)
        files = [name for name in (RECORD, METRICS, SIZES, STABILITY) if place.exists(name)]
        changed = publish(pointer, place, files, self.job.name)
        self.watch.tell(f"publish: {public_url(pointer.url)}{'' if changed else ', as it was'}")

    def _note_seconds(self, place: Location) -> None:
        """Keep what steps took, beside what the selection took; a step that was found done keeps the time it took."""
        record = read_record(place, RUN_RECORD)
        if record is None:
            return
        known = record.get("steps", {})
        steps = {**self.seconds, **known}
        steps["select"] = max(steps.get("select", 0.0), round(record.get("seconds") or 0.0, 3))  # with interruptions
        if steps != known:
            write_record(place, RUN_RECORD, {**record, "steps": steps})

    def _timed(self, step: str, do: Callable[[], Any]) -> Any:
        begun, self._found = monotonic(), False
        result = do()
        if not self._found:  # what was there already took its time before
            self.seconds[step] = round(monotonic() - begun, 3)
        return result

    def _there(self, step: str, where: str) -> None:
        """Say that what a step makes is there already."""
        self._found = True
        self.watch.tell(f"{step}: there already, {public_url(where)}")


def pointer_of(job: Job) -> Location:
    """The file that says which run of a job counts, as a place."""
    return Location(job.publish.to or f"{Location(job.out, job.storage).url}/{PUBLISHED}", job.storage)


def published_run(out: str, storage: dict[str, Any] | None = None) -> Location | None:
    """The run of a job that counts; None if none was published."""
    location = Location(out, storage)
    found = resolve_run(location)
    return None if found == location else found


def _is_of(record: dict[str, Any] | None, digest: str) -> bool:
    return record is not None and record.get("digest") == digest
