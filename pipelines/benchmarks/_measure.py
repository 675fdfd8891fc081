"""How benchmarks here measure: contenders interleaved in one run, best of several, ratios before seconds."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster
from distributed.worker import Worker
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

console = Console(highlight=False)
IDLE = 1.85  # two processes against one: below that the machine is too busy to judge
CALM = {
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.admin.tick.interval": "200ms",
}
"""How often Dask's processes look at themselves. As it comes, two schedulers and three nannies take a tenth of a core
for that, which two workers on two cores miss and one does not; on a cluster, schedulers have a core of their own."""


def interleaved(
    contenders: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """The best time of each contender over `rounds` rounds in which each runs once."""
    best = dict.fromkeys(contenders, inf)
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def count_up(count: int = 20_000_000) -> None:
    """A second or two of work that needs no memory."""
    total = 0
    for i in range(count):
        total += i * i


def multiply(count: int) -> None:
    """So many products of matrices as a pass of random features has them, on one thread."""
    tile = np.random.default_rng(0).random((1024, 1000), dtype=np.float32)
    with threadpool_limits(1, user_api="blas"):
        for _ in range(count):
            tile.T @ tile


class Control:
    """How much two processes get done beside what one does, best against best of all turns they have taken.

    Below 1.85 the machine is too busy to judge.
    """

    def __init__(self, count: int = 20_000_000, work: Callable[[int], object] = count_up) -> None:
        self._count, self._work = count, work
        self._best = {"alone": inf, "together": inf}

    def take_turns(self, turns: int = 3) -> Control:
        """Let them work, with nothing else beside."""
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.map(self._work, [1, 1])
            contenders: dict[str, Callable[[], object]] = {
                "alone": lambda: pool.apply(self._work, (self._count,)),
                "together": lambda: pool.map(self._work, [self._count] * 2, chunksize=1),
            }
            for name, seconds in interleaved(contenders, turns, time.perf_counter).items():
                self._best[name] = min(self._best[name], seconds)
        return self

    @property
    def ratio(self) -> float:
        return 2 * self._best["alone"] / self._best["together"]


def two_processes_against_one(count: int = 20_000_000, work: Callable[[int], object] = count_up) -> float:
    """`Control`, for a benchmark that asks once."""
    return Control(count, work).take_turns().ratio


def pin(dask_worker: Worker) -> None:
    """Give each worker a core of its own, all its threads, as on a cluster where every core has one."""
    core = sorted(os.sched_getaffinity(0))[int(dask_worker.name)]
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})


@contextmanager
def one_and_two_workers() -> Iterator[dict[int, Client]]:
    """A cluster of one worker and a cluster of two, by their size, a core for each worker."""
    here = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 40}
    with dask.config.set(CALM):
        clusters = {number: LocalCluster(n_workers=number, **here) for number in (1, 2)}
    clients = {number: Client(cluster, set_as_default=False) for number, cluster in clusters.items()}
    try:
        for client in clients.values():
            client.run(pin)
        yield clients
    finally:
        for number, client in clients.items():
            client.close()
            clusters[number].close()


def resident(which: str = "VmRSS") -> int:
    """Bytes that this process has resident, or had at most (VmHWM)."""
    found = re.search(rf"{which}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found, "needs Linux"
    return int(found[1]) * 1024


def forget_peak() -> None:
    """Let the high-water mark of resident memory begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def save(path: Path | None, name: str, figures: object) -> None:
    """Write the figures of one benchmark to a JSON file that also has those of others; without a path, do nothing."""
    if path is not None:
        there = json.loads(path.read_text()) if path.exists() else {}
        new = path.with_suffix(".new")  # a benchmark that is stopped leaves a whole file
        new.write_text(json.dumps({**there, name: figures}, indent=1, sort_keys=True) + "\n")
        new.replace(path)


def save_records(path: Path | None, name: str, records: list[dict[str, Any]], same: tuple[str, ...]) -> None:
    """Save records in place of those with the same values in some fields, beside all others of that name."""
    there = json.loads(path.read_text()).get(name, []) if path is not None and path.exists() else []
    new = {tuple(record[field] for field in same) for record in records}
    save(path, name, [r for r in there if tuple(r.get(field) for field in same) not in new] + records)


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table, which is not squeezed into 80 characters where nobody says how many there are."""
    if not console.is_terminal:
        console.width = 160
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
