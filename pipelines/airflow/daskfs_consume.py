"""### What to do with a selection that was published

Runs whenever a job of daskfs has published one: shows its features in the log and, if the Variable `daskfs_dataset` (or
the Param) names a dataset, writes predictions for it into the folder of the run. A pattern to start from.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, Variable, dag, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from daskfs_steps import PATIENCE, SELECTION, foreseen, tell

PARAMS = {
    "run": Param(None, type=["null", "string"], description="Started by hand: the folder of a job, or of a run."),
    "file": Param(None, type=["null", "string"], description="Its job file, where [storage] says how to reach it."),
    "dataset": Param(None, type=["null", "string"], description="A dataset to predict; if empty, the Variable's."),
    "top": Param(20, type="integer", minimum=1, maximum=1000, description="How many features to show."),
}


@dag(schedule=[SELECTION], params=PARAMS, default_args=PATIENCE, catchup=False, tags=["daskfs"], doc_md=__doc__)
def daskfs_consume() -> None:
    """Whatever was published."""

    @task
    def runs(params: dict[str, Any], triggering_asset_events: Any) -> list[dict[str, Any]]:
        """The runs that were published since the last time, each once."""
        if params["run"]:
            return [{"run": params["run"], "file": params["file"]}]
        found = [event.extra for event in triggering_asset_events[SELECTION]] if triggering_asset_events else []
        if not found:
            raise AirflowFailException("nothing was published; started by hand, this needs the Param run")
        return list({extra["run"]: {key: extra[key] for key in ("run", "file")} for extra in found}.values())

    @task
    def show(run: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """The most important features, in the log."""
        from daskfs.observe.tables import selection_lines, selection_record

        selection = _loaded(run)
        for line in selection_lines(selection):
            tell(line)
        features = selection_record(selection, params["top"])["features"]
        for rank, feature in enumerate(features, 1):
            tell(f"{rank:>5}  {feature['name'][:100]}")
        return {"run": run["run"], "features": len(selection.features), "top": [f["name"][:100] for f in features]}

    @task
    def predict(run: dict[str, Any], params: dict[str, Any]) -> str:
        """Predictions beside the selection they were made with; those that are there already are left."""
        url = params["dataset"] or Variable.get("daskfs_dataset", default=None)
        if not url:
            raise AirflowSkipException("no dataset is named, by the Param dataset or the Variable daskfs_dataset")
        from daskfs.store.dataset.dataset import open_dataset
        from daskfs.store.dataset.layout import ROOT
        from daskfs.store.places.location import Location

        with foreseen():
            selection, storage = _loaded(run), _storage(run)
            dataset = open_dataset(url, storage)
            place = Location(f"{run['run']}/predictions/{dataset.digest[:12]}.zarr", storage)
            if not place.exists(ROOT):
                selection.write_predictions(dataset, place.url, overwrite=True, storage_options=storage)
        tell(f"predictions: {place.url}")
        return place.url

    found = runs()
    show.expand(run=found)
    predict.expand(run=found)


def _storage(run: dict[str, Any]) -> dict[str, Any]:
    from daskfs.job.file import load_job

    return load_job(run["file"]).storage if run["file"] else {}


def _loaded(run: dict[str, Any]) -> Any:
    from daskfs.selection.selection import load_selection

    with foreseen():
        return load_selection(run["run"], _storage(run))


daskfs_consume()
