"""The commands `daskfs ingest`, `info`, `verify`, `shuffle`, `split` and `transpose` on datasets."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, get_args

import click

from daskfs.cli.algorithm_flags import names_as_flags
from daskfs.cli.types import PATH, Choice, with_options
from daskfs.engine.cluster.choose import cluster_at
from daskfs.engine.data.ingest import ingest as run_ingest
from daskfs.engine.data.reorder import MEMORY
from daskfs.engine.data.reorder import shuffle as run_shuffle
from daskfs.engine.data.reorder import transpose as run_transpose
from daskfs.engine.data.split import split as run_split
from daskfs.engine.data.verify import verify_dataset
from daskfs.errors import DatasetError, public_url
from daskfs.jit import announced
from daskfs.observe.describe import columns_table, describe, info_table, order_remark
from daskfs.observe.progress import count_progress, ingest_progress
from daskfs.observe.terminal import messages, output
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.ingest.formats import FORMATS
from daskfs.store.ingest.formats.tabular import DATE_PARTS
from daskfs.store.ingest.gaps import Missing


class ListOf(click.ParamType[tuple[Any, ...]]):
    """The click type of an option with comma-separated whole numbers or names."""

    def __init__(self, kind: type, name: str) -> None:
        self.kind, self.name = kind, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        try:
            return tuple(self.kind(part) for part in str(value).split(",") if part)
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers, such as 6,8,10", param, ctx)


NUMBERS, NAMES = ListOf(int, "N,N,..."), ListOf(str, "A,B,...")
# Options of formats. Names are fields of the classes of formats; `make_format` refuses those that a class lacks.
FORMAT_OPTIONS: dict[str, tuple[Any, str]] = {
    "--label": (
        str,
        "csv, parquet: the label's column, or A,B,... for several targets; fasta: file or header:REGEX; "
        "text: folder or column:N.",
    ),
    "--labels": (["auto", "numbers", "strings"], "What labels are."),
    "--categorical": (NAMES, "csv, parquet: columns whose values are tokens."),
    "--numeric": (NAMES, "csv, parquet: columns whose values are numbers."),
    "--dates": (NAMES, "csv, parquet: columns whose values are dates."),
    "--date-format": (str, "csv, parquet: how the texts of --dates are written, such as %d/%m/%Y."),
    "--date-parts": (NAMES, f"csv, parquet: features of dates, {', '.join(DATE_PARTS)}."),
    "--ignore": (NAMES, "csv, parquet: columns to leave out."),
    "--include": (NAMES, "csv, parquet: features, even if they look like identifiers."),
    "--missing": (
        list(get_args(Missing)),
        "csv, parquet: what becomes of missing numbers. Default: auto, the mean of the column.",
    ),
    "--table": (["auto", "dense", "sparse"], "csv, parquet: kind of dataset."),
    "--dtype": (["auto", "float32", "float64"], "csv, parquet: type of dense values."),
    "--delimiter": (str, "csv: what separates fields."),
    "--header/--no-header": (bool, "csv, tsv: whether the first line names the columns."),
    "-k": (NUMBERS, "fasta: lengths of k-mers, 1 to 31."),
    "--canonical/--stranded": (bool, "fasta: count a k-mer and its reverse complement as one."),
    "--position/--no-position": (bool, "fasta: a k-mer's position is part of the feature."),
    "--read-length": (int, "fasta: rows are reads of this length."),
    "--coverage": (float, "fasta: how often reads cover a record on average."),
    "--seed": (int, "fasta: which reads are drawn; with --shuffle: which order."),
    "--documents": (["lines", "files"], "text: what a document is."),
    "--words": (NUMBERS, "text: sizes of word n-grams."),
    "--chars": (NUMBERS, "text: sizes of character n-grams."),
    "--lowercase/--keep-case": (bool, "text: whether case matters."),
    "--weighting": (["count", "binary", "unit"], "fasta, text: values of a row."),
}
COMPRESSION = Choice(["none", "lz4", "zstd"])
SCHEDULER = click.option("--scheduler", help="Run on the Dask cluster at this address.")
WORKERS = click.option("--workers", type=click.IntRange(1), help="Threads; all cores by default.")
REORDER_OPTIONS = (
    click.option("--memory", default=MEMORY, show_default=True, help="What the command may use."),
    click.option("--overwrite", is_flag=True, help="Replace a dataset that is there already."),
    WORKERS,
    SCHEDULER,
)


def _format_option(flags: str, kind: Any, about: str) -> Callable[[Any], Any]:
    names = [flags, "--k"] if flags == "-k" else [flags]
    repeated = flags == "--label"  # the last one alone would be the wrong target
    return click.option(
        *names, type=Choice(kind) if isinstance(kind, list) else kind, default=None, multiple=repeated, help=about
    )


def _print(dataset: Dataset) -> None:
    click.echo(f"{dataset!r}"[1:-1].removeprefix("daskfs.Dataset "))


@click.command()
@click.argument("sources", nargs=-1, required=True, type=PATH)
@click.argument("out", type=PATH)
@click.option("--format", "-f", "format_name", required=True, type=Choice([*FORMATS, "libsvm"]), help="Source format.")
@click.option("--layout", type=Choice(["columns", "rows", "both"]), default="columns", help="Cut of dense data.")
@click.option("--memory", help="What the ingest may use, such as 512MB.")
@click.option("--on-bad-line", type=Choice(["error", "skip"]), default="error", show_default=True)
@click.option(
    "--max-bad-lines", type=int, default=1000, show_default=True, help="With skip: more than this is an error."
)
@click.option("--compression", type=COMPRESSION, help="Default: none (dense), lz4 (sparse).")
@click.option(
    "--like", type=PATH, help="A dataset of the same columns: same kinds of columns, gaps filled with its numbers."
)
@click.option(
    "--order",
    type=Choice(["auto", "as-is"]),
    default="auto",
    show_default=True,
    help="auto: rows whose labels come in runs are shuffled (in datasets laid out in rows).",
)
@click.option("--shuffle", is_flag=True, help="Rows in random order in any case, as daskfs shuffle gives them.")
@click.option("--overwrite", is_flag=True, help="Replace a dataset, or start over instead of resuming.")
@WORKERS
@SCHEDULER
@click.option("--json", "as_json", is_flag=True, help="For machines: what daskfs info --json prints.")
@with_options(*(_format_option(flags, *about) for flags, about in FORMAT_OPTIONS.items()))
def ingest(
    sources: tuple[str, ...],
    out: str,
    format_name: str,
    shuffle: bool,
    scheduler: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write SOURCES (paths, folders, globs, URLs; plain or .gz .bz2 .xz .zst) as the dataset OUT.

    Run the same command again to resume a killed ingest.
    """
    labels = options.pop("label")
    options["label"] = labels[0] if len(labels) == 1 else list(labels) or None
    options = {name: value for name, value in options.items() if value is not None}
    seed: bool | int = options.get("seed", 0) if shuffle else False
    if shuffle and format_name != "fasta":
        options.pop("seed", None)  # the only format that draws rows
    compiling = announced(messages.print) if messages.is_terminal else nullcontext()
    with names_as_flags(options), compiling, cluster_at(scheduler) as client, ingest_progress() as progress:
        dataset = run_ingest(sources, out, format_name, shuffle=seed, client=client, progress=progress, **options)
    if left_out := dataset.attributes["made"].get("bad_lines", 0):
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
    _print(dataset)


