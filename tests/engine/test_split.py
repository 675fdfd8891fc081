"""split: rows drawn by the seed alone, with all that belongs to them, whatever the kind and the layout."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from faults.samples import small_blocks, vw_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_rows import POOLS, Rows
from whole_rows import rows_of

import daskfs
from daskfs.cli import main
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import ChunkError, DatasetError, OptionError
from daskfs.observe.describe import describe
from daskfs.store.reorder.runs import draw_rows, row_keys

WORD = 2**64


def mixed(number: int) -> int:
    """Splitmix64 of one number, in plain Python."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB % WORD
    return number ^ number >> 31


def is_test(n: int, fraction: float, seed: int) -> list[bool]:
    """Which rows are for the test, said plainly."""
    step = 0x9E3779B97F4A7C15
    keys = [mixed((mixed((seed + step) % WORD) + (row + 1) * step) % WORD) for row in range(n)]
    count = min(max(round(fraction * n), 1), n - 1)
    return [key in set(sorted(keys)[:count]) for key in keys]


def parts_of(rows: list, fraction: float, seed: int) -> tuple[list, list]:
    chosen = is_test(len(rows), fraction, seed)
    return [r for r, c in zip(rows, chosen, strict=True) if not c], [r for r, c in zip(rows, chosen, strict=True) if c]


def in_rows(ds: daskfs.Dataset) -> list:
    """Every row of a dataset of any layout as a plain record, tags left out of columns as a transpose does."""
    if ds.layout == "rows":
        return rows_of(ds)
    rows: list[tuple[list, list]] = [([], []) for _ in range(ds.n_samples)]
    for block in ds.blocks(axis="columns"):
        if ds.kind == "dense":
            for row, cells in zip(rows, block.X.tolist(), strict=True):
                row[1].extend(cells)
            continue
        for i, column in enumerate(block.ids.tolist()):
            assert block.indptr[i] < block.indptr[i + 1], "an empty column has no place among sparse ones"
            for at in range(block.indptr[i], block.indptr[i + 1]):
                rows[block.rows[at]][0].append(column)
                rows[block.rows[at]][1].append(float(block.values[at]))
    weights = [1.0] * ds.n_samples if block.weight is None else block.weight.tolist()
    strings = ds.attributes["labels"]["kind"] == "strings"
    labels = [str(ds.classes[int(y)]) if strings else str(y) for y in block.y]
    found = [(tuple(i), tuple(v), y, w, "") for (i, v), y, w in zip(rows, labels, weights, strict=True)]
    if ds.layout == "both":
        assert rows_of(ds) == found
    return found


