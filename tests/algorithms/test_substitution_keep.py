"""Online Substitution with `keep`: features that are always in the model, and are not counted in k."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import daskfs
from daskfs.algorithms.substitution.exchange import score_block
from daskfs.errors import OptionError
from daskfs.protocol import copy_state

N, P, KEPT, TRUE = 240, 60, [5, 31], [30, 40, 50]
KEEP = [f"x{feature}" for feature in KEPT]


def confounded(seed=0):
    """Column 5 is a batch: it moves the target and twenty other columns. Without it some of these look useful."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P))
    X[:, 6:26] += 3 * X[:, [5]]
    y = 2 * X[:, 5] + X[:, TRUE] @ [1.0, -1, 0.9] + 0.3 * rng.normal(size=N)
    return X, y


def store(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, overwrite=True, **options)
    return daskfs.open_dataset(folder / "d.zarr")


def fit(X, y, selected, kept, ridge):
    """The weights of a ridge regression that penalises the selected columns only, and its objective, in plain numpy."""
    centred = X - X.mean(axis=0)
    Z = (centred / np.linalg.norm(centred, axis=0))[:, [*selected, *kept]]
    penalty = np.diag([ridge] * len(selected) + [0.0] * len(kept))
    target = y - y.mean()
    w = np.linalg.solve(Z.T @ Z + penalty, Z.T @ target)
    objective = 0.5 * ((target - Z @ w) ** 2).sum() + 0.5 * w @ penalty @ w
    return w / np.linalg.norm(centred, axis=0)[[*selected, *kept]], objective


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_is_better_beside_the_kept_columns(tmp_path, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 10)) + 0.5 * rng.normal(size=(60, 1))
    y = X[:, [0, 1, 2, 8]] @ [2.0, 3, -2, 3] + rng.normal(size=60)
    dataset = store(tmp_path, X, y, chunk_bytes=3 * 60 * 8)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(3, ridge=0.5, passes=20, keep=["x8", "x1"]))
    S = selection.features.astype(int).tolist()
    weights, objective = fit(X, y, S, [8, 1], 0.5)
    for leaves, enters in product(range(3), [feature for feature in range(10) if feature not in (8, 1, *S)]):
        assert objective < fit(X, y, [*S[:leaves], enters, *S[leaves + 1 :]], [8, 1], 0.5)[1]
    assert selection.kept.names == ["x8", "x1"]
    np.testing.assert_allclose([*selection.weights, *selection.kept.weights], weights, rtol=1e-5)


def test_scores_are_those_beside_the_kept_columns(tmp_path):
    """The score of a column is the decrease of the squared loss by it, once what kept columns explain is taken out."""
    X, y = confounded()
    dataset = store(tmp_path, X, y)
    algorithm = daskfs.OnlineSubstitution(3, ridge=1e-7, keep=KEEP).resolve(dataset.meta)
    state = algorithm.start(dataset.meta, seed=0)
    for block in dataset.columns(algorithm.visit_first(state)):
        state = algorithm.update(state, block)
    view = algorithm.view(state, 0).sets[0]
    [block] = dataset.blocks(axis="columns")
    K = np.column_stack([np.ones(N), X[:, KEPT]])
    missed = [t - K @ np.linalg.lstsq(K, t)[0] for t in (y, X)]
    expected = (missed[1].T @ missed[0]) ** 2 / (missed[1] ** 2).sum(axis=0)
    others = np.setdiff1d(np.arange(P), KEPT)
    np.testing.assert_allclose(score_block(view, block).score[others], expected[others], rtol=1e-3)


@pytest.mark.parametrize("target", ["numbers", "two classes", "three classes"])
@pytest.mark.parametrize("passes", [1, 3])
def test_what_the_batch_explains_is_not_chosen(tmp_path, target, passes):
    X, y = confounded()
    labels = {"numbers": y, "two classes": y > 0, "three classes": np.digitize(y, [-1.0, 1.0])}[target]
    dataset = store(tmp_path, X, labels, chunk_bytes=4 * N * 8)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(3, keep=KEEP, passes=passes))
    assert sorted(selection.features.tolist()) == TRUE
    assert selection.kept.features.tolist() == KEPT
    assert selection.evaluate(dataset).metrics["r2" if target == "numbers" else "balanced_accuracy"] > 0.8
    assert sorted(daskfs.select(dataset, daskfs.OnlineSubstitution(3)).features.tolist()) != TRUE


