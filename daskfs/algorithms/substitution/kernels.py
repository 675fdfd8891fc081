"""Numba kernels of Online Substitution: column sums, pruning by exact loss, and the gradient steps of the paper.

Symbols are the paper's: selected set S of columns, weights w, scores u = X_S w_S, and residuals r of all rows.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import kernel, summing, summing_helper, warms

N_SUMS = 5
FREE, EXCLUDED = -1, -2  # in place of the slot of a column that has none, or may have none
_TILE = 2048  # rows summed in the data's own precision before they are added up in float64


@summing
def sweep(X, r, h, sums):
    """Compute Σz, Σz², Σrz, Σhz, Σhz² of every column x for residuals r and curvatures h, where z = x − x[0].

    Two columns are read at a time, because reading a single column does not use the whole memory bandwidth.
    """
    n, b = X.shape
    for j in range(0, b, 2):
        k = min(j + 1, b - 1)
        sums[j], sums[k] = 0.0, 0.0
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            of_j, of_k = two_tile_sums(
                X[start:stop, j], X[start:stop, k], X[0, j], X[0, k], r[start:stop], h[start:stop]
            )
            for which in range(N_SUMS):
                sums[j, which] += of_j[which]
                if k != j:
                    sums[k, which] += of_k[which]


@summing_helper
def two_tile_sums(x, y, x_shift, y_shift, r, h):
    """Return the sums over rows of z, z², r·z, h·z and h·z², for two columns x and y with z = x − x_shift and so on."""
    x0 = x1 = x2 = x3 = x4 = y0 = y1 = y2 = y3 = y4 = x.dtype.type(0)
    for i in range(len(r)):
        z = x[i] - x_shift
        hz = h[i] * z
        x0 += z
        x1 += z * z
        x2 += r[i] * z
        x3 += hz
        x4 += hz * z
        z = y[i] - y_shift
        hz = h[i] * z
        y0 += z
        y1 += z * z
        y2 += r[i] * z
        y3 += hz
        y4 += hz * z
    return (x0, x1, x2, x3, x4), (y0, y1, y2, y3, y4)


@summing
def sweep_uniform(X, r, sums):
    """Compute the sums of `sweep` for a curvature h of 1 in all rows, four columns at a time."""
    n, b = X.shape
    for first in range(0, b, 4):
        j = first, min(first + 1, b - 1), min(first + 2, b - 1), min(first + 3, b - 1)
        totals = np.zeros((4, 3))
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            tile = four_uniform_tile_sums(
                (X[start:stop, j[0]], X[start:stop, j[1]], X[start:stop, j[2]], X[start:stop, j[3]]),
                (X[0, j[0]], X[0, j[1]], X[0, j[2]], X[0, j[3]]),
                r[start:stop],
            )
            for which in range(4):
                totals[which, 0] += tile[which][0]
                totals[which, 1] += tile[which][1]
                totals[which, 2] += tile[which][2]
        for which in range(4):
            sums[j[which], :3] = totals[which]
            sums[j[which], 3:] = totals[which, :2]


@summing_helper
def four_uniform_tile_sums(columns, shifts, r):
    """Return Σz, Σz², Σrz over some rows for four columns, where z is a shifted column, in the data's precision."""
    a, b, c, d = columns
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = d0 = d1 = d2 = a.dtype.type(0)
    for i in range(len(r)):
        z = a[i] - shifts[0]
        a0 += z
        a1 += z * z
        a2 += r[i] * z
        z = b[i] - shifts[1]
        b0 += z
        b1 += z * z
        b2 += r[i] * z
        z = c[i] - shifts[2]
        c0 += z
        c1 += z * z
        c2 += r[i] * z
        z = d[i] - shifts[3]
        d0 += z
        d1 += z * z
        d2 += r[i] * z
    return (a0, a1, a2), (b0, b1, b2), (c0, c1, c2), (d0, d1, d2)


@summing
def several_products(X, r, out):
    """Compute the products Σ r z of every column x with each of several residuals r (scores, n), where z = x − x[0]."""
    n, b = X.shape
    last = len(r) - 1
    out[:] = 0.0
    for first in range(0, b, 4):
        j = first, min(first + 1, b - 1), min(first + 2, b - 1), min(first + 3, b - 1)
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            columns = X[start:stop, j[0]], X[start:stop, j[1]], X[start:stop, j[2]], X[start:stop, j[3]]
            shifts = X[0, j[0]], X[0, j[1]], X[0, j[2]], X[0, j[3]]
            for c in range(0, len(r), 4):
                d, e, f = min(c + 1, last), min(c + 2, last), min(c + 3, last)
                tile = four_by_four_products(
                    columns, shifts, (r[c, start:stop], r[d, start:stop], r[e, start:stop], r[f, start:stop])
                )
                for which in range(min(4, b - first)):
                    for score in range(min(4, len(r) - c)):
                        out[c + score, first + which] += tile[which][score]


