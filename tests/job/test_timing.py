"""The model of time behind daskfs plan, against the tasks that the engine makes."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from daskfs.engine.shards import FAN_IN, rounds_of, shrinking_groups
from daskfs.job.timing import GROUP_TASK_SECONDS, ROUND_SECONDS, ROUND_TASK_SECONDS, START_SECONDS, Work
from daskfs.protocol import Schedule, Sharing

BLOCK = 8_000_000


def work(schedule: Schedule, blocks: int, merges: int = 10, nanoseconds: float | None = None) -> Work:
    return Work(2, blocks * BLOCK // 4, blocks * BLOCK, blocks, nanoseconds, Sharing(schedule, merges))


def tasks_of_a_tree(states: int) -> int:
    count = 0
    while states > 1:
        count += states // FAN_IN + (states % FAN_IN > 1)
        states = ceil(states / FAN_IN)
    return count


@pytest.mark.parametrize("workers", [2, 4, 16, 64, 300])
@pytest.mark.parametrize("merges", [1, 10])
def test_waiting_in_rounds_is_that_for_the_tasks_of_the_engine(workers, merges):
    blocks = 50_000
    rounds = rounds_of(np.full(blocks, BLOCK), workers, merges)
    tasks = workers + (tasks_of_a_tree(workers) if workers > FAN_IN else 0)
    expected = len(rounds) * (ROUND_SECONDS + tasks * ROUND_TASK_SECONDS)
    times = work(Schedule.SYNCHRONOUS, blocks, merges).pass_times(workers, 1.0)
    assert times.waiting == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("workers", [16, 64, 300])
def test_a_centre_waits_for_a_scheduler_that_cannot_keep_up(workers):
    blocks = 20_000
    groups = len(list(shrinking_groups(np.full(blocks, BLOCK), 0, workers)))
    assert 6 * workers <= groups <= 20 * workers
    times = work(Schedule.ASYNCHRONOUS, blocks).pass_times(workers, 1000.0)
    assert times.total == pytest.approx(groups * GROUP_TASK_SECONDS, rel=0.01)
    assert work(Schedule.ASYNCHRONOUS, blocks).pass_times(workers, 0.01).waiting == 0


def test_the_longer_of_reading_and_computing_counts():
    times = work(Schedule.ASYNCHRONOUS, 1000, nanoseconds=10.0).pass_times(4, 2.0)
    assert times.reading == pytest.approx(1000 * BLOCK / (4 * 2e9))
    assert times.computing == pytest.approx(1000 * BLOCK / 4 * 10e-9 / 4)
    assert times.total == times.computing > times.reading
    assert work(Schedule.ASYNCHRONOUS, 1000, nanoseconds=10.0).seconds(4, 2.0) == START_SECONDS + 2 * times.total


def test_workers_without_a_share_do_not_count():
    assert work(Schedule.SYNCHRONOUS, 8).pass_times(64, 1.0) == work(Schedule.SYNCHRONOUS, 8).pass_times(8, 1.0)
    assert work(Schedule.SERIAL, 800).pass_times(64, 1.0) == work(Schedule.SERIAL, 800).pass_times(1, 1.0)
