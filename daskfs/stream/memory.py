"""How much memory an ingest takes, decided before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from dask.utils import format_bytes, parse_bytes

from daskfs.errors import OptionError
from daskfs.store.arrays import BLOCK_ENTRIES

# Measured, not derived: `pipelines/benchmarks/memory.py`, and a file of ten million different names.
_BASE_BYTES = 64 << 20  # compiled kernels as they are loaded, and merging names
_BLOCK_BYTES = 3 * 16 * BLOCK_ENTRIES  # rows being built, their encoded form, and slack of the allocator
_NAMES_FACTOR = 5  # a set of names with its table, and its sorted copy while it is written
_WINDOW_FACTOR = 4  # text, and what a parser (Arrow) makes of it


@dataclass(frozen=True, slots=True)
class IngestMemory:
    """Sizes that keep `workers` parsers together within a budget."""

    workers: int
    window_bytes: int
    names_bytes: int
    rows_bytes: int  # of dense rows collected before they are staged, and of chunks put together at once
    chunk_bytes: int = 8_000_000

    @classmethod
    def of(cls, memory: int | str | None, workers: int) -> IngestMemory:
        """Split a budget; fewer workers where it is too small for all, an error where it is too small for one.

        >>> IngestMemory.of("512MB", workers=2).window_bytes >> 20
        8
        """
        if memory is None:
            return cls(workers, window_bytes=8 << 20, names_bytes=32 << 20, rows_bytes=64 << 20)
        try:
            total = parse_bytes(memory) - _BASE_BYTES
        except ValueError as error:
            raise OptionError(f"--memory {memory}: not a size such as 512MB") from error
        least = _BLOCK_BYTES + _WINDOW_FACTOR * (1 << 20) + _NAMES_FACTOR * (4 << 20)
        if total < least:
            raise OptionError(f"--memory {memory}: an ingest needs at least {format_bytes(least + _BASE_BYTES)}")
        workers = max(1, min(workers, total // (2 * least)))
        share = total // workers - _BLOCK_BYTES
        window = min(8 << 20, share // (2 * _WINDOW_FACTOR))
        names = min(32 << 20, (share - _WINDOW_FACTOR * window) // _NAMES_FACTOR)
        return cls(workers, window, names, rows_bytes=min(64 << 20, share // 4))
