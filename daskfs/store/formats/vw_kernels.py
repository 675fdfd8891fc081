"""Vowpal Wabbit text to CSR rows: ``[label [importance [base]]] ['tag]|namespace[:scale] name[:value] ...|...``."""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, warms
from daskfs.store.formats.numbers_kernels import (
    BAR,
    COLON,
    CR,
    LF,
    NOT_FINITE,
    NUMBER,
    QUOTE,
    SPACE,
    TAB,
    read_number,
)
from daskfs.store.hashing_kernels import feature_id
from daskfs.store.names_kernels import COUNT, forget, intern_label, new_name_set, remember
from daskfs.store.rows_kernels import (
    AT,
    DONE,
    ENTRIES,
    FIRST_ERROR,
    FULL,
    LINE,
    LONGEST_TAG,
    NAMES_FULL,
    NEXT,
    ROWS,
    TAG_BYTES,
    close_row,
    new_row_arrays,
)

NO_LABEL = FIRST_ERROR
LABEL_IS_NO_NUMBER = FIRST_ERROR + 1
LABEL_NOT_FINITE = FIRST_ERROR + 2
TOO_MANY_LABELS = FIRST_ERROR + 3
BAD_WEIGHT = FIRST_ERROR + 4
NO_BAR = FIRST_ERROR + 5
BAD_SCALE = FIRST_ERROR + 6
BAD_VALUE = FIRST_ERROR + 7
VALUE_NOT_FINITE = FIRST_ERROR + 8
NUL_BYTE = FIRST_ERROR + 9
NAME_TOO_LONG = FIRST_ERROR + 10
CARET_IN_NAMESPACE = FIRST_ERROR + 11
SUM_NOT_FINITE = FIRST_ERROR + 12

CARET = 94
LONGEST_NAME = 1 << 16
# States of `_features` besides the codes above.
_FINE = 0


@helper
def _is_end(byte):
    """True at the end of a word: white space, a bar, or anything below a space."""
    return byte <= SPACE or byte == BAR


@helper
def _skip_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB or (text[at] == CR and text[at + 1] == LF):
        at += 1
    return at


@helper
def _word_end(text, at):
    while not _is_end(text[at]) and text[at] != COLON:
        at += 1
    return at


@kernel
def parse_vw(text, labels_are_strings, out, labels, names, scratch):
    """Parse lines from ``progress[NEXT]``, as `parse_svmlight` does; names go into the set `names`."""
    at = out.progress[NEXT]
    while at < len(text):
        line = at
        out.progress[LINE] = line
        at = _skip_blanks(text, at)
        if text[at] == LF:
            at += 1
            continue
        if out.progress[ROWS] == len(out.y):
            out.progress[NEXT] = line
            return FULL
        known_labels, known_names, known_tags = labels.used[COUNT], names.used[COUNT], out.progress[TAG_BYTES]
        entry = out.progress[ENTRIES]
        label, weight, at, tag_start, tag_stop, state = _read_header(text, at, labels_are_strings, labels, out)
        if state == _FINE and known_tags + tag_stop - tag_start > len(out.tags):
            state = FULL
        if state == _FINE:
            entry, at, state = _read_namespaces(text, at, out, names, scratch)
        if state == _FINE:
            _keep_tag(out, text, tag_start, tag_stop)
            if not close_row(out, entry, label, weight):
                out.progress[AT] = line
                state = SUM_NOT_FINITE
        if state != _FINE:  # a row that did not fit, or is left out, leaves no trace
            forget(labels, known_labels)
            forget(names, known_names)
            out.progress[TAG_BYTES] = known_tags
            out.progress[NEXT] = line
            return state
        at += 1
    out.progress[NEXT] = at
    return DONE


@helper
def _keep_tag(out, text, start, stop):
    used = out.progress[TAG_BYTES]
    for i in range(start, stop):
        out.tags[used + i - start] = text[i]
    out.progress[TAG_BYTES] = used + stop - start
    out.tag_ends[out.progress[ROWS]] = used + stop - start


