"""Kernels of random features: drawing them, the cosine and the sign of what they see.

Symbols are the paper's: ω (a row of W) the direction of a feature, b its phase, Φ the features of a tile of rows.
"""

from __future__ import annotations

import math

import numpy as np

from daskfs.basis.philox_kernels import feature_words, uniform
from daskfs.jit import inlined, kernel, warms

NORMAL, CAUCHY, SPHERE = 0, 1, 2
_DIRECTION, _PHASE = 0, 1  # streams of random words; a word is used once
_HALF, _QUARTER = np.float32(0.5), np.float32(0.25)
# √2 sin(2πt) = t (S0 + S1 t² + …) for |t| ≤ ¼, by interpolation at Chebyshev's points in t²: off by less than 1e-8.
_S0, _S1, _S2 = np.float32(8.88576584), np.float32(-58.46596541), np.float32(115.4033288)
_S3, _S4 = np.float32(-108.30213297), np.float32(56.22888669)


@inlined
def two_normals(first, second):
    """Two independent standard normal numbers from two words, after Box and Muller; none is beyond 6.77."""
    radius = math.sqrt(-2.0 * math.log(uniform(first)))
    angle = 2.0 * math.pi * uniform(second)
    return radius * math.cos(angle), radius * math.sin(angle)


@inlined
def cauchy(word):
    """tan π(u − ½), far out as the reciprocal of a small tangent: near a pole the argument has lost its digits."""
    from_middle = uniform(word) - 0.5
    if abs(from_middle) <= 0.25:
        return math.tan(math.pi * from_middle)
    return math.copysign(1.0 / math.tan(math.pi * (0.5 - abs(from_middle))), from_middle)


@kernel
def draw(ids, seed, law, scale, spread, W, b):
    """Directions `scale` times a draw of `law` into the rows of W, and b uniform within ± `spread` / 2."""
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
def cosines(Z, b):
    """√2 cos 2π(z + b) in place of every z, for phases |b| ≤ ½.

    In turns the period is taken off without any rounding: z less the nearest whole number is exact in float32. What is
    left and b add up to at most one turn, where the cosine is the sine of t, the distance to half a turn less a
    quarter. Not a `summing` kernel: sums in another order undo the exact steps (errors of 1e-4 when that was tried).
    Nor are products and sums fused, a tenth faster, so that a number gives the same bits on every processor.
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
    """+1 where z ≥ b, else −1, in place; what is no number stays none, or it would pass for an answer."""
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
    cosines(Phi, phases)
    signs(Phi, phases)
