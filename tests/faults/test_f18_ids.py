"""F18: feature ids 0 … 2^63 - 1 are exact; anything else is refused with its line; duplicates are summed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.errors import BadLineError, SourceError

EXACT = [0, 1, 2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**62, 2**63 - 1]


@pytest.mark.parametrize("largest", EXACT)
def test_f18_every_id_is_exact(tmp_path, largest):
    (tmp_path / "x.svm").write_text(f"1 {largest}:0.5\n0 {largest}:1\n")
    ds = daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight")
    assert ds.read(0).ids.tolist() == [largest, largest]
    assert ds.names(ds.read(0).ids) == [str(largest), str(largest)]
    assert (ds.n_features, ds.meta.max_id) == (largest + 1, largest)
    assert ds.to_xarray().ids.values[0, :2].tolist() == [largest, largest]


REFUSED = {
    "negative": "-1",
    "minus zero": "-0",
    "plus": "+1",
    "2^63": str(2**63),
    "2^64": str(2**64),
    "2^64 + 5": str(2**64 + 5),
    "20 digits": "1" + 19 * "0",
    "30 digits": 30 * "9",
    "a fraction": "1.5",
    "an exponent": "1e3",
    "hexadecimal": "0x10",
    "Arabic digits": "١٢",
}


@pytest.mark.parametrize("word", REFUSED.values(), ids=REFUSED)
def test_f18_other_ids_are_refused_with_their_line(tmp_path, word):
    path = tmp_path / "x.svm"
    path.write_text(f"1 2:3\n1 2:3 {word}:0.5\n0 1:1\n", encoding="utf-8")
    with pytest.raises(BadLineError, match=r"between 0 and 2\^63-1") as caught:
        daskfs.ingest(path, tmp_path / "x.zarr", "svmlight")
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    ds = daskfs.ingest(path, tmp_path / "skip.zarr", "svmlight", on_bad_line="skip")
    assert ds.read(0).ids.tolist() == [2, 1]


@pytest.mark.parametrize("count", [3, 64, 65, 1000])
def test_f18_unsorted_and_repeated_ids_are_sorted_and_summed(tmp_path, count):
    rng = np.random.default_rng(count)
    ids = rng.choice(np.array(EXACT, np.uint64), count)
    values = rng.integers(-8, 9, count) / 4
    row = " ".join(f"{i}:{x}" for i, x in zip(ids, values, strict=True))
    (tmp_path / "x.svm").write_text(f"1 {row}\n0 3:1\n")
    block = daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight").read(0)
    wanted = {int(i): float(values[ids == i].sum()) for i in np.unique(ids)}
    stop = block.indptr[1]
    assert dict(zip(block.ids[:stop].tolist(), block.values[:stop].tolist(), strict=True)) == wanted
    assert block.ids[:stop].tolist() == sorted(wanted)


OVERFLOWS = {
    "svmlight": ("1 7:3e38 2:1 7:3e38\n", "1 2:3\n"),
    "vw": ("1 'lost|a x:3e38 y x:3e38\n", "1 'kept|a z:3\n"),
}


@pytest.mark.parametrize(("bad", "good"), OVERFLOWS.values(), ids=OVERFLOWS)
@pytest.mark.parametrize("label", ["1", "word"])
def test_f18_a_sum_that_overflows_is_refused_with_its_line(tmp_path, bad, good, label):
    kind = "vw" if "|" in bad else "svmlight"
    path = tmp_path / "x.txt"
    path.write_text(good + bad.replace("1", label, 1) + good)
    options = {"labels": "strings"}
    with pytest.raises(BadLineError, match="more than a float32 holds") as caught:
        daskfs.ingest(path, tmp_path / "x.zarr", kind, **options)
    assert caught.value.line == 2
    ds = daskfs.ingest(path, tmp_path / "skip.zarr", kind, on_bad_line="skip", **options)
    assert (ds.n_samples, ds.n_entries, ds.classes) == (2, 2, ("1",))
    assert set(ds.tags(0)) <= {"", "kept"}
    assert len(set(ds.names(ds.read(0).ids))) == 1


def test_f18_a_sum_of_a_matrix_that_overflows_is_refused_with_its_row(tmp_path):
    X = sp.csr_array((np.array([1, 3e38, 3e38], np.float32), np.array([0, 1, 1]), np.array([0, 1, 3])), shape=(2, 4))
    with pytest.raises(SourceError, match="row 1: a repeated feature sums up"):
        daskfs.write_dataset(tmp_path / "x.zarr", X, [0, 1])


def test_f18_a_matrix_with_unsorted_and_repeated_columns(tmp_path):
    rng = np.random.default_rng(0)
    edges = np.arange(0, 501, 25)  # 20 rows of 25 entries each
    X = sp.csr_array((rng.integers(1, 5, 500), rng.integers(0, 30, 500), edges), shape=(20, 30))
    daskfs.write_dataset(tmp_path / "x.zarr", X, np.zeros(20))
    block = daskfs.open_dataset(tmp_path / "x.zarr").read(0)
    stored = sp.csr_array((block.values, block.ids.astype(np.int64), block.indptr), shape=X.shape)
    assert stored.has_canonical_format
    np.testing.assert_array_equal(stored.toarray(), X.toarray())
