"""daskfs evaluate, daskfs predict: how good a run's selection is on a dataset, and what it says of every row."""

from __future__ import annotations

import json

import click

from daskfs.errors import public_url
from daskfs.observe.progress import count_progress
from daskfs.observe.tables import class_table, evaluation_line, metric_table, size_table
from daskfs.observe.terminal import output, printable, warnings_as_notes
from daskfs.selection.records import METRICS, SIZES, write_record
from daskfs.selection.run_folder import resolve_run
from daskfs.selection.selection import load_selection
from daskfs.selection.sizes import size_path
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.places.location import Location


@click.command()
@click.argument("run")
@click.argument("dataset")
@click.option("--json", "as_json", is_flag=True, help="For machines; what cannot be told is null.")
@click.option("--sizes", "train", metavar="TRAIN", help="Score the first 1, 2, 3, … features too, refitted on TRAIN.")
@click.option("--keep", is_flag=True, help=f"Keep it in RUN, for the report: {METRICS}, and {SIZES} with --sizes.")
def evaluate(run: str, dataset: str, as_json: bool, train: str | None, keep: bool) -> None:
    """Judge what RUN selected by its predictions for DATASET, whose labels are the truth.

    Classes: accuracy, balanced accuracy, log loss (scores taken for log-odds, which those of the losses logistic and
    softmax are), ROC AUC and average precision (of two classes: the second; of several: the mean). Real targets: R²,
    mean squared and mean absolute error. Row weights count. Intervals cover, 95 times in 100, what the metric would be
    on all rows there could be.

    With --sizes, the dataset that RUN was selected from, also how many features are enough: balanced accuracy or R² of
    the first ones, for about twenty numbers of them.
    """
    selection, data = load_selection(run), open_dataset(dataset)
    fitted_on = None if train is None else open_dataset(train)
    with warnings_as_notes(), count_progress("evaluating") as progress:
        found = selection.evaluate(data, progress=progress)
    record, path = {"dataset": public_url(dataset), "digest": data.digest, **found.record()}, None
    if fitted_on is not None:
        with warnings_as_notes(), count_progress("sizes") as progress:
            path = size_path(selection, fitted_on, data, progress=progress)
    if keep:
        place = resolve_run(Location(run))
        write_record(place, METRICS, record)
        if path is not None:
            write_record(place, SIZES, path.record())
    if as_json:
        shown = {"run": public_url(run), **record, **({} if path is None else {"sizes": path.record()})}
        click.echo(json.dumps(shown, indent=1, allow_nan=False))
        return
    output.print(metric_table(found))
    for table in (class_table(found), None if path is None else size_table(path)):
        if table is not None:
            output.print(table)
    output.print(printable(evaluation_line(found, public_url(dataset), public_url(run))), markup=False, soft_wrap=True)


@click.command()
@click.argument("run")
@click.argument("dataset")
@click.option("--out", required=True, help="Where predictions and scores go: a Zarr group that xarray opens.")
@click.option("--overwrite", is_flag=True, help="Replace predictions that are there already.")
@click.option("--json", "as_json", is_flag=True, help="For machines: where they are, and of how many rows.")
def predict(run: str, dataset: str, out: str, overwrite: bool, as_json: bool) -> None:
    """Write the predictions of what RUN selected for every row of DATASET, and the scores behind them, to --out."""
    selection, data = load_selection(run), open_dataset(dataset)
    with warnings_as_notes(), count_progress("predicting") as progress:
        selection.write_predictions(data, out, overwrite=overwrite, progress=progress)
    if as_json:
        made = {"run": run, "dataset": dataset, "predictions": out}
        click.echo(
            json.dumps({**{name: public_url(url) for name, url in made.items()}, "rows": data.n_samples}, indent=1)
        )
    else:
        click.echo(f"{data.n_samples:,} predictions in {printable(public_url(out))}")