@click.command()
@click.argument("dataset", type=PATH)
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
@click.argument("dataset", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@WORKERS
@SCHEDULER
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


@click.command()
@click.argument("source", metavar="IN", type=PATH)
@click.argument("out", type=PATH)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which order.")
@with_options(*REORDER_OPTIONS)
def shuffle(source: str, out: str, seed: int, scheduler: str | None, **options: Any) -> None:
    """Write a copy OUT of the dataset IN, which is laid out in rows, with the rows in random order.

    Algorithms that learn row by row, such as MISSION, need rows that are not sorted by class. The order depends only on
    the seed and the number of rows. Labels, row weights, tags and names are kept. A killed shuffle starts over when the
    same command is run again.
    """
    with cluster_at(scheduler) as client, count_progress("shuffling") as progress:
        dataset = run_shuffle(source, out, seed, client=client, progress=progress, **options)
    _print(dataset)


@click.command()
@click.argument("source", metavar="IN", type=PATH)
@click.argument("train", type=PATH)
@click.argument("test", type=PATH)
@click.option("--test", "fraction", type=float, default=0.2, show_default=True, help="The share of rows for TEST.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Which rows.")
@click.option("--shuffle", is_flag=True, help="Both parts in random order, where IN is laid out in rows.")
@with_options(*REORDER_OPTIONS)
def split(source: str, train: str, test: str, fraction: float, scheduler: str | None, **options: Any) -> None:
    """Write the rows of the dataset IN as two datasets, TRAIN and TEST.

    Rows of TEST are drawn at random, depending only on the seed, the share and the number of rows. Two copies of a
    dataset with different layouts are split in the same way. Labels, row weights, tags and names are kept. The same
    command run again completes an interrupted split.
    """
    with cluster_at(scheduler) as client, count_progress("splitting") as progress:
        parts = run_split(source, train, test, fraction, client=client, progress=progress, **options)
    for dataset in parts:
        _print(dataset)


@click.command()
@click.argument("rows", type=PATH)
@click.argument("columns", type=PATH)
@click.option("--compression", type=COMPRESSION, default="lz4", show_default=True)
@with_options(*REORDER_OPTIONS)
def transpose(rows: str, columns: str, scheduler: str | None, **options: Any) -> None:
    """Write a copy COLUMNS, laid out in columns, of the sparse dataset ROWS, for algorithms that stream columns.

    Labels, row weights and names are kept. A killed transpose starts over when the same command is run again.
    """
    with cluster_at(scheduler) as client, count_progress("transposing") as progress:
        dataset = run_transpose(rows, columns, client=client, progress=progress, **options)
    _print(dataset)
