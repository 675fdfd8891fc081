"""How much memory a transpose takes, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from daskfs.engine.memory import parse_memory
from daskfs.errors import OptionError

# Measured, not derived: rows of 85 entries over 47,000 ids, over 4 million and over 200 million hashes.
_BASE_BYTES = 64 << 20  # compiled kernels as they are loaded, marks and samples of runs
_ROW_BYTES = 24  # labels and weights of all rows, and their encoded form
_BLOCK_BYTES = 64  # per entry of a block that is being encoded
_RUN_BYTES = 64  # per entry of a run: ids and entries twice while they are sorted, then what is written
_RANGE_BYTES = 240  # per entry of a range, were each a column: one range is merged while another is cut and written
_MOST_RUNS = 1000  # a merge reads a little of each for every range: with more of them, too little


@dataclass(frozen=True, slots=True)
class TransposeMemory:
    """Sizes that keep a transpose within a budget: `workers` make runs side by side, then one merges them."""

    workers: int
    run_entries: int
    range_entries: int

    @classmethod
    def of(
        cls, memory: int | str, workers: int, *, n_samples: int, n_entries: int, largest_block: int, block_entries: int
    ) -> TransposeMemory:
        """Split a budget; fewer workers where it is too small for all, an error where it is too small for one.

        Parameters
        ----------
        memory, workers
            What there is.
        n_samples, n_entries, largest_block
            Size of the source: rows, entries, and entries of its largest block, the least a run is made of.
        block_entries
            Size of the blocks that are to be written.

        Examples
        --------
        >>> sizes = dict(n_samples=10**6, n_entries=10**9, largest_block=1 << 19, block_entries=1 << 19)
        >>> TransposeMemory.of("512MB", workers=2, **sizes)
        TransposeMemory(workers=2, run_entries=3026068, range_entries=1613902)
        """
        fixed = _BASE_BYTES + _ROW_BYTES * n_samples + _BLOCK_BYTES * min(block_entries, n_entries)
        total = parse_memory(memory) - fixed
        least = max(_RUN_BYTES * max(largest_block, -(-n_entries // _MOST_RUNS)), _RANGE_BYTES)
        if total < least:
            raise OptionError(f"--memory {memory}: this transpose needs at least {format_bytes(fixed + least)}")
        workers = max(1, min(workers, total // least))
        return cls(workers, total // (workers * _RUN_BYTES), total // _RANGE_BYTES)
