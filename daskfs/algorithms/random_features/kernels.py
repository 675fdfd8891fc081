"""Kernels of Sparse Random Features: float64 totals of float32 sums, and the solver of the l1 problem.

The Gram matrix G in the solver is symmetric, so that the solver reads row j for column j. The matrix H is the part of G
that belongs to a working set, and q = Hw − b is the gradient of the quadratic at the weights w. The array S lists the
support (features with a weight), and U is a Cholesky factor with UᵀU = H_SS + δI for a tiny δ.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, summing, summing_helper, warms


@kernel
def add_product(product, first, G):
    """Add a float32 product to the first columns of rows `first`, `first` + 1, … of float64 totals."""
    for i in range(product.shape[0]):
        source, target = product[i], G[first + i]
        for j in range(len(source)):
            target[j] += source[j]


@kernel
def add_square(product, first, column, G):
    """Add the lower triangle of a float32 product to rows `first`, … and columns `column`, … of float64 totals."""
    for i in range(product.shape[0]):
        source, target = product[i], G[first + i, column:]
        for j in range(i + 1):
            target[j] += source[j]


@summing
def add_rows(G, rows, factors, q):
    """Add Σ factors_a G[rows_a] to q, as `combination` does, but callable from Python."""
    combination(G, rows, factors, q)


@summing_helper
def combination(G, rows, factors, q):
    """Add Σ factors_a G[rows_a] to q, two rows at a time, so that q is written half as often."""
    for a in range(0, len(rows) - 1, 2):
        j, k = rows[a], rows[a + 1]
        x, y = factors[a], factors[a + 1]
        for i in range(len(q)):
            q[i] += x * G[j, i] + y * G[k, i]
    if len(rows) % 2:
        j, x = rows[-1], factors[-1]
        for i in range(len(q)):
            q[i] += x * G[j, i]


@kernel
def submatrix(G, columns):
    """Return the submatrix of G with the rows and the columns whose numbers are in `columns`."""
    k = len(columns)
    H = np.empty((k, k))
    for a in range(k):
        for c in range(k):
            H[a, c] = G[columns[a], columns[c]]
    return H


@helper
def distance(q_j, w_j, lam):
    """Return the distance of −q_j from the subdifferential lam ∂|w_j|, which is zero for every j at a minimum."""
    if w_j > 0.0:
        return abs(q_j + lam)
    if w_j < 0.0:
        return abs(q_j - lam)
    return max(abs(q_j) - lam, 0.0)


@kernel
def distances(q, w, lam):
    """Return `distance` for every coordinate of the gradient q and the weights w."""
    out = np.empty(len(q))
    for j in range(len(q)):
        out[j] = distance(q[j], w[j], lam)
    return out


@summing
def descend(H, q, lam, w, most):
    """Run coordinate descent until an epoch changes no sign, for at most `most` epochs; return the number of epochs."""
    for epoch in range(most):
        signs_stay = True
        for j in range(len(w)):
            h, old = H[j, j], w[j]
            if h <= 0.0 or (old == 0.0 and abs(q[j]) <= lam):
                continue
            pull = h * old - q[j]
            new = 0.0
            if pull > lam:
                new = (pull - lam) / h
            elif pull < -lam:
                new = (pull + lam) / h
            move = new - old
            if move != 0.0:
                signs_stay = signs_stay and new * old > 0.0
                w[j] = new
                for i in range(len(q)):
                    q[i] += move * H[j, i]
        if signs_stay:
            return epoch + 1
    return most


@kernel  # not `summing`: then the process that compiles it gets other bits than those that load it
def newton(H, U, S, q, lam, w, tolerance):
    """Take Newton steps on the support S and return their number; a weight that reaches zero leaves the support.

    The number of Newton steps is bounded: each step drops a weight, or lowers the objective across a change of sign, or
    halves the KKT violation, which fails once only rounding is left.
    """
    k, steps, most, plain = len(S), 0, 3 * len(S) + 10, np.inf
    z = np.empty(len(q))
    while k and steps < most:
        w_S, q_S = w[S[:k]], q[S[:k]]
        worst = 0.0
        for a in range(k):
            worst = max(worst, distance(q_S[a], w_S[a], lam))
        if worst <= tolerance or worst > 0.5 * plain:
            break
        d = -q_S - lam * np.sign(w_S)
        substitute(U, k, d)
        z[:] = 0.0
        combination(H, S[:k], d, z)
        t, bends, zero = best_step(w_S, d, dot(q_S, d), dot(z[S[:k]], d), lam)
        if t <= 0.0:
            break
        steps += 1
        plain = worst if bends == 0 else np.inf
        for a in range(k):
            w[S[a]] += t * d[a]
        for i in range(len(q)):
            q[i] += t * z[i]
        if zero >= 0:
            w[S[zero]] = 0.0
        for a in range(k - 1, -1, -1):  # backwards, as later entries move up
            if w[S[a]] == 0.0:
                drop(U, k, a)
                S[a : k - 1] = S[a + 1 : k].copy()
                k -= 1
    return steps


@kernel
def best_step(w, d, slope, curvature, lam):
    """Return the t in [0, 1] that minimises ½ curvature t² + slope t + lam Σ|w + t d|.

    The sum Σ|w + t d| has a breakpoint where a weight changes its sign. Breakpoints are visited in order of t until the
    slope is not negative. Return t, their number, and the index of the weight that is zero at t, or −1.
    """
    bends = np.empty(len(w))
    for j in range(len(w)):
        bends[j] = -w[j] / d[j] if w[j] * d[j] < 0.0 else np.inf
        slope += lam * d[j] * np.sign(w[j])
    met = 0
    for j in np.argsort(bends):
        t = bends[j]
        if t >= 1.0 or slope + curvature * t >= 0.0:
            break
        met += 1
        slope += 2.0 * lam * abs(d[j])
        if slope + curvature * t >= 0.0:
            return t, met, j
    if slope >= 0.0:  # rounding: nothing is left to gain
        return 0.0, met, -1
    # A minimum beyond 1 or a negative curvature comes from rounding.
    return (min(1.0, -slope / curvature) if curvature > 0.0 else 1.0), met, -1


@summing_helper
def substitute(U, k, r):
    """Replace r by the solution x of UᵀU x = r, for the first k rows and columns of U."""
    for c in range(k):
        r[c] /= U[c, c]
        x = r[c]
        for i in range(c + 1, k):
            r[i] -= x * U[c, i]
    for c in range(k - 1, -1, -1):
        r[c] = (r[c] - dot(U[c, c + 1 : k], r[c + 1 : k])) / U[c, c]


@summing_helper
def dot(x, y):
    """Return xᵀy."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@kernel
