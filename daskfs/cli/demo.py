"""daskfs demo: three whole jobs, one for each algorithm, on data it makes itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from daskfs.cli.demo_problems import PROBLEMS, Problem
from daskfs.job.execute import execute
from daskfs.job.runner import Watch
from daskfs.observe.progress import count_progress, ingest_progress, pass_progress
from daskfs.observe.tables import TITLES
from daskfs.observe.terminal import output, warnings_as_notes
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.selection.selection import Selection, load_selection

SHOWN = 12  # names that the table has room for


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Where to put the files; a temporary folder by default.")
def demo(out: Path | None) -> None:
    """Run three small jobs whose answers are known: ingest, split, select, evaluate, report, publish."""
    folder = out or Path(tempfile.mkdtemp(prefix="daskfs-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for title in ("job", "algorithm", "features", "on rows held back", "s"):
        table.add_column(title, no_wrap=True)
    reports = []
    for number, problem in enumerate(PROBLEMS, 1):
        output.print(f"\n[bold]{number}. {problem.title}[/]", highlight=False)
        output.print(f"   {problem.truth}", markup=False)
        row, report = _run(problem, folder)
        table.add_row(*map(Text, row))
        reports.append(report)
    output.print()
    output.print(table)
    output.print("\nReports to look at, each a file of its own:")
    for report in reports:
        output.print(f"   {report}", soft_wrap=True, markup=False)
    output.print(f"Look again: daskfs show {folder}/genes", soft_wrap=True, markup=False)
    output.print(f"Run again:  daskfs run {folder}/genes.toml", soft_wrap=True, markup=False)


def _run(problem: Problem, folder: Path) -> tuple[list[str], str]:
    """Run a job: its line of the table, and where its report is."""
    begun = monotonic()
    job = problem.prepare(folder)
    output.print(f"   [bold]daskfs run[/] {job.name}", soft_wrap=True)
    with warnings_as_notes():
        done = execute(job, Watch(_tell, ingest_progress, pass_progress, count_progress))
    assert done.run is not None
    selection, metrics = load_selection(done.run.url), read_record(done.run, METRICS) or {}
    output.print(f"   found: {_selected(selection)}", markup=False)
    size = f"{len(selection.features)}" + ("" if selection.inputs else f" of {selection.source['n_features']:,}")
    row = [problem.name, done.job.select.algorithm, size, _score(problem.metric, metrics)]
    return [*row, f"{monotonic() - begun:.0f}"], f"{done.run.url}/{REPORT}"


def _tell(line: str) -> None:
    output.print(f"   {line}", soft_wrap=True, markup=False)


def _selected(selection: Selection) -> str:
    if selection.inputs is not None:
        shares = selection.importance[:3]
        told = ", ".join(f"{name} {share:.0%}" for name, share in zip(shares.input.values, shares.values, strict=True))
        return f"waves across {told}"
    more = ", …" if len(selection.names) > SHOWN else ""
    return ", ".join(selection.names[:SHOWN]) + more


def _score(metric: str, metrics: dict[str, Any]) -> str:
    value, (low, high) = metrics["metrics"][metric], metrics["intervals"][metric]
    return f"{TITLES[metric]} {value:.3f} ({low:.3f}–{high:.3f})"
