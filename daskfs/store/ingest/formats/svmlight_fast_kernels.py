"""The fast path for svmlight text: features of a line, read between the structural bytes that were found before.

As in `vw_fast_kernels`, ids and values are read from 64-bit words, without a loop over bytes. The fast path gives up on
a line that is wrong or unusual, and `svmlight_kernels` reads that line instead.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import inlined
from daskfs.store.ingest.formats.numbers_kernels import (
    COLON,
    CR,
    HASH,
    LF,
    SPACE,
    TAB,
    read_id_token,
    read_token,
)
from daskfs.store.ingest.formats.structure_kernels import FINE, NOT_UNDERSTOOD, find_structure
from daskfs.store.ingest.rows_kernels import ENTRIES, FULL


@inlined
def find_svmlight_structure(text, start, positions):
    """Find the structural bytes of whole svmlight lines from `start` on, and return the end of the lines."""
    return find_structure(text, start, positions, COLON, HASH)


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