@pytest.mark.parametrize("synchronous", [True, False])
def test_workers_keep_them_too(tmp_path, two_workers, synchronous):
    X, y = confounded()
    dataset = store(tmp_path, X, y, chunk_bytes=4 * N * 8)
    algorithm = daskfs.OnlineSubstitution(3, keep=KEEP, ridge=0.1)
    selection = daskfs.select(dataset, algorithm, client=two_workers, synchronous=synchronous)
    assert sorted(selection.features.tolist()) == TRUE
    assert selection.kept.features.tolist() == KEPT
    np.testing.assert_allclose(selection.kept.weights, daskfs.select(dataset, algorithm).kept.weights, rtol=1e-4)


def test_columns_to_keep_enter_whenever_they_come(tmp_path):
    """In a pass without a visit before it, as after a lost centre, and with several shards."""
    X, y = confounded()
    dataset = store(tmp_path, X, y, chunk_bytes=4 * N * 8)
    algorithm = daskfs.OnlineSubstitution(3, keep=KEEP, ridge=0.1).resolve(dataset.meta)
    state = algorithm.start(dataset.meta, seed=0)
    for _ in range(2):
        shards = [copy_state(state), copy_state(state)]
        for number, block in enumerate(dataset.blocks(axis="columns")):
            shards[number % 2] = algorithm.update(shards[number % 2], block)
        state, _ = algorithm.end_pass(algorithm.merge(shards))
    result = algorithm.result(state)
    assert sorted(result.features[:3].tolist()) == TRUE
    assert result.features[3:].tolist() == KEPT
    assert result.n_kept == 2
    assert set(KEPT) <= set(algorithm.held_features(state).tolist())


def test_an_offer_based_on_an_old_view_brings_them(tmp_path):
    X, y = confounded()
    X[:, 31] = np.random.default_rng(1).normal(size=N)  # useless, so that nothing but its name lets it enter
    dataset = store(tmp_path, X, y, chunk_bytes=4 * N * 8)
    algorithm = daskfs.OnlineSubstitution(2, keep=KEEP, ridge=0.1).resolve(dataset.meta)
    state = algorithm.update(algorithm.start(dataset.meta, seed=0), dataset.read(10, "columns"))
    old = copy_state(algorithm.view(state, 0))
    state = algorithm.update(state, dataset.read(12, "columns"))
    _, offer = algorithm.work(None, old, dataset.read(7, "columns"), 0)
    state = algorithm.accept(state, offer)
    assert 31 in algorithm.held_features(state)


def test_a_run_that_was_stopped_keeps_them(tmp_path, monkeypatch):
    X, y = confounded()
    dataset = store(tmp_path, X, y, chunk_bytes=4 * N * 8)
    algorithm = daskfs.OnlineSubstitution(3, keep=KEEP)
    monkeypatch.setattr("daskfs.engine.checkpoint.Checkpoint.is_due", lambda self: True)

    def stop(progress):
        if (progress.number, progress.blocks_done) == (1, 12):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", progress=stop)
    resumed, whole = daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c"), daskfs.select(dataset, algorithm)
    np.testing.assert_array_equal(resumed.features, whole.features)
    np.testing.assert_allclose(resumed.kept.weights, whole.kept.weights)


def test_columns_to_keep_may_be_constant_or_equal(tmp_path):
    X, y = confounded()
    X[:, 31], X[:, 0], X[:, 1] = 1.0, X[:, 5], 2 * X[:, 30]
    dataset = store(tmp_path, X, y, chunk_bytes=4 * N * 8)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(3, keep=["x31", "x5", "x0"]))
    assert len({1, 30} & set(selection.features.tolist())) == 1
    assert selection.kept.names == ["x31", "x5", "x0"]
    assert selection.kept.weights[0] == 0
    assert selection.kept.weights[1:].sum() == pytest.approx(2, abs=0.3)


