"""SelectKBest and VarianceThreshold beside scikit-learn's, for everything that X may be."""

from __future__ import annotations

import warnings
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray
import zarr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from sklearn import feature_selection as theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskfs
from daskfs.errors import OptionError
from daskfs.sklearn import SelectKBest, VarianceThreshold

ROWS, COLUMNS = 240, 30
NAMES = [f"gene{column}" for column in range(COLUMNS)]


def matrix() -> np.ndarray:
    """Columns of counts in float64, of which column 3 is constant, and column 5 has entries in few rows."""
    X = np.random.default_rng(0).poisson(1.0, (ROWS, COLUMNS)) * 0.1
    X[:, 3], X[9:, 5] = 0, 0
    return X


def labels() -> np.ndarray:
    score = matrix()[:, 7] - matrix()[:, 20] + 0.1 * np.random.default_rng(1).normal(size=ROWS)
    return np.digitize(score, [-0.05, 0.05])


def as_zarr(X: np.ndarray, folder, chunks: tuple[int, int]) -> zarr.Array:
    array = zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=chunks, dtype=X.dtype)
    array[:] = X
    return array


def as_dataset(X: np.ndarray, folder, layout: str, y: np.ndarray) -> str:
    url = str(folder / "d.zarr")
    if layout == "sparse":
        daskfs.write_dataset(folder / "rows.zarr", sp.csr_array(X), y)
        daskfs.transpose(folder / "rows.zarr", url)
    else:
        daskfs.write_dataset(url, X, y, NAMES, layout=layout, chunk_bytes=9_000)
    return url


ARRAYS = {
    "numpy": lambda X, folder: X,
    "numpy, Fortran": lambda X, folder: np.asfortranarray(X),
    "list": lambda X, folder: X.tolist(),
    "pandas": lambda X, folder: pd.DataFrame(X, columns=NAMES),
    "xarray": lambda X, folder: xarray.DataArray(X, dims=("row", "gene"), coords={"gene": NAMES}),
    "CSR": lambda X, folder: sp.csr_array(X),
    "CSC, with duplicates": lambda X, folder: duplicated(X),
    "dask": lambda X, folder: da.from_array(X, chunks=(50, 7)),
    "dask, columns": lambda X, folder: da.from_array(X, chunks=(ROWS, 4)),
    "dask, sparse": lambda X, folder: da.from_array(X, chunks=(50, 7)).map_blocks(sp.csr_matrix),
    "xarray of dask": lambda X, folder: xarray.DataArray(
        da.from_array(X, chunks=(99, 30)), dims=("row", "gene"), coords={"gene": NAMES}
    ),
    "Zarr": lambda X, folder: as_zarr(X, folder, (31, 30)),
}
DATASETS = {layout: partial(as_dataset, layout=layout) for layout in ("columns", "rows", "both", "sparse")}


def duplicated(X: np.ndarray) -> sp.csc_array:
    """Every entry is there twice, with half of its value."""
    half = sp.csc_array(X / 2)
    return sp.csc_array((np.repeat(half.data, 2), np.repeat(half.indices, 2), 2 * half.indptr), X.shape)


def reference(score: str, X: np.ndarray, y: np.ndarray, k: int = 6) -> theirs.SelectKBest:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the constant column
        return theirs.SelectKBest(getattr(theirs, score), k=k).fit(X, y)


