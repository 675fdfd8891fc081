"""The names table of a dataset, merged in bounded memory from sorted runs of names on disk.

A *sorted run* holds the names that one parser met until its memory for names was full. The range of feature ids is cut
into 1,024 equal slices, and each sorted run stores where its slices begin. The merge reads the same slices of every
sorted run, drops duplicate names, and continues with the next slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.codec import append_crc, encode_strings
from daskfs.store.dataset.layout import STRING, ArraySpec
from daskfs.store.dataset.names import CHUNK
from daskfs.store.dataset.names_kernels import COUNT, NameSet, first_of_each, gather_text, order_of_hashes, pack_strings
from daskfs.store.places.location import Location

SLICES = 1024
LONGEST = 4096  # bytes kept of one name
AT_ONCE_BYTES = 24 << 20  # memory of one step of the merge, with an estimate of the size of a name
_NAME_BYTES = 150
_SLICE_SHIFT = np.uint64(63 - 10)  # ids have 63 bits
_EDGES_BYTES = 2 * 8 * (SLICES + 1)


class NameRun(NamedTuple):
    """A file of names sorted by feature id, which contains the slice starts, ids, lengths, text and a crc32c."""

    key: str
    size: int  # names

    @property
    def folder(self) -> str:
        """The folder of the staged piece of data to which the sorted run of names belongs."""
        return self.key.rsplit("/", 1)[0]


class NameBatch(NamedTuple):
    """Feature names stored end to end, where name i is ``text[starts[i] : starts[i] + lengths[i]]``."""

    ids: NDArray[np.uint64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    text: NDArray[np.uint8]

    def take(self, positions: NDArray[np.int64]) -> NameBatch:
        """Return the names at some positions, in the order of `positions`, packed without gaps."""
        lengths = self.lengths[positions]
        starts = np.cumsum(lengths) - lengths
        text = np.empty(int(lengths.sum()), np.uint8)
        gather_text(self.text, self.starts[positions], lengths, text)
        return NameBatch(self.ids[positions], starts, lengths, text)

    def part(self, first: int, stop: int) -> NameBatch:
        """Return the names ``first:stop``, one at least, of names packed without gaps, without copying texts."""
        starts, lengths = self.starts[first:stop], self.lengths[first:stop]
        text = self.text[starts[0] : starts[-1] + lengths[-1]]
        return NameBatch(self.ids[first:stop], starts - starts[0], lengths, text)


def _concatenate(batches: Sequence[NameBatch]) -> NameBatch:
    shifts = np.cumsum([0, *(len(batch.text) for batch in batches[:-1])])
    shifted = [batch._replace(starts=batch.starts + shift) for batch, shift in zip(batches, shifts, strict=True)]
    arrays: list[Any] = [np.concatenate(parts) for parts in zip(*shifted, strict=True)]
    return NameBatch(*arrays)


def sort_names(names: NameSet) -> tuple[int, bytes]:
    """Sort a set of names by feature id, and return the number of names and the bytes of the sorted run's file."""
    count = int(names.used[COUNT])
    starts = names.starts[: count + 1]
    batch = NameBatch(names.ids[:count], starts[:-1], np.minimum(np.diff(starts), LONGEST), names.text)
    batch = batch.take(order_of_hashes(batch.ids))
    boundaries = np.arange(SLICES, dtype=np.uint64) << _SLICE_SHIFT
    edges = np.append(np.searchsorted(batch.ids, boundaries), count)
    text_edges = np.append(batch.starts, len(batch.text))[edges]
    header = np.stack([edges, text_edges], axis=1).astype("<i8")
    parts = header, batch.ids, batch.lengths.astype(np.uint32), batch.text
    return count, append_crc(np.concatenate([part.reshape(-1).view(np.uint8) for part in parts]))


class MergedNames:
    """An iterable of batches of names by ascending id, merged from all sorted runs, that counts colliding ids."""

    def __init__(self, location: Location, runs: Sequence[NameRun]) -> None:
        self._location, self._runs = location, runs
        self.collisions = 0

    def __iter__(self) -> Iterator[NameBatch]:
        for first, last in self._steps():
            batches = [self._slice(run, first, last) for run in self._runs]
            if any(len(batch.ids) for batch in batches):
                together = _concatenate(batches)
                positions, collisions = first_of_each(order_of_hashes(together.ids), *together)
                self.collisions += int(collisions)
                yield together.take(positions)

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of slices, each with as many slices as fit into the memory of a merge step."""
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


def table_specs(count: int, chunk: int) -> list[ArraySpec]:
    """Return the specs of the arrays of a names table: the first id of each chunk, the ids and the names."""
    chunks = -(-count // chunk)
    unsigned = np.dtype(np.uint64)
    return [
        ArraySpec("names/first", (chunks,), (max(chunks, 1),), unsigned, ("name_chunk",)),
        ArraySpec("names/id", (count,), (chunk,), unsigned, ("name",)),
        ArraySpec("names/name", (count,), (chunk,), STRING, ("name",)),
    ]


def cut_into_chunks(batches: Iterable[NameBatch]) -> Iterator[NameBatch]:
    """Regroup batches of names sorted by id into chunks of the names table."""
    rest: NameBatch | None = None
    for batch in batches:
        together = batch if rest is None else _concatenate([rest, batch])
        whole = len(together.ids) // CHUNK * CHUNK
        for first in range(0, whole, CHUNK):
            yield together.part(first, first + CHUNK)
        rest = together.take(np.arange(whole, len(together.ids)))  # a copy, so that the others can be freed
    if rest is not None and len(rest.ids):
        yield rest


def encode_names(names: NameBatch, chunk: int) -> bytes:
    """Return the chunk file of names as strings, with invalid UTF-8 replaced and "…" after a name that was cut."""
    text = names.text.tobytes()
    with suppress(UnicodeDecodeError):
        text.decode()
        packed = np.zeros(4 + len(text) + 4 * chunk, np.uint8)
        packed[:4] = np.frombuffer(np.uint32(chunk).tobytes(), np.uint8)
        is_whole = int(names.lengths.max(initial=0)) < LONGEST
        if is_whole and pack_strings(names.text, names.starts, names.lengths, packed[4:]):
            return append_crc(packed)
    strings = [""] * chunk
    for i, (start, length) in enumerate(zip(names.starts.tolist(), names.lengths.tolist(), strict=True)):
        strings[i] = name_text(text[start : start + length])
    return encode_strings(np.array(strings, object))


def name_text(name: bytes) -> str:
    """Return the bytes of a name as text, with invalid UTF-8 replaced and "…" after a name that is too long.

    >>> name_text(b"caf\\xc3\\xa9"), name_text(b"\\xff")
    ('café', '\ufffd')
    """
    return name[:LONGEST].decode("utf-8", "replace") + ("…" if len(name) >= LONGEST else "")
