"""Online Substitution from the outside: against the literal listing, on awkward columns, with input it must refuse."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.online_substitution import online_substitution
from sklearn.linear_model import LogisticRegression, Ridge

import daskfs
from daskfs.engine.run import memory_plan
from daskfs.errors import DatasetError, OptionError
from daskfs.protocol import ColumnBlock, Meta

pytestmark = pytest.mark.kernels

CLASSES = {"squared": None, "squared_hinge": "signs", "logistic": "signs"}


def planted(n=120, p=60, k=5, seed=0, noise=0.1, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(dtype)
    true = np.sort(rng.choice(p, k, replace=False))
    y = X[:, true] @ rng.choice([-2.0, -1.5, 1.5, 2.0], k) + noise * rng.normal(size=n)
    return X, y, true


def store(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, overwrite=True, **options)
    return daskfs.open_dataset(folder / "d.zarr")


@pytest.mark.slow_but_cover(2)
@pytest.mark.parametrize("loss", CLASSES)
@pytest.mark.parametrize("chunk_bytes", [120 * 8, 7 * 120 * 8, 10**8])
@pytest.mark.parametrize("seed", range(3))
def test_the_paper_form_selects_what_the_listing_selects(tmp_path, loss, chunk_bytes, seed):
    X, y, _ = planted(p=140, k=12, seed=seed)
    X *= np.random.default_rng(seed).lognormal(0, 2, X.shape[1])
    X += 3 * X.std(axis=0)
    y = y if loss == "squared" else np.sign(y)
    S, _ = online_substitution(X, y, 12, loss, passes=2)
    dataset = store(tmp_path, X, y, chunk_bytes=chunk_bytes)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(12, loss=loss, passes=2, method="paper"))
    assert set(selection.features.tolist()) == set(S.tolist())


@given(seed=st.integers(0, 1000), chunk=st.integers(1, 40), step=st.floats(0.2, 1.0), k=st.integers(1, 9))
@settings(max_examples=25)
def test_the_paper_form_for_any_cut_step_and_size(tmp_path_factory, seed, chunk, step, k):
    X, y, _ = planted(n=40, p=40, seed=seed)
    S, _ = online_substitution(X, y, k, passes=3, step=step)
    dataset = store(tmp_path_factory.mktemp("paper"), X, y, chunk_bytes=chunk * 40 * 8)
    algorithm = daskfs.OnlineSubstitution(k, passes=3, method="paper", step=step)
    assert set(daskfs.select(dataset, algorithm).features.tolist()) == set(S.tolist())


@pytest.mark.parametrize("method", ["block", "paper", "async"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_are_those_of_a_joint_fit(tmp_path, method, dtype):
    X, y, true = planted(dtype=dtype)
    X = ((X + np.linspace(-5, 5, 60)) * np.geomspace(1e-2, 1e2, 60)).astype(dtype)
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(5, method=method, ridge=1e-6, workers=2))
    order = np.argsort(selection.features)
    assert selection.features[order].tolist() == true.tolist()
    fit = Ridge(alpha=1e-9).fit(X[:, true].astype(float), y)
    np.testing.assert_allclose(selection.weights[order], fit.coef_, rtol=1e-3 if dtype == np.float32 else 1e-5)
    assert selection.intercept[0] == pytest.approx(fit.intercept_, rel=1e-3)


def test_logistic_weights_are_those_of_scikit_learn(tmp_path):
    X, y, _ = planted(n=400, noise=2.0)
    selection = daskfs.select(store(tmp_path, X, y > 0), daskfs.OnlineSubstitution(5, loss="logistic", ridge=0.05))
    features = selection.features.astype(int)
    scale = np.linalg.norm(X[:, features] - X[:, features].mean(axis=0), axis=0)
    fit = LogisticRegression(C=1 / 0.05, tol=1e-10, max_iter=1000).fit(X[:, features] / scale, y > 0)
    np.testing.assert_allclose(selection.weights, fit.coef_[0] / scale, rtol=1e-4)
    assert selection.intercept[0] == pytest.approx(fit.intercept_[0], rel=1e-3)


def test_features_come_in_order_of_what_they_are_worth(tmp_path):
    X = np.random.default_rng(0).normal(size=(500, 30)).astype(np.float32)
    y = X[:, 4] + 3 * X[:, 7] - 2 * X[:, 20]
    assert daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(3)).features.tolist() == [7, 20, 4]


def test_without_an_intercept_nothing_is_centred(tmp_path):
    X = np.random.default_rng(0).normal(5, 1, size=(100, 20))
    y = X[:, 3] * 2
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(1, intercept=False, ridge=1e-9))
    assert selection.features.tolist() == [3]
    assert selection.weights[0] == pytest.approx(2, rel=1e-6)
    assert selection.intercept[0] == 0


@pytest.mark.parametrize("loss", CLASSES)
def test_sparse_columns_give_what_dense_ones_give(tmp_path, loss):
    X, y, _ = planted(n=200, p=80, dtype=np.float32)
    X[np.abs(X) < 0.6] = 0
    y = y if loss == "squared" else np.sign(y)
    algorithm = daskfs.OnlineSubstitution(5, loss=loss)
    dense = daskfs.select(store(tmp_path, X, y), algorithm)
    daskfs.write_dataset(tmp_path / "rows.zarr", sp.csr_array(X), y)
    sparse = daskfs.select(daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "columns.zarr"), algorithm)
    assert sparse.features.tolist() == dense.features.tolist()
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-3)


def test_rows_of_weight_0_do_not_count(tmp_path):
    lines = []
    rng = np.random.default_rng(0)
    for row in range(300):
        a, b = rng.normal(size=2)
        lines.append(f"{a:.4f} 1.0 |f good:{a:.4f} bad:{b:.4f} other:{rng.normal():.4f}")
        if row % 3 == 0:  # three times as loud, if they counted
            lines.append(f"{9 * b:.4f} 0.0 |f good:{a:.4f} bad:{b:.4f} other:{rng.normal():.4f}")
    (tmp_path / "w.vw").write_text("\n".join(lines))
    daskfs.ingest(tmp_path / "w.vw", tmp_path / "rows.zarr", "vw")
    columns = daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "columns.zarr")
    selection = daskfs.select(columns, daskfs.OnlineSubstitution(1, ridge=1e-3))
    assert "good" in selection.names[0]
    with pytest.raises(OptionError, match="weights of rows"):
        daskfs.select(columns, daskfs.OnlineSubstitution(1, method="paper"))


class TestAwkwardColumns:
    """F21: constants, duplicates, extreme scales, hardly any rows."""

    @pytest.mark.parametrize("method", ["block", "paper", "async"])
    @pytest.mark.parametrize("scale", [1e-30, 1e30])
    def test_scales_beyond_the_range_of_squares(self, tmp_path, method, scale):
        X, y, true = planted(dtype=np.float32)
        X[:, true[:2]] *= np.float32(scale)
        selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(5, method=method))
        assert sorted(selection.features.tolist()) == true.tolist()
        assert np.isfinite(selection.weights).all()

    @pytest.mark.parametrize("method", ["block", "paper", "async"])
    def test_constants_come_last(self, tmp_path, method):
        X, y, true = planted(p=12)
        constant = [j for j in range(12) if j not in true][:3]
        X[:, constant] = [0.0, 1.0, 1e6]
        dataset = store(tmp_path, X, y)
        nine = daskfs.select(dataset, daskfs.OnlineSubstitution(9, method=method))
        assert not set(nine.features.tolist()) & set(constant)
        everything = daskfs.select(dataset, daskfs.OnlineSubstitution(12, method=method))
        assert sorted(everything.features.tolist()) == list(range(12))
        weights = dict(zip(everything.features.tolist(), everything.weights, strict=True))
        assert [weights[j] for j in constant] == [0, 0, 0]

    def test_of_near_duplicates_one_is_chosen(self, tmp_path):
        X, y, true = planted(n=300, dtype=np.float32)
        copies = [j for j in range(60) if j not in true][:10]
        X[:, copies] = np.repeat(X[:, true], 2, axis=1) * 3 + 1
        chosen = set(daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(8)).features.tolist())
        for place, j in enumerate(true):
            assert len(chosen & {j, *copies[2 * place : 2 * place + 2]}) == 1

    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("method", ["block", "paper"])
    def test_a_first_row_far_from_the_others_does_no_harm(self, tmp_path, method, intercept):
        """Columns are shifted by it before they are summed, in float32."""
        rng = np.random.default_rng(0)
        X = (rng.random((200_000, 12)) < 3e-4).astype(np.float32) * rng.normal(size=(200_000, 12)).astype(np.float32)
        X[0] = 1 + rng.random(12)
        algorithm = daskfs.OnlineSubstitution(2, method=method, intercept=intercept, ridge=1e-3)
        selection = daskfs.select(store(tmp_path, X, X[:, 4] - X[:, 9]), algorithm)
        assert sorted(selection.features.tolist()) == [4, 9]
        np.testing.assert_allclose(np.abs(selection.weights), 1, atol=0.01)

    @pytest.mark.parametrize("offset", [1e4, 1e8])
    def test_a_target_far_from_zero(self, tmp_path, offset):
        X, y, true = planted(n=200, dtype=np.float32)
        near, far = (
            daskfs.select(store(tmp_path / name, X, target), daskfs.OnlineSubstitution(5))
            for name, target in (("near", y), ("far", y + offset))
        )
        assert set(far.features.tolist()) == set(near.features.tolist()) == set(true)
        np.testing.assert_allclose(far.weights, near.weights, rtol=1e-3)
        assert far.intercept[0] - near.intercept[0] == pytest.approx(offset)

    def test_few_rows_and_very_many_columns_in_a_block(self, tmp_path):
        """Only so many may be fitted at once, however many look good."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 20_000)).astype(np.float32)
        dataset = store(tmp_path, X, X[:, 7] - X[:, 19_000], chunk_bytes=10**8)
        algorithm = daskfs.OnlineSubstitution(4, ridge=1e-3)
        assert dataset.n_blocks() == 1
        tracemalloc.start()
        selection = daskfs.select(dataset, algorithm)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert {7, 19_000} <= set(selection.features.tolist())
        assert peak < memory_plan(dataset, algorithm).total

    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    @pytest.mark.parametrize("importance", [1e-6, 1e5])
    def test_the_size_of_row_weights_does_not_matter(self, loss, importance):
        """One-hot columns add up to the intercept, so that only the ridge keeps them apart."""
        rng = np.random.default_rng(0)
        kinds = rng.integers(0, 6, 300)
        X = np.asfortranarray((kinds[:, None] == np.arange(6)).astype(np.float32))
        y = np.where(rng.random(300) < 0.2 + 0.6 * (kinds == 2), 1.0, -1.0)
        features = []
        for factor in (1.0, importance):
            meta = Meta("dense", 300, 6, 1800, 5, (-1.0, 1.0), X.nbytes, 4, weighted=True)
            algorithm = daskfs.OnlineSubstitution(6, loss=loss, ridge=1e-9).resolve(meta)
            weight = (factor * (1 + kinds % 2)).astype(np.float32)
            state = algorithm.update(algorithm.start(meta, 0), ColumnBlock(np.arange(6, dtype=np.uint64), X, y, weight))
            features.append(algorithm.result(algorithm.end_pass(state)[0]).features.tolist())
        assert features[0] == features[1]

    def test_a_single_row_is_refused(self, tmp_path):
        with pytest.raises(OptionError, match=r"all 1 samples have the label 0\.5: there is nothing to tell apart"):
            daskfs.select(store(tmp_path, np.ones((1, 6)), np.array([0.5])), daskfs.OnlineSubstitution(3))

    @pytest.mark.parametrize("n", [2, 3, 5])
    def test_hardly_any_rows(self, tmp_path, n):
        X, y = np.random.default_rng(0).normal(size=(n, 6)), np.arange(n) * 0.7 + 0.5
        selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(3))
        assert len(set(selection.features.tolist())) == 3
        assert np.isfinite(selection.weights).all()

    @pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float16, ">f8", np.int64])
    def test_kinds_of_numbers(self, tmp_path, dtype):
        X, y, _ = planted(p=20)
        X = (X > 0).astype(dtype) if dtype == np.bool_ else (3 * X).astype(dtype)
        ids = [
            daskfs.select(store(tmp_path, cells, y), daskfs.OnlineSubstitution(4)).features.tolist()
            for cells in (X, X.astype(np.float64))
        ]
        assert ids[0] == ids[1]


