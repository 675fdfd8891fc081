"""The command `daskfs demo`: three small jobs, one per algorithm, on generated data with known relevant features."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import click
import numpy as np

from daskfs.engine.data.write import write_dataset
from daskfs.errors import OptionError
from daskfs.job.data import JobListener
from daskfs.job.execute import execute
from daskfs.observe.progress import count_progress, ingest_progress, pass_progress
from daskfs.observe.tables import TITLES, ValueTable, terminal_table
from daskfs.observe.terminal import output, warnings_as_notes
from daskfs.selection.records import METRICS, REPORT, read_record
from daskfs.selection.selection import load_selection

JOB = """# {title}; run it again: daskfs run {name}.toml
out = "{name}"

{data}

[split]
test = 0.25          # rows held back, for the score

[select]
{select}

[evaluate]
sizes = true         # score against the number of features

[stability]
pairs = 2            # do halves of the rows select the same?

[cluster]
serial = true        # without this line: a cluster of processes on this machine
"""


@dataclass(frozen=True)
class DemoProblem:
    """A generated dataset with known relevant features, and a job that selects features from the dataset."""

    name: str
    title: str
    truth: str
    metric: str
    write: Callable[[Path], None]
    data: str
    select: str

    def prepare(self, folder: Path) -> Path:
        """Write the generated data and the job file, and return the path of the job file."""
        job = folder / f"{self.name}.toml"
        text = JOB.format(name=self.name, title=self.title, data=self.data, select=self.select)
        paths = [folder / self.name, *folder.glob(f"{self.name}.*")]
        if any(path.exists() for path in paths) and not (job.exists() and job.read_text() == text):
            raise OptionError(f"{folder}: has files called {self.name} that are not the demo's; choose another --out")
        job.write_text(text)  # first: it marks the other files as the demo's
        self.write(folder)
        return job


def write_clicks(folder: Path, rows: int = 20_000) -> None:
    """Write simulated clicks that depend on a country, a device and a few words, in Vowpal Wabbit's format."""
    rng = np.random.default_rng(0)
    countries = np.array(["de", "fr", "in", "jp", "uk", "us"])
    words = np.array([f"word{i}" for i in range(5_000)])
    frequency = 1.0 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), size=(rows, 8), p=frequency / frequency.sum())
    country, mobile, decade = rng.choice(countries, rows), rng.random(rows) < 0.6, rng.integers(2, 8, rows)
    score = (country == "jp") - 0.5 * mobile + 0.8 * ((drawn >= 3) & (drawn < 8)).sum(axis=1) - 1
    clicked = rng.random(rows) < 1 / (1 + np.exp(-score))
    with open(folder / "clicks.vw", "w") as file:
        for row in range(rows):
            user = f"country={country[row]} device={'mobile' if mobile[row] else 'desktop'} age={decade[row]}0s"
            file.write(f"{1 if clicked[row] else -1} |user {user} |ad {' '.join(words[drawn[row]])}\n")


def write_genes(folder: Path, samples: int = 800, genes: int = 20_000) -> None:
    """Write simulated expressions of many genes, of which ten distinguish sick from healthy samples."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(samples, genes)).astype(np.float32)
    planted = np.arange(1, 11) * 1_000
    sick = X[:, planted] @ np.linspace(1.0, 0.4, 10) + 0.3 * rng.normal(size=samples) > 0
    y = np.where(sick, "sick", "healthy")
    write_dataset(folder / "genes.zarr", X, y, [f"gene{i}" for i in range(genes)], overwrite=True)


def write_waves(folder: Path, samples: int = 6_000) -> None:
    """Write simulated readings of ten sensors, where the target depends on an interaction of two sensors."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(samples, 10)).astype(np.float32)
    y = np.sin(6 * X[:, 2]) * X[:, 4] + 0.05 * rng.normal(size=samples)
    names = [f"sensor{i}" for i in range(10)]
    write_dataset(folder / "waves.zarr", X, y, names, layout="rows", overwrite=True)


PROBLEMS = [
    DemoProblem(
        name="clicks",
        title="20,000 ad impressions, string features, in Vowpal Wabbit's format",
        truth="drawn so that clicks depend on jp, on mobile and on word3 … word7",
        metric="roc_auc",
        write=write_clicks,
        data='[ingest]\nsources = ["clicks.vw"]\nformat = "vw"',
        select='algorithm = "mission"\nk = 8\nwidth = 4096         # a sketch of 48 KiB',
    ),
    DemoProblem(
        name="genes",
        title="800 samples of 20,000 genes",
        truth="drawn so that gene1000, gene2000, … gene10000 tell sick from healthy",
        metric="roc_auc",
        write=write_genes,
        data='[data]\ntrain = "genes.zarr"',
        select='algorithm = "substitution"\nk = 10\nloss = "logistic"',
    ),
    DemoProblem(
        name="waves",
        title="6,000 readings of ten sensors, and a target that is no straight line",
        truth="it is sin(6 · sensor2) · sensor4, with a little noise",
        metric="r2",
        write=write_waves,
        data='[data]\ntrain = "waves.zarr"',
        select='algorithm = "random-features"\nk = 100\nrounds = 10',
    ),
]


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Where to put the files; a temporary folder by default.")
def demo(out: Path | None) -> None:
    """Run three small jobs whose answers are known: ingest, split, select, evaluate, report, publish."""
    folder = out or Path(tempfile.mkdtemp(prefix="daskfs-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    rows, reports = [], []
    for number, problem in enumerate(PROBLEMS, 1):
        output.print(f"\n[bold]{number}. {problem.title}[/]", highlight=False)
        _print(problem.truth)
        row, report = _run(problem, folder)
        rows.append(row)
        reports.append(report)
    table = terminal_table(ValueTable(("job", "algorithm", "features", "on rows held back", "s"), rows))
    table.padding = 0, 1  # for terminals of 80 columns
    output.print()
    output.print(table)
    output.print("\nReports to look at, each a file of its own:")
    for report in reports:
        _print(report)
    output.print(f"Look again: daskfs show {folder}/genes", soft_wrap=True, markup=False)
    output.print(f"Run again:  daskfs run {folder}/genes.toml", soft_wrap=True, markup=False)


def _run(problem: DemoProblem, folder: Path) -> tuple[list[str], str]:
    """Run the job of a demo problem, and return its row of the results table and the location of its report."""
    begun = monotonic()
    job = problem.prepare(folder)
    output.print(f"   [bold]daskfs run[/] {job.name}", soft_wrap=True)
    with warnings_as_notes():
        outcome = execute(job, JobListener(_print, ingest_progress, pass_progress, count_progress))
    assert outcome.run is not None
    selection, metrics = load_selection(outcome.run.url), read_record(outcome.run, METRICS) or {}
    names, size = ", ".join(selection.names), f"{len(selection.features)} of {selection.source['n_features']:,}"
    if selection.inputs is not None:
        shares, size = selection.input_importance[:3], f"{len(selection.features)}"
        pairs = zip(shares.input.values, shares.values, strict=True)
        names = f"waves across {', '.join(f'{name} {share:.0%}' for name, share in pairs)}"
    _print(f"found: {names}")
    value, (low, high) = metrics["metrics"][problem.metric], metrics["intervals"][problem.metric]
    score = f"{TITLES[problem.metric]} {value:.3f} ({low:.3f}–{high:.3f})"
    row = [problem.name, outcome.job.select.algorithm, size, score, f"{monotonic() - begun:.0f}"]
    return row, f"{outcome.run.url}/{REPORT}"


def _print(line: str) -> None:
    output.print(f"   {line}", soft_wrap=True, markup=False)
