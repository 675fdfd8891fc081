"""daskfs info, daskfs verify: what a dataset is, and whether it is still whole."""

from __future__ import annotations

import json
import sys

import click

from daskfs.engine.cluster.connect import cluster_at
from daskfs.engine.data.verify import verify_dataset
from daskfs.errors import DatasetError, public_url
from daskfs.observe.describe import describe, info_table
from daskfs.observe.progress import count_progress
from daskfs.observe.terminal import output
from daskfs.store.dataset.dataset import open_dataset


@click.command()
@click.argument("dataset")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def info(dataset: str, as_json: bool) -> None:
    """Show shape, labels, density, sizes and chunks of DATASET, and where its names come from."""
    facts = describe(open_dataset(dataset))
    if as_json:
        click.echo(json.dumps(facts, indent=1))
    else:
        output.print(info_table(facts))


@click.command()
@click.argument("dataset")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
def verify(dataset: str, as_json: bool, workers: int | None, scheduler: str | None) -> None:
    """Read every chunk of DATASET and compare it with its checksum; exit code 2 if any is damaged."""
    chunks = sum(spec.n_chunks for spec in open_dataset(dataset).content.values())
    with cluster_at(scheduler) as client, count_progress("checking") as progress:
        damage = verify_dataset(dataset, client=client, workers=workers, progress=progress)
    if as_json:
        found = [{"chunk": one.key, "reason": one.reason} for one in damage]
        click.echo(json.dumps({"chunks": chunks, "damaged": found}, indent=1))
        sys.exit(2 if damage else 0)
    for one in damage[:20]:
        click.echo(f"{public_url(dataset)}: chunk {one.key}: {one.reason}", err=True)
    if damage:
        raise DatasetError(f"{dataset}: {len(damage)} of {chunks} chunks are damaged; ingest the data again")
    click.echo(f"{public_url(dataset)}: {chunks:,} chunks, all as they were written")
