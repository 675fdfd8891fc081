"""The kernel that parses svmlight text, ``label [qid:q] id:value id:value ... [# comment]``, into CSR rows.

The features of a line are read between the structural bytes that were found before: as in `vw_fast_kernels`, ids and
values are read from 64-bit words, without a loop over bytes. This fast path gives up on a line that is wrong or
unusual, which is then read byte by byte.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import inlined, kernel, warms
from daskfs.store.dataset.names_kernels import COUNT, forget, intern_label, new_name_set
from daskfs.store.ingest.formats.numbers_kernels import (
    COLON,
    CR,
    HASH,
    LF,
    NOT_FINITE,
    NUMBER,
    SPACE,
    TAB,
    read_id,
    read_id_token,
    read_number,
    read_token,
)
from daskfs.store.ingest.formats.structure_kernels import FINE, NOT_UNDERSTOOD, find_structure, new_positions
from daskfs.store.ingest.rows_kernels import (
    AT,
    DONE,
    ENTRIES,
    FIRST_ERROR,
    FULL,
    LINE,
    NEXT,
    ROWS,
    close_row,
    new_row_arrays,
)

LABEL_IS_NO_NUMBER, LABEL_NOT_FINITE, TOO_MANY_LABELS, NO_COLON, BAD_ID, BAD_VALUE = range(FIRST_ERROR, FIRST_ERROR + 6)
VALUE_NOT_FINITE, NUL_BYTE, SUM_NOT_FINITE = range(FIRST_ERROR + 6, FIRST_ERROR + 9)


@kernel
def parse_svmlight(text, labels_are_strings, out, labels, positions):
    """Parse svmlight lines from byte ``progress[NEXT]`` on, and return DONE, FULL (block is full) or an error code.

    `text` must end with a newline. After FULL, ``progress[NEXT]`` is the start of the line that did not fit. After an
    error, ``progress[AT]`` is the byte of the error and ``progress[LINE]`` the start of the bad line.

    `positions` is working memory for the structural bytes of lines, which the fast path needs (empty: no fast path).
    """
    at = found_stop = out.progress[NEXT]
    following = 0  # the first structural byte that was not used yet
    while at < len(text):
        if at >= found_stop:
            found_stop = find_structure(text, at, positions, COLON, HASH)
            following = 0
        line = at
        out.progress[LINE] = line
        while text[at] == SPACE or text[at] == TAB or text[at] == CR:
            at += 1
        if text[at] == HASH:
            while text[at] != LF:
                at += 1
        if text[at] == LF:
            at += 1
            continue
        if out.progress[ROWS] == len(out.y):
            out.progress[NEXT] = line
            return FULL

        out.progress[AT] = label_start = at
        label = 0.0
        if labels_are_strings:
            while text[at] > SPACE:
                at += 1
        else:
            label, at, state = read_number(text, at)
            if state == NOT_FINITE:
                return LABEL_NOT_FINITE
            if state != NUMBER or (text[at] > SPACE and text[at] != HASH):
                return LABEL_IS_NO_NUMBER

        label_stop = at
        entry, fast = out.progress[ENTRIES], NOT_UNDERSTOOD
        if at < found_stop:
            while positions[following] < at:
                following += 1
            entry, following, fast = read_structured_features(text, following, out, positions)
            if fast == FULL:
                out.progress[NEXT] = line
                return FULL
            if fast == FINE:
                at = np.int64(positions[following])
            else:
                entry = out.progress[ENTRIES]
        while fast != FINE:
            while text[at] == SPACE or text[at] == TAB:
                at += 1
            if text[at] <= CR:  # below a space, only LF and CR LF end a line
                if text[at] == LF:
                    break
                if text[at] == CR and text[at + 1] == LF:
                    at += 1
                    break
                out.progress[AT] = at
                return NUL_BYTE if text[at] == 0 else NO_COLON
            if text[at] == HASH:
                while text[at] != LF:
                    at += 1
                break
            out.progress[AT] = at
            feature, end, fine = read_id(text, at)
            if text[end] != COLON or not fine:
                if text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == COLON:
                    while text[at] > SPACE and text[at] != HASH:  # qid, the query groups of ranking data, is ignored
                        at += 1
                    continue
                while text[end] > SPACE and text[end] != COLON:
                    end += 1
                return BAD_ID if text[end] == COLON else NO_COLON
            value, at, state = read_number(text, end + 1)
            if state == NOT_FINITE or not np.isfinite(np.float32(value)):
                return VALUE_NOT_FINITE
            if state != NUMBER or (text[at] > SPACE and text[at] != HASH):
                return BAD_VALUE
            if entry == len(out.ids):
                out.progress[NEXT] = line
                return FULL
            out.ids[entry] = feature
            out.values[entry] = value
            entry += 1
        at += 1
        known_labels = labels.used[COUNT]
        if labels_are_strings:  # only now, since a line that is skipped adds no label
            code = intern_label(labels, text, label_start, label_stop)
            if code < 0:
                out.progress[AT] = label_start
                return TOO_MANY_LABELS
            label = np.float64(code)
        if not close_row(out, entry, label, np.float32(1)):
            forget(labels, known_labels)
            out.progress[AT] = label_start
            return SUM_NOT_FINITE
    out.progress[NEXT] = at
    return DONE


@inlined
def read_structured_features(text, at, out, positions):
    """Read the features of a line after the structural byte ``positions[at]``, which ends its label.

    Return the new number of entries, the number of the structural byte that ends the line, and FINE, FULL or
    NOT_UNDERSTOOD.
    """
    entry = out.progress[ENTRIES]
    here = np.int64(positions[at])
    while True:
        byte = text[here]
        if byte != SPACE:
            if byte == LF:
                return entry, at, FINE
            if byte == HASH:
                return entry, _line_end(text, at, positions), FINE
            if byte != TAB and not (byte == CR and text[here + 1] == LF):  # a control character, or a second colon
                return entry, at, NOT_UNDERSTOOD
        colon = np.int64(positions[at + 1])
        if text[colon] != COLON:
            if colon > here + 1:
                return entry, at, NOT_UNDERSTOOD
            at, here = at + 1, colon
            continue
        stop = np.int64(positions[at + 2])
        feature, is_id = read_id_token(text, here + 1, colon)
        value, is_number = read_token(text, colon + 1, stop)
        if not is_id or not is_number or not np.isfinite(np.float32(value)):
            if not _is_query(text, here + 1, colon):
                return entry, at, NOT_UNDERSTOOD
            at += 2
            while text[positions[at]] == COLON:
                at += 1
            here = np.int64(positions[at])
            continue
        if entry == len(out.ids):
            return entry, at, FULL
        out.ids[entry] = feature
        out.values[entry] = value
        entry += 1
        at, here = at + 2, stop


@inlined
def _line_end(text, at, positions):
    """Return the number of the first structural byte from ``positions[at]`` on that is a newline."""
    while text[positions[at]] != LF:
        at += 1
    return at


@inlined
def _is_query(text, start, colon):
    """Return True if ``text[start:colon]`` is qid, the query groups of ranking data, which are ignored."""
    return colon - start == 3 and text[start] == 113 and text[start + 1] == 105 and text[start + 2] == 100


@warms
def _warm() -> None:
    text = np.frombuffer(bytearray(b"1 1:2\n"), np.uint8)  # writable, as windows are
    parse_svmlight(text, False, new_row_arrays(2, 4), new_name_set(2, 8), new_positions())
