"""ingest in random order: the rows that ingest and shuffle give one after the other, and nothing left beside them."""

from __future__ import annotations

import fsspec
import pytest
from faults.samples import vw_lines
from whole_rows import rows_of

import daskfs
from daskfs.errors import DatasetError, OptionError


@pytest.fixture
def vw(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.vw").write_text(vw_lines(50, 1))
    return tmp_path / "in/x.vw"


@pytest.mark.parametrize(("option", "seed"), [(True, 0), (0, 0), (7, 7)])
def test_it_is_ingest_and_then_shuffle(tmp_path, vw, option, seed):
    got = daskfs.ingest(vw, tmp_path / "in/x.zarr", "vw", shuffle=option, memory="256MB")
    plain = daskfs.ingest(vw, tmp_path / "plain.zarr", "vw")
    assert got.digest == daskfs.shuffle(plain, tmp_path / "mixed.zarr", seed).digest
    assert sorted(rows_of(got)) == sorted(rows_of(plain)) != rows_of(got)
    assert got.names(got.read(0).ids) == [f"n^{name[2:]}" for name in got.names(got.read(0).ids)]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["x.vw", "x.zarr"]


def test_the_same_again_does_nothing_and_anything_else_is_refused(tmp_path, vw):
    first = daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=True)
    written = (tmp_path / "x.zarr/zarr.json").stat().st_mtime_ns
    assert daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=True).digest == first.digest
    assert (tmp_path / "x.zarr/zarr.json").stat().st_mtime_ns == written
    for other in (False, 1):
        with pytest.raises(DatasetError, match="already holds a complete dataset"):
            daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=other)
    assert daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=1, overwrite=True).digest != first.digest
    vw.write_text(vw_lines(20, 2))
    with pytest.raises(DatasetError, match="already holds a complete dataset"):
        daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "x.zarr"]


def test_a_folder_that_holds_the_output_too(tmp_path, vw):
    def run():
        return daskfs.ingest(vw.parent, vw.parent / "x.zarr", "vw", shuffle=True)

    digest = run().digest
    assert run().digest == digest


def test_a_dense_table(tmp_path):
    (tmp_path / "x.csv").write_text("label,a,b\n" + "".join(f"{row // 5},{row},1.5\n" for row in range(10)))
    with pytest.raises(OptionError, match="a dense table in columns cannot be shuffled row by row; use --layout rows"):
        daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="label", shuffle=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    got = daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="label", shuffle=True, layout="rows")
    assert sorted(got.read(0).X[:, 0]) == list(range(10)) != got.read(0).X[:, 0].tolist()


def test_a_bad_line_leaves_nothing(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:1\n1 1:a\n")
    with pytest.raises(daskfs.DaskfsError, match=r"x\.svm:2"):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", "svmlight", shuffle=True)
    assert [path.name for path in tmp_path.iterdir()] == ["x.svm"]


@pytest.mark.parametrize("option", [-1, 0.5, "yes"])
def test_what_is_no_seed(tmp_path, vw, option):
    with pytest.raises(OptionError, match=r"shuffle=.*: must be a whole number"):
        daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=option)


def test_on_s3_and_a_cluster(s3, vw, two_workers, tmp_path):
    url = s3.url("x.zarr")
    got = daskfs.ingest(vw, url, "vw", shuffle=2, client=two_workers, storage_options=s3.options)
    assert got.digest == daskfs.ingest(vw, tmp_path / "x.zarr", "vw", shuffle=2).digest
    keys = fsspec.filesystem("s3", **s3.options).find(url.rsplit("/", 1)[0])
    assert not [key for key in keys if "unshuffled" in key or "_unfinished" in key]
