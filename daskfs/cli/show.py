"""daskfs show: what a run selected."""

from __future__ import annotations

import json

import click

from daskfs.observe.tables import feature_table, selection_lines, selection_record
from daskfs.observe.terminal import output, printable
from daskfs.selection.selection import Selection, load_selection

TOP = 20


@click.command()
@click.argument("run")
@click.option("--top", type=click.IntRange(0), help=f"How many features; {TOP} by default, all with --json.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def show(run: str, top: int | None, as_json: bool) -> None:
    """Show the features that RUN selected, most important first, and how the passes went."""
    selection = load_selection(run)
    if as_json:
        click.echo(json.dumps(selection_record(selection, top), indent=1, allow_nan=False))
    else:
        print_selection(selection, TOP if top is None else top)


def print_selection(selection: Selection, top: int = TOP) -> None:
    """A selection for people."""
    output.print(feature_table(selection, top))
    if len(selection.features) > top:
        output.print(f"… and {len(selection.features) - top:,} more")
    for line in selection_lines(selection):
        output.print(printable(line), markup=False, soft_wrap=True)
