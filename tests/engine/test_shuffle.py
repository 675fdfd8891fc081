"""shuffle: the same rows in an order that the seed decides alone, with all that belongs to them."""

from __future__ import annotations

from contextlib import contextmanager

import fsspec
import numpy as np
import pytest
import scipy.sparse as sp
from faults.samples import small_blocks, vw_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_rows import POOLS, Rows
from whole_rows import rows_of

import daskfs
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import ChunkError, DatasetError, OptionError
from daskfs.observe.describe import describe
from daskfs.store.reorder.runs import row_keys


@contextmanager
def budget(workers: int, run_bytes: int, task_bytes: int):
    """As if memory allowed for runs and tasks of just this size."""
    with pytest.MonkeyPatch.context() as patch:
        plan = ReorderMemory(workers, run_bytes, task_bytes)
        patch.setattr(ReorderMemory, "of", lambda *args, **sizes: plan)
        yield


def in_order(rows: list, seed: int) -> list:
    """What a shuffle makes of rows, said plainly."""
    return [rows[i] for i in np.argsort(row_keys(seed, 0, len(rows)))]


PLANS = st.tuples(st.integers(1, 3), st.sampled_from([1, 3000, 10**9]), st.sampled_from([1, 5000, 10**9]))


@given(
    data_seed=st.integers(0, 2**32),
    seed=st.integers(0, 2**64),
    n_rows=st.integers(1, 60),
    pool=st.sampled_from(list(POOLS)),
    ones=st.booleans(),
    cut=st.tuples(st.integers(1, 20), st.integers(1, 80)),
    plan=PLANS,
)
@settings(max_examples=50)
def test_sparse_rows_of_any_cut(tmp_path_factory, data_seed, seed, n_rows, pool, ones, cut, plan):
    folder = tmp_path_factory.mktemp("shuffle")
    ds = Rows.random(data_seed, n_rows, POOLS[pool], ones).write(folder / "rows.zarr", *cut)
    with budget(*plan):
        mixed = daskfs.shuffle(ds, folder / "mixed.zarr", seed)
    assert rows_of(mixed) == in_order(rows_of(ds), seed)
    assert (mixed.attributes["labels"], mixed.meta.max_id) == (ds.attributes["labels"], ds.meta.max_id)
    assert ("values" in mixed.arrays) == ("values" in ds.arrays)
    assert daskfs.verify_dataset(folder / "mixed.zarr") == []
    again = daskfs.shuffle(ds, folder / "again.zarr", seed, workers=1)
    assert again.digest == mixed.digest, "the content must not depend on the memory it took to make it"


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 60), st.integers(1, 9)),
    dtype=st.sampled_from([np.float32, np.float64]),
    layout=st.sampled_from(["rows", "both"]),
    chunk_bytes=st.sampled_from([1, 100, 1000, 10**6]),
    plan=PLANS,
)
@settings(max_examples=40)
def test_dense_rows_of_any_cut(tmp_path_factory, seed, shape, dtype, layout, chunk_bytes, plan):
    folder = tmp_path_factory.mktemp("shuffle")
    X = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    y = np.array(["red", "blue", "green"])[np.arange(shape[0]) * 3 // shape[0]]
    names = [f"gene{i}" for i in range(shape[1])]
    daskfs.write_dataset(folder / "rows.zarr", X, y, names, layout, chunk_bytes=chunk_bytes)
    ds = daskfs.open_dataset(folder / "rows.zarr")
    with budget(*plan):
        mixed = daskfs.shuffle(ds, folder / "mixed.zarr", seed)
    assert rows_of(mixed) == in_order(rows_of(ds), seed)
    assert (mixed.layout, mixed.classes, mixed.names([0])) == ("rows", ds.classes, ["gene0"])
    assert mixed.n_blocks() == ds.n_blocks("rows")
    assert daskfs.verify_dataset(folder / "mixed.zarr") == []
    assert daskfs.shuffle(ds, folder / "again.zarr", seed, workers=1).digest == mixed.digest


def test_labels_of_many_dense_rows_are_in_several_chunks(tmp_path):
    n = 300_000
    daskfs.write_dataset(tmp_path / "rows.zarr", np.arange(n)[:, None], np.arange(n), layout="rows", chunk_bytes=10**5)
    mixed = daskfs.shuffle(tmp_path / "rows.zarr", tmp_path / "mixed.zarr")
    assert mixed.arrays["y"].n_chunks == 3
    order = np.argsort(row_keys(0, 0, n))
    np.testing.assert_array_equal(np.concatenate(list(mixed.targets())), order)
    np.testing.assert_array_equal(np.concatenate([block.X[:, 0].copy() for block in mixed.blocks()]), order)


@pytest.fixture
def clicks(tmp_path) -> daskfs.Dataset:
    """Hashed names, string labels, weights and tags, in several blocks and several chunks of names."""
    (tmp_path / "clicks.vw").write_text(vw_lines(40, 3))
    with small_blocks():
        return daskfs.ingest(tmp_path / "clicks.vw", tmp_path / "clicks.zarr", "vw", workers=1)


def test_everything_of_a_dataset_goes_along(tmp_path, clicks):
    mixed = daskfs.shuffle(tmp_path / "clicks.zarr", tmp_path / "mixed.zarr", 5)
    rows = rows_of(mixed)
    assert rows == in_order(rows_of(clicks), 5)
    assert {weight for *_, weight, _ in rows} == {1, 2, 3}
    assert {tag for *_, tag in rows} == {f"t3.{i}" for i in range(40)}
    ids = mixed.read(0).ids
    assert mixed.names(ids) == clicks.names(ids)
    before, after = describe(clicks), describe(mixed)
    for fact in (
        "kind",
        "layout",
        "samples",
        "features",
        "entries",
        "labels",
        "weights",
        "tags",
        "names",
        "compression",
    ):
        assert after[fact] == before[fact], fact
    assert after["made"] == {
        **before["made"],
        "by": "shuffle",
        "seed": 5,
        "source": clicks.digest,
        "request": f"{before['made']['request']} shuffled 5",
    }


def test_a_row_larger_than_a_chunk(tmp_path):
    lengths = np.array([1, 500, 2, 0, 3])
    ids = np.concatenate([np.arange(length) for length in lengths]).astype(np.uint64)
    rows = Rows(np.concatenate([[0], np.cumsum(lengths)]), ids, np.ones(506, np.float32) / 2, np.arange(5) * 1.0)
    ds = rows.write(tmp_path / "rows.zarr", 3, 8)
    mixed = daskfs.shuffle(ds, tmp_path / "mixed.zarr")
    assert rows_of(mixed) == in_order(rows_of(ds), 0)
    assert mixed.arrays["ids"].chunks == (1, 8)


def test_blocks_are_filled_as_those_of_the_source(tmp_path):
    n = 20_000
    lengths = np.random.default_rng(0).integers(1, 40, n)
    ids = np.concatenate([np.arange(length) for length in lengths]).astype(np.uint64)
    rows = Rows(np.concatenate([[0], np.cumsum(lengths)]), ids, np.ones(len(ids), np.float32), np.arange(n) * 1.0)
    ds = rows.write(tmp_path / "rows.zarr", 1000, 10_000)
    mixed = daskfs.shuffle(ds, tmp_path / "mixed.zarr")
    assert mixed.block_entries().max() <= 10_000
    assert mixed.n_blocks() <= 1.15 * ds.n_blocks()


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_cluster_gives_the_same(tmp_path, clicks, two_workers, kind):
    if kind == "dense":
        daskfs.write_dataset(tmp_path / "d.zarr", np.eye(50, dtype="f4"), np.arange(50), layout="rows", chunk_bytes=999)
    source = {"sparse": clicks.url, "dense": tmp_path / "d.zarr"}[kind]
    with budget(1, run_bytes=3000, task_bytes=3000):
        there = daskfs.shuffle(source, tmp_path / "there.zarr", client=two_workers)
    assert there.digest == daskfs.shuffle(source, tmp_path / "here.zarr", workers=2).digest
    assert daskfs.verify_dataset(tmp_path / "there.zarr") == []


@pytest.mark.parametrize("url", ["memory://shuffle/mixed.zarr", "s3"])
def test_other_stores_hold_the_same(tmp_path, clicks, request, url):
    s3 = request.getfixturevalue("s3") if url == "s3" else None
    url, options = (s3.url("mixed.zarr"), s3.options) if s3 else (url, {})
    with budget(2, run_bytes=3000, task_bytes=3000):
        there = daskfs.shuffle(clicks, url, storage_options=options)
        back = daskfs.shuffle(there, tmp_path / "back.zarr", 1)
    here = daskfs.shuffle(clicks, tmp_path / "mixed.zarr")
    assert there.digest == here.digest
    assert daskfs.verify_dataset(url, storage_options=options) == []
    assert rows_of(back) == in_order(rows_of(here), 1)
    fs, path = fsspec.core.url_to_fs(url, **options)
    assert not [key for key in fs.find(path) if "_unfinished" in key]


def test_progress_counts_every_row_twice(tmp_path, clicks):
    daskfs.write_dataset(tmp_path / "d.zarr", np.eye(50), np.arange(50), layout="rows", chunk_bytes=999)
    for source, n in ((clicks, 40), (tmp_path / "d.zarr", 50)):
        seen = []
        with budget(1, 3000, 3000):
            daskfs.shuffle(source, tmp_path / f"{n}.zarr", progress=lambda *now, seen=seen: seen.append(now))
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1] == (2 * n, 2 * n)
        assert len(seen) > 4


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"seed": -1}, "seed=-1: must be a whole number"),
        ({"seed": 0.5}, "seed=0.5: must be a whole number"),
        ({"memory": "some"}, "--memory some: not a size"),
        ({"memory": "64MB"}, r"this shuffle needs at least 64\.0"),
    ],
)
def test_options_that_cannot_work(tmp_path, clicks, options, reason):
    with pytest.raises(OptionError, match=reason):
        daskfs.shuffle(clicks, tmp_path / "mixed.zarr", **options)
    assert not (tmp_path / "mixed.zarr").exists()


