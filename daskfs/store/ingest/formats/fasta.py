"""FASTA: each record, or each read sampled from it, becomes a row that counts its k-mers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, check_choice
from daskfs.protocol import Kind
from daskfs.store.dataset.names import LONGEST_KMER, position_shift
from daskfs.store.ingest.formats import fasta_kernels as kernels
from daskfs.store.ingest.formats.base import LabelKind, NamesFrom, Weighting, guess_label_kind, line_parts
from daskfs.store.ingest.formats.counted import WEIGHTING_CODES, lengths
from daskfs.store.ingest.formats.fasta_kernels import FastaRecords
from daskfs.store.ingest.formats.fasta_reads import ReadSampler, Slices, whole_records
from daskfs.store.ingest.rows import BadLines, RowBuilder
from daskfs.store.ingest.sources import Source, SourcePart, Window, first_lines, line_windows

NO_LABEL, LABEL_IS_NO_NUMBER = kernels.TOO_LONG + 1, kernels.TOO_LONG + 2

REASONS = {
    kernels.NOT_A_LETTER: "not a letter of a sequence",
    kernels.NO_SEQUENCE: "a record without a sequence",
    kernels.TOO_LONG: "positions in this record do not fit an id beside k-mers this long; use a smaller k, or reads",
    NO_LABEL: "the header does not match the pattern of the label",
    LABEL_IS_NO_NUMBER: "the label is not a finite number (string labels: --labels strings)",
}


@dataclass(frozen=True, kw_only=True)
class Fasta:
    """Options of the FASTA format.

    A, C, G and T (or U) in either case are bases. Any other letter, ``*`` and ``-`` take their place
    in the sequence, but no k-mer reaches across them.

    Parameters
    ----------
    k
        The lengths of the k-mers, 1 … 31, one or several.
    canonical
        Count a k-mer and its reverse complement as one feature, the smaller of the two.
    position
        A feature is a k-mer at its position in the row.
    label
        ``"file"``: the file's name without folders and endings. ``"header:REGEX"``: the first group of
        REGEX where it is found in the record's header, as in ``header:label=([-+0-9]+)``.
    labels
        ``"numbers"``, ``"strings"`` or ``"auto"``: numbers if the headers of the first records say so.
    read_length, coverage
        None for a row per record. Otherwise rows are reads: ``round(coverage * length / read_length)``
        of them start at random places of each record. A shorter record has no read and makes no row.
    seed
        For the places of the reads. They depend on the seed, the file's name and the record's place in
        it, not on how the work is cut.
    weighting
        ``"count"``, ``"binary"`` (1 for a k-mer that occurs) or ``"unit"`` (counts of length 1 a row).
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
    kind: ClassVar[Kind] = "sparse"

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
        """The most bases of which every k-mer's position fits an id (63 bits)."""
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
        found = [label for header in headers if (label := label_in(header, pattern)) is not None]
        return replace(self, labels=guess_label_kind([label.encode() for label in found]))

    def parts(self, source: Source, part_bytes: int) -> Iterator[SourcePart]:
        return line_parts(source, part_bytes)

    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        label_code = cache(rows.label_code)  # a kernel call a label, not one a record
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
        """The label of every record; one that has none is marked as a problem."""
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


def _report_problems(window: Window, records: FastaRecords, source: Source, bad_lines: BadLines) -> None:
    for record in np.flatnonzero(records.problem):
        at = int(records.problem_at[record])
        reason = f"{REASONS[int(records.problem[record])]}: {_shown(window, at)}"
        bad_lines.report_at(source, window.offset + at, reason)


def _shown(window: Window, at: int) -> str:
    """The line from a byte on, as an error message shows it."""
    return repr(window.text[at : at + 60].tobytes().split(b"\n")[0].decode("utf-8", "replace"))


def label_in(header: bytes, pattern: re.Pattern[str]) -> str | None:
    """What the pattern's first group matches in a header line (``>`` and all), if anything."""
    match = pattern.search(header.decode("utf-8", "replace").removeprefix(">").rstrip("\r"))
    return (match[1] or None) if match else None


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
