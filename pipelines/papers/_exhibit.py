"""A table or figure of a paper: what is measured for it, what the paper says, and how the two are compared.

A file such as `mission_table1.py` has an `EXHIBIT`. Its cells are measurements that can be made one by one: what is
measured is written to a file at once, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

import click
from _digest import digest_of
from _report import Record, report
from threadpoolctl import threadpool_limits

Form = Literal["quick", "full"]
NO_WORSE = 1e-9  # as slack: equals will do
DIGITS = 5  # significant ones, in files


@dataclass(frozen=True)
class Places:
    """Where public files are, if there are any, and where datasets and measurements are written."""

    source: Path | None
    work: Path
    full: Path | None = None
    """Where measurements of the full form are written, which take hours and so go into the repository."""

    def ledger(self, name: str, form: Form) -> Path:
        """Return the file of the measurements of an exhibit."""
        folder = self.full if form == "full" and self.full is not None else self.work
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}-{form}.jsonl"


Cells = dict[str, Callable[[], list[Record]]]
"""Measurements by name. A record has a "method", and a number for every variable and metric."""


@dataclass(frozen=True)
class View:
    """A table, and a plot if asked for: the mean of a metric, for every method and every value of a variable."""

    title: str
    across: str
    metric: str
    better: Literal["higher", "lower", ""] = ""
    plot: bool = True
    where: dict[str, Any] = field(default_factory=dict)
    """Only records that have these values."""
    chosen: tuple[str, ...] = ()
    """Methods whose numbers here follow from sizes that were chosen, so that they say nothing beside the paper's."""
    cap: str = ""
    """The size that no value can exceed, whatever a method could do."""

    def records(self, records: Sequence[Record]) -> list[Record]:
        """The records that belong to this view."""
        wanted = [r for r in records if self.across in r and self.metric in r]
        return [r for r in wanted if all(r.get(name) == value for name, value in self.where.items())]

    def means(self, records: Sequence[Record]) -> dict[str, dict[Any, float]]:
        """By method and value of the variable."""
        groups = self._groups(records)
        return {method: {x: mean(of_x) for x, of_x in by_x.items()} for method, by_x in groups.items()}

    def spreads(self, records: Sequence[Record]) -> dict[str, dict[Any, float]]:
        """Standard deviations by method and value of the variable, where there is more than one record."""
        groups = self._groups(records)
        return {
            method: {x: stdev(of_x) for x, of_x in by_x.items() if len(of_x) > 1} for method, by_x in groups.items()
        }

    def _groups(self, records: Sequence[Record]) -> dict[str, dict[Any, list[float]]]:
        groups: dict[str, dict[Any, list[float]]] = {}
        for r in self.records(records):
            groups.setdefault(r["method"], {}).setdefault(r[self.across], []).append(r[self.metric])
        return groups


@dataclass(frozen=True)
class Claim:
    """What the paper says of two groups of methods: each of `first` is better than the best of `second`.

    Means are over the values of the variable that all methods of both groups have, from `least` on. With `slack`, it
    is enough that `first` is no worse than `second` by more than that.
    """

    says: str
    view: View
    first: tuple[str, ...]
    second: tuple[str, ...]
    slack: float = 0.0
    least: float | None = None
    too_small: str = ""
    """Why the quick form cannot decide on it, if that is so."""

    def verdict(self, records: Sequence[Record]) -> tuple[dict[str, bool], dict[str, float]] | None:
        """For which of `first` it holds here, and the means that decide on it; None if methods were not measured."""
        means = self.view.means(records)
        groups = [[name for name in group if name in means] for group in (self.first, self.second)]
        if not all(groups):
            return None
        common = set.intersection(*(set(means[name]) for group in groups for name in group))
        common = {x for x in common if self.least is None or x >= self.least}
        if not common:
            return None
        values = {name: mean(means[name][x] for x in common) for group in groups for name in group}
        sign = -1 if self.view.better == "lower" else 1
        best = max(sign * values[name] for name in groups[1])
        return {name: sign * values[name] > best - self.slack for name in groups[0]}, values


