"""Kernels that convert lines of text to sparse rows of n-grams of words (``w:the quick``) and characters (``c:abc``).

The words or characters of a document are copied to a byte array `stream`, with one space for each gap between words, so
that every n-gram is a slice of the stream. The prefix ``w:`` or ``c:`` of an n-gram is written over the two bytes
before the n-gram, which no later n-gram contains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import helper, kernel, warms
from daskfs.store.dataset.hashing_kernels import feature_id
from daskfs.store.dataset.names_kernels import intern_label, new_name_set, remember
from daskfs.store.ingest.formats.numbers_kernels import COLON, CR, LF, NOT_FINITE, NUMBER, SPACE, TAB, read_number
from daskfs.store.ingest.rows_kernels import (
    AT,
    DONE,
    ENTRIES,
    FIRST_ERROR,
    FULL,
    LINE,
    NAMES_FULL,
    NEXT,
    ROWS,
    close_row,
    new_row_arrays,
    weigh_last_row,
)

NO_COLUMN, NO_LABEL, LABEL_IS_NO_NUMBER, LABEL_NOT_FINITE, TOO_MANY_LABELS = range(FIRST_ERROR, FIRST_ERROR + 5)

WORDS, CHARS = 0, 1  # the units n-grams are made of
LETTER_OF = np.frombuffer(b"wc", np.uint8)
PREFIX = 2  # bytes before an n-gram: its unit's letter and a colon


def _kept_bytes() -> NDArray[np.bool_]:
    kept = np.zeros((2, 256), np.bool_)
    kept[WORDS, list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] = True
    kept[WORDS, 128:] = True  # whatever is not ASCII counts as a letter
    kept[CHARS] = True
    kept[CHARS, list(b" \t\r\n\v\f")] = False
    return kept


KEPT = _kept_bytes()

TEXT_NEXT, NAMED = 0, 1


class Ngrams(NamedTuple):
    """The lengths of the n-grams to count, and the working memory of the text kernels."""

    words: NDArray[np.int64]  # lengths in words, ascending
    chars: NDArray[np.int64]  # lengths in characters, ascending
    weighting: int
    stream: NDArray[np.uint8]
    cursor: NDArray[np.int64]
    """[TEXT_NEXT] is the byte where the next line begins, [NAMED] the number of n-grams of the line already named."""


def new_ngrams(words: tuple[int, ...], chars: tuple[int, ...], weighting: int, text_bytes: int) -> Ngrams:
    """Return `Ngrams` with working memory for a text of `text_bytes` bytes."""
    return Ngrams(
        words=np.array(words, np.int64),
        chars=np.array(chars, np.int64),
        weighting=weighting,
        stream=np.empty(PREFIX + text_bytes, np.uint8),
        cursor=np.zeros(2, np.int64),
    )


@kernel
def parse_lines(source, text, column, labels_are_strings, ngrams, out, labels, names):
    """Parse tab-separated lines from ``progress[NEXT]`` on, and return DONE, FULL, NAMES_FULL or an error code.

    `text` is `source` in lower case, with the same lines and tabs, but perhaps other numbers of bytes between tabs.
    Labels and positions of errors come from `source`, n-grams from `text`. If a row does not fit, only the names of its
    n-grams are kept.
    """
    cursor = ngrams.cursor
    line = out.progress[NEXT]
    while line < len(source):
        out.progress[NEXT] = out.progress[LINE] = line
        stop = _find(source, line, len(source), LF)
        text_line = cursor[TEXT_NEXT]
        text_stop = _find(text, text_line, len(text), LF)
        if not _is_blank(source, line, stop):
            if out.progress[ROWS] == len(out.y):
                return FULL
            label, problem = _read_label(source, line, stop, column, labels_are_strings, out, labels)
            if problem != DONE:
                cursor[TEXT_NEXT] = text_stop + 1  # where parsing continues if the line is skipped
                return problem
            hole, hole_stop = _column(text, text_line, text_stop, column)
            status = _add_document(text, text_line, hole, hole_stop, text_stop, label, ngrams, out, names)
            if status != DONE:
                return status
        cursor[TEXT_NEXT] = text_stop + 1
        line = stop + 1
    return DONE


@kernel
def add_document(text, label, ngrams, out, names):
    """Add one row for a whole text, and return DONE, FULL or NAMES_FULL."""
    if out.progress[ROWS] == len(out.y):
        return FULL
    stop = len(text)
    return _add_document(text, 0, stop, stop, stop, label, ngrams, out, names)


@helper
def _find(text, at, stop, byte):
    while at < stop and text[at] != byte:
        at += 1
    return at


@helper
def _is_blank(text, at, stop):
    while at < stop and (text[at] == SPACE or text[at] == CR):
        at += 1
    return at == stop


@helper
def _column(text, line, stop, column):
    """Return the start and stop of a column of a line, or (-1, -1) if the line has too few columns or no tab."""
    start, end = line, _find(text, line, stop, TAB)
    if end == stop:
        return -1, -1
    for _ in range(column):
        if end == stop:
            return -1, -1
        start, end = end + 1, _find(text, end + 1, stop, TAB)
    return start, end


@helper
def _read_label(source, line, stop, column, labels_are_strings, out, labels):
    """Return the label of a line, and DONE or an error code for an error at byte ``progress[AT]``."""
    out.progress[AT] = line
    at, end = _column(source, line, stop, column)
    if at < 0:
        return 0.0, NO_COLUMN
    while at < end and source[at] <= SPACE:
        at += 1
    while end > at and source[end - 1] <= SPACE:
        end -= 1
    out.progress[AT] = at
    if at == end:
        return 0.0, NO_LABEL
    if labels_are_strings:
        code = intern_label(labels, source, at, end)
        return np.float64(code), DONE if code >= 0 else TOO_MANY_LABELS
    label, number_end, state = read_number(source, at)
    if state == NOT_FINITE:
        return 0.0, LABEL_NOT_FINITE
    return label, DONE if state == NUMBER and number_end == end else LABEL_IS_NO_NUMBER


@helper
def _add_document(text, start, hole, hole_stop, stop, label, ngrams, out, names):
    """Add one row for ``text[start:hole]`` and ``text[hole_stop:stop]``, and return DONE, FULL or NAMES_FULL."""
    entry = out.progress[ENTRIES]
    for unit in range(2):
        sizes = ngrams.words if unit == WORDS else ngrams.chars
        if len(sizes) > 0:
            end = _join(text, start, hole, unit, ngrams.stream, PREFIX)
            end = _join(text, hole_stop, stop, unit, ngrams.stream, end)
            entry, status = _add_ngrams(unit, sizes, end, entry, ngrams, out, names)
            if status != DONE:
                ngrams.cursor[NAMED] = max(ngrams.cursor[NAMED], entry - out.progress[ENTRIES])
                return status
    ngrams.cursor[NAMED] = 0
    close_row(out, entry, label, np.float32(1))
    weigh_last_row(out, ngrams.weighting)
    return DONE


@helper
def _join(text, start, stop, unit, stream, end):
    """Append the words or characters of ``text[start:stop]`` to ``stream[:end]``, and return the new end."""
    gap = True
    for i in range(start, stop):
        if not KEPT[unit, text[i]]:
            gap = True
            continue
        if gap and end > PREFIX:
            stream[end] = SPACE
            end += 1
        gap = False
        stream[end] = text[i]
        end += 1
    return end


@helper
def _add_ngrams(unit, sizes, stop, entry, ngrams, out, names):
    """Add an entry and a name for each n-gram of ``stream[PREFIX:stop]``.

    Return the number of entries so far, and DONE, FULL or NAMES_FULL. N-grams that were named before the name set was
    full are not named again, so that a row may have more names than fit in the name set.
    """
    stream = ngrams.stream
    unnamed = out.progress[ENTRIES] + ngrams.cursor[NAMED]
    between = 1 if unit == WORDS else 0
    at = PREFIX
    while at < stop:
        begin = at - PREFIX
        stream[begin], stream[begin + 1] = LETTER_OF[unit], COLON
        end, units = at - between, 0
        for j in range(len(sizes)):
            while units < sizes[j] and end < stop:
                end = _unit_end(unit, stream, end + between, stop)
                units += 1
            if units < sizes[j]:
                break
            if entry == len(out.ids):
                return entry, FULL
            name = feature_id(stream, begin, end)
            if entry >= unnamed and not remember(names, name, stream, begin, end):
                return entry, NAMES_FULL
            out.ids[entry] = name
            out.values[entry] = np.float32(1)
            entry += 1
        at = _unit_end(unit, stream, at, stop) + between
    return entry, DONE


@helper
def _unit_end(unit, stream, at, stop):
    """Return the end of the word, or of the UTF-8 character, that starts at byte `at` of the stream."""
    if unit == WORDS:
        return _find(stream, at, stop, SPACE)
    at += 1
    while at < stop and stream[at] & 0xC0 == 0x80:
        at += 1
    return at


@warms
def _warm() -> None:
    line = b"1\ta\n"
    source, text = np.frombuffer(bytearray(line), np.uint8), np.frombuffer(line, np.uint8)
    ngrams = new_ngrams((1,), (), 0, len(text))
    names = new_name_set(4, 64)
    parse_lines(source, text, 0, False, ngrams, new_row_arrays(2, 8), names, names)
    add_document(text, 0.0, ngrams, new_row_arrays(2, 8), names)
