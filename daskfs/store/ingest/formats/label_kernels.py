"""The kernel that copies what stands before the features of each line of a text, its label, without reading features.

The copy is a text of the same format with rows without features. The parser of the format reads it in a small part of
the time that the whole text takes, and so finds the labels and the number of rows.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import inlined, kernel, warms
from daskfs.store.dataset.bits_kernels import bit_count, lowest_bit
from daskfs.store.ingest.formats.numbers_kernels import BAR, COLON, CR, LF, SPACE, TAB
from daskfs.store.ingest.formats.structure_kernels import BLOCK, equal_bits

ENTRIES, MAX_ID = 0, 1
_MOST_DIGITS = 18


@kernel
def copy_labels(text, first_end, second_end, out, facts):
    """Copy each line of `text` up to and with a byte `first_end` or `second_end` to `out`; return the bytes written.

    `out` is as long as `text`. The number of entries of the lines is added to ``facts[ENTRIES]``: it is the number of
    spaces after labels, and so only nearly right where several spaces follow each other or features are repeated.
    ``facts[MAX_ID]`` becomes the largest number before a colon at the end of a line, if that is more.
    """
    at, written, entries, largest = 0, 0, 0, facts[MAX_ID]
    while at < len(text):
        while text[at] == SPACE or text[at] == TAB or text[at] == CR:
            at += 1
        while text[at] != LF:
            byte = text[at]
            out[written] = byte
            written += 1
            if byte == first_end or byte == second_end:
                break
            at += 1
        end, spaces, bars = _line_end(text, at)
        if end > at:
            entries += spaces - bars + (text[at] == BAR)
            largest = max(largest, _last_id(text, at, end))
        out[written] = LF
        written += 1
        at = end + 1
    facts[ENTRIES] += entries
    facts[MAX_ID] = largest
    return written


@inlined
def _line_end(text, at):
    """Return the position of the next newline from `at` on, and the numbers of spaces and of bars before it."""
    spaces, bars = 0, 0
    while at + BLOCK <= len(text):
        ends = equal_bits(text, at, LF)
        before = (np.uint64(1) << np.uint64(lowest_bit(ends))) - np.uint64(1) if ends != 0 else ~np.uint64(0)
        spaces += bit_count(equal_bits(text, at, SPACE) & before)
        bars += bit_count(equal_bits(text, at, BAR) & before)
        if ends != 0:
            return at + lowest_bit(ends), spaces, bars
        at += BLOCK
    while text[at] != LF:
        spaces += text[at] == SPACE
        bars += text[at] == BAR
        at += 1
    return at, spaces, bars


@inlined
def _last_id(text, start, end):
    """Return the whole number before the colon of the last word of ``text[start:end]``, or -1."""
    while end > start and text[end - 1] <= SPACE:
        end -= 1
    at = end
    while at > start and text[at - 1] > SPACE:
        at -= 1
    number, digits = 0, at
    while digits < end and digits - at < _MOST_DIGITS and 48 <= text[digits] <= 57:
        number = 10 * number + text[digits] - 48
        digits += 1
    return number if at < digits < end and text[digits] == COLON else -1


@warms
def _warm() -> None:
    text = np.frombuffer(b"1 2:3\n", np.uint8)
    copy_labels(text, SPACE, TAB, np.empty(6, np.uint8), np.zeros(2, np.int64))
