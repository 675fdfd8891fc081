"""Datasets: what goes in comes out, whatever the kind, layout, chunking and path of reading."""

from __future__ import annotations

import json
import pickle
from contextlib import suppress

import dask.array as da
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import xarray
import zarr

import daskfs
from daskfs.errors import ChunkError, DatasetError, OptionError
from daskfs.store.dataset.layout import target_spec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.writer import new_writer
from daskfs.store.ingest.rows_kernels import first_not_finite
from daskfs.store.places.location import Location

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 37)).astype(np.float32)
Y = RNG.normal(size=200)
NAMES = [f"gene{i}" for i in range(37)]
FORMS = {
    "numpy": X,
    "fortran": np.asfortranarray(X),
    "dask": da.from_array(X, chunks=(50, 11)),
    "xarray": xarray.DataArray(X, dims=("cell", "gene"), coords={"gene": NAMES}),
    "xarray of dask": xarray.DataArray(
        da.from_array(X, chunks=(64, 37)), dims=("cell", "gene"), coords={"gene": NAMES}
    ),
}


def whole(ds: daskfs.Dataset, axis: str) -> np.ndarray:
    return np.concatenate([block.X.copy() for block in ds.blocks(axis=axis)], axis=1 if axis == "columns" else 0)


def csr(ds: daskfs.Dataset) -> tuple[sp.csr_array, np.ndarray]:
    indptr, ids, values, y = [0], [], [], []
    for block in ds.blocks():
        indptr += (block.indptr[1:] + indptr[-1]).tolist()
        ids.append(block.ids.copy())
        values.append(block.values.copy())
        y.append(block.y.copy())
    shape = (ds.n_samples, ds.n_features)
    matrix = sp.csr_array((np.concatenate(values), np.concatenate(ids).astype(np.int64), indptr), shape=shape)
    return matrix, np.concatenate(y)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
def test_dense_comes_back_from_any_array(tmp_path, form, layout):
    daskfs.write_dataset(tmp_path / "d.zarr", FORMS[form], Y, NAMES, layout, chunk_bytes=3000)
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    assert (ds.kind, ds.n_samples, ds.n_features, ds.layout) == ("dense", 200, 37, layout)
    for axis in ("columns", "rows") if layout == "both" else (layout,):
        assert ds.n_blocks(axis) > 3
        np.testing.assert_array_equal(whole(ds, axis), X)
    np.testing.assert_array_equal(np.concatenate([y.copy() for y in ds.targets()]), Y)
    assert ds.names([36, 0]) == ["gene36", "gene0"]


@pytest.mark.parametrize("chunk_bytes", [1, 700, 1600, 10_000, 10**9])
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_dense_blocks_cover_the_matrix_whatever_the_chunks(tmp_path, chunk_bytes, compression):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, layout="both", chunk_bytes=chunk_bytes, compression=compression)
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    np.testing.assert_array_equal(whole(ds, "columns"), X)
    np.testing.assert_array_equal(whole(ds, "rows"), X)
    column, row = ds.read(ds.n_blocks("columns") - 1, "columns"), ds.read(0, "rows")
    assert column.X.flags.f_contiguous
    assert row.X.flags.c_contiguous
    np.testing.assert_array_equal(column.y, Y)
    np.testing.assert_array_equal(row.y, Y[: len(row.X)])


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
def test_sparse_comes_back(tmp_path, kind):
    matrix = sp.random_array((300, 5000), density=0.01, rng=RNG, dtype=np.float64)
    daskfs.write_dataset(tmp_path / "s.zarr", kind(matrix), Y[:1].repeat(300))
    ds = daskfs.open_dataset(tmp_path / "s.zarr")
    back, _ = csr(ds)
    assert (ds.kind, ds.n_features, ds.n_entries) == ("sparse", 5000, matrix.nnz)
    np.testing.assert_array_equal(back.toarray(), matrix.toarray().astype(np.float32))


def test_sparse_column_names(tmp_path):
    daskfs.write_dataset(tmp_path / "s.zarr", sp.eye_array(3, format="csr"), [1, 2, 3], ["a", "b", "c"])
    assert daskfs.open_dataset(tmp_path / "s.zarr").names([2, 0]) == ["c", "a"]


def test_rows_longer_than_a_block_and_empty_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 64)
    lengths = [0, 10, 500, 0, 64, 65, 1, 0]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.concatenate([np.arange(n) for n in lengths])
    matrix = sp.csr_array((RNG.normal(size=len(ids)), ids, indptr), shape=(8, 600))
    daskfs.write_dataset(tmp_path / "s.zarr", matrix, np.arange(8.0))
    ds = daskfs.open_dataset(tmp_path / "s.zarr")
    assert ds.arrays["ids"].shape[0] > ds.n_blocks()
    back, y = csr(ds)
    np.testing.assert_array_equal(back.toarray(), matrix.toarray().astype(np.float32))
    np.testing.assert_array_equal(y, np.arange(8))


