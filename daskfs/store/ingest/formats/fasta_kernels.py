"""Kernels that convert FASTA text to arrays of base codes, and slices of base codes to CSR rows of k-mers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import helper, kernel, warms
from daskfs.store.ingest.formats.numbers_kernels import LF
from daskfs.store.ingest.rows_kernels import (
    DONE,
    ENTRIES,
    FIRST_ERROR,
    FULL,
    NEXT,
    ROWS,
    close_row,
    new_row_arrays,
    weigh_last_row,
)

RECORD_MARK = 62  # ">"

NOT_A_LETTER, NO_SEQUENCE, TOO_LONG = range(FIRST_ERROR, FIRST_ERROR + 3)

BREAK, SPACING, FOREIGN = 4, 5, 6  # codes of bytes that are no bases; the bases are 0 … 3


def _meanings() -> NDArray[np.uint8]:
    meaning = np.full(256, FOREIGN, np.uint8)
    meaning[list(b" \t\r\n\v\f")] = SPACING
    meaning[list(b"*-")] = BREAK
    for letter in range(ord("A"), ord("Z") + 1):
        code = {"A": 0, "C": 1, "G": 2, "T": 3, "U": 3}.get(chr(letter), BREAK)
        meaning[[letter, letter + 32]] = code
    return meaning


MEANING = _meanings()


class FastaRecords(NamedTuple):
    """The FASTA records of a window of text, where the bases of record r are ``codes[first[r]:last[r]]``."""

    start: NDArray[np.int64]  # byte of its ">"
    header_stop: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    problem: NDArray[np.int64]  # 0, or an error code
    problem_at: NDArray[np.int64]  # the byte of the error
    codes: NDArray[np.uint8]


def new_records(text: NDArray[np.uint8]) -> FastaRecords:
    """Find the start of every FASTA record in a text, and return arrays that `encode_records` fills."""
    marks = np.flatnonzero(text == RECORD_MARK)
    start = marks[(marks == 0) | (text[marks - 1] == LF)]
    header_stop, first, last, problem, problem_at = (np.zeros(len(start), np.int64) for _ in range(5))
    return FastaRecords(start, header_stop, first, last, problem, problem_at, np.empty(len(text), np.uint8))


@kernel
def encode_records(text, longest, records):
    """Fill `records` with the ends of headers, the codes of bases, and the error codes of bad records.

    `longest` is the largest number of bases a record may have.
    """
    written = 0
    for r in range(len(records.start)):
        at = records.start[r]
        stop = records.start[r + 1] if r + 1 < len(records.start) else len(text)
        records.problem_at[r] = at
        while text[at] != LF:
            at += 1
        records.header_stop[r] = at
        records.first[r] = written
        foreign = False
        for i in range(at, stop):
            code = MEANING[text[i]]
            records.codes[written] = code  # overwritten by the next one if it is neither base nor break
            written += code <= BREAK
            foreign |= code == FOREIGN
        records.last[r] = written
        if foreign:
            while MEANING[text[at]] != FOREIGN:
                at += 1
            records.problem[r], records.problem_at[r] = NOT_A_LETTER, at
        elif written == records.first[r]:
            records.problem[r] = NO_SEQUENCE
        elif written - records.first[r] > longest:
            records.problem[r] = TOO_LONG


@kernel
def add_kmer_rows(codes, first, last, y, lengths, canonical, shift, weighting, out):
    """Add a row for each slice ``codes[first[i]:last[i]]``, from i = ``progress[NEXT]`` on, and return DONE or FULL.

    `lengths` holds the lengths k of the k-mers. If `shift` is not 0, the id of a feature combines a k-mer and its
    position in the row. If FULL is returned, ``progress[NEXT]`` is the index of the row that did not fit.
    """
    for row in range(out.progress[NEXT], len(first)):
        out.progress[NEXT] = row
        start = stop = out.progress[ENTRIES]
        most = 0
        for j in range(len(lengths)):  # by index, because an iterator over an array takes 16 ns per step
            most += max(last[row] - first[row] - lengths[j] + 1, 0)
        if out.progress[ROWS] == len(out.y) or start + most > len(out.ids):
            return FULL
        for j in range(len(lengths)):
            stop = _write_kmers(codes, first[row], last[row], lengths[j], canonical, shift, out.ids, stop)
        out.values[start:stop] = np.float32(1)
        close_row(out, stop, y[row], np.float32(1))
        weigh_last_row(out, weighting)
    return DONE


@helper
def _write_kmers(codes, first, last, k, canonical, shift, ids, entry):
    """Write the ids of the k-mers of one slice to ``ids[entry:]``, and return the position after the last id.

    The variable `forward` holds the last k bases, and `backward` holds the reverse complement of the last k bases.
    """
    length_bit = np.uint64(1) << np.uint64(2 * k)
    mask = length_bit - np.uint64(1)
    top = np.uint64(2 * (k - 1))
    forward, backward = np.uint64(0), np.uint64(0)
    unbroken = 0  # bases since the last break
    for i in range(first, last):
        code = np.uint64(codes[i])
        if code == np.uint64(BREAK):
            unbroken = 0
            continue
        unbroken += 1
        forward = (forward << np.uint64(2) | code) & mask
        backward = backward >> np.uint64(2) | (np.uint64(3) - code) << top
        if unbroken >= k:
            kmer = min(forward, backward) if canonical else forward
            ids[entry] = kmer | length_bit
            if shift:
                ids[entry] |= np.uint64(i - first - k + 1) << np.uint64(shift)
            entry += 1
    return entry


@warms
def _warm() -> None:
    text = np.frombuffer(bytearray(b">a\nACGT\n"), np.uint8)
    records = new_records(text)
    encode_records(text, 100, records)
    lengths, y = np.array([2]), np.zeros(1)
    add_kmer_rows(records.codes, records.first, records.last, y, lengths, False, 0, 0, new_row_arrays(2, 8))
