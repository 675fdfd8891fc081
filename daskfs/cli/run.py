"""The command `daskfs run`, which runs a job described by a job file."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import click

from daskfs.cli.types import PATH, Choice
from daskfs.errors import OptionError, public_url, redact
from daskfs.job.data import JobListener
from daskfs.job.execute import execute
from daskfs.job.runner import STEPS, JobStep
from daskfs.observe.progress import count_progress, ingest_progress, pass_progress
from daskfs.observe.tables import error_lines
from daskfs.observe.terminal import messages, printable, warnings_as_notes
from daskfs.selection.selection import load_selection


@click.command()
@click.argument("job", metavar="JOB.toml", type=PATH)
@click.option("--until", type=Choice(STEPS), default="publish", show_default=True, help="The last step.")
@click.option("--set", "changes", metavar="KEY=VALUE", multiple=True, help="Another value, as in select.n_select=50.")
@click.option("--scheduler", help="Run on the Dask cluster at this address, whatever the file says.")
@click.option("--serial", is_flag=True, help="Run in this process, whatever the file says.")
@click.option("--json", "as_json", is_flag=True, help="For machines: the run, its report and its metrics.")
def run(job: str, until: JobStep, changes: tuple[str, ...], scheduler: str | None, serial: bool, as_json: bool) -> None:
    """Run the job file JOB.toml: ingest, select, evaluate, report and publish.

    Steps whose output exists for the same inputs are skipped. Run the same command again to resume an interrupted job.
    """
    if scheduler and serial:
        raise OptionError("--scheduler, --serial: choose one of them")
    settings = dict(map(change, changes))
    if scheduler or serial:
        settings["cluster"] = {"scheduler": scheduler} if scheduler else {"serial": True}
    listener = JobListener(print_line, ingest_progress, pass_progress, count_progress)
    with warnings_as_notes():
        outcome = execute(job, listener, until=until, changes=settings)
    if as_json:
        click.echo(json.dumps(outcome.record(), indent=1, allow_nan=False))
    elif outcome.run is not None:
        click.echo(f"{printable(outcome.job.name)}: {public_url(outcome.run.url)}")
        for line in error_lines(load_selection(outcome.run.url, outcome.run.options)):
            click.echo(line)


def print_line(line: str) -> None:
    """Print a line about a step of a job to standard error."""
    messages.print(printable(redact(line)), soft_wrap=True, markup=False)


def change(text: str) -> tuple[str, Any]:
    """Return the key and the value of a text KEY=VALUE, where VALUE is TOML or, if it is not valid TOML, a string."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise OptionError(f"--set {text}: is not of the form key=value")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value
