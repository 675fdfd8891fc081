"""Random keys of rows, and runs of rows by their keys."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from daskfs.errors import ChunkError
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.location import Location
from daskfs.store.reorder.rows import ROW_HEAD, RowSlots
from daskfs.store.reorder.runs import RecordBatch, Runs, Section, edges_of, row_keys

pytestmark = pytest.mark.kernels


class TestKeys:
    def test_a_row_has_the_same_key_wherever_a_block_begins(self):
        whole = row_keys(7, 0, 1000)
        np.testing.assert_array_equal(np.concatenate([row_keys(7, 0, 13), row_keys(7, 13, 987)]), whole)
        assert len(np.unique(whole)) == 1000

    @pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, 2**70])
    def test_any_seed_does(self, seed):
        keys = row_keys(seed, 0, 100_000)
        assert len(np.unique(keys)) == 100_000
        assert stats.kstest(keys / 2.0**64, "uniform").pvalue > 1e-3

    def test_every_order_of_four_rows_is_as_likely(self):
        seen = Counter(tuple(np.argsort(row_keys(seed, 0, 4)).tolist()) for seed in range(4800))
        assert len(seen) == 24
        assert stats.chisquare(list(seen.values())).pvalue > 1e-3

    def test_any_row_may_come_to_any_place(self):
        n, parts = 100_000, 20
        place = np.argsort(np.argsort(row_keys(0, 0, n)))
        met, _, _ = np.histogram2d(np.arange(n), place, bins=parts)
        # Both margins are fixed, as in a contingency table.
        assert stats.chi2.sf(((met - n / parts**2) ** 2 / (n / parts**2)).sum(), (parts - 1) ** 2) > 1e-3

    def test_neighbours_do_not_stay_neighbours(self):
        place = np.argsort(np.argsort(row_keys(3, 0, 50_000))).astype(float)
        for lag in (1, 2, 16):
            assert abs(np.corrcoef(place[:-lag], place[lag:])[0, 1]) < 4 / np.sqrt(len(place))

    def test_seeds_have_nothing_in_common(self):
        first, second = (np.argsort(np.argsort(row_keys(seed, 0, 50_000))).astype(float) for seed in (0, 1))
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(50_000)


def some_records(rng: np.random.Generator, first: int, count: int) -> RecordBatch:
    heads = np.zeros(count, ROW_HEAD)
    heads["key"], heads["y"] = row_keys(0, first, count), np.arange(first, first + count)
    heads["entries"], heads["tag_bytes"] = rng.integers(0, 5, count), rng.integers(0, 3, count)
    ids = np.repeat(np.arange(first, first + count, dtype=np.uint64), heads["entries"])
    tags = np.repeat(np.arange(first, first + count) % 251, heads["tag_bytes"]).astype(np.uint8)
    return RecordBatch(heads, {"ids": ids, "values": ids.astype(np.float32) / 2, "tag": tags})


ARRAYS = {"ids": np.dtype(np.uint64), "values": np.dtype(np.float32), "tag": np.dtype(np.uint8)}


@pytest.fixture
def runs(tmp_path) -> tuple[Runs, RowSlots]:
    """300 rows in three runs of uneven length."""
    rng, edges = np.random.default_rng(0), [0, 10, 250, 300]
    runs = Runs(Location(tmp_path), "_unfinished/x", 3, {"heads": ROW_HEAD, **ARRAYS})
    counts = np.zeros((2, 32), np.int64)
    for number, (first, last) in enumerate(pairwise(edges)):
        records = some_records(rng, first, last - first)
        order = records.order()
        heads = records.heads[order]
        slots = np.searchsorted(heads["key"] >> np.uint64(59), np.arange(33, dtype=np.uint64))
        runs.write(number, heads, slots, lambda name, records=records, order=order: records.take(name, order))
        counts += [np.diff(slots), np.diff(edges_of(heads["entries"])[slots])]
    return runs, RowSlots(counts)


def test_any_section_is_read_with_what_belongs_to_it(runs):
    runs, slots = runs
    order = np.argsort(row_keys(0, 0, 300))
    assert slots.rows[-1] == 300
    for first, last in ((0, 300), (0, 1), (299, 300), (17, 180), (100, 101)):
        records, rows = runs.read(slots.section(first, last), ARRAYS)
        heads = records.heads[rows]
        np.testing.assert_array_equal(heads["y"], order[first:last])
        ids = np.repeat(order[first:last], heads["entries"])
        np.testing.assert_array_equal(records.take("ids", rows), ids)
        np.testing.assert_array_equal(records.take("values", rows), (ids / 2).astype(np.float32))
        np.testing.assert_array_equal(records.take("tag", rows), np.repeat(order[first:last] % 251, heads["tag_bytes"]))


@pytest.mark.parametrize("file", ["heads", "ids", "values", "tag", "index"])
@pytest.mark.parametrize("how", ["altered", "cut"])
def test_a_damaged_run_is_an_error(runs, tmp_path, file, how):
    runs, slots = runs
    path = tmp_path / f"_unfinished/x/run.1.{file}"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 64
    path.write_bytes(raw if how == "altered" else raw[:-3])
    with pytest.raises(ChunkError, match=r"run\.1\..*altered or cut while it was in use; run it again"):
        runs.read(slots.section(0, 300), ARRAYS)


class TestBlocks:
    def test_slots_are_gathered_while_they_fit(self):
        slots = RowSlots(np.array([[2, 2, 2, 2, 2], [10, 10, 10, 10, 10]]))
        assert slots.blocks(BlockShape(100, 25)) == [(4, 20, 1), (4, 20, 1), (2, 10, 1)]
        assert slots.blocks(BlockShape(6, 100)) == [(6, 30, 1), (4, 20, 1)]

    def test_a_slot_too_large_is_a_block_of_several_chunks_and_no_block_is_empty(self):
        slots = RowSlots(np.array([[0, 0, 3, 0, 9, 0, 0, 1, 0], [0, 0, 99, 0, 0, 0, 0, 5, 0]]))
        assert slots.blocks(BlockShape(4, 10)) == [(3, 99, 10), (9, 0, 1), (1, 5, 1)]

    def test_sections(self):
        slots = RowSlots(np.array([[2, 0, 3, 5], [0, 0, 0, 0]]))
        assert slots.section(0, 2) == Section(0, 1, 0, 2)
        assert slots.section(2, 5) == Section(2, 3, 0, 3)
        assert slots.section(1, 6) == Section(0, 4, 1, 5)
        assert slots.section(9, 10) == Section(3, 4, 4, 1)
