"""F19: NaN and infinity, in labels and features, are refused with their position, or their rows dropped; no others."""

from __future__ import annotations

import time

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import xarray
from faults.samples import small_blocks
from pairwise import pairwise

import daskfs
from daskfs.errors import BadLineError, DatasetError, OptionError
from daskfs.store.ingest import arrays

WORDS = ["nan", "NaN", "-nan", "inf", "+Inf", "-INF", "infinity", "1e400", "-1e999"]
TEXT = {
    "svmlight value": ("svmlight", "{good} 2:{word}", "the value is NaN, infinite"),
    "svmlight label": ("svmlight", "{word} 2:1", "the label is NaN or infinite"),
    "vw value": ("vw", "{good} |a x:{word}", "value is NaN, infinite"),
    "vw label": ("vw", "{word} |a x", "the label is NaN or infinite"),
    "vw weight": ("vw", "{good} {word} |a x", "importance weight"),
    "vw scale": ("vw", "{good} |a:{word} x", "scale is not a number"),
}
GOOD = {"svmlight": "{} 2:1 3:{}", "vw": "{} |a x y:{}"}


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("kind", "bad", "reason"), TEXT.values(), ids=TEXT)
def test_f19_text_is_refused_with_its_line_or_skipped(tmp_path, kind, bad, reason, word):
    path = tmp_path / "x.txt"
    good = [GOOD[kind].format(i % 2, i + 0.5) for i in range(10)]
    lines = [*good[:7], bad.format(good="1", word=word), *good[7:]]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadLineError, match=reason) as caught:
        daskfs.ingest(path, tmp_path / "x.zarr", kind)
    assert (caught.value.file, caught.value.line) == (str(path), 8)
    skipped = daskfs.ingest(path, tmp_path / "skip.zarr", kind, on_bad_line="skip")
    (tmp_path / "good.txt").write_text("\n".join(good) + "\n")
    clean = daskfs.ingest(tmp_path / "good.txt", tmp_path / "good.zarr", kind)
    assert skipped.digest == clean.digest
    assert skipped.attributes["made"]["bad_lines"] == 1


def too_large_for_float32(kind: str) -> str:
    return {"svmlight": "1 2:3.5e38", "vw": "1 |a:1e20 x:1e20"}[kind]


@pytest.mark.parametrize("kind", GOOD)
def test_f19_a_value_that_becomes_infinite_is_refused(tmp_path, kind):
    (tmp_path / "x.txt").write_text(too_large_for_float32(kind) + "\n")
    with pytest.raises(BadLineError, match="too large for a float32"):
        daskfs.ingest(tmp_path / "x.txt", tmp_path / "x.zarr", kind)


X = np.random.default_rng(1).normal(size=(60, 9))
Y = np.arange(60) % 3
FORMS = {
    "numpy": np.array,
    "float32": lambda x: x.astype(np.float32),
    "fortran": np.asfortranarray,
    "dask": lambda x: da.from_array(x, chunks=(13, 4)),
    "xarray": lambda x: xarray.DataArray(x, dims=("a", "b")),
    "scipy": sp.csr_array,
    "scipy by column": sp.csc_array,
}
NOT_FINITE = {"nan": np.nan, "inf": np.inf, "minus inf": -np.inf}
CELLS = [(0, 0), (59, 8), (31, 4)]


def write(folder, form, X, y, **options):
    with small_blocks():
        daskfs.write_dataset(folder, FORMS[form](X), y, chunk_bytes=500, **options)
    return daskfs.open_dataset(folder)


