"""`daskfs select` selects features of files, arrays or datasets; `daskfs plan` says what that would read and take."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, get_args

import click

from daskfs.algorithms.registry import fields_of, registrations
from daskfs.cli.algorithm_flags import (
    CommandWithGroups,
    FlagOfGroup,
    algorithm_options,
    algorithms_with,
    common_options,
    field_values,
    make_algorithm,
    names_as_flags,
)
from daskfs.cli.datasets import NAMES
from daskfs.cli.results import TOP, print_features, print_selection
from daskfs.cli.run import change, print_line
from daskfs.cli.types import PATH, Choice, with_options
from daskfs.engine.cluster.choose import SERIAL_BYTES, cluster_for
from daskfs.errors import OptionError, public_url
from daskfs.jit import COMPILING, announced, is_cold
from daskfs.job.data import JobListener
from daskfs.job.execute import announce
from daskfs.job.front_door import STDIN, FrontDoor, drop_stdin, folder_for, read_stdin, refuse_flags
from daskfs.job.plan import money_line, time_line
from daskfs.job.request import Request
from daskfs.observe.progress import count_progress, ingest_progress, pass_progress
from daskfs.observe.tables import baseline_lines, error_lines, input_lines, metric_table, terminal_table
from daskfs.observe.terminal import messages, output, printable, program, warnings_as_notes
from daskfs.protocol import Algorithm
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.selection.selection import load_selection
from daskfs.store.dataset.dataset import is_dataset, open_dataset
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.ingest.formats import FORMATS
from daskfs.store.ingest.gaps import Missing
from daskfs.store.places.location import Location

TEST = 0.2
_SHARE = click.FloatRange(0, 1, max_open=True)
ALL_FIELDS = frozenset(field for entry in registrations().values() for field in fields_of(entry.algorithm))
TABLES, RUNNING = "Options of tables (CSV, TSV, Parquet)", "Options of the run"
INGEST_FLAGS = (
    "label",
    "format",
    "labels",
    "missing",
    "include",
    "ignore",
    "categorical",
    "numeric",
    "dates",
    "date_format",
    "order",
    "array",
)


def _table_flag(*names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=FlagOfGroup, group=TABLES, **settings)


def _run_flag(*names: str, **settings: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=FlagOfGroup, group=RUNNING, **settings)


request_options = with_options(
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=PATH),
    common_options,
    click.option("--label", multiple=True, help="The column with the target; A,B,… for several numeric targets."),
    click.option("--algorithm", "-a", "name", type=Choice(list(registrations())), help="What selects."),
    click.option("--out", type=PATH, help="The folder or URL of the result.  [default: a folder named after SOURCE]"),
    click.option("--test", type=_SHARE, help=f"The share of rows held back.  [default: {TEST}]"),
)
"""Adds the argument SOURCE and the flags that most people need to `daskfs select` and `daskfs plan`."""
source_options = with_options(
    click.option("--format", type=Choice([*FORMATS]), help="The format of the files, if it is not plain."),
    click.option("--array", help="Of a Zarr group: the matrix, if there are several."),
    _table_flag("--missing", type=Choice(get_args(Missing)), help="What fills gaps.  [default: the mean]"),
    _table_flag("--ignore", type=NAMES, help="Columns to leave out."),
    _table_flag("--include", type=NAMES, help="Columns to use, even if they look like identifiers."),
    _table_flag("--categorical", type=NAMES, help="Columns to be read as categories."),
    _table_flag("--numeric", type=NAMES, help="Columns to be read as numbers."),
    _table_flag("--dates", type=NAMES, help="Columns to be read as dates."),
    _table_flag("--date-format", help="How texts of dates are written, if it is unsure, such as %m/%d/%Y."),
    _run_flag("--labels", type=Choice(["numbers", "strings"]), help="What labels are, if it is not plain."),
    _run_flag(
        "--order", type=Choice(["auto", "as-is"]),
        help="as-is: keep the order of the rows, even if they are sorted by label.",
    ),
    _run_flag(
        *("--set", "changes"), multiple=True, metavar="KEY=VALUE",
        help="Any value of a job file, such as ingest.words=[1,2] or stability.pairs=5.",
    ),
)  # fmt: skip
"""Adds the flags of `daskfs select` and `daskfs plan` that say what the sources are."""


@click.command(
    cls=CommandWithGroups,
    epilog="Example: daskfs select patients.csv -k 20 --label outcome",
)
@request_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What random choices begin with.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
@click.option("--json", "as_json", is_flag=True, help="For machines: what daskfs show --json prints.")
@_run_flag("--serial", is_flag=True, help="Run in this process, without a cluster.")
@_run_flag("--processes", type=click.IntRange(1), help="Of the cluster on this machine; one a core by default.")
@_run_flag("--synchronous", is_flag=True, help="Let workers wait for each other, so that the run can be repeated.")
@_run_flag("--resume", is_flag=True, help="Go on with the run in --out; if it is finished, show it.")
@_run_flag("--overwrite", is_flag=True, help="Replace another run in --out.")
@_run_flag(
    "--performance-report", "performance", metavar="FILE", type=PATH, help="Keep Dask's own report of the run as HTML."
)
@source_options
@algorithm_options
def select(sources: tuple[str, ...], name: str | None, out: str | None, test: float | None, **flags: Any) -> None:
    """Select the features that matter from SOURCE, files of any format, a dataset, or - for standard input.

    Format, algorithm and loss are chosen by what the data are. Some rows are held back, and the command ends with the
    score on these rows, the features, and a report. Run the same command again to resume an interrupted selection.

    Of a dataset with --algorithm and --out, and without --test, all rows are used and nothing is evaluated.
    """
    if flags["resume"] and flags["overwrite"]:
        raise OptionError("--resume and --overwrite: choose one of them")
    if flags["performance"] and flags["serial"]:
        raise OptionError("--performance-report is of a cluster: leave out --serial")
    fields = {field: value for field, value in flags.items() if field in ALL_FIELDS and value is not None}
    with names_as_flags([*ALL_FIELDS, *INGEST_FLAGS]):
        if len(sources) == 1 and name and out and not test and is_dataset(Location(sources[0])):
            refuse_flags(sources[0], [flag for flag in INGEST_FLAGS if flags[flag]])
            _select_from_all_rows(sources[0], make_algorithm(name, fields), out, **flags)
        else:
            request = front_door(sources, name, out, test, fields, **flags)
            try:
                _select_and_evaluate(request, flags["as_json"])
            except BaseException:
                if STDIN in sources:
                    drop_stdin(request.sources[0])
                raise


def _select_from_all_rows(
    data: str,
    algorithm: Algorithm,
    out: str,
    *,
    scheduler: str | None,
    serial: bool,
    processes: int | None,
    synchronous: bool,
    resume: bool,
    overwrite: bool,
    seed: int,
    performance: str | None,
    as_json: bool,
    order: RowOrder | None,
    **others: Any,
) -> None:
    """Select features from all rows of a dataset, and store the selection in the folder `out`."""
    request = Request(open_dataset(data), algorithm, Location(out), seed, synchronous, order or "auto")
    request.check()
    if not overwrite and (finished := request.load_finished()) is not None:
        if not resume:
            raise OptionError(f"{out}: holds this run, finished; --resume shows it, --overwrite runs it again")
        print_selection(finished, as_json)
        return
    requested_by = {
        "command": ["daskfs", *map(public_url, sys.argv[1:])],
        "performance_report": performance and public_url(performance),
    }
    if scheduler is None and processes is None and not performance:  # then small data do without a cluster
        serial |= request.dataset.stored_bytes <= SERIAL_BYTES
    with warnings_as_notes(), cluster_for(scheduler, serial, processes) as client:
        announce(client, print_line)
        messages.print(f"memory: {request.plan(client)}", soft_wrap=True)
        if algorithm.extra_work:
            messages.print(f"work: {algorithm.extra_work}", soft_wrap=True)
        if request.is_begun() and not overwrite:
            messages.print("going on with the unfinished run that is there")
        dask_report: AbstractContextManager[Any] = nullcontext()
        if performance:
            from distributed import performance_report

            dask_report = performance_report(performance)
        if client is not None and messages.is_terminal and is_cold(type(algorithm).__module__):
            messages.print(COMPILING)
        compiling = announced(messages.print) if messages.is_terminal else nullcontext()
        with compiling, pass_progress() as progress, client.as_current() if client else nullcontext(), dask_report:
            selection = request.run(client, requested_by, overwrite, progress)
    print_selection(selection, as_json)
    if not as_json:
        click.echo(f"kept in {public_url(out)}")


def front_door(
    sources: tuple[str, ...],
    name: str | None,
    out: str | None,
    test: float | None,
    fields: dict[str, Any],
    **flags: Any,
) -> FrontDoor:
    """Return the request that the flags of `daskfs select` or `daskfs plan` make."""
    if flags.get("overwrite"):
        raise OptionError("--overwrite: is not needed here; a changed request has a run of its own in --out")
    if flags.get("performance"):
        raise OptionError("--performance-report: here it is --set report.performance=true")
    ingest = {flag: flags[flag] for flag in INGEST_FLAGS if flags[flag]}
    if "label" in ingest:
        ingest["label"] = ",".join(ingest["label"])
    cluster = {flag: flags[flag] for flag in ("scheduler", "serial", "processes") if flags.get(flag)}
    if len(cluster) > 1:
        raise OptionError("--scheduler, --serial, --processes: choose one of them")
    tables: dict[str, dict[str, Any]] = {"ingest": ingest, "cluster": cluster}
    tables["select"] = {"seed": flags["seed"], "synchronous": flags.get("synchronous", False)}
    tables["select"] |= {"order": flags["order"]} if flags["order"] else {}
    for key, value in map(change, flags["changes"]):
        table, _, entry = key.partition(".")
        if not entry:
            raise OptionError(f"--set {key}: must be a key of a table of a job file, such as ingest.words")
        tables.setdefault(table, {})[entry] = value
    out = out or folder_for(sources)
    algorithms = [name] if name else algorithms_with(fields)
    if STDIN in sources:
        if len(sources) > 1:
            raise OptionError("-: standard input is the only source, or none; leave out the others")
        sources = (read_stdin(out),)
    return FrontDoor(
        sources,
        out,
        algorithms,
        partial(field_values, flags=fields),
        tables,
        TEST if test is None else test,
        JobListener(print_line, ingest_progress, pass_progress, count_progress),
    )


def _select_and_evaluate(request: FrontDoor, as_json: bool) -> None:
    """Run a request, and print the score, the features and the place of the report."""
    with warnings_as_notes():
        outcome = request.run()
    assert outcome.run is not None
    selection = load_selection(outcome.run.url)
    if as_json:
        print_selection(selection, as_json)
        return
    print_features(selection, TOP)
    for line in (*error_lines(selection), *input_lines(selection)):
        output.print(printable(line), markup=False, soft_wrap=True)
    if (metrics := read_record(outcome.run, METRICS)) is not None:
        output.print(f"on {metrics['rows']:,} rows held back:")
        output.print(terminal_table(metric_table(metrics, selection.classes)))
        for line in baseline_lines(metrics):
            output.print(printable(line), markup=False, soft_wrap=True)
    click.echo(f"report: {public_url(outcome.run.url)}/{REPORT}")
    click.echo(f"again:  {program()} show {shlex.quote(public_url(request.out))}")


@click.command(
    cls=CommandWithGroups,
    epilog="Example: daskfs plan s3://bucket/clicks/*.vw.gz -k 1000 --cluster 16,0.5",
)
@request_options
@click.option("--cluster", metavar="W,GB/S", help="Workers, and the GB/s of a worker, for the time; such as 16,0.5.")
@click.option("--prices", metavar="GET,PUT,GB", help="Of 1,000 reads, 1,000 writes, and a GB read, for the money.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@source_options
@algorithm_options
def plan(
    sources: tuple[str, ...],
    name: str | None,
    out: str | None,
    test: float | None,
    cluster: str | None,
    prices: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Say what daskfs select would choose for SOURCE and what it would take, without doing it.

    Of files, some rows are looked at, and numbers are estimates.
    """
    fields = {field: value for field, value in flags.items() if field in ALL_FIELDS and value is not None}
    speed = None if cluster is None else _numbers("--cluster", cluster, "16,0.5", 2)
    rates = None if prices is None else _numbers("--prices", prices, "0.0004,0.005,0.09", 3)
    with (
        names_as_flags([*ALL_FIELDS, *INGEST_FLAGS]),
        warnings_as_notes(),
        TemporaryDirectory(prefix="daskfs-") as folder,
    ):
        out = out if STDIN not in sources else folder  # a plan leaves nothing behind
        cost = front_door(sources, name, out, test, fields, seed=0, **flags).plan()
    if as_json:
        times = {} if speed is None else {"seconds": cost.seconds(*speed)}
        money = {} if rates is None else {"money": cost.money(*rates)}
        click.echo(json.dumps({**cost.record(), **times, **money}, indent=1))
        return
    lines = cost.lines() + ([] if speed is None else [time_line(cost, *speed)])
    for line in lines + ([] if rates is None else [money_line(cost, *rates)]):
        click.echo(line)


def _numbers(flag: str, text: str, example: str, count: int) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(0 < number < math.inf for number in numbers):
        raise OptionError(f"{flag} {text}: must be {count} numbers, such as {example}")
    return numbers