class TestRefused:
    """One line that says what is wrong and what to do."""

    @pytest.mark.parametrize("method", ["block", "paper", "async"])
    @pytest.mark.parametrize(
        ("factor", "message"), [(1e160, "no squares can be summed: divide it"), (1e-200, "multiply")]
    )
    def test_targets_whose_squares_are_no_numbers(self, tmp_path, method, factor, message):
        X, y, _ = planted(p=20)
        with pytest.raises(OptionError, match=message):
            daskfs.select(store(tmp_path, X, y * factor), daskfs.OnlineSubstitution(3, method=method))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_select": 0}, "n_select=0: must be a whole number, at least 1"),
            ({"n_select": 2.5}, "n_select=2.5: must be a whole number"),
            ({"n_select": "2"}, "n_select='2': must be a whole number"),
            ({"n_select": 3, "passes": 0}, "passes=0"),
            ({"n_select": 3, "ridge": "Auto"}, "ridge='Auto': must be a number above 0, or 'auto'"),
            (
                {"n_select": 3, "loss": "absolute"},
                "loss: 'absolute' is none of auto, squared, squared_hinge",
            ),
            ({"n_select": 3, "method": "greedy"}, "method: 'greedy' is none of block, paper, async"),
            ({"n_select": 3, "ridge": -1.0}, "ridge=-1.0: must be a number above 0, or 'auto'"),
            ({"n_select": 3, "step": 1.5}, "step=1.5"),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(OptionError, match=message):
            daskfs.OnlineSubstitution(**options)

    @pytest.mark.parametrize(
        ("loss", "y", "message"),
        [
            ("logistic", np.linspace(0, 1, 30), "takes classes, the target is a real number"),
            ("softmax", np.linspace(0, 1, 30), "takes classes, the target is a real number"),
            ("squared_hinge", np.ones(30, int), "all 30 samples have the label 1.0"),
        ],
    )
    def test_labels_that_do_not_fit_the_loss(self, tmp_path, loss, y, message):
        X = np.random.default_rng(0).normal(size=(30, 5))
        with pytest.raises(OptionError, match=message):
            daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(2, loss=loss))

    @pytest.mark.parametrize("method", ["block", "paper", "async"])
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_a_column_with_nan_is_named(self, tmp_path, monkeypatch, method, bad):
        X, y, _ = planted(p=30)
        X[17, 21] = bad
        names = [f"gene{j}" for j in range(30)]
        monkeypatch.setattr(
            "daskfs.store.ingest.arrays.first_not_finite", lambda values: -1
        )  # as another writer might do
        dataset = store(tmp_path, X, y, feature_names=names)
        with pytest.raises(DatasetError, match=r"column 'gene21' \(number 21\): holds NaN or infinity"):
            daskfs.select(dataset, daskfs.OnlineSubstitution(3, method=method))

    def test_more_features_than_sparse_columns_with_entries(self, tmp_path):
        rows = sp.csr_array((np.ones(3, np.float32), ([0, 1, 2], [1, 5, 900])), shape=(3, 901))
        daskfs.write_dataset(tmp_path / "rows", rows, [0.0, 1.0, 2.5])
        daskfs.transpose(tmp_path / "rows", tmp_path / "columns")
        with pytest.warns(UserWarning, match="3 features of the 10 asked for: the data have no more"):
            selection = daskfs.select(tmp_path / "columns", daskfs.OnlineSubstitution(10))
        assert sorted(selection.features) == [1, 5, 900]

    def test_rows_are_not_columns(self, tmp_path):
        X, y, _ = planted(p=10)
        with pytest.raises(OptionError, match="layout='both'"):
            daskfs.select(store(tmp_path, X, y, layout="rows"), daskfs.OnlineSubstitution(2))
