"""Plain feature hashing in the style of MISSION's kernels: what learning costs without a sketch and without names."""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.mission.table_kernels import mix
from daskfs.jit import summing


@summing
def hashed_logistic(indptr, ids, values, y, weights, bits, rate):
    """One pass of logistic regression over rows hashed to 2^bits weights; y is -1 or 1."""
    shift = np.uint64(64 - bits)
    cells = np.empty(np.max(np.diff(indptr)), np.uint32)
    for r in range(len(indptr) - 1):
        a, size = indptr[r], indptr[r + 1] - indptr[r]
        z = np.float32(0)
        for q in range(size):
            cell = mix(ids[a + q]) >> shift
            cells[q] = cell
            z += weights[cell] * values[a + q]
        g = np.float32(rate * y[r] / (1.0 + math.exp(y[r] * z)))
        for q in range(size):
            weights[np.uint64(cells[q])] += g * values[a + q]


@summing
def hashed_softmax(indptr, ids, values, y, weights, bits, rate):
    """The same for several classes: `weights` is (2^bits, classes), y the number of the class."""
    shift, C = np.uint64(64 - bits), weights.shape[1]
    cells = np.empty(np.max(np.diff(indptr)), np.uint32)
    z = np.empty(C, np.float32)
    for r in range(len(indptr) - 1):
        a, size = indptr[r], indptr[r + 1] - indptr[r]
        for c in range(C):
            z[c] = 0
        for q in range(size):
            cell = mix(ids[a + q]) >> shift
            cells[q] = cell
            v = values[a + q]
            for c in range(C):
                z[c] += weights[cell, c] * v
        most, total = z[0], np.float32(0)
        for c in range(1, C):
            most = max(most, z[c])
        for c in range(C):
            z[c] = math.exp(z[c] - most)
            total += z[c]
        for c in range(C):
            z[c] *= -np.float32(rate) / total
        z[np.int64(y[r])] += np.float32(rate)
        for q in range(size):
            cell, v = np.uint64(cells[q]), values[a + q]
            for c in range(C):
                weights[cell, c] += v * z[c]
