"""Where the time of a task goes, by a clock that the test turns itself."""

from __future__ import annotations

import numpy as np

from daskfs.engine.events.messages import Meter, Spent, count_items, feature_list, share_event, short
from daskfs.protocol import RowBlock, SparseColumnBlock


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


def rows(count: int) -> RowBlock:
    return RowBlock(0, np.zeros((count, 3), np.float32), np.zeros(count))


def test_a_task_that_reads_works_waits_and_merges():
    clock = Clock()
    meter = Meter(clock=clock)

    def read():
        for seconds in (4.0, 1.0):
            clock.passes(seconds)
            yield rows(5)

    with meter.merging():
        clock.passes(32.0)
    for _ in meter.over(read()):
        clock.passes(2.0)
        with meter.waiting():
            clock.passes(8.0)
    with meter.waiting():
        clock.passes(16.0)
    nbytes = rows(5).nbytes
    assert meter.total == Spent(
        blocks=2, items=10, bytes=2 * nbytes, busy=4 + 1 + 2 * 2, reading=5, merging=32, waiting=2 * 8 + 16,
        alone_bytes=nbytes, alone_seconds=4,
    )  # fmt: skip
    assert clock.now - 100 == meter.total.busy + meter.total.waiting + meter.total.merging  # nothing is lost


def test_every_part_is_told_and_nothing_twice():
    clock, told, total = Clock(), [], Spent()
    meter = Meter(told.append, clock)
    for _ in meter.over(rows(1) for _ in range(10)):
        clock.passes(0.25)
        with meter.waiting():
            clock.passes(1.0)
    for part in told:
        total.add(part)
    assert total == meter.total
    assert (total.blocks, total.busy, total.waiting) == (10, 2.5, 10.0)


def test_items_are_rows_or_columns():
    ids, indptr = np.arange(7, dtype=np.uint64), np.zeros(8, np.int64)
    columns = SparseColumnBlock(ids, indptr, np.empty(0, np.uint32), np.empty(0, np.float32), np.zeros(50))
    assert (count_items(rows(4)), count_items(columns)) == (4, 7)


def test_texts_are_short_and_steer_nothing():
    assert short("a" * 1_000_000) == "a" * 119 + "…"
    assert short("\x1b[2J\n") == "?[2J?"
    event = share_event("r", "w" * 1000, Spent(blocks=1))
    assert (event["run"], event["what"], event["blocks"], len(event["name"])) == ("r", "share", 1, 120)


def test_a_feature_with_several_weights_is_told_by_the_largest_either_way():
    weights = np.array([[1.0, -3.0, 2.0], [0.5, 0.0, np.nan]])
    assert feature_list(["a", "b"], weights) == [["a", -3.0], ["b", None]]
    assert feature_list(["a"] * 50, np.arange(50.0))[-1] == ["a", 19.0]
