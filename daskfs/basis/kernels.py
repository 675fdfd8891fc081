"""Kernels that draw Philox random words and random directions, and compute the cosine or sign of a product.

Philox4x32-10 is a counter-based generator of random numbers (Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
as easy as 1, 2, 3", SC 2011). Ten rounds of two 32-bit products turn a counter of four 32-bit words and a key of two
into four random 32-bit words. The generator has no state, so any worker can ask for any random word in any order.
Philox computes with integers only, so that the random words are the same on every machine and in every version.

Symbols are the paper's: ω (a row of W) is the direction of a feature, b its phase, Φ the features of a tile of rows.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.jit import inlined, kernel, warms

NORMAL, CAUCHY, SPHERE = 0, 1, 2
_DIRECTION, _PHASE, _INPUTS = 0, 1, 2  # streams of random words; a word is used once
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)  # the golden ratio, √3 − 1
_WORD_BITS = np.uint64(32)
_TO_ONE = 1.0 / 4294967296.0
_HALF, _QUARTER = np.float32(0.5), np.float32(0.25)
# √2 sin(2πt) = t (S0 + S1 t² + …) for |t| ≤ ¼, interpolated at Chebyshev points in t²: the error is below 1e-8.
_S0, _S1, _S2 = np.float32(8.88576584), np.float32(-58.46596541), np.float32(115.4033288)
_S3, _S4 = np.float32(-108.30213297), np.float32(56.22888669)


@inlined
def philox(c0, c1, c2, c3, k0, k1):
    """Return four random uint32 words for a counter of four uint32 words and a key of two."""
    for _ in range(10):
        p0, p1 = _M0 * np.uint64(c0), _M1 * np.uint64(c2)
        c0, c1, c2, c3 = (
            np.uint32(np.uint32(p1 >> _WORD_BITS) ^ c1 ^ k0),
            np.uint32(p1),
            np.uint32(np.uint32(p0 >> _WORD_BITS) ^ c3 ^ k1),
            np.uint32(p0),
        )
        k0, k1 = np.uint32(k0 + _W0), np.uint32(k1 + _W1)
    return c0, c1, c2, c3


@inlined
def feature_words(seed, feature, block, stream):
    """Return four random words of a feature, with the seed as key and a counter of feature id, block and stream."""
    return philox(
        np.uint32(feature), np.uint32(feature >> _WORD_BITS), np.uint32(block), np.uint32(stream),
        np.uint32(seed), np.uint32(seed >> _WORD_BITS),
    )  # fmt: skip


@inlined
def uniform(word):
    """Return the middle of one of 2³² equal parts of (0, 1), which is exact in float64, for a 32-bit random word."""
    return (np.float64(word) + 0.5) * _TO_ONE


@inlined
def two_normals(first, second):
    """Return two independent standard normal numbers from two random 32-bit words by the method of Box and Muller."""
    radius = math.sqrt(-2.0 * math.log(uniform(first)))
    angle = 2.0 * math.pi * uniform(second)
    return radius * math.cos(angle), radius * math.sin(angle)


@inlined
def cauchy(word):
    """Return the Cauchy number tan π(u − ½) for u = `uniform(word)`, without loss of digits near the poles."""
    from_middle = uniform(word) - 0.5
    if abs(from_middle) <= 0.25:
        return math.tan(math.pi * from_middle)
    return math.copysign(1.0 / math.tan(math.pi * (0.5 - abs(from_middle))), from_middle)


@kernel
def draw(ids, seed, law, scale, spread, W, b):
    """Write `scale` times a draw of `law` into the rows of W, and numbers uniform within ± `spread` / 2 into b."""
    d = W.shape[1]
    omega = np.empty(4 * ((d + 3) // 4))
    for a in range(len(ids)):
        for block in range(len(omega) // 4):
            u0, u1, u2, u3 = feature_words(seed, ids[a], block, _DIRECTION)
            at = 4 * block
            if law == CAUCHY:
                omega[at], omega[at + 1], omega[at + 2], omega[at + 3] = cauchy(u0), cauchy(u1), cauchy(u2), cauchy(u3)
            else:
                omega[at], omega[at + 1] = two_normals(u0, u1)
                omega[at + 2], omega[at + 3] = two_normals(u2, u3)
        factor = scale
        if law == SPHERE:
            square = 0.0
            for j in range(d):
                square += omega[j] * omega[j]
            factor = scale / math.sqrt(square)
        for j in range(d):
            W[a, j] = factor * omega[j]
        u0, u1, u2, u3 = feature_words(seed, ids[a], 0, _PHASE)
        b[a] = spread * (uniform(u0) - 0.5)


@kernel
def choose_inputs(ids, seed, d, inputs):
    """Write distinct random columns below d into every row of `inputs`, all sets of columns being equally likely."""
    for a in range(len(ids)):
        chosen, block = 0, 0
        while chosen < inputs.shape[1]:
            for word in feature_words(seed, ids[a], block, _INPUTS):
                column = np.int64((np.uint64(word) * np.uint64(d)) >> _WORD_BITS)
                is_new = chosen < inputs.shape[1]
                for at in range(chosen):
                    is_new = is_new and inputs[a, at] != column
                if is_new:
                    inputs[a, chosen] = column
                    chosen += 1
            block += 1


@kernel
def cosines(Z, b):
    """Replace every z by √2 cos 2π(z + b), for phases |b| ≤ ½.

    Subtracting from z the nearest integer, a number of whole periods, is exact in float32. With the remainder r of z,
    the cosine is the sine of t = ||r + b| − ½| − ¼ turns. The function is no `summing` kernel, whose reordered sums
    would undo the exact steps (errors of 1e-4 were measured). Products and sums are not fused, which would be a tenth
    faster, so that results have the same bits on every processor.
    """
    for i in range(Z.shape[0]):
        row = Z[i]
        for j in range(len(row)):
            z = row[j]
            t = abs(abs((z - np.rint(z)) + b[j]) - _HALF) - _QUARTER
            s = t * t
            row[j] = t * (_S0 + s * (_S1 + s * (_S2 + s * (_S3 + s * _S4))))


@kernel
def signs(Z, b):
    """Replace every z by +1 where z ≥ b and by −1 where z < b, and leave NaN as NaN."""
    for i in range(Z.shape[0]):
        row = Z[i]
        for j in range(len(row)):
            z = row[j] - b[j]
            row[j] = np.float32(1) if z >= 0 else (np.float32(-1) if z < 0 else z)


@warms
def _warm_up() -> None:
    Phi, b, ids = np.ones((2, 2), np.float32), np.zeros(2, np.float32), np.arange(2, dtype=np.uint64)
    phases = b.copy()
    for array in (ids, phases):
        array.flags.writeable = False
    draw(ids, np.uint64(0), NORMAL, 1.0, 1.0, Phi, b)
    choose_inputs(ids, np.uint64(0), 3, np.zeros((2, 2), np.int64))
    cosines(Phi, phases)
    signs(Phi, phases)
