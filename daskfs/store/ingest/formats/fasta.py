"""The FASTA format: each record, or each read sampled from a record, becomes a row of k-mer counts."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, check_choice
from daskfs.store.dataset.names import LONGEST_KMER, position_shift
from daskfs.store.ingest.formats import fasta_kernels as kernels
from daskfs.store.ingest.formats.base import (
    WEIGHTING_CODES,
    Format,
    LabelKind,
    NamesFrom,
    Weighting,
    guess_label_kind,
    lengths,
)
from daskfs.store.ingest.formats.fasta_kernels import FastaRecords
from daskfs.store.ingest.rows import BadLines, RowBuilder
from daskfs.store.ingest.sources import Source, SourcePart, Window, first_lines, line_windows

NO_LABEL, LABEL_IS_NO_NUMBER = kernels.TOO_LONG + 1, kernels.TOO_LONG + 2

READS_AT_ONCE = 1 << 16  # 1.5 MB of slices; deep coverage of a long record makes many more reads
REASONS = {
    kernels.NOT_A_LETTER: "not a letter of a sequence",
    kernels.NO_SEQUENCE: "a record without a sequence",
    kernels.TOO_LONG: "positions in this record do not fit an id beside k-mers this long; use a smaller k, or reads",
    NO_LABEL: "the header does not match the pattern of the label",
    LABEL_IS_NO_NUMBER: "the label is not a finite number (string labels: --labels strings)",
}


@dataclass(frozen=True, kw_only=True)
class Fasta(Format):
    """Options of the FASTA format.

    A, C, G and T (or U) in upper or lower case are bases. Any other letter, ``*`` and ``-`` occupy a position of the
    sequence, but no k-mer contains such a position.

    Parameters
    ----------
    k
        The lengths of the k-mers, 1 … 31, one or several.
    canonical
        Count a k-mer and its reverse complement as one feature, the smaller of the two.
    position
        Make a feature of each pair of a k-mer and its position in the row, instead of each k-mer.
    label
        ``"file"``: the file's name without folders and endings. ``"header:REGEX"``: the first group of
        REGEX where it is found in the record's header, as in ``header:label=([-+0-9]+)``.
    labels
        ``"numbers"``, ``"strings"`` or ``"auto"``, which means numbers if the labels of the first records are numbers.
    read_length, coverage
        None for a row per record. Otherwise rows are reads, ``round(coverage * length / read_length)`` reads per
        record, which start at random positions. A record shorter than `read_length` has no read and makes no row.
    seed
        The seed of the positions of reads. The positions of reads depend on the seed, the name of the file and the
        position of the record in the file, not on the division of files into parts.
    weighting
        ``"count"``, ``"binary"`` (1 for a k-mer that occurs) or ``"unit"`` (rows scaled to Euclidean length 1).
    """

    k: tuple[int, ...] = (12,)
    canonical: bool = False
    position: bool = False
    label: str = "file"
    labels: LabelKind = "auto"
    read_length: int | None = None
    coverage: float | None = None
    seed: int = 0
    weighting: Weighting = "count"

    name: ClassVar[str] = "fasta"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", lengths("k", self.k, LONGEST_KMER))
        check_choice("labels", self.labels, LabelKind)
        check_choice("weighting", self.weighting, Weighting)
        if not self.k:
            raise OptionError("k: at least one length is needed")
        if self.canonical and self.position:
            raise OptionError("canonical, position: a k-mer on either strand has no one position; choose one of them")
        self._check_label()
        self._check_reads()

    def _check_label(self) -> None:
        if self.label == "file":
            if self.labels == "numbers":
                raise OptionError('labels: names of files are strings; numbers need label="header:REGEX"')
            return
        try:
            pattern = self._header_pattern()
        except re.error as error:
            raise OptionError(f"label: {self.label!r} is not a regular expression: {error}") from error
        if pattern is None or not pattern.groups:
            raise OptionError(
                f'label: "file", or "header:REGEX" with a group as in header:label=(.*), not {self.label!r}'
            )

    def _check_reads(self) -> None:
        if self.read_length is None and self.coverage is None:
            return
        if self.read_length is None or self.coverage is None:
            raise OptionError("read_length, coverage: reads need both, whole records neither")
        if not max(self.k) <= self.read_length <= self._longest_row():
            raise OptionError(
                f"read_length: {self.read_length} is not between the longest k, {max(self.k)}, and the most that "
                f"fits an id, {self._longest_row()}"
            )
        if not 0 < self.coverage < math.inf:
            raise OptionError(f"coverage: {self.coverage} is not a positive number")

    @property
    def names_from(self) -> NamesFrom:
        return {"from": "kmers", "shift": self._shift()}

    def _shift(self) -> int:
        return position_shift(max(self.k)) if self.position else 0

    def _longest_row(self) -> int:
        """Return the largest number of bases of a row for which every k-mer and its position fit in a 63-bit id."""
        positions = 1 << (63 - self._shift()) if self.position else 1 << 62
        return positions + min(self.k) - 1

    def _header_pattern(self) -> re.Pattern[str] | None:
        return re.compile(self.label.removeprefix("header:")) if self.label.startswith("header:") else None

    def resolve(self, sources: Sequence[Source]) -> Self:
        if self.labels != "auto":
            return self
        pattern = self._header_pattern()
        if pattern is None:
            return replace(self, labels="strings")
        headers = [line for line in first_lines(sources[0]) if line.startswith(b">")]
        labels = [label.encode() for header in headers if (label := label_in(header, pattern)) is not None]
        return replace(self, labels=guess_label_kind(labels))

    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        label_code = cache(rows.label_code)  # one kernel call for each label, not for each record
        sampler = self._sampler(part.source)
        for window in line_windows(part, window_bytes, separator=b"\n>"):
            if window.text[0] != kernels.RECORD_MARK:  # possible only where a file begins
                rows.bad_lines.report(part.source, 1, f'FASTA begins with ">", not with {_shown(window, 0)}')
            records = kernels.new_records(window.text)
            kernels.encode_records(window.text, self._longest_row(), records)
            y = self._labels(window, records, part.source, label_code)
            _report_problems(window, records, part.source, rows.bad_lines)
            for slices in sampler.slices(records, y, window.offset) if sampler else [whole_records(records, y)]:
                rows.parse(window, part.source, partial(self._step, records, slices, rows), {})

    def _labels(
        self, window: Window, records: FastaRecords, source: Source, label_code: Callable[[bytes], float]
    ) -> NDArray[np.float64]:
        """Return the label of every record, and mark a record without a label in ``records.problem``."""
        pattern = self._header_pattern()
        if pattern is None:
            return np.full(len(records.start), label_code(source.name.encode()))
        y = np.zeros(len(records.start))
        for r in np.flatnonzero(records.problem == 0):
            header = window.text[records.start[r] : records.header_stop[r]].tobytes()
            label = label_in(header, pattern)
            if label is None:
                records.problem[r] = NO_LABEL
            elif self.labels == "strings":
                y[r] = label_code(label.encode())
            elif (number := _finite(label)) is None:
                records.problem[r] = LABEL_IS_NO_NUMBER
            else:
                y[r] = number
        return y

    def _sampler(self, source: Source) -> ReadSampler | None:
        if self.read_length is None or self.coverage is None:
            return None
        return ReadSampler(source.name, self.read_length, self.coverage, self.seed)

    def _step(self, records: FastaRecords, slices: Slices, rows: RowBuilder) -> int:
        options = np.array(self.k), self.canonical, self._shift(), WEIGHTING_CODES[self.weighting]
        return int(kernels.add_kmer_rows(records.codes, *slices, *options, rows.arrays))


class Slices(NamedTuple):
    """Slices of base codes that become rows, where row i is ``codes[first[i]:last[i]]`` with the label ``y[i]``."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    y: NDArray[np.float64]


