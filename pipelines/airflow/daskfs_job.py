"""### A selection from a job file

Ingest, select, evaluate, report and publish as a job file of `daskfs run` says. Clear or retry any task: what is done
is found done, and an interrupted selection goes on from its checkpoint.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, dag, task
from daskfs_steps import CHANGES, PATIENCE, SCHEDULER, SELECTION, do, published

PARAMS = {
    "job": Param(type="string", minLength=1, description="The job file: an absolute path, good wherever tasks run."),
    "scheduler": SCHEDULER,
    "n_select": Param(None, type=["null", "integer"], minimum=1, description="How many features, if not the file's."),
    "changes": CHANGES,
}


@dag(schedule=None, params=PARAMS, default_args=PATIENCE, catchup=False, tags=["daskfs"], doc_md=__doc__)
def daskfs_job() -> None:
    """One job file."""

    @task
    def ingest(params: dict[str, Any]) -> dict[str, Any]:
        """Datasets from sources, split and laid out as the algorithm reads them."""
        return do("split", params)

    @task
    def select(params: dict[str, Any]) -> dict[str, Any]:
        """The selection itself."""
        return do("select", params)

    @task
    def evaluate(params: dict[str, Any]) -> dict[str, Any]:
        """Selections under other seeds, and scores on rows held back."""
        return do("evaluate", params)

    @task(outlets=[SELECTION])
    def publish(params: dict[str, Any], outlet_events: Any) -> dict[str, Any]:
        """The report, and the pointer to the run that counts from now on."""
        return published(params, outlet_events)

    ingest() >> select() >> evaluate() >> publish()


daskfs_job()
