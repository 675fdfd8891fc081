"""Rows sorted by label are as good as mixed rows for MISSION, which learns row by row, in every way in."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from click.testing import CliRunner

import daskfs
from daskfs.cli import main
from daskfs.engine.data import mix
from daskfs.engine.data.mix import mixed_rows, order_of_shuffle
from daskfs.errors import DatasetError, OptionError
from daskfs.sklearn import MissionClassifier
from daskfs.store.dataset.label_order import are_sorted
from daskfs.store.in_memory import InMemory
from daskfs.store.in_place import InPlace
from daskfs.store.ingest.arrays import encode_target
from daskfs.store.matrix import Matrix
from daskfs.store.reorder.runs import row_keys

N, P, TRUE = 20_000, 40, 5


def some_rows(n=N):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, P)).astype(np.float32)
    y = np.where(X[:, :TRUE] @ [1.5, -1.5, 1, -1, 1] + rng.logistic(size=n) > 0, "yes", "no")
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


@pytest.fixture(scope="module")
def rows():
    return some_rows()


@pytest.fixture(scope="module")
def mixed_accuracy(rows):
    X, y = rows
    order = np.random.default_rng(1).permutation(N)
    return accuracy(daskfs.select(X[order], mission(), y=y[order]), rows)


def mission(**options):
    return daskfs.Mission(TRUE, width=2**10, refit=0, **options)


def accuracy(selection, rows):
    X, y = rows
    return (selection.predict(X) == y).mean()


def check(selection, rows, mixed_accuracy):
    assert sorted(selection.features) == list(range(TRUE))
    assert accuracy(selection, rows) == pytest.approx(mixed_accuracy, abs=0.01)


@pytest.mark.parametrize("kind", ["numpy", "by columns", "sparse", "float64"])
def test_arrays_are_read_in_random_order(rows, mixed_accuracy, kind, recwarn):
    X, y = rows
    convert = {"by columns": np.asfortranarray, "sparse": sp.csr_array, "float64": np.float64}.get(kind, np.asarray)
    check(daskfs.select(convert(X), mission(), y=y), rows, mixed_accuracy)
    assert not recwarn.list, "nothing is written"


def test_an_estimator(rows, mixed_accuracy):
    fitted = MissionClassifier(n_select=TRUE, width=2**10, refit=0).fit(*rows)
    assert fitted.score(*rows) == pytest.approx(mixed_accuracy, abs=0.01)


@pytest.mark.parametrize("kind", ["rows", "both", "zarr", "dask"])
def test_other_data_are_mixed_in_a_copy_that_is_announced(tmp_path, rows, mixed_accuracy, kind):
    X, y = rows
    if kind in ("rows", "both"):
        data = daskfs.write_dataset(tmp_path / "x.zarr", X, y, layout=kind)
        url, digest, y = data.url, data.digest, None
    elif kind == "zarr":
        zarr.create_array(tmp_path / "x.zarr", data=X, chunks=(5000, P))
        data, url, digest = zarr.open_array(tmp_path / "x.zarr"), "X", None
    else:
        data, url, digest = da.from_array(X, chunks=(5000, P)), "X", None
    with pytest.warns(UserWarning, match=r"sorted by label, and Mission learns .* a copy .* order='as-is'"):
        selection = daskfs.select(data, mission(), y=y)
    check(selection, rows, mixed_accuracy)
    assert selection.source["url"] == url, "not the copy, which is gone"
    assert digest in (None, selection.source["digest"])


def test_as_is_learns_sorted_rows_and_says_so(tmp_path, rows):
    daskfs.write_dataset(tmp_path / "x.zarr", *rows, layout="rows")
    for data, y in ((tmp_path / "x.zarr", None), rows):
        with pytest.warns(UserWarning, match="sorted by label, .* row by row; they are learned in this order"):
            selection = daskfs.select(data, mission(), y=y, order="as-is")
        assert accuracy(selection, rows) < 0.6
    with pytest.raises(OptionError, match="order: 'sorted' is none of auto, as-is"):
        daskfs.select(tmp_path / "x.zarr", mission(), order="sorted")


def test_what_reads_columns_is_left_alone(rows, recwarn):
    X, y = rows
    one, other = (daskfs.select(X, daskfs.OnlineSubstitution(2), y=y, order=order) for order in ("auto", "as-is"))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert not recwarn.list


@pytest.mark.parametrize("way", ["all rows", "as-is", "held back"])
def test_the_command(tmp_path, rows, mixed_accuracy, way):
    daskfs.write_dataset(tmp_path / "x.zarr", *rows, layout="both" if way == "held back" else "rows")
    flags = ["-a", "mission", "-k", TRUE, "--width", 2**10, "--refit", 0, "--serial", "--out", tmp_path / "run"]
    flags += ["--test", "0.2"] if way == "held back" else []
    flags += ["--order", "as-is"] if way == "as-is" else []
    done = CliRunner().invoke(main, ["select", str(tmp_path / "x.zarr"), *map(str, flags)])
    assert done.exit_code == 0, done.stderr
    said = " ".join(done.stderr.split()) + " ".join(done.stdout.split())
    assert "sorted by label, and" in said
    assert ("written in random order" in said) == (way == "held back")
    (run,) = tmp_path.glob("run/runs/*") if way == "held back" else [tmp_path / "run"]
    selection = daskfs.load_selection(run)
    if way == "as-is":
        assert accuracy(selection, rows) < 0.6
    else:
        check(selection, rows, mixed_accuracy)


@pytest.mark.slow
def test_an_array_that_a_job_reads_in_place(tmp_path, rows, mixed_accuracy):
    X, y = rows
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.txt").write_text("\n".join(y))
    flags = ["-a", "mission", "-k", TRUE, "--width", 2**10, "--refit", 0, "--serial", "--out", tmp_path / "run"]
    flags += ["--label", tmp_path / "y.txt"]
    done = CliRunner().invoke(main, ["select", str(tmp_path / "x.npy"), *map(str, flags)])
    assert done.exit_code == 0, done.stderr
    (run,) = tmp_path.glob("run/runs/*")
    check(daskfs.load_selection(run), rows, mixed_accuracy)


def test_a_copy_of_a_part_has_no_rows_that_are_held_back():
    """All rows are not sorted, since runs are short beside them, and those that are left to select from are."""
    y = np.repeat([0.0, 1.0], [8704, 512])
    X = np.random.default_rng(0).normal(size=(len(y), 160)).astype(np.float32)
    train, _ = InPlace(Matrix(X, y, chunks=(1024, 160)), "rows").held_back(0.2, seed=0)
    with (
        pytest.warns(UserWarning, match="a copy in random order"),
        mixed_rows(train, mission(), "auto", client=None) as mixed,
    ):
        cells = np.concatenate([block.X.copy() for block in mixed.blocks()])
    own = np.concatenate([block.X.copy() for block in train.blocks()])
    assert mixed is not train
    assert np.array_equal(own[order_of_shuffle(len(own))], cells)


def test_a_bad_value_is_named_with_its_row_in_the_source(rows):
    X, y = rows[0].copy(), rows[1]
    X[17, 3] = 1e30
    with pytest.raises(DatasetError, match="row 17: feature 'x3'"):
        daskfs.select(X, mission(scale=False), y=y)


@pytest.mark.parametrize("fault", ["no room", "other machines"])
def test_what_cannot_be_mixed_is_refused_with_the_command(tmp_path, rows, monkeypatch, fault):
    daskfs.write_dataset(tmp_path / "x.zarr", *rows, layout="rows")
    dataset = daskfs.open_dataset(tmp_path / "x.zarr")
    if fault == "no room":
        monkeypatch.setattr(mix.shutil, "disk_usage", lambda _: mix.shutil._ntuple_diskusage(10, 9, 1))
    else:
        monkeypatch.setattr(mix, "require_worker", lambda client: None)
        monkeypatch.setattr(mix, "workers_of", lambda _: {"tcp://127.0.0.1:1": {}, "tcp://10.0.0.2:1": {}})
    with (
        pytest.raises(OptionError, match=r"daskfs shuffle .*x\.zarr MIXED\.zarr .*--order as-is"),
        mix.mixed_rows(dataset, mission(), "auto", None if fault == "no room" else object()),
    ):
        pass


@pytest.mark.parametrize("kind", ["numpy", "sparse"])
def test_memory_is_mixed_as_shuffle_mixes(tmp_path, kind):
    X, y = some_rows(300)
    X = sp.csr_array(X * (np.abs(X) > 1)) if kind == "sparse" else X
    names, weight = [f"c{i}" for i in range(P)], np.arange(1, 301, dtype=np.float32)
    here = InMemory(X, *encode_target(y), "rows", names, weight).in_random_order()
    daskfs.write_dataset(tmp_path / "x.zarr", X, y, layout="rows")
    there = daskfs.shuffle(tmp_path / "x.zarr", tmp_path / "mixed.zarr")
    assert here.names([3]) == ["c3"]
    order = np.argsort(row_keys(0, 0, 300))
    np.testing.assert_array_equal(np.concatenate([block.weight for block in here.blocks()]), weight[order])
    for one, other in zip(here.blocks(), there.blocks(), strict=True):
        for name in ("y", *(("X",) if kind == "numpy" else ("indptr", "ids", "values"))):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_few_long_rows_do_not_fit_into_the_first_look():
    """5,000 rows of 300 columns are more numbers than are buffered."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 300)).astype(np.float32)
    y = X[:, :4].sum(axis=1) + rng.logistic(size=5000) > 0
    order = np.argsort(y, kind="stable")
    selection = daskfs.select(X[order], mission(), y=y[order])
    assert len({0, 1, 2, 3}.intersection(selection.features.tolist())) == 4
    assert (selection.predict(X) == y).mean() > 0.7


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.arange(20_000) // 10_000, True),
        (np.arange(20_000) // 5_000, True),
        (np.arange(20_000) // 1_000 % 2, False),
        (np.arange(20_000) // 4 % 2, False),
        (np.random.default_rng(0).integers(0, 2, 20_000), False),
        (np.sort(np.random.default_rng(0).normal(300, 1, 20_000)), True),
        (np.random.default_rng(0).normal(1e6, 1, 20_000), False),
        (np.ones(20_000), False),
        (np.arange(1), False),
        (np.zeros(0), False),
    ],
)
def test_what_is_sorted(y, expected):
    y = np.asarray(y, np.float64)
    assert are_sorted([y]) is expected
    assert are_sorted(np.array_split(y, 7)) is expected
    assert are_sorted(np.array_split(y, 1 + len(y) // 300)) is expected
