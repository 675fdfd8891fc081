"""F32: many passes over tiny data leave nothing behind: no memory, no tasks, no threads, no files."""

from __future__ import annotations

import threading

import numpy as np
import psutil
import pytest
from toy_algorithms import LargestColumns, Tangled
from toy_runs import tasks_on, wait_for_no_tasks

import daskfs


def tiny(folder):
    daskfs.write_dataset(folder, np.random.default_rng(0).normal(size=(8, 6)), np.arange(8), chunk_bytes=128)
    return daskfs.open_dataset(folder)


class Watch:
    """Notes at the end of some passes how much there is of something."""

    def __init__(self, measure, every: int) -> None:
        self._measure, self._every = measure, every
        self.seen: list[float] = []

    def __call__(self, event: object) -> None:
        if event.blocks_done == event.blocks and event.number % self._every == 0:
            self.seen.append(self._measure())


@pytest.mark.slow
def test_f32_a_thousand_passes_in_this_process(tmp_path):
    process = psutil.Process()
    watch = Watch(lambda: process.memory_info().rss, every=100)
    threads = threading.active_count()
    daskfs.select(tiny(tmp_path / "d"), Tangled(1, passes=1000), checkpoint=tmp_path / "c", progress=watch)
    assert len(watch.seen) == 10
    assert watch.seen[-1] - watch.seen[2] < 4 << 20  # the first ones fill caches
    assert threading.active_count() <= threads
    assert [file.name for file in (tmp_path / "c").iterdir()] == ["checkpoint"]


@pytest.mark.parametrize(
    "passes", [pytest.param(120, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(1800)
def test_f32_many_passes_on_a_cluster(tmp_path, two_workers, passes):
    def memory_of_workers() -> float:
        return sum(two_workers.run(lambda: psutil.Process().memory_info().rss).values())

    tasks, memory = Watch(lambda: len(tasks_on(two_workers)), every=10), Watch(memory_of_workers, every=passes // 3)

    def both(event: object) -> None:
        tasks(event)
        memory(event)

    dataset = tiny(tmp_path / "d")
    daskfs.select(dataset, Tangled(1, passes=passes), client=two_workers, progress=both)
    assert len(tasks.seen) == passes // 10
    assert max(tasks.seen[1:]) <= max(tasks.seen[:2]) + 4  # one pass more may not have been let go of yet
    assert memory.seen[-1] - memory.seen[0] < 16 << 20
    wait_for_no_tasks(two_workers)
    daskfs.select(dataset, LargestColumns(1), client=two_workers)
