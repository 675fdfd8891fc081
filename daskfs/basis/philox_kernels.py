"""Philox4x32-10: random words that are a function of where they are asked for, and of nothing else.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011). Ten rounds of two 32-bit products
turn a counter of four words and a key of two into four random words. There is no state, so any worker can ask for any
word in any order. The arithmetic is that of whole numbers: the words are the same on every machine, for ever.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import inlined

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)  # the golden ratio, √3 − 1
_HALF = np.uint64(32)
_TO_ONE = 1.0 / 4294967296.0


@inlined
def philox(c0, c1, c2, c3, k0, k1):
    """Four random words for a counter of four words and a key of two, all of them uint32."""
    for _ in range(10):
        p0, p1 = _M0 * np.uint64(c0), _M1 * np.uint64(c2)
        c0, c1, c2, c3 = (
            np.uint32(np.uint32(p1 >> _HALF) ^ c1 ^ k0),
            np.uint32(p1),
            np.uint32(np.uint32(p0 >> _HALF) ^ c3 ^ k1),
            np.uint32(p0),
        )
        k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)
    return c0, c1, c2, c3


@inlined
def feature_words(seed, feature, block, stream):
    """Four random words of a feature: key = the 64-bit seed; counter = the 64-bit id, a block number, a stream."""
    return philox(
        np.uint32(feature), np.uint32(feature >> _HALF), np.uint32(block), np.uint32(stream),
        np.uint32(seed), np.uint32(seed >> _HALF),
    )  # fmt: skip


@inlined
def uniform(word):
    """A number strictly between 0 and 1, exact in float64: the middle of one of 2³² equal parts."""
    return (np.float64(word) + 0.5) * _TO_ONE