def test_values_that_are_all_one_are_left_out(tmp_path):
    matrix = sp.random_array((100, 50), density=0.1, rng=RNG)
    matrix.data[:] = 1
    daskfs.write_dataset(tmp_path / "s.zarr", matrix, Y[:100])
    ds = daskfs.open_dataset(tmp_path / "s.zarr")
    assert "values" not in ds.arrays
    np.testing.assert_array_equal(csr(ds)[0].toarray(), matrix.toarray())


def test_row_blocks_cost_little_more_than_their_own_bytes(tmp_path, monkeypatch):
    """Uncompressed, where padding cannot hide: at most 1.1 times what the rows hold."""
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 1 << 14)
    matrix = sp.random_array((5000, 100_000), density=85e-5, rng=RNG, format="csr", dtype=np.float32)
    daskfs.write_dataset(tmp_path / "s.zarr", matrix, Y[:1].repeat(5000), compression="none")
    ds = daskfs.open_dataset(tmp_path / "s.zarr")
    arrays = [tmp_path / "s.zarr" / name / "c" for name in ("ids", "values", "indptr", "y")]
    files = sum(file.stat().st_size for array in arrays for file in array.rglob("*") if file.is_file())
    last = ds.n_blocks() - 1  # the only one that is not full
    per_block = files / ds.n_blocks()
    for number in range(last):
        assert per_block <= 1.1 * ds.read(number).nbytes


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_the_direct_path_and_zarrs_path_agree(tmp_path, compression):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, NAMES, "both", chunk_bytes=3000, compression=compression)
    daskfs.write_dataset(tmp_path / "s.zarr", sp.csr_array(X * (X > 1)), Y, compression=compression)
    for url in (tmp_path / "d.zarr", tmp_path / "s.zarr"):
        ds = daskfs.open_dataset(url)
        for name, spec in ds.content.items():
            direct, through_zarr = (ArrayReader(ds.location, spec, direct=direct) for direct in (True, False))
            for number in range(spec.n_chunks):
                np.testing.assert_array_equal(direct.read(number), through_zarr.read(number), err_msg=name)


def test_plain_xarray_shows_labelled_dimensions(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, NAMES)
    opened = xarray.open_zarr(tmp_path / "d.zarr")
    assert opened.X.dims == ("sample", "feature")
    assert opened.feature.values.tolist() == NAMES
    np.testing.assert_array_equal(opened.X.sel(feature="gene5").values, X[:, 5])
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "d.zarr", mode="r")["y"][:], Y)


def test_to_xarray_is_lazy_and_whole(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, NAMES)
    lazy = daskfs.open_dataset(tmp_path / "d.zarr").to_xarray()
    assert hasattr(lazy.X.data, "dask")
    np.testing.assert_array_equal(lazy.X.values, X)


def test_sparse_to_xarray_has_its_arrays(tmp_path):
    daskfs.write_dataset(tmp_path / "s.zarr", sp.csr_array(X * (X > 1)), Y)
    arrays = daskfs.open_dataset(tmp_path / "s.zarr").to_xarray()
    assert arrays.ids.dims == ("chunk", "entry")
    assert arrays.y.dims == ("block", "row")


def test_blocks_in_any_order_and_without_reading_ahead(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, chunk_bytes=3000)
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    order = [3, 0, 3, 5]
    for ahead in (1, 2, 9):
        firsts = [int(block.ids[0]) for block in ds.blocks(order, ahead=ahead)]
        assert firsts == [int(ds.read(number).ids[0]) for number in order]


def test_a_dataset_travels_by_pickle(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y)
    ds = pickle.loads(pickle.dumps(daskfs.open_dataset(tmp_path / "d.zarr")))
    np.testing.assert_array_equal(whole(ds, "columns"), X)
    assert len(pickle.dumps(ds)) < 1000


def test_the_digest_changes_with_any_cell_name_or_label(tmp_path):
    def digest(X, y, names):
        daskfs.write_dataset(tmp_path / "d.zarr", X, y, names, overwrite=True)
        return daskfs.open_dataset(tmp_path / "d.zarr").digest

    other = X.copy()
    other[17, 5] += 1
    first = digest(X, Y, NAMES)
    assert first == digest(X, Y, NAMES)
    assert len({first, digest(other, Y, NAMES), digest(X, Y + 1, NAMES), digest(X, Y, NAMES[::-1])}) == 4


