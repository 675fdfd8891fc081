"""The loss functions as numba kernels, selected by the integer codes in `losses.CODE`."""

from __future__ import annotations

import math

import numpy as np

from daskfs.jit import helper, kernel, warms

SQUARED, SQUARED_HINGE, LOGISTIC, SOFTMAX = 0, 1, 2, 3


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
        if before <= 0.03 * t:  # the next step would be some 0.03³
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


@kernel
def residuals(code, u, y, weight, r):
    """Write the weighted residuals of all rows into `r`, and return the weighted sum of losses."""
    total = 0.0
    for i in range(len(y)):
        if weight[i] > 0:
            loss, own = value_and_implicit_residual(code, u[i], y[i], 0.0)
            total += weight[i] * loss
            r[i] = weight[i] * own
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
