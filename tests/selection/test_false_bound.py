"""The bound of Shah and Samworth: no r-concave law is above it, and the worst that an optimiser finds is near it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from daskfs.selection.false_bound import _largest_tails, most_false


def law_of(parameters: np.ndarray, n: int, r: float) -> np.ndarray:
    """An r-concave law on 0 … n: its r-th power is convex, and infinite beyond some place. Numbers are from 0 to 1."""
    start, end, *bends = parameters
    slopes = np.cumsum([np.exp(24 * bend - 12) for bend in bends])
    power = np.exp(24 * start - 12) + np.concatenate([[0], np.cumsum(slopes)])
    law = power ** (1 / r)
    law[1 + round(end * n) :] = 0
    return law / law.sum()


@pytest.mark.parametrize(("mean", "n", "r"), [(0.05, 6, -0.5), (0.05, 6, -0.25), (0.01, 10, -0.5)])
def test_laws_stay_below_and_come_near(mean, n, r):
    largest, places = _largest_tails(mean, n, r), np.arange(n + 1)
    rng = np.random.default_rng(0)
    for parameters in rng.random((3_000, n + 2)) ** rng.choice([0.5, 1, 3], (3_000, 1)):
        law = law_of(parameters, n, r)
        if law @ places <= mean * n:
            assert (law[::-1].cumsum()[::-1] <= largest + 1e-9).all()
    for at in (n // 2 + 1, n):

        def loss(parameters, at=at):
            law = law_of(parameters, n, r)
            return 10 * max(0, law @ places / (mean * n) - 1) - law[at:].sum() / largest[at]

        worst = differential_evolution(loss, [(0, 1)] * (n + 2), rng=0, maxiter=150, popsize=10, tol=1e-8)
        assert -1.001 <= worst.fun <= -0.85


def test_bounds_fall_with_the_times_and_rise_with_the_features():
    few, many = most_false(10, 1000, 25), most_false(40, 1000, 25)
    assert (few[:26] == 1000).all()
    assert (np.diff(few[25:]) < 0).all()
    assert (few[26:] < many[26:]).all()
    assert few[26] < 10 * 10 / 1000 / (2 * 26 / 50 - 1)  # the bound of Meinshausen and Bühlmann
    assert most_false(0, 1000, 5)[-1] == pytest.approx(0, abs=1e-6)
    assert most_false(900, 1000, 5)[-1] == 1000  # where almost all are chosen, nothing can be said
