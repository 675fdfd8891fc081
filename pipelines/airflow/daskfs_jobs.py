"""### Several selections: many job files, or one with several numbers of features

Every file is ingested once, files side by side. Selections follow one after the other, since each has the whole Dask
cluster to itself. With `n_select` given, the run of K features is published in `published-K.json`.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from airflow.sdk import Param, dag, task
from daskfs_steps import CHANGES, PATIENCE, SCHEDULER, SELECTION, do, foreseen, published, tell

PARAMS = {
    "jobs": Param(
        type="array",
        items={"type": "string", "minLength": 1},
        minItems=1,
        uniqueItems=True,
        description="Job files: absolute paths, good wherever tasks run.",
    ),
    "n_select": Param(
        [],
        type="array",
        items={"type": "integer", "minimum": 1},
        uniqueItems=True,
        description="Numbers of features, each for a selection of its own; if empty, as in the files.",
    ),
    "scheduler": SCHEDULER,
    "changes": CHANGES,
}


@dag(schedule=None, params=PARAMS, default_args=PATIENCE, catchup=False, tags=["daskfs"], doc_md=__doc__)
def daskfs_jobs() -> None:
    """Many selections."""

    @task
    def files(params: dict[str, Any]) -> list[dict[str, Any]]:
        """What is asked for of every file."""
        return [{**_common(params), "job": job} for job in params["jobs"]]

    @task
    def ingest(asked: dict[str, Any]) -> dict[str, Any]:
        """The datasets of a file."""
        return do("split", asked)

    @task
    def selections(params: dict[str, Any]) -> list[dict[str, Any]]:
        """What is asked for of every selection."""
        return [_asked(params, job, k) for job in params["jobs"] for k in params["n_select"] or [None]]

    @task(outlets=[SELECTION], max_active_tis_per_dagrun=1)
    def select(asked: dict[str, Any], outlet_events: Any) -> dict[str, Any]:
        """A selection, evaluated, reported and published."""
        do("select", asked)
        do("evaluate", asked)
        return published(asked, outlet_events)

    @task
    def compare(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """All runs with their metrics, in the order they were asked for."""
        for run in runs:
            metrics = ", ".join(
                f"{name} {value:.4f}" for name, value in (run["metrics"] or {}).items() if value is not None
            )
            tell(f"{run['published']}: {metrics or 'not evaluated'}")
        return [{key: run[key] for key in ("published", "n_select", "metrics")} for run in runs]

    ingested, asked = ingest.expand(asked=files()), selections()
    ingested >> asked
    compare(select.expand(asked=asked))


def _common(params: dict[str, Any]) -> dict[str, Any]:
    return {key: params[key] for key in ("scheduler", "changes")}


def _asked(params: dict[str, Any], path: str, n_select: int | None) -> dict[str, Any]:
    """A selection of a file's, made known beside the others and not in their place."""
    if n_select is None:
        return {**_common(params), "job": path}
    from daskfs.job.file import load_job
    from daskfs.job.runner import pointer_of

    with foreseen():
        job = load_job(path, params["changes"])
    places = {"publish.to": pointer_of(job).url}
    if job.report.to is not None:
        places["report.to"] = job.report.to
    beside = {key: _numbered(place, n_select) for key, place in places.items()}
    return {**_common(params), "job": path, "n_select": n_select, "changes": {**params["changes"], **beside}}


def _numbered(place: str, number: int) -> str:
    suffix = PurePosixPath(place).suffix
    return f"{place.removesuffix(suffix)}-{number}{suffix}"


daskfs_jobs()