def drop(U, k, j):
    """Update the Cholesky factor U to that of the matrix without row and column j, by plane rotations."""
    left = U[j, j + 1 : k].copy()
    for r in range(j):
        for i in range(j, k - 1):
            U[r, i] = U[r, i + 1]
    for c in range(j, k - 1):
        length = np.hypot(U[c + 1, c + 1], left[c - j])
        cosine, sine = U[c + 1, c + 1] / length, left[c - j] / length
        U[c, c] = length
        for i in range(c + 1, k - 1):
            u, v = U[c + 1, i + 1], left[i - j]
            U[c, i] = cosine * u + sine * v
            left[i - j] = cosine * v - sine * u


@warms
def _warm_up() -> None:
    product = np.ones((2, 2), np.float32)
    for total in (np.zeros((2, 2)), np.zeros((3, 3))[:2, :2]):  # an array of its own, and a part of a larger one
        add_product(product, 0, total)
        add_square(product, 0, 0, total)
    G, S = np.array([[2.0, 1.0], [1.0, 2.0]]), np.arange(2)
    U, q, w = np.ascontiguousarray(np.linalg.cholesky(G).T), np.array([-3.0, -1.5]), np.zeros(2)
    distances(q, w, 1.0)
    descend(submatrix(G, S), q, 1.0, w, 1)
    newton(G, U, S, q, 1.0, w, 0.0)
    add_rows(G, S, w, q)
