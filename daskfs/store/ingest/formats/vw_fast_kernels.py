"""The fast path for Vowpal Wabbit text: features of a line, read between the structural bytes that were found before.

`structure_kernels` finds the positions of white space, colons and bars. Here a name or a value is what lies between two
positions: its hash and its number are computed from 64-bit words, without a loop over bytes. The fast path gives up on
a line that is wrong or unusual, before it has changed anything that lasts, and `vw_kernels` reads that line instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import helper, inlined
from daskfs.store.dataset.hashing_kernels import (
    ID_MASK,
    WORD,
    bytes_equal,
    copy_text,
    feature_id,
    hash_byte,
    hash_end,
    hash_half_word,
    hash_start,
    hash_word,
    put_word,
    word_at,
)
from daskfs.store.dataset.names_kernels import has_no_names, intern, is_far, prefetch_name
from daskfs.store.ingest.formats.numbers_kernels import BAR, COLON, CR, LF, SPACE, TAB, read_long_token, read_token
from daskfs.store.ingest.formats.structure_kernels import FINE, NOT_UNDERSTOOD, WINDOW, find_structure, new_positions
from daskfs.store.ingest.rows_kernels import ENTRIES, FULL, NAMES_FULL

CARET = 94
LONGEST_PREFIX = 32  # bytes of a namespace and a caret that the fast path reads
LONGEST_FULL_NAME = 1 << 12
_SHORT_NAME = 32  # bytes from which on xxHash64 has another form


class Structure(NamedTuple):
    """The structural bytes of some lines, and the names of one row as numbers of structural bytes."""

    positions: NDArray[np.uint32]  # of white space, colons and bars
    name_after: NDArray[np.uint32]  # for each entry of the row, the number of the structural byte before its name
    bar_before: NDArray[np.uint32]  # for each entry of the row, the number of the bar that begins its namespace
    unknown: NDArray[np.uint32]  # entries of the row whose names have to be added
    full_name: NDArray[np.uint8]  # the current namespace, a caret and perhaps a name


def new_structure(window_bytes: int = WINDOW) -> Structure:
    """Return arrays for the structure of lines within `window_bytes` bytes (0 for none: there is no fast path)."""
    return Structure(
        positions=new_positions(window_bytes),
        name_after=np.zeros(window_bytes, np.uint32),
        bar_before=np.zeros(window_bytes, np.uint32),
        unknown=np.zeros(window_bytes, np.uint32),
        full_name=np.zeros(LONGEST_FULL_NAME + 2 * LONGEST_PREFIX, np.uint8),
    )


@inlined
def find_vw_structure(text, start, structure):
    """Find the structural bytes of whole VW lines from `start` on, and return the end of the lines."""
    return find_structure(text, start, structure.positions, COLON, BAR)


@inlined
def read_structured_namespaces(text, at, out, names, structure):
    """Read the features of a line from the bar at ``positions[at]`` on, and add their names to the set of names.

    Return the new number of entries, the number of the structural byte that ends the line, and FINE, FULL, NAMES_FULL
    or NOT_UNDERSTOOD.
    """
    positions, keeps_names = structure.positions, not has_no_names(names)
    entry = first = out.progress[ENTRIES]
    bar, scale, prefix, carry = at, 1.0, 0, np.uint64(0)
    here = np.int64(positions[at])
    while True:
        byte = text[here]
        if byte != SPACE:
            if byte == LF:
                break
            if byte == BAR:
                bar = at
                at, scale, prefix, carry, fine = _read_namespace(text, at, structure)
                if not fine:
                    return entry, at, NOT_UNDERSTOOD
                here = np.int64(positions[at])
                continue
            if byte != TAB and not (byte == CR and text[here + 1] == LF):  # a control character, or a second colon
                return entry, at, NOT_UNDERSTOOD
        stop = np.int64(positions[at + 1])
        has_value = text[stop] == COLON
        if stop == here + 1 and not has_value:
            at, here = at + 1, stop
            continue
        value, fine, following = 1.0, True, at + 1
        if has_value:
            following = at + 2
            value, fine = read_token(text, stop + 1, np.int64(positions[following]))
        value *= scale
        if not fine or not np.isfinite(np.float32(value)):
            return entry, at, NOT_UNDERSTOOD
        if entry == len(out.ids):
            return entry, at, FULL
        start = here + 1
        if prefix + stop - start < _SHORT_NAME:
            feature = _short_feature_id(text, start, stop, structure.full_name, prefix, carry)
        elif prefix + stop - start <= LONGEST_FULL_NAME:
            feature = _long_feature_id(text, start, stop, structure.full_name, prefix)
        else:
            return entry, at, NOT_UNDERSTOOD
        if keeps_names:
            prefetch_name(names, feature)
            structure.name_after[entry - first] = at
            structure.bar_before[entry - first] = bar
        out.ids[entry] = feature
        out.values[entry] = value
        entry += 1
        at = following
        here = np.int64(positions[at])
    return entry, at, FINE if _remember_row(text, names, out.ids, first, entry, structure) else NAMES_FULL


@inlined
def _read_namespace(text, at, structure):
    """Copy the namespace after the bar at ``positions[at]``, and a caret if it is not empty, into ``full_name``.

    Return the number of the structural byte after the namespace, its scale, the length of its prefix, the bytes of the
    prefix after its last whole 64-bit word, and False if the namespace is not understood.
    """
    start, stop = np.int64(structure.positions[at]) + 1, np.int64(structure.positions[at + 1])
    at += 1
    length = stop - start
    scale, fine = 1.0, length < LONGEST_PREFIX
    if text[stop] == COLON:
        at += 1
        scale, is_number = read_long_token(text, stop + 1, np.int64(structure.positions[at]))
        fine &= is_number
    if length == 0 or not fine:
        return at, scale, 0, np.uint64(0), fine
    if length < WORD:
        bits = np.uint64(8 * length)
        carry = word_at(text, start) & ((np.uint64(1) << bits) - np.uint64(1))
        fine = bytes_equal(carry, CARET) == 0
        carry |= np.uint64(CARET) << bits
        put_word(structure.full_name, 0, carry)
        length += 1
        return at, scale, length, carry if length < WORD else np.uint64(0), fine
    copy_text(text, start, stop, structure.full_name, 0)
    for i in range(length):
        fine &= structure.full_name[i] != CARET
    structure.full_name[length] = CARET
    length += 1
    rest = np.uint64(8 * (length % WORD))
    carry = word_at(structure.full_name, length - length % WORD) & ((np.uint64(1) << rest) - np.uint64(1))
    return at, scale, length, carry, fine


@inlined
def _short_feature_id(text, start, stop, full_name, prefix, carry):
    """Return the feature id of a prefix and ``text[start:stop]``, together less than 32 bytes, without copying text."""
    length = prefix + stop - start
    h, done = hash_start(length), 0
    while done + WORD <= prefix:
        h = hash_word(h, word_at(full_name, done))
        done += WORD
    word = carry | word_at(text, start) << np.uint64(8 * (prefix - done))
    while done + 2 * WORD <= length:
        h = hash_word(h, word)
        done += WORD
        word = word_at(text, start + done - prefix)
    # The rest is less than 16 bytes long. It has no branches, because lengths of names are unpredictable.
    rest = length - done
    has_word, last_word = rest >= WORD, word_at(text, stop - rest + WORD)
    h = hash_word(h, word) if has_word else h
    word = last_word if has_word else word
    rest = rest & (WORD - 1)
    has_half = rest >= 4
    h = hash_half_word(h, word & np.uint64(0xFFFFFFFF)) if has_half else h
    word = word >> np.uint64(32) if has_half else word
    rest = rest & 3
    for i in range(3):
        h = hash_byte(h, word & np.uint64(255)) if i < rest else h
        word >>= np.uint64(8)
    return hash_end(h) & ID_MASK


@helper
def _long_feature_id(text, start, stop, full_name, prefix):
    """Return the feature id of a prefix and ``text[start:stop]``, of any length up to LONGEST_FULL_NAME."""
    copy_text(text, start, stop, full_name, prefix)
    return feature_id(full_name, 0, prefix + stop - start)


@inlined
def _remember_row(text, names, ids, first, stop, structure):
    """Add the names of a row to the set of names, and return False if the set has no room."""
    if has_no_names(names):
        return True
    left = 0
    for i in range(stop - first):
        structure.unknown[left] = i
        left += is_far(names, ids[first + i])
    for i in range(left):
        entry = np.int64(structure.unknown[i])
        if not _remember_name(text, names, ids[first + entry], entry, structure):
            return False
    return True


@inlined
def _remember_name(text, names, feature, entry, structure):
    """Add the name of an entry of a row to the set of names, and return False if the set has no room."""
    positions, full_name = structure.positions, structure.full_name
    bar, before = structure.bar_before[entry], structure.name_after[entry]
    start, stop = np.int64(positions[bar]) + 1, np.int64(positions[bar + 1])
    prefix = stop - start
    copy_text(text, start, stop, full_name, 0)
    if prefix > 0:
        full_name[prefix] = CARET
        prefix += 1
    start, stop = np.int64(positions[before]) + 1, np.int64(positions[before + 1])
    copy_text(text, start, stop, full_name, prefix)
    return intern(names, feature, full_name, 0, prefix + stop - start) >= 0
