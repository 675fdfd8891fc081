"""The loss functions as numba kernels, selected by the integer codes in `losses.CODE`."""

from __future__ import annotations

import math

import numpy as np

from daskfs.jit import helper, kernel, summing_helper, warms

SQUARED, SQUARED_HINGE, LOGISTIC, SOFTMAX = 0, 1, 2, 3
_AT_ONCE = 512  # rows
_LEAST = -708.0  # exp of less is not a normal number
_LOG2_E, _LOG_2, _LOG_2_REST = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10  # 33 bits, and the rest
_SHIFT = 1.5 * 2.0**52  # added and subtracted, it rounds to a whole number


@helper
def value(code, u, y):
    """Return the loss L(u, y) of a score u for a target y."""
    if code == SQUARED:
        return 0.5 * (u - y) * (u - y)
    margin = y * u
    if code == SQUARED_HINGE:
        short = max(0.0, 1.0 - margin)
        return 0.5 * short * short
    if margin > 0:
        return math.log1p(math.exp(-margin))
    return math.log1p(math.exp(margin)) - margin


@helper
def residual(code, u, y):
    """Return the residual −dL/du, which is y − u for the squared loss and a pseudo-residual for the other losses."""
    if code == SQUARED:
        return y - u
    if code == SQUARED_HINGE:
        return y * max(0.0, 1.0 - y * u)
    return y / (1.0 + math.exp(y * u))


@helper
def value_and_implicit_residual(code, u, y, reach):
    """Return the loss of a score u, and the residual after an implicit gradient step on u.

    The residual t solves t = residual(u + reach · t). An implicit gradient step cannot overshoot, however large the
    step length `reach` is.
    """
    if code != LOGISTIC:
        return value(code, u, y), residual(code, u, y) / (1.0 + reach)
    margin = y * u
    share = math.exp(-abs(margin))
    loss = math.log(1.0 + share) + max(0.0, -margin)
    high = share / (1.0 + share) if margin > 0 else 1.0 / (1.0 + share)  # bounds of |t|: high and 0
    low, before, t = 0.0, high, high / (1.0 + reach * high * (1.0 - high))  # Newton's method, begun at 0
    for _ in range(60 if reach > 0.0 else 0):
        at = 1.0 / (1.0 + math.exp(margin + reach * t))
        over, bend = t - at, reach * at * (1.0 - at)
        if over > 0.0:
            high = min(high, t)
        else:
            low = max(low, t)
        slope = 1.0 + bend
        step = over * slope / (slope * slope + 0.5 * over * reach * (1.0 - 2.0 * at) * bend)  # Halley's method
        if abs(step) > 0.5 * before or not low < t - step < high:  # which fails: bisect
            step = t - 0.5 * (low + high)
        t, before = t - step, abs(step)
        if before <= 0.02 * t:  # convergence is cubic: t is within 0.001 of the solution
            break
    return loss, y * t


@helper
def curvature(code, u, y):
    """Return the curvature d²L/du² of the loss at a score u for a target y."""
    if code == SQUARED:
        return 1.0
    if code == SQUARED_HINGE:
        return 1.0 if y * u < 1.0 else 0.0
    p = 1.0 / (1.0 + math.exp(-abs(u)))
    return p * (1.0 - p)


@summing_helper
def _sum_of(values, count):
    total = 0.0
    for i in range(count):
        total += values[i]
    return total


@helper
def _exponentials(x, out, bits):
    """Write exp(x) for x in [_LEAST, 0] into `out`, up to rounding; `bits` are those of `out`, as int64."""
    for i in range(len(x)):
        out[i] = x[i] * _LOG2_E + _SHIFT  # its lowest bits are k, the whole number next to x / log 2
    for i in range(len(x)):
        bits[i] = (bits[i] + 1023) << 52  # as a number, 2^k
    for i in range(len(x)):
        k = x[i] * _LOG2_E + _SHIFT - _SHIFT
        r, p = (x[i] - k * _LOG_2) - k * _LOG_2_REST, 1.0
        for n in range(13, 0, -1):
            p = 1.0 + p * r * (1.0 / n)
        out[i] *= p


@helper
def _log_1p(t):
    """Return log(1 + t) for t in [0, 1], up to rounding, as 2 artanh(t / (2 + t))."""
    s = t / (2.0 + t)
    square, p = s * s, 0.0
    for n in range(33, 0, -2):
        p = 1.0 / n + p * square
    return 2.0 * s * p


