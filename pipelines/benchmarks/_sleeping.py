"""A dataset whose blocks take time and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Axis, Block, ColumnBlock
from daskfs.store.dataset.dataset import Dataset


class SleepingBlocks(Dataset):
    """A dataset of `count` blocks of one column each, where to read a block takes `seconds` and nothing else."""

    def __init__(self, source: Dataset, count: int, seconds: float, nbytes: int) -> None:
        super().__init__(source.location, source.digest)
        self._source, self._count, self._seconds, self._nbytes = source, count, seconds, nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return SleepingBlocks, (self._source, self._count, self._seconds, self._nbytes)

    def n_blocks(self, axis: Axis | None = None) -> int:
        return self._count

    def block_sizes(self, axis: Axis | None = None) -> NDArray[np.int64]:
        return np.full(self._count, self._nbytes)

    def blocks(
        self, numbers: Sequence[int] | None = None, axis: Axis | None = None, ahead: int | None = None
    ) -> Iterable[Block]:
        y = np.zeros(self.n_samples)
        for number in range(self._count) if numbers is None else numbers:
            time.sleep(self._seconds)
            yield ColumnBlock(np.array([number], np.uint64), np.zeros((self.n_samples, 1), np.float32), y)


class NotedBlocks(SleepingBlocks):
    """The same, where every block that has been read leaves a byte at the end of a file, whoever reads it."""

    def __init__(self, source: Dataset, count: int, seconds: float, nbytes: int, notes: Path) -> None:
        super().__init__(source, count, seconds, nbytes)
        self._notes = notes

    def __reduce__(self) -> tuple[Any, ...]:
        return NotedBlocks, (self._source, self._count, self._seconds, self._nbytes, self._notes)

    def blocks(
        self, numbers: Sequence[int] | None = None, axis: Axis | None = None, ahead: int | None = None
    ) -> Iterable[Block]:
        for block in super().blocks(numbers, axis, ahead):
            with self._notes.open("ab", buffering=0) as file:
                file.write(b".")
            yield block