@summing_helper
def four_by_four_products(columns, shifts, residuals):
    """Return Σ r z over some rows for four shifted columns z with each of four residuals r, in the data's precision."""
    a, b, c, d = columns
    p, q, r, s = residuals
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = a.dtype.type(0)
    for i in range(len(a)):
        z = a[i] - shifts[0]
        a0 += p[i] * z
        a1 += q[i] * z
        a2 += r[i] * z
        a3 += s[i] * z
        z = b[i] - shifts[1]
        b0 += p[i] * z
        b1 += q[i] * z
        b2 += r[i] * z
        b3 += s[i] * z
        z = c[i] - shifts[2]
        c0 += p[i] * z
        c1 += q[i] * z
        c2 += r[i] * z
        c3 += s[i] * z
        z = d[i] - shifts[3]
        d0 += p[i] * z
        d1 += q[i] * z
        d2 += r[i] * z
        d3 += s[i] * z
    return (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3)


@summing
def several_sweeps(X, r, h, sums):
    """Compute the sums of `sweep` for several residuals r and curvatures h (sets, n), four columns at a time."""
    n, b = X.shape
    sums[:] = 0.0
    for first in range(0, b, 4):
        j = first, min(first + 1, b - 1), min(first + 2, b - 1), min(first + 3, b - 1)
        for start in range(0, n, _TILE):
            stop = min(start + _TILE, n)
            columns = X[start:stop, j[0]], X[start:stop, j[1]], X[start:stop, j[2]], X[start:stop, j[3]]
            shifts = X[0, j[0]], X[0, j[1]], X[0, j[2]], X[0, j[3]]
            moments = four_uniform_tile_sums(columns, shifts, r[0, start:stop])
            for c in range(len(r)):
                tile = four_curved_tile_sums(columns, shifts, r[c, start:stop], h[c, start:stop])
                for which in range(min(4, b - first)):
                    sums[c, first + which, 0] += moments[which][0]
                    sums[c, first + which, 1] += moments[which][1]
                    sums[c, first + which, 2] += tile[which][0]
                    sums[c, first + which, 3] += tile[which][1]
                    sums[c, first + which, 4] += tile[which][2]


@summing_helper
def four_curved_tile_sums(columns, shifts, r, h):
    """Return Σrz, Σhz, Σhz² over some rows for four columns, where z is a shifted column, in the data's precision."""
    a, b, c, d = columns
    a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = d0 = d1 = d2 = a.dtype.type(0)
    for i in range(len(r)):
        z = a[i] - shifts[0]
        hz = h[i] * z
        a0 += r[i] * z
        a1 += hz
        a2 += hz * z
        z = b[i] - shifts[1]
        hz = h[i] * z
        b0 += r[i] * z
        b1 += hz
        b2 += hz * z
        z = c[i] - shifts[2]
        hz = h[i] * z
        c0 += r[i] * z
        c1 += hz
        c2 += hz * z
        z = d[i] - shifts[3]
        hz = h[i] * z
        d0 += r[i] * z
        d1 += hz
        d2 += hz * z
    return (a0, a1, a2), (b0, b1, b2), (c0, c1, c2), (d0, d1, d2)


@kernel
def several_products_sparse(indptr, rows, values, r, out):
    """Compute the products Σ r x of sparse columns x with each of several residuals r (n, scores)."""
    for j in range(len(indptr) - 1):
        out[:, j] = 0.0
        for e in range(indptr[j], indptr[j + 1]):
            x, i = np.float64(values[e]), rows[e]
            for c in range(r.shape[1]):
                out[c, j] += r[i, c] * x


@kernel
def weighted_sums_sparse(indptr, rows, values, weights, sums):
    """Compute Σvx and Σvx² of sparse columns x for each of several weights v of rows (n, several).

    Each step adds four entries of a column to all sums, so that arithmetic takes the time, and not reading the sums.
    """
    for j in range(len(indptr) - 1):
        sums[j] = 0.0
        stop = indptr[j + 1]
        for e in range(indptr[j], stop, 4):
            f, g, h = min(e + 1, stop - 1), min(e + 2, stop - 1), min(e + 3, stop - 1)
            i0, i1, i2, i3 = rows[e], rows[f], rows[g], rows[h]
            x0 = np.float64(values[e])
            x1 = np.float64(values[f]) if f > e else 0.0
            x2 = np.float64(values[g]) if g > f else 0.0
            x3 = np.float64(values[h]) if h > g else 0.0
            y0, y1, y2, y3 = x0 * x0, x1 * x1, x2 * x2, x3 * x3
            for c in range(weights.shape[1]):
                v0, v1, v2, v3 = weights[i0, c], weights[i1, c], weights[i2, c], weights[i3, c]
                sums[j, 0, c] += v0 * x0 + v1 * x1 + v2 * x2 + v3 * x3
                sums[j, 1, c] += v0 * y0 + v1 * y1 + v2 * y2 + v3 * y3


