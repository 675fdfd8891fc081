"""daskfs report: a run as a page to look at."""

from __future__ import annotations

import json

import click

from daskfs.algorithms.registry import words_of
from daskfs.errors import public_url
from daskfs.observe.terminal import printable


@click.command()
@click.argument("run")
@click.option("-o", "--out", help="The file or URL to write; report.html in RUN by default.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is not the run's own report.")
@click.option("--json", "as_json", is_flag=True, help="For machines: where it is.")
def report(run: str, out: str | None, overwrite: bool, as_json: bool) -> None:
    """Write everything known of RUN as one HTML file that needs nothing else, and no network.

    It shows the selected features, and the rest as far as it is there: how good they are on unseen data (daskfs
    evaluate --keep), score against their number, stability, how the passes went, memory, cost, and how to do it again.
    """
    from daskfs.observe.report import write_report  # Bokeh and Jinja take half a second that others need not wait for

    written = write_report(run, out, overwrite=overwrite, words_of=words_of)
    if as_json:
        click.echo(json.dumps({"report": public_url(written)}))
    else:
        click.echo(f"report in {printable(public_url(written))}")
