"""Runs of columns: sorted, cut into ranges that keep their bound, merged in order, and never silently damaged."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparse_rows import POOLS, Rows

from daskfs.errors import ChunkError
from daskfs.protocol import SparseBlock
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.location import Location
from daskfs.store.reorder.columns import (
    CELL,
    COLUMN_HEAD,
    ColumnArrays,
    IdSample,
    MergedColumns,
    RunSummary,
    column_records,
    count_columns,
    cut_blocks,
    merged_ranges,
    write_column_run,
)
from daskfs.store.reorder.kernels import DIGIT_BITS, TOP_BITS, sort_by_key
from daskfs.store.reorder.runs import LARGEST_KEY, Runs, edges_of


@pytest.mark.kernels
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([1, 2, 3, 100, 5000]),
    distinct=st.sampled_from([1, 2, 40, 10**6]),
    bits=st.sampled_from([1, TOP_BITS - 1, TOP_BITS, TOP_BITS + 1, TOP_BITS + DIGIT_BITS, TOP_BITS + 9, 40, 63, 64]),
    lowest=st.sampled_from([0, 1, 2**62]),
)
def test_sorts_as_numpys_stable_sort_does(seed, n, distinct, bits, lowest):
    rng = np.random.default_rng(seed)
    pool = rng.integers(0, 2**bits - 1, distinct, dtype=np.uint64, endpoint=True)
    keys = np.maximum(pool[rng.integers(0, distinct, n)], np.uint64(lowest))
    cargo = np.arange(n, dtype=np.uint64)
    order = np.argsort(keys, kind="stable")
    arrays = keys.copy(), cargo.copy(), np.zeros_like(keys), np.zeros_like(cargo)
    found = arrays[2:] if sort_by_key(*arrays) else arrays[:2]
    np.testing.assert_array_equal(found[0], keys[order])
    np.testing.assert_array_equal(found[1], cargo[order])


def blocks_of(rows: Rows, starts: list[int]) -> list[SparseBlock]:
    blocks = []
    for first, last in zip(starts, [*starts[1:], len(rows.y)], strict=True):
        here = slice(rows.indptr[first], rows.indptr[last])
        indptr = rows.indptr[first : last + 1] - rows.indptr[first]
        blocks.append(SparseBlock(first, indptr, rows.ids[here], rows.values[here], rows.y[first:last]))
    return blocks


def runs_of(location: Location, rows: Rows, starts: list[int], gap: int) -> tuple[Runs, list[RunSummary]]:
    blocks = [block for block in blocks_of(rows, starts) if len(block.ids)]
    runs = Runs(location, "_unfinished/x", len(blocks), {"heads": COLUMN_HEAD, "cells": CELL})
    return runs, [
        write_column_run(runs, number, column_records([block], len(block.ids)), gap)
        for number, block in enumerate(blocks)
    ]


def columns_of(blocks: list[SparseBlock], n_entries: int) -> ColumnArrays:
    records = column_records(blocks, n_entries)
    return ColumnArrays(records.heads["key"], edges_of(records.heads["entries"]), records.arrays["cells"])


def same(columns: ColumnArrays, rows: Rows) -> bool:
    ids, matrix = rows.columns()
    return (
        np.array_equal(columns.ids, ids)
        and np.array_equal(columns.indptr, matrix.indptr)
        and np.array_equal(columns.cells["row"], matrix.indices)
        and np.array_equal(columns.cells["value"], matrix.data)
    )


@pytest.mark.parametrize("pool", POOLS)
def test_rows_turn_into_columns(pool):
    rows = Rows.random(1, 40, POOLS[pool])
    assert same(columns_of(blocks_of(rows, [0, 7, 8, 30]), len(rows.ids)), rows)


@given(
    seed=st.integers(0, 2**32),
    pool=st.sampled_from(list(POOLS)),
    starts=st.sets(st.integers(1, 39)),
    gap=st.integers(1, 20),
    most=st.integers(1, 200),
)
def test_ranges_keep_their_bound_and_merge_to_the_whole(tmp_path_factory, seed, pool, starts, gap, most):
    rows = Rows.random(seed, 40, POOLS[pool])
    runs, summaries = runs_of(Location(tmp_path_factory.mktemp("runs")), rows, [0, *sorted(starts)], gap)
    sizes = list(merged_ranges(runs, summaries, gap, most))
    assert all(len(columns.ids) for columns in sizes)
    bound = max(most, gap * (runs.count + 1))  # marks cannot tell less than that apart
    longest = np.diff(rows.columns()[1].indptr).max()
    assert max(columns.n_entries for columns in sizes) <= bound + longest
    ranges = [MergedColumns.of(runs, summaries, int(columns.ids[0]), int(columns.ids[-1])).read() for columns in sizes]
    for columns, size in zip(ranges, sizes, strict=True):
        np.testing.assert_array_equal(columns.ids, size.ids)
        np.testing.assert_array_equal(columns.indptr, size.indptr)
    (whole,) = cut_blocks(ranges, BlockShape(10**6, 10**6))
    assert same(whole, rows)


@given(seed=st.integers(0, 2**32), most_columns=st.integers(1, 20), most_entries=st.integers(1, 100))
def test_blocks_are_as_full_as_they_can_be_and_do_not_depend_on_ranges(seed, most_columns, most_entries):
    rows = Rows.random(seed, 40, POOLS["hashes"])
    whole = columns_of(blocks_of(rows, [0]), len(rows.ids))
    rng, count = np.random.default_rng(seed), len(whole.ids)
    edges = np.unique([0, *rng.integers(0, count, 5), count])
    ranges = [whole.between(first, last) for first, last in pairwise(edges)]
    shape = BlockShape(most_columns, most_entries)
    blocks, again = list(cut_blocks(ranges, shape)), list(cut_blocks([whole], shape))
    assert [block.ids.tolist() for block in blocks] == [block.ids.tolist() for block in again]
    for block in blocks:
        fits = len(block.ids) <= most_columns and block.n_entries <= most_entries
        assert fits or len(block.ids) == 1
    for block, after in pairwise(blocks):
        full = len(block.ids) == most_columns or block.n_entries + after.between(0, 1).n_entries > most_entries
        assert full


@pytest.mark.parametrize("name", ["heads", "cells", "index"])
@pytest.mark.parametrize("damage", ["a bit flipped", "cut short"])
def test_a_damaged_run_is_an_error(tmp_path, name, damage):
    rows, location = Rows.random(1, 40, POOLS["hashes"]), Location(tmp_path)
    runs, summaries = runs_of(location, rows, [0, 10, 20], gap=4)
    everything = MergedColumns.of(runs, summaries, 0, LARGEST_KEY)
    assert same(everything.read(), rows)
    key = f"{runs.folder}/run.1.{name}"
    file = bytearray(location.read(key))
    if damage == "cut short":
        del file[-3:]
    else:
        file[len(file) // 2] ^= 64
    location.write(key, bytes(file))
    with pytest.raises(ChunkError, match=r"run\.1\..*altered or cut while it was in use; run it again"):
        everything.read()


@pytest.mark.parametrize("pool", [lambda n: np.arange(n), lambda n: np.arange(n) * 1024, lambda n: np.arange(n) ** 3])
@pytest.mark.parametrize("count", [1, 4096, 4097, 300_000])
def test_columns_are_counted_by_a_sample(pool, count):
    ids = pool(count).astype(np.uint64)
    parts = ids[::2], ids[: count // 2 + 1], ids[count // 3 :]
    assert max(len(IdSample.of(part).ids) for part in parts) <= 4096
    counted = count_columns(IdSample.of(part) for part in parts)
    assert abs(counted - count) <= (0 if count <= 4096 else 0.08 * count)
    assert counted == count_columns([IdSample.of(ids)])
