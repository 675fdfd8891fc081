"""Univariate scores against scikit-learn's and scipy's, in every layout, chunking and number of shards."""

from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import f_oneway, false_discovery_control, pearsonr
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest, chi2, f_classif, f_regression
from sklearn.linear_model import LinearRegression

import daskfs
from daskfs.algorithms.univariate import UnivariateScores
from daskfs.algorithms.univariate.fit import _RIDGES, _best_ridge
from daskfs.algorithms.univariate.moments import Moments, dense_moments, q_values, sparse_column_moments
from daskfs.algorithms.univariate.scoring import Scoring
from daskfs.engine import shards
from daskfs.engine.checkpoint import Snapshot
from daskfs.engine.passes import SelectionRun, SerialRunner
from daskfs.engine.run import select as select_from_dataset
from daskfs.errors import DatasetError, OptionError

ROWS, COLUMNS = 301, 40
CUTS = {"two": (0.0,), "three": (-0.7, 0.5)}
CHUNK_BYTES = 6_000  # some columns, or some tens of rows
FUNCTIONS = {"f_classif": f_classif, "f_regression": f_regression, "chi2": chi2}


def counts(seed: int = 3) -> np.ndarray:
    """Columns of small counts, of which some depend on column 0, and one is constant."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (ROWS, COLUMNS)).astype(np.float32)
    X[:, 5] += 2 * X[:, 0]
    X[:, 11], X[:, 12] = 4, X[:, 5]
    return X


def target(X: np.ndarray, kind: str) -> np.ndarray:
    """A number that depends on columns 0 and 7, or classes of it."""
    score = X[:, 0] - X[:, 7] + np.random.default_rng(0).normal(size=len(X))
    return score if kind == "numbers" else np.array(["a", "b", "c"])[np.digitize(score, CUTS[kind])]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A dataset of an X and y in a layout; sparse data are laid out in columns."""
    made: dict[tuple, daskfs.Dataset] = {}

    def get(layout: str, kind: str, chunk_bytes: int = CHUNK_BYTES) -> daskfs.Dataset:
        key = layout, kind, chunk_bytes
        if key not in made:
            folder, X = tmp_path_factory.mktemp("univariate"), counts()
            y = target(X, kind)
            if layout == "sparse":
                daskfs.write_dataset(folder / "rows.zarr", sp.csr_array(X), y)
                daskfs.transpose(folder / "rows.zarr", folder / "d.zarr", block_entries=chunk_bytes // 8)
            else:
                daskfs.write_dataset(folder / "d.zarr", X, y, layout=layout, chunk_bytes=chunk_bytes)
            made[key] = daskfs.open_dataset(folder / "d.zarr")
            assert made[key].n_blocks() > 4
        return made[key]

    return get


def expected(score: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    X = counts().astype(np.float64)
    if score == "variance":
        return X.var(axis=0), np.full(COLUMNS, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the constant column
        return FUNCTIONS[score](X, target(counts(), kind))


layouts = pytest.mark.parametrize("layout", ["columns", "rows", "both", "sparse"])


@pytest.mark.slow_but_cover(1)
@layouts
@pytest.mark.parametrize(
    ("score", "kind"),
    [
        ("f_classif", "two"),
        ("f_classif", "three"),
        ("f_regression", "numbers"),
        ("chi2", "two"),
        ("chi2", "three"),
        ("variance", "three"),
        ("variance", "numbers"),
    ],
)
def test_all_scores_and_p_values_are_those_of_scikit_learn(written, layout, score, kind):
    found = daskfs.select(written(layout, kind), UnivariateScores(COLUMNS, score))
    scores, p = expected(score, kind)
    order = np.argsort(np.where(np.isnan(scores), -1, scores), kind="stable")[::-1]
    np.testing.assert_allclose(found.statistics["score"], scores[found.features], rtol=1e-9, atol=1e-20)
    np.testing.assert_allclose(scores[found.features], scores[order], rtol=1e-9, atol=1e-20)
    assert len(set(found.features.tolist())) == COLUMNS
    assert found.features[-1] == 11  # the constant column
    if score != "variance":
        np.testing.assert_allclose(found.statistics["p_value"], p[found.features], rtol=1e-9)
        known = ~np.isnan(p)
        q = np.full(COLUMNS, np.nan)
        q[known] = false_discovery_control(p[known])
        np.testing.assert_allclose(found.statistics["q_value"], q[found.features], rtol=1e-9)
        assert set(found.history["significant"].values) == {np.count_nonzero(q <= 0.05)}
    else:
        assert list(found.statistics) == ["score"]


@pytest.mark.slow_but_cover(1)
@layouts
@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_the_selected_columns_are_those_of_scikit_learn_and_predict(written, layout, kind):
    X, y = counts(), target(counts(), kind)
    dataset = written(layout, kind)
    found = daskfs.select(dataset, daskfs.Univariate(4))
    score = "f_regression" if kind == "numbers" else "f_classif"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = SelectKBest(FUNCTIONS[score], k=4).fit(X, y).get_support(indices=True)
    assert sorted(found.features.tolist()) == same.tolist()
    assert found.chosen["score"] == score
    assert (found.history["bytes"].values > 0).all()
    assert found.history.sizes["step"] == 2  # the scores, and the model
    assert (np.diff(found.statistics["score"]) <= 0).all()
    p = expected(score, kind)[1]
    of_all = false_discovery_control(p[~np.isnan(p)])  # not only of the selected columns
    np.testing.assert_allclose(np.sort(found.statistics["q_value"]), np.sort(of_all)[:4], rtol=1e-9)
    assert found.score(dataset) > {"two": 0.7, "three": 0.5, "numbers": 0.4}[kind]


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("layout", ["columns", "rows", "sparse"])
@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_the_model_is_that_of_scikit_learn_where_no_ridge_is_needed(tmp_path, layout, kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 5)).astype(np.float32) @ rng.normal(size=(5, 5)).astype(np.float32) + 3
    y = target(np.hstack([X, X]), kind)
    url = tmp_path / "d.zarr"
    if layout == "sparse":
        daskfs.write_dataset(tmp_path / "rows.zarr", sp.csr_array(X), y)
        daskfs.transpose(tmp_path / "rows.zarr", url)
    else:
        daskfs.write_dataset(url, X, y, layout=layout, chunk_bytes=9_000)
    found = daskfs.select(url, daskfs.Univariate(5))
    model = LinearRegression() if kind == "numbers" else LinearDiscriminantAnalysis(solver="lsqr")
    model.fit(X[:, found.features].astype(np.float64), y)
    if kind == "numbers":
        scores, ours = model.predict(X[:, found.features]), found.predict(X)
    else:
        scores, ours = model.decision_function(X[:, found.features]), found.decision_function(X)
    if kind == "three":  # only differences of scores mean something
        scores, ours = scores - scores[:, :1], ours - ours[:, :1]
    np.testing.assert_allclose(ours, scores, rtol=2e-3, atol=2e-3 * np.abs(scores).max())


def test_the_ridge_has_the_least_error_of_generalised_cross_validation():
    rng = np.random.default_rng(0)
    best = set()
    for n, k, noise in ((30, 25, 3.0), (30, 25, 0.3), (40, 60, 1.0), (500, 5, 0.1)):
        Z = rng.normal(size=(n, k))
        Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
        y = Z[:, 0] + noise * rng.normal(size=n)
        y -= y.mean()
        errors = []
        for ridge in _RIDGES:
            hat = Z @ np.linalg.solve(Z.T @ Z / n + ridge * np.eye(k), Z.T) / n + 1 / n
            errors.append(np.mean((y - hat @ y) ** 2) / (1 - np.trace(hat) / n) ** 2)
        best.add(_RIDGES[int(np.argmin(errors))])
        assert _best_ridge(Z.T @ Z / n, (Z.T @ y / n)[:, None], float(y @ y / n), n) == _RIDGES[int(np.argmin(errors))]
    assert len(best) > 1


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("layout", ["columns", "rows"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_a_column_far_from_zero_loses_no_digits(tmp_path, layout, dtype, kind):
    rng = np.random.default_rng(2)
    small = rng.normal(0, 1e-2, (5000, 4)) if dtype == np.float64 else rng.integers(0, 2, (5000, 4)) / 16
    X = (1e6 + small).astype(dtype)
    y = target(np.repeat(small * 3, 2, axis=1), kind)
    daskfs.write_dataset(tmp_path / "d.zarr", X, y, layout=layout, chunk_bytes=16_000)
    found = daskfs.select(tmp_path / "d.zarr", UnivariateScores(4))
    near = X.astype(np.float64) - 1e6  # exact
    scores, p = (f_regression if kind == "numbers" else f_classif)(near, y)
    np.testing.assert_allclose(found.statistics["score"], scores[found.features], rtol=1e-6)
    np.testing.assert_allclose(found.statistics["p_value"], p[found.features], rtol=1e-6)
    first = near[:, found.features[0]]
    of_scipy = pearsonr(first, y) if kind == "numbers" else f_oneway(*(first[y == label] for label in np.unique(y)))
    assert found.statistics["p_value"][0] == pytest.approx(of_scipy.pvalue, rel=1e-6)


def run_in_shards(dataset: daskfs.Dataset, algorithm: Scoring, n_shards: int):
    run = SelectionRun(dataset, algorithm, Snapshot(algorithm.start(dataset.meta, 0), n_shards))
    return algorithm.result(run.finish(SerialRunner(run)).state)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("layout", ["columns", "rows", "sparse"])
@pytest.mark.parametrize("kind", ["three", "numbers"])
def test_shards_rounds_and_chunks_do_not_matter(written, monkeypatch, layout, kind):
    whole = daskfs.select(written(layout, kind), daskfs.Univariate(6))
    for n_shards, group_bytes, chunk_bytes in ((1, 1, 3_000), (2, 1, 3_000), (3, 1, 6_000), (5, 1 << 30, 3_000)):
        monkeypatch.setattr(shards, "GROUP_BYTES", group_bytes)  # 1: as many rounds as there can be
        dataset = written(layout, kind, chunk_bytes)
        part = run_in_shards(dataset, daskfs.Univariate(6).resolve(dataset.meta), n_shards)
        assert part.features.tolist() == whole.features.tolist()
        np.testing.assert_allclose(part.weights, whole.weights, rtol=1e-9)
        for name, numbers in whole.statistics.items():
            np.testing.assert_allclose(part.statistics[name], numbers, rtol=1e-11)


@pytest.mark.parametrize("layout", ["columns", "rows", "sparse"])
def test_two_processes_give_what_one_gives(written, two_workers, monkeypatch, layout):
    sharing = replace(daskfs.Univariate(6).resolve(written(layout, "three").meta).sharing, min_bytes_per_merge=0)
    monkeypatch.setattr(Scoring, "sharing", sharing)
    dataset = written(layout, "three")
    one = daskfs.select(dataset, daskfs.Univariate(6))
    two = daskfs.select(dataset, daskfs.Univariate(6), client=two_workers)
    assert two.features.tolist() == one.features.tolist()
    np.testing.assert_allclose(two.weights, one.weights, rtol=1e-9)
    np.testing.assert_allclose(two.statistics["q_value"], one.statistics["q_value"], rtol=1e-11)


def numpy_moments(X: np.ndarray, groups: np.ndarray, n_groups: int, y: np.ndarray) -> tuple[np.ndarray, ...]:
    means = np.array([X[groups == g].mean(axis=0) if (groups == g).any() else X[0] for g in range(n_groups)])
    within = ((X - means[groups]) ** 2).sum(axis=0)
    return means, within, (X - means[0]).T @ (y - y.mean()) if len(y) else np.empty(0)


@pytest.mark.slow_but_cover(2)
@pytest.mark.kernels
@pytest.mark.parametrize("n_groups", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(1, 3), (9, 1), (4097, 3), (30, 1030)])
@pytest.mark.parametrize("form", ["C", "F", "strided", "sparse", "merged"])
def test_moments_are_those_of_numpy(form, shape, n_groups):
    rng = np.random.default_rng(0)
    X = np.where(rng.random(shape) < 0.4, 0, rng.normal(2, 1, shape)).astype(np.float32)
    groups = np.minimum(rng.integers(0, 6, len(X)), n_groups - 1).astype(np.int32)
    groups[groups == 3] = 0  # a group without rows
    y = rng.normal(size=len(X)) if n_groups == 1 else np.empty(0)
    if form == "sparse":
        S = sp.csc_array(X)
        rows = S.indices.astype(np.uint32)
        moments = sparse_column_moments(S.indptr.astype(np.int64), rows, S.data, groups, n_groups, y)
    elif form == "merged":
        cuts = [slice(0, 1), slice(1, len(X) // 2), slice(len(X) // 2, None)]
        moments = Moments.zero(X.shape[1], n_groups, len(y) > 0)
        for rows in cuts if len(X) > 2 else [slice(None)]:
            moments = moments.merge(dense_moments(X[rows], groups[rows], n_groups, y[rows]))
    else:
        order = {"C": X, "F": np.asfortranarray(X), "strided": np.repeat(X, 2, axis=1)[:, ::2]}[form]
        moments = dense_moments(order, groups, n_groups, y)
    means, within, cross = numpy_moments(X.astype(np.float64), groups, n_groups, y)
    present = np.bincount(groups, minlength=n_groups) > 0
    assert moments.count[:, 0].tolist() == np.bincount(groups, minlength=n_groups).tolist()
    np.testing.assert_allclose((moments.mean + moments.origin)[present], means[present], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moments.within, within, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(moments.cross, cross, rtol=1e-9, atol=1e-10)


def test_q_values_without_any_p_value():
    assert np.isnan(q_values(np.full(3, np.nan))).all()


def test_a_perfect_column_is_infinitely_good_and_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    X[:, 4] = np.arange(50) % 2
    daskfs.write_dataset(tmp_path / "d.zarr", X, np.arange(50) % 2)
    found = daskfs.select(tmp_path / "d.zarr", daskfs.Univariate(2))
    assert found.features[0] == 4
    assert np.isinf(found.statistics["score"][0])
    assert found.score(tmp_path / "d.zarr") == 1
    found.save(tmp_path / "run")
    loaded = daskfs.load_selection(tmp_path / "run").statistics
    assert loaded["score"].tolist() == [np.finfo(np.float64).max, found.statistics["score"][1]]
    for name in ("p_value", "q_value"):
        assert loaded[name].tolist() == found.statistics[name].tolist()
    labelled = found.to_xarray()
    assert labelled.q_value.sel(feature=4) == found.statistics["q_value"][0]
    assert daskfs.size_path(found, tmp_path / "d.zarr", tmp_path / "d.zarr", [1]).scores == [1]


def test_classes_without_rows_do_not_count(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    X[40:, 1] += 1
    daskfs.write_dataset(tmp_path / "d.zarr", X, np.repeat(["a", "b", "c"], 20), layout="rows")
    meta = daskfs.open_dataset(tmp_path / "d.zarr").meta
    algorithm = UnivariateScores(3).resolve(meta)
    for rows, known in ((slice(20, 60), True), (slice(20, 40), False)):
        state = algorithm.start(meta, 0)
        for block in daskfs.open_dataset(tmp_path / "d.zarr").blocks():
            state = algorithm.update(state, replace(block, X=block.X[rows], y=block.y[rows]))
        if known:
            result = algorithm.result(algorithm.end_pass(state)[0])
            scores, p = f_classif(X[rows].astype(np.float64), np.repeat(["b", "c"], 20))
            np.testing.assert_allclose(result.statistics["score"], scores[result.features], rtol=1e-9)
            np.testing.assert_allclose(result.statistics["p_value"], p[result.features], rtol=1e-9)
        else:
            with pytest.raises(OptionError, match="one class only"):
                algorithm.end_pass(state)


@layouts
def test_negative_values_are_refused_by_chi2_with_the_name_of_the_column(tmp_path, layout):
    X = counts()
    X[200, 9] = -2
    names, y = [f"gene{column}" for column in range(COLUMNS)], target(counts(), "two")
    if layout == "sparse":
        daskfs.write_dataset(tmp_path / "rows.zarr", sp.csr_array(X), y, names)
        daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "d.zarr")
    else:
        daskfs.write_dataset(tmp_path / "d.zarr", X, y, names, layout=layout, chunk_bytes=CHUNK_BYTES)
    with pytest.raises(DatasetError, match=r"column 'gene9' \(number 9\): the value -2 is negative, and chi2"):
        daskfs.select(tmp_path / "d.zarr", daskfs.Univariate(3, "chi2"))


@pytest.mark.parametrize(
    ("y", "params", "line"),
    [
        (np.arange(20) / 7, {"score": "f_classif"}, "score='f_classif' takes classes, the target is a number"),
        (np.arange(20) / 7, {"score": "chi2"}, "score='chi2' takes classes, the target is a number"),
        (["a", "b"] * 10, {"score": "f_regression"}, "score='f_regression' takes numbers, the labels are text"),
        (["a"] * 20, {}, "all 20 samples have the same label: there is nothing to tell apart"),
        (np.ones((20, 2)) * np.arange(2), {}, "Univariate takes one target, .* has 2"),
    ],
)
def test_one_clear_line_for_what_cannot_be(tmp_path, y, params, line):
    daskfs.write_dataset(tmp_path / "d.zarr", np.eye(20)[:, :4], np.asarray(y))
    with pytest.raises(OptionError, match=line):
        daskfs.select(tmp_path / "d.zarr", daskfs.Univariate(**{"n_select": 2, **params}))


def test_row_weights_and_wrong_options_are_refused(tmp_path):
    (tmp_path / "d.vw").write_text("1 2.0 | a:1 b:2\n-1 1.0 | a:2 b:1\n" * 5)
    daskfs.ingest([tmp_path / "d.vw"], tmp_path / "rows.zarr", format="vw")
    daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "d.zarr")
    with pytest.raises(OptionError, match="Univariate counts rows, and those of the dataset have weights"):
        daskfs.select(tmp_path / "d.zarr", daskfs.Univariate(1))
    with pytest.raises(OptionError, match="score: 'f_clasif' is none of auto, f_classif"):
        daskfs.Univariate(1, "f_clasif")
    with pytest.raises(OptionError, match="n_select=0: must be a whole number"):
        daskfs.Univariate(0)


def test_sparse_rows_are_to_be_transposed(tmp_path):
    rows = daskfs.write_dataset(tmp_path / "rows.zarr", sp.csr_array(counts()), target(counts(), "two"))
    with pytest.raises(OptionError, match="daskfs transpose makes columns of it"):
        select_from_dataset(rows, daskfs.Univariate(1))
    with pytest.warns(UserWarning, match="a copy is written to .* since it is sparse and laid out in rows"):
        assert daskfs.select(rows, daskfs.Univariate(1)).features.size == 1


@pytest.mark.parametrize("kind", ["three", "numbers"])
def test_memory_of_rows_keeps_its_promise(tmp_path, kind):
    X = np.random.default_rng(0).normal(size=(60, 20_000)).astype(np.float32)
    daskfs.write_dataset(tmp_path / "d.zarr", X, target(X, kind), layout="rows", chunk_bytes=1_000_000)
    dataset = daskfs.open_dataset(tmp_path / "d.zarr")
    algorithm = daskfs.Univariate(2).resolve(dataset.meta)
    blocks = [dataset.read(number) for number in range(dataset.n_blocks())]
    algorithm.update(algorithm.start(dataset.meta, 0), blocks[0])  # kernels are loaded by now
    tracemalloc.start()
    state, go_on = algorithm.start(dataset.meta, 0), True
    while go_on:
        for block in blocks:
            state = algorithm.update(state, block)
        state, go_on = algorithm.end_pass(state)
    algorithm.result(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.1 * algorithm.nbytes(dataset.meta)


def test_two_columns_that_separate_the_classes_perfectly_are_no_overflow():
    """filterwarnings = error: a leak gave the line "note: overflow encountered in reduce"."""
    y = np.arange(100) % 2
    X = np.column_stack([y, 1 - y, np.random.default_rng(0).normal(size=100)]).astype(float)
    assert set(daskfs.select(X, daskfs.Univariate(2), y).names) == {"x0", "x1"}