@helper
def _logistic_residuals(u, y, weight, r, margins, sizes, shares, bits):
    """Write the weighted residuals into r, and the weighted losses into `margins`, in loops that fill vector registers.

    A loop over more arrays would not: it is not known whether they overlap. The last four have as many rows as `u`, or
    more, and the `bits` are those of the `shares`.
    """
    for i in range(len(u)):
        margins[i] = y[i] * u[i]
    for i in range(len(u)):
        size = -abs(margins[i])
        sizes[i] = _LEAST if size < _LEAST else size
    _exponentials(sizes[: len(u)], shares, bits)
    for i in range(len(u)):
        own = (shares[i] if margins[i] > 0 else 1.0) / (1.0 + shares[i])
        r[i] = weight[i] * y[i] * own if weight[i] > 0 else 0.0
    for i in range(len(u)):
        loss = _log_1p(shares[i]) + (0.0 if margins[i] > 0 else -margins[i])
        margins[i] = weight[i] * loss if weight[i] > 0 else 0.0


@kernel
def residuals(code, u, y, weight, r):
    """Write the weighted residuals of all rows into `r`, and return the weighted sum of losses."""
    total = 0.0
    if code == LOGISTIC:
        margins, sizes, shares = np.empty(_AT_ONCE), np.empty(_AT_ONCE), np.empty(_AT_ONCE)
        bits = shares.view(np.int64)
        for a in range(0, len(y), _AT_ONCE):
            b = min(a + _AT_ONCE, len(y))
            _logistic_residuals(u[a:b], y[a:b], weight[a:b], r[a:b], margins, sizes, shares, bits)
            total += _sum_of(margins, b - a)
        return total
    for i in range(len(y)):
        if weight[i] > 0:
            total += weight[i] * value(code, u[i], y[i])
            r[i] = weight[i] * residual(code, u[i], y[i])
        else:
            r[i] = 0
    return total


@kernel
def softmax_residuals(u, y, weight, r):
    """Write the residuals (scores, rows) of the softmax loss into `r`, and return the weighted sum of losses."""
    total = 0.0
    for i in range(u.shape[1]):
        top, mass, own = u[0, i], 0.0, 0.0
        for c in range(len(u)):
            top = max(top, u[c, i])
        for c in range(len(u)):
            mass += math.exp(u[c, i] - top)
            if y[c, i] > 0:
                own = u[c, i]
        for c in range(len(u)):
            r[c, i] = weight[i] * ((1.0 if y[c, i] > 0 else 0.0) - math.exp(u[c, i] - top) / mass)
        total += weight[i] * (math.log(mass) + top - own)
    return total


@kernel
def curvatures(code, u, y, weight, least, h):
    """Write weight · max(least, curvature of the loss) of all rows into `h`."""
    for i in range(len(y)):
        h[i] = weight[i] * max(least, curvature(code, u[i], y[i]))


@kernel
def softmax_curvatures(u, weight, least, h):
    """Write weight · max(least, tr A² / tr A) of all rows into `h`, where A is the Hessian of the softmax loss in u.

    The residuals of a row have the covariance A, so that tr A² / tr A is the curvature along an average residual.
    """
    for i in range(u.shape[1]):
        top, mass, square, cube = u[0, i], 0.0, 0.0, 0.0
        for c in range(len(u)):
            top = max(top, u[c, i])
        for c in range(len(u)):
            mass += math.exp(u[c, i] - top)
        for c in range(len(u)):
            p = math.exp(u[c, i] - top) / mass
            square += p * p
            cube += p * p * p
        trace = 1.0 - square
        curved = (square - 2.0 * cube + square * square) / trace if trace > 1e-12 else 0.0
        h[i] = weight[i] * max(least, curved)


@warms
def _warm_up() -> None:
    y = np.ones(2)
    for dtype in (np.float32, np.float64):
        out = np.empty(2, dtype)
        residuals(0, y, y, y, out)
        curvatures(0, y, y, y, 0.0, out)
        softmax_residuals(np.ones((2, 2)), np.ones((2, 2)), y, np.empty((2, 2), dtype))
        softmax_curvatures(np.ones((2, 2)), y, 0.0, out)