def whole_records(records: FastaRecords, y: NDArray[np.float64]) -> Slices:
    """Return one slice for every record without a problem."""
    good = records.problem == 0
    return Slices(records.first[good], records.last[good], y[good])


class ReadSampler:
    """Samples reads of a fixed length uniformly from the records of one source, up to a given mean coverage.

    The reads of a record depend on the seed, the name of the file and the byte at which the record starts, and not on
    the division of the file into parts and windows. The sampler uses raw numbers of Philox, which are the same in every
    version of numpy, unlike the numbers of a Generator.
    """

    def __init__(self, source_name: str, read_length: int, coverage: float, seed: int) -> None:
        self._name, self._length, self._coverage, self._seed = source_name, read_length, coverage, seed
        self._draws = np.random.Philox(key=0)
        self._fresh = self._draws.state

    def slices(self, records: FastaRecords, y: NDArray[np.float64], offset: int) -> Iterator[Slices]:
        """Yield slices for the reads of all records without a problem, in a window at byte `offset` of the file."""
        batch: list[Slices] = []
        reads = 0
        for r in np.flatnonzero(records.problem == 0):
            bases = int(records.last[r] - records.first[r])
            for starts in self._starts(offset + int(records.start[r]), bases):
                first = starts + records.first[r]
                batch.append(Slices(first, first + self._length, np.full(len(first), y[r])))
                reads += len(first)
                if reads >= READS_AT_ONCE:
                    yield _concatenate(batch)
                    batch, reads = [], 0
        if batch:
            yield _concatenate(batch)

    def _starts(self, offset: int, bases: int) -> Iterator[NDArray[np.int64]]:
        """Yield batches of start positions of the reads of a record of `bases` bases."""
        places = bases - self._length + 1
        left = round(self._coverage * bases / self._length) if places > 0 else 0
        self._restart(offset)
        while left > 0:
            count = min(left, READS_AT_ONCE)
            uniform = (self._draws.random_raw(count) >> np.uint64(11)) * 2.0**-53
            yield (uniform * places).astype(np.int64)
            left -= count

    def _restart(self, offset: int) -> None:
        """Reset the random generator to the stream of the record at byte `offset`."""
        what = f"{self._seed}\0{self._name}\0{offset}".encode()
        digest = hashlib.blake2b(what, digest_size=16).digest()
        self._fresh["state"]["key"] = np.frombuffer(digest, "<u8")
        self._draws.state = self._fresh


def _concatenate(batch: list[Slices]) -> Slices:
    return Slices(*(np.concatenate(arrays) for arrays in zip(*batch, strict=True)))


def _report_problems(window: Window, records: FastaRecords, source: Source, bad_lines: BadLines) -> None:
    for record in np.flatnonzero(records.problem):
        at = int(records.problem_at[record])
        reason = f"{REASONS[int(records.problem[record])]}: {_shown(window, at)}"
        bad_lines.report_at(source, window.offset + at, reason)


def _shown(window: Window, at: int) -> str:
    """Return the rest of the line from byte `at` on, shortened for an error message."""
    return repr(window.text[at : at + 60].tobytes().split(b"\n")[0].decode("utf-8", "replace"))


def label_in(header: bytes, pattern: re.Pattern[str]) -> str | None:
    """Return the text of the pattern's first group in a FASTA header line, or None if the pattern does not match."""
    match = pattern.search(header.decode("utf-8", "replace").removeprefix(">").rstrip("\r"))
    return (match[1] or None) if match else None


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
