"""Kernels that convert table cells to CSR entries, with the id of the column (numbers) or of ``column=text`` (texts).

A missing value is NaN among numbers, which is an entry, and the empty text among texts. Zeros are no entries. Entries
are first counted, then written column by column at the positions in `cursor`, which holds the next free position of
each row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import kernel, warms
from daskfs.store.dataset.hashing_kernels import feature_id
from daskfs.store.dataset.names_kernels import new_name_set, remember
from daskfs.store.ingest.formats.numbers_kernels import CR, LF

DOUBLE_QUOTE = 34
FINE, STRAY_CR, OPEN_QUOTE = 0, 1, 2


class Texts(NamedTuple):
    """A column of strings in Arrow's format, where the text of row i is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: NDArray[np.int32]
    data: NDArray[np.uint8]


@kernel
def count_lines(text, delimiter):
    """Return the number of nonempty CSV lines, and FINE or the error code of an open quote or a stray CR.

    As in pyarrow, a quote opens a quoted field only at the beginning of the field.
    """
    lines, start, at, fault = 0, 0, 0, FINE
    while at < len(text):
        byte = text[at]
        if byte == LF:
            empty = at == start or (at == start + 1 and text[start] == CR)
            lines += not empty
            start = at + 1
        elif byte == CR and text[at + 1] != LF:
            fault = STRAY_CR
        elif byte == DOUBLE_QUOTE and (at == start or text[at - 1] == delimiter):
            at += 1
            while text[at] != LF and not (text[at] == DOUBLE_QUOTE and text[at + 1] != DOUBLE_QUOTE):
                at += 2 if text[at] == DOUBLE_QUOTE else 1
            if text[at] == LF:
                fault = OPEN_QUOTE
                continue
        at += 1
    return lines, fault


@kernel
def first_beyond(values, largest):
    """Return the position of the first number with an absolute value above `largest`, or -1, and the number of NaN."""
    first, missing = -1, 0
    for i in range(len(values)):
        if not abs(values[i]) <= largest:
            if np.isnan(values[i]):
                missing += 1
            elif first < 0:
                first = i
    return first, missing


@kernel
def count_numbers(X, counts, used):
    """Add the number of entries of each row of X to `counts`, and mark features with an entry in `used`.

    Every nonzero cell is an entry. If `used` is twice as long as a row, a NaN is also an entry of the column's
    indicator, which is in the second half of `used`.
    """
    width, indicators = X.shape[1], len(used) > X.shape[1]
    for row in range(X.shape[0]):
        for column in range(width):
            if X[row, column] != 0:
                counts[row] += 1
                used[column] = True
                if indicators and np.isnan(X[row, column]):
                    counts[row] += 1
                    used[width + column] = True


@kernel
def count_texts(offsets, count_empty, counts):
    """Add 1 to ``counts[i]`` for each row i whose text in a column of strings is not empty, or for every row."""
    for row in range(len(counts)):
        counts[row] += count_empty or offsets[row + 1] > offsets[row]


@kernel
def put_numbers(X, feature_ids, cursor, ids, values):
    """Write the entries that `count_numbers` counts; `feature_ids` are those of the columns, then of the indicators."""
    width, indicators = X.shape[1], len(feature_ids) > X.shape[1]
    for row in range(X.shape[0]):
        at = cursor[row]
        for column in range(width):
            if X[row, column] != 0:
                ids[at] = feature_ids[column]
                values[at] = X[row, column]
                at += 1
                if indicators and np.isnan(X[row, column]):
                    ids[at] = feature_ids[width + column]
                    values[at] = 1
                    at += 1
        cursor[row] = at


@kernel
def put_texts(prefix, texts, gap, first, cursor, ids, values, names):
    """Write 1 under the id of ``prefix + text`` for rows from `first` on, and return the row where `names` is full.

    In place of an empty text stands the text `gap`; if `gap` is empty too, the row gets no entry.
    """
    offsets, data = texts.offsets, texts.data
    longest = len(gap)
    for row in range(first, len(cursor)):
        longest = max(longest, offsets[row + 1] - offsets[row])
    name = np.empty(len(prefix) + longest, np.uint8)
    name[: len(prefix)] = prefix
    for row in range(first, len(cursor)):
        start, stop = offsets[row], offsets[row + 1]
        text = data[start:stop] if stop > start else gap
        if len(text) == 0:
            continue
        end = len(prefix) + len(text)
        name[len(prefix) : end] = text
        feature = feature_id(name, 0, end)
        if not remember(names, feature, name, 0, end):
            return row
        ids[cursor[row]] = feature
        values[cursor[row]] = 1
        cursor[row] += 1
    return len(cursor)


@kernel
def add_name(name, names):
    """Add one complete feature name to the set `names`, and return False if the name did not fit."""
    return remember(names, feature_id(name, 0, len(name)), name, 0, len(name))


@warms
def _warm() -> None:
    text = np.frombuffer(b"a\n", np.uint8)  # read-only, as Arrow's buffers are handed out
    names = new_name_set(2, 8)
    counts, ids, values = np.zeros(1, np.int64), np.zeros(1, np.uint64), np.zeros(1, np.float32)
    X = np.zeros((1, 1), np.float32)
    numbers, offsets = np.zeros(1), np.zeros(2, np.int32)
    numbers.flags.writeable = offsets.flags.writeable = False
    count_lines(text.copy(), 44)
    first_beyond(numbers, 1.0)
    count_numbers(X, counts, np.zeros(1, np.bool_))
    count_texts(offsets, True, counts)
    counts[:] = 0  # from here on the place of the next entry
    put_numbers(X, ids, counts, ids, values)
    put_texts(text, Texts(offsets, text), text, 0, counts, ids, values, names)
    add_name(text, names)
