"""Two worker processes against one, a core for each: the benchmark job of every algorithm, whole, on local Zarr.

    python pipelines/benchmarks/workers.py [substitution] [mission] [random-features]

Contenders take turns, and the best of several rounds counts. The control takes its turns, too: the same workers
count, one of them alone and two at once, which have nothing to do with each other. Below 1.85 the machine was too
busy to judge. Counting needs no memory, so beside it stands what two workers get out of reading the same blocks and
doing nothing with them: cores share the way to memory. A second table says where the seconds of two workers went, as
the history has it, and how many more of them were `busy` ones than with one worker: that is what cores lose to each
other, the rest what working together takes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import click
import mission
import numpy as np
import substitution
from _measure import IDLE, count_up, one_and_two_workers, show
from _random_features_fits import waves
from distributed import Client
from substitution import read_on

import daskfs
from daskfs.protocol import Algorithm

SPENT = ("busy", "merging", "scheduler", "idle")
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


class Run(NamedTuple):
    """A run of a job: its seconds, and those of all its workers by what they were for."""

    seconds: float
    spent: dict[str, float]


def run(bench: Bench, client: Client) -> Run:
    start = time.perf_counter()
    history = daskfs.select(bench.dataset, bench.algorithm, client=client).history
    seconds = time.perf_counter() - start
    return Run(seconds, {name: float(np.nansum(history[name].values)) for name in SPENT})


class Compared(NamedTuple):
    """The best runs of one worker and of two, and what two workers give that have nothing to do with each other."""

    one: Run
    two: Run
    control: float
    reading: float
    """What two workers that read and do nothing else gave."""

    @property
    def ratio(self) -> float:
        return self.one.seconds / self.two.seconds

    @property
    def judgement(self) -> str:
        return "too busy to judge" if self.control < IDLE else "" if self.ratio >= ENOUGH else f"below {ENOUGH}"


def count_on(client: Client, workers: int) -> float:
    """Seconds until every worker has counted once."""
    start = time.perf_counter()
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    client.gather([client.submit(count_up, pure=False, workers=[addresses[number]]) for number in range(workers)])
    return time.perf_counter() - start


def compared(bench: Bench, rounds: int) -> Compared:
    """One worker against two, in turns."""
    runs: dict[int, list[Run]] = {1: [], 2: []}
    counts, reads = {1: inf, 2: inf}, {1: inf, 2: inf}
    with one_and_two_workers() as clients:
        for client in clients.values():
            run(bench, client)  # kernels are loaded, and the data is in the page cache
        for _ in range(rounds):
            for number, client in clients.items():
                counts[number] = min(counts[number], count_on(client, number))
                runs[number].append(run(bench, client))
                reads[number] = min(reads[number], read_on(client, bench.dataset, number))
    one, two = (min(runs[number], key=attrgetter("seconds")) for number in (1, 2))
    return Compared(one, two, control=2 * counts[1] / counts[2], reading=reads[1] / reads[2])


def row(name: str, bench: Bench, of: Compared) -> list[str]:
    size, seconds = f"{bench.dataset.stored_bytes / 1e9:.1f}", (f"{run.seconds:.2f}" for run in (of.one, of.two))
    return [name, size, *seconds, f"{of.ratio:.2f}", f"{of.control:.2f}", f"{of.reading:.2f}", of.judgement]


def explained(name: str, of: Compared) -> list[str]:
    """Where the seconds of two workers went, and how many more they were busy with the same blocks than one was."""
    shares = (f"{of.two.spent[part] / (2 * of.two.seconds):.1%}" for part in SPENT)
    return [name, *shares, f"{of.two.spent['busy'] / of.one.spent['busy']:.2f}"]


@click.command(context_settings={"show_default": True})
@click.argument("which", nargs=-1, type=click.Choice(NAMES))
@click.option("--samples", default=20_000, help="Of the wide data of Online Substitution.")
@click.option("--features", default=100_000, help="Of the same.")
@click.option("--sparse-rows", default=2_400_000, help="Of MISSION's data.")
@click.option("--rows", default=1_000_000, help="Of the data of random features, 20 columns.")
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
    benches = {name: made[name]() for name in which or NAMES}
    found = {name: compared(bench, rounds) for name, bench in benches.items()}
    columns = ["whole job", "GB", "1 worker, s", "2 workers, s", "ratio", "control", "bare read", ""]
    rows_of_table = [row(name, benches[name], of) for name, of in found.items()]
    show(f"two workers against one, best of {rounds}", columns, rows_of_table)
    columns = ["", *SPENT, "busy, of one's"]
    show("where the seconds of two workers went", columns, [explained(name, of) for name, of in found.items()])


if __name__ == "__main__":
    main()
