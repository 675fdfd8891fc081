"""How much memory an ingest, a reorder or a selection needs, computed beforehand, and how much a selection used."""

from __future__ import annotations

import re
import resource
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from daskfs.engine.cluster.waiting import call_briefly
from daskfs.engine.shards import FAN_IN
from daskfs.engine.sizes import format_bytes, parse_bytes
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, Meta
from daskfs.store.ingest.arrays import BLOCK_ENTRIES
from daskfs.store.ingest.sources import SourceLimits
from daskfs.store.places.local import AHEAD

if TYPE_CHECKING:
    from distributed import Client

_LIMITS = [
    Path("/sys/fs/cgroup", name)
    for name in (
        "memory/memory.limit_in_bytes",
        "memory/memory.soft_limit_in_bytes",
        "memory.max",
        "memory.high",
        "memory.low",
    )
]
"""Files with the memory limits of containers, of both versions of control groups."""
_STATUS, _CLEAR_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WORKING_BYTES = 48 << 20
"""Bytes beyond states and blocks that a selection takes in a process, measured by `pipelines/benchmarks/memory.py`."""
USABLE = 0.8  # of a worker's memory: beyond that Dask pauses it

# Measured, not derived: `pipelines/benchmarks/memory.py`, and a file of ten million different names.
_BASE_BYTES = 64 << 20  # compiled kernels as they are loaded, merging names, marks of runs
_BLOCK_BYTES = 3 * 16 * BLOCK_ENTRIES  # rows being built, their encoded form, and slack of the allocator
_NAMES_FACTOR = 5  # a set of names with its table, and its sorted copy while it is written
_WINDOW_FACTOR = 4  # text, and the arrays a parser (Arrow) turns it into
_LINE_FACTOR = 5  # a line longer than a window, the buffer that it outgrows, and the arrays a parser turns it into
_COLUMN_BYTES = 24_000  # that Arrow and the choice of kinds take for every column of a table of text
_MOST_RUNS = 1000  # of an external sort: a task reads a little of each run, and with more runs too little


def available_memory() -> int:
    """Return the bytes that this process can still allocate, within the limits of the machine and of a container."""
    least = psutil.virtual_memory().available
    for limit in _LIMITS:
        with suppress(OSError, ValueError):  # no such file, or the text "max"
            least = min(least, int(limit.read_text()) or least)
    hard = resource.getrlimit(resource.RLIMIT_RSS)[1]
    return min(least, hard) if hard > 0 else least


def parse_memory(memory: int | str) -> int:
    """Return the bytes of a size such as ``"512MB"``."""
    try:
        return int(parse_bytes(memory))
    except ValueError as error:
        raise OptionError(f"--memory {memory}: not a size such as 512MB") from error


