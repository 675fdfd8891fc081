"""Run a job file from beginning to end: read it, check it, start its cluster, run its steps.

`daskfs run` and the Airflow DAGs call `execute`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from dask.utils import format_bytes
from distributed import Client

from daskfs.engine.cluster.start import cluster_for, cluster_of_class, exposed_addresses
from daskfs.engine.data.ingest import IngestProgress
from daskfs.engine.passes import PassProgress
from daskfs.errors import public_url
from daskfs.job.data import Notify
from daskfs.job.file import load_job
from daskfs.job.runner import JobListener, JobRun, JobStep
from daskfs.job.tables import ClusterTable, Job
from daskfs.observe.dashboard import PAGE, enable_for, is_enabled, is_here
from daskfs.observe.progress import pass_detail
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.store.places.location import Location

LINE_SECONDS = 10.0
"""Seconds between two lines of a log on the progress of one step."""


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job."""

    job: Job
    run: Location | None
    """The folder of the run; None if `until` was an earlier step."""
    seconds: Mapping[str, float]
    """The time of every step that was run."""

    def record(self) -> dict[str, Any]:
        """Return the outcome as JSON: the place of the run and of its report, its metrics, seconds of steps."""
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
    """Run the steps of a job file whose output is missing.

    Parameters
    ----------
    path
        The file.
    listener
        Is told of progress, such as ``lines(print)``; by default nothing is reported.
    until
        The last step to run.
    changes
        Keys with other values than in the file, such as ``{"select.n_select": 50, "cluster.scheduler": "tcp://…"}``.
    """
    job, listener = load_job(path, changes), listener or lines(lambda line: None)
    JobRun(job, None, listener).check()
    with job_cluster(job.cluster) as client:
        announce(client, listener.notify)
        run = JobRun(job, client, listener)
        return JobOutcome(job, run.run(until), run.seconds)


def needs_cluster(path: str | os.PathLike[str], changes: Mapping[str, Any] | None = None) -> bool:
    """Return whether a job has steps left that a cluster is for: ingest, split, select or stability.

    Parameters
    ----------
    path, changes
        As for `execute`.
    """
    return JobRun(load_job(path, changes), None, lines(lambda line: None)).needs_cluster()


def announce(client: Client | None, notify: Notify) -> None:
    """Report the address of a cluster's dashboard, and whether other machines can reach the cluster.

    The dashboard of a scheduler in this process gets the tab "daskfs".
    """
    if client is None:
        return
    if exposed := exposed_addresses(client.cluster):
        notify(f"note: other machines can reach the {' and the '.join(exposed)}")
    if not client.dashboard_link:
        return
    link, here = client.dashboard_link, is_here(client.cluster)
    has_page = enable_for(client.cluster) if here else is_enabled(client)
    if has_page:
        link = f"{link.removesuffix('/status')}/{PAGE}"
    notify(f"dashboard: {link}")
    if here and not has_page:  # the log of a scheduler in this process is not shown anywhere
        notify(f"note: the tab {PAGE!r} cannot be added to the dashboard of this version of Dask")


@contextmanager
def job_cluster(cluster: ClusterTable) -> Iterator[Client | None]:
    """Yield a client of the cluster that a job file asks for, by default one on this machine; None for this process."""
    if cluster.start is not None:
        with cluster_of_class(cluster.start, cluster.arguments, cluster.workers, cluster.adapt) as client:
            yield client
        return
    with cluster_for(cluster.scheduler, cluster.serial, cluster.processes) as client:
        yield client


def lines(notify: Notify) -> JobListener:
    """Return a listener for logs: a line for every step, and one every ten seconds while a step goes on."""

    @contextmanager
    def ingesting() -> Iterator[Callable[[IngestProgress], None]]:
        due = _due()
        yield lambda now: notify(_ingest_line(now)) if due() else None

    @contextmanager
    def selecting() -> Iterator[Callable[[PassProgress], None]]:
        due = _due()
        yield lambda now: notify(_pass_line(now)) if due() else None

    @contextmanager
    def counting(what: str) -> Iterator[Callable[[int, int], None]]:
        due = _due()
        yield lambda done, total: notify(f"{what}: {done:,} of {total:,}") if due() else None

    return JobListener(notify, ingesting, selecting, counting)


def _due() -> Callable[[], bool]:
    """Return a function that is true once in `LINE_SECONDS`."""
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
