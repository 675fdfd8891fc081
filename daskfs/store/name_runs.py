"""Names on their way into a dataset: sorted runs on disk, merged slice by slice in bounded memory.

A run holds the names one parser met until its memory for them was full. The range of ids is cut into
1,024 equal slices; each run says where its slices begin, so that a merge reads the same slices of every
run, drops what stands twice, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from daskfs.store.location import Location
from daskfs.store.names_kernels import BYTES, COUNT, NameSet

SLICES = 1024
_SLICE_SHIFT = np.uint64(63 - 10)  # ids have 63 bits
_EDGES_BYTES = 2 * 8 * (SLICES + 1)


@dataclass(frozen=True, slots=True)
class Run:
    """One file of names sorted by id: where slices begin (names, bytes of text), ids, lengths, text."""

    key: str
    count: int


def write_run(location: Location, key: str, names: NameSet) -> Run:
    """Sort a set of names by id and store it."""
    count = int(names.used[COUNT])
    order = np.argsort(names.ids[:count], kind="stable")
    ids = names.ids[:count][order]
    starts, ends = names.starts[:count][order], names.starts[1 : count + 1][order]
    lengths = (ends - starts).astype(np.uint32)
    text = names.text[: names.used[BYTES]].tobytes()
    body = b"".join([text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
    boundaries = np.arange(SLICES, dtype=np.uint64) << _SLICE_SHIFT
    edges = np.append(np.searchsorted(ids, boundaries), count)
    text_edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[edges]
    header = np.stack([edges, text_edges], axis=1).astype("<i8")
    location.write(key, header.tobytes() + ids.tobytes() + lengths.tobytes() + body)
    return Run(key, count)


class MergedNames:
    """Iterates ``(id, name)`` over all runs, ascending, each id once; counts ids that two names share."""

    def __init__(self, location: Location, runs: Sequence[Run]) -> None:
        self._location, self._runs = location, runs
        self.collisions = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        # As many slices at a time as keep a step near a million names.
        total = sum(run.count for run in self._runs)
        step = max(1, min(SLICES, SLICES * 1_000_000 // max(total, 1)))
        for first in range(0, SLICES, step):
            yield from self._merged(first, min(first + step, SLICES))

    def _merged(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        known: dict[int, bytes] = {}
        for run in self._runs:
            for feature, name in self._slice(run, first, last):
                before = known.setdefault(feature, name)
                if before != name:  # two names, one hash: keep one, whatever the order of the runs
                    self.collisions += 1
                    known[feature] = min(before, name)
        return iter(sorted(known.items()))

    def _slice(self, run: Run, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        a, text_a = self._numbers(run, 16 * first, 2, np.int64)
        b, text_b = self._numbers(run, 16 * last, 2, np.int64)
        if a == b:
            return
        lengths_at = _EDGES_BYTES + 8 * run.count
        text_at = lengths_at + 4 * run.count
        ids = self._numbers(run, _EDGES_BYTES + 8 * a, b - a, np.uint64)
        lengths = self._numbers(run, lengths_at + 4 * a, b - a, np.uint32)
        text = self._location.read(run.key, text_at + text_a, text_at + text_b)
        at = 0
        for feature, length in zip(ids, lengths, strict=True):
            yield feature, text[at : at + length]
            at += length

    def _numbers(self, run: Run, at: int, count: int, dtype: type[np.integer[Any]]) -> list[int]:
        raw = self._location.read(run.key, at, at + count * np.dtype(dtype).itemsize)
        numbers: list[int] = np.frombuffer(raw, dtype).tolist()
        return numbers
