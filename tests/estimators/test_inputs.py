"""Whatever kind of data goes in, out comes the selection of `daskfs.select` on the written data, bit for bit."""

from __future__ import annotations

import tempfile

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray
from estimators.problems import PLANTED, differences, score_of, thinned, wide
from sklearn.base import is_classifier

import daskfs
from daskfs.errors import OptionError
from daskfs.sklearn import (
    MissionClassifier,
    MissionRegressor,
    MissionSelector,
    OnlineSubstitutionClassifier,
    OnlineSubstitutionRegressor,
    OnlineSubstitutionSelector,
    SparseRandomFeaturesClassifier,
    SparseRandomFeaturesRegressor,
    SparseRandomFeaturesTransformer,
)

WAVES = {"rounds": 2, "per_round": 20, "max_features": 50}
CASES = [
    (OnlineSubstitutionSelector(2), daskfs.OnlineSubstitution(2)),
    (OnlineSubstitutionClassifier(2), daskfs.OnlineSubstitution(2, "logistic")),
    (OnlineSubstitutionRegressor(2, passes=2, ridge=0.1), daskfs.OnlineSubstitution(2, "squared", 2, ridge=0.1)),
    (MissionSelector(2, width=2**10), daskfs.Mission(2, width=2**10)),
    (MissionClassifier(2, width=2**10, passes=4), daskfs.Mission(2, "logistic", width=2**10, passes=4)),
    (MissionRegressor(2, width=2**10, refit=1), daskfs.Mission(2, "squared", width=2**10, refit=1)),
    (SparseRandomFeaturesClassifier(**WAVES), daskfs.SparseRandomFeatures(loss="logistic", **WAVES)),
    (SparseRandomFeaturesRegressor(**WAVES), daskfs.SparseRandomFeatures(loss="squared", **WAVES)),
    (SparseRandomFeaturesTransformer(**WAVES), daskfs.SparseRandomFeatures(**WAVES)),
]
every = pytest.mark.parametrize(("estimator", "algorithm"), CASES, ids=[type(case[0]).__name__ for case in CASES])
NAMES = [f"gene {column}" for column in range(40)]
FORMS = {
    "numpy": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "sparse": thinned,
    "dask": lambda X: da.from_array(X, chunks=(50, 15)),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "xarray": lambda X: xarray.DataArray(X, dims=("row", "gene"), coords={"gene": NAMES}),
    "xarray, nameless": lambda X: xarray.DataArray(X, dims=("row", "gene")),
    "xarray, lazy": lambda X: xarray.DataArray(X, dims=("row", "gene"), coords={"gene": NAMES}).chunk({"row": 100}),
}
LEARNED = {"list": np.asarray, "sparse": lambda X: X.astype(np.float32)}  # as numbers are while they are learned
NAMED = ("pandas", "xarray", "xarray, lazy")


def target_for(estimator, X):
    return np.where(score_of(X) > 0, "up", "down") if is_classifier(estimator) else score_of(X)


def selected(folder, X, y, algorithm, seed=0):
    daskfs.write_dataset(folder / "X.zarr", np.asarray(X) if isinstance(X, list) else X, y, layout=algorithm.axis)
    dataset = daskfs.open_dataset(folder / "X.zarr")
    if dataset.axis != algorithm.axis:
        dataset = daskfs.transpose(dataset, folder / "columns.zarr")
    return dataset, daskfs.select(dataset, algorithm, seed=seed)


@pytest.mark.slow_but_cover(1)
@every
@pytest.mark.parametrize("form", FORMS)
def test_the_selection_of_select(estimator, algorithm, form, tmp_path):
    X = FORMS[form](wide())
    y = target_for(estimator, wide())
    _, expected = selected(tmp_path, X, y, algorithm, seed=5)
    estimator = type(estimator)(**estimator.get_params() | {"random_state": 5}).fit(X, y)
    assert differences(estimator.selection_, expected) == []
    assert estimator.selection_.algorithm == expected.algorithm
    assert estimator.selection_.source["url"] == "X"
    assert estimator.n_features_in_ == 40
    assert (list(getattr(estimator, "feature_names_in_", [])) == NAMES) == (form in NAMED)
    if hasattr(estimator, "predict"):
        given, other = estimator.predict(X), expected.predict(LEARNED.get(form, lambda X: X)(X))
        if is_classifier(estimator):
            assert given.tolist() == other.tolist()
        else:  # BLAS may sum in another order, as matrices lie in memory
            np.testing.assert_allclose(given, other, rtol=1e-12)
        assert estimator.score(X, y) > 0.3


