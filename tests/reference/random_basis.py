"""Random features in plain Python and float64: whole numbers without a limit, one number at a time."""

from __future__ import annotations

import math

import numpy as np

WORD = 2**32


def philox(counter, key):
    """Philox4x32-10, from the paper's figure."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second // WORD ^ b ^ k, second % WORD, first // WORD ^ d ^ m, first % WORD
        k, m = (k + 0x9E3779B9) % WORD, (m + 0xBB67AE85) % WORD
    return a, b, c, d


def uniforms(feature, stream, count, seed):
    numbers = []
    for block in range(-(-count // 4)):
        words = philox((feature % WORD, feature // WORD, block, stream), (seed % WORD, seed // WORD))
        numbers += [(word + 0.5) / WORD for word in words]
    return numbers


def feature(number, d, seed, kernel, gamma):
    """ω and b of a feature, angles in radians."""
    u = uniforms(number, 0, d, seed)
    phase = uniforms(number, 1, 1, seed)[0] - 0.5
    if kernel == "laplacian":
        return gamma * np.array([-1 / math.tan(math.pi * x) for x in u[:d]]), 2 * math.pi * phase
    normal = []
    for x, y in zip(u[::2], u[1::2], strict=True):
        radius = math.sqrt(-2 * math.log(x))
        normal += [radius * math.cos(2 * math.pi * y), radius * math.sin(2 * math.pi * y)]
    omega = np.array(normal[:d])
    if kernel == "gaussian":
        return math.sqrt(2 * gamma) * omega, 2 * math.pi * phase
    return omega / math.sqrt(omega @ omega), 2 * phase / gamma


def expansion(X, W, b, kernel):
    """Features of rows in float64, for W and b as `directions` gives them, in turns."""
    u = X.astype(np.float64) @ W.T.astype(np.float64)
    if kernel == "perceptron":
        return np.where(u - b >= 0, 1.0, -1.0)
    return math.sqrt(2) * np.cos(2 * math.pi * (u + b))


def columns_of(number, d, seed, q):
    """The q distinct columns of a feature: words of the third stream, each scaled to 0 … d-1, repetitions left out."""
    columns, block = [], 0
    while len(columns) < q:
        words = philox((number % WORD, number // WORD, block, 2), (seed % WORD, seed // WORD))
        columns += [word * d // WORD for word in words]
        columns, block = list(dict.fromkeys(columns)), block + 1
    return columns[:q]


def feature_of_few(number, d, seed, kernel, gamma, q):
    """ω and b of a feature that is a function of q of d columns, and is as fine as one of all columns."""
    finer = math.sqrt(d / q) if kernel == "perceptron" else d / q
    few, phase = feature(number, q, seed, kernel, gamma * finer)
    omega = np.zeros(d)
    omega[columns_of(number, d, seed, q)] = few
    return omega, phase
