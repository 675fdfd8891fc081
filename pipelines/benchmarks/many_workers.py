"""How many workers a scheduler and a centre serve: light workers that sleep in place of reading and computing.

    python pipelines/benchmarks/many_workers.py [rounds] [centre] [--workers 16,64,256,1024] [--seconds 4]
    python pipelines/benchmarks/many_workers.py --workers 256 --seconds 60 --block 1    # the efficiency by the clock

Scheduler, driver, centre, tasks, merges and offers are the real ones. Only `SleepingBlocks` is not: a block is a sleep
as long as reading and processing a measured block, or several. Each worker has the same work in a pass, `--seconds`, so
the *efficiency* is these seconds by the seconds of the pass.

All workers share a few processes (*hosts*), and on a machine with few cores these, the scheduler and the driver take
turns. So beside the efficiency by the clock there is one by CPU seconds: what it would be with a core for each. A pass
in rounds loses the CPU seconds that the scheduler takes for its tasks, since workers wait for it between two rounds. A
pass around a centre takes the CPU seconds of the scheduler or of the centre, if these are more than those of the work.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import terabyte
from _counting import Counting
from _light_cluster import Processes, light_cluster
from _measure import save_records, show
from _sleeping import SleepingBlocks

import daskfs
from daskfs.engine.asynchronous.driver import AsynchronousRunner
from daskfs.engine.passes import PassProgress
from daskfs.engine.synchronous import SynchronousRunner
from daskfs.protocol import Schedule

BLOCK_BYTES, BLOCK_SECONDS = 8_000_000, 0.01
LEAST_SLEEP = 0.1  # blocks that are shorter are put together, or two cores would only wake and sleep
SCHEDULES = {"rounds": Schedule.SYNCHRONOUS, "centre": Schedule.ASYNCHRONOUS}


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
    merges: int
    workers: int
    work: float
    """Seconds of sleep of each worker in a pass."""
    tasks: int
    submission: float
    """Seconds until the driver has handed over all tasks of a pass."""
    seconds: float
    merging: float
    """Seconds in a pass of all merges together, or those that the centre was busy."""
    pushes: float
    """Offers that the centre accepted in a pass."""
    scheduler: float
    """CPU seconds in a pass of the scheduler, of all workers, of the process of the centre, and of the driver."""
    hosts: float
    centre: float
    driver: float

    @property
    def efficiency(self) -> float:
        return self.work / self.seconds

    @property
    def possible(self) -> float:
        """The efficiency that the CPU seconds allow where scheduler and centre have a core each."""
        if self.schedule == "rounds":
            return self.work / (self.work + self.scheduler)
        return self.work / max(self.work, self.scheduler, self.centre)


class Plan(NamedTuple):
    """The work of a run."""

    seconds: float
    """Of work for each worker in a pass."""
    block: float
    """Seconds of a block."""
    block_bytes: int
    state_bytes: int
    offer_bytes: int
    hosts: int
    merges: int
    """Rounds in a pass, at least."""


class Passes:
    """A progress callback that notes the CPU seconds of all processes at the begin of every pass."""

    def __init__(self, processes: Processes) -> None:
        self._processes, self._began = processes, list[dict[str, float]]()

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far, by process."""
        return {**self._processes.cpu(), "driver": time.process_time()}

    def __call__(self, now: PassProgress) -> None:
        if len(self._began) < now.number:
            self._began.append(self.cpu())

    def of_last(self) -> dict[str, float]:
        """Return the CPU seconds since the begin of the last pass, by process."""
        return {name: seconds - self._began[-1][name] for name, seconds in self.cpu().items()}


def measured_block(name: str) -> float:
    """Return the CPU seconds in which MISSION (rounds) or Online Substitution (centre) reads and processes a block."""
    make = terabyte.columns if name == "centre" else terabyte.rows
    with tempfile.TemporaryDirectory() as folder:
        stream = make(Path(folder), 20 * BLOCK_BYTES, 40 * BLOCK_BYTES)
        times = []
        for _ in range(3):  # the first compiles
            began = time.process_time()
            passes = len(daskfs.select(stream.dataset, stream.algorithm).history["seconds"])
            times.append((time.process_time() - began) / passes)
    return min(times) * BLOCK_BYTES / float(stream.dataset.block_sizes(stream.algorithm.axis).sum())


