"""The search for MISSION's learning rate: the best rate is found without trying all."""

from __future__ import annotations

import numpy as np
import pytest

import daskfs
from daskfs.algorithms.mission.calibration import FIRST_ROWS, RATES, Calibration, compare_rates, rate_of
from daskfs.protocol import Meta, SparseBlock, flatten


def best_rate(losses) -> float:
    return rate_of(daskfs.Mission(1), Calibration(np.ones(2), losses))


NAN = float("nan")
COSTS = {
    "the slowest": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "second": [2, 1, 3, 4, 5, 6, 7, 8, 9],
    "third": [3, 2, 1, 2, 3, 4, 5, 6, 7],
    "fourth": [4, 3, 2, 1, 2, 3, 4, 5, 6],
    "fifth": [6, 5, 4, 3, 2, 4, 5, 6, 7],
    "one of the fast": [9, 8, 7, 6, 5, 4, 3, 2, 3],
    "the fastest": [9, 8, 7, 6, 5, 4, 3, 2, 1],
    "some beyond bounds": [3, 2, *[NAN] * 7],
    "most beyond bounds": [3, *[NAN] * 8],
    "the fast beyond bounds": [6, 5, 4, 3, 2, *[NAN] * 4],
    "infinite": [3, 2, *[np.inf] * 7],
    "all the same": [0] * 9,
    "huge": [1e308, 2, 1e308, 1.5e308, *[NAN] * 5],
}


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS.keys())
def test_the_best_rate_wins(costs):
    by_rate = dict(zip(RATES, map(float, costs), strict=True))
    found = compare_rates(by_rate.__getitem__)
    everyone = np.array(costs, float)
    assert best_rate(found) == best_rate(everyone)


@pytest.mark.parametrize("best", range(len(RATES)))
def test_no_more_rates_are_tried_than_needed(best):
    ran = []

    def cost(rate: float) -> float:
        ran.append(rate)
        return abs(np.log2(rate) - best)

    found = compare_rates(cost)
    assert len(ran) == len(set(ran)) <= max(4, best + 1)
    np.testing.assert_allclose(found, abs(np.arange(len(RATES)) - best))  # guesses: a line goes on as it is


def test_shards_that_tried_different_rates_agree_on_one():
    slow, fast = (compare_rates(lambda rate, best=best: (np.log2(rate) - best) ** 2) for best in (1, 4))
    assert 2 * best_rate(slow + fast) in (4.0, 8.0)


def many_rows(n: int) -> SparseBlock:
    """Rows of two features, with values of many sizes."""
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, 10**6, (n, 2)), axis=1) + np.array([0, 10**6])
    values, y = rng.exponential(size=2 * n).astype(np.float32), np.sign(rng.normal(size=n))
    return SparseBlock(0, np.arange(0, 2 * n + 1, 2), ids.ravel().astype(np.uint64), values, y)


def cut(block: SparseBlock, start: int, stop: int) -> SparseBlock:
    ids, values = block.ids[2 * start : 2 * stop], block.values[2 * start : 2 * stop]
    return SparseBlock(start, np.arange(0, 2 * (stop - start) + 1, 2), ids, values, block.y[start:stop])


@pytest.mark.kernels
@pytest.mark.parametrize("first", [1000, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 24, 9000])
def test_the_first_rows_are_learned_as_soon_as_they_are_enough(first):
    """The first block at once, without a copy, if it has enough; and the same rows decide in any case."""
    n, rows = 9000, many_rows(9000)
    meta = Meta("sparse", n, 2 * 10**6, 2 * n, 2 * 10**6, (-1.0, 1.0), rows.nbytes)
    algorithm = daskfs.Mission(20, width=2**10, refit=0)
    whole = algorithm.update(algorithm.start(meta, 0), rows)
    state = algorithm.update(algorithm.start(meta, 0), cut(rows, 0, first))
    assert (state.buffer is None) == (state.calibration is not None) == (first >= FIRST_ROWS)
    state = algorithm.update(state, cut(rows, first, n)) if first < n else state
    for name, value in flatten(whole).items():
        np.testing.assert_array_equal(flatten(state)[name], value, err_msg=name)
