"""Columns by id: exactly those asked for, each chunk read once, nothing silent about what is damaged or absent."""

from __future__ import annotations

import tempfile
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_rows import POOLS, Rows, assert_columns

import daskfs
from daskfs.errors import ChunkError, OptionError
from daskfs.store.dataset.reader import ArrayReader

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 37)).astype(np.float32)
Y = RNG.normal(size=200)


@pytest.fixture
def ds(tmp_path) -> daskfs.Dataset:
    """Seven chunks of up to six columns."""
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, chunk_bytes=6 * 800)
    return daskfs.open_dataset(tmp_path / "d.zarr")


@pytest.fixture
def chunks_read(monkeypatch) -> list[str]:
    keys: list[str] = []
    read = ArrayReader.read

    def counted(self, number, buffer=None):
        keys.append(self.spec.key(number))
        return read(self, number, buffer)

    monkeypatch.setattr(ArrayReader, "read", counted)
    return keys


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 30), st.integers(1, 40)),
    dtype=st.sampled_from([np.float32, np.float64]),
    chunk_bytes=st.sampled_from([1, 300, 1000, 10**6]),
    per_block=st.none() | st.integers(1, 50),
    layout=st.sampled_from(["columns", "both"]),
    remote=st.booleans(),
)
@settings(max_examples=60)
def test_any_columns_in_any_order(seed, shape, dtype, chunk_bytes, per_block, layout, remote):
    rng = np.random.default_rng(seed)
    cells, y = rng.normal(size=shape).astype(dtype), rng.normal(size=shape[0])
    asked = rng.permutation(shape[1])[: rng.integers(0, shape[1] + 1)]
    with tempfile.TemporaryDirectory() as folder:
        url = "memory://columns/d.zarr" if remote else f"{folder}/d.zarr"
        daskfs.write_dataset(url, cells, y, layout=layout, chunk_bytes=chunk_bytes, overwrite=True)
        ds = daskfs.open_dataset(url)
        blocks, most = list(ds.columns(asked, per_block)), ds.read(0, "columns").nbytes
    for block in blocks:
        assert 1 <= len(block.ids) <= (per_block or 50)
        assert block.ids.dtype == np.uint64
        assert block.X.flags.f_contiguous
        assert block.X.dtype == dtype
        assert block.nbytes <= most
        np.testing.assert_array_equal(block.X, cells[:, block.ids.astype(int)])
        np.testing.assert_array_equal(block.y, y)
    ids = [int(feature) for block in blocks for feature in block.ids]
    assert ids == sorted(asked.tolist())


@pytest.mark.parametrize("per_block", [None, 1, 4])
def test_a_chunk_is_read_once_and_only_if_it_is_needed(ds, chunks_read, per_block):
    list(ds.columns([36, 0, 7, 6, 5, 1, 8, 11, 9, 10], per_block))
    assert [key for key in chunks_read if key.startswith("X/")] == ["X/c/0/0", "X/c/0/1", "X/c/0/6"]


def test_scattered_columns_fill_blocks(ds):
    assert [block.ids.tolist() for block in ds.columns([0, 6, 12, 18, 24, 30, 36])] == [[0, 6, 12, 18, 24, 30], [36]]


def test_blocks_have_memory_of_their_own_and_cannot_be_changed(ds):
    first, second = list(ds.columns([0, 1, 8, 20], columns_per_block=2))
    np.testing.assert_array_equal(first.X, X[:, :2])
    assert not np.shares_memory(first.X, second.X)
    with pytest.raises(ValueError, match="read-only"):
        first.X[:] = 0


def test_memory_is_that_of_a_few_blocks_however_many_columns(tmp_path):
    cells = RNG.normal(size=(2000, 400)).astype(np.float32)
    daskfs.write_dataset(tmp_path / "d.zarr", cells, np.zeros(2000), chunk_bytes=80_000)
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    assert ds.n_blocks() == 40
    tracemalloc.start()
    for block in ds.columns(np.arange(0, 400, 2)):
        assert block.nbytes <= 80_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 80_000 < cells[:, ::2].nbytes


@pytest.mark.parametrize(
    ("ids", "error", "reason"),
    [
        ([3, 37], IndexError, "feature 37 of 37"),
        ([2**64 - 1], IndexError, "feature 18446744073709551615 of 37"),
        ([3, -2], IndexError, "feature -2: ids are not negative"),
        ([5, 3, 5], OptionError, "feature 5 is asked for twice"),
        ([0.5], OptionError, "a whole number, not float64"),
        ([True, False], OptionError, "a whole number, not bool"),
    ],
)
def test_what_cannot_be_asked_for_is_said_before_anything_is_read(ds, chunks_read, ids, error, reason):
    with pytest.raises(error, match=reason):
        ds.columns(ids)
    assert chunks_read == []