@kernel
def sweep_sparse(indptr, rows, values, r, h, sums):
    """Compute the sums of `sweep`, without a shift, over the stored entries of sparse columns."""
    for j in range(len(indptr) - 1):
        s0 = s1 = s2 = s3 = s4 = 0.0
        for e in range(indptr[j], indptr[j + 1]):
            x, i = np.float64(values[e]), rows[e]
            hx = h[i] * x
            s0 += x
            s1 += x * x
            s2 += r[i] * x
            s3 += hx
            s4 += hx * x
        sums[j, 0] = s0
        sums[j, 1] = s1
        sums[j, 2] = s2
        sums[j, 3] = s3
        sums[j, 4] = s4


@summing
def products(X, columns, mean, norm, r, out):
    """Compute the products rᵀx of the residuals r with some columns x, centred and scaled to unit norm."""
    for k in range(len(columns)):
        x = X[:, columns[k]]
        total = 0.0
        for start in range(0, len(x), _TILE):
            stop = min(start + _TILE, len(x))
            total += tile_product(x[start:stop], X.dtype.type(mean[k]), r[start:stop])
        out[k] = total / norm[k]


@summing_helper
def tile_product(x, shift, r):
    """Return Σ r (x − shift) over some rows of a column x with residuals r, in the precision of the data."""
    total = x.dtype.type(0)
    for i in range(len(x)):
        total += r[i] * (x[i] - shift)
    return total


@kernel
def products_sparse(indptr, rows, values, columns, mean, norm, r, out):
    """Compute the products rᵀx of the residuals r with some sparse columns x, centred and scaled to unit norm."""
    r_sum = 0.0
    for i in range(len(r)):
        r_sum += r[i]
    for k in range(len(columns)):
        total = -mean[k] * r_sum
        for e in range(indptr[columns[k]], indptr[columns[k] + 1]):
            total += r[rows[e]] * np.float64(values[e])
        out[k] = total / norm[k]


@kernel
def standardise(X, columns, mean, norm, out):
    """Write some columns, centred and scaled to unit norm, into `out`."""
    for k in range(len(columns)):
        j = columns[k]
        for i in range(X.shape[0]):
            out[i, k] = (X[i, j] - mean[k]) / norm[k]


@kernel
def standardise_sparse(indptr, rows, values, columns, mean, norm, out):
    """Write some sparse columns, centred and scaled to unit norm, as dense columns into `out`."""
    for k in range(len(columns)):
        j = columns[k]
        for i in range(out.shape[0]):
            out[i, k] = -mean[k] / norm[k]
        for e in range(indptr[j], indptr[j + 1]):
            out[rows[e], k] = (values[e] - mean[k]) / norm[k]


@kernel
def prune(inverse, w, fixed, keep):
    """Drop columns until `keep` remain, always the column whose removal raises the loss least.

    Return a mask of the columns that remain, and the dropped columns in order with twice the rise of the loss by each.

    `inverse` is H⁻¹ of the quadratic ½ wᵀHw − cᵀw with its minimum at `w`; without weight i the minimum is higher by ½
    w_i² / (H⁻¹)_ii, summed over the rows of `w`, one for each score. `inverse` and `w` are updated in place. The first
    `fixed` columns are never dropped.
    """
    size = len(inverse)
    alive = np.ones(size, np.bool_)
    dropped, rises = np.empty(size - keep, np.int64), np.empty(size - keep)
    left = size
    while left > keep:
        worst, least = -1, np.inf
        for i in range(fixed, size):
            if alive[i]:
                cost = 0.0
                for c in range(len(w)):
                    cost += w[c, i] * w[c, i]
                cost /= inverse[i, i]
                if cost < least:
                    worst, least = i, cost
        if worst < 0:
            break
        alive[worst] = False
        dropped[size - left], rises[size - left] = worst, least
        left -= 1
        pivot = inverse[worst, worst]
        for a in range(size):
            if alive[a]:
                factor = inverse[a, worst] / pivot
                for c in range(len(w)):
                    w[c, a] -= factor * w[c, worst]
                for b in range(size):
                    inverse[a, b] -= factor * inverse[worst, b]
        for a in range(size):
            inverse[a, worst] = 0.0
            inverse[worst, a] = 0.0
        w[:, worst] = 0.0
    return alive, dropped[: size - left], rises[: size - left]


