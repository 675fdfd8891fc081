"""What Airflow adds to a job: from trigger to published selection, beside `daskfs run` with the same file.

    python pipelines/benchmarks/airflow_overhead.py [--rows 20000] [--rounds 2]

The job is the demo's: advertisements clicked or not, on a Dask cluster of two workers that both use in turn. Airflow
and the workers have been started before, and kernels are compiled.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import click
import numpy as np
from _airflow_services import airflow, dask_cluster
from _measure import console, interleaved, show, two_processes_against_one

DASKFS = str(Path(sys.executable).with_name("daskfs"))
JOB = """
[ingest]
sources = ["clicks.vw"]
format = "vw"

[split]
test = 0.25

[select]
algorithm = "mission"
k = 8
width = 4096

[evaluate]
"""


def write_clicks(folder: Path, rows: int) -> None:
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


def write_job(folder: Path, number: int) -> Path:
    """The same job as ever, with a folder of its own to fill."""
    path = folder / f"job-{number}.toml"
    path.write_text(f'out = "runs-{number}"\n{JOB}')
    return path


@click.command()
@click.option("--rows", default=20_000)
@click.option("--rounds", default=2)
def main(rows: int, rounds: int) -> None:
    """Print the table."""
    console.print(f"control, two processes against one: {two_processes_against_one():.2f}x (below 1.85: void)")
    with tempfile.TemporaryDirectory() as name:
        folder, numbers = Path(name), count()
        write_clicks(folder, rows)
        with airflow(folder / "airflow") as services, dask_cluster(folder) as scheduler:

            def on_the_command_line() -> None:
                job = write_job(folder, next(numbers))
                command = [DASKFS, "run", str(job), "--scheduler", scheduler]
                subprocess.run(command, check=True, capture_output=True)

            def in_airflow() -> None:
                job = write_job(folder, next(numbers))
                run = services.trigger("daskfs_job", job=str(job), scheduler=scheduler)
                assert services.finished("daskfs_job", run) == "success"

            on_the_command_line()  # compiles
            best = interleaved({"daskfs run": on_the_command_line, "Airflow": in_airflow}, rounds, time.perf_counter)
    added = best["Airflow"] - best["daskfs run"]
    rows_shown = [[name, f"{seconds:.1f}"] for name, seconds in best.items()]
    show(f"{rows:,} rows, best of {rounds}", ["", "s"], [*rows_shown, ["Airflow adds", f"{added:.1f}"]])


if __name__ == "__main__":
    main()
