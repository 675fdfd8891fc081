"""The three problems of `daskfs demo`, one for each algorithm: data whose truth is known, and the job that finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from daskfs.engine.data.write import write_dataset
from daskfs.errors import OptionError

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
class Problem:
    """Data with a known truth."""

    name: str
    title: str
    truth: str
    metric: str
    write: Callable[[Path], None]
    data: str
    select: str

    def prepare(self, folder: Path) -> Path:
        """Make the data, and the job file beside it."""
        job = folder / f"{self.name}.toml"
        text = JOB.format(name=self.name, title=self.title, data=self.data, select=self.select)
        there = [folder / self.name, *folder.glob(f"{self.name}.*")]
        if any(path.exists() for path in there) and not (job.exists() and job.read_text() == text):
            raise OptionError(f"{folder}: has files called {self.name} that are not the demo's; choose another --out")
        job.write_text(text)  # first: with it the others are the demo's
        self.write(folder)
        return job


def write_clicks(folder: Path, rows: int = 20_000) -> None:
    """Clicks that depend on a country, a device and a few words of the advertisement, in Vowpal Wabbit's format."""
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
    """Expressions of many genes, of which ten tell the sick from the healthy."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(samples, genes)).astype(np.float32)
    planted = np.arange(1, 11) * 1_000
    sick = X[:, planted] @ np.linspace(1.0, 0.4, 10) + 0.3 * rng.normal(size=samples) > 0
    y = np.where(sick, "sick", "healthy")
    write_dataset(folder / "genes.zarr", X, y, [f"gene{i}" for i in range(genes)], overwrite=True)


def write_waves(folder: Path, samples: int = 6_000) -> None:
    """Ten sensors of which two matter, and only together."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(samples, 10)).astype(np.float32)
    y = np.sin(6 * X[:, 2]) * X[:, 4] + 0.05 * rng.normal(size=samples)
    names = [f"sensor{i}" for i in range(10)]
    write_dataset(folder / "waves.zarr", X, y, names, layout="rows", overwrite=True)


PROBLEMS = [
    Problem(
        name="clicks",
        title="20,000 ad impressions, string features, in Vowpal Wabbit's format",
        truth="drawn so that clicks depend on jp, on mobile and on word3 … word7",
        metric="roc_auc",
        write=write_clicks,
        data='[ingest]\nsources = ["clicks.vw"]\nformat = "vw"',
        select='algorithm = "mission"\nk = 8\nwidth = 4096         # a sketch of 48 KiB',
    ),
    Problem(
        name="genes",
        title="800 samples of 20,000 genes",
        truth="drawn so that gene1000, gene2000, … gene10000 tell sick from healthy",
        metric="roc_auc",
        write=write_genes,
        data='[data]\ntrain = "genes.zarr"',
        select='algorithm = "substitution"\nk = 10\nloss = "logistic"',
    ),
    Problem(
        name="waves",
        title="6,000 readings of ten sensors, and a target that is no straight line",
        truth="it is sin(6 · sensor2) · sensor4, with a little noise",
        metric="r2",
        write=write_waves,
        data='[data]\ntrain = "waves.zarr"',
        select='algorithm = "random-features"\nk = 100\nrounds = 10',
    ),
]
