"""Blocks of a matrix that is read in place: the cells of the matrix, each chunk read once, in the promised memory."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import daskfs
from daskfs.engine.run import memory_plan
from daskfs.errors import DatasetError
from daskfs.store import chunk_files
from daskfs.store.in_place import Gap, InPlace
from daskfs.store.ingest.arrays import stored_dtype
from daskfs.store.matrix import Matrix, matrix_of, open_matrix
from daskfs.store.places.location import Location
from daskfs.store.reorder.runs import HeldBack

ZSTD = zarr.codecs.ZstdCodec()
STORES = {
    "files": {"compressors": None},
    "zstd": {"compressors": ZSTD},
    "zarr": {"compressors": zarr.codecs.GzipCodec(level=1)},
}


def cells_of(dataset: InPlace, axis: str) -> np.ndarray:
    return np.concatenate([np.array(block.X) for block in dataset.blocks(axis=axis)], axis=int(axis == "columns"))


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(st.integers(2, 30), st.integers(1, 20)),
    chunks=st.tuples(st.integers(1, 30), st.integers(1, 20)),
    dtype=st.sampled_from(["bool", "int16", "int64", "float32", ">f8"]),
    axis=st.sampled_from(["rows", "columns"]),
    part=st.sampled_from([None, HeldBack(0.3, 1, True), HeldBack(0.3, 1, False)]),
    store=st.sampled_from(list(STORES)),
    seed=st.integers(0, 9),
)
def test_blocks_are_the_cells(shape, chunks, dtype, axis, part, store, seed):
    X = np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)
    with tempfile.TemporaryDirectory() as folder:
        array = zarr.create_array(
            folder, shape=shape, chunks=tuple(map(min, chunks, shape)), dtype=X.dtype, **STORES[store]
        )
        array[:] = X
        dataset = InPlace(matrix_of(array, np.arange(shape[0])), axis, part)
        expected = X if part is None else X[part.rows(shape[0])]
        found = cells_of(dataset, axis)
    assert found.dtype == stored_dtype(X.dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("url", ["{}/a.zarr", "memory://in-place/a.zarr"])
@pytest.mark.parametrize(
    ("zarr_format", "options"),
    [(2, {}), (2, {"compressors": None}), (3, {}), (3, {"compressors": None}), (3, {"shards": (40, 12)})],
)
def test_chunks_that_were_never_written_have_the_fill_value(url, zarr_format, options, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 24)).astype("float32")
    X[:20, 4:8] = X[:, 12:] = 7
    group = zarr.open_group(fsspec_store(url.format(tmp_path)), mode="w", zarr_format=zarr_format)
    array = group.create_array("X", shape=X.shape, chunks=(20, 4), dtype="float32", fill_value=7, **options)
    array[:] = X
    group.create_array("y", data=np.arange(40.0))
    assert array.nchunks_initialized < array.nchunks
    for axis in ("rows", "columns"):
        dataset = InPlace(open_matrix(Location(url.format(tmp_path))), axis)
        np.testing.assert_array_equal(cells_of(dataset, axis), X)


def fsspec_store(url: str):
    return url if "://" not in url else zarr.storage.FsspecStore.from_url(url)


@pytest.fixture
def opened(monkeypatch) -> Counter:
    """How often each chunk file is opened."""
    count: Counter[str] = Counter()

    def open_file(path: str):
        count[path] += 1
        return file(path)

    file = chunk_files.open_regular
    monkeypatch.setattr(chunk_files, "open_regular", open_file)
    return count


@pytest.mark.parametrize("compressors", [None, ZSTD])
@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("part", [None, HeldBack(0.2, 0, False)])
def test_every_file_is_read_once_in_a_pass(compressors, axis, part, opened, tmp_path):
    array = zarr.create_array(tmp_path, shape=(300, 50), chunks=(64, 12), dtype="f4", compressors=compressors)
    array[:] = np.random.default_rng(0).normal(size=array.shape)
    dataset = InPlace(matrix_of(array, np.arange(300)), axis, part)
    for _ in dataset.blocks(axis=axis):
        pass
    assert len(opened) == 25
    assert set(opened.values()) == {1}


def test_memory_of_reading_is_in_the_plan(tmp_path):
    def blocks(**options) -> int:
        array = zarr.create_array(
            tmp_path, shape=(4000, 6000), chunks=(4000, 3000), dtype="f4", overwrite=True, **options
        )
        dataset = InPlace(matrix_of(array, np.arange(4000)), "columns")
        return memory_plan(dataset, daskfs.OnlineSubstitution(2)).blocks // 48_000_000

    assert blocks(compressors=None) == 3
    assert blocks(compressors=ZSTD) == 7  # two threads, each with a file and its chunk
    assert blocks(compressors=zarr.codecs.GzipCodec()) == 7  # read by Zarr


@pytest.mark.parametrize("compressors", [None, ZSTD])
def test_gaps_and_infinity_are_found(compressors, tmp_path):
    array = zarr.create_array(tmp_path, shape=(30, 20), chunks=(7, 6), dtype="f8", compressors=compressors)
    X = np.ones(array.shape)
    X[17, 13] = np.nan
    array[:] = X
    with pytest.raises(Gap, match=r"column 'x13', row 17: is missing"):
        cells_of(InPlace(matrix_of(array, np.arange(30)), "columns"), "columns")
    array[17, 13] = -np.inf
    with pytest.raises(DatasetError, match=r"column 'x13', row 17: is -inf"):
        cells_of(InPlace(matrix_of(array, np.arange(30)), "rows"), "rows")


def test_a_damaged_chunk_is_named(tmp_path):
    group = zarr.open_group(tmp_path / "cells.zarr", mode="w")
    group.create_array("X", data=np.ones((30, 20)), chunks=(30, 5), compressors=None)
    group.create_array("y", data=np.arange(30.0))
    Path(tmp_path, "cells.zarr", "X", "c", "0", "3").write_bytes(b"short")
    with pytest.raises(daskfs.DaskfsError) as error:
        daskfs.select(str(tmp_path / "cells.zarr"), daskfs.OnlineSubstitution(2))
    assert str(error.value) == f"{tmp_path}/cells.zarr/X: chunk c/0/3: 5 bytes where 1200 belong"


def test_a_matrix_has_two_dimensions():
    with pytest.raises(daskfs.DaskfsError, match="give rows and columns"):
        Matrix(np.zeros(3), np.zeros(3))
