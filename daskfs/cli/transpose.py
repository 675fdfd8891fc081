"""daskfs transpose: a sparse dataset in columns."""

from __future__ import annotations

from typing import Any

import click

from daskfs.engine.data.transpose import transpose as run_transpose
from daskfs.observe.progress import count_progress


@click.command()
@click.argument("rows")
@click.argument("columns")
@click.option("--memory", default="512MB", show_default=True, help="What the transpose may use.")
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), default="lz4", show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace a dataset that is there already.")
def transpose(rows: str, columns: str, memory: str, compression: Any, overwrite: bool) -> None:
    """Write the sparse dataset ROWS once more as COLUMNS, for algorithms that stream columns.

    Labels, row weights and names are kept. A killed transpose starts over when the same command is run again.
    """
    with count_progress("transposing") as progress:
        dataset = run_transpose(
            rows, columns, memory=memory, compression=compression, overwrite=overwrite, progress=progress
        )
    click.echo(f"{dataset!r}"[1:-1].removeprefix("daskfs.Dataset "))