def test_places_that_cannot_work(tmp_path, clicks):
    daskfs.write_dataset(tmp_path / "dense.zarr", np.eye(3), [1, 2, 3])
    daskfs.transpose(clicks, tmp_path / "columns.zarr")
    (tmp_path / "link.zarr").symlink_to(tmp_path / "clicks.zarr")
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for source, target, error, reason in (
        ("dense.zarr", "x.zarr", OptionError, "laid out in columns, .*; write it with layout='rows'"),
        ("columns.zarr", "x.zarr", OptionError, "laid out in columns, .*; shuffle what it was transposed from"),
        ("clicks.zarr", "clicks.zarr", OptionError, "is the dataset to be shuffled"),
        ("clicks.zarr", "link.zarr", OptionError, "is the dataset to be shuffled"),
        ("clicks.zarr", "clicks.zarr/inside.zarr", OptionError, "or lies in it"),
        ("clicks.zarr", "dense.zarr", DatasetError, "already holds a complete dataset; --overwrite"),
        ("clicks.zarr", "file", DatasetError, "is a file"),
        ("clicks.zarr", "folder", DatasetError, "is not a daskfs dataset"),
        ("none.zarr", "x.zarr", DatasetError, "no dataset here"),
    ):
        with pytest.raises(error, match=reason):
            daskfs.shuffle(tmp_path / source, tmp_path / target)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dataset_is_replaced_when_asked(tmp_path, clicks):
    daskfs.write_dataset(tmp_path / "mixed.zarr", np.eye(3), [1, 2, 3])
    assert daskfs.shuffle(clicks, tmp_path / "mixed.zarr", overwrite=True).kind == "sparse"
    assert daskfs.verify_dataset(tmp_path / "mixed.zarr") == []