@contextmanager
def budget(workers: int, task_bytes: int):
    """As if memory allowed for tasks of just this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReorderMemory, "of", lambda *args, **sizes: ReorderMemory(workers, 0, task_bytes))
        yield


FRACTIONS = st.sampled_from([0.001, 0.2, 0.5, 0.9, 0.999])
PLANS = st.tuples(st.integers(1, 3), st.sampled_from([1, 3000, 10**9]))


def check_parts(ds: daskfs.Dataset, folder, fraction: float, seed: int, plan) -> tuple[daskfs.Dataset, daskfs.Dataset]:
    """Split a dataset, hold it against the oracle, and once more with all memory and one worker."""
    with budget(*plan):
        parts = daskfs.split(ds, folder / "train.zarr", folder / "test.zarr", fraction, seed=seed)
    again = daskfs.split(ds, folder / "train2.zarr", folder / "test2.zarr", fraction, seed=seed, workers=1)
    for part, twin, wanted in zip(parts, again, parts_of(in_rows(ds), fraction, seed), strict=True):
        assert in_rows(part) == wanted
        assert (part.n_samples, part.kind, part.layout) == (len(wanted), ds.kind, ds.layout)
        assert part.attributes["labels"] == ds.attributes["labels"]
        assert (part.n_features, part.meta.max_id) == (ds.n_features, ds.meta.max_id)
        assert set(part.arrays) == set(ds.arrays)
        assert daskfs.verify_dataset(part.url) == []
        assert twin.digest == part.digest, "the content must not depend on the memory it took to make it"
    assert sum(part.n_entries for part in parts) == ds.n_entries
    return parts


@given(
    data_seed=st.integers(0, 2**32),
    seed=st.integers(0, 2**65),
    n_rows=st.integers(2, 60),
    pool=st.sampled_from(list(POOLS)),
    ones=st.booleans(),
    cut=st.tuples(st.integers(1, 20), st.integers(1, 80)),
    fraction=FRACTIONS,
    plan=PLANS,
)
@settings(max_examples=30)
def test_sparse_rows_of_any_cut(tmp_path_factory, data_seed, seed, n_rows, pool, ones, cut, fraction, plan):
    folder = tmp_path_factory.mktemp("split")
    ds = Rows.random(data_seed, n_rows, POOLS[pool], ones).write(folder / "rows.zarr", *cut)
    check_parts(ds, folder, fraction, seed, plan)


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(2, 60), st.integers(1, 9)),
    dtype=st.sampled_from([np.float32, np.float64]),
    layout=st.sampled_from(["columns", "rows", "both"]),
    chunk_bytes=st.sampled_from([1, 100, 1000, 10**6]),
    fraction=FRACTIONS,
    plan=PLANS,
)
@settings(max_examples=45)
def test_dense_of_any_layout_and_cut(tmp_path_factory, seed, shape, dtype, layout, chunk_bytes, fraction, plan):
    folder = tmp_path_factory.mktemp("split")
    X = np.random.default_rng(seed).normal(size=shape).astype(dtype)
    y = np.array(["red", "blue", "green"])[np.arange(shape[0]) * 3 // shape[0]]
    names = [f"gene{i}" for i in range(shape[1])]
    daskfs.write_dataset(folder / "all.zarr", X, y, names, layout, chunk_bytes=chunk_bytes)
    train, _ = check_parts(daskfs.open_dataset(folder / "all.zarr"), folder, fraction, seed, plan)
    assert train.names([0]) == ["gene0"]
    assert train.arrays["X"].dtype == dtype


@given(
    data_seed=st.integers(0, 2**32),
    seed=st.integers(0, 1000),
    n_rows=st.integers(2, 60),
    pool=st.sampled_from(list(POOLS)),
    ones=st.booleans(),
    block_entries=st.integers(1, 80),
    fraction=FRACTIONS,
)
@settings(max_examples=30)
def test_sparse_columns_of_any_cut(tmp_path_factory, data_seed, seed, n_rows, pool, ones, block_entries, fraction):
    folder = tmp_path_factory.mktemp("split")
    rows = Rows.random(data_seed, n_rows, POOLS[pool], ones)
    ds = daskfs.transpose(rows.write(folder / "rows.zarr"), folder / "all.zarr", block_entries=block_entries)
    if all(any(ids for ids, *_ in part) for part in parts_of(in_rows(ds), fraction, seed)):
        check_parts(ds, folder, fraction, seed, (1, 1))
    else:
        with pytest.raises(DatasetError, match="none of its rows has an entry; use another seed or fraction"):
            daskfs.split(ds, folder / "train.zarr", folder / "test.zarr", fraction, seed=seed)


@pytest.mark.parametrize("count", [1, 1000, 65_537, 199_999])
def test_many_rows_are_drawn_without_all_keys_in_memory(count):
    n = 200_000
    some, others = draw_rows(7, n, count)
    order = np.argsort(row_keys(7, 0, n))
    np.testing.assert_array_equal(np.flatnonzero(some.mask(0, n)), np.sort(order[:count]))
    np.testing.assert_array_equal(some.mask(0, n), ~others.mask(0, n))
    np.testing.assert_array_equal(some.mask(70_000, 80_000), some.mask(0, n)[70_000:150_000])
    assert (some.n_rows, others.n_rows) == (count, n - count)


def test_no_row_is_likelier_than_another():
    times = sum(draw_rows(seed, 50, 10)[0].mask(0, 50).astype(int) for seed in range(500))
    assert abs(times - 100).max() < 5 * np.sqrt(500 * 0.2 * 0.8)


def test_copies_of_one_dataset_are_split_alike(tmp_path):
    X, y = np.arange(1, 201, dtype="f4").reshape(100, 2), np.arange(100)
    daskfs.write_dataset(tmp_path / "dense.zarr", X, y, chunk_bytes=500)
    daskfs.write_dataset(tmp_path / "sparse.zarr", sp.csr_array(X), y)
    daskfs.transpose(tmp_path / "sparse.zarr", tmp_path / "columns.zarr")
    targets = [
        [np.concatenate(list(part.targets())).tolist() for part in parts]
        for kind in ("dense", "sparse", "columns")
        for parts in [daskfs.split(tmp_path / f"{kind}.zarr", tmp_path / f"{kind}1", tmp_path / f"{kind}2", 0.3)]
    ]
    assert targets[0] == targets[1] == targets[2]
    assert len(targets[0][1]) == 30


def test_labels_of_many_rows_are_in_several_chunks(tmp_path):
    n = 300_000
    daskfs.write_dataset(tmp_path / "all.zarr", np.arange(n)[:, None], np.arange(n), chunk_bytes=10**5)
    train, test = daskfs.split(tmp_path / "all.zarr", tmp_path / "train.zarr", tmp_path / "test.zarr", seed=3)
    order = np.argsort(row_keys(3, 0, n))
    for part, rows in ((test, np.sort(order[:60_000])), (train, np.sort(order[60_000:]))):
        np.testing.assert_array_equal(np.concatenate(list(part.targets())), rows)
        np.testing.assert_array_equal(part.read(0).X[:, 0], rows)
    assert train.arrays["y"].n_chunks == 2


@pytest.fixture
def clicks(tmp_path) -> daskfs.Dataset:
    """Hashed names, string labels (one of them once), weights and tags, in several blocks and chunks of names."""
    (tmp_path / "clicks.vw").write_text("lonely 2 'only|n f1:0.5\n" + vw_lines(40, 3))
    with small_blocks():
        return daskfs.ingest(tmp_path / "clicks.vw", tmp_path / "clicks.zarr", "vw", workers=1)


KEPT = ("kind", "layout", "features", "weights", "tags", "names", "compression")


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_everything_of_a_dataset_goes_along(tmp_path, clicks, layout):
    ds = clicks if layout == "rows" else daskfs.transpose(clicks, tmp_path / "columns.zarr", block_entries=64)
    parts = daskfs.split(ds, tmp_path / "train.zarr", tmp_path / "test.zarr", 0.25, seed=5)
    for part, wanted in zip(parts, parts_of(in_rows(ds), 0.25, 5), strict=True):
        assert in_rows(part) == wanted
        assert part.classes == ds.classes == ("blue", "lonely", "red")
        assert {weight for *_, weight, _ in in_rows(part)} == {1, 2, 3}
        assert {fact: describe(part)[fact] for fact in KEPT} == {fact: describe(ds)[fact] for fact in KEPT}
        ids = ds.read(0).ids
        assert part.names(ids) == ds.names(ids)
        assert part.attributes["made"]["source"] == ds.digest
        assert daskfs.verify_dataset(part.url) == []
    assert sum("lonely" in str(row) for part in parts for row in in_rows(part)) == 1
    sizes = [dict(describe(part)["labels"]["counts"]) for part in (ds, *parts)]
    assert {label: sizes[1].get(label, 0) + sizes[2].get(label, 0) for label in sizes[0]} == sizes[0]


@pytest.mark.parametrize("kind", ["sparse", "rows", "both"])
def test_a_shuffled_split_is_a_shuffle_cut_in_two(tmp_path, clicks, kind):
    if kind != "sparse":
        daskfs.write_dataset(tmp_path / "d.zarr", np.eye(50), np.arange(50), layout=kind, chunk_bytes=999)
    source = clicks.url if kind == "sparse" else tmp_path / "d.zarr"
    train, test = daskfs.split(source, tmp_path / "train.zarr", tmp_path / "test.zarr", 0.3, seed=2, shuffle=True)
    whole = rows_of(daskfs.shuffle(source, tmp_path / "mixed.zarr", 2))
    assert rows_of(test) + rows_of(train) == whole
    plain = daskfs.split(source, tmp_path / "train1.zarr", tmp_path / "test1.zarr", 0.3, seed=2)
    for one, other in zip(plain, (train, test), strict=True):
        assert sorted(in_rows(one)) == sorted(rows_of(other))
        assert daskfs.verify_dataset(other.url) == []


def test_blocks_are_filled_as_those_of_the_source(tmp_path):
    rng, n = np.random.default_rng(0), 20_000
    lengths = rng.integers(1, 40, n)
    ids = np.concatenate([np.sort(rng.choice(5000, length, replace=False)) for length in lengths]).astype(np.uint64)
    rows = Rows(np.concatenate([[0], np.cumsum(lengths)]), ids, np.ones(len(ids), np.float32), np.arange(n) * 1.0)
    in_rows = rows.write(tmp_path / "rows.zarr", 1000, 10_000)
    columns = daskfs.transpose(in_rows, tmp_path / "columns.zarr", block_entries=10_000)
    for name, ds in (("r", in_rows), ("c", columns)):
        train, test = daskfs.split(ds, tmp_path / f"{name}1", tmp_path / f"{name}2", 0.2)
        for part, share in ((train, 0.8), (test, 0.2)):
            assert part.block_entries().max() <= 10_000
            assert part.n_blocks() <= 1.15 * share * ds.n_blocks() + 1


@pytest.mark.parametrize("kind", ["sparse", "columns", "rows", "both"])
def test_a_cluster_gives_the_same(tmp_path, clicks, two_workers, kind):
    if kind != "sparse":
        daskfs.write_dataset(tmp_path / "d.zarr", np.eye(50), np.arange(50), layout=kind, chunk_bytes=999)
    source = clicks.url if kind == "sparse" else tmp_path / "d.zarr"
    with budget(1, task_bytes=3000):
        there = daskfs.split(source, tmp_path / "train.zarr", tmp_path / "test.zarr", client=two_workers)
    here = daskfs.split(source, tmp_path / "train1.zarr", tmp_path / "test1.zarr", workers=2)
    assert [part.digest for part in there] == [part.digest for part in here]
    assert [daskfs.verify_dataset(part.url) for part in there] == [[], []]


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_an_object_store_holds_the_same(tmp_path, clicks, s3, layout):
    ds = clicks if layout == "rows" else daskfs.transpose(clicks, tmp_path / "columns.zarr", block_entries=64)
    urls = s3.url("train.zarr"), s3.url("test.zarr")
    with budget(2, task_bytes=3000):
        there = daskfs.split(ds, *urls, storage_options=s3.options)
    here = daskfs.split(ds, tmp_path / "train.zarr", tmp_path / "test.zarr")
    assert [part.digest for part in there] == [part.digest for part in here]
    again = daskfs.split(there[0], s3.url("a.zarr"), s3.url("b.zarr"), 0.5, storage_options=s3.options)
    assert tuple(map(in_rows, again)) == parts_of(in_rows(here[0]), 0.5, 0)
    assert [daskfs.verify_dataset(part.url, storage_options=s3.options) for part in again] == [[], []]


def state_of(*folders) -> dict:
    """Every file with its time: what a run that does nothing leaves alone."""
    return {path: path.stat().st_mtime_ns for folder in folders for path in folder.rglob("*")}


def test_the_same_again_does_nothing_and_another_is_an_error(tmp_path, clicks):
    train, test = tmp_path / "train.zarr", tmp_path / "test.zarr"
    first = daskfs.split(clicks, train, test, 0.25)
    before = state_of(train, test)
    again = daskfs.split(clicks, train, test, 0.251, memory="1GB", workers=1)  # as many rows: the same request
    assert [part.digest for part in again] == [part.digest for part in first]
    assert state_of(train, test) == before
    for other in ({"fraction": 0.5}, {"seed": 1}, {"shuffle": True}):
        with pytest.raises(DatasetError, match="already holds a complete dataset; --overwrite replaces it"):
            daskfs.split(clicks, train, test, **{"fraction": 0.25, **other})
    with pytest.raises(DatasetError, match="already holds a complete dataset"):
        daskfs.split(clicks, test, train, 0.25)  # the other way round
    assert state_of(train, test) == before
    replaced = daskfs.split(clicks, train, test, 0.5, overwrite=True)
    assert tuple(map(in_rows, replaced)) == parts_of(in_rows(clicks), 0.5, 0)


def test_a_part_that_is_there_stays_and_the_other_is_made(tmp_path, clicks):
    train, test = tmp_path / "train.zarr", tmp_path / "test.zarr"
    wanted = [part.digest for part in daskfs.split(clicks, train, test)]
    (test / "zarr.json").unlink()
    (test / "_unfinished").mkdir()
    before = state_of(train)
    assert [part.digest for part in daskfs.split(clicks, train, test)] == wanted
    assert state_of(train) == before


def test_a_source_that_changed_is_another_request(tmp_path):
    for y in ([0, 1, 0, 1], [1, 1, 0, 0]):
        daskfs.write_dataset(tmp_path / "d.zarr", np.eye(4), y, overwrite=True)
        if y[0]:
            with pytest.raises(DatasetError, match="already holds a complete dataset"):
                daskfs.split(tmp_path / "d.zarr", tmp_path / "a.zarr", tmp_path / "b.zarr")
        else:
            daskfs.split(tmp_path / "d.zarr", tmp_path / "a.zarr", tmp_path / "b.zarr")


@pytest.mark.parametrize("layout", ["rows", "columns", "both", "sparse", "sparse columns"])
def test_progress_ends_where_it_said(tmp_path, clicks, layout):
    if layout == "sparse columns":
        ds = daskfs.transpose(clicks, tmp_path / "columns.zarr", block_entries=64)
    elif layout == "sparse":
        ds = clicks
    else:
        daskfs.write_dataset(tmp_path / "d.zarr", np.eye(50), np.arange(50), layout=layout, chunk_bytes=999)
        ds = tmp_path / "d.zarr"
    seen = []
    with budget(1, 1):
        daskfs.split(ds, tmp_path / "a.zarr", tmp_path / "b.zarr", progress=lambda *now: seen.append(now))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == seen[-1][1] > 0
    assert len(seen) > 3


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"seed": -1}, "seed=-1: must be a whole number"),
        *(({"fraction": bad}, "fraction=.*: the share of rows") for bad in (0, 1, -0.5, 2, float("nan"), "0.2", True)),
        ({"memory": "some"}, "--memory some: not a size"),
        ({"memory": "64MB"}, r"this split needs at least 64\.0"),
    ],
)
def test_options_that_cannot_work(tmp_path, clicks, options, reason):
    with pytest.raises(OptionError, match=reason):
        daskfs.split(clicks, tmp_path / "train.zarr", tmp_path / "test.zarr", **options)
    assert not (tmp_path / "train.zarr").exists()


def test_places_that_cannot_work(tmp_path, clicks):
    daskfs.write_dataset(tmp_path / "dense.zarr", np.eye(3), [1, 2, 3])
    daskfs.write_dataset(tmp_path / "one.zarr", np.eye(1), [1])
    (tmp_path / "link.zarr").symlink_to(tmp_path / "clicks.zarr")
    (tmp_path / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for source, train, test, error, reason in (
        ("clicks.zarr", "clicks.zarr", "x.zarr", OptionError, "need places of their own"),
        ("clicks.zarr", "x.zarr", "link.zarr", OptionError, "need places of their own"),
        ("clicks.zarr", "x.zarr", "x.zarr", OptionError, "need places of their own"),
        ("clicks.zarr", "x.zarr", "x.zarr/test", OptionError, "need places of their own"),
        ("clicks.zarr", "x.zarr/train", "x.zarr", OptionError, "need places of their own"),
        ("clicks.zarr", "x.zarr", "clicks.zarr/inside", OptionError, "need places of their own"),
        ("clicks.zarr", "x.zarr", "dense.zarr", DatasetError, "already holds a complete dataset; --overwrite"),
        ("clicks.zarr", "file", "x.zarr", DatasetError, "is a file"),
        ("one.zarr", "x.zarr", "y.zarr", OptionError, "has one row; one of the two parts would be empty"),
        ("none.zarr", "x.zarr", "y.zarr", DatasetError, "no dataset here"),
    ):
        with pytest.raises(error, match=reason) as found:
            daskfs.split(tmp_path / source, tmp_path / train, tmp_path / test)
        assert "\n" not in str(found.value)
    with pytest.raises(OptionError, match="laid out in columns, which cannot be shuffled"):
        daskfs.split(tmp_path / "dense.zarr", tmp_path / "x.zarr", tmp_path / "y.zarr", shuffle=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_damaged_source_is_an_error_and_leaves_nothing_that_opens(tmp_path, clicks, layout):
    ds = clicks if layout == "rows" else daskfs.transpose(clicks, tmp_path / "columns.zarr", block_entries=64)
    chunk = next(path for path in (tmp_path / ds.url).glob("values/c/1/0"))
    kept = chunk.read_bytes()
    chunk.write_bytes(kept[:-9] + bytes(9))
    with pytest.raises(ChunkError, match="values/c/1/0"):
        daskfs.split(ds, tmp_path / "train.zarr", tmp_path / "test.zarr")
    with pytest.raises(DatasetError, match="incomplete; run the same command again"):
        daskfs.open_dataset(tmp_path / "train.zarr")
    chunk.write_bytes(kept)
    train, test = daskfs.split(ds, tmp_path / "train.zarr", tmp_path / "test.zarr")
    assert train.n_entries + test.n_entries == ds.n_entries


def test_the_command(tmp_path, clicks):
    places = [clicks.url, str(tmp_path / "train.zarr"), str(tmp_path / "test.zarr")]
    done = CliRunner().invoke(main, ["split", *places, "--test", "0.25", "--seed", "5", "--memory", "256MB"])
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, rows in zip(lines, (31, 10), strict=True):
        assert f"sparse, {rows} samples x {clicks.n_features} features, classes blue, lonely, red" in line
    again = CliRunner().invoke(main, ["split", *places, "--test", "0.25", "--seed", "5"])
    assert (again.exit_code, again.stdout) == (0, done.stdout)
    for arguments, reason in (
        (["--test", "0.5"], "already holds a complete dataset; --overwrite replaces it"),
        (["--test", "1"], "fraction=1.0: the share of rows for the test must be between 0 and 1"),
    ):
        refused = CliRunner().invoke(main, ["split", *places, *arguments])
        assert refused.exit_code == 2
        assert reason in refused.stderr
        assert refused.stderr.strip().count("\n") == 0
    mixed = CliRunner().invoke(main, ["split", *places, "--test", "0.25", "--shuffle", "--overwrite", "--workers", "1"])
    assert mixed.exit_code == 0, mixed.stderr
    assert "drawn at random" in CliRunner().invoke(main, ["split", "--help"]).stdout
