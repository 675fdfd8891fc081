"""How much memory a shuffle takes, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from daskfs.engine.memory import parse_memory
from daskfs.errors import OptionError

# Reckoned, and checked on small data by `tests/stream/test_shuffle_memory.py`.
_BASE_BYTES = 64 << 20  # compiled kernels as they are loaded
_SLOT_BYTES = 400  # of the index of a run while it is made, and the sums of all
_BLOCK_FACTOR = 8  # a block is read ahead, decoded and copied; or put together, packed and written
_RUN_FACTOR = 3  # rows as they come, in their new order, and once more on their way to an object store
_PART_FACTOR = 2
_MOST_RUNS = 1000  # a part reads a little of each: with more of them, too little


@dataclass(frozen=True, slots=True)
class ShuffleMemory:
    """Sizes that keep `workers` within a budget, first while they make runs, then while they write parts."""

    workers: int
    run_bytes: int
    part_bytes: int

    @classmethod
    def of(cls, memory: int | str, workers: int, *, total: int, largest_block: int, slots: int) -> ShuffleMemory:
        """Split a budget; fewer workers where it is too small for all, an error where it is too small for one.

        Parameters
        ----------
        memory, workers
            What there is.
        total, largest_block
            Bytes of the source and of its largest block, in memory; a run has one block at least.
        slots
            How finely the new order is known.

        Examples
        --------
        >>> ShuffleMemory.of("512MB", workers=2, total=10**10, largest_block=7 << 20, slots=1 << 14)
        ShuffleMemory(workers=2, run_bytes=52390570, part_bytes=78585856)
        """
        each = _BLOCK_FACTOR * largest_block + _SLOT_BYTES * slots
        least = each + _RUN_FACTOR * max(largest_block, -(-total // _MOST_RUNS))
        available = parse_memory(memory) - _BASE_BYTES
        if available < least:
            raise OptionError(f"--memory {memory}: this shuffle needs at least {format_bytes(_BASE_BYTES + least)}")
        workers = max(1, min(workers, available // least))
        share = available // workers - each
        return cls(workers, share // _RUN_FACTOR, share // _PART_FACTOR)
