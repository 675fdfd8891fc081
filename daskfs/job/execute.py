"""Run a job file from beginning to end: read and check the file, start the Dask cluster, run the steps of the job.

The command `daskfs run` and the Airflow DAGs call the function `execute`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from daskfs.engine.cluster.choose import cluster_for
from daskfs.engine.data.ingest import IngestProgress
from daskfs.engine.passes import PassProgress
from daskfs.engine.sizes import format_bytes
from daskfs.errors import DaskfsError, JobError, OptionError, public_url
from daskfs.job.data import JobListener
from daskfs.job.file import load_job
from daskfs.job.runner import JobRun, JobStep
from daskfs.job.tables import ClusterTable, Job
from daskfs.observe.progress import pass_detail
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    from distributed import Client

LINE_SECONDS = 10.0
"""Seconds between two log lines on the progress of one step."""


@dataclass(frozen=True)
class JobOutcome:
    """The result of running a job: the job, the folder of the selection run, and the seconds of each step."""

    job: Job
    run: Location | None
    """The folder of the selection run, or None if the job stopped before the step "select"."""
    seconds: Mapping[str, float]
    """The time in seconds of every step that was not skipped."""

    def record(self) -> dict[str, Any]:
        """Return a JSON record with the locations of the selection run and report, the metrics and the seconds."""
        if self.run is None:
            return {"job": self.job.name, "run": None, "seconds": dict(self.seconds)}
        url = public_url(self.run.url)
        report = f"{url}/{REPORT}" if self.run.exists(REPORT) else None
        metrics = (read_record(self.run, METRICS) or {}).get("metrics")
        return {"job": self.job.name, "run": url, "report": report, "metrics": metrics, "seconds": dict(self.seconds)}


def execute(
    path: str | os.PathLike[str],
    listener: JobListener | None = None,
    *,
    until: JobStep = "publish",
    changes: Mapping[str, Any] | None = None,
) -> JobOutcome:
    """Run all steps of a job file whose output is missing.

    Parameters
    ----------
    path
        The path of the job file.
    listener
        Callbacks that report the progress, such as ``lines(print)``, by default none.
    until
        The last step to run.
    changes
        Values that replace values of the file, such as ``{"select.n_select": 50, "cluster.scheduler": "tcp://…"}``.
    """
    job, listener = load_job(path, changes), listener or lines(lambda line: None)
    before = JobRun(job, None, listener)
    try:
        before.check()
    except OptionError as error:
        raise _with_key(path, error) from None
    with job_cluster(job.cluster) if before.needs_cluster() else nullcontext() as client:
        announce(client, listener.notify)
        run = JobRun(job, client, listener)
        return JobOutcome(job, run.run(until), run.seconds)


def needs_cluster(path: str | os.PathLike[str], changes: Mapping[str, Any] | None = None) -> bool:
    """Return True if a job has unfinished steps that use a Dask cluster (ingest, split, select or stability)."""
    return JobRun(load_job(path, changes), None, lines(lambda line: None)).needs_cluster()


def _with_key(path: str | os.PathLike[str], error: OptionError) -> DaskfsError:
    """Return an error with the key of the table [ingest] for the flag that an error begins with, as "--label y: …"."""
    flag = re.match(r"--([a-z-]+) ", str(error))
    if flag is None:
        return error
    return JobError(f"{os.fspath(path)}: ingest.{flag[1].replace('-', '_')}: {str(error)[flag.end() :]}")


def announce(client: Client | None, notify: Callable[[str], None]) -> None:
    """Report the dashboard address of a Dask cluster, and whether other machines can reach the cluster.

    If the scheduler runs in this process, add the tab "daskfs" to the dashboard.
    """
    if client is None:
        return
    from daskfs.engine.cluster.start import exposed_addresses  # here, since they import Dask
    from daskfs.observe.dashboard import PAGE, enable_for, is_enabled, is_here, link_of

    if exposed := exposed_addresses(client.cluster):
        notify(f"note: other machines can reach the {' and the '.join(exposed)}")
    if not (link := link_of(client)):
        return
    here = is_here(client.cluster)
    has_page = enable_for(client.cluster) if here else is_enabled(client)
    if has_page:
        link = f"{link.removesuffix('/status')}/{PAGE}"
    notify(f"dashboard: {link}")
    if here and not has_page:  # the log of a scheduler in this process is not shown anywhere
        notify(f"note: the tab {PAGE!r} cannot be added to the dashboard of this version of Dask")


@contextmanager
def job_cluster(cluster: ClusterTable) -> Iterator[Client | None]:
    """Yield a client of the Dask cluster of a job file, by default a local cluster, or None if the job is serial."""
    if cluster.start is not None:
        from daskfs.engine.cluster.start import cluster_of_class

        with cluster_of_class(cluster.start, cluster.arguments, cluster.workers, cluster.adapt) as client:
            yield client
        return
    with cluster_for(cluster.scheduler, cluster.serial, cluster.processes) as client:
        yield client


def lines(notify: Callable[[str], None]) -> JobListener:
    """Return a listener that logs a line for every step, and a progress line every ten seconds during a step."""

    def showing(line: Callable[..., str]) -> Callable[..., AbstractContextManager[Callable[..., None]]]:
        @contextmanager
        def shown(*step: str) -> Iterator[Callable[..., None]]:
            due = _due()
            yield lambda *now: notify(line(*step, *now)) if due() else None

        return shown

    counting = showing(lambda what, done, total: f"{what}: {done:,} of {total:,}")
    return JobListener(notify, showing(_ingest_line), showing(_pass_line), counting)


def _due() -> Callable[[], bool]:
    """Return a function that returns True at most once every `LINE_SECONDS` seconds."""
    last = monotonic()

    def due() -> bool:
        nonlocal last
        if monotonic() - last < LINE_SECONDS:
            return False
        last = monotonic()
        return True

    return due


def _ingest_line(now: IngestProgress) -> str:
    return f"ingest: {format_bytes(now.bytes_done)} of {format_bytes(now.bytes)}, {now.rows:,} rows"


def _pass_line(now: PassProgress) -> str:
    return f"select: pass {now.number}  {pass_detail(now)}"