def test_a_damaged_source_is_an_error_and_leaves_nothing_that_opens(tmp_path, clicks):
    chunk = tmp_path / "clicks.zarr/ids/c/1/0"
    kept = chunk.read_bytes()
    chunk.write_bytes(kept[:-9] + bytes(9))
    with pytest.raises(ChunkError, match="ids/c/1/0"):
        daskfs.shuffle(clicks, tmp_path / "mixed.zarr")
    with pytest.raises(DatasetError, match="incomplete; run the same command again"):
        daskfs.open_dataset(tmp_path / "mixed.zarr")
    chunk.write_bytes(kept)
    assert daskfs.shuffle(clicks, tmp_path / "mixed.zarr").n_entries == clicks.n_entries
    assert daskfs.verify_dataset(tmp_path / "mixed.zarr") == []


def test_rows_without_entries(tmp_path):
    daskfs.write_dataset(tmp_path / "rows.zarr", sp.csr_array((9, 4)), np.arange(9))
    mixed = daskfs.shuffle(tmp_path / "rows.zarr", tmp_path / "mixed.zarr")
    assert np.concatenate(list(mixed.targets())).tolist() == np.argsort(row_keys(0, 0, 9)).tolist()


def test_mission_learns_from_a_sorted_source_once_it_is_shuffled(tmp_path):
    rng, n = np.random.default_rng(0), 30_000
    y = np.arange(n) >= n // 2
    telling = sp.csr_array((y[:, None] & (rng.random((n, 10)) < 0.3)).astype(np.float32))
    noise = sp.random_array((n, 2000), density=0.01, rng=rng, format="csr", dtype=np.float32)
    X = sp.hstack([telling, noise], format="csr")
    daskfs.write_dataset(tmp_path / "sorted.zarr", X, y)
    test = rng.permutation(n)[:3000]
    daskfs.write_dataset(tmp_path / "test.zarr", X[test], y[test])
    algorithm = daskfs.Mission(10, width=2**12, refit=0)
    with pytest.warns(UserWarning, match="rows are sorted by label"):
        before = daskfs.select(tmp_path / "sorted.zarr", algorithm, order="as-is")
    daskfs.shuffle(tmp_path / "sorted.zarr", tmp_path / "mixed.zarr")
    after = daskfs.select(tmp_path / "mixed.zarr", algorithm)
    test = daskfs.open_dataset(tmp_path / "test.zarr")
    assert sorted(after.features) == list(range(10))
    assert after.score(test) > 0.9
    assert before.score(test) < 0.6
