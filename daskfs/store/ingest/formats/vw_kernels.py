"""Kernels for Vowpal Wabbit text, ``[label [importance [base]]] ['tag]|namespace[:scale] name[:value] ...|...``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import helper, inlined, kernel, warms
from daskfs.store.dataset.hashing_kernels import (
    SLACK,
    WORD,
    bytes_below,
    bytes_equal,
    copy_text,
    feature_id,
    first_marked,
    word_at,
)
from daskfs.store.dataset.names_kernels import BYTES, COUNT, forget, intern_label, new_name_set, remember_all
from daskfs.store.ingest.formats.numbers_kernels import (
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
from daskfs.store.ingest.formats.structure_kernels import NOT_UNDERSTOOD
from daskfs.store.ingest.formats.vw_fast_kernels import (
    CARET,
    find_vw_structure,
    new_structure,
    read_structured_namespaces,
)
from daskfs.store.ingest.rows_kernels import (
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

NO_LABEL, LABEL_IS_NO_NUMBER, LABEL_NOT_FINITE, TOO_MANY_LABELS, BAD_WEIGHT = range(FIRST_ERROR, FIRST_ERROR + 5)
NO_BAR, BAD_SCALE, BAD_VALUE, VALUE_NOT_FINITE, NUL_BYTE, NAME_TOO_LONG = range(FIRST_ERROR + 5, FIRST_ERROR + 11)
CARET_IN_NAMESPACE, SUM_NOT_FINITE = range(FIRST_ERROR + 11, FIRST_ERROR + 13)

LONGEST_NAME = 1 << 16
# States of `_features` besides the codes above.
_FINE = 0


@helper
def _is_end(byte):
    """Return True if a byte ends a token of VW text: white space, a control character or a bar."""
    return byte <= SPACE or byte == BAR


@inlined
def _skip_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB or (text[at] == CR and text[at + 1] == LF):
        at += 1
    return at


@inlined
def _word_end(text, at):
    while at + 2 * WORD <= len(text):
        length, more = first_marked(_ends(word_at(text, at))), first_marked(_ends(word_at(text, at + WORD)))
        length += more if length == WORD else 0  # no branch, because the length of a name is unpredictable
        at += length
        if length < 2 * WORD:
            return at
    while not _is_end(text[at]) and text[at] != COLON:
        at += 1
    return at


@helper
def _ends(word):
    """Return a mask of the bytes of a 64-bit word that end a feature name."""
    return bytes_below(word, SPACE + 1) | bytes_equal(word, COLON) | bytes_equal(word, BAR)


@kernel
def parse_vw(text, labels_are_strings, out, labels, names, batch, structure):
    """Parse VW lines from byte ``progress[NEXT]`` on, add names to the set `names`, and return a status code."""
    at = found_stop = out.progress[NEXT]
    following = 0  # the first structural byte that was not used yet
    while at < len(text):
        if at >= found_stop:
            found_stop = find_vw_structure(text, at, structure)
            following = 0
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
            bar, state = at, NOT_UNDERSTOOD
            if bar < found_stop:
                while structure.positions[following] < bar:
                    following += 1
                entry, following, state = read_structured_namespaces(text, following, out, names, structure)
                at = np.int64(structure.positions[following])
            if state == NOT_UNDERSTOOD:
                entry, at, state = _read_namespaces(text, bar, out, names, batch)
        if state == _FINE:
            _keep_tag(out, text, tag_start, tag_stop)
            if not close_row(out, entry, label, weight):
                out.progress[AT] = line
                state = SUM_NOT_FINITE
        if state != _FINE:  # a row that did not fit, or is skipped, leaves nothing behind
            forget(labels, known_labels)
            forget(names, known_names)
            out.progress[TAG_BYTES] = known_tags
            out.progress[NEXT] = line
            return state
        at += 1
    out.progress[NEXT] = at
    return DONE


@inlined
def _keep_tag(out, text, start, stop):
    used = out.progress[TAG_BYTES]
    for i in range(start, stop):
        out.tags[used + i - start] = text[i]
    out.progress[TAG_BYTES] = used + stop - start
    out.tag_ends[out.progress[ROWS]] = used + stop - start


@inlined
def _read_header(text, at, labels_are_strings, labels, out):
    """Return label, importance, position of the first bar, start and stop of the tag, and the status of a VW line."""
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
                weight = number  # a third number, the base of a residual, is ignored
        else:
            return label, weight, at, 0, 0, NO_BAR
        words += 0 if is_tag else 1
        at = _skip_blanks(text, at)
    if words == 0:
        out.progress[AT] = at
        return label, weight, at, 0, 0, NO_LABEL
    return label, np.float32(weight), at, tag_start, tag_stop, _FINE


@inlined
def _read_namespaces(text, at, out, names, batch):
    """Read the features of all namespaces of a VW line, and return the new number of entries, the end and a status."""
    entry = out.progress[ENTRIES]
    batch.used[:] = 0
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
            batch.prefix[i] = text[start + i]
        if prefix > 0:
            batch.prefix[prefix] = CARET
            prefix += 1
        scale = 1.0
        if text[at] == COLON:
            out.progress[AT] = at
            scale, at, state = read_number(text, at + 1)
            if state != NUMBER or not _is_end(text[at]):
                return entry, at, BAD_SCALE
        entry, at, state = _read_features(text, at, entry, scale, prefix, out, names, batch)
        if state != _FINE:
            return entry, at, state
    return entry, at, _FINE if _close_batch(batch, entry, out.ids, names) else NAMES_FULL


@inlined
def _read_features(text, at, entry, scale, prefix, out, names, batch):
    """Read the features of one namespace of a VW line, up to the next bar or the end of the line."""
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
        out.values[entry] = value
        if not _has_room(batch, prefix + stop - start) and not _close_batch(batch, entry, out.ids, names):
            return entry, at, NAMES_FULL
        _add_to_batch(batch, prefix, text, start, stop)
        entry += 1


class PendingNames(NamedTuple):
    """Feature names of a row that have been read, but not yet hashed and looked up in the name set.

    Looking up many names at a time is faster, because the memory accesses of the lookups overlap.
    """

    prefix: NDArray[np.uint8]  # the current namespace and a caret
    text: NDArray[np.uint8]  # names end to end
    stops: NDArray[np.int64]  # where each name ends
    unknown: NDArray[np.int64]
    used: NDArray[np.int64]  # [COUNT] names, [BYTES] of text


_BATCH = 256


def new_batch() -> PendingNames:
    """Return an empty batch of pending names, with room for the longest name."""
    return PendingNames(
        prefix=np.zeros(LONGEST_NAME + 1 + SLACK, np.uint8),
        text=np.zeros(2 * LONGEST_NAME + 1 + SLACK, np.uint8),
        stops=np.zeros(_BATCH, np.int64),
        unknown=np.zeros(_BATCH, np.int64),
        used=np.zeros(2, np.int64),
    )


@inlined
def _has_room(batch, length):
    return batch.used[COUNT] < len(batch.stops) and batch.used[BYTES] + length <= len(batch.text)


@inlined
def _add_to_batch(batch, prefix, text, start, stop):
    used, count = batch.used[BYTES], batch.used[COUNT]
    copy_text(batch.prefix, 0, prefix, batch.text, used)
    copy_text(text, start, stop, batch.text, used + prefix)
    batch.stops[count] = used + prefix + stop - start
    batch.used[BYTES] = used + prefix + stop - start
    batch.used[COUNT] = count + 1


@inlined
def _close_batch(batch, stop, ids, names):
    """Hash the pending names, write their ids before ``ids[stop]``, and return False if the name set has no room."""
    count = batch.used[COUNT]
    begin = 0
    for i in range(count):
        ids[stop - count + i] = feature_id(batch.text, begin, batch.stops[i])
        begin = batch.stops[i]
    batch.used[:] = 0
    return remember_all(names, ids, stop - count, batch.text, batch.stops, count, batch.unknown)


@warms
def _warm() -> None:
    text = np.frombuffer(bytearray(b"1 2 'tag|ns a:1 b\n"), np.uint8)  # writable, as windows are
    parse_vw(text, False, new_row_arrays(2, 4), new_name_set(2, 8), new_name_set(4, 64), new_batch(), new_structure())
