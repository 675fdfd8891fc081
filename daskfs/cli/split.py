"""daskfs split: a training and a test dataset."""

from __future__ import annotations

import click

from daskfs.engine.cluster.connect import cluster_at
from daskfs.engine.data.shuffle import MEMORY
from daskfs.engine.data.split import split as run_split
from daskfs.observe.progress import count_progress


@click.command()
@click.argument("source", metavar="IN")
@click.argument("train")
@click.argument("test")
@click.option("--test", "fraction", type=float, default=0.2, show_default=True, help="The share of rows for TEST.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which rows.")
@click.option("--shuffle", is_flag=True, help="Both parts in random order, where IN is laid out in rows.")
@click.option("--memory", default=MEMORY, show_default=True, help="What the split may use.")
@click.option("--overwrite", is_flag=True, help="Replace datasets that are there already.")
@click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
def split(
    source: str,
    train: str,
    test: str,
    fraction: float,
    seed: int,
    shuffle: bool,
    memory: str,
    overwrite: bool,
    workers: int | None,
    scheduler: str | None,
) -> None:
    """Write the rows of the dataset IN as two datasets, TRAIN and TEST.

    Rows are drawn at random. Which ones depends on the seed, the share and the number of rows, and on nothing else: two
    copies of a dataset, of whatever kind and layout, are split alike. All else is kept. The same command again finds
    what is done, and completes what was killed.
    """
    with cluster_at(scheduler) as client, count_progress("splitting") as progress:
        parts = run_split(
            source,
            train,
            test,
            fraction,
            seed=seed,
            shuffle=shuffle,
            memory=memory,
            overwrite=overwrite,
            client=client,
            workers=workers,
            progress=progress,
        )
    for dataset in parts:
        click.echo(f"{dataset!r}"[1:-1].removeprefix("daskfs.Dataset "))
