"""Workers that come and go as spot instances do: what random kills cost beside the work that they destroy.

    python pipelines/benchmarks/spot.py [rounds] [centre] [--workers 6] [--seconds 60] [--lives 120,60]

Every worker is a process of its own and is killed (SIGKILL) when an exponentially distributed life is over; another one
is started in its place at once. Scheduler, driver, centre, tasks, merges and offers are the real ones, and the first
three are not killed. A block is a sleep (see `_sleeping.py`) and leaves a byte in a file when it has been read, so that
the *lost work* is what was read more than once a pass. The algorithm counts the blocks that it has been given: a block
that is lost or counted twice ends the benchmark.

*Away* is the share of the workers' time in which a worker was dead and its successor not up yet. A run that loses
nothing beyond both takes (1 + lost) / (1 - away) times as long as a calm one.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from _counting import Counting
from _light_cluster import Processes, light_cluster
from _measure import save_records, show
from _sleeping import NotedBlocks
from many_workers import BLOCK_BYTES, BLOCK_SECONDS, SCHEDULES

import daskfs

PASSES, MERGES, STATE_BYTES, OFFER_BYTES = 2, 10, 100_000, 10_000


class Measured(NamedTuple):
    """A run in which workers were killed, or none."""

    schedule: str
    workers: int
    life: float
    """The mean of a worker's seconds to live; 0 if none is killed."""
    kills: int
    seconds: float
    """Of all passes."""
    lost: float
    """Blocks that were read again, as a share of all blocks of all passes."""
    away: float

    @property
    def explained(self) -> float:
        """Times the seconds of a calm run, by the lost work and the missing workers alone."""
        return (1 + self.lost) / (1 - self.away)


class Kills:
    """Kills a random worker after random times, and starts another one in its place."""

    def __init__(self, processes: Processes, life: float, rng: np.random.Generator) -> None:
        self.count, self.away = 0, 0.0
        self._processes, self._life, self._rng = processes, life, rng
        self._ended, self._starts = threading.Event(), list[threading.Thread]()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Kill workers while the context is open, if they have an end at all."""
        thread = threading.Thread(target=self._run)
        if self._life:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            if self._life:
                thread.join()
            for start in self._starts:
                start.join()

    def _run(self) -> None:
        workers = self._processes.workers
        rate = len(workers) / self._life
        while not self._ended.wait(self._rng.exponential(1 / rate)):
            if workers:
                workers.pop(int(self._rng.integers(len(workers)))).kill()
                self.count += 1
                self._starts.append(threading.Thread(target=self._replace))
                self._starts[-1].start()

    def _replace(self) -> None:
        began = time.perf_counter()
        self._processes.workers.append(self._processes.start_worker())
        self.away += time.perf_counter() - began


def measure(name: str, workers: int, seconds: float, block: float, life: float, seed: int = 0) -> Measured:
    """Run two passes, each with so many seconds of work for every worker, while workers are killed."""
    blocks = workers * round(seconds / block)
    with (
        tempfile.TemporaryDirectory() as folder,
        light_cluster(workers, "_counting", workers, with_centre=name == "centre") as (client, processes),
    ):
        source = daskfs.write_dataset(Path(folder) / "d.zarr", np.ones((4, blocks), np.float32), np.arange(4.0))
        notes = Path(folder) / "notes"
        data = NotedBlocks(source, blocks, block, round(BLOCK_BYTES * block / BLOCK_SECONDS), notes)
        algorithm = Counting(
            schedule=SCHEDULES[name], n_blocks=blocks, passes=PASSES, merges=MERGES, state_bytes=STATE_BYTES,
            offer_bytes=OFFER_BYTES,
        )  # fmt: skip
        kills, began = Kills(processes, life, np.random.default_rng(seed)), time.perf_counter()
        with kills.going_on():
            history = daskfs.select(data, algorithm, client=client).history
            took, killed, away = time.perf_counter() - began, kills.count, kills.away
        read = notes.stat().st_size
    if [float(count) for count in history["objective"]] != [blocks] * PASSES:
        raise AssertionError("a block was lost, or counted twice")
    return Measured(name, workers, life, killed, took, read / (PASSES * blocks) - 1, min(away / (workers * took), 1.0))


@click.command(context_settings={"show_default": True})
@click.argument("which", nargs=-1, type=click.Choice(list(SCHEDULES)))
@click.option("--workers", default=6, help="Processes.")
@click.option("--seconds", default=60.0, help="Of work for each worker in a pass; there are two.")
@click.option("--block", default=0.25, help="Seconds of a block.")
@click.option("--lives", default="120,60", help="Mean seconds that a worker lives.")
@click.option("--out", type=click.Path(path_type=Path), help="For the figures: docs/scaling.json.")
def main(which: tuple[str, ...], workers: int, seconds: float, block: float, lives: str, out: Path | None) -> None:
    """Print the table."""
    runs = []
    for name in which or SCHEDULES:
        for life in (0.0, *map(float, lives.split(","))):
            runs.append(measure(name, workers, seconds, block, life))
            save_records(out, "spot", [runs[-1]._asdict()], ("schedule", "workers", "life"))
    calm = {run.schedule: run.seconds for run in runs if not run.life}
    rows = [
        [run.schedule, str(run.workers), f"{run.life:g}" if run.life else "for ever", str(run.kills),
         f"{run.seconds:.0f}", f"{run.seconds / calm[run.schedule]:.2f}x", f"{run.explained:.2f}x", f"{run.lost:.1%}",
         f"{run.away:.1%}"] for run in runs
    ]  # fmt: skip
    columns = ["schedule", "workers", "live, s", "kills", "seconds", "of a calm run", "explained", "lost work", "away"]
    show(f"two passes of {seconds:g} s of work for each worker, while workers are killed", columns, rows)


if __name__ == "__main__":
    main()
