"""The CPU time of a number, for `daskfs plan --cluster`: a fit on one and two workers, and its error on a larger size.

    python pipelines/benchmarks/scaling.py --out docs/scaling.json    # 4 GB, minutes on a machine that is free
    python pipelines/docs/scaling.py                                  # the page, and the numbers of the model

CPU seconds of all processes of a cluster are fitted as ``a + nanoseconds x numbers x passes``, from sizes 1 and 2 with
one worker and with two, and predict size 4 with two workers: the error beside it is that of the prediction. CPU seconds
depend less on what else the machine does than seconds by the clock, which are noted beside them, with the load: on a
busy machine a CPU second does less, too, so the numbers of the model are to come from one that is free.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
import numpy as np
import psutil
from _measure import save, show
from distributed import Client, LocalCluster
from terabyte import Stream, columns, rows

import daskfs
from daskfs.algorithms.registry import registration

SIZES = (1, 2, 4)
BASE = 1e9  # bytes of size 1; sizes are streams of a pool, and a pass is to take seconds
POOL = 0.2e9
MADE: dict[str, Callable[[Path, float, float], Stream]] = {"OnlineSubstitution": columns, "Mission": rows}


class Run(NamedTuple):
    """A run on a cluster: the numbers that it read in all passes, and the CPU seconds of all processes."""

    workers: int
    size: int
    numbers: float
    cpu: float
    clock: float


class Fit(NamedTuple):
    """A line through the CPU seconds of runs, and what it says of a larger one."""

    algorithm: str
    start: float
    nanoseconds: float
    worst: float
    """The largest relative error at one of the runs that were fitted."""
    predicted: float
    measured: float
    gigabytes: float
    """Of the larger run, as numbers of four bytes, in all passes."""
    load: float
    """Processes that wanted to run in the last quarter of an hour, for each core."""

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


@contextmanager
def cluster(workers: int) -> Iterator[Client]:
    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 40}
    with LocalCluster(n_workers=workers, **options) as local, Client(local, set_as_default=False) as client:
        yield client


def cpu_seconds() -> float:
    """CPU seconds of this process, with the scheduler, and of all below it, the workers."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def run(stream: Stream, client: Client, workers: int, size: int) -> Run:
    began, clock = cpu_seconds(), time.perf_counter()
    history = daskfs.select(stream.dataset, stream.algorithm, client=client).history
    passes = float(np.nansum(history["bytes"].values)) / float(stream.dataset.block_sizes(stream.algorithm.axis).sum())
    clock = time.perf_counter() - clock
    return Run(workers, size, stream.dataset.n_entries * passes, cpu_seconds() - began, clock)


def fitted(name: str, runs: list[Run]) -> Fit:
    """Fit the runs of sizes 1 and 2, and predict the largest run of two workers."""
    known = [one for one in runs if one.size < SIZES[-1]]
    A = np.array([[1.0, one.numbers] for one in known])
    weights = 1 / np.array([one.cpu for one in known])  # relative errors count
    start, slope = np.linalg.lstsq(A * weights[:, None], np.ones(len(known)), rcond=None)[0]
    largest = max((one for one in runs if one.workers == 2), key=lambda one: one.size)
    worst = float(np.abs(A * weights[:, None] @ [start, slope] - 1).max())
    load, gigabytes = os.getloadavg()[2] / (os.cpu_count() or 1), 4e-9 * largest.numbers
    predicted = float(start + slope * largest.numbers)
    return Fit(name, float(start), 1e9 * float(slope), worst, predicted, largest.cpu, gigabytes, load)


def runs_of(name: str, work: Path, base: float) -> list[Run]:
    """Run all sizes on one and on two workers, each after a run that loads the kernels."""
    streams = {}
    for size in SIZES:
        folder = work / f"{name}-{size}"
        folder.mkdir()
        streams[size] = MADE[name](folder, min(POOL, base), base * size)
    runs = []
    for workers in (1, 2):
        with cluster(workers) as client:
            run(streams[1], client, workers, 1)
            runs += [run(streams[size], client, workers, size) for size in SIZES if workers == 2 or size < SIZES[-1]]
    return runs


@click.command(context_settings={"show_default": True})
@click.option("--scale", default=1.0, help="Times the usual sizes.")
@click.option("--work", type=click.Path(path_type=Path), help="A folder with room for the pools; a temporary one.")
@click.option("--out", type=click.Path(path_type=Path), help="For the figures, as JSON.")
def main(scale: float, work: Path | None, out: Path | None) -> None:
    """Print the table."""
    with TemporaryDirectory(dir=work) as folder:
        runs = {name: runs_of(name, Path(folder), scale * BASE) for name in MADE}
    fits = [fitted(name, found) for name, found in runs.items()]
    table = [
        [of.algorithm, f"{of.start:.2f}", f"{of.nanoseconds:.2f}", f"{registration(of.algorithm).nanoseconds:g}",
         f"{of.worst:.0%}", f"{of.predicted:.2f}", f"{of.measured:.2f}", f"{of.error:+.0%}"] for of in fits
    ]  # fmt: skip
    titles = ["", "start s", "ns a number", "in the plan", "worst of the fit", "predicted s", "measured s", "error"]
    show("CPU seconds, fitted on one and two workers, and size 4 on two", titles, table)
    save(out, "runs", {name: [one._asdict() for one in found] for name, found in runs.items()})
    save(out, "fits", [{**of._asdict(), "error": of.error} for of in fits])


if __name__ == "__main__":
    main()
