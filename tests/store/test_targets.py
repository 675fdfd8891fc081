"""Several numeric targets in a dataset: written, read, reordered and checked as one array y (rows, targets)."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray
import zarr
from faults.samples import small_blocks

import daskfs
from daskfs.errors import ChunkError, DatasetError, OptionError
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target

LAYOUTS = ["columns", "rows", "both", "sparse rows", "sparse columns"]
N = 150


def problem(n=N):
    """Rows that tell their number, in the features and in the targets."""
    X = np.random.default_rng(0).normal(size=(n, 9)).astype(np.float32) * (np.arange(9) % 2)
    X[:, 0] = np.arange(n) + 1
    return X, np.column_stack([np.arange(n) + 1, -2.5 * np.arange(n), np.sin(np.arange(n))])


def write(folder, layout, X, Y, **options):
    with small_blocks(entries=100):
        if layout.startswith("sparse"):
            daskfs.write_dataset(folder, sp.csr_array(X), Y, **options)
        else:
            daskfs.write_dataset(folder, X, Y, layout=layout, chunk_bytes=500, **options)
        if layout == "sparse columns":
            folder.rename(folder.with_name("rows.zarr"))
            daskfs.transpose(folder.with_name("rows.zarr"), folder, block_entries=60)
    return daskfs.open_dataset(folder)


def targets_of(dataset):
    return np.concatenate([piece.copy() for piece in dataset.targets()])


def row_numbers(dataset):
    """The first feature of all rows."""
    if dataset.axis == "columns":
        (block,) = dataset.columns([0])
        return block.X[:, 0] if dataset.kind == "dense" else block.values
    blocks = [dataset.read(number) for number in range(dataset.n_blocks())]
    if dataset.kind == "dense":
        return np.concatenate([block.X[:, 0] for block in blocks])
    return np.concatenate([block.values[block.indptr[:-1]] for block in blocks])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_written_is_read(tmp_path, layout):
    X, Y = problem()
    dataset = write(tmp_path / "d.zarr", layout, X, pd.DataFrame(Y, columns=["up", "down", "wave"]))
    assert dataset.target_names == dataset.meta.targets == ("up", "down", "wave")
    assert dataset.classes is None
    assert dataset.with_real_target().target_names == ("up", "down", "wave")
    assert np.array_equal(targets_of(dataset), Y)
    assert np.array_equal(row_numbers(dataset), np.arange(N) + 1)
    for axis in ("columns", "rows") if layout == "both" else (dataset.axis,):
        assert dataset.n_blocks(axis) > 1
        blocks = [dataset.read(number, axis) for number in range(dataset.n_blocks(axis))]
        if axis == "columns":
            assert all(np.array_equal(block.y, Y) for block in blocks)
        else:
            assert np.array_equal(np.concatenate([block.y for block in blocks]), Y)
            assert [block.nbytes for block in blocks] == dataset.block_sizes(axis).tolist()
    assert repr(dataset).endswith("targets up, down, wave>")
    assert daskfs.verify_dataset(dataset.url) == []


def test_names_of_targets(tmp_path):
    X, Y = problem()
    for given, names in (
        (Y, ("y0", "y1", "y2")),
        (Y.tolist(), ("y0", "y1", "y2")),
        (da.from_array(Y), ("y0", "y1", "y2")),
        (pd.DataFrame(Y), ("0", "1", "2")),
        (pd.DataFrame({"a": Y[:, 0].astype(int), "b": Y[:, 0] > 9, "c": Y[:, 2]}), ("a", "b", "c")),
        (xarray.DataArray(Y, dims=("row", "target"), coords={"target": ["a", "b", "c"]}), ("a", "b", "c")),
    ):
        daskfs.write_dataset(tmp_path / "d", X, given, overwrite=True)
        dataset = daskfs.open_dataset(tmp_path / "d")
        assert dataset.target_names == names
        np.testing.assert_array_equal(targets_of(dataset)[:, 2], Y[:, 2])


@pytest.mark.parametrize("chunks", [(N, 4), (40, 9), (40, 4)])
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
def test_dask_arrays(tmp_path, chunks, layout):
    X, Y = problem()
    daskfs.write_dataset(tmp_path / "a", da.from_array(X, chunks), Y, layout=layout, chunk_bytes=500)
    daskfs.write_dataset(tmp_path / "b", X, Y, layout=layout, chunk_bytes=500)
    one, other = map(daskfs.open_dataset, (tmp_path / "a", tmp_path / "b"))
    assert one.digest == other.digest
    assert np.array_equal(targets_of(one), Y)


def test_plain_zarr_and_xarray_read_it(tmp_path):
    X, Y = problem()
    dataset = write(tmp_path / "d.zarr", "columns", X, Y)
    assert np.array_equal(zarr.open(tmp_path / "d.zarr")["y"][:], Y)
    assert dataset.to_xarray().y.dims == ("sample", "target")
    write(tmp_path / "s.zarr", "sparse rows", X, Y)
    assert zarr.open(tmp_path / "s.zarr")["y"].shape[2] == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_matrix_in_memory_has_the_same_targets(tmp_path, layout):
    X, Y = problem()
    kind, axis = ("sparse" if "sparse" in layout else "dense"), "rows" if "rows" in layout else "columns"
    here = InMemory(sp.csr_array(X) if kind == "sparse" else X, *encode_target(Y, ["a", "b", "c"]), axis)
    assert here.with_real_target().meta.targets == here.target_names == ("a", "b", "c")
    block = here.read(0)
    assert np.array_equal(block.y, Y[: len(block.y)])
    assert here.meta.block_nbytes >= block.nbytes
    assert here.digest != InMemory(X, *encode_target(Y + 1, ["a", "b", "c"]), axis).digest


@pytest.mark.parametrize("layout", ["rows", "both", "sparse rows"])
def test_shuffled_rows_keep_their_targets(tmp_path, layout):
    X, Y = problem()
    source = write(tmp_path / "d.zarr", layout, X, Y)
    shuffled = daskfs.shuffle(source, tmp_path / "s.zarr", seed=1)
    rows = row_numbers(shuffled)
    assert rows.tolist() != sorted(rows.tolist())
    assert np.array_equal(targets_of(shuffled), Y[rows.astype(int) - 1])
    assert shuffled.target_names == ("y0", "y1", "y2")
    assert daskfs.verify_dataset(shuffled.url) == []


@pytest.mark.parametrize(
    ("layout", "shuffle"),
    [*((layout, False) for layout in LAYOUTS), ("rows", True), ("both", True), ("sparse rows", True)],
)
def test_split_rows_keep_their_targets(tmp_path, layout, shuffle):
    X, Y = problem()
    source = write(tmp_path / "d.zarr", layout, X, Y)
    parts = daskfs.split(source, tmp_path / "train.zarr", tmp_path / "test.zarr", 0.3, shuffle=shuffle)
    rows = np.concatenate([row_numbers(part) for part in parts]).astype(int)
    assert sorted(rows.tolist()) == list(range(1, N + 1))
    assert np.array_equal(np.concatenate([targets_of(part) for part in parts]), Y[rows - 1])
    assert all(part.target_names == ("y0", "y1", "y2") for part in parts)


def test_many_rows_in_several_chunks_of_y(tmp_path):
    n = (1 << 17) + 5
    X, Y = problem(n)
    daskfs.write_dataset(tmp_path / "d", X[:, :1], Y, layout="rows")
    dataset = daskfs.open_dataset(tmp_path / "d")
    assert dataset.arrays["y"].n_chunks == 2
    assert np.array_equal(targets_of(dataset), Y)
    shuffled = daskfs.shuffle(dataset, tmp_path / "s", memory="300MB")
    assert np.array_equal(targets_of(shuffled), Y[row_numbers(shuffled).astype(int) - 1])


def test_a_damaged_target_is_noticed(tmp_path):
    dataset = write(tmp_path / "d.zarr", "columns", *problem())
    file = tmp_path / "d.zarr" / dataset.arrays["y"].key(0)
    raw = bytearray(file.read_bytes())
    raw[100] ^= 1
    file.write_bytes(raw)
    assert [damage.key for damage in daskfs.verify_dataset(dataset.url)] == ["y/c/0/0"]
    with pytest.raises(ChunkError, match="y/c/0/0"):
        daskfs.open_dataset(tmp_path / "d.zarr").read(0)


def test_rows_with_a_target_that_is_not_finite(tmp_path):
    X, Y = problem()
    Y[7, 1] = np.nan
    for number, form in enumerate((X, sp.csr_array(X), da.from_array(X, (50, 9)))):
        with pytest.raises(DatasetError, match=r"y\[7, 1\] \(y1\) is nan: targets must be finite \(on_bad_row='drop'"):
            daskfs.write_dataset(tmp_path / str(number), form, Y)
        daskfs.write_dataset(tmp_path / str(number), form, Y, on_bad_row="drop")
        dataset = daskfs.open_dataset(tmp_path / str(number))
        assert np.array_equal(targets_of(dataset), np.delete(Y, 7, axis=0))
        assert dataset.n_samples == N - 1


@pytest.mark.parametrize(
    ("y", "error", "line"),
    [
        (np.zeros((N, 1)), DatasetError, r"y has shape \(150, 1\), X has 150 rows; give one target as y\[:, 0\]"),
        (np.zeros((N, 0)), DatasetError, r"y has shape \(150, 0\)"),
        (np.zeros((N, 2, 2)), DatasetError, r"y has shape \(150, 2, 2\)"),
        (np.zeros((N - 1, 2)), DatasetError, r"y has shape \(149, 2\), X has 150 rows"),
        (np.full((N, 2), "a"), TypeError, "several targets are numbers; give one target if it is a class"),
        (pd.DataFrame({"a": np.zeros(N), "b": ["x"] * N}), TypeError, "columns b are not numeric"),
        (pd.DataFrame(np.zeros((N, 2)), columns=["a", "a"]), OptionError, "two targets are called 'a'"),
        (np.ma.masked_less(np.zeros((N, 2)) - 1, 0), TypeError, r"y has masked values: fill them \(y.filled"),
    ],
)
def test_what_no_targets_are(tmp_path, y, error, line):
    with pytest.raises(error, match=line):
        daskfs.write_dataset(tmp_path / "d", problem()[0], y)


def test_one_target_is_written_as_before(tmp_path):
    """The digest that the last version without several targets wrote for the same data."""
    X = np.arange(12, dtype=np.float32).reshape(6, 2)
    daskfs.write_dataset(tmp_path / "a", X, np.arange(6) % 2)
    daskfs.write_dataset(tmp_path / "b", sp.csr_array(X), np.arange(6) / 7)
    digests = [daskfs.open_dataset(tmp_path / name).digest[:16] for name in "ab"]
    assert digests == ["716dffeb7ffb57dd", "b142d485104f452e"]