def check_same(ours: SelectKBest, expected: theirs.SelectKBest, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(ours.scores_, expected.scores_, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(ours.pvalues_, expected.pvalues_, rtol=rtol, atol=1e-300)
    assert ours.get_support().tolist() == expected.get_support().tolist()
    known = ~np.isnan(expected.pvalues_)
    np.testing.assert_allclose(ours.qvalues_[known], false_discovery_control(expected.pvalues_[known]), rtol=rtol)
    assert np.isnan(ours.qvalues_[~known]).all()
    assert ours.n_features_in_ == COLUMNS


scores = pytest.mark.parametrize("score", ["f_classif", "f_regression", "chi2"])


@pytest.mark.slow_but_cover(1)
@scores
@pytest.mark.parametrize("form", ARRAYS)
def test_arrays(form, score, tmp_path):
    X, y = ARRAYS[form](matrix(), tmp_path), labels()
    ours = SelectKBest(getattr(theirs, score), k=6).fit(X, y)
    check_same(ours, reference(score, matrix(), y))
    kept = ours.transform(X)
    if form in ("dask", "dask, columns", "dask, sparse", "xarray of dask", "Zarr"):
        kept = kept.compute()  # it was lazy
    kept = kept.toarray() if sp.issparse(kept) else np.asarray(kept)
    np.testing.assert_array_equal(kept.astype(float), matrix()[:, ours.get_support()])
    has_names = form in ("pandas", "xarray", "xarray of dask")
    assert hasattr(ours, "feature_names_in_") == has_names
    names = np.array(NAMES if has_names else [f"x{column}" for column in range(COLUMNS)])
    assert ours.get_feature_names_out().tolist() == names[ours.get_support()].tolist()


@pytest.mark.slow_but_cover(1)
@scores
@pytest.mark.parametrize("layout", DATASETS)
def test_datasets(layout, score, tmp_path):
    X, y = matrix().astype(np.float32).astype(np.float64), labels()  # sparse datasets hold float32
    url = DATASETS[layout](X, tmp_path, y=y)
    ours = SelectKBest(score, k=6).fit(url)
    check_same(ours, reference(score, X, y))
    kept = ours.transform(url)
    np.testing.assert_allclose(kept.toarray() if layout == "sparse" else kept, X[:, ours.get_support()])
    variances = VarianceThreshold(0.008).fit(daskfs.open_dataset(url))
    np.testing.assert_allclose(variances.variances_, X.var(axis=0), rtol=1e-6)
    assert hasattr(ours, "feature_names_in_") == (layout != "sparse")


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("threshold", [0.0, 0.0098])
def test_variances(form, threshold, tmp_path):
    X = ARRAYS[form](matrix(), tmp_path)
    ours, expected = VarianceThreshold(threshold).fit(X), theirs.VarianceThreshold(threshold).fit(matrix())
    np.testing.assert_allclose(ours.variances_, matrix().var(axis=0), rtol=1e-6)
    assert ours.get_support().tolist() == expected.get_support().tolist()
    assert 0 < expected.get_support().sum() < COLUMNS
    assert ours.variances_[3] == 0


@given(st.lists(st.integers(1, 60), min_size=1), st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_any_chunking(rows, columns, of_numbers):
    sizes = [
        np.diff([0, *sorted({*np.cumsum(c)[np.cumsum(c) < n].tolist(), n})])
        for c, n in ((rows, ROWS), (columns, COLUMNS))
    ]
    X, y = matrix() + 1000, labels()
    score = "f_regression" if of_numbers else "f_classif"
    lazy = da.from_array(X, chunks=tuple(tuple(size.tolist()) for size in sizes))
    one, many = SelectKBest(score, k=4).fit(X, y), SelectKBest(score, k=4).fit(lazy, y)
    np.testing.assert_allclose(many.scores_, one.scores_, rtol=1e-9, atol=1e-12)
    assert many.get_support().tolist() == one.get_support().tolist()
    spread = VarianceThreshold().fit(lazy).variances_
    np.testing.assert_allclose(spread, X.var(axis=0), rtol=1e-9, atol=1e-20)
    assert spread[3] == 0


def test_a_cluster_reads_every_chunk_once(two_workers, tmp_path):
    """Each chunk leaves a line in a file when it is computed."""

    def counted(chunk, block_info=None):
        with open(tmp_path / "reads", "a") as reads:
            reads.write(f"{block_info[0]['chunk-location']}\n")
        return chunk

    X = da.from_array(matrix(), chunks=(60, 10)).map_blocks(counted, meta=np.empty((0, 0)))
    with two_workers.as_current():
        ours = SelectKBest(k=6).fit(X, labels())
    check_same(ours, reference("f_classif", matrix(), labels()))
    reads = (tmp_path / "reads").read_text().splitlines()
    assert len(reads) == len(set(reads)) == X.npartitions


@pytest.mark.parametrize("form", ["numpy", "CSR", "dask"])
def test_variances_leave_missing_values_out(form, tmp_path):
    X = matrix()
    X[::7, 2], X[:60, 9], X[:, 11] = np.nan, np.nan, np.nan
    ours = VarianceThreshold(0.001).fit(ARRAYS[form](X, tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the column of nothing else
        np.testing.assert_allclose(ours.variances_, np.nanvar(X, axis=0), rtol=1e-9)
    assert not ours.get_support()[11]


def test_ties_are_those_of_scikit_learn():
    X = np.tile(matrix()[:, [7, 3, 20]], 4)
    for k in range(13):
        expected = reference("f_classif", X, labels(), k)
        assert SelectKBest(k=k).fit(X, labels()).get_support().tolist() == expected.get_support().tolist()
    assert SelectKBest(k="all").fit(X, labels()).get_support().all()


def test_in_a_pipeline_with_text_labels():
    y = np.array(["low", "middle", "high"])[labels()]
    columns = pd.DataFrame(matrix() * 1e4, columns=NAMES)
    model = make_pipeline(VarianceThreshold(), StandardScaler(), SelectKBest(k=2)).set_output(transform="pandas")
    assert list(model.fit_transform(columns, y).columns) == ["gene7", "gene20"]


@pytest.mark.filterwarnings("ignore:k=31 is greater than n_features=30")
def test_more_columns_than_there_are():
    with pytest.warns(UserWarning, match="k=31 is greater than n_features=30"):
        assert SelectKBest(k=31).fit(matrix(), labels()).get_support().all()


def lazy(X: np.ndarray) -> da.Array:
    return da.from_array(X, chunks=(50, 7))


@pytest.mark.parametrize("as_form", [np.asarray, lazy, sp.csr_array])
def test_chi2_names_a_column_with_a_negative_value(as_form):
    X = matrix()
    X[200, 16], X[200, 20] = -3, -5  # in one chunk
    with pytest.raises(OptionError, match="column 16 of X: the value -3 is negative"):
        SelectKBest("chi2").fit(as_form(X), labels())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_with_their_column(value):
    X = matrix()
    X[200, 20] = value
    with pytest.raises(OptionError, match="column 20 of X has NaN, or a value that is infinite"):
        SelectKBest().fit(lazy(X), labels())
    with pytest.raises(ValueError, match="Input X contains"):
        SelectKBest().fit(X, labels())


@pytest.mark.parametrize(
    ("estimator", "X", "y", "line"),
    [
        (SelectKBest(theirs.mutual_info_classif), matrix(), labels(), "give f_classif, f_regression or chi2"),
        (SelectKBest("f_clasif"), matrix(), labels(), "score_func: 'f_clasif' is none of"),
        (SelectKBest(k=-1), matrix(), labels(), "k=-1: must be a whole number"),
        (SelectKBest(), lazy(matrix()), None, "y: a lazy array needs the target"),
        (SelectKBest(), lazy(matrix()), np.ones(ROWS), "one class only"),
        (SelectKBest(), matrix(), np.ones(ROWS), "one class only"),
        (SelectKBest(), lazy(matrix())[lazy(matrix())[:, 0] > 0], labels(), r"X.compute_chunk_sizes\(\)"),
        (VarianceThreshold(9), matrix(), None, "No feature in X meets the variance threshold 9.00000"),
    ],
)
def test_one_clear_line_for_what_cannot_be(estimator, X, y, line):
    with pytest.raises(OptionError, match=line):
        estimator.fit(X, y)


@pytest.mark.parametrize(
    ("y", "line"),
    [
        (np.ones((ROWS, 2)), r"y should be a 1d array, got an array of shape \(240, 2\)"),
        (np.ones(ROWS - 1), "inconsistent numbers of samples"),
        (np.where(np.arange(ROWS) == 3, np.nan, 1), "Input y contains NaN"),
    ],
)
def test_a_target_that_does_not_fit_a_lazy_array(y, line):
    with pytest.raises(ValueError, match=line):
        SelectKBest("f_regression").fit(lazy(matrix()), y)


def test_what_does_not_fit_together(tmp_path):
    url = DATASETS["columns"](matrix(), tmp_path, y=labels())
    with pytest.raises(OptionError, match="a dataset brings its labels"):
        SelectKBest().fit(url, labels())
    fitted = SelectKBest(k=2).fit(lazy(matrix()), labels())
    with pytest.raises(OptionError, match="X has 29 columns, the estimator was fitted with 30"):
        fitted.transform(lazy(matrix()[:, 1:]))
    (tmp_path / "d.vw").write_text("1 | a:1 b:2\n-1 | a:2 b:1\n" * 5)
    daskfs.ingest([tmp_path / "d.vw"], tmp_path / "rows.zarr", format="vw")
    daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "hashed.zarr")
    with pytest.raises(OptionError, match="features are hashes, and no columns"):
        SelectKBest(k=1).fit(tmp_path / "hashed.zarr")
