"""What the DAGs of daskfs share: how a part of a job is done as a task, what can be asked for, what is retried.

daskfs is imported inside tasks: Airflow reads these files every half minute, which need not load compilers. What passes
between tasks is paths and small JSON.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout

log = logging.getLogger(__name__)

INTERRUPTED = 75
"""The exit code of what goes on when it is run again, as on the command line."""

SELECTION = Asset("daskfs_selection", uri="x-daskfs://selection")
"""Changes whenever a run is published; the event's extra says which, of what job."""

PATIENCE: dict[str, Any] = {
    "retries": 3,
    "retry_delay": timedelta(seconds=float(os.environ.get("DASKFS_RETRY_SECONDS", "30"))),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=15),
    "execution_timeout": timedelta(hours=float(os.environ.get("DASKFS_TASK_HOURS", "24"))),
}
"""Of every task: retried after 30 seconds, 1 minute and 2, since a retry goes on where the last one stopped."""

SCHEDULER = Param(
    None,
    type=["null", "string"],
    pattern=r"^[a-z]+://\S+$",
    description="The Dask scheduler, such as tcp://10.0.0.5:8786; if empty, what [cluster] of the job file says.",
)
CHANGES = Param(
    {},
    type="object",
    propertyNames={"pattern": r"^[a-z_]+(\.[A-Za-z0-9_]+)*$"},
    description='Other values than in the job file, such as {"select.passes": 3}. No secrets: Airflow shows them.',
)


def changes_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked for beside the job file, as `daskfs.job.execute.execute` takes it."""
    changes = dict(asked.get("changes") or {})
    if asked.get("n_select") is not None:
        changes["select.n_select"] = asked["n_select"]
    if asked.get("scheduler") is not None:
        changes["cluster"] = {"scheduler": asked["scheduler"]}
    return changes


def do(until: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Do a job up to a step, its progress in the log; what is done already is found done.

    Parameters
    ----------
    until
        The last step to do, as ``daskfs run --until`` takes it.
    asked
        The "job" (its file), and perhaps "scheduler", "n_select" and "changes".
    """
    from daskfs.job.execute import execute, lines, needs_cluster

    with foreseen():
        changes = changes_of(asked)
        if not needs_cluster(asked["job"], changes):  # then none need be there, or be started
            changes = {key: value for key, value in changes.items() if not key.startswith("cluster.")}
            changes |= {"cluster": {"serial": True}, "report.performance": False}
        return execute(asked["job"], lines(tell), until=until, changes=changes).record()  # type: ignore[arg-type]


def published(asked: Mapping[str, Any], outlet_events: Any) -> dict[str, Any]:
    """Report and publish what a job has selected, and let everybody know who waits for it."""
    from daskfs.errors import public_url
    from daskfs.job.file import load_job
    from daskfs.job.runner import pointer_of

    record = do("publish", asked)
    job = load_job(asked["job"], changes_of(asked))
    where = {"published": public_url(pointer_of(job).url), "run": record["run"], "file": asked["job"]}
    outlet_events[SELECTION].extra = where
    return {**record, **where, "n_select": asked.get("n_select")}


@contextmanager
def foreseen() -> Iterator[None]:
    """Fail at once, in one line, for what no retry makes better; what may pass is left to Airflow to retry.

    Airflow retries a task that exits, and logs of it no more than the exit code; of any exception it logs all frames.
    """
    from daskfs.errors import Busy, DaskfsError, Interrupted, StorageError, Unreachable

    try:
        yield
    except (Interrupted, Busy, StorageError, Unreachable) as stop:
        log.error("%s", _printed(f"interrupted: {stop}"))
        raise SystemExit(INTERRUPTED) from None
    except AirflowTaskTimeout:
        log.error("interrupted: not done in the time that DASKFS_TASK_HOURS gives a task; a retry goes on from here")
        raise SystemExit(INTERRUPTED) from None
    except DaskfsError as error:
        reason = _printed(str(error))
        log.error("%s", reason)
        raise AirflowFailException(reason) from None


def tell(line: str) -> None:
    """A line for the log; nothing in a name can steer whoever reads it."""
    log.info("%s", _printed(line))


def _printed(line: str) -> str:
    from daskfs.errors import redact
    from daskfs.observe.terminal import printable

    return printable(redact(line))
