"""F21, F22: numbers of every kind give what their float64 gives; what holds no numbers is refused."""

from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from pairwise import in_turn, pairwise

import daskfs
from daskfs.errors import OptionError

KINDS = ["i1", "u1", "?", "f2", "f4", "f8", "i2", "u2", "i4", "u4", "i8", "u8"]
BIG_ENDIAN = [">f2", ">f4", ">f8", ">i2", ">i4", ">u8"]
FORMS = {
    "numpy": np.asarray,
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "dask": lambda x: da.from_array(x, chunks=(3, 4)),
}
Y = np.arange(8) % 2
SMALL = np.random.default_rng(0).integers(0, 120, size=(8, 6))


def whole(folder, X, y=Y, **options) -> tuple[np.ndarray, np.ndarray]:
    daskfs.write_dataset(folder, X, y, chunk_bytes=64, overwrite=True, **options)
    ds = daskfs.open_dataset(folder)
    blocks = [block.X.copy() for block in ds.blocks()]
    return np.concatenate(blocks, axis=1 if ds.axis == "columns" else 0), ds


@pytest.mark.parametrize(
    ("kind", "form", "layout"), in_turn(2, [*KINDS, *BIG_ENDIAN], form=FORMS, layout=["columns", "rows"])
)
def test_f22_numeric_kinds_equal_the_float64_result(tmp_path, kind, form, layout):
    X = SMALL.astype(kind)
    cells, _ = whole(tmp_path / "x.zarr", FORMS[form](X), layout=layout)
    expected, _ = whole(tmp_path / "f8.zarr", X.astype("f8"), layout=layout)
    np.testing.assert_array_equal(cells, expected)
    assert cells.dtype == (np.float32 if X.dtype.itemsize < 4 or X.dtype.str[1:] == "f4" else np.float64)
    assert cells.dtype.isnative


@pytest.mark.parametrize("kind", ["i1", "u1", "?", "f4", "f8", "i2", "i4", "i8", "u8"])
def test_f22_numeric_kinds_of_sparse_matrices(tmp_path, kind):
    X = sp.csr_array(np.where(SMALL > 80, SMALL, 0).astype(kind))
    daskfs.write_dataset(tmp_path / "x.zarr", X, Y)
    daskfs.write_dataset(tmp_path / "f8.zarr", X.astype("f8"), Y)
    assert daskfs.open_dataset(tmp_path / "x.zarr").digest == daskfs.open_dataset(tmp_path / "f8.zarr").digest
    block = daskfs.open_dataset(tmp_path / "x.zarr").read(0)
    stored = sp.csr_array((block.values, block.ids.astype(np.int64), block.indptr), shape=X.shape)
    np.testing.assert_array_equal(stored.toarray(), X.astype("f8").toarray())


@pytest.mark.parametrize("kind", ["i1", ">i4", "?", "u8", "f2", ">f8"])
def test_f22_numeric_kinds_of_labels(tmp_path, kind):
    daskfs.write_dataset(tmp_path / "x.zarr", SMALL, Y.astype(kind))
    ds = daskfs.open_dataset(tmp_path / "x.zarr")
    assert np.concatenate(list(ds.targets())).tolist() == Y.tolist()
    assert ds.classes == (0, 1)


REFUSED = {
    "object": SMALL.astype(object),
    "complex": SMALL.astype(complex),
    "strings": SMALL.astype(str),
    "bytes": SMALL.astype(bytes),
    "dates": SMALL.astype("M8[s]"),
    "records": np.zeros((8, 6), [("a", "f8")]),
    "dask of complex": da.from_array(SMALL.astype(complex), chunks=3),
    "sparse of complex": sp.csr_array(SMALL.astype(complex)),
}


@pytest.mark.parametrize("X", REFUSED.values(), ids=REFUSED)
def test_f22_what_holds_no_numbers_is_refused(tmp_path, X):
    with pytest.raises(TypeError, match="is not numeric"):
        daskfs.write_dataset(tmp_path / "x.zarr", X, Y)
    assert not (tmp_path / "x.zarr").exists()


