"""daskfs shuffle: the same rows in random order."""

from __future__ import annotations

import click

from daskfs.engine.cluster.connect import cluster_at
from daskfs.engine.data.shuffle import MEMORY
from daskfs.engine.data.shuffle import shuffle as run_shuffle
from daskfs.observe.progress import count_progress


@click.command()
@click.argument("source", metavar="IN")
@click.argument("out")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which order.")
@click.option("--memory", default=MEMORY, show_default=True, help="What the shuffle may use.")
@click.option("--overwrite", is_flag=True, help="Replace a dataset that is there already.")
@click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
def shuffle(
    source: str, out: str, seed: int, memory: str, overwrite: bool, workers: int | None, scheduler: str | None
) -> None:
    """Write the dataset IN, laid out in rows, once more as OUT with its rows in random order.

    For what learns row by row, as MISSION does, and learns nothing where one class comes after the other. The order
    depends on the seed and on nothing else. Labels, row weights, tags and names are kept. A killed shuffle starts over
    when the same command is run again.
    """
    with cluster_at(scheduler) as client, count_progress("shuffling") as progress:
        dataset = run_shuffle(
            source,
            out,
            seed,
            memory=memory,
            overwrite=overwrite,
            client=client,
            workers=workers,
            progress=progress,
        )
    click.echo(f"{dataset!r}"[1:-1].removeprefix("daskfs.Dataset "))