def test_memory_urls_hold_datasets(tmp_path):
    daskfs.write_dataset("memory://sets/d.zarr", X, Y, NAMES, "both", chunk_bytes=3000)
    ds = daskfs.open_dataset("memory://sets/d.zarr")
    np.testing.assert_array_equal(whole(ds, "rows"), X)
    assert ds.names([1]) == ["gene1"]


def test_reading_along_the_other_axis_says_what_to_do(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y)
    with pytest.raises(OptionError, match="layout='both'"):
        daskfs.open_dataset(tmp_path / "d.zarr").read(0, "rows")


def test_an_existing_dataset_is_not_overwritten(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y)
    with pytest.raises(DatasetError, match="--overwrite"):
        daskfs.write_dataset(tmp_path / "d.zarr", X[:5], Y[:5])
    assert daskfs.open_dataset(tmp_path / "d.zarr").n_samples == 200


def test_a_folder_of_other_things_is_never_touched(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    with pytest.raises(DatasetError, match="not a daskfs dataset"):
        daskfs.write_dataset(tmp_path / "home", X, Y, overwrite=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("url", ["nothing.zarr", "file.txt"])
def test_opening_what_is_no_dataset(tmp_path, url):
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(DatasetError, match="no dataset here"):
        daskfs.open_dataset(tmp_path / url)


def test_opening_another_zarr_group(tmp_path):
    zarr.open_group(tmp_path / "g.zarr", mode="w").attrs["title"] = "not ours"
    with pytest.raises(DatasetError, match="not a daskfs dataset"):
        daskfs.open_dataset(tmp_path / "g.zarr")


@pytest.mark.parametrize(
    ("names", "reason"), [(NAMES[:5], "5 feature names for 37"), (["same"] * 37, "'same' stands for two columns")]
)
def test_names_that_do_not_fit(tmp_path, names, reason):
    with pytest.raises(DatasetError, match=reason):
        daskfs.write_dataset(tmp_path / "d.zarr", X, Y, names)
    assert not (tmp_path / "d.zarr").exists()  # noticed before anything is written


@pytest.mark.kernels
@pytest.mark.parametrize("position", [-1, 0, 7])
def test_first_not_finite(position):
    values = np.ones(8)
    if position >= 0:
        values[position:] = np.nan
    assert first_not_finite(values) == position


def test_blocks_can_be_iterated_twice_and_left_early(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, chunk_bytes=3000)
    blocks = daskfs.open_dataset(tmp_path / "d.zarr").blocks()
    once = [int(block.ids[0]) for block in blocks]
    next(iter(blocks))
    assert [int(block.ids[0]) for block in blocks] == once


def test_blocks_cannot_be_changed(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, layout="both")
    daskfs.write_dataset(tmp_path / "s.zarr", sp.csr_array((np.abs(X) > 1).astype(np.float32)), Y)
    dense, sparse = daskfs.open_dataset(tmp_path / "d.zarr"), daskfs.open_dataset(tmp_path / "s.zarr")
    for block in (dense.read(0, "columns"), dense.read(0, "rows"), sparse.read(0)):
        for name in ("X", "y", "ids", "values", "indptr"):
            if hasattr(block, name):
                with pytest.raises(ValueError, match="read-only"):
                    getattr(block, name)[:] = 0


@pytest.mark.parametrize("url", ["local", "memory://swap/d.zarr"])
def test_two_chunks_that_changed_places_are_noticed_on_every_store(tmp_path, url):
    url = str(tmp_path / "d.zarr") if url == "local" else url
    daskfs.write_dataset(url, X, Y, chunk_bytes=3000)
    ds = daskfs.open_dataset(url)
    first, second = (ds.location.read(f"X/c/0/{number}") for number in (0, 1))
    ds.location.write("X/c/0/0", second)
    ds.location.write("X/c/0/1", first)
    with pytest.raises(ChunkError, match="X/c/0/0: replaced by other data"):
        ds.read(0)


@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
@pytest.mark.parametrize("form", ["numpy", "dask", "dask in columns", "sparse"])
def test_overwriting_keeps_the_old_dataset_until_the_new_one_is_certain(tmp_path, form, layout):
    bad, good = X.copy(), X[:50] + 1
    bad[150, 30] = np.nan
    forms = {
        "numpy": np.asarray,
        "dask": lambda a: da.from_array(a, chunks=(40, 10)),
        "dask in columns": lambda a: da.from_array(a, chunks=(-1, 10)),
        "sparse": sp.csr_array,
    }
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, NAMES, layout="both", chunk_bytes=3000)
    options = {"layout": layout, "overwrite": True, "chunk_bytes": 3000}
    with pytest.raises(DatasetError, match=r"X\[150, 30\] is nan"):
        daskfs.write_dataset(tmp_path / "d.zarr", forms[form](bad), Y, **options)
    np.testing.assert_array_equal(whole(daskfs.open_dataset(tmp_path / "d.zarr"), "columns"), X)
    daskfs.write_dataset(tmp_path / "d.zarr", forms[form](good), Y[:50], **options)
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    assert ds.n_samples == 50
    assert daskfs.verify_dataset(tmp_path / "d.zarr") == []
    members = {path.name for path in (tmp_path / "d.zarr").iterdir()}
    assert members == {"zarr.json", "manifest", *(name for name in ds.content)}


def test_a_foreign_zarr_group_is_never_overwritten(tmp_path):
    zarr.open_group(tmp_path / "g.zarr", mode="w").attrs["title"] = "not ours"
    with pytest.raises(DatasetError, match="not a daskfs dataset"):
        daskfs.write_dataset(tmp_path / "g.zarr", X, Y, overwrite=True)
    assert zarr.open_group(tmp_path / "g.zarr", mode="r").attrs["title"] == "not ours"


def test_plain_xarray_shows_a_missing_chunk_as_nan(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, chunk_bytes=3000)
    (tmp_path / "d.zarr/X/c/0/2").unlink()
    assert np.isnan(xarray.open_zarr(tmp_path / "d.zarr").X.values).any()


@pytest.mark.parametrize(
    "damage",
    [
        lambda root: root["consolidated_metadata"]["metadata"].update(
            {"../x": root["consolidated_metadata"]["metadata"]["X"]}
        ),
        lambda root: root["consolidated_metadata"]["metadata"]["X"]["chunk_grid"]["configuration"].update(
            chunk_shape=[0, 0]
        ),
        lambda root: root["consolidated_metadata"]["metadata"]["X"].update(shape=[-1, 3]),
        lambda root: root["consolidated_metadata"]["metadata"]["X"].update(shape=[2**60, 2**60]),
        lambda root: root["consolidated_metadata"]["metadata"]["X"].update(codecs=[{"name": "bytes"}]),
        lambda root: root["consolidated_metadata"]["metadata"].pop("y"),
        lambda root: root["attributes"]["daskfs"].update(version=99),
        lambda root: root["attributes"]["daskfs"].pop("digest"),
        lambda root: root["attributes"].clear(),
    ],
)
def test_f25_hostile_metadata_is_refused(tmp_path, damage):
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y)
    root = json.loads((tmp_path / "d.zarr/zarr.json").read_text())
    damage(root)
    (tmp_path / "d.zarr/zarr.json").write_text(json.dumps(root))
    with pytest.raises(DatasetError):
        daskfs.open_dataset(tmp_path / "d.zarr")


