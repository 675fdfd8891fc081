"""How much memory a split takes, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from daskfs.engine.memory import parse_memory
from daskfs.errors import OptionError
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.reorder.shuffle import RowBytes, block_bytes

# Reckoned, and checked on small data by `tests/stream/test_split_memory.py`.
_BASE_BYTES = 64 << 20  # compiled kernels as they are loaded
_ROW_BYTES = 24  # of columns: labels and weights of all rows, which of them are wanted, and their new numbers
_BLOCK_FACTOR = 8  # a block is read ahead, decoded and picked from; or put together, packed and written
_PART_FACTOR = 2


@dataclass(frozen=True, slots=True)
class SplitMemory:
    """Sizes that keep `workers` within a budget while they write parts."""

    workers: int
    part_bytes: int

    @classmethod
    def of(cls, memory: int | str, workers: int, *, largest_block: int, fixed: int) -> SplitMemory:
        """Divide a budget; fewer workers where it is too small for all, an error where it is too small for one.

        Parameters
        ----------
        memory, workers
            What there is.
        largest_block
            Bytes of the largest block of the source, in memory; a part has one chunk at least.
        fixed
            What a process needs besides, whatever the workers.

        Examples
        --------
        >>> SplitMemory.of("512MB", workers=2, largest_block=8 << 20, fixed=0)
        SplitMemory(workers=2, part_bytes=77668352)
        """
        each = _BLOCK_FACTOR * largest_block
        least = each + _PART_FACTOR * largest_block
        fixed += _BASE_BYTES
        available = parse_memory(memory) - fixed
        if available < least:
            raise OptionError(f"--memory {memory}: this split needs at least {format_bytes(fixed + least)}")
        workers = max(1, min(workers, available // least))
        return cls(workers, (available // workers - each) // _PART_FACTOR)

    @classmethod
    def for_source(cls, memory: int | str, workers: int, source: Dataset) -> SplitMemory:
        """As a dataset needs it; see `of`."""
        largest, fixed = 0, 0
        if source.layout != "columns":
            largest = int(block_bytes(source, RowBytes.of_source(source)).max())
        if source.layout != "rows":
            largest = max(largest, int(source.block_sizes("columns").max()))
            fixed = _ROW_BYTES * source.n_samples
        return cls.of(memory, workers, largest_block=largest, fixed=fixed)
