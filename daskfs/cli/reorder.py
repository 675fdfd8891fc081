"""The commands `daskfs shuffle`, `split` and `transpose`, which write a dataset in another order or layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from daskfs.engine.cluster.connect import cluster_at
from daskfs.engine.data.reorder import MEMORY
from daskfs.engine.data.reorder import shuffle as run_shuffle
from daskfs.engine.data.reorder import transpose as run_transpose
from daskfs.engine.data.split import split as run_split
from daskfs.observe.progress import count_progress
from daskfs.store.dataset.dataset import Dataset


def _reorder_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that the commands shuffle, split and transpose have in common."""
    for option in (
        click.option("--scheduler", help="Run on the Dask cluster at this address."),
        click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default."),
        click.option("--overwrite", is_flag=True, help="Replace a dataset that is there already."),
        click.option("--memory", default=MEMORY, show_default=True, help="What the command may use."),
    ):
        command = option(command)
    return command


def _echo(dataset: Dataset) -> None:
    click.echo(f"{dataset!r}"[1:-1].removeprefix("daskfs.Dataset "))


@click.command()
@click.argument("source", metavar="IN")
@click.argument("out")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which order.")
@_reorder_options
def shuffle(source: str, out: str, seed: int, scheduler: str | None, **options: Any) -> None:
    """Write a copy OUT of the dataset IN, which is laid out in rows, with the rows in random order.

    Algorithms that learn row by row, such as MISSION, need rows that are not sorted by class. The order depends only on
    the seed and the number of rows. Labels, row weights, tags and names are kept. A killed shuffle starts over when the
    same command is run again.
    """
    with cluster_at(scheduler) as client, count_progress("shuffling") as progress:
        dataset = run_shuffle(source, out, seed, client=client, progress=progress, **options)
    _echo(dataset)


@click.command()
@click.argument("source", metavar="IN")
@click.argument("train")
@click.argument("test")
@click.option("--test", "fraction", type=float, default=0.2, show_default=True, help="The share of rows for TEST.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which rows.")
@click.option("--shuffle", is_flag=True, help="Both parts in random order, where IN is laid out in rows.")
@_reorder_options
def split(source: str, train: str, test: str, fraction: float, scheduler: str | None, **options: Any) -> None:
    """Write the rows of the dataset IN as two datasets, TRAIN and TEST.

    Rows of TEST are drawn at random, depending only on the seed, the share and the number of rows. Two copies of a
    dataset with different layouts are split in the same way. Labels, row weights, tags and names are kept. The same
    command run again completes an interrupted split.
    """
    with cluster_at(scheduler) as client, count_progress("splitting") as progress:
        parts = run_split(source, train, test, fraction, client=client, progress=progress, **options)
    for dataset in parts:
        _echo(dataset)


@click.command()
@click.argument("rows")
@click.argument("columns")
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), default="lz4", show_default=True)
@_reorder_options
def transpose(rows: str, columns: str, scheduler: str | None, **options: Any) -> None:
    """Write a copy COLUMNS, laid out in columns, of the sparse dataset ROWS, for algorithms that stream columns.

    Labels, row weights and names are kept. A killed transpose starts over when the same command is run again.
    """
    with cluster_at(scheduler) as client, count_progress("transposing") as progress:
        dataset = run_transpose(rows, columns, client=client, progress=progress, **options)
    _echo(dataset)