@pytest.mark.parametrize("option", ["layout", "compression", "on_bad_row"])
def test_a_wrong_word_for_an_option_is_refused(tmp_path, option):
    with pytest.raises(OptionError, match=f"{option}: 'nonsense' is none of"):
        daskfs.write_dataset(tmp_path / "d.zarr", X, Y, **{option: "nonsense"})


def test_data_frames_bring_names_and_mixed_kinds(tmp_path):
    frame = pandas.DataFrame({"a": [1.5, 2.5], "b": [True, False], "c": pandas.array([1, 2], dtype="Int64")})
    daskfs.write_dataset(tmp_path / "d.zarr", frame, [0, 1])
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    np.testing.assert_array_equal(whole(ds, "columns"), [[1.5, 1, 1], [2.5, 0, 2]])
    assert ds.names([0, 1, 2]) == ["a", "b", "c"]


REFUSED = {
    "text column": (pandas.DataFrame({"a": [1.0], "city": ["Paris"]}), "columns city are not numeric"),
    "xarray.Dataset": (xarray.Dataset({"X": (("a", "b"), np.eye(1))}), "pass one of its arrays"),
    "masked values": (np.ma.masked_array(np.eye(1), mask=[[True]]), "masked values"),
}


@pytest.mark.parametrize(("matrix", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_matrix_of_numbers_is_refused(tmp_path, matrix, reason):
    with pytest.raises(TypeError, match=reason):
        daskfs.write_dataset(tmp_path / "d.zarr", matrix, [0])


def test_what_a_killed_worker_has_left_is_swept(tmp_path):
    location = Location(tmp_path / "d.zarr")
    writer = new_writer(location)
    spec = target_spec(3)
    writer.write(spec, np.arange(3.0))
    left = tmp_path / "d.zarr" / f"{spec.key(0)}.0123abcd.part"
    left.write_bytes(b"half a chunk")
    with suppress(KeyError, DatasetError):  # the attributes of a whole dataset do not matter here
        writer.close({"kind": "dense"})
    assert not left.exists()