def test_a_copy_of_a_kept_column_is_not_chosen(tmp_path):
    X, y = confounded()
    X[:, 0] = -2 * X[:, 5]
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(3, keep=["x5"]))
    assert sorted(selection.features.tolist()) == TRUE


def test_all_features_of_a_column_of_categories_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    site, X = rng.integers(0, 3, 300), rng.normal(size=(300, 8))
    y = np.array([0.0, 5, -5])[site] + X[:, 2] + 0.1 * rng.normal(size=300)
    header = ",".join(["y", "site", *(f"g{number}" for number in range(8))])
    rows = [",".join([f"{y[i]}", f"site-{'abc'[site[i]]}", *map(str, X[i])]) for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows]))
    rows_first = daskfs.ingest(tmp_path / "t.csv", tmp_path / "rows", format="csv", label="y")
    dataset = daskfs.transpose(rows_first, tmp_path / "columns")
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(1, keep=["site"]))
    assert selection.names == ["g2"]
    assert sorted(selection.kept.names) == ["site=site-a", "site=site-b", "site=site-c"]
    assert selection.score(dataset) > 0.99


def test_bad_names_are_told_in_one_line(tmp_path):
    X, y = confounded()
    dataset = store(tmp_path, X[:, :6], y)
    for algorithm, line in (
        (daskfs.OnlineSubstitution(2, keep=["age"]), "keep: the dataset has no feature 'age'"),
        (daskfs.OnlineSubstitution(1, keep=[f"x{i}" for i in range(6)]), "keep: all 6 features .* none is left"),
        (daskfs.OnlineSubstitution(2, keep=["x1"], method="paper"), "method='paper' keeps no features"),
        (daskfs.OnlineSubstitution(2, keep=["x1"], method="async"), "method='async' keeps no features"),
    ):
        with pytest.raises(OptionError, match=line):
            daskfs.select(dataset, algorithm)
    with pytest.raises(OptionError, match="give a list of names"):
        daskfs.OnlineSubstitution(2, keep="x1")
    few = store(tmp_path, X[:4], y[:4])
    with pytest.raises(OptionError, match="3 features to keep fit 4 rows whatever these are"):
        daskfs.select(few, daskfs.OnlineSubstitution(1, keep=["x0", "x1", "x2"]))


def test_all_others_if_they_are_fewer_than_asked_for(tmp_path):
    X, y = confounded()
    dataset, algorithm = store(tmp_path, X[:, :6], y), daskfs.OnlineSubstitution(5, keep=["x1", "x2"])
    assert algorithm.resolve(dataset.meta).n_select == 4  # which memory is promised for
    with pytest.warns(UserWarning, match="4 features of the 5 asked for: the data have no more"):
        selection = daskfs.select(dataset, algorithm)
    assert sorted(selection.names) == ["x0", "x3", "x4", "x5"]


@pytest.mark.parametrize("synchronous", [None, True, False])
def test_many_columns_are_kept_beside_a_few(tmp_path, two_workers, synchronous):
    """More than are nominated at once, as the categories of a column can be."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 150))
    weights = rng.choice([-1.0, 1.0], 100)
    y = X[:, :100] @ weights + X[:, 120] + 0.01 * rng.normal(size=400)
    dataset = store(tmp_path, X, y)
    algorithm = daskfs.OnlineSubstitution(1, keep=[f"x{feature}" for feature in range(100)], passes=1, ridge=1e-3)
    schedule = {} if synchronous is None else {"client": two_workers, "synchronous": synchronous}
    selection = daskfs.select(dataset, algorithm, **schedule)
    assert selection.names == ["x120"]
    np.testing.assert_allclose(selection.kept.weights, weights, atol=0.02)
