"""How long the passes of a selection take on a cluster: a model of reading, computing, and the work of the scheduler.

A worker reads ahead, so that a pass takes the time of the slower of reading and computing. In a synchronous pass, all
workers wait after every round until the scheduler has handled the tasks of all workers. In an asynchronous pass,
workers wait only if the scheduler cannot keep up with them. The page *Scaling* of the documentation has the formula,
the measurements behind its constants, and its errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daskfs.engine.shards import FAN_IN, least_rounds, most_shards, short_groups, shrinking_groups
from daskfs.protocol import Algorithm, Meta, Schedule, Sharing

NANOSECONDS = {"OnlineSubstitution": 4.4, "Mission": 61}
"""CPU time for each stored number in a pass, to read, check and process it, by the class of the algorithm."""
START_SECONDS = 3.0
"""Time from the call to the first block on a running cluster; a round figure, not fitted."""
ROUND_TASK_SECONDS, GROUP_TASK_SECONDS = 0.0028, 0.0012
"""CPU time of the scheduler for a task of a synchronous pass, and for a group of blocks of an asynchronous pass."""
ROUND_SECONDS = 0.01
"""The time between two rounds with few workers; a round figure, not fitted."""
_MOST_BLOCKS = 100_000  # of which groups are counted; of more blocks, several are taken for one


class PassTimes(NamedTuple):
    """The seconds that workers spend in a pass on reading, computing (at the same time as reading) and waiting."""

    reading: float
    computing: float
    waiting: float
    """Seconds of waiting for the scheduler: after every round, or because it cannot keep up with the workers."""

    @property
    def total(self) -> float:
        return max(self.reading, self.computing) + self.waiting

    @property
    def efficiency(self) -> float:
        """The share of the time in which workers do not wait."""
        return 1 - self.waiting / self.total


@dataclass(frozen=True)
class Work:
    """The properties of a selection that its time on a cluster depends on.

    Parameters
    ----------
    passes
        How many times the rows are read.
    numbers
        How many stored numbers a pass reads.
    bytes, blocks
        How many bytes a pass reads, in how many blocks.
    nanoseconds
        CPU time for each stored number, or None if it has not been measured for the algorithm.
    sharing
        How the workers share a pass.
    """

    passes: int
    numbers: int
    bytes: int
    blocks: int
    nanoseconds: float | None
    sharing: Sharing

    @classmethod
    def of(cls, algorithm: Algorithm, meta: Meta, passes: int, nbytes: int, blocks: int) -> Work:
        """Return the work of an algorithm that reads data of `nbytes` bytes in `blocks` blocks, `passes` times."""
        sharing = algorithm.resolve(meta).sharing
        return cls(passes, meta.n_entries, nbytes, blocks, NANOSECONDS.get(type(algorithm).__name__), sharing)

    def seconds(self, workers: float, gigabytes: float) -> float:
        """Return the seconds of a selection on `workers` workers, each of which reads `gigabytes` gigabytes per second.

        >>> from daskfs.job.timing import Work
        >>> from daskfs.protocol import Schedule, Sharing
        >>> work = Work(1, 10**12, 4 * 10**12, 500_000, 1.5, Sharing(Schedule.ASYNCHRONOUS))
        >>> [round(work.seconds(workers, 4.0)) for workers in (1, 2, 100)]
        [1503, 753, 18]
        >>> round(work.seconds(100, 0.5))  # where reading takes longer than computing
        83
        """
        return START_SECONDS + self.passes * self.pass_times(workers, gigabytes).total

    def pass_times(self, workers: float, gigabytes: float) -> PassTimes:
        """Return the times of one pass on `workers` workers, each of which reads `gigabytes` gigabytes per second."""
        shards = self._shards(int(workers))
        reading, computing = self.bytes / (gigabytes * 1e9), self.numbers * (self.nanoseconds or 0.0) / 1e9
        scheduling = self._scheduling(shards)
        if self.sharing.schedule == Schedule.ASYNCHRONOUS:
            scheduling = max(0.0, scheduling - max(reading, computing) / shards)
        return PassTimes(reading / shards, computing / shards, scheduling)

    def _shards(self, workers: int) -> int:
        """Return how many workers share a pass."""
        if self.sharing.schedule == Schedule.SERIAL:
            return 1
        return most_shards(max(1, workers), self.blocks, self.bytes, self.sharing)

    def _scheduling(self, shards: int) -> float:
        """Return the seconds that the scheduler needs in a pass."""
        if shards == 1:
            return 0.0
        if self.sharing.schedule == Schedule.ASYNCHRONOUS:
            count = min(self.blocks, _MOST_BLOCKS)
            sizes = np.full(count, self.bytes // count)
            cut = short_groups if self.sharing.needs_fresh_views else shrinking_groups
            return GROUP_TASK_SECONDS * sum(1 for _ in cut(sizes, 0, shards))
        tasks = shards if shards <= FAN_IN else shards * FAN_IN / (FAN_IN - 1)  # with those of the tree of merges
        rounds = least_rounds(self.bytes, shards, self.sharing.min_merges_per_pass)
        return rounds * (ROUND_SECONDS + tasks * ROUND_TASK_SECONDS)
