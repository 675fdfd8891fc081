"""Typical values of sparse features: which features have a unit, and what it is good for."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from algorithms.mission_rows import selected

import daskfs
from daskfs.algorithms.mission.unit_kernels import measure_units, values_outside

pytestmark = pytest.mark.kernels


def majority_units(entries: list[tuple[int, float]], slots: int) -> dict[int, float]:
    """Features with a unit, and their units, by votes in plain Python."""
    owner, votes, sizes = {}, defaultdict(int), {}
    for feature, value in entries:
        at = mixed(feature) >> (64 - slots.bit_length() + 1)
        if value == 0:
            continue
        if votes[at] and owner[at] != feature:
            votes[at] -= 1
            continue
        if owner.get(at) != feature:
            owner[at], sizes[at] = feature, []
        votes[at] += 1
        sizes[at].append(abs(value))
    return {owner[at]: 1 / np.mean(sizes[at]) for at in owner if max(sizes[at]) > 1.001 * min(sizes[at])}


def mixed(x: int) -> int:
    """The finaliser of MurmurHash3."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> 33)) * factor % 2**64
    return x ^ (x >> 33)


@pytest.mark.parametrize("slots", [8, 1024])
def test_features_count_by_their_typical_values(slots):
    rng = np.random.default_rng(2)
    ids = (rng.zipf(1.5, 3000) % 60).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # some share a slot
    values = (np.exp(rng.normal(size=3000)) * rng.choice([-1, 1], 3000) * (ids % 7 != 0)).astype(np.float32)
    values[ids % 5 == 0] = 2.5
    expected = majority_units(list(zip(ids.tolist(), values.tolist(), strict=True)), slots)
    units = measure_units(ids, values, slots.bit_length() - 1)
    outside = values_outside(ids, values, units)
    assert len(units) == slots
    assert 0 < len(expected) < len(np.unique(ids))
    wanted = [v * expected[f] if f in expected else np.sign(v) for f, v in zip(ids.tolist(), values, strict=True)]
    np.testing.assert_allclose(outside, wanted, rtol=1e-4)


def test_values_of_one_size_need_no_units():
    ids = np.arange(50, dtype=np.uint64) % np.uint64(10)
    assert len(measure_units(ids, (ids + 1).astype(np.float32), 6)) == 0


def test_what_values_say_is_kept():
    """Of 40 true features, 31 are in the set with units and 29 without; by signs alone it is 13."""
    rng = np.random.default_rng(0)
    n, p = 3000, 400
    X = (rng.random((n, p)) < 0.05) * np.exp(rng.normal(size=(n, p)))
    effects = np.where(np.arange(p) < 40, rng.choice([-0.25, 0.25], p), 0)
    y = np.where(X @ effects + rng.logistic(size=n) > 0, 1.0, -1.0)
    rows = [dict(zip((np.flatnonzero(row) * 1_000_003).tolist(), row[row > 0].tolist(), strict=True)) for row in X]
    features = selected(daskfs.Mission(40, width=2**12, refit=0), rows, y).features
    assert (features < 40 * 1_000_003).sum() >= 25