@every
def test_a_dataset_is_read_where_it_is(estimator, algorithm, tmp_path):
    X, y = pd.DataFrame(wide(), columns=NAMES), target_for(estimator, wide())
    dataset, expected = selected(tmp_path, X, y, algorithm)
    for given in (dataset, dataset.url, tmp_path / "X.zarr"):
        assert differences(estimator.fit(given).selection_, expected) == []
    assert estimator.selection_.source == expected.source
    assert list(estimator.feature_names_in_) == NAMES
    if hasattr(estimator, "predict"):
        np.testing.assert_array_equal(estimator.predict(dataset), expected.predict(dataset))
        assert estimator.score(dataset) == pytest.approx(estimator.score(X, y), abs=1e-9)
    else:
        np.testing.assert_array_equal(estimator.transform(dataset), estimator.transform(X))
    with pytest.raises(OptionError, match="brings its labels"):
        estimator.fit(dataset, y)


@every
def test_dask_arrays_stay_lazy_and_leave_nothing_behind(estimator, algorithm, tmp_path, monkeypatch):
    def whole(*_, **__):
        raise AssertionError("computed as a whole")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    X, y = da.from_array(wide(), chunks=(50, 15)), target_for(estimator, wide())
    with monkeypatch.context() as patch:
        patch.setattr(da.Array, "__array__", whole)
        patch.setattr(da.Array, "compute", whole)
        estimator.fit(X, y)
    assert list(tmp_path.iterdir()) == []
    if hasattr(estimator, "get_support"):
        assert isinstance(estimator.transform(X), da.Array)
        np.testing.assert_array_equal(estimator.transform(X).compute(), estimator.transform(wide()))
    elif hasattr(estimator, "transform"):
        np.testing.assert_allclose(estimator.transform(X), estimator.transform(wide()), atol=1e-5)
    else:
        method = estimator.decision_function if is_classifier(estimator) else estimator.predict
        np.testing.assert_allclose(method(X), method(wide()), atol=1e-4)
    with pytest.raises(ValueError, match="39 columns"):
        (estimator.transform if hasattr(estimator, "transform") else estimator.predict)(X[:, :39])
    with pytest.raises(OptionError, match="sample_weight"):
        estimator.fit(X, y, sample_weight=np.ones(240))
    with pytest.raises(OptionError, match="the target of its rows"):
        estimator.fit(X)
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_memory_is_learned_here_beside_a_cluster(two_workers):
    alone = OnlineSubstitutionRegressor(2).fit(wide(), score_of(wide()))
    with two_workers.as_current():
        beside = OnlineSubstitutionRegressor(2).fit(wide(), score_of(wide()))
        spread = OnlineSubstitutionRegressor(2).fit(da.from_array(wide(), chunks=60), score_of(wide()))
    assert differences(alone.selection_, beside.selection_) == []
    assert sorted(spread.selection_.features.tolist()) == list(PLANTED)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], [False, True], ["ham", "spam"], [2.0, 7.0], [2**40, 2**41]])