@helper
def _read_header(text, at, labels_are_strings, labels, out):
    """What stands before the first bar: (label, importance, where the bar is, tag from, tag to, state)."""
    label, weight, words, tag_start, tag_stop = 0.0, 1.0, 0, 0, 0
    while text[at] != BAR:
        out.progress[AT] = at
        if text[at] == LF:
            return label, weight, at, 0, 0, NO_BAR
        start = at
        while not _is_end(text[at]):
            at += 1
        if text[at] < SPACE and text[at] != TAB and text[at] != LF and text[at] != CR:
            return label, weight, at, 0, 0, NUL_BYTE
        is_tag = text[start] == QUOTE or (words > 0 and text[at] == BAR)
        if is_tag:
            tag_start = start + 1 if text[start] == QUOTE else start
            tag_stop = min(at, tag_start + LONGEST_TAG)
        elif words == 0 and labels_are_strings:
            code = intern_label(labels, text, start, at)
            if code < 0:
                return label, weight, at, 0, 0, TOO_MANY_LABELS
            label = np.float64(code)
        elif words < 3:
            number, end, state = read_number(text, start)
            if words == 0 and state == NOT_FINITE:
                return label, weight, at, 0, 0, LABEL_NOT_FINITE
            if state != NUMBER or end != at:
                return label, weight, at, 0, 0, LABEL_IS_NO_NUMBER if words == 0 else BAD_WEIGHT
            if words == 0:
                label = number
            elif words == 1:
                if number < 0 or not np.isfinite(np.float32(number)):
                    return label, weight, at, 0, 0, BAD_WEIGHT
                weight = number  # a third number, the base of a residual, means nothing here
        else:
            return label, weight, at, 0, 0, NO_BAR
        words += 0 if is_tag else 1
        at = _skip_blanks(text, at)
    if words == 0:
        out.progress[AT] = at
        return label, weight, at, 0, 0, NO_LABEL
    return label, np.float32(weight), at, tag_start, tag_stop, _FINE


@helper
def _read_namespaces(text, at, out, names, scratch):
    """Everything from the first bar to the end of the line: (end of the row's entries, where, state)."""
    entry = out.progress[ENTRIES]
    while text[at] == BAR:
        at += 1
        start = at
        at = _word_end(text, at)
        prefix = at - start
        if prefix >= LONGEST_NAME:
            return entry, at, NAME_TOO_LONG
        for i in range(prefix):
            if text[start + i] == CARET:
                out.progress[AT] = start
                return entry, at, CARET_IN_NAMESPACE
            scratch[i] = text[start + i]
        if prefix > 0:
            scratch[prefix] = CARET
            prefix += 1
        scale = 1.0
        if text[at] == COLON:
            out.progress[AT] = at
            scale, at, state = read_number(text, at + 1)
            if state != NUMBER or not _is_end(text[at]):
                return entry, at, BAD_SCALE
        entry, at, state = _read_features(text, at, entry, scale, prefix, out, names, scratch)
        if state != _FINE:
            return entry, at, state
    return entry, at, _FINE


@helper
def _read_features(text, at, entry, scale, prefix, out, names, scratch):
    """The features of one namespace, up to the next bar or the end of the line."""
    while True:
        at = _skip_blanks(text, at)
        if text[at] == LF or text[at] == BAR:
            return entry, at, _FINE
        out.progress[AT] = at
        if text[at] < SPACE:
            return entry, at, NUL_BYTE
        start = at
        at = _word_end(text, at)
        stop = at
        if stop - start >= LONGEST_NAME:
            return entry, at, NAME_TOO_LONG
        value = 1.0
        if text[at] == COLON:
            value, at, state = read_number(text, at + 1)
            if state == NUMBER and not _is_end(text[at]):
                return entry, at, BAD_VALUE
            if state == NOT_FINITE:
                return entry, at, VALUE_NOT_FINITE
            if state != NUMBER:
                return entry, at, BAD_VALUE
        value *= scale
        if not np.isfinite(np.float32(value)):
            return entry, at, VALUE_NOT_FINITE
        if entry == len(out.ids):
            return entry, at, FULL
        for i in range(start, stop):
            scratch[prefix + i - start] = text[i]
        name_stop = prefix + stop - start
        feature = feature_id(scratch, 0, name_stop)
        if not remember(names, feature, scratch, 0, name_stop):
            return entry, at, NAMES_FULL
        out.ids[entry] = feature
        out.values[entry] = value
        entry += 1


def new_scratch() -> np.ndarray:
    """Room for a namespace and a name."""
    return np.zeros(2 * LONGEST_NAME + 2, np.uint8)


@warms
def _warm() -> None:
    text = np.frombuffer(bytearray(b"1 2 'tag|ns a:1 b\n"), np.uint8)  # writable, as windows are
    parse_vw(text, False, new_row_arrays(2, 4), new_name_set(2, 8), new_name_set(4, 64), new_scratch())
