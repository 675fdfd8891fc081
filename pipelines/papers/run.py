"""Every table and figure of the three papers, one after the other, and docs/papers.md from what they show.

    python pipelines/papers/run.py --from DIR             # the quick form
    python pipelines/papers/run.py --from DIR --full      # hours; stopped, it goes on where it was
    python pipelines/papers/run.py --only mission_table1 --again
    python pipelines/papers/run.py --system "Batch IHT"   # what runs it, and what tests it; with --draw, only that

What is measured is kept in --work, in the full form below docs/papers, where a later session has it, and is measured
again when the code behind it has changed (`_digest.py`). It replaces what docs/papers.json had of the same table or
figure, unless that was of the full form and this is not. Those whose public files are not there are left out, and said.
`--draw` measures nothing, and writes the page anew. Where one fails, the next is measured, and the run ends with an
error.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from _exhibit import Exhibit, Places
from _page import write_page
from _systems import SYSTEMS, system_of
from threadpoolctl import threadpool_limits

DOCS = Path(__file__).parents[2] / "docs"
NAMES = (
    "substitution_figure1",
    "substitution_figure2",
    "substitution_figure3",
    "substitution_figure4",
    "mission_figure2",
    "mission_table1",
    "mission_figure3",
    "mission_figure4_dna",
    "mission_figure4_text",
    "mission_figure5",
    "mission_figure6",
    "mission_table4",
    "mission_table5",
    "mission_table6",
    "random_features_table1",
    "random_features_table2",
    "random_features_figure1",
)


def exhibits() -> list[Exhibit]:
    """All tables and figures, in the order of the page."""
    return [importlib.import_module(name).EXHIBIT for name in NAMES]


@click.command(context_settings={"show_default": True})
@click.option("--full", is_flag=True, help="The sizes of the papers where that is sensible.")
@click.option("--from", "source", metavar="DIR", type=click.Path(path_type=Path), help="Public files.")
@click.option("--work", type=click.Path(path_type=Path), default="papers-work", help="Measurements and datasets.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Measure these; repeatable.")
@click.option("--system", "systems", multiple=True, type=click.Choice(list(SYSTEMS)), help="Those that run it.")
@click.option("--again", is_flag=True, help="Measure anew what was measured before.")
@click.option("--draw", is_flag=True, help="Measure nothing.")
@click.option("--docs", type=click.Path(path_type=Path), default=DOCS, show_default="docs", help="Where the page goes.")
def main(
    full: bool, source: Path | None, work: Path, only: Sequence[str], systems: Sequence[str], again: bool, draw: bool,
    docs: Path,
) -> None:  # fmt: skip
    """Measure the tables and figures of the papers, and write docs/papers.md."""
    places, every, failures = Places(source, work, docs / "papers"), exhibits(), list[str]()
    results = docs / "papers.json"
    saved = json.loads(results.read_text("utf-8")) if results.exists() else {}
    for name in systems:
        click.echo(
            f"{name}: {SYSTEMS[name].what}; in {', '.join(running(name, saved))}; tested: {SYSTEMS[name].tested_in}"
        )
    only = [*only, *(exhibit for name in systems for exhibit in running(name, saved))]
    for exhibit in [] if draw else every:
        if exhibit.name not in (only or NAMES):
            continue
        if not exhibit.can_run(places):
            click.echo(f"{exhibit.name}: left out, for it needs {exhibit.needs} below --from (datasets/README.md)")
            continue
        try:
            with threadpool_limits(1):
                measured = exhibit.measure(places, "full" if full else "quick", again)
        except Exception as error:  # one that fails keeps none of the others from being measured
            failures.append(f"{exhibit.name}: failed: {type(error).__name__}: {error}")
            click.echo(failures[-1])
            continue
        click.echo(f"{exhibit.name}: {measured['seconds']} s")
        if not full and saved.get(exhibit.name, {}).get("form") == "full":
            click.echo(f"{exhibit.name}: the page keeps its full form")
            continue
        saved[exhibit.name] = measured
        results.write_text(compact(saved), encoding="utf-8")
    write_page(every, saved, docs)
    if failures:
        raise click.ClickException("\n".join([f"{len(failures)} failed; the page has the others", *failures]))


def running(system: str, saved: dict[str, Any]) -> list[str]:
    """Return the names of the exhibits that ran a system."""
    return [
        name
        for name, measured in saved.items()
        if any(system_of(record["method"]) == system for record in measured["records"])
    ]


def compact(saved: dict[str, dict[str, object]]) -> str:
    """Results as JSON with a line for every record."""
    parts = []
    for name, measured in saved.items():
        head = json.dumps({key: value for key, value in measured.items() if key != "records"})[1:-1]
        records = ",\n   ".join(json.dumps(record, ensure_ascii=False) for record in measured["records"])  # type: ignore[attr-defined]
        parts.append(f' "{name}": {{{head}, "records": [\n   {records}]}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
