"""Text eight bytes at a time: a *word* is a uint64, the first byte lowest.

Written out byte by byte, so that bounds checks see every byte; LLVM makes one instruction of it. Positions are
made unsigned for that: numba lets a signed one count from the end, and looks at the sign of each.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, inlined

WORD = 8
SLACK = 2 * WORD
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)


@helper
def word_at(text, at):
    """``text[at:at + 8]``."""
    at, word = np.uint64(at), np.uint64(0)
    for i in range(8):
        word |= np.uint64(text[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@helper
def half_word_at(text, at):
    """``text[at:at + 4]``."""
    at, word = np.uint64(at), np.uint64(0)
    for i in range(4):
        word |= np.uint64(text[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@helper
def put_word(text, at, word):
    """Write ``text[at:at + 8]``."""
    at = np.uint64(at)
    for i in range(8):
        text[at + np.uint64(i)] = np.uint8(word >> np.uint64(8 * i))


@inlined
def copy_text(source, start, stop, target, to):
    """Copy ``source[start:stop]``, in pairs of words where both arrays go on for SLACK bytes.

    What stands in the target behind the copy, up to that, is overwritten.
    """
    if stop + SLACK <= len(source) and to + (stop - start) + SLACK <= len(target):
        for at in range(start, stop, SLACK):
            first, second = word_at(source, at), word_at(source, at + WORD)
            put_word(target, to + at - start, first)
            put_word(target, to + at - start + WORD, second)
    else:
        for at in range(start, stop):
            target[to + at - start] = source[at]


@helper
def bytes_below(word, limit):
    """Marks for `first_marked` on the bytes that are smaller than `limit`, itself at most 128."""
    return (word - _ONES * np.uint64(limit)) & ~word & _HIGH


@helper
def bytes_equal(word, byte):
    """Marks for `first_marked` on the bytes that equal `byte`."""
    return bytes_below(word ^ (_ONES * np.uint64(byte)), 1)


@helper
def first_marked(marks):
    """The number of the first byte with a mark, 8 if there is none.

    Marks behind the first may be wrong, for a borrow goes up.
    """
    marks >>= np.uint64(7)
    return np.int64((((marks - np.uint64(1)) & ~marks & _ONES) * _ONES) >> np.uint64(56))
