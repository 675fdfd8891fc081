"""Stability under other seeds: the published index and variance, real runs, and what may not be compared."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import stability as paper
from scipy.stats import spearmanr
from selections import selection_of

import daskfs
from daskfs.errors import OptionError
from daskfs.selection.intervals import Z
from daskfs.selection.records import STABILITY, read_record, write_record
from daskfs.selection.stability import FEWEST, nogueira
from daskfs.store.places.location import Location


def seeded(*sets: list[int], n_features: int = 12) -> list[daskfs.Selection]:
    """Selections of one dataset under the seeds 0, 1, 2, …; their algorithm asked for as many as the first has."""
    made = [selection_of(features) for features in sets]
    source = made[0].source | {"n_features": n_features}
    return [replace(one, seed=seed, algorithm=made[0].algorithm, source=source) for seed, one in enumerate(made)]


@given(st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=2, max_size=14))
def test_as_the_paper_defines_it(rows):
    matrix = np.array(rows, float)
    index, (low, high) = nogueira([np.flatnonzero(row).astype(np.uint64) for row in matrix], 9)
    if matrix.mean() in (0, 1):
        assert all(map(math.isnan, (index, low, high)))
        return
    half = Z * math.sqrt(paper.variance(matrix))
    assert index == pytest.approx(paper.index(matrix), abs=1e-12)
    if len(matrix) < FEWEST:
        assert math.isnan(low)
        assert math.isnan(high)
        return
    assert low == pytest.approx(index - half, abs=1e-7)
    assert high == pytest.approx(min(index + half, 1.0), abs=1e-7)


def test_the_interval_covers_what_it_says():
    """Thirty sets whose features have chances of their own; the truth is the same index of very many sets."""
    chances = np.random.default_rng(1).beta(0.3, 1.0, 60)
    truth = paper.index((np.random.default_rng(0).random((40_000, 60)) < chances).astype(float))
    covered = 0
    for repeat in range(300):
        rows = np.random.default_rng(2 + repeat).random((30, 60)) < chances
        _, (low, high) = nogueira([np.flatnonzero(row).astype(np.uint64) for row in rows], 60)
        covered += low <= truth <= high
    assert 0.90 <= covered / 300 <= 0.99


def test_sets_at_random_have_an_index_of_nothing():
    rng = np.random.default_rng(3)
    sets = [rng.choice(1000, 30, replace=False).astype(np.uint64) for _ in range(40)]
    index, (low, high) = nogueira(sets, 1000)
    assert low < 0 < high
    assert abs(index) < 0.01


def test_times_order_and_jaccard():
    found = daskfs.stability(seeded([7, 3, 1], [3, 7, 2], [3, 1, 7]))
    assert found.of == "features"
    assert found.features.tolist() == [3, 7, 1, 2]  # both three times; 3 stands further up
    assert found.times.tolist() == [3, 3, 2, 1]
    assert found.names == ["x3", "x7", "x1", "x2"]
    assert found.seeds == [0, 1, 2]
    assert found.jaccard == pytest.approx(np.mean([2 / 4, 3 / 3, 2 / 4]))
    assert found.rank_correlation is None
    matrix = np.zeros((3, 12))
    for row, features in enumerate(([7, 3, 1], [3, 7, 2], [3, 1, 7])):
        matrix[row, features] = 1
    assert found.index == pytest.approx(paper.index(matrix))


def test_the_same_every_time():
    found = daskfs.stability(seeded(*[[1, 2], [2, 1]] * 5))
    assert (found.index, found.jaccard) == (1.0, 1.0)
    assert found.interval == pytest.approx((1.0, 1.0))


def test_ids_of_64_bits():
    big = [2**64 - 1, 2**63 + 5, 3]
    found = daskfs.stability(seeded(big, big[:2], n_features=2**63))
    assert found.features.tolist() == big
    assert found.times.tolist() == [2, 2, 1]
    assert 0.7 < found.index < 0.9


@pytest.mark.parametrize(("sets", "n_features"), [(([], []), 5), (([0, 1], [1, 0]), 2)])
def test_nothing_or_everything(sets, n_features):
    found = daskfs.stability(seeded(*sets, n_features=n_features))
    assert math.isnan(found.index)
    assert found.jaccard == 1.0
    assert found.record()["index"] is None
    assert found.record()["interval"] == [None, None]


def write_noisy(path: Path) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(800, 400)).astype(np.float32)
    y = np.where(X[:, :3] @ [3.0, -2.0, 2.0] + rng.normal(size=800) > 0, "yes", "no")
    daskfs.write_dataset(path, X, y, layout="rows")


def test_where_the_seed_does_nothing_the_record_says_so(tmp_path):
    write_noisy(tmp_path / "d.zarr")
    runs = [daskfs.select(tmp_path / "d.zarr", daskfs.Mission(6, width=64), seed=seed) for seed in range(2)]
    found = daskfs.stability(runs)
    assert (found.index, found.identical) == (1.0, True)
    assert "the seed makes no difference here" in found.record()["remark"]
    assert not daskfs.stability([runs[0], replace(runs[1], weights=runs[1].weights * 2)]).identical


def test_real_runs(tmp_path):
    write_noisy(tmp_path / "d.zarr")
    algorithm = daskfs.Mission(6, width=64, refit=1)  # some rows are held back, by the seed
    runs = [daskfs.select(tmp_path / "d.zarr", algorithm, seed=seed) for seed in range(4)]
    found = daskfs.stability(runs)
    sets = [set(run.features.tolist()) for run in runs]
    assert set(found.names[:3]) == {"x0", "x1", "x2"}
    assert found.times.sum() == 24
    assert found.jaccard == pytest.approx(np.mean([len(a & b) / len(a | b) for a, b in combinations(sets, 2)]))
    assert 0 < found.index < 1
    assert not found.identical
    assert "remark" not in found.record()
    write_record(Location(tmp_path / "run"), STABILITY, found.record())
    assert read_record(Location(tmp_path / "run"), STABILITY) == found.record()


@pytest.fixture(scope="module")
def waves(tmp_path_factory) -> list[daskfs.Selection]:
    path = tmp_path_factory.mktemp("waves") / "waves.zarr"
    X = np.random.default_rng(0).uniform(size=(1500, 6))
    daskfs.write_dataset(path, X, np.sin(6 * X[:, 1]) * X[:, 4], layout="rows")
    algorithm = daskfs.SparseRandomFeatures(n_select=20, rounds=3, per_round=60)
    return [daskfs.select(path, algorithm, seed=seed) for seed in range(3)]


def test_random_features_are_compared_by_their_inputs(waves):
    found = daskfs.stability(waves)
    assert found.of == found.record()["of"] == "inputs"
    assert found.n_candidates == 6
    assert set(found.names[:2]) == {"x1", "x4"}
    assert found.times[:2].tolist() == [3, 3]
    importances = [run.inputs.expansion.importance for run in waves]
    for run, importance in zip(waves, importances, strict=True):
        matter = [name for name in run.input_importance.input.values if name in found.names]
        assert importance.sum() == pytest.approx(1)
        assert run.input_importance.sel(input=matter).sum() >= 0.9
    expected = np.mean([spearmanr(a, b).statistic for a, b in combinations(importances, 2)])
    assert found.rank_correlation == pytest.approx(expected)
    json.dumps(found.record(), allow_nan=False)


def test_inputs_that_matter_are_nine_tenths(waves):
    shares = np.array([[0.5, 0.3, 0.15, 0.05, 0, 0], [0.05, 0.95, 0, 0, 0, 0], [0.0] * 6])
    made = [
        replace(run, inputs=replace(run.inputs, expansion=replace(run.inputs.expansion, importance=share)))
        for run, share in zip(waves, shares, strict=True)
    ]
    found = daskfs.stability(made)
    assert found.names == ["x1", "x0", "x2"]
    assert found.times.tolist() == [2, 1, 1]
    assert found.jaccard == pytest.approx(np.mean([1 / 3, 0, 0]))
    assert math.isnan(found.rank_correlation)
    assert found.record()["rank_correlation"] is None


def test_products_are_chosen_from_pairs(tmp_path):
    rng = np.random.default_rng(5)
    X = (rng.random((400, 5)) < 0.5).astype(np.float32)
    y = np.where(X[:, 1] * X[:, 3] > 0, 1.0, -1.0)
    daskfs.write_dataset(tmp_path / "d.zarr", X, y, layout="rows")
    algorithm = daskfs.Mission(4, interactions="all", learning_rate=0.3, width=2**8)
    found = daskfs.stability([daskfs.select(tmp_path / "d.zarr", algorithm, seed=seed) for seed in (0, 1)])
    assert found.n_candidates == 15
    assert -1 <= found.index <= 1


def test_a_long_list_and_long_names():
    sets = [list(range(start, start + 7000)) for start in (0, 6000)]
    one, other = seeded(*sets, n_features=10**6)
    one.names[0] = "<script>" + "y" * 10**6
    record = daskfs.stability([one, other]).record()
    assert (record["distinct"], len(record["features"])) == (13_000, 10_000)
    assert [feature["times"] for feature in record["features"][:1001]] == [2] * 1000 + [1]
    assert len(json.dumps(record)) < 10**6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 0}, "a seed is there twice"),
        ({"algorithm": {"name": "Mission", "n_select": 2}}, r"the algorithms differ \(loss, name, ridge\)"),
        ({"source": selection_of([1]).source | {"digest": "cd", "url": "b.zarr"}}, "and of b.zarr: give those of one"),
    ],
)
def test_what_may_not_be_compared(change, reason):
    one, other = seeded([1, 2], [2, 3])
    with pytest.raises(OptionError, match=reason):
        daskfs.stability([one, replace(other, **change)])


def test_one_alone():
    with pytest.raises(OptionError, match="1 selections: stability needs two at least"):
        daskfs.stability(seeded([1, 2]))


def test_halves_of_the_rows(tmp_path):
    """What a seed does not show: weak features come and go with the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30)).astype(np.float32)
    y = X[:, 3] + 0.05 * X[:, 8] + 0.3 * rng.normal(size=400)
    daskfs.write_dataset(tmp_path / "d.zarr", X, y)
    halves = daskfs.split(tmp_path / "d.zarr", tmp_path / "one.zarr", tmp_path / "other.zarr", 0.5)
    algorithm = daskfs.OnlineSubstitution(6, ridge=0.1)
    selections = [daskfs.select(half, algorithm, seed=seed) for seed, half in enumerate(halves)]
    found = daskfs.stability(selections, over="halves")
    assert (found.over, found.times[0], found.identical) == ("halves", 2, False)
    assert found.names[0] == "x3"
    assert 0 < found.index < 1
    with pytest.raises(OptionError, match="give those of one dataset"):
        daskfs.stability(selections)