def measure(name: str, workers: int, plan: Plan) -> Measured:
    """Run two passes of a schedule on a light cluster of its own, and return the figures of the second."""
    blocks = workers * round(plan.seconds / plan.block)
    with (
        tempfile.TemporaryDirectory() as folder,
        light_cluster(workers, "_counting", plan.hosts, with_centre=name == "centre") as (client, processes),
    ):
        ones = np.ones((4, blocks), np.float32)
        source = daskfs.write_dataset(Path(folder) / "d.zarr", ones, np.arange(4.0))
        data = SleepingBlocks(source, blocks, plan.block, plan.block_bytes)
        algorithm = Counting(
            schedule=SCHEDULES[name], n_blocks=blocks, merges=plan.merges, state_bytes=plan.state_bytes,
            offer_bytes=plan.offer_bytes,
        )  # fmt: skip
        submissions, passes = Submissions(), Passes(processes)
        with submissions.watched():
            history = daskfs.select(data, algorithm, client=client, progress=passes).history
        cpu = passes.of_last()
    if float(history["objective"][-1]) != blocks:
        raise AssertionError("a block was lost")
    seconds, merging, offers = (float(history[column][-1]) for column in ("seconds", "merging", "offers"))
    tasks, submission = submissions.tasks[-1], submissions.seconds[-1]
    parts = (cpu[part] for part in ("scheduler", "workers", "centre", "driver"))
    return Measured(name, plan.merges, workers, plan.seconds, tasks, submission, seconds, merging, offers, *parts)


def row(of: Measured) -> list[str]:
    times = [f"{of.submission:.2f}", f"{of.seconds:.2f}", f"{of.merging:.2f}", f"{of.pushes / of.seconds:,.0f}"]
    cpu = [f"{seconds:.2f}" for seconds in (of.scheduler, of.hosts, of.centre, of.driver)]
    name = of.schedule if of.schedule == "centre" else f"{of.merges} {of.schedule}"
    return [name, f"{of.workers:,}", f"{of.tasks:,}", *times, *cpu, f"{of.efficiency:.2f}", f"{of.possible:.2f}"]


@click.command(context_settings={"show_default": True})
@click.argument("which", nargs=-1, type=click.Choice(list(SCHEDULES)))
@click.option("--workers", default="16,64,256,1024", help="Numbers of workers.")
@click.option("--seconds", default=4.0, help="Of work for each worker in a pass.")
@click.option("--block", type=float, help="Seconds of a block, 0.01 of which are 8 MB.  [default: as measured]")
@click.option("--state", default=100_000, help="Bytes of a state.")
@click.option("--offer", default=10_000, help="Bytes of an offer to the centre.")
@click.option("--merges", default="1,10", help="Rounds in a pass, at least.")
@click.option("--hosts", default=1, help="Processes that share the workers.")
@click.option("--out", type=click.Path(path_type=Path), help="For the figures: docs/scaling.json.")
def main(
    which: tuple[str, ...], workers: str, seconds: float, block: float | None, state: int, offer: int, merges: str,
    hosts: int, out: Path | None,
) -> None:  # fmt: skip
    """Print the table."""
    found = []
    for name in which or SCHEDULES:
        block_seconds = measured_block(name) if block is None else BLOCK_SECONDS
        together = max(1, round((block or LEAST_SLEEP) / block_seconds))
        for least in merges.split(",") if name == "rounds" else "1":
            for count in workers.split(","):
                plan = Plan(seconds, together * block_seconds, together * BLOCK_BYTES, state, offer, hosts, int(least))
                found.append(measure(name, int(count), plan))
                record = {**found[-1]._asdict(), "possible": found[-1].possible, "efficiency": found[-1].efficiency}
                save_records(out, "workers", [record], ("schedule", "merges", "workers", "work"))
    times = ["submit s", "pass s", "merge s", "pushes/s"]
    columns = ["schedule", "workers", "tasks", *times, "scheduler", "hosts", "centre", "driver", "efficiency", "by CPU"]
    show(
        f"{seconds:g} s of work for each worker in a pass; CPU seconds of the processes",
        columns,
        [row(of) for of in found],
    )


if __name__ == "__main__":
    main()
