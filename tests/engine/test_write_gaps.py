"""write_dataset of matrices with NaN, in any form and cut, against plain numpy; and tiles of dask arrays in memory."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.errors import DatasetError


def gappy(rows=60, columns=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(-5, 9, (rows, columns)).astype(np.float64)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:, 2] = 1.5
    return X, rng.integers(0, 2, rows)


def filled(X, how):
    """The oracle."""
    if how == "drop":
        return X[~np.isnan(X).any(axis=1)]
    fill = {"median": np.nanmedian, "zero": lambda X, axis: np.zeros(X.shape[1])}.get(how, np.nanmean)(X, axis=0)
    if how == "median":  # the lower of two middle values
        fill = np.array([np.sort(column[~np.isnan(column)])[(np.sum(~np.isnan(column)) - 1) // 2] for column in X.T])
    whole = np.where(np.isnan(X), fill, X)
    gaps = np.isnan(X).any(axis=0)
    return np.hstack([whole, np.isnan(X[:, gaps])]) if how == "indicator" else whole


def read(dataset):
    if dataset.kind == "dense":
        axis = dataset.axis
        return np.concatenate(
            [block.X.copy() for block in dataset.blocks(axis=axis)], axis=1 if axis == "columns" else 0
        )
    X = np.zeros((dataset.n_samples, dataset.n_features))
    for block in dataset.blocks():
        at = np.repeat(np.arange(len(block.y)), np.diff(block.indptr))
        X[block.first + at, block.ids.astype(int)] = block.values
    return X


FORMS = {
    "numpy": lambda X: X,
    "frame": lambda X: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]),
    "sparse": lambda X: sp.csr_array(X),
    "dask in rows": lambda X: da.from_array(X, chunks=(17, -1)),
    "dask in columns": lambda X: da.from_array(X, chunks=(-1, 2)),
    "dask in squares": lambda X: da.from_array(X, chunks=(13, 3)),
}


@pytest.mark.slow_but_cover(2)
@pytest.mark.parametrize("how", ["mean", "median", "indicator", "drop", "zero"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
def test_nan_is_filled_alike_in_every_form(tmp_path, form, how, layout):
    X, y = gappy()
    daskfs.write_dataset(tmp_path / "x.zarr", FORMS[form](X), y, layout=layout, missing=how, chunk_bytes=500)
    got = daskfs.open_dataset(tmp_path / "x.zarr")
    expected = filled(X, how)
    np.testing.assert_allclose(read(got), expected, rtol=1e-6 if form == "sparse" else 1e-12)
    names = got.names(np.arange(got.n_features))
    prefix = "c" if form == "frame" else "x"
    gaps = np.flatnonzero(np.isnan(X).any(axis=0)) if how == "indicator" else ()
    assert names == [f"{prefix}{i}" for i in range(7)] + [f"{prefix}{i}=(missing)" for i in gaps]
    if how in ("mean", "median", "indicator"):
        assert list(got.attributes["missing"]["values"]) == names[:7]
    kept = ~np.isnan(X).any(axis=1) if how == "drop" else slice(None)
    assert np.concatenate(list(got.targets())).tolist() == y[kept].tolist()


@pytest.mark.parametrize("form", ["numpy", "sparse", "dask in squares"])
def test_without_a_choice_nan_is_an_error_and_infinity_always_is(tmp_path, form):
    X, y = gappy()
    with pytest.raises(DatasetError, match=r"X\[\d+, \d\] is nan: values must be finite"):
        daskfs.write_dataset(tmp_path / "x.zarr", FORMS[form](X), y)
    X[40, 5] = np.inf
    with pytest.raises(DatasetError, match=r"X\[40, 5\] is inf: values must be finite"):
        daskfs.write_dataset(tmp_path / "x.zarr", FORMS[form](X), y, missing="mean")


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
@pytest.mark.parametrize("chunks", [(40, 40), (100, 9), (9, 100), (33, 70)])
def test_squares_of_a_dask_array_are_written_one_by_one(tmp_path, layout, chunks):
    """No task holds more than a chunk of the array, and every chunk is computed once."""
    rng = np.random.default_rng(1)
    X, held = rng.normal(size=(100, 90)).astype(np.float32), []

    def note(cells):
        held.append(cells.shape)
        return cells

    lazy = da.from_array(X, chunks=chunks).map_blocks(note, dtype=X.dtype, meta=np.empty((0, 0), X.dtype))
    daskfs.write_dataset(tmp_path / "x.zarr", lazy, np.arange(100) % 3, layout=layout, chunk_bytes=4000)
    np.testing.assert_array_equal(read(daskfs.open_dataset(tmp_path / "x.zarr")), X)
    assert len(held) == lazy.npartitions
    daskfs.write_dataset(tmp_path / "y.zarr", X, np.arange(100) % 3, layout=layout, chunk_bytes=4000)
    assert daskfs.open_dataset(tmp_path / "y.zarr").digest == daskfs.open_dataset(tmp_path / "x.zarr").digest
