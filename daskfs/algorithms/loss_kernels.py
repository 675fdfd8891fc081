"""The losses as kernels see them: an integer code, see `loss.CODE`."""

from __future__ import annotations

import math

import numpy as np

from daskfs.jit import helper, kernel, warms

SQUARED, SQUARED_HINGE, LOGISTIC = 0, 1, 2


@helper
def value(code, u, y):
    """L(u, y)."""
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
def pull(code, u, y):
    """−dL/du: where the loss wants the score to go (for the squared loss, the residual)."""
    if code == SQUARED:
        return y - u
    if code == SQUARED_HINGE:
        return y * max(0.0, 1.0 - y * u)
    return y / (1.0 + math.exp(y * u))


@helper
def implicit_pull(code, u, y, reach):
    """The pull at the score it leads to: t with t = pull(u + reach · t). However long the step, it cannot overshoot."""
    if code != LOGISTIC:
        return pull(code, u, y) / (1.0 + reach)
    low, high = 0.0, abs(pull(code, u, y))  # of its size
    t, before = high, 2 * high
    for _ in range(20 if reach > 0.0 else 0):
        at = u + reach * y * t
        over = t - abs(pull(code, at, y))
        if over > 0.0:
            high = t
        else:
            low = t
        step = over / (1.0 + reach * curvature(code, at, y))
        if abs(step) < 1e-4 * high:
            break
        if abs(step) > 0.5 * before or not low < t - step < high:  # Newton's method is lost: halve
            step = t - 0.5 * (low + high)
        before, t = abs(step), t - step
    return y * t


@helper
def curvature(code, u, y):
    """d²L/du²."""
    if code == SQUARED:
        return 1.0
    if code == SQUARED_HINGE:
        return 1.0 if y * u < 1.0 else 0.0
    p = 1.0 / (1.0 + math.exp(-abs(u)))
    return p * (1.0 - p)


@kernel
def pulls(code, u, y, weight, r):
    """Weighted pulls of all rows into `r`; returns the weighted loss."""
    total = 0.0
    for i in range(len(y)):
        if weight[i] > 0:
            total += weight[i] * value(code, u[i], y[i])
            r[i] = weight[i] * pull(code, u[i], y[i])
        else:
            r[i] = 0
    return total


@kernel
def curvatures(code, u, y, weight, least, h):
    """Weighted curvatures of all rows into `h`, none below `least`: rows far on the right side have no curvature."""
    for i in range(len(y)):
        h[i] = weight[i] * max(least, curvature(code, u[i], y[i]))


@warms
def _warm_up() -> None:
    y = np.ones(2)
    for dtype in (np.float32, np.float64):
        out = np.empty(2, dtype)
        pulls(0, y, y, y, out)
        curvatures(0, y, y, y, 0.0, out)
