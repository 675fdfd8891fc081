"""Kernels: the moments of the columns of a block, whose rows belong to groups.

Values x are taken relative to an `origin` of every column, so that a column far from 0 loses no digits. For groups g of
n_g rows (`count`), the kernels write

    mean[g] = Σ x / n_g        within = Σ_g Σ (x − mean[g])²        cross = Σ (x − mean) y

The mean is computed before deviations are squared. For a target of numbers there is one group, and y is the target
minus its mean. For a target of classes the groups are the classes, y is empty, and `cross` is not written. Long columns
are summed in runs of rows, so that rounding errors hardly grow with the number of rows.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import kernel, summing, warms

_RUN = 4096  # rows
_WIDTH = 1024  # columns of a block of rows, whose sums fit in the processor's cache


@summing
def column_moments(X, origin, groups, count, y, mean, within, cross):
    """Write the moments of columns that are contiguous in memory. `mean`, `within` and `cross` must be 0."""
    n = len(X)
    for j in range(X.shape[1]):
        at = origin[j]
        for start in range(0, n, _RUN):
            if len(count) <= 2:
                total, second = 0.0, 0.0
                for i in range(start, min(n, start + _RUN)):
                    total += X[i, j] - at
                    second += groups[i] * (X[i, j] - at)
                mean[0, j] += total - second
                mean[len(count) - 1, j] += second
            else:
                for i in range(start, min(n, start + _RUN)):
                    mean[groups[i], j] += X[i, j] - at
        for g in range(len(count)):
            mean[g, j] /= max(count[g], 1.0)
        step = mean[len(count) - 1, j] - mean[0, j]
        for start in range(0, n, _RUN):
            total, product = 0.0, 0.0
            if len(y):
                for i in range(start, min(n, start + _RUN)):
                    d = (X[i, j] - at) - mean[0, j]
                    total += d * d
                    product += d * y[i]
                cross[j] += product
            elif len(count) <= 2:
                for i in range(start, min(n, start + _RUN)):
                    d = (X[i, j] - at) - (mean[0, j] + groups[i] * step)
                    total += d * d
            else:
                for i in range(start, min(n, start + _RUN)):
                    d = (X[i, j] - at) - mean[groups[i], j]
                    total += d * d
            within[j] += total


@kernel
def row_moments(X, origin, groups, count, y, mean, within, cross):
    """Write the moments of columns, where rows are contiguous in memory. `mean`, `within` and `cross` must be 0."""
    for left in range(0, X.shape[1], _WIDTH):
        right = min(X.shape[1], left + _WIDTH)
        for i in range(len(X)):
            of_group = mean[groups[i]]
            for j in range(left, right):
                of_group[j] += X[i, j] - origin[j]
        for g in range(len(count)):
            for j in range(left, right):
                mean[g, j] /= max(count[g], 1.0)
        for i in range(len(X)):
            of_group = mean[groups[i]]
            for j in range(left, right):
                d = (X[i, j] - origin[j]) - of_group[j]
                within[j] += d * d
            if len(y):
                for j in range(left, right):
                    cross[j] += ((X[i, j] - origin[j]) - of_group[j]) * y[i]


@kernel
def sparse_moments(indptr, rows, values, groups, count, y, mean, within, cross):
    """Write the moments of sparse columns, with 0 as the origin. `mean`, `within` and `cross` must be 0."""
    entries = np.zeros(len(count))
    for j in range(len(indptr) - 1):
        entries[:] = 0.0
        for e in range(indptr[j], indptr[j + 1]):
            g = groups[rows[e]]
            mean[g, j] += values[e]
            entries[g] += 1.0
        for g in range(len(count)):
            mean[g, j] /= max(count[g], 1.0)
            within[j] += (count[g] - entries[g]) * mean[g, j] * mean[g, j]
        for e in range(indptr[j], indptr[j + 1]):
            d = values[e] - mean[groups[rows[e]], j]
            within[j] += d * d
            if len(y):
                cross[j] += (d + mean[0, j]) * y[rows[e]]  # the zeros of a column contribute -mean · y


@warms
def _warm_up() -> None:
    groups, count, none, two = np.zeros(2, np.int32), np.full(1, 2.0), np.empty(0), np.zeros(2)
    for dtype in (np.float32, np.float64):
        C, F = np.ones((2, 2), dtype), np.ones((2, 2), dtype, order="F")
        values, indptr, rows = np.ones(2, dtype), np.arange(3), np.zeros(2, np.uint32)
        for array in (C, F, values, indptr, rows, groups):
            array.flags.writeable = False
        for y, cross in ((none, none), (two, two.copy())):
            column_moments(F, two, groups, count, y, np.zeros((1, 2)), two.copy(), cross)
            row_moments(C, two, groups, count, y, np.zeros((1, 2)), two.copy(), cross)
            sparse_moments(indptr, rows, values, groups, count, y, np.zeros((1, 2)), two.copy(), cross)
