"""The kernels of losses against NumPy, for scores of any size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from daskfs.algorithms.loss_kernels import LOGISTIC, residuals

pytestmark = pytest.mark.kernels
SCORES = arrays(np.float64, st.integers(0, 1300), elements=st.floats(-800, 800))  # beyond one chunk of the kernel


@given(u=SCORES, seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from([np.float32, np.float64]))
def test_logistic_residuals_and_losses_are_those_of_numpy(u, seed, dtype):
    rng = np.random.default_rng(seed)
    y, weight = rng.choice([-1.0, 1.0], len(u)), rng.choice([0.0, 0.5, 2.0], len(u))
    r = np.empty(len(u), dtype)
    total = residuals(LOGISTIC, u, y, weight, r)
    assert total == pytest.approx(float(weight @ np.logaddexp(0, -y * u)), rel=1e-13, abs=1e-300)
    with np.errstate(over="ignore"):
        expected = weight * y / (1 + np.exp(y * u))
    np.testing.assert_allclose(r, expected, rtol=1e-15 if dtype is np.float64 else 1e-7, atol=1e-37)


def test_a_score_that_is_no_number_is_not_hidden_unless_its_row_has_no_weight():
    u, y, r = np.array([0.0, np.nan, 1.0]), np.ones(3), np.empty(3)
    assert np.isnan(residuals(LOGISTIC, u, y, np.ones(3), r))
    assert np.isnan(r).tolist() == [False, True, False]
    assert residuals(LOGISTIC, u, y, np.array([1.0, 0.0, 1.0]), r) == pytest.approx(np.log(2) + np.log1p(np.exp(-1)))
    assert r[1] == 0
