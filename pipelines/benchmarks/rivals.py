"""daskfs beside the tools that people use today: quality, time and memory of each, in one run.

    python pipelines/benchmarks/rivals.py                 # minutes; prints the tables
    python pipelines/benchmarks/rivals.py --full --keep   # an hour, up to 200,000 columns; docs/rivals.md from it
    python pipelines/benchmarks/rivals.py --draw          # measures nothing, and writes the page anew

`_rivals.py` says how. `--keep` saves every record as it is measured, in place of that of the same task, size, form and
rival, writes docs/rivals.json and docs/rivals.md, and adds the ratios to the history in
docs/rivals-history.jsonl; lines of it whose ratios have grown by a fifth against the line before are said.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
from _measure import show
from _rivals import Record, measured
from _rivals_page import METRICS, ratios_of, slower, write_page

DOCS = Path(__file__).parents[2] / "docs"
CORES = os.cpu_count() or 1
TASKS = {  # by module: what the size is called, small sizes to compile with, sizes of the quick and the full form
    "_rivals_rows": ("rows", 2000, (20_000,), (100_000,)),
    "_rivals_columns": ("columns", 400, (2000, 5000), (5000, 20_000, 50_000, 200_000)),
    "_rivals_curves": ("rows", 1000, (10_000,), (50_000,)),
}


@click.command(context_settings={"show_default": True})
@click.option("--full", is_flag=True, help="Large sizes.")
@click.option("--only", multiple=True, type=click.Choice(list(TASKS)), help="These tables; repeatable.")
@click.option("--keep", is_flag=True, help="Write docs/rivals.json, docs/rivals.md and a line of history.")
@click.option("--draw", is_flag=True, help="Measure nothing, and write docs/rivals.md anew.")
def main(full: bool, only: tuple[str, ...], keep: bool, draw: bool) -> None:
    """Measure daskfs and its rivals."""
    results = DOCS / "rivals.json"
    records = json.loads(results.read_text("utf-8")) if (draw or keep) and results.exists() else []
    new: list[Record] = []
    for module in [] if draw else only or TASKS:
        for record in of_task(module, full):
            new.append(record)
            records = merged(records, record)
            if keep:  # at once: what is measured stays if the rest is stopped
                save(results, records)
    for module, (variable, *_) in TASKS.items():
        show_task(module, variable, records)
    if keep:
        add_to_history(DOCS / "rivals-history.jsonl", new)
    if keep or draw:
        write_page(records, DOCS / "rivals.md")


def merged(records: list[Record], new: Record) -> list[Record]:
    """Return the records with a new one in place of that of the same task, size and rival, and none of another form."""
    variable = TASKS[new["task"]][0]

    def is_other(record: Record) -> bool:
        if record["task"] != new["task"]:
            return True
        is_same = (record[variable], record["method"]) == (new[variable], new["method"])
        return record.get("form") == new["form"] and not is_same

    return [*filter(is_other, records), new]


def save(path: Path, records: list[Record]) -> None:
    path.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n", "utf-8")


def of_task(module: str, full: bool) -> Iterator[Record]:
    """Measure all rivals of a task with all sizes."""
    task = import_module(module)
    variable, small_size, quick, large = TASKS[module]
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small"
        small.mkdir()
        task.write(small, small_size)
        notes: dict[str, str] = {}  # of rivals that took too long, or failed: they are not asked with larger sizes
        for size in large if full else quick:
            files = Path(folder) / "files"
            files.mkdir()
            task.write(files, size)
            for name in task.RIVALS:
                click.echo(f"{size:,} {variable}: {name}", err=True)
                record = {"note": notes[name]} if name in notes else measured(module, name, files, small)
                notes |= {name: record["note"]} if "note" in record else {}
                where = {"form": "full" if full else "quick", "load": round(os.getloadavg()[0] / CORES, 1)}
                yield {"task": module, variable: size, "method": name} | where | record
            subprocess.run(["rm", "-r", str(files)], check=True)


def show_task(module: str, variable: str, records: list[Record]) -> None:
    """Print the table of a task."""
    own = [record for record in records if record["task"] == module]
    metrics = [metric for metric in METRICS if any(metric in record for record in own)]
    rows = [
        [f"{r[variable]:,}", r["method"], *(f"{r[m]:,.3g}" if m in r else "" for m in metrics), str(r.get("note", ""))]
        for r in own
    ]
    if rows:
        show(import_module(module).__doc__.partition("\n")[0], [variable, "method", *metrics, ""], rows)


def add_to_history(path: Path, records: list[Record]) -> None:
    """Add the ratios of this run to the history, and say which have grown since they were measured before."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    before = {key: ratio for entry in entries for key, ratio in entry["ratios"].items()}
    entry = {"commit": commit.strip(), "ratios": ratios_of(records)}
    for line in slower(before, entry["ratios"]):
        click.echo(line, err=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
