"""A job file from beginning to end: read, checked, given a cluster, run. What `daskfs run` and Airflow call."""

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
from daskfs.job.file import load_job
from daskfs.job.runner import JobRun, Step, Watch
from daskfs.job.tables import Cluster, Job
from daskfs.observe.dashboard import PAGE, enable_for, is_enabled, is_here
from daskfs.observe.progress import pass_detail
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.store.places.location import Location

LINE_SECONDS = 10.0
"""Between two lines about a step that goes on, in a log."""


@dataclass(frozen=True)
class Done:
    """What became of a job."""

    job: Job
    run: Location | None
    """The folder of the run; None if it did not get that far."""
    seconds: Mapping[str, float]
    """What every step took, those that were done already included."""

    def record(self) -> dict[str, Any]:
        """The same for machines, as small JSON: where the run and its report are, and its metrics."""
        if self.run is None:
            return {"job": self.job.name, "run": None, "seconds": dict(self.seconds)}
        url = public_url(self.run.url)
        report = f"{url}/{REPORT}" if self.run.exists(REPORT) else None
        metrics = (read_record(self.run, METRICS) or {}).get("metrics")
        return {"job": self.job.name, "run": url, "report": report, "metrics": metrics, "seconds": dict(self.seconds)}


def execute(
    path: str | os.PathLike[str],
    watch: Watch | None = None,
    *,
    until: Step = "publish",
    changes: Mapping[str, Any] | None = None,
) -> Done:
    """Run a job file; whatever is done already is not done again.

    Parameters
    ----------
    path
        The file.
    watch
        Who is told how it gets on; nobody by default.
    until
        The last step to do.
    changes
        Keys with other values than in the file, such as ``{"select.n_select": 50, "cluster.scheduler": "tcp://…"}``.
    """
    job, watch = load_job(path, changes), watch or lines(lambda line: None)
    JobRun(job, None, watch).check()
    with job_cluster(job.cluster) as client:
        announce(client, watch.tell)
        run = JobRun(job, client, watch)
        return Done(job, run.run(until), run.seconds)


def needs_cluster(path: str | os.PathLike[str], changes: Mapping[str, Any] | None = None) -> bool:
    """False if what is left of a job, if anything, is done in this process as well as on a cluster.

    Parameters
    ----------
    path, changes
        As for `execute`.
    """
    return JobRun(load_job(path, changes), None, lines(lambda line: None)).needs_cluster()


def announce(client: Client | None, tell: Callable[[str], None]) -> None:
    """Say where a cluster can be watched, and by whom; one whose scheduler is in this process gets a tab for it."""
    if client is None:
        return
    if exposed := exposed_addresses(client.cluster):
        tell(f"note: other machines can reach the {' and the '.join(exposed)}")
    if not client.dashboard_link:
        return
    link, here = client.dashboard_link, is_here(client.cluster)
    has_page = enable_for(client.cluster) if here else is_enabled(client)
    if has_page:
        link = f"{link.removesuffix('/status')}/{PAGE}"
    tell(f"dashboard: {link}")
    if here and not has_page:  # the log of a scheduler in this process is nowhere to be seen
        tell(f"note: the tab {PAGE!r} cannot be added to the dashboard of this version of Dask")


@contextmanager
def job_cluster(cluster: Cluster) -> Iterator[Client | None]:
    """The cluster that a job file asks for, by default one on this machine; None for this process."""
    if cluster.start is not None:
        with cluster_of_class(cluster.start, cluster.arguments, cluster.workers, cluster.adapt) as client:
            yield client
        return
    with cluster_for(cluster.scheduler, cluster.serial, cluster.processes) as found:
        yield found


def lines(tell: Callable[[str], None]) -> Watch:
    """A watch for logs: a line for every step, and one every ten seconds while a step goes on."""

    @contextmanager
    def ingesting() -> Iterator[Callable[[IngestProgress], None]]:
        due = _due()
        yield lambda now: tell(_ingest_line(now)) if due() else None

    @contextmanager
    def selecting() -> Iterator[Callable[[PassProgress], None]]:
        due = _due()
        yield lambda now: tell(_pass_line(now)) if due() else None

    @contextmanager
    def counting(what: str) -> Iterator[Callable[[int, int], None]]:
        due = _due()
        yield lambda done, total: tell(f"{what}: {done:,} of {total:,}") if due() else None

    return Watch(tell, ingesting, selecting, counting)


def _due() -> Callable[[], bool]:
    said = monotonic()

    def due() -> bool:
        nonlocal said
        if monotonic() - said < LINE_SECONDS:
            return False
        said = monotonic()
        return True

    return due


def _ingest_line(now: IngestProgress) -> str:
    return f"ingest: {format_bytes(now.bytes_done)} of {format_bytes(now.bytes)}, {now.rows:,} rows"


def _pass_line(now: PassProgress) -> str:
    return f"select: pass {now.number}  {pass_detail(now)}"
