"""How many workers a scheduler and a centre serve: 16 to 1,024 light workers that sleep in place of reading and computing.

    python pipelines/benchmarks/many_workers.py [rounds] [centre] [--workers 16,64,256] [--kills 0.1]

Scheduler, driver, centre, tasks, merges and offers are the real ones. Only `SleepingBlocks` is not: a block is a sleep
as long as reading and processing a measured block, or several. Each worker has the same work in a pass, `--seconds`, so
*efficiency* is these seconds by the seconds of the pass. Where the processes that share all workers (``hosts``) are busy
all the time, the machine is the limit, and the efficiency is a lower bound.

``--kills`` is the mean number of workers a second that leave, without a word, and are replaced (Poisson).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from _light_cluster import light_cluster
from _measure import show
from _sleeping import Counting, SleepingBlocks

import daskfs
from daskfs.engine.asynchronous.driver import AsynchronousRunner
from daskfs.engine.synchronous import SynchronousRunner
from daskfs.protocol import (
    Schedule,
)

BLOCK_BYTES = 8_000_000
NAMES = ("rounds", "centre")


class Submissions:
    """Measures the seconds in which the driver submits tasks, and counts the tasks of every pass."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.tasks: list[int] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure all runs inside the context."""
        rounds, groups = SynchronousRunner._submit_pass, AsynchronousRunner._submit_groups

        def submit_pass(*arguments: Any) -> Any:
            began = time.perf_counter()
            pending = rounds(*arguments)
            self._note(began, sum(len(one.tasks) for one in pending))
            return pending

        def submit_groups(*arguments: Any) -> Any:
            began = time.perf_counter()
            futures = groups(*arguments)
            self._note(began, len(futures))
            return futures

        SynchronousRunner._submit_pass = submit_pass  # type: ignore[method-assign]
        AsynchronousRunner._submit_groups = submit_groups  # type: ignore[method-assign]
        try:
            yield
        finally:
            SynchronousRunner._submit_pass = rounds  # type: ignore[method-assign]
            AsynchronousRunner._submit_groups = groups  # type: ignore[method-assign]

    def _note(self, began: float, tasks: int) -> None:
        self.seconds.append(time.perf_counter() - began)
        self.tasks.append(tasks)


class Measured(NamedTuple):
    """A run with a number of workers; figures of a pass are those of the last one."""

    schedule: str
    workers: int
    tasks: int
    submission: float
    """Seconds until the driver has handed over all tasks of a pass."""
    seconds: float
    efficiency: float
    merging: float
    """Seconds in a pass of all merges together, or those that the centre was busy."""
    pushes: float
    """Offers a second that the centre accepted."""
    scheduler: float
    """Shares of the seconds in which a process was busy: the scheduler, those of all workers, that of the centre."""
    hosts: float
    centre: float
    lost: float
    """Workers that were killed in the run."""


class Plan(NamedTuple):
    """The work of a run."""

    seconds: float
    """Of work for each worker in a pass."""
    block: float
    """Seconds of a block."""
    state_bytes: int
    offer_bytes: int
    hosts: int


def measure(name: str, workers: int, plan: Plan, kills: float = 0.0) -> Measured:
    """Run the passes of a schedule on a light cluster of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        light_cluster(workers, "_sleeping", plan.hosts, with_centre=name == "centre") as (client, processes),
    ):
        blocks = workers * round(plan.seconds / plan.block)
        ones = np.ones((4, blocks), np.float32)
        daskfs.write_dataset(Path(folder) / "d.zarr", ones, np.arange(4.0))
        source = daskfs.open_dataset(Path(folder) / "d.zarr")
        data = SleepingBlocks(source, blocks, plan.block, round(BLOCK_BYTES * plan.block / 0.01))
        schedule = Schedule.SYNCHRONOUS if name == "rounds" else Schedule.ASYNCHRONOUS
        algorithm = Counting(
            schedule=schedule, n_blocks=blocks, state_bytes=plan.state_bytes, offer_bytes=plan.offer_bytes
        )
        submissions, passes = Submissions(), list[tuple[float, dict[str, float]]]()

        def progress(now: Any) -> None:
            if now.blocks_done == 0 or len(passes) < now.number:
                passes.append((time.perf_counter(), processes.cpu()))

        with submissions.watched():
            selection = daskfs.select(data, algorithm, client=client, progress=progress)
        ended, cpu = time.perf_counter(), processes.cpu()
        began, before = passes[-1]
        history = selection.history
        assert float(history["objective"][-1]) == blocks, "a block was lost"
        seconds = float(history["seconds"][-1])
        busy = {part: (cpu[part] - before[part]) / (ended - began) for part in cpu}
        return Measured(
            name, workers, submissions.tasks[-1], submissions.seconds[-1], seconds, plan.seconds / seconds,
            float(history["merging"][-1]), float(history["offers"][-1]) / seconds,
            busy["scheduler"], busy["workers"] / plan.hosts, busy["centre"], 0.0,
        )  # fmt: skip


def row(of: Measured) -> list[str]:
    shares = [f"{share:.0%}" for share in (of.scheduler, of.hosts, of.centre)]
    times = [f"{of.submission:.2f}", f"{of.seconds:.2f}", f"{of.efficiency:.2f}", f"{of.merging:.2f}"]
    return [of.schedule, f"{of.workers:,}", f"{of.tasks:,}", *times, f"{of.pushes:,.0f}", *shares]


COLUMNS = ["schedule", "workers", "tasks", "submit s", "pass s", "efficiency", "merge s", "pushes/s"]


@click.command(context_settings={"show_default": True})
@click.argument("which", nargs=-1, type=click.Choice(NAMES))
@click.option("--workers", default="16,64,256", help="Numbers of workers.")
@click.option("--seconds", default=4.0, help="Of work for each worker in a pass.")
@click.option("--block", default=0.1, help="Seconds of a block: 0.01 are 8 MB, larger ones stand for several.")
@click.option("--state", default=100_000, help="Bytes of a state.")
@click.option("--offer", default=10_000, help="Bytes of an offer to the centre.")
@click.option("--hosts", default=1, help="Processes that share the workers.")
@click.option("--out", type=click.Path(path_type=Path), help="For the figures, as JSON.")
def main(
    which: tuple[str, ...], workers: str, seconds: float, block: float, state: int, offer: int, hosts: int,
    out: Path | None,
) -> None:  # fmt: skip
    """Print the table."""
    plan = Plan(seconds, block, state, offer, hosts)
    found = [measure(name, int(count), plan) for name in which or NAMES for count in workers.split(",")]
    columns = [*COLUMNS, "scheduler", "hosts", "centre"]
    show(f"{seconds:g} s of work for each worker in a pass", columns, [row(of) for of in found])
    if out is not None:
        out.write_text(json.dumps([of._asdict() for of in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
