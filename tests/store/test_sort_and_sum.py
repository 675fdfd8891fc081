"""Sorting one row, by insertion or by radix: as numpy's stable sort does it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskfs.jit import kernel
from daskfs.store.ingest import rows_kernels
from daskfs.store.ingest.rows_kernels import LONG_ROW, SHORT_ROW, new_spare

pytestmark = pytest.mark.kernels


@kernel
def sorted_in(ids, values, spare):
    return rows_kernels.sort_and_sum(ids, values, spare)


def sort_and_sum(ids, values):
    return sorted_in(ids, values, new_spare(len(ids)))


@settings(deadline=None)
@given(
    n=st.sampled_from([0, 1, 2, SHORT_ROW, SHORT_ROW + 1, 30, 500, LONG_ROW, LONG_ROW + 1]),
    distinct=st.sampled_from([1, 3, 100, 10**6, 2**20]),
    low_bits=st.sampled_from([0, 7, 8, 30, 43]),
    seed=st.integers(0, 2**32),
)
def test_sorts_by_id_and_adds_equal_ids_in_order(n: int, distinct: int, low_bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, distinct, n, dtype=np.uint64) << np.uint64(low_bits) | np.uint64(1)
    values = (10.0 ** rng.integers(-8, 8, n)).astype(np.float32)  # their sum depends on the order
    expected = dict.fromkeys(ids.tolist(), 0.0)
    for i, value in zip(ids.tolist(), values.tolist(), strict=True):
        expected[i] += value
    length = sort_and_sum(ids, values)
    assert ids[:length].tolist() == sorted(expected)
    assert values[:length].tolist() == [np.float32(expected[i]) for i in sorted(expected)]


@pytest.mark.parametrize("n", [SHORT_ROW + 1, 85, LONG_ROW])
@pytest.mark.parametrize("crowded", [0, 1, 40])
def test_hashes_with_and_without_crowds(n: int, crowded: int) -> None:
    """Ids that lie evenly are spread; many in one place, or one far off, are left to the other sort."""
    rng = np.random.default_rng(n)
    ids = rng.integers(0, 2**63, n, dtype=np.uint64)
    crowd = ids[:crowded]
    crowd[:] = ids[0] + rng.integers(0, 3, len(crowd), dtype=np.uint64)
    ids[-1] = 2**63 - 1
    before = ids.copy()
    values = np.arange(n, dtype=np.float32)
    length = sort_and_sum(ids, values)
    expected, place = np.unique(before, return_inverse=True)
    assert ids[:length].tolist() == expected.tolist()
    assert values[:length].tolist() == np.bincount(place, np.arange(n)).tolist()


def test_counts_beyond_what_a_float32_can_count_to() -> None:
    many = 2**24 + 4
    values = np.ones(many, np.float32)
    assert sort_and_sum(np.zeros(many, np.uint64), values) == 1
    assert values[0] == many