def test_f22_a_table_with_a_text_column_is_refused(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    with pytest.raises(TypeError, match="columns b are not numeric"):
        daskfs.write_dataset(tmp_path / "x.zarr", frame, [0, 1])


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0), (4,), (2, 2, 2), ()])
@pytest.mark.parametrize("make", [np.zeros, da.zeros], ids=["numpy", "dask"])
def test_f22_nothing_to_store(tmp_path, make, shape):
    with pytest.raises(OptionError, match=r"nothing to store|dimensions"):
        daskfs.write_dataset(tmp_path / "x.zarr", make(shape), np.zeros(shape[:1]))
    assert not (tmp_path / "x.zarr").exists()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_f22_nothing_to_store_in_a_sparse_matrix(tmp_path, shape):
    with pytest.raises(OptionError, match="nothing to store"):
        daskfs.write_dataset(tmp_path / "x.zarr", sp.csr_array(shape), np.zeros(shape[0]))


def test_f22_a_sparse_matrix_without_entries(tmp_path):
    daskfs.write_dataset(tmp_path / "x.zarr", sp.csr_array((3, 5)), [0, 1, 0])
    ds = daskfs.open_dataset(tmp_path / "x.zarr")
    assert (ds.n_samples, ds.n_features, ds.n_entries) == (3, 5, 0)
    assert ds.read(0).indptr.tolist() == [0, 0, 0, 0]


def test_f22_empty_rows_and_empty_dask_chunks(tmp_path):
    daskfs.write_dataset(tmp_path / "x.zarr", sp.csr_array(np.diag([0, 1, 0, 2, 0])), np.zeros(5))
    assert daskfs.open_dataset(tmp_path / "x.zarr").read(0).indptr.tolist() == [0, 0, 1, 1, 2, 2]
    X = da.concatenate([da.from_array(SMALL, chunks=(3, 6)), da.zeros((0, 6), dtype=SMALL.dtype)])
    np.testing.assert_array_equal(whole(tmp_path / "d.zarr", X)[0], SMALL)


@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1)])
def test_f21_a_single_row_or_column(tmp_path, shape, layout):
    X = np.arange(50.0)[: shape[0] * shape[1]].reshape(shape)
    cells, ds = whole(tmp_path / "x.zarr", X, np.zeros(shape[0]), layout=layout)
    np.testing.assert_array_equal(cells, X)
    assert (ds.n_samples, ds.n_features, ds.classes) == (*shape, (0,))


SCALES = {
    "constant": np.full((8, 6), 3.7),
    "zero": np.zeros((8, 6)),
    "minus zero": np.full((8, 6), -0.0),
    "duplicate columns": np.repeat(SMALL[:, :1], 6, 1) / 7,
    "1e30": SMALL * 1e30,
    "1e300": SMALL * 1e300,
    "1e-300": SMALL * 1e-300,
    "subnormal": np.full((8, 6), 5e-324),
    "largest": np.full((8, 6), np.finfo(np.float64).max),
    "mixed scales": SMALL * 10.0 ** np.arange(-30, 30, 10),
}


@pairwise(X=SCALES, compression=["none", "lz4", "zstd"], layout=["columns", "rows"])
def test_f21_float64_is_kept_to_the_bit(tmp_path, X, compression, layout):
    cells, _ = whole(tmp_path / "x.zarr", X, layout=layout, compression=compression)
    assert cells.dtype == np.float64
    assert cells.tobytes("C") == X.tobytes("C")


@pytest.mark.parametrize("scale", [1e-45, 1e-30, 1.0, 1e30, 2e36])
def test_f21_float32_is_kept_to_the_bit(tmp_path, scale):
    X = (SMALL * scale).astype(np.float32)
    cells, _ = whole(tmp_path / "x.zarr", X)
    assert cells.dtype == np.float32
    assert cells.tobytes("C") == X.tobytes("C")
    sparse = sp.csr_array(X)
    daskfs.write_dataset(tmp_path / "s.zarr", sparse, Y)
    np.testing.assert_array_equal(daskfs.open_dataset(tmp_path / "s.zarr").read(0).values, sparse.data)


@pytest.mark.parametrize(
    "algorithm",
    [daskfs.OnlineSubstitution(2), daskfs.SparseRandomFeatures(rounds=1, per_round=10)],
    ids=["columns", "random"],
)
@pytest.mark.parametrize("kind", [*KINDS, *BIG_ENDIAN])
def test_f22_a_selection_predicts_numbers_of_all_kinds_alike(algorithm, kind):
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2, size=(60, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows carry few features
        selection = daskfs.select(numbers.astype("f8"), algorithm, y=numbers[:, 1] - 2.0 * numbers[:, 4])
    expected = selection.predict(numbers.astype("f8"))
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(selection.predict(numbers.astype(kind)), expected)
