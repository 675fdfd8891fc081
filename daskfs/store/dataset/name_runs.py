"""Names on their way into a dataset: sorted runs on disk, merged slice by slice in bounded memory.

A run holds the names one parser met until its memory for them was full. The range of ids is cut into
1,024 equal slices; each run says where its slices begin, so that a merge reads the same slices of every
run, drops what stands twice, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.codec import append_crc
from daskfs.store.dataset.names_kernels import COUNT, NameSet, first_of_each, gather_text
from daskfs.store.places.location import Location

SLICES = 1024
LONGEST = 4096  # bytes kept of one name
AT_ONCE_BYTES = 24 << 20  # what a step of the merge may hold, by a guess at what a name takes
_NAME_BYTES = 150
_SLICE_SHIFT = np.uint64(63 - 10)  # ids have 63 bits
_EDGES_BYTES = 2 * 8 * (SLICES + 1)


class NameRun(NamedTuple):
    """One file of names sorted by id: where slices begin (names, bytes of text), ids, lengths, text, crc32c."""

    key: str
    size: int  # names

    @property
    def folder(self) -> str:
        """Of the piece it was staged with."""
        return self.key.rsplit("/", 1)[0]


class NameBatch(NamedTuple):
    """Names end to end: name i is ``text[starts[i] : starts[i] + lengths[i]]``."""

    ids: NDArray[np.uint64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    text: NDArray[np.uint8]

    def picked(self, which: NDArray[np.int64]) -> NameBatch:
        """Some of the names, in the order given, packed together."""
        lengths = self.lengths[which]
        starts = np.cumsum(lengths) - lengths
        text = np.empty(int(lengths.sum()), np.uint8)
        gather_text(self.text, self.starts[which], lengths, text)
        return NameBatch(self.ids[which], starts, lengths, text)


def sorted_run(names: NameSet) -> tuple[int, bytes]:
    """A set of names sorted by id: how many, and the file of the run."""
    count = int(names.used[COUNT])
    starts = names.starts[: count + 1]
    batch = NameBatch(names.ids[:count], starts[:-1], np.minimum(np.diff(starts), LONGEST), names.text)
    batch = batch.picked(np.argsort(batch.ids))
    boundaries = np.arange(SLICES, dtype=np.uint64) << _SLICE_SHIFT
    edges = np.append(np.searchsorted(batch.ids, boundaries), count)
    text_edges = np.append(batch.starts, len(batch.text))[edges]
    header = np.stack([edges, text_edges], axis=1).astype("<i8")
    parts = header, batch.ids, batch.lengths.astype(np.uint32), batch.text
    return count, append_crc(b"".join(part.tobytes() for part in parts))


class MergedNames:
    """Iterates over the names of all runs in batches, ids ascending, each once; counts ids two names share."""

    def __init__(self, location: Location, runs: Sequence[NameRun]) -> None:
        self._location, self._runs = location, runs
        self.collisions = 0

    def __iter__(self) -> Iterator[NameBatch]:
        for first, last in self._steps():
            found = [self._slice(run, first, last) for run in self._runs]
            if any(len(batch.ids) for batch in found):
                yield self._merged(found)

    def _steps(self) -> Iterator[tuple[int, int]]:
        """As many slices at a time as keep a step small in names and in bytes."""
        sizes = np.zeros(SLICES)
        for run in self._runs:
            edges = self._numbers(run, 0, 2 * (SLICES + 1), np.int64).reshape(-1, 2)
            sizes += np.diff(edges, axis=0) @ [_NAME_BYTES, 3]
        first = 0
        while first < SLICES:
            fitting = int(np.searchsorted(np.cumsum(sizes[first:]), AT_ONCE_BYTES, side="right"))
            last = first + max(fitting, 1)
            yield first, last
            first = last

    def _merged(self, found: list[NameBatch]) -> NameBatch:
        shifts = np.cumsum([0, *(len(batch.text) for batch in found[:-1])])
        starts = np.concatenate([batch.starts + shift for batch, shift in zip(found, shifts, strict=True)])
        ids, lengths, text = (np.concatenate([getattr(b, name) for b in found]) for name in ("ids", "lengths", "text"))
        every = NameBatch(ids, starts, lengths, text)
        order = np.argsort(ids)
        kept, collisions = first_of_each(order, *every)
        self.collisions += int(collisions)
        return every.picked(kept)

    def _slice(self, run: NameRun, first: int, last: int) -> NameBatch:
        (a, text_a), (b, text_b) = (self._numbers(run, 16 * edge, 2, np.int64).tolist() for edge in (first, last))
        lengths_at = _EDGES_BYTES + 8 * run.size
        text_at = lengths_at + 4 * run.size
        lengths = self._numbers(run, lengths_at + 4 * a, b - a, np.uint32).astype(np.int64)
        return NameBatch(
            ids=self._numbers(run, _EDGES_BYTES + 8 * a, b - a, np.uint64),
            starts=np.cumsum(lengths) - lengths,
            lengths=lengths,
            text=self._numbers(run, text_at + text_a, text_b - text_a, np.uint8),
        )

    def _numbers(self, run: NameRun, at: int, count: int, dtype: type[np.integer[Any]]) -> NDArray[Any]:
        if count == 0:
            return np.empty(0, dtype)
        return np.frombuffer(self._location.read(run.key, at, at + count * np.dtype(dtype).itemsize), dtype)