@dataclass(frozen=True, slots=True)
class IngestMemory:
    """Buffer sizes that keep all parsers of an ingest together within a memory budget."""

    workers: int
    """How many parsers work at the same time."""
    window_bytes: int
    names_bytes: int
    rows_bytes: int
    """Bytes of dense rows that are collected before they are staged, and of chunks that are assembled at once."""
    limits: SourceLimits = field(default_factory=SourceLimits)
    """The longest line and the widest table that the parsers take."""
    chunk_bytes: int = 8_000_000

    @classmethod
    def of(cls, memory: int | str | None, workers: int) -> IngestMemory:
        """Split a memory budget among up to `workers` parsers. Raise OptionError if the budget does not suffice.

        >>> IngestMemory.of("512MB", workers=2).window_bytes >> 20
        8
        """
        if memory is None:
            return cls(workers, window_bytes=8 << 20, names_bytes=32 << 20, rows_bytes=64 << 20)
        total = parse_memory(memory) - _BASE_BYTES
        least = _BLOCK_BYTES + _WINDOW_FACTOR * (1 << 20) + _NAMES_FACTOR * (4 << 20)
        if total < least:
            raise OptionError(f"--memory {memory}: an ingest needs at least {format_bytes(least + _BASE_BYTES)}")
        workers = max(1, min(workers, total // (2 * least)))
        share = total // workers - _BLOCK_BYTES
        window = min(8 << 20, share // (2 * _WINDOW_FACTOR))
        names = min(32 << 20, (share - _WINDOW_FACTOR * window) // _NAMES_FACTOR)
        limits = SourceLimits(max(window, share // _LINE_FACTOR), total // _COLUMN_BYTES)
        return cls(workers, window, names, min(64 << 20, share // 4), limits)


@dataclass(frozen=True, slots=True)
class ReorderMemory:
    """Buffer sizes that keep `workers` within a memory budget, for an external sort and for writing blocks."""

    workers: int
    run_bytes: int
    task_bytes: int

    @classmethod
    def of(
        cls, action: str, memory: int | str, workers: int, *, largest_block: int, total: int = 0, fixed: int = 0,
        each: int = 0, run_factor: int = 2, task_factor: int = 2,
    ) -> ReorderMemory:  # fmt: skip
        """Split a memory budget among up to `workers` tasks. Raise OptionError if the budget is too small for one task.

        The `action` is the name of the work in error messages. A sorted run has at least one block, and the `total`
        bytes of all blocks are at most `_MOST_RUNS` runs. This process needs `fixed` further bytes, and each worker
        `each`. A run needs `run_factor` copies of its bytes while it is sorted, and a task that writes `task_factor`.

        >>> from daskfs.engine.memory import ReorderMemory
        >>> ReorderMemory.of("split", "512MB", workers=2, largest_block=8 << 20, each=64 << 20)
        ReorderMemory(workers=2, run_bytes=77668352, task_bytes=77668352)
        """
        fixed += _BASE_BYTES
        least = each + run_factor * max(largest_block, -(-total // _MOST_RUNS))
        available = parse_memory(memory) - fixed
        if available < least:
            raise OptionError(f"--memory {memory}: this {action} needs at least {format_bytes(fixed + least)}")
        workers = max(1, min(workers, available // least))
        share = available // workers - each
        return cls(workers, share // run_factor, share // task_factor)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory that a selection needs in every process that takes part, beyond the idle Python process.

    Besides states and blocks, a process needs `WORKING_BYTES` for any data: stacks and buffers of the threads that
    read, arrays that the allocator frees late, and modules that are imported during the selection.
    """

    state: int
    blocks: int
    states: int = 1
    """The largest number of copies of the state that a process holds at once."""

    @classmethod
    def of(
        cls, algorithm: Algorithm, meta: Meta, n_shards: int = 1, ahead: int = AHEAD, n_workers: int | None = None
    ) -> MemoryPlan:
        """Return the memory plan of a selection in this process, or on a cluster with `n_workers` workers.

        While one block is processed, `ahead` further blocks are held in memory; remote storage needs a larger `ahead`.
        """
        algorithm, blocks = algorithm.resolve(meta), (ahead + 1) * meta.block_nbytes
        if n_workers is None:  # the state that a round began with, those of the shards, and the merged one
            return cls(algorithm.nbytes(meta), blocks, 1 if n_shards == 1 else 2 + n_shards)
        # The state that a pass began with, those of the round before, and of this round those of the worker's shards.
        states = 1 + min(n_shards, FAN_IN) + -(-n_shards // max(1, n_workers))
        return cls(algorithm.nbytes(meta) - algorithm.driver_nbytes(meta), blocks, states)

    @property
    def total(self) -> int:
        """Bytes of all states and blocks together."""
        return self.states * self.state + self.blocks

    @property
    def promised(self) -> int:
        """The largest rise of a process's memory during the selection."""
        return self.total + WORKING_BYTES

    def broken_promise(self, used: int) -> str:
        """Return a remark on a selection that used more memory than promised."""
        return f"used {format_bytes(used)} of memory, more than promised ({self}); please report it, with the run.json"

    def check(self, available: int, process: str, remedy: str = "") -> None:
        """Raise OptionError if less memory is available than the plan needs."""
        if self.promised > available:
            raise OptionError(
                f"{process} has {format_bytes(available)} of memory, the selection needs {self}; "
                f"{remedy}select fewer features, or write the dataset in smaller chunks"
            )

    def check_worker(self, address: str, limit: int | None, used: int, threads: int) -> None:
        """Raise OptionError if a worker has a memory limit, and each of its threads less memory than the plan needs."""
        if limit:
            available, remedy = int((USABLE * limit - used) / threads), "a larger --memory-limit or fewer threads"
            self.check(max(available, 0), f"each thread of worker {address}", f"start it with {remedy}, ")

    def __str__(self) -> str:
        """Return the memory plan in words.

        >>> from daskfs.engine.memory import MemoryPlan
        >>> print(MemoryPlan(state=40 << 20, blocks=30 << 20))
        state 40.00 MiB + blocks 30.00 MiB + process 48.00 MiB = 118.00 MiB
        """
        state = format_bytes(self.state) if self.states == 1 else f"{self.states} x {format_bytes(self.state)}"
        process = format_bytes(WORKING_BYTES)
        return f"state {state} + blocks {format_bytes(self.blocks)} + process {process} = {format_bytes(self.promised)}"


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of every process of a selection when it starts: of this process, or of the workers of a cluster."""

    before: dict[str, int | None]

    @classmethod
    def begin(cls, client: Client | None) -> Footprint:
        """Measure the memory, and reset the peaks that the system records."""
        return cls(_measure(client, "VmRSS", reset=True))

    def used(self, client: Client | None) -> int | None:
        """Return the largest rise of memory of any process since `begin`, or None if the system records no peaks."""
        now = _measure(client, "VmHWM")
        pairs = ((before, now.get(address)) for address, before in self.before.items())
        rises = (max(peak - before, 0) for before, peak in pairs if before is not None and peak is not None)
        return max(rises, default=None)

    @staticmethod
    def peak(client: Client | None) -> int | None:
        """Return the largest memory of any process since `begin`, including the memory of Python itself."""
        return max((peak for peak in _measure(client, "VmHWM").values() if peak is not None), default=None)


def _measure(client: Client | None, field: str, reset: bool = False) -> dict[str, int | None]:
    if client is None:
        return {"": _status(field, reset)}
    with suppress(Exception):  # a figure for the record is not worth a run that is done
        return dict(call_briefly(client, partial(client.run, _status, field, reset, on_error="ignore")))
    return {}


def _status(field: str, reset: bool) -> int | None:
    """Return a field of /proc/self/status in bytes, or None if there is none; with `reset`, reset the peak first."""
    with suppress(OSError):
        if reset:
            _CLEAR_PEAK.write_text("5")
        match = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.M)
        return None if match is None else int(match[1]) << 10
    return None
