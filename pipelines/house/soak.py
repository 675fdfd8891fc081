"""What a process and a cluster gain in a long life: memory, files, threads, semaphores and tasks, as slopes.

    python pipelines/house/soak.py [--selections 1000] [--minutes 30] [--workers 2]

First many selections in one process and on one cluster. Then for some minutes ingests, shuffles and selections of every
schedule, while workers are killed at random. Of this process, which holds the scheduler, too, each slope is that of a
straight line through the last three quarters of the measurements: the first ones fill caches. Printed are the gain for
every thousand selections, with its standard error, and the number of runs that failed, which is to be 0.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import click
import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import daskfs

MEASURES = ("memory, MB", "open files", "threads", "semaphores", "tasks")
KILL_EVERY = 20.0  # seconds, on average


def measure(client: Client) -> list[float]:
    """Return the measures of this process, and the tasks that the scheduler knows of."""
    process = psutil.Process()
    maps = Path("/proc/self/maps")
    semaphores = maps.read_text().count("/dev/shm/sem.") if maps.exists() else 0  # only Linux says
    scheduler = client.cluster.scheduler
    deadline = time.monotonic() + 5
    while scheduler.tasks and time.monotonic() < deadline:  # futures are released in the background
        time.sleep(0.01)
    return [
        process.memory_info().rss / 1e6,
        process.num_fds(),
        threading.active_count(),
        semaphores,
        len(scheduler.tasks),
    ]


def slopes(seen: NDArray[np.float64]) -> Iterator[str]:
    """Yield a line for every measure: its first and last value, and its gain for every thousand measurements."""
    if len(seen) < 8:
        return
    late = seen[len(seen) // 4 :]
    x = np.arange(len(late)) - (len(late) - 1) / 2
    for name, values, first in zip(MEASURES, late.T, seen[0], strict=True):
        slope = x @ values / (x @ x)
        left = values - values.mean() - slope * x
        error = np.sqrt(left @ left / max(len(x) - 2, 1) / (x @ x))
        yield f"  {name:12} {first:8.1f} to {values[-1]:8.1f}   {1000 * slope:+9.3f} ± {1000 * error:.3f} per thousand"


class Load:
    """Small pieces of work of all kinds."""

    def __init__(self, folder: Path, client: Client) -> None:
        rng = np.random.default_rng(0)
        self.folder, self.client, self._numbers = folder, client, count()
        X = rng.normal(size=(60, 200))
        y = X[:, 3] - X[:, 70] + 0.1 * rng.normal(size=60)
        self.columns = daskfs.write_dataset(folder / "columns", X, y, chunk_bytes=60 * 4 * 10)
        self.rows = daskfs.write_dataset(folder / "rows", X, y, layout="rows", chunk_bytes=2000)
        self.text = folder / "text.svm"
        self.text.write_text("".join(f"{n % 2} {n % 7 + 1}:1 {n % 11 + 9}:0.5\n" for n in range(2000)))
        self.works: list[Callable[[], object]] = [self.serial, self.block, self.asynchronous, self.ingest, self.shuffle]

    def serial(self) -> None:
        """Select with one chain of tasks."""
        self._select(method="paper")

    def block(self) -> None:
        """Select around a centre, with nominations."""
        self._select(method="block")

    def asynchronous(self) -> None:
        """Select around a centre, with pushes."""
        self._select(method="async")

    def ingest(self) -> None:
        """Ingest some text."""
        daskfs.ingest(str(self.text), self.folder / "ingested", format="svmlight", client=self.client, overwrite=True)

    def shuffle(self) -> None:
        """Shuffle some rows."""
        daskfs.shuffle(self.rows, self.folder / "shuffled", client=self.client, overwrite=True)

    def _select(self, method: str) -> None:
        algorithm = daskfs.OnlineSubstitution(2, method=method)
        found = daskfs.select(self.columns, algorithm, client=self.client, synchronous=method == "paper")
        assert sorted(found.features.tolist()) == [3, 70], found.features


@contextmanager
def killing(client: Client, seed: int) -> Iterator[list[int]]:
    """Kill workers at random moments; the nannies start others."""
    rng, end, killed = random.Random(seed), threading.Event(), list[int]()

    def kill() -> None:
        while not end.wait(rng.expovariate(1 / KILL_EVERY)):
            pids = [nanny.pid for nanny in list(client.cluster.workers.values()) if nanny.pid]
            if pids:
                killed.append(rng.choice(pids))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        end.set()
        thread.join()


def soak(title: str, works: list[Callable[[], object]], client: Client, goes_on: Callable[[int], bool]) -> None:
    """Do pieces of work in turns, and print the slopes."""
    seen, failed, began = [measure(client)], 0, time.monotonic()
    while goes_on(len(seen) - 1):
        try:
            works[len(seen) % len(works)]()
        except Exception as error:
            failed += 1
            click.echo(f"  {type(error).__name__}: {error}")
        seen.append(measure(client))
    click.echo(f"{title}: {len(seen) - 1} in {(time.monotonic() - began) / 60:.1f} minutes, {failed} failed")
    for line in slopes(np.array(seen)):
        click.echo(line)


@click.command()
@click.option("--selections", default=1000)
@click.option("--minutes", default=30.0)
@click.option("--workers", default=2)
def main(selections: int, minutes: float, workers: int) -> None:
    """Print what grows."""
    settings = {"distributed.deploy.lost-worker-timeout": "1h", "distributed.scheduler.allowed-failures": 1000}
    local = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 60}
    with (
        dask.config.set(settings),
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, **local) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        load = Load(Path(folder), client)
        soak("Selections", load.works[:3], client, lambda done: done < selections)
        end = time.monotonic() + 60 * minutes
        with killing(client, seed=0) as killed:
            soak("Mixed load", load.works, client, lambda done: time.monotonic() < end)
        click.echo(f"  {len(killed)} workers were killed")


if __name__ == "__main__":
    main()
