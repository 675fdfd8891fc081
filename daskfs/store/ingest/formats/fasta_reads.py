"""Which slices of a FASTA file's records become rows: all of each, or reads sampled from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.ingest.formats.fasta_kernels import FastaRecords

READS_AT_ONCE = 1 << 16  # 1.5 MB of slices; deep coverage of a long record makes many more reads


class Slices(NamedTuple):
    """Rows to be made: ``codes[first[i]:last[i]]`` with the label ``y[i]``."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    y: NDArray[np.float64]


def whole_records(records: FastaRecords, y: NDArray[np.float64]) -> Slices:
    """Every record that has no problem."""
    good = records.problem == 0
    return Slices(records.first[good], records.last[good], y[good])


class ReadSampler:
    """Draws reads of one length from the records of one source, uniformly, to a mean coverage.

    The reads of a record depend on the seed, the name of its file and the byte at which it starts
    there, so not on how the work is cut into parts and windows. Philox's raw numbers are the same in
    every version of numpy; what a Generator makes of them is not.
    """

    def __init__(self, source_name: str, read_length: int, coverage: float, seed: int) -> None:
        self._name, self._length, self._coverage, self._seed = source_name, read_length, coverage, seed
        self._draws = np.random.Philox(key=0)
        self._fresh = self._draws.state

    def slices(self, records: FastaRecords, y: NDArray[np.float64], offset: int) -> Iterator[Slices]:
        """Reads of every record that has no problem, many at a time; `offset` is that of the window."""
        batch: list[Slices] = []
        reads = 0
        for r in np.flatnonzero(records.problem == 0):
            bases = int(records.last[r] - records.first[r])
            for starts in self._starts(offset + int(records.start[r]), bases):
                first = starts + records.first[r]
                batch.append(Slices(first, first + self._length, np.full(len(first), y[r])))
                reads += len(first)
                if reads >= READS_AT_ONCE:
                    yield _joined(batch)
                    batch, reads = [], 0
        if batch:
            yield _joined(batch)

    def _starts(self, offset: int, bases: int) -> Iterator[NDArray[np.int64]]:
        """Where in a record of so many bases its reads start."""
        places = bases - self._length + 1
        left = round(self._coverage * bases / self._length) if places > 0 else 0
        self._restart(offset)
        while left > 0:
            count = min(left, READS_AT_ONCE)
            uniform = (self._draws.random_raw(count) >> np.uint64(11)) * 2.0**-53
            yield (uniform * places).astype(np.int64)
            left -= count

    def _restart(self, offset: int) -> None:
        """Begin the stream of the record at `offset`; ten times as fast as a new Philox with that key."""
        what = f"{self._seed}\0{self._name}\0{offset}".encode()
        digest = hashlib.blake2b(what, digest_size=16).digest()
        self._fresh["state"]["key"] = np.frombuffer(digest, "<u8")
        self._draws.state = self._fresh


def _joined(batch: list[Slices]) -> Slices:
    return Slices(*(np.concatenate(arrays) for arrays in zip(*batch, strict=True)))
