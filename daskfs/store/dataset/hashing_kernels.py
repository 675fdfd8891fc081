"""xxHash64 of a run of bytes: the hash behind every named feature.

A feature's id is ``xxh64(name, seed=0)`` without its top bit, so anybody can compute the id of a
name with any xxHash library, in any language. https://xxhash.com describes the algorithm.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, inlined, kernel, warms
from daskfs.store.dataset.words_kernels import half_word_at, word_at

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)
ID_MASK = np.uint64(2**63 - 1)


@helper
def _rotate(x, bits):
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@helper
def _round(lane, word):
    return _rotate(lane + word * P2, 31) * P1


@helper
def _merge(h, lane):
    return (h ^ _round(np.uint64(0), lane)) * P1 + P4


@inlined
def _hashed(text, start, stop):
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
        h = _rotate(h ^ _round(np.uint64(0), word_at(text, at)), 27) * P1 + P4
        at += 8
    if at + 4 <= stop:
        h = _rotate(h ^ (half_word_at(text, at) * P1), 23) * P2 + P3
        at += 4
    if start < stop:
        for i in range(3):  # without a branch: how many bytes are left cannot be foreseen
            left = at + i < stop
            byte = np.uint64(text[at + i if left else start])
            h = _rotate(h ^ (byte * P5), 11) * P1 if left else h
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@kernel
def xxh64(text, start, stop):
    """The 64-bit xxHash of ``text[start:stop]``, seed 0."""
    return _hashed(text, start, stop)


@helper
def feature_id(text, start, stop):
    """The feature id of a name: its xxHash64 without the top bit, so 0 … 2^63 - 1."""
    return _hashed(text, start, stop) & ID_MASK


def id_of_name(name: str) -> int:
    """The id under which a string feature is stored.

    >>> id_of_name("user^country=uk")
    7985109080790160335
    """
    text = np.frombuffer(name.encode(), np.uint8)
    return int(xxh64(text, 0, len(text)) & ID_MASK)


@warms
def _warm() -> None:
    id_of_name("warm")