@pytest.mark.parametrize(
    "estimator",
    [OnlineSubstitutionClassifier(2), MissionClassifier(2, width=2**10), SparseRandomFeaturesClassifier(**WAVES)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_labels_of_every_kind_come_back(estimator, labels):
    y = np.array(labels)[(score_of(wide()) > 0).astype(int)]
    estimator.fit(wide(), y)
    assert estimator.classes_.tolist() == labels
    assert estimator.predict(wide()).dtype == y.dtype
    assert estimator.score(wide(), y) > 0.7


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize(
    "estimator",
    [
        MissionClassifier(4, width=2**10, passes=5),
        MissionClassifier(3, width=2**10, passes=5, per_class=True, loss="softmax"),
        SparseRandomFeaturesClassifier(**WAVES),
        SparseRandomFeaturesClassifier(loss="squared", **WAVES),
    ],
    ids=repr,
)
@pytest.mark.parametrize("labels", [[10, 9, 2], ["c", "b", "a"]])
def test_several_classes(estimator, labels):
    X = wide(600, 8)
    y = np.array(labels)[np.argmax(X[:, 2:5], axis=1)]
    estimator.fit(X, y)
    assert estimator.classes_.tolist() == sorted(labels)
    assert estimator.score(X, y) > 0.75
    assert estimator.decision_function(X).shape == (600, 3)
    if estimator.loss != "squared":
        np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1)
        assert (estimator.classes_[estimator.predict_proba(X).argmax(axis=1)] == estimator.predict(X)).all()
    else:
        assert not hasattr(estimator, "predict_proba")


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, da.from_array], ids=["numpy", "sparse", "dask"])
@pytest.mark.parametrize(
    "estimator",
    [OnlineSubstitutionRegressor(2), MissionRegressor(2, width=2**10), SparseRandomFeaturesRegressor(**WAVES)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_two_numbers_are_numbers_to_a_regressor(estimator, kind):
    y = np.where(score_of(wide()) > 0, 5.0, 3.0)
    predicted = estimator.fit(kind(wide()), y).predict(kind(wide()))
    assert estimator.selection_.classes is None
    assert 3.2 < predicted.mean() < 4.8
    assert len(np.unique(predicted)) > 100


def test_targets_that_do_not_fit(tmp_path):
    daskfs.write_dataset(tmp_path / "text", wide(), np.where(score_of(wide()) > 0, "b", "a"), layout="both")
    daskfs.write_dataset(tmp_path / "real", wide(), score_of(wide()), layout="both")
    with pytest.raises(OptionError, match="labels are text"):
        OnlineSubstitutionRegressor(2).fit(tmp_path / "text")
    with pytest.raises(OptionError, match="use a regressor"):
        OnlineSubstitutionClassifier(2).fit(tmp_path / "real")
    with pytest.raises(OptionError, match="one class only"):
        MissionClassifier().fit(wide(), np.ones(240, int))
    with pytest.raises(OptionError, match="n_select=0"):
        OnlineSubstitutionSelector(0).fit(wide(), score_of(wide()))
    with pytest.raises(OptionError, match="together with y"):
        OnlineSubstitutionRegressor(2).fit(tmp_path / "real").score(wide())


def test_hashed_features_are_told_by_the_selection(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{1 if up else -1} |a {'good' if up else 'bad'} w{rng.integers(50)}" for up in rng.random(400) < 0.5]
    (tmp_path / "words.vw").write_text("\n".join(lines) + "\n")
    words = daskfs.ingest(tmp_path / "words.vw", tmp_path / "words.zarr", format="vw")
    model = MissionClassifier(2, width=2**10).fit(words)
    assert set(model.selection_.names) == {"a^good", "a^bad"}
    assert model.score(words) == 1
    assert model.classes_.tolist() == [-1, 1]
    assert not hasattr(model, "coef_")
    selector = MissionSelector(2, width=2**10).fit(words)
    assert selector.transform(words).shape == (400, 2)
    with pytest.raises(OptionError, match="no columns"):
        selector.get_support()
    with pytest.raises(OptionError, match="interactions"):
        MissionSelector(2, interactions="all").fit(words)


@pytest.mark.parametrize("lazy", [False, True])
def test_columns_of_xarray_in_another_order_are_refused(lazy):
    X = np.random.default_rng(0).normal(size=(200, 5))
    names = [f"gene{number}" for number in range(5)]
    A = xarray.DataArray(da.from_array(X) if lazy else X, dims=("sample", "gene"), coords={"gene": names})
    fitted = OnlineSubstitutionSelector(2).fit(A, X[:, 3] - X[:, 1])
    assert np.array_equal(np.asarray(fitted.transform(A)), X[:, [1, 3]])
    with pytest.raises(ValueError, match=r"feature names should match|column 0 of X is 'gene4'"):
        fitted.transform(A.isel(gene=[4, 3, 2, 1, 0]))


def test_labels_that_are_numbers_stay_numbers():
    X = np.random.default_rng(0).uniform(size=(300, 2))
    y = np.array([10, 20, 30])[(3 * X[:, 0]).astype(int)]
    model = SparseRandomFeaturesClassifier(loss="squared", rounds=2, per_round=40, penalty=0.1).fit(X, y)
    assert set(model.selection_.predict(X)) <= {10, 20, 30}
    assert model.selection_.predict(X).tolist() == model.predict(X).tolist()
