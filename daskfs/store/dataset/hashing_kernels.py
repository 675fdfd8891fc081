"""The hash function of feature names, xxHash64, and functions that read text eight bytes at a time.

The id of a named feature is ``xxh64(name, seed=0)`` without its top bit, so that any xxHash library in any language can
compute the id. The algorithm xxHash64 is described at https://xxhash.com.

A *64-bit word* is a uint64 made of eight bytes of text, the first byte lowest. A 64-bit word is assembled byte by byte,
so that bounds checks see every byte, and LLVM compiles the loop to one instruction. Positions in text are converted to
unsigned integers, because numba tests the sign of every signed index.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, inlined, kernel, warms

WORD = 8
SLACK = 2 * WORD
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)
ID_MASK = np.uint64(2**63 - 1)


@helper
def word_at(text, at):
    """Return the eight bytes ``text[at:at + 8]`` as a uint64, the first byte lowest."""
    at, word = np.uint64(at), np.uint64(0)
    for i in range(8):
        word |= np.uint64(text[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@helper
def half_word_at(text, at):
    """Return the four bytes ``text[at:at + 4]`` as a uint64, the first byte lowest."""
    at, word = np.uint64(at), np.uint64(0)
    for i in range(4):
        word |= np.uint64(text[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@helper
def put_word(text, at, word):
    """Write the eight bytes of a uint64 to ``text[at:at + 8]``, the lowest byte first."""
    at = np.uint64(at)
    for i in range(8):
        text[at + np.uint64(i)] = np.uint8(word >> np.uint64(8 * i))


@inlined
def copy_text(source, start, stop, target, to):
    """Copy ``source[start:stop]``, 16 bytes at a time where SLACK bytes follow the text in both arrays.

    Up to SLACK bytes after the copied text are overwritten in the target.
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
    """Return a uint64 that marks the bytes of a 64-bit word below `limit` (at most 128), for `first_marked`."""
    return (word - _ONES * np.uint64(limit)) & ~word & _HIGH


@helper
def bytes_equal(word, byte):
    """Return a 64-bit word with a mark, for `first_marked`, in every byte where `word` has `byte`."""
    return bytes_below(word ^ (_ONES * np.uint64(byte)), 1)


@helper
def first_marked(marks):
    """Return the position of the first byte marked by `bytes_below`, or 8 if no byte is marked.

    Marks after the first mark may be wrong, because the subtraction in `bytes_below` borrows from higher bytes.
    """
    marks >>= np.uint64(7)
    return np.int64((((marks - np.uint64(1)) & ~marks & _ONES) * _ONES) >> np.uint64(56))


@helper
def _rotate(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@helper
def _round(accumulator, word):
    return _rotate(accumulator + word * P2, 31) * P1


@helper
def _merge(h, accumulator):
    return (h ^ _round(np.uint64(0), accumulator)) * P1 + P4


@helper
def hash_start(length):
    """Return the first state of xxHash64 for a text of `length` bytes, less than 32."""
    return P5 + np.uint64(length)


@helper
def hash_word(h, word):
    """Return the state of xxHash64 after the eight bytes of a 64-bit word."""
    return _rotate(h ^ _round(np.uint64(0), word), 27) * P1 + P4


@helper
def hash_half_word(h, half):
    """Return the state of xxHash64 after the four bytes of a uint64 below 2^32."""
    return _rotate(h ^ (half * P1), 23) * P2 + P3


@helper
def hash_byte(h, byte):
    """Return the state of xxHash64 after one byte, given as a uint64."""
    return _rotate(h ^ (byte * P5), 11) * P1


@helper
def hash_end(h):
    """Return the xxHash64 that belongs to the state after the last byte."""
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@inlined
def _xxh64(text, start, stop):
    at = start
    if stop - start >= 32:
        a, b, c, d = P1 + P2, P2, np.uint64(0), np.uint64(0) - P1
        while at + 32 <= stop:
            a = _round(a, word_at(text, at))
            b = _round(b, word_at(text, at + 8))
            c = _round(c, word_at(text, at + 16))
            d = _round(d, word_at(text, at + 24))
            at += 32
        h = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        h = _merge(_merge(_merge(_merge(h, a), b), c), d)
    else:
        h = P5
    h += np.uint64(stop - start)
    while at + 8 <= stop:
        h = hash_word(h, word_at(text, at))
        at += 8
    if at + 4 <= stop:
        h = hash_half_word(h, half_word_at(text, at))
        at += 4
    if start < stop:
        for i in range(3):  # without a branch, because the number of remaining bytes is unpredictable
            left = at + i < stop
            byte = np.uint64(text[at + i if left else start])
            h = hash_byte(h, byte) if left else h
    return hash_end(h)


@kernel
def xxh64(text, start, stop):
    """Return the 64-bit xxHash of ``text[start:stop]`` with seed 0."""
    return _xxh64(text, start, stop)


@helper
def feature_id(text, start, stop):
    """Return the feature id of the name ``text[start:stop]``, which is its xxHash64 without the top bit."""
    return _xxh64(text, start, stop) & ID_MASK


def id_of_name(name: str) -> int:
    """Return the feature id under which a feature with this name is stored.

    >>> id_of_name("user^country=uk")
    7985109080790160335
    """
    text = np.frombuffer(name.encode(), np.uint8)
    return int(xxh64(text, 0, len(text)) & ID_MASK)


@warms
def _warm() -> None:
    id_of_name("warm")