def test_a_block_has_at_least_one_column(ds):
    with pytest.raises(OptionError, match="columns_per_block: 0"):
        ds.columns([1], columns_per_block=0)


def test_a_dataset_in_rows_says_what_to_do(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, layout="rows")
    with pytest.raises(OptionError, match="cannot be read in columns; write it with layout='both'"):
        daskfs.open_dataset(tmp_path / "d.zarr").columns([1])


@pytest.mark.parametrize("damage", ["missing", "the checksum does not match", "100 bytes where"])
def test_a_damaged_chunk_is_an_error_for_its_columns_alone(ds, damage):
    chunk = ds.location.path / "X/c/0/2"
    whole = chunk.read_bytes()
    if damage == "missing":
        chunk.unlink()
    else:
        chunk.write_bytes(whole[:100] if "bytes" in damage else bytes([whole[0] ^ 1]) + whole[1:])
    blocks = ds.columns([0, 1, 6, 12, 30], columns_per_block=2)
    np.testing.assert_array_equal(next(blocks).X, X[:, :2])
    with pytest.raises(ChunkError, match=f"X/c/0/2: {damage}"):
        next(blocks)
    np.testing.assert_array_equal(next(ds.columns([30])).X[:, 0], X[:, 30])


def test_leaving_early_ends_the_thread(ds):
    blocks = ds.columns(range(37))
    next(blocks)
    blocks.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "daskfs-prefetch"]


@given(
    seed=st.integers(0, 2**32),
    pool=st.sampled_from(["small", "gaps", "hashes", "extremes"]),
    block_entries=st.sampled_from([1, 16, 100, 10**5]),
    per_block=st.none() | st.integers(1, 30),
    remote=st.booleans(),
)
@settings(max_examples=60)
def test_any_columns_of_a_sparse_dataset(seed, pool, block_entries, per_block, remote):
    """Those that are empty, too: between the others, and before the first."""
    rows, rng = Rows.random(seed, 30, POOLS[pool]), np.random.default_rng(seed)
    ids, matrix = rows.columns()
    neighbours = np.minimum(ids + np.uint64(1), ids.max())
    others = np.array([0, int(ids.max()) // 2], np.uint64)
    asked = rng.permutation(np.unique(np.concatenate([ids, neighbours, others])))
    asked = asked[: rng.integers(1, len(asked) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        url = "memory://columns/s.zarr" if remote else f"{folder}/columns.zarr"
        options = {"block_entries": block_entries, "overwrite": True}
        ds = daskfs.transpose(rows.write(f"{folder}/rows.zarr"), url, **options)
        blocks, most = list(ds.columns(asked, per_block)), ds.meta.block_nbytes
    columns = sp.csc_array((30, len(asked)), dtype=np.float32).tolil()
    for at, feature in enumerate(np.sort(asked)):
        if feature in ids:
            columns[:, [at]] = matrix[:, np.flatnonzero(ids == feature)]
    assert_columns(blocks, np.sort(asked), columns.tocsc())
    for block in blocks:
        assert len(block.ids) <= (per_block or len(asked))
        assert block.nbytes <= most
        np.testing.assert_array_equal(block.y, rows.y)


@pytest.fixture
def sparse(tmp_path) -> daskfs.Dataset:
    rows = Rows.random(3, 60, POOLS["hashes"])
    return daskfs.transpose(rows.write(tmp_path / "rows.zarr"), tmp_path / "columns.zarr", block_entries=40)


def test_a_sparse_chunk_is_read_once_and_only_if_it_is_needed(sparse, chunks_read):
    ids = [int(sparse.read(number).ids[-1]) for number in (4, 2)] + [int(sparse.read(2).ids[0])]
    chunks_read.clear()
    list(sparse.columns(ids, columns_per_block=1))
    for array in ("ids", "indptr"):
        assert [key for key in chunks_read if key.startswith(f"{array}/")] == [f"{array}/c/2/0", f"{array}/c/4/0"]
    assert len(chunks_read) == len(set(chunks_read))


def test_an_id_beyond_the_largest_is_an_error(sparse):
    largest = sparse.meta.max_id
    (block,) = sparse.columns([largest])
    assert len(block.rows) > 0
    with pytest.raises(IndexError, match=f"feature {largest + 1} of {largest + 1}"):
        sparse.columns([largest + 1])


def test_a_damaged_sparse_chunk_is_an_error(sparse):
    wanted = sparse.read(3).ids[0]
    chunk = int(sparse.arrays["rows"].shape[0]) - 1
    path = sparse.location.path / f"rows/c/{chunk}/0"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    list(sparse.columns([wanted]))
    with pytest.raises(ChunkError, match=f"rows/c/{chunk}/0"):
        list(sparse.columns([sparse.meta.max_id]))
