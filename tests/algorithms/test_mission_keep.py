"""MISSION with `keep`: features that are always in the model, and are not counted in k."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import daskfs
from daskfs.errors import OptionError
from daskfs.protocol import copy_state

pytestmark = pytest.mark.kernels

N, P, TRUE, KEEP = 3000, 60, [20, 40, 50], ["x5", "x3"]


def problem(n_classes=2, seed=0):
    """Column 5 is useful and column 3 is not; 20, 40 and 50 are useful beside them."""
    X = np.random.default_rng(seed).normal(size=(N, P)).astype(np.float32)
    score = 2 * X[:, 5] + X[:, TRUE] @ [1.5, -1.5, 1.5]
    return X, np.digitize(score, [0.0] if n_classes == 2 else [-1.5, 1.5])


def store(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, layout="rows", overwrite=True, **options)
    return daskfs.open_dataset(folder / "d.zarr")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"refit": 0},
        {"refit": 2},
        {"passes": 2, "idf": True},
        {"loss": "squared"},
        {"scale": False},
        {"depth": 1},
        {"method": "paper"},
        {"method": "hashing"},
        {"method": "iht", "learning_rate": 0.03},
        {"method": "batch-iht", "learning_rate": 0.1},
    ],
    ids=str,
)
def test_they_come_beside_the_selected(tmp_path, options):
    X, y = problem()
    dataset = store(tmp_path, X, y, chunk_bytes=50_000)
    selection = daskfs.select(dataset, daskfs.Mission(3, keep=KEEP, width=2**10, **options))
    assert len(selection.features) == 3
    assert options.get("method") == "iht" or sorted(selection.features.tolist()) == TRUE  # it prunes after every row
    assert selection.kept.names == KEEP
    assert np.isfinite(selection.kept.weights).all()
    assert selection.score(dataset) > 0.8
    assert len(daskfs.select(dataset, daskfs.Mission(3, width=2**10, **options)).names) == 3


@pytest.mark.parametrize("per_class", [False, True])
def test_several_classes(tmp_path, per_class):
    X, y = problem(n_classes=3)
    dataset = store(tmp_path, X, y)
    selection = daskfs.select(dataset, daskfs.Mission(3, keep=KEEP, width=2**10, per_class=per_class))
    assert set(TRUE) <= set(selection.features.tolist())
    assert not {3, 5} & set(selection.features.tolist())
    assert selection.kept.weights.shape == (2, 3)
    assert selection.score(dataset) > 0.8


def test_weights_are_those_of_a_fit_of_all_of_them(tmp_path):
    X, y = problem()
    selection = daskfs.select(store(tmp_path, X, y), daskfs.Mission(3, keep=KEEP, width=2**10))
    columns = [*selection.features.astype(int), 5, 3]
    weights = np.array([*selection.weights, *selection.kept.weights])
    expected = LogisticRegression(C=1 / 0.01, max_iter=1000).fit(X[:, columns], y).coef_[0]
    np.testing.assert_allclose(weights / weights[3], expected / expected[3], atol=0.03)


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_units_of_a_kept_feature_change_nothing(tmp_path, factor):
    X, y = problem()
    X *= np.random.default_rng(1).random((N, P)) < 0.15  # rare: its unit is that of its first value
    scaled = X.copy()
    scaled[:, 5] *= np.float32(factor)
    algorithm = daskfs.Mission(3, keep=KEEP, width=2**10, refit=0)
    plain, other = (daskfs.select(store(tmp_path, sp.csr_array(x), y), algorithm) for x in (X, scaled))
    assert plain.features.tolist() == other.features.tolist()
    np.testing.assert_allclose(other.kept.weights[0] * factor, plain.kept.weights[0], rtol=1e-3)


def test_shards_keep_them_too(tmp_path):
    X, y = problem()
    dataset = store(tmp_path, X, y, chunk_bytes=40_000)
    algorithm = daskfs.Mission(3, keep=KEEP, width=2**10).resolve(dataset.meta)
    state = algorithm.start(dataset.meta, seed=0)
    go_on = True
    while go_on:
        shards = [copy_state(state) for _ in range(3)]
        for number, block in enumerate(dataset.blocks(axis="rows")):
            shards[number % 3] = algorithm.update(shards[number % 3], block)
        state, go_on = algorithm.end_pass(algorithm.merge(shards))
    result = algorithm.result(state)
    assert sorted(result.features[:3].tolist()) == TRUE
    assert result.features[3:].tolist() == [5, 3]


def test_a_name_space_is_kept_whole(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        site, words = rng.integers(0, 3), rng.choice(50, 5, replace=False)
        label = 1 if (site == 1) + 2 * (7 in words) + rng.normal() > 0.7 else -1
        lines.append(f"{label} |site s{site} |word {' '.join(f'w{word}' for word in words)}")
    (tmp_path / "rows.vw").write_text("\n".join(lines))
    dataset = daskfs.ingest(tmp_path / "rows.vw", tmp_path / "d", format="vw")
    selection = daskfs.select(dataset, daskfs.Mission(1, keep=["site"], width=2**10))
    assert selection.names == ["word^w7"]
    assert sorted(selection.kept.names) == ["site^s0", "site^s1", "site^s2"]
    pairs = daskfs.select(dataset, daskfs.Mission(2, keep=["site"], interactions="all", width=2**12))
    assert sorted(pairs.kept.names) == ["site^s0", "site^s1", "site^s2"]
    assert len(pairs.names) == 2


def test_a_feature_without_entries_has_weight_0(tmp_path):
    X, y = problem()
    X[:, 3] = 0
    selection = daskfs.select(store(tmp_path, sp.csr_array(X), y), daskfs.Mission(3, keep=KEEP, width=2**10))
    assert sorted(selection.features.tolist()) == TRUE
    assert selection.kept.weights[1] == 0


def test_bad_names_are_told_in_one_line(tmp_path):
    X, y = problem()
    with pytest.raises(OptionError, match="keep: the dataset has no feature 'age'"):
        daskfs.select(store(tmp_path, X, y), daskfs.Mission(3, keep=["age"]))
    with pytest.raises(OptionError, match="give a list of names"):
        daskfs.Mission(3, keep="x5")
