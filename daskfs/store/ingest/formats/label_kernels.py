"""Kernels that copy what stands before the features of each line of a text, its label, without reading features.

The copy is a text of the same format with rows without features. The parser of the format reads it in a small part of
the time that the whole text takes, and so finds the labels and the number of rows. Of the features, only what blocks
and results need beforehand is read, 64 bytes at a time: how many there are, and ids where these are numbers.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import inlined, kernel, warms
from daskfs.store.dataset.bits_kernels import bit_count, bit_length, lowest_bit
from daskfs.store.dataset.hashing_kernels import WORD
from daskfs.store.ingest.formats.numbers_kernels import (
    BAR,
    COLON,
    CR,
    HASH,
    LF,
    SPACE,
    TAB,
    read_id,
    read_id_token,
)
from daskfs.store.ingest.formats.structure_kernels import BLOCK, equal_bits, structural_bits

ENTRIES, MAX_ID = 0, 1


@kernel
def copy_vw_labels(text, out, facts):
    """Copy each line of VW text up to its first bar to `out`, which is as long as `text`; return the bytes written.

    The number of features of the lines is added to ``facts[ENTRIES]``, where a repeated feature counts each time.
    """
    at, written, entries = 0, 0, 0
    while at < len(text):
        at, written = _copy_label(text, _skip_blanks(text, at), BAR, BAR, BAR, out, written)
        is_after_blank, ends = False, np.uint64(0)
        while ends == 0:
            bars, ends = _equal_bits(text, at, BAR), _equal_bits(text, at, LF)
            blanks = _blank_bits(text, at)
            after_blanks = blanks << np.uint64(1) | np.uint64(is_after_blank)
            entries += bit_count(after_blanks & ~(blanks | bars) & _before_lowest(ends))
            is_after_blank = blanks >> np.uint64(BLOCK - 1) != 0
            at += lowest_bit(ends)  # BLOCK without an end
        out[written] = LF
        written += 1
        at += 1
    facts[ENTRIES] += entries
    return written


@kernel
def copy_svmlight_labels(text, labels_are_strings, out, facts):
    """Copy the label of each line of svmlight text to `out`, which is as long as `text`; return the bytes written.

    The number of features of the lines is added to ``facts[ENTRIES]``, where a repeated feature counts each time, and
    ``facts[MAX_ID]`` becomes the largest id, if that is more.
    """
    at, written, entries, largest = 0, 0, 0, np.uint64(facts[MAX_ID])
    while at < len(text):
        at = _skip_blanks(text, at)
        is_comment = text[at] == HASH  # which a string label may have in it
        comment = SPACE if labels_are_strings and not is_comment else HASH
        at, written = _copy_label(text, at, SPACE, TAB, comment, out, written)
        word, stops = at, np.uint64(0)
        while stops == 0:
            stops = _equal_bits(text, at, LF) | _equal_bits(text, at, HASH)
            colons, blanks = _equal_bits(text, at, COLON) & _before_lowest(stops), _blank_bits(text, at)
            while colons != 0:
                position = lowest_bit(colons)
                blanks_before = blanks & ((np.uint64(1) << np.uint64(position)) - np.uint64(1))
                start = at + bit_length(blanks_before) if blanks_before != 0 else word
                feature, is_id = _read_id(text, start, at + position)
                if is_id:
                    entries += 1
                    largest = max(largest, feature)
                colons &= colons - np.uint64(1)
            word = at + bit_length(blanks) if blanks != 0 else word
            at += lowest_bit(stops)
        while text[at] != LF:  # a comment
            at += 1
        out[written] = LF
        written += 1
        at += 1
    facts[ENTRIES] += entries
    facts[MAX_ID] = np.int64(largest)
    return written


@inlined
def _skip_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB or text[at] == CR:
        at += 1
    return at


@inlined
def _copy_label(text, at, first_end, second_end, third_end, out, written):
    """Copy a line from byte `at` on, up to and with one of three bytes or up to its newline.

    Return the position of that byte, and the number of bytes written in all.
    """
    while text[at] != LF:
        byte = text[at]
        out[written] = byte
        written += 1
        if byte == first_end or byte == second_end or byte == third_end:
            break
        at += 1
    return at, written


@inlined
def _read_id(text, start, stop):
    """Return the whole number ``text[start:stop]``, and False if this is no id."""
    if stop + WORD <= len(text):
        return read_id_token(text, start, stop)
    feature, end, is_id = read_id(text, start)
    return feature, is_id and end == stop


@inlined
def _before_lowest(bits):
    """Return a uint64 with the bits below the lowest bit that is set, all bits if none is set."""
    return (bits & (~bits + np.uint64(1))) - np.uint64(1)


@inlined
def _equal_bits(text, at, byte):
    """Return a bit mask of the next 64 bytes that are `byte`, or of those that are left at the end of the text."""
    if at + BLOCK <= len(text):
        return equal_bits(text, at, byte)
    bits = np.uint64(0)
    for i in range(len(text) - at):
        bits |= np.uint64(text[at + i] == byte) << np.uint64(i)
    return bits


@inlined
def _blank_bits(text, at):
    """Return a uint64 with bit i set if byte ``text[at + i]`` is in the text and not above a space."""
    if at + BLOCK <= len(text):
        return structural_bits(text, at, SPACE, SPACE)
    bits = np.uint64(0)
    for i in range(len(text) - at):
        bits |= np.uint64(text[at + i] <= SPACE) << np.uint64(i)
    return bits


@warms
def _warm_vw() -> None:
    copy_vw_labels(np.frombuffer(bytearray(b"1 | a\n"), np.uint8), np.empty(6, np.uint8), np.zeros(2, np.int64))


@warms
def _warm_svmlight() -> None:
    text = np.frombuffer(bytearray(b"1 2:3\n"), np.uint8)  # writable, as windows are
    copy_svmlight_labels(text, False, np.empty(6, np.uint8), np.zeros(2, np.int64))