@dataclass(frozen=True)
class Exhibit:
    """A table or figure.

    Parameters
    ----------
    name
        The name of its file.
    title
        What it is in the paper.
    cells
        From places and sizes to what is to be measured.
    quick, full
        Sizes: arguments of `cells`.
    views
        What is shown.
    claims
        What the paper says in words.
    printed
        Numbers that the paper prints, as records. Views show them beside ours.
    same_data
        Whether the data are the paper's, so that better and worse numbers mean something.
    notes
        Why our numbers may differ from the paper's: other data, other sizes.
    reasons
        Why a method may be worse here than the paper prints, by method.
    needs
        The folder of public files that it cannot do without.
    """

    name: str
    title: str
    cells: Callable[..., Cells]
    quick: dict[str, Any]
    full: dict[str, Any]
    views: tuple[View, ...]
    claims: tuple[Claim, ...] = ()
    printed: tuple[Record, ...] = ()
    same_data: bool = True
    notes: tuple[str, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)
    needs: str = ""

    def sizes(self, form: Form) -> dict[str, Any]:
        return self.quick if form == "quick" else self.full

    def can_run(self, places: Places) -> bool:
        """Whether its public files are there."""
        return not self.needs or (places.source is not None and any(places.source.rglob(self.needs)))

    def measure(self, places: Places, form: Form, again: bool = False) -> dict[str, Any]:
        """Measure every cell that was not measured before, and return all that is known."""
        places.work.mkdir(parents=True, exist_ok=True)
        ledger = Ledger(places.ledger(self.name, form), self.sizes(form), digest_of(self.name), again)
        for key, cell in self.cells(places, **self.sizes(form)).items():
            if key in ledger.cells:
                continue
            click.echo(f"{self.name}: {key}", err=True)
            start, cpu_start = time.perf_counter(), time.process_time()
            records = [rounded(record) for record in cell()]
            ledger.add(key, records, time.perf_counter() - start, time.process_time() - cpu_start)
        seconds = {"seconds": ledger.total("seconds"), "cpu_seconds": ledger.total("cpu_seconds")}
        return {"form": form, "sizes": ledger.sizes, "code": ledger.code, **seconds, "records": ledger.records}


class Ledger:
    """A file of measured cells, one a line, below a line of the sizes and the code that they were measured with.

    Cells of other sizes or other code are measured again.
    """

    def __init__(self, path: Path, sizes: dict[str, Any], code: str, again: bool = False) -> None:
        self.path, self.sizes, self.code = path, json.loads(json.dumps(sizes)), code
        self.cells: dict[str, dict[str, Any]] = {}
        head = {"sizes": self.sizes, "code": code}
        lines = [] if again or not path.exists() else list(map(json.loads, _complete_lines(path)))
        if lines and lines[0] == head:
            self.cells = {line["cell"]: line for line in lines[1:]}
        self._write([head, *self.cells.values()])

    def add(self, key: str, records: list[Record], seconds: float, cpu_seconds: float) -> None:
        times = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}
        self.cells[key] = {"cell": key, **times, "records": records}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.cells[key]) + "\n")

    def _write(self, lines: Sequence[object]) -> None:
        self.path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def total(self, what: str) -> float:
        """Seconds that all cells took."""
        return round(sum(cell[what] for cell in self.cells.values()), 1)

    @property
    def records(self) -> list[Record]:
        return [record for cell in self.cells.values() for record in cell["records"]]


def _complete_lines(path: Path) -> list[str]:
    """The lines of a file but for a last one that was cut short when a run was stopped."""
    return [line for line in path.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]


def rounded(record: Record) -> Record:
    """A record as files have it: plain numbers of few digits."""
    return {name: float(f"{x:.{DIGITS}g}") if isinstance(x, float) else x for name, x in record.items()}


def run(exhibit: Exhibit) -> None:
    """The command line of the file of a table or figure: measure it and print its tables."""

    @click.command(help=f"{exhibit.title}.", context_settings={"show_default": True})
    @click.option("--full", is_flag=True, help="The sizes of the paper, or the largest that are sensible here.")
    @click.option("--from", "source", metavar="DIR", type=click.Path(path_type=Path), help="Public files.")
    @click.option("--work", type=click.Path(path_type=Path), default="papers-work", help="Measurements and datasets.")
    @click.option("--again", is_flag=True, help="Measure anew what was measured before.")
    def main(full: bool, source: Path | None, work: Path, again: bool) -> None:
        places = Places(source, work)
        if not exhibit.can_run(places):
            raise click.ClickException(f"it needs {exhibit.needs} below --from DIR: see datasets/README.md")
        with threadpool_limits(1):
            records = exhibit.measure(places, "full" if full else "quick", again)["records"]
        for view in exhibit.views:
            report(view.title, view.records(records), view.across, [view.metric], as_json=False)

    main()
