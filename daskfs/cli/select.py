"""daskfs select: features of a dataset."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import Any

import click
from distributed import performance_report

from daskfs.algorithms.registry import registrations
from daskfs.cli.algorithms import algorithm_options, make_algorithm
from daskfs.cli.show import print_selection
from daskfs.engine.cluster.start import cluster_for
from daskfs.errors import OptionError, public_url
from daskfs.jit import COMPILING, is_cold
from daskfs.job.execute import announce
from daskfs.job.selecting import Request
from daskfs.observe.progress import pass_progress
from daskfs.observe.tables import selection_record
from daskfs.observe.terminal import messages, warnings_as_notes
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.places.location import Location


@click.command()
@click.argument("data")
@click.option(
    "--algorithm", "-a", "name", required=True, type=click.Choice(list(registrations())), help="What selects."
)
@click.option("--out", required=True, help="The run's folder or URL: selection, history and, meanwhile, a checkpoint.")
@click.option("--scheduler", help="Run on the Dask cluster at this address, not on one of this machine's cores.")
@click.option("--serial", is_flag=True, help="Run in this process, without a cluster.")
@click.option("--processes", type=click.IntRange(1), help="Of the cluster on this machine; one a core by default.")
@click.option("--synchronous", is_flag=True, help="Let workers wait for each other, so that the run can be repeated.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out; if it is finished, show it.")
@click.option("--overwrite", is_flag=True, help="Replace another run in --out.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What random choices begin with.")
@click.option("--performance-report", "performance", metavar="FILE", help="Keep Dask's own report of the run as HTML.")
@click.option("--json", "as_json", is_flag=True, help="For machines: what daskfs show --json prints.")
@algorithm_options
def select(
    data: str,
    name: str,
    out: str,
    scheduler: str | None,
    serial: bool,
    processes: int | None,
    synchronous: bool,
    resume: bool,
    overwrite: bool,
    seed: int,
    performance: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Select features of the dataset DATA, and keep the run in --out.

    An interrupted run goes on where it stopped when the same command is run again.
    """
    if resume and overwrite:
        raise OptionError("--resume and --overwrite: choose one of them")
    if performance and serial:
        raise OptionError("--performance-report is of a cluster: leave out --serial")
    algorithm = make_algorithm(name, {field: value for field, value in fields.items() if value is not None})
    request = Request(open_dataset(data), algorithm, Location(out), seed, synchronous)
    request.check()
    if not overwrite and (kept := request.found()) is not None:
        if not resume:
            raise OptionError(f"{out}: holds this run, finished; --resume shows it, --overwrite runs it again")
        _print(kept, as_json)
        return
    if messages.is_terminal and is_cold(type(algorithm).__module__):
        messages.print(COMPILING)
    asked = {
        "command": ["daskfs", *map(public_url, sys.argv[1:])],
        "performance_report": performance and public_url(performance),
    }
    with warnings_as_notes(), cluster_for(scheduler, serial, processes) as client:
        announce(client, lambda line: messages.print(line, soft_wrap=True, markup=False))
        messages.print(f"memory: {request.plan(client)}", soft_wrap=True)
        if request.is_begun() and not overwrite:
            messages.print("going on with the unfinished run that is there")
        reported = performance_report(performance) if performance else nullcontext()
        with pass_progress() as progress, client.as_current() if client else nullcontext(), reported:
            selection = request.made(client, asked, overwrite, progress)
    _print(selection, as_json)
    if not as_json:
        click.echo(f"kept in {public_url(out)}")


def _print(selection: Selection, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(selection_record(selection), indent=1, allow_nan=False))
    else:
        print_selection(selection)
