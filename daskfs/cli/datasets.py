"""The commands `daskfs ingest`, `info` and `verify`, which write, describe and check a dataset."""

from __future__ import annotations

import json
import sys
from typing import Any, get_args

import click

from daskfs.engine.cluster.connect import cluster_at
from daskfs.engine.data.ingest import ingest as run_ingest
from daskfs.engine.data.verify import verify_dataset
from daskfs.errors import DatasetError, public_url
from daskfs.jit import COMPILING, is_cold
from daskfs.observe.describe import columns_table, describe, info_table, order_remark
from daskfs.observe.progress import count_progress, ingest_progress
from daskfs.observe.terminal import messages, output
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.ingest.formats import FORMATS, make_format
from daskfs.store.ingest.formats.tabular import DATE_PARTS
from daskfs.store.ingest.gaps import Missing


class NumberList(click.ParamType[tuple[int, ...]]):
    """The click type of an option with comma-separated whole numbers."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            return tuple(int(part) for part in str(value).split(",") if part)
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers, such as 6,8,10", param, ctx)


class NameList(click.ParamType[tuple[str, ...]]):
    """The click type of an option with comma-separated names."""

    name = "A,B,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return tuple(part for part in str(value).split(",") if part)


# Options of formats. Names are fields of the classes of formats; `make_format` refuses those that a class lacks.
FORMAT_OPTIONS = [
    click.option(
        "--label", help="csv, parquet: the label's column; fasta: file or header:REGEX; text: folder or column:N."
    ),
    click.option("--labels", type=click.Choice(["auto", "numbers", "strings"]), help="What labels are."),
    click.option("--categorical", type=NameList(), help="csv, parquet: columns whose values are tokens."),
    click.option("--numeric", type=NameList(), help="csv, parquet: columns whose values are numbers."),
    click.option("--dates", type=NameList(), help="csv, parquet: columns whose values are dates."),
    click.option("--date-format", help="csv, parquet: how the texts of --dates are written, such as %d/%m/%Y."),
    click.option("--date-parts", type=NameList(), help=f"csv, parquet: features of dates, {', '.join(DATE_PARTS)}."),
    click.option("--ignore", type=NameList(), help="csv, parquet: columns to leave out."),
    click.option("--include", type=NameList(), help="csv, parquet: features, even if they look like identifiers."),
    click.option(
        "--missing",
        type=click.Choice(get_args(Missing)),
        help="csv, parquet: what becomes of missing numbers. Default: auto, the mean of the column.",
    ),
    click.option("--table", type=click.Choice(["auto", "dense", "sparse"]), help="csv, parquet: kind of dataset."),
    click.option(
        "--dtype", type=click.Choice(["auto", "float32", "float64"]), help="csv, parquet: type of dense values."
    ),
    click.option("--delimiter", help="csv: what separates fields."),
    click.option("--header/--no-header", default=None, help="csv, tsv: whether the first line names the columns."),
    click.option("-k", "--k", type=NumberList(), help="fasta: lengths of k-mers, 1 to 31."),
    click.option(
        "--canonical/--stranded", default=None, help="fasta: count a k-mer and its reverse complement as one."
    ),
    click.option("--position/--no-position", default=None, help="fasta: a k-mer's position is part of the feature."),
    click.option("--read-length", type=int, help="fasta: rows are reads of this length."),
    click.option("--coverage", type=float, help="fasta: how often reads cover a record on average."),
    click.option("--seed", type=int, help="fasta: which reads are drawn; with --shuffle: which order."),
    click.option("--documents", type=click.Choice(["lines", "files"]), help="text: what a document is."),
    click.option("--words", type=NumberList(), help="text: sizes of word n-grams."),
    click.option("--chars", type=NumberList(), help="text: sizes of character n-grams."),
    click.option("--lowercase/--keep-case", default=None, help="text: whether case matters."),
    click.option("--weighting", type=click.Choice(["count", "binary", "unit"]), help="fasta, text: values of a row."),
]


def _format_options(command: Any) -> Any:
    for option in reversed(FORMAT_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.argument("out")
@click.option(
    "--format", "-f", "format_name", required=True, type=click.Choice([*FORMATS, "libsvm"]), help="Source format."
)
@click.option("--layout", type=click.Choice(["columns", "rows", "both"]), default="columns", help="Cut of dense data.")
@click.option("--memory", help="What the ingest may use, such as 512MB.")
@click.option("--on-bad-line", type=click.Choice(["error", "skip"]), default="error", show_default=True)
@click.option(
    "--max-bad-lines", type=int, default=1000, show_default=True, help="With skip: more than this is an error."
)
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), help="Default: none (dense), lz4 (sparse).")
@click.option("--like", help="A dataset of the same columns: same kinds of columns, gaps filled with its numbers.")
@click.option(
    "--order",
    type=click.Choice(["auto", "as-is"]),
    default="auto",
    show_default=True,
    help="auto: rows whose labels come in runs are shuffled (in datasets laid out in rows).",
)
@click.option("--shuffle", is_flag=True, help="Rows in random order in any case, as daskfs shuffle gives them.")
@click.option("--overwrite", is_flag=True, help="Replace a dataset, or start over instead of resuming.")
@click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
@click.option("--json", "as_json", is_flag=True, help="For machines: what daskfs info --json prints.")
@_format_options
def ingest(
    sources: tuple[str, ...],
    out: str,
    format_name: str,
    layout: Any,
    memory: str | None,
    on_bad_line: Any,
    max_bad_lines: int,
    compression: Any,
    like: str | None,
    order: Any,
    shuffle: bool,
    overwrite: bool,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
    **format_options: Any,
) -> None:
    """Write SOURCES (paths, folders, globs, URLs; plain or .gz .bz2 .xz .zst) as the dataset OUT.

    Run the same command again to resume a killed ingest.
    """
    options = {name: value for name, value in format_options.items() if value is not None}
    seed: bool | int = options.get("seed", 0) if shuffle else False
    if shuffle and format_name != "fasta":
        options.pop("seed", None)  # the only format that draws rows
    if messages.is_terminal and is_cold(type(make_format(format_name, options)).__module__):
        messages.print(COMPILING)
    with cluster_at(scheduler) as client, ingest_progress() as progress:
        dataset = run_ingest(
            sources,
            out,
            format_name,
            layout=layout,
            memory=memory,
            on_bad_line=on_bad_line,
            max_bad_lines=max_bad_lines,
            compression=compression,
            like=like,
            order=order,
            shuffle=seed,
            overwrite=overwrite,
            client=client,
            workers=workers,
            progress=progress,
            **options,
        )
    left_out = dataset.attributes["made"].get("bad_lines", 0)
    if left_out:
        messages.print(f"[yellow]{left_out:,} bad lines were left out[/]")
    if (remark := order_remark(dataset)) is not None:
        messages.print(remark)
    if dropped := dataset.attributes["made"].get("dropped"):
        messages.print(f"[yellow]{dropped:,} rows with missing values were left out[/]")
    if as_json:
        click.echo(json.dumps(describe(dataset), indent=1))
        return
    if (columns := columns_table(dataset.attributes)) is not None:
        messages.print(columns)
    click.echo(f"{dataset!r}"[1:-1].removeprefix("daskfs.Dataset "))


@click.command()
@click.argument("dataset")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def info(dataset: str, as_json: bool) -> None:
    """Show shape, labels, density, sizes and chunks of DATASET, and the origin of its feature names."""
    facts = describe(open_dataset(dataset))
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    output.print(info_table(facts))
    if (columns := columns_table(facts)) is not None:
        output.print(columns)


@click.command()
@click.argument("dataset")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
def verify(dataset: str, as_json: bool, workers: int | None, scheduler: str | None) -> None:
    """Compare every chunk of DATASET with its checksum, and exit with code 2 if a chunk is damaged."""
    chunks = sum(spec.n_chunks for spec in open_dataset(dataset).content.values())
    with cluster_at(scheduler) as client, count_progress("checking") as progress:
        damage = verify_dataset(dataset, client=client, workers=workers, progress=progress)
    if as_json:
        damaged = [{"chunk": chunk.key, "reason": chunk.reason} for chunk in damage]
        click.echo(json.dumps({"chunks": chunks, "damaged": damaged}, indent=1))
        sys.exit(2 if damage else 0)
    for chunk in damage[:20]:
        click.echo(f"{public_url(dataset)}: chunk {chunk.key}: {chunk.reason}", err=True)
    if damage:
        raise DatasetError(f"{dataset}: {len(damage)} of {chunks} chunks are damaged; ingest the data again")
    click.echo(f"{public_url(dataset)}: {chunks:,} chunks, all as they were written")
