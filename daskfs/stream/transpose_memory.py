"""How much memory a transpose takes, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes

from daskfs.errors import OptionError
from daskfs.stream.memory import parsed_memory

_BASE_BYTES = 64 << 20  # compiled kernels as they are loaded, a block being encoded, marks and samples of runs
_ROW_BYTES = 24  # labels and weights of all rows, and their encoded form
_RUN_BYTES = 64  # per entry of a run: ids and entries twice while they are sorted, then what is written
_RANGE_BYTES = 160  # per entry of a range, were each a column: read, merged and cut, while another one is written
_MOST_RUNS = 1000  # a merge reads a little of each for every range: with more of them, too little


@dataclass(frozen=True, slots=True)
class TransposeMemory:
    """Sizes that keep a transpose within a budget: `workers` make runs side by side, then one merges them."""

    workers: int
    run_entries: int
    range_entries: int

    @classmethod
    def of(
        cls, memory: int | str, workers: int, *, n_samples: int, n_entries: int, block_entries: int
    ) -> TransposeMemory:
        """Split a budget; fewer workers where it is too small for all, an error where it is too small for one.

        `block_entries` is the size of the source's largest block, the least a run is made of.

        >>> TransposeMemory.of("512MB", workers=2, n_samples=10**6, n_entries=10**9, block_entries=1 << 19)
        TransposeMemory(workers=2, run_entries=3288212, range_entries=2630569)
        """
        fixed = _BASE_BYTES + _ROW_BYTES * n_samples
        total = parsed_memory(memory) - fixed
        least = max(_RUN_BYTES * max(block_entries, -(-n_entries // _MOST_RUNS)), _RANGE_BYTES)
        if total < least:
            raise OptionError(f"--memory {memory}: this transpose needs at least {format_bytes(fixed + least)}")
        workers = max(1, min(workers, total // least))
        return cls(workers, total // (workers * _RUN_BYTES), total // _RANGE_BYTES)
