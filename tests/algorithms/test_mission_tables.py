"""Marks of cells tell which cells the features of tables have; a prefetch changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.mission_rows import block_of, meta_of, some_rows
from reference.mission import murmur

import daskfs
from daskfs.algorithms.mission.cell_kernels import bits_of, float_of, mark_tables, slowness
from daskfs.algorithms.mission.sketch_kernels import prefetch_all
from daskfs.algorithms.mission.state import MissionState, empty_memory, with_kept
from daskfs.algorithms.mission.table_kernels import insert_ids
from daskfs.basis.prefetch_kernels import prefetch_to_write
from daskfs.jit import kernel
from daskfs.protocol import copy_state

pytestmark = pytest.mark.kernels


@kernel
def slow(total, decay):
    return slowness(total, decay)


@kernel
def there(x):
    return bits_of(x)


@kernel
def back(bits):
    out = np.empty(1, np.float32)
    out[0] = float_of(bits)
    return out


@kernel
def ask(array, first, count):
    prefetch_all(array, first, count)


@pytest.mark.parametrize("C", [1, 3])
@pytest.mark.parametrize("n_tables", [1, 3])
def test_marks_are_those_of_the_features_in_the_tables(C: int, n_tables: int) -> None:
    rng = np.random.default_rng(0)
    cells = rng.normal(size=64 * (C + 1)).astype(np.float32)
    before, keys = cells.reshape(64, C + 1).copy(), np.zeros((n_tables, 32), np.uint64)
    for own in keys:
        insert_ids(rng.integers(0, 2**40, 8).astype(np.uint64), own)
    mark_tables(cells, keys, 6, C)
    cells = cells.reshape(64, C + 1)
    held = {murmur(int(key) - 1) >> 58 for key in keys[keys > 0]}
    assert set(np.flatnonzero(np.signbit(cells[:, C])).tolist()) == held
    np.testing.assert_array_equal(cells[:, :C], before[:, :C])
    np.testing.assert_array_equal(np.abs(cells[:, C]), np.abs(before[:, C]))


def marked_cells(state: MissionState) -> list[int]:
    return np.flatnonzero(np.signbit(state.memory.cells[1::2])).tolist()


def cells_in_table(state: MissionState, bits: int) -> list[int]:
    keys = state.memory.keys
    return sorted({murmur(int(key) - 1) >> (64 - bits) for key in keys[keys > 0]})


@pytest.mark.parametrize("C", [1, 3])
def test_features_to_keep_are_marked_before_the_first_row(C: int) -> None:
    ids = np.array([7, 10**9], np.uint64)
    memory = with_kept(empty_memory(daskfs.Mission(5, width=2**6), C, 12), ids, np.ones(2, np.float32))
    marks = np.flatnonzero(np.signbit(memory.cells[C :: C + 1])).tolist()
    assert marks == sorted(murmur(int(feature)) >> (64 - 7) for feature in ids)


def test_marks_follow_features_that_are_kept_that_merge_and_that_leave() -> None:
    rows, y = some_rows(400, 300)
    names = {f"x{next(iter(rows[0]))}": next(iter(rows[0]))}
    meta = meta_of(rows)
    object.__setattr__(meta, "n_shards", 2)
    object.__setattr__(meta, "members", lambda name: np.array([names[name]], np.uint64) if name in names else [])
    chosen = daskfs.Mission(20, width=2**6, learning_rate=1.0, refit=0, keep=tuple(names), passes=2)
    state = chosen.start(meta, 0)
    for start in range(0, 400, 100):
        shards = [
            chosen.update(copy_state(state), block_of(rows[i : i + 50], y[i : i + 50])) for i in (start, start + 50)
        ]
        state = chosen.merge(shards)
        for some in (*shards, state):
            if some.calibration is not None:
                assert marked_cells(some) == cells_in_table(some, 7)
    assert len(marked_cells(state)) > 10
    kept = state.memory.keys[0] == np.uint64(names[f"x{next(iter(rows[0]))}"] + 1)
    assert state.memory.weights[0, kept, 0] != 0


@pytest.mark.parametrize("total", [0.0, 1e-30, 1.0, 3e4, 1e30])
def test_steps_get_smaller_by_the_root_of_the_sum(total: float) -> None:
    assert slow(np.float32(total), np.float32(0.3)) == pytest.approx(1 / np.sqrt(1 + 0.3 * total), rel=1e-5)


@pytest.mark.parametrize("x", [0.0, -0.0, 1.5, -2.5e-30, np.inf])
def test_bits_are_those_of_numpy(x: float) -> None:
    """Compiled and plain Python give the same, and a number comes back as it was."""
    bits = int(np.float32(x).view(np.uint32))
    assert there(np.float32(x)) == bits == bits_of(x)
    assert back(np.uint32(bits)).tobytes() == np.float32(x).tobytes() == float_of(bits).tobytes()


def test_a_prefetch_changes_nothing_even_beyond_the_end() -> None:
    array = np.arange(40, dtype=np.float32)
    ask(array, 3, 20)
    ask(array, 1 << 40, 33)
    assert array.tolist() == list(range(40))
    assert prefetch_to_write(array, 3) is None  # type: ignore[func-returns-value]
