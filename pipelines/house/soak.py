"""What a process and a cluster gain in a long life: memory, files, threads, semaphores and tasks, as slopes.

    python pipelines/house/soak.py [--selections 1000] [--minutes 30] [--workers 2] [--json docs/soak.json]

First many selections in one process and on one cluster. Then for some minutes ingests, shuffles and selections of every
schedule, while workers are killed at random. Each slope, of this process, which holds the scheduler, too, and of the
processes of the workers, is that of a straight line through the last three quarters of the measurements: the first ones
fill caches. Printed are the gain for every thousand selections, with its standard error, and the number of runs that
failed. The exit code is 1 if a run failed, or if a gain is beyond its limit by more than two standard errors.
"""

from __future__ import annotations

import json
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
from typing import Any

import click
import dask
import numpy as np
import psutil
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import daskfs

LIMITS = {"memory, MB": 150.0, "open files": 5.0, "threads": 5.0, "semaphores": 5.0, "tasks": 1.0}
"""The most that this process may gain in a thousand selections: Dask's spans take some 80 MB, see docs/faults.md."""
WORKER_LIMITS = {"memory of workers, MB": 20.0, "open files of workers": 5.0, "semaphores of workers": 5.0}
"""The same of all workers together, without kills: a worker that was killed begins anew."""
KILL_EVERY = 20.0  # seconds, on average


def semaphores(process: psutil.Process) -> int:
    """Return the number of named semaphores of a process, which only Linux tells."""
    maps = Path(f"/proc/{process.pid}/maps")
    return maps.read_text().count("/dev/shm/sem.") if maps.exists() else 0


def measure(client: Client) -> list[float]:
    """Return the measures of this process, the tasks that the scheduler knows of, and the measures of the workers."""
    process = psutil.Process()
    scheduler = client.cluster.scheduler
    deadline = time.monotonic() + 5
    while scheduler.tasks and time.monotonic() < deadline:  # futures are released in the background
        time.sleep(0.01)
    of_workers = np.zeros(3)
    for nanny in list(client.cluster.workers.values()):
        with suppress(psutil.Error, OSError, ValueError):  # it was killed
            worker = psutil.Process(nanny.pid)
            of_workers += worker.memory_info().rss / 1e6, worker.num_fds(), semaphores(worker)
    here = process.memory_info().rss / 1e6, process.num_fds(), threading.active_count(), semaphores(process)
    return [*here, len(scheduler.tasks), *of_workers.tolist()]


def slopes(seen: NDArray[np.float64], limits: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Yield a record for every measure: first and last value, gain for every thousand measurements, and its limit."""
    if len(seen) < 8:
        return
    late = seen[len(seen) // 4 :]
    x = np.arange(len(late)) - (len(late) - 1) / 2
    for (name, limit), values, first in zip(limits.items(), late.T, seen[0], strict=False):
        slope = x @ values / (x @ x)
        left = values - values.mean() - slope * x
        error = np.sqrt(left @ left / max(len(x) - 2, 1) / (x @ x))
        gain = {"gain": round(1000 * slope, 3), "error": round(1000 * error, 3), "limit": limit}
        yield {"measure": name, "first": round(first, 1), "last": round(values[-1], 1), **gain}


def is_beyond(record: dict[str, Any]) -> bool:
    """Return whether a gain is beyond its limit, and not by chance alone."""
    return bool(record["gain"] - 2 * record["error"] > record["limit"])


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


def soak(
    title: str,
    works: list[Callable[[], object]],
    client: Client,
    goes_on: Callable[[int], bool],
    limits: dict[str, float],
) -> dict[str, Any]:
    """Do pieces of work in turns. Print and return how many failed, and the slopes."""
    seen, failed, began = [measure(client)], 0, time.monotonic()
    while goes_on(len(seen) - 1):
        try:
            works[len(seen) % len(works)]()
        except Exception as error:
            failed += 1
            click.echo(f"  {type(error).__name__}: {error}")
        seen.append(measure(client))
    minutes = round((time.monotonic() - began) / 60, 1)
    click.echo(f"{title}: {len(seen) - 1} in {minutes} minutes, {failed} failed")
    records = list(slopes(np.array(seen), limits))
    for of in records:
        gain = f"{of['gain']:+9.3f} ± {of['error']:.3f} per thousand"
        beyond = f", beyond {of['limit']:g}" if is_beyond(of) else ""
        click.echo(f"  {of['measure']:22} {of['first']:8.1f} to {of['last']:8.1f}   {gain}{beyond}")
    return {"load": title, "pieces": len(seen) - 1, "minutes": minutes, "failed": failed, "slopes": records}


@click.command()
@click.option("--selections", default=1000)
@click.option("--minutes", default=30.0)
@click.option("--workers", default=2)
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keep the slopes in this file.")
def main(selections: int, minutes: float, workers: int, file: Path | None) -> None:
    """Print what grows."""
    settings = {
        "distributed.deploy.lost-worker-timeout": "1h",
        "distributed.scheduler.allowed-failures": 1000,
        "distributed.worker.profile.enabled": False,  # its history grows with time; see docs/faults.md
    }
    local = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 60}
    with (
        dask.config.set(settings),
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, **local) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        load = Load(Path(folder), client)
        quiet = soak("Selections", load.works[:3], client, lambda done: done < selections, {**LIMITS, **WORKER_LIMITS})
        end = time.monotonic() + 60 * minutes
        with killing(client, seed=0) as killed:
            mixed = soak("Mixed load", load.works, client, lambda done: time.monotonic() < end, LIMITS)
        click.echo(f"  {len(killed)} workers were killed")
    mixed["killed"] = len(killed)
    if file is not None:
        file.write_text(json.dumps([quiet, mixed], indent=1) + "\n")
    if any(part["failed"] or any(map(is_beyond, part["slopes"])) for part in (quiet, mixed)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
