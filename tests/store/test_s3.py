"""Datasets and sources behind a real S3 server."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.errors import ChunkError, DatasetError, SourceError, StorageError

X = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)
Y = np.array(["red", "blue"])[np.arange(50) % 2]
NAMES = [f"gene{i}" for i in range(12)]
LINES = b"".join(b"%d 2 'row%d|n f%d:0.5 g%d\n" % (i % 3, i, i % 7, i % 5) for i in range(200))


def assert_same(one: daskfs.Dataset, other: daskfs.Dataset) -> None:
    """Same content and meaning, block by block, whatever the store."""
    assert one.digest == other.digest
    assert one.n_blocks() == other.n_blocks()
    for number, (a, b) in enumerate(zip(one.blocks(), other.blocks(), strict=True)):
        for field in ("X", "y") if one.kind == "dense" else ("indptr", "ids", "values", "y", "weight"):
            np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
        if one.kind == "sparse":
            assert one.tags(number) == other.tags(number)


def keys_of(url: str, s3) -> list[str]:
    return fsspec.filesystem("s3", **s3.options).find(url)


MATRICES = {"dense": X, "sparse": sp.csr_array(np.where(X > 1, X, 0))}


@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
@pytest.mark.parametrize("kind", MATRICES)
def test_write_and_read(s3, tmp_path, kind, layout):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, MATRICES[kind], Y, NAMES, layout, chunk_bytes=500, storage_options=s3.options)
    daskfs.write_dataset(tmp_path / "d.zarr", MATRICES[kind], Y, NAMES, layout, chunk_bytes=500)
    ds = daskfs.open_dataset(url, s3.options)
    assert_same(ds, daskfs.open_dataset(tmp_path / "d.zarr"))
    assert ds.names([11, 0]) == ["gene11", "gene0"]
    assert ds.classes == ("blue", "red")
    assert daskfs.verify_dataset(url, storage_options=s3.options) == []
    assert not [key for key in keys_of(url, s3) if "_unfinished" in key]


def test_xarray_opens_it(s3):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, NAMES, chunk_bytes=500, storage_options=s3.options)
    seen = daskfs.open_dataset(url, s3.options).to_xarray()
    np.testing.assert_array_equal(seen.X.values, X)
    assert seen.feature.values.tolist() == NAMES


@pytest.mark.parametrize("name", ["source.vw", "source.vw.gz"])
def test_ingest_from_s3_to_s3(s3, tmp_path, name):
    source, out = s3.url(name), s3.url("d.zarr")
    (tmp_path / name).write_bytes(b"")
    for url, options in ((source, s3.options), (str(tmp_path / name), {})):
        with fsspec.open(url, "wb", compression="infer", **options) as file:
            file.write(LINES)
    ds = daskfs.ingest(source, out, "vw", storage_options=s3.options, source_options=s3.options)
    assert ds.n_samples == 200
    assert_same(ds, daskfs.ingest(tmp_path / name, tmp_path / "d.zarr", "vw"))
    assert set(ds.names(ds.read(0).ids)) == {f"n^f{i}" for i in range(7)} | {f"n^g{i}" for i in range(5)}
    assert not [key for key in keys_of(out, s3) if "_unfinished" in key]


def test_the_same_ingest_again_does_nothing_and_a_changed_source_is_noticed(s3):
    """Also where another process changed it: what s3fs remembers of a folder is not asked."""
    source, out = s3.url("source.svm"), s3.url("d.zarr")
    elsewhere = fsspec.filesystem("s3", skip_instance_cache=True, **s3.options)
    elsewhere.pipe_file(source, b"1 2:3\n0 1:1\n")
    options = {"storage_options": s3.options, "source_options": s3.options}
    digest = daskfs.ingest(source, out, "svmlight", **options).digest
    assert daskfs.ingest(source, out, "svmlight", **options).digest == digest
    elsewhere.pipe_file(source, b"1 2:4\n0 1:1\n")
    with pytest.raises(DatasetError, match="overwrite"):
        daskfs.ingest(source, out, "svmlight", **options)
    again = daskfs.ingest(source, out, "svmlight", overwrite=True, **options)
    assert again.read(0).values.tolist() == [4, 1]


def test_what_another_process_wrote_is_not_overwritten(s3):
    url = s3.url("d.zarr")
    with pytest.raises(DatasetError, match="no dataset here"):
        daskfs.open_dataset(url, s3.options)
    assert keys_of(url, s3) == []  # which s3fs may remember
    elsewhere = {**s3.options, "skip_instance_cache": True}
    daskfs.write_dataset(url, X, Y, storage_options=elsewhere)
    with pytest.raises(DatasetError, match="already holds a complete dataset"):
        daskfs.write_dataset(url, X[:10], Y[:10], storage_options=s3.options)
    assert daskfs.open_dataset(url, s3.options).n_samples == 50


def test_a_missing_chunk_is_named(s3):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, chunk_bytes=500, storage_options=s3.options)
    fsspec.filesystem("s3", **s3.options).rm(f"{url}/X/c/0/2")
    ds = daskfs.open_dataset(url, s3.options)
    with pytest.raises(ChunkError, match=f"{url}: chunk X/c/0/2: missing"):
        list(ds.blocks())


def test_an_unfinished_dataset_does_not_open(s3):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, storage_options=s3.options)
    fs = fsspec.filesystem("s3", **s3.options)
    fs.rm(f"{url}/zarr.json")
    fs.pipe_file(f"{url}/_unfinished/write_dataset", b"x")
    with pytest.raises(DatasetError, match="incomplete"):
        daskfs.open_dataset(url, s3.options)
    daskfs.write_dataset(url, X, Y, storage_options=s3.options)
    assert daskfs.verify_dataset(url, storage_options=s3.options) == []


def test_a_wrong_secret_and_a_missing_source(s3, tmp_path):
    wrong = {**s3.options, "secret": "wrong"}
    with pytest.raises(SourceError, match=r"nothing\.svm: no such file"):
        daskfs.ingest(s3.url("nothing.svm"), tmp_path / "d.zarr", "svmlight", source_options=s3.options)
    with pytest.raises(StorageError, match=r"refused \(403 Forbidden, \w+\); check the credentials") as caught:
        daskfs.open_dataset(s3.url("d.zarr"), wrong)
    assert "wrong" not in str(caught.value)
    with pytest.raises(StorageError, match="check the credentials") as caught:
        daskfs.ingest(s3.url("x.svm"), tmp_path / "d.zarr", "svmlight", source_options=wrong)
    assert "wrong" not in str(caught.value)
