"""Two worker processes against one, a core for each: the benchmark job of every algorithm, whole, on local Zarr.

    python pipelines/benchmarks/workers.py [substitution] [mission] [random-features]

Contenders take turns, and the best of several rounds counts. The control is two processes that have nothing to do with
each other, before and after; the lower one counts, and below 1.85 the machine was too busy to judge.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import mission
import substitution
from _measure import IDLE, one_and_two_workers, show, two_processes_against_one
from _random_features_fits import waves
from distributed import Client

import daskfs
from daskfs.protocol import Algorithm

NAMES = ("substitution", "mission", "random-features")
ENOUGH = 1.7  # what two workers should give at least


class Bench(NamedTuple):
    """A job, and the data it reads."""

    dataset: daskfs.Dataset
    algorithm: Algorithm


def wide(work: Path, samples: int, features: int) -> daskfs.Dataset:
    """The dense regression of Online Substitution, from --work if it is there."""
    out = work / f"wide_{samples}_{features}.zarr"
    if not out.exists():
        daskfs.write_dataset(out, *substitution.planted(samples, features))
    return daskfs.open_dataset(out)


def seconds_of(bench: Bench, client: Client) -> float:
    start = time.perf_counter()
    daskfs.select(bench.dataset, bench.algorithm, client=client)
    return time.perf_counter() - start


def compared(name: str, bench: Bench, rounds: int) -> list[str]:
    """A line of the table."""
    control = two_processes_against_one()
    with one_and_two_workers() as clients:
        for client in clients.values():
            seconds_of(bench, client)  # kernels are loaded, and the data is in the page cache
        runs = [{number: seconds_of(bench, client) for number, client in clients.items()} for _ in range(rounds)]
    control = min(control, two_processes_against_one())
    one, two = (min(run[number] for run in runs) for number in (1, 2))
    judgement = "too busy to judge" if control < IDLE else "" if one / two >= ENOUGH else f"below {ENOUGH}"
    size = f"{bench.dataset.stored_bytes / 1e9:.1f}"
    return [name, size, f"{one:.2f}", f"{two:.2f}", f"{one / two:.2f}", f"{control:.2f}", judgement]


@click.command(context_settings={"show_default": True})
@click.argument("which", nargs=-1, type=click.Choice(NAMES))
@click.option("--samples", default=20_000, help="Of the wide data of Online Substitution.")
@click.option("--features", default=100_000, help="Of the same.")
@click.option("--sparse-rows", default=800_000, help="Of MISSION's data.")
@click.option("--rows", default=400_000, help="Of the data of random features, 20 columns.")
@click.option("--rounds", default=3, help="Of which the best counts.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("benchmark-data"), help="For datasets.")
def main(
    which: tuple[str, ...], samples: int, features: int, sparse_rows: int, rows: int, rounds: int, work: Path
) -> None:
    """Print the table."""
    work.mkdir(parents=True, exist_ok=True)
    os_job = daskfs.OnlineSubstitution(substitution.S, passes=substitution.PASSES)
    fit = daskfs.SparseRandomFeatures(rounds=5, per_round=200, gamma=1.0, penalty=rows / 10_000)
    made: dict[str, Callable[[], Bench]] = {
        "substitution": lambda: Bench(wide(work, samples, features), os_job),
        "mission": lambda: Bench(
            mission.rows_of(work, sparse_rows).train, daskfs.Mission(mission.K, learning_rate=mission.RATE)
        ),
        "random-features": lambda: Bench(waves(work, rows, 20), fit),
    }
    lines = [compared(name, made[name](), rounds) for name in which or NAMES]
    columns = ["whole job", "GB", "1 worker, s", "2 workers, s", "ratio", "control", ""]
    show(f"two workers against one, best of {rounds}", columns, lines)


if __name__ == "__main__":
    main()
