"""Helpers of the kernels that learn rows: hashes, scores, residuals, and steps of features in the tables."""

from __future__ import annotations

import math

import numpy as np

from daskfs.algorithms.loss_kernels import value_and_implicit_residual
from daskfs.algorithms.mission.memory_kernels import LOSS, WEIGHT
from daskfs.algorithms.mission.table_kernels import mix
from daskfs.jit import helper, summing_helper

_ONE, _ZERO = np.float32(1), np.float32(0)
_LARGEST = np.finfo(np.float32).max


@helper
def is_finite(x):
    return abs(x) <= _LARGEST


@helper
def weight_of(rows, r):
    return _ONE if len(rows.weight) == 0 else rows.weight[r]


@helper
def damp(v, total, decay):
    """Return value v divided by AdaGrad's factor √(1 + N/β), where N is `total` and 1/β is `decay`."""
    return v / np.float32(math.sqrt(_ONE + total * np.float32(decay)))


@summing_helper
def hash_row(ids, values, first, size, hashes):
    """Write the hashes of a row's features; return the sum of squared values, finite if all values are finite."""
    own, v, square = ids[first : first + size], values[first : first + size], _ZERO  # slices: loops fill registers
    for q in range(size):
        hashes[q] = mix(own[q])
        square += v[q] * v[q]
    return square


@helper
def longest(indptr):
    """Return the number of entries of the longest row."""
    most = 0
    for r in range(len(indptr) - 1):
        most = max(most, indptr[r + 1] - indptr[r])
    return most


@helper
def score_residual(rule, z, y, weight, reach, g, totals):
    """Write the residual of every score of a row into `g`, and add the loss of the row to the totals."""
    C = len(z)
    totals[WEIGHT] += weight
    if C == 1:
        loss, residual = value_and_implicit_residual(rule.loss, z[0], y, rule.rate * weight * reach)
        totals[LOSS] += weight * loss
        g[0] = weight * residual
        return
    most = z[0]
    for c in range(1, C):
        most = max(most, z[c])
    total = _ZERO
    for c in range(C):
        g[c] = np.float32(math.exp(z[c] - most))
        total += g[c]
    right = np.int64(y)
    totals[LOSS] += weight * (math.log(total) - (z[right] - most))
    for c in range(C):
        g[c] *= -weight / total
    g[right] += weight


@helper
def learn_bias(memory, rule, g, gg):
    """Update the weights of the constant feature by a gradient step, where `gg` is the residual's squared norm."""
    b = np.float32(rule.bias_value)
    if b != 0:
        memory.bias_sum[0] += b * b * gg
        step = np.float32(rule.rate) * damp(b, memory.bias_sum[0], rule.decay)
        for c in range(len(g)):
            memory.bias[c] += step * g[c]


@summing_helper
def add_scores(z, weights, t, slot, v):
    """Add value v times a feature's weights in a table to the scores."""
    V = weights.shape[2]
    own, known = z[t * V : (t + 1) * V], weights[t, slot]
    for c in range(V):
        own[c] += v * known[c]


@summing_helper
def add_weights(weights, t, slot, g, step):
    """Add `step` times the residual g to the weights of a feature in a table."""
    V = weights.shape[2]
    own, known = g[t * V : (t + 1) * V], weights[t, slot]
    for c in range(V):
        known[c] += step * own[c]
