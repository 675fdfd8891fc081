"""The commands `daskfs show`, `evaluate`, `predict` and `report` on the result of a selection run."""

from __future__ import annotations

import json

import click

from daskfs.algorithms.registry import words_of
from daskfs.cli.types import PATH
from daskfs.errors import public_url
from daskfs.observe.progress import count_progress
from daskfs.observe.tables import (
    baseline_lines,
    class_table,
    feature_table,
    metric_table,
    selection_lines,
    selection_record,
    size_table,
    target_table,
    terminal_table,
)
from daskfs.observe.terminal import output, printable, warnings_as_notes
from daskfs.selection.profiles import feature_profiles
from daskfs.selection.records import METRICS, PROFILES, SIZES, without_nan, write_record
from daskfs.selection.run_folder import resolve_run
from daskfs.selection.selection import Selection, load_selection
from daskfs.selection.sizes import size_path
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.places.location import Location

TOP = 20
MOST_CLASSES = 50  # rows of a table


@click.command()
@click.argument("run", type=PATH)
@click.option("--top", type=click.IntRange(0), help=f"How many features; {TOP} by default, all with --json.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def show(run: str, top: int | None, as_json: bool) -> None:
    """Show the features that RUN selected, most important first, and a summary of every pass over the data."""
    print_selection(load_selection(run), as_json, top)


def print_selection(selection: Selection, as_json: bool, top: int | None = None) -> None:
    """Print the `top` most important features of a selection and lines about the selection, or all of it as JSON."""
    if as_json:
        click.echo(json.dumps(selection_record(selection, top), indent=1, allow_nan=False))
        return
    print_features(selection, TOP if top is None else top)
    for line in selection_lines(selection):
        output.print(printable(line), markup=False, soft_wrap=True)


def print_features(selection: Selection, top: int) -> None:
    """Print a table of the `top` most important features of a selection."""
    output.print(terminal_table(feature_table(selection, top)))
    if len(selection.features) > top:
        output.print(f"… and {len(selection.features) - top:,} more")


@click.command()
@click.argument("run", type=PATH)
@click.argument("dataset", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="For machines; what cannot be told is null.")
@click.option(
    "--sizes", "train", metavar="TRAIN", type=PATH, help="Score the first 1, 2, 3, … features too, refitted on TRAIN."
)
@click.option(
    "--keep", is_flag=True, help=f"Keep it in RUN, for the report: {METRICS}, {PROFILES}, with --sizes {SIZES}."
)
def evaluate(run: str, dataset: str, as_json: bool, train: str | None, keep: bool) -> None:
    """Evaluate the predictions of the model of RUN for DATASET against the labels of DATASET.

    Metrics for classes are accuracy, balanced accuracy, log loss (scores are taken as log-odds, as for the losses
    logistic and softmax), ROC AUC and average precision (of the second of two classes, or the mean over several
    classes). Metrics for real targets are R², mean squared and mean absolute error, of several targets their means and
    those of every target. Row weights are taken into account.
    Intervals are 95 % confidence intervals of the metrics.

    With --sizes, the dataset that RUN was selected from, also show balanced accuracy or R² against the number of
    features, for about twenty numbers of the most important features.

    With --keep, the report also shows how the most important features differ between classes or go with the target, in
    TRAIN if it is given, or else in DATASET.
    """
    selection, data = load_selection(run), open_dataset(dataset)
    fitted_on = None if train is None else open_dataset(train)
    with warnings_as_notes(), count_progress("evaluating") as progress:
        evaluation = selection.evaluate(data, progress=progress)
    record = {"dataset": public_url(dataset), "digest": data.digest, **evaluation.record()}
    sizes = None
    if fitted_on is not None:
        with warnings_as_notes(), count_progress("sizes") as progress:
            sizes = size_path(selection, fitted_on, data, progress=progress).record()
    if keep:
        place = resolve_run(Location(run))
        write_record(place, METRICS, {**record, "curves": without_nan(evaluation.curves)})
        with warnings_as_notes(), count_progress("profiles") as progress:
            write_record(place, PROFILES, feature_profiles(selection, fitted_on or data, progress))
        if sizes is not None:
            write_record(place, SIZES, sizes)
    if as_json:
        shown = {"run": public_url(run), **record, **({} if sizes is None else {"sizes": sizes})}
        click.echo(json.dumps(shown, indent=1, allow_nan=False))
        return
    tables = [metric_table(record, selection.classes), class_table(record, MOST_CLASSES, "--json")]
    tables += [target_table(record, MOST_CLASSES, "--json")]
    tables += [size_table(sizes)] if sizes else []
    for table in filter(None, tables):
        output.print(terminal_table(table))
    for line in baseline_lines(record):
        output.print(printable(line), markup=False, soft_wrap=True)
    unknown = f", {evaluation.unknown_rows:,} with labels it does not know" if evaluation.unknown_rows else ""
    rows = f"{evaluation.rows:,} rows{', weighted' if evaluation.weighted else ''}{unknown}"
    output.print(printable(f"{public_url(run)} on {public_url(dataset)}: {rows}"), markup=False, soft_wrap=True)


@click.command()
@click.argument("run", type=PATH)
@click.argument("dataset", type=PATH)
@click.option(
    "--out", type=PATH, required=True, help="Where predictions and scores go: a Zarr group that xarray opens."
)
@click.option("--overwrite", is_flag=True, help="Replace predictions that are there already.")
@click.option("--json", "as_json", is_flag=True, help="For machines: where they are, and of how many rows.")
def predict(run: str, dataset: str, out: str, overwrite: bool, as_json: bool) -> None:
    """Write the predictions and scores of the model of RUN for every row of DATASET to --out."""
    selection, data = load_selection(run), open_dataset(dataset)
    with warnings_as_notes(), count_progress("predicting") as progress:
        selection.write_predictions(data, out, overwrite=overwrite, progress=progress)
    if as_json:
        places = {"run": run, "dataset": dataset, "predictions": out}
        record = {**{name: public_url(url) for name, url in places.items()}, "rows": data.n_samples}
        click.echo(json.dumps(record, indent=1))
    else:
        click.echo(f"{data.n_samples:,} predictions in {printable(public_url(out))}")


@click.command()
@click.argument("run", type=PATH)
@click.option("-o", "--out", type=PATH, help="The file or URL to write; report.html in RUN by default.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is not the run's own report.")
@click.option("--json", "as_json", is_flag=True, help="For machines: where it is.")
def report(run: str, out: str | None, overwrite: bool, as_json: bool) -> None:
    """Write a report of RUN as one self-contained HTML file that needs no network.

    The report shows the selected features and, if available, metrics and curves on unseen data and how features differ
    between classes (daskfs evaluate --keep), score against number of features, stability, passes over the data, memory,
    cost, and commands to reproduce the run.
    """
    from daskfs.observe.report import write_report  # Jinja takes a while that others need not wait for

    written = write_report(run, out, overwrite=overwrite, words_of=words_of)
    if as_json:
        click.echo(json.dumps({"report": public_url(written)}))
    else:
        click.echo(f"report in {printable(public_url(written))}")
