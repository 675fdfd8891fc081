"""daskfs evaluate, daskfs predict: how good a run's selection is on a dataset, and what it says of every row."""

from __future__ import annotations

import json

import click

from daskfs.observe.evaluated import class_table, evaluation_line, metric_table
from daskfs.observe.progress import count_progress
from daskfs.observe.terminal import output, printable, remarks_told
from daskfs.selection import load_selection
from daskfs.store.dataset import open_dataset
from daskfs.store.saved import public_url


@click.command(short_help="Say how good a selection is on a dataset.")
@click.argument("run")
@click.argument("dataset")
@click.option("--json", "as_json", is_flag=True, help="For machines; what cannot be told is null.")
def evaluate(run: str, dataset: str, as_json: bool) -> None:
    """Judge what RUN selected by its predictions for DATASET, whose labels are the truth.

    Classes: accuracy, balanced accuracy, log loss (scores taken for log-odds, which those of the losses logistic and
    softmax are), ROC AUC and average precision (of two classes: the second; of several: the mean). Real targets: R²,
    mean squared and mean absolute error. Row weights count.
    """
    selection, data = load_selection(run), open_dataset(dataset)
    with remarks_told(), count_progress("evaluating") as progress:
        found = selection.evaluate(data, progress=progress)
    if as_json:
        record = {"run": public_url(run), "dataset": public_url(dataset), **found.record()}
        click.echo(json.dumps(record, indent=1, allow_nan=False))
        return
    output.print(metric_table(found))
    if (classes := class_table(found)) is not None:
        output.print(classes)
    output.print(printable(evaluation_line(found, dataset, run)), markup=False, soft_wrap=True)


@click.command(short_help="Predict every row of a dataset.")
@click.argument("run")
@click.argument("dataset")
@click.option("--out", required=True, help="Where predictions and scores go: a Zarr group that xarray opens.")
@click.option("--overwrite", is_flag=True, help="Replace predictions that are there already.")
def predict(run: str, dataset: str, out: str, overwrite: bool) -> None:
    """Write the predictions of what RUN selected for every row of DATASET, and the scores behind them, to --out."""
    selection, data = load_selection(run), open_dataset(dataset)
    with remarks_told(), count_progress("predicting") as progress:
        selection.write_predictions(data, out, overwrite=overwrite, progress=progress)
    click.echo(f"{data.n_samples:,} predictions in {printable(out)}")
