"""The filter tells the features of a table from others, whatever the tables hold; a prefetch changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.algorithms.mission.sketch_kernels import prefetch, prefetch_all
from daskfs.algorithms.mission.table_kernels import find, mix, new_filter, new_split, split_row
from daskfs.jit import kernel

pytestmark = pytest.mark.kernels


@kernel
def enter(keys, t, feature):
    """Put a feature into table t."""
    keys[t, -1 - find(keys[t], feature + np.uint64(1), mix(feature))] = feature + np.uint64(1)


@kernel
def split(keys, t, ids, first, size):
    """The entries of a row that are in table t, their slots, and the others."""
    hashes, parts = np.empty(size, np.uint64), new_split(len(keys), size)
    for q in range(size):
        hashes[q] = mix(ids[first + q])
    n_in, n_out = split_row(keys, new_filter(keys), t, ids, hashes, first, size, parts)
    return parts.inside[t, :n_in].copy(), parts.slots[t, :n_in].copy(), parts.outside[t, :n_out].copy()


@kernel
def ask(array, first, count):
    prefetch_all(array, first, count)


@pytest.mark.parametrize("capacity", [2, 16, 1024])
@pytest.mark.parametrize("n_tables", [1, 3])
@pytest.mark.parametrize("first", [0, 7])
def test_a_row_is_split_as_look_ups_would(capacity: int, n_tables: int, first: int) -> None:
    rng = np.random.default_rng(capacity)
    ids, keys = rng.integers(0, 2 * capacity, 300).astype(np.uint64), np.zeros((n_tables, capacity), np.uint64)
    held = [rng.choice(2 * capacity, capacity // 2, replace=False).astype(np.uint64) for _ in range(n_tables)]
    for t, features in enumerate(held):
        for feature in features:
            enter(keys, t, feature)
    row = ids[first:]
    for t, features in enumerate(held):
        inside, slots, outside = split(keys, t, ids, first, len(row))
        assert inside.tolist() == np.flatnonzero(np.isin(row, features)).tolist()
        assert sorted(outside.tolist()) == np.flatnonzero(~np.isin(row, features)).tolist()
        assert keys[t, slots].tolist() == (row[inside] + np.uint64(1)).tolist()


def test_a_prefetch_changes_nothing_even_beyond_the_end() -> None:
    array = np.arange(40, dtype=np.float32)
    ask(array, 3, 20)
    ask(array, 1 << 40, 33)
    assert array.tolist() == list(range(40))
    assert prefetch(array, 3) is None  # type: ignore[func-returns-value]