@pairwise(form=list(FORMS), value=NOT_FINITE, layout=["columns", "rows", "both"])
def test_f19_features_are_refused_with_their_position(tmp_path, form, value, layout):
    for row, column in CELLS:
        bad = X.copy()
        bad[row, column] = value
        with pytest.raises(DatasetError, match=rf"X\[{row}, {column}\] is {value}"):
            write(tmp_path / "x.zarr", form, bad, Y, layout=layout)
        with pytest.raises(DatasetError, match=r"incomplete|no dataset here"):
            daskfs.open_dataset(tmp_path / "x.zarr")


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("value", NOT_FINITE.values(), ids=NOT_FINITE)
@pytest.mark.parametrize("form", FORMS)
def test_f19_labels_are_refused_with_their_position(tmp_path, form, value):
    for row in (0, 59, 31):
        bad = Y.astype(float)
        bad[row] = value
        with pytest.raises(DatasetError, match=rf"y\[{row}\] is {value}"):
            write(tmp_path / "x.zarr", form, X, bad)
        with pytest.raises(DatasetError, match=r"incomplete|no dataset"):
            daskfs.open_dataset(tmp_path / "x.zarr")


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("form", FORMS)
def test_f19_exactly_the_bad_rows_are_dropped(tmp_path, form, layout):
    bad, labels = X.copy(), Y.astype(float)
    bad[0, 0], bad[7, 3], bad[7, 4], bad[59, 8] = np.nan, np.inf, -np.inf, np.nan
    labels[31], labels[7] = np.inf, np.nan
    keep = np.setdiff1d(np.arange(60), [0, 7, 31, 59])
    dropped = write(tmp_path / "dropped.zarr", form, bad, labels, layout=layout, on_bad_row="drop")
    clean = write(tmp_path / "clean.zarr", form, X[keep], Y[keep].astype(float), layout=layout)
    assert dropped.n_samples == 56
    assert dropped.digest == clean.digest


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize(
    "labels", [Y, Y.astype(str), Y.astype(object).astype(str).astype(object)], ids=["int", "U", "O"]
)
@pytest.mark.parametrize("form", FORMS)
def test_f19_labels_of_any_kind_follow_their_rows(tmp_path, form, labels):
    bad = X.copy()
    bad[5] = np.nan
    dropped = write(tmp_path / "dropped.zarr", form, bad, labels, on_bad_row="drop")
    clean = write(tmp_path / "clean.zarr", form, np.delete(X, 5, 0), np.delete(labels, 5))
    assert dropped.digest == clean.digest


@pytest.mark.parametrize("form", FORMS)
def test_f19_nothing_is_left(tmp_path, form):
    with pytest.raises(OptionError, match="nothing to store"):
        write(tmp_path / "x.zarr", form, np.full((60, 9), np.nan), Y, on_bad_row="drop")


@pytest.mark.parametrize("form", ["scipy", "scipy by column"])
def test_f19_a_value_too_large_for_a_float32_is_refused_with_its_position(tmp_path, form):
    bad = X.copy()
    bad[12, 3] = 1e39
    with pytest.raises(DatasetError, match=r"X\[12, 3\] is 1e\+39"):
        write(tmp_path / "x.zarr", form, bad, Y)


def test_f19_a_dataset_that_was_there_survives_arguments_that_cannot_work(tmp_path):
    """Nothing is deleted for the sake of data that cannot be written."""
    write(tmp_path / "x.zarr", "numpy", X, Y)
    before = daskfs.open_dataset(tmp_path / "x.zarr").digest
    unknown = da.from_array(X, chunks=(13, 9))[da.from_array(Y > 0, chunks=13)]
    wrong = {
        "labels": (X, np.full(60, np.nan), None),
        "their number": (X, Y[:-1], None),
        "their kind": (X, Y + 1j, None),
        "names": (X, Y, ["a"] * 9),
        "the number of names": (X, Y, ["a"]),
        "no rows": (X[:0], Y[:0], None),
        "shape": (unknown, Y, None),
    }
    for what, (matrix, labels, names) in wrong.items():
        with pytest.raises((DatasetError, OptionError, TypeError)):
            daskfs.write_dataset(tmp_path / "x.zarr", matrix, labels, names, overwrite=True)
        assert daskfs.open_dataset(tmp_path / "x.zarr").digest == before, what


@pytest.mark.parametrize(
    ("task", "rows"), [("write_checked_chunk", 60), ("stage_tile", 13)], ids=["columns as they are", "rows"]
)
def test_f19_no_chunk_is_written_after_the_error(tmp_path, monkeypatch, task, rows):
    """Or it would land in the dataset that is written next in the same place."""
    write_chunk, started, ended = getattr(arrays, task), [], []

    def slow(*arguments):
        started.append(arguments)
        if len(started) == 1:
            raise DatasetError("the first is bad")
        time.sleep(0.3)
        ended.append(write_chunk(*arguments))
        return ended[-1]

    monkeypatch.setattr(arrays, task, slow)
    with pytest.raises(DatasetError, match="the first is bad"):
        daskfs.write_dataset(tmp_path / "x.zarr", da.from_array(X, chunks=(rows, 4)), Y, chunk_bytes=500)
    assert len(ended) == len(started) - 1