@summing
def substitute(q, C, cb, step, least_L, slot_of, w, G, c, L, k, budget, cutoff):
    """Run algorithm 1 of the paper for the squared loss, from column q of a batch until a column enters the set S.

    Parameters
    ----------
    q
        The first column that has not been processed.
    C, cb
        X_Sᵀ X_B, with a row for every slot and a column for every column of the batch B, and X_Bᵀ y.
    step, least_L
        Factors of the step length γ = step / max(L, least_L).
    slot_of
        The slot that each column of the batch holds; FREE if none, EXCLUDED if the column is to be skipped.
    w, G, c
        The weights of the slots, X_Sᵀ X_S, X_Sᵀ y.
    L
        The running estimate of λ_max(X_Sᵀ X_S).
    k, budget, cutoff
        The number of slots in use, the number allowed, and the cutoff of `slot_for`.

    Returns
    -------
    The column that enters, its slot and its weight; ``len(cb), FREE, 0`` if no column enters.
    """
    g = np.empty(len(w))
    gamma = step / max(L, least_L)
    while q < len(cb):
        if slot_of[q] != FREE:
            q += 1
            continue
        t = -cb[q]
        for a in range(k):
            t += C[a, q] * w[a]
        for a in range(k):
            gradient = -c[a]
            for b in range(k):
                gradient += G[a, b] * w[b]
            g[a] = gradient
        for a in range(k):
            w[a] -= gamma * g[a]
        w_q = -gamma * t
        slot = slot_for(w_q, w, k, budget, cutoff)
        if slot != FREE:
            return q, slot, w_q
        q += 1
    return q, FREE, 0.0


@kernel
def slot_for(w_q, w, k, budget, cutoff):
    """Return the slot for a column with weight w_q: an empty slot, the slot with the least |w|, or FREE for no slot.

    `cutoff` is the k-th largest |w| of all workers. A worker whose weights are all above `cutoff` may take a slot
    beyond its budget, for which another worker drops a column later. A `cutoff` of infinity enforces the budget.
    """
    if k < budget:
        return k
    slot = 0
    for a in range(1, k):
        if abs(w[a]) < abs(w[slot]):
            slot = a
    if abs(w_q) > cutoff and abs(w[slot]) > cutoff and k < len(w):
        return k
    return slot if abs(w[slot]) < abs(w_q) else FREE


@summing
def power_step(G, v, k, slot, L):
    """Return a new estimate of λ_max(G) after a column was replaced: one power iteration, smoothed if smaller."""
    v[slot] += 0.01
    z = np.empty(k)
    square = 0.0
    for a in range(k):
        t = 0.0
        for b in range(k):
            t += G[a, b] * v[b]
        z[a] = t
        square += t * t
    norm = np.sqrt(square)
    for a in range(k):
        v[a] = z[a] / norm
    L = norm if norm > L else 0.9 * L + 0.1 * norm
    return max(L, G[slot, slot])


@warms
def _warm_up() -> None:
    ones, eye = np.ones(2), np.eye(2)
    for dtype in (np.float32, np.float64):
        X = np.asfortranarray(np.eye(2, dtype=dtype))
        X.flags.writeable = False
        sweep(X, ones.astype(dtype), ones.astype(dtype), np.empty((2, N_SUMS)))
        sweep_uniform(X, ones.astype(dtype), np.empty((2, N_SUMS)))
        standardise(X, np.arange(2), ones, ones, np.empty((2, 2), dtype, order="F"))
        products(X, np.arange(2), ones, ones, ones.astype(dtype), np.empty(2))
        several_products(X, np.ones((2, 2), dtype), np.empty((2, 2)))
        several_sweeps(X, np.ones((2, 2), dtype), np.ones((2, 2), dtype), np.empty((2, 2, N_SUMS)))
    entries = np.arange(2, dtype=np.uint32), np.ones(2, np.float32)
    row = np.ones(2, np.float32)
    sweep_sparse(np.arange(3), *entries, row, row, np.empty((2, N_SUMS)))
    products_sparse(np.arange(3), *entries, np.arange(2), ones, ones, row, np.empty(2))
    several_products_sparse(np.arange(3), *entries, np.ones((2, 2), np.float32), np.empty((2, 2)))
    weighted_sums_sparse(np.arange(3), *entries, np.ones((2, 8), np.float32), np.empty((2, 2, 8)))
    standardise_sparse(np.arange(3), *entries, np.arange(2), ones, ones, np.empty((2, 2), np.float32, order="F"))
    prune(eye.copy(), eye.copy(), 0, 1)
    slots = np.full(2, FREE)
    substitute(0, eye, ones, 0.9, 1.0, slots, ones, eye, ones, 1.0, 1, 1, np.inf)
    slot_for(1.0, ones, 2, 2, np.inf)
    power_step(eye, ones.copy(), 2, 0, 1.0)
