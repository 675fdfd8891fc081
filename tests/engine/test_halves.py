"""Selections from halves of the rows, side by side: each is that of a dataset with these rows alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from toy_runs import Stop, local_cluster, stopping_after

import daskfs
from daskfs.engine.halves import FromHalves, row_groups_of
from daskfs.engine.run import halves_at_once, select_from_halves
from daskfs.errors import OptionError
from daskfs.protocol import ColumnBlock
from daskfs.selection.selection import Selection

N, K, SEEDS = 161, 5, (3, 4, 5, 6)  # an odd number of rows
CASES = {
    "block": daskfs.OnlineSubstitution(K),
    "logistic": daskfs.OnlineSubstitution(K, loss="logistic"),
    "paper": daskfs.OnlineSubstitution(K, method="paper"),
    "error control": daskfs.OnlineSubstitution(K, error_control="permuted"),
    "kept": daskfs.OnlineSubstitution(K, keep=("x3",)),
    "univariate": daskfs.Univariate(K),
    "mission": daskfs.Mission(K, passes=4, width=2**10),
    "random": daskfs.SparseRandomFeatures(rounds=2, per_round=20, n_select=K, max_features=50),
}
OF_ROWS = ("mission", "random")


def problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 60)).astype(np.float32)
    X[np.abs(X) < 0.4] = 0
    return X, X[:, 10:15] @ [3, -3, 2.5, 2, -2] + rng.normal(size=N) > 0


def dataset_of(folder, kind: str, axis: str, n_blocks: int = 9) -> daskfs.Dataset:
    X, y = problem()
    if kind == "dense":
        return daskfs.write_dataset(folder / "d.zarr", X, y, layout=axis, chunk_bytes=50_000 // n_blocks)
    rows = daskfs.write_dataset(folder / "rows.zarr", sp.csr_array(X), y)
    return (
        rows
        if axis == "rows"
        else daskfs.transpose(folder / "rows.zarr", folder / "d.zarr", block_entries=9_000 // n_blocks)
    )


def rows_of_half(number: int) -> np.ndarray:
    """The rows that one column of row numbers is left with."""
    rows = np.arange(N, dtype=np.float64)
    block = ColumnBlock(np.zeros(1, np.uint64), rows[:, None], rows)
    return FromHalves(CASES["block"], SEEDS)._rows_of(number, block).y.astype(int)


def check_same(given: Selection, expected: Selection) -> None:
    assert given.features.tolist() == expected.features.tolist()
    assert given.weights.tobytes() == expected.weights.tobytes()
    assert given.seed == expected.seed


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_each_half_is_as_if_the_other_rows_did_not_exist(tmp_path, name, kind):
    X, y = problem()
    axis, n_blocks = (
        ("rows", 9) if name in OF_ROWS else ("columns", 1)
    )  # where blocks of columns end makes a difference
    dataset = dataset_of(tmp_path, kind, axis, n_blocks)
    selections = select_from_halves(dataset, CASES[name], SEEDS)
    assert len({tuple(selection.features) for selection in selections}) > 1
    for number, (selection, seed) in enumerate(zip(selections, SEEDS, strict=True)):
        rows = rows_of_half(number)
        data = X[rows] if kind == "dense" else sp.csr_array(X[rows])
        alone = daskfs.select(data, CASES[name], y[rows], seed=seed)
        assert (selection.features.tolist(), selection.seed) == (alone.features.tolist(), seed)
        np.testing.assert_allclose(selection.weights, alone.weights, rtol=1e-5)


def test_halves_of_a_pair_are_complementary_and_others_differ():
    halves = [set(rows_of_half(number).tolist()) for number in range(4)]
    for first, second in (halves[:2], halves[2:]):
        assert first | second == set(range(N))
        assert not first & second
        assert {len(first), len(second)} == {80, 81}
    assert 20 < len(halves[0] & halves[2]) < 60
    algorithm = FromHalves(CASES["block"], SEEDS)
    parts = [algorithm._is_in(1, first, count) for first, count in ((0, 7), (7, 1), (8, 100), (108, 53))]
    assert np.flatnonzero(np.concatenate(parts)).tolist() == sorted(halves[1])


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rows_of_a_group_are_in_the_same_half(tmp_path, kind):
    """Column 0 has the number of the group, and each half is as if the other groups did not exist."""
    X, y = problem()
    X[:, 0] = group = np.random.default_rng(1).integers(0, 24, N)
    y = group % 2 == 0
    if kind == "dense":
        dataset = daskfs.write_dataset(tmp_path / "d.zarr", X, y)
    else:
        daskfs.write_dataset(tmp_path / "rows.zarr", sp.csr_array(X), y)
        dataset = daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "d.zarr")
    algorithm = daskfs.OnlineSubstitution(K, error_control="permuted", groups="x0")
    halves = FromHalves(algorithm, SEEDS, row_groups_of(dataset, algorithm))
    selections, in_half = select_from_halves(dataset, algorithm, SEEDS), []
    for number, (selection, seed) in enumerate(zip(selections, SEEDS, strict=True)):
        rows = np.flatnonzero(halves._is_in(number, 0, N))
        in_half.append(set(group[rows].tolist()))
        assert 0.35 * N < len(rows) < 0.65 * N
        data = X[rows] if kind == "dense" else sp.csr_array(X[rows])
        alone = daskfs.select(data, algorithm, y[rows], seed=seed)
        assert (selection.names, "x0" in selection.names) == (alone.names, False)
        np.testing.assert_allclose(selection.weights, alone.weights, rtol=1e-5)
    assert not in_half[0] & in_half[1]
    assert in_half[0] | in_half[1] == in_half[2] | in_half[3] == set(range(24))
    assert in_half[0] not in (in_half[2], in_half[3])


def test_halves_of_few_groups_are_refused(tmp_path):
    X, y = problem()
    X[:, 0] = np.arange(N) % 4
    dataset = daskfs.write_dataset(tmp_path / "d.zarr", X, y)
    with pytest.raises(OptionError, match="groups: halves of 4 groups say nothing; give 5 at least"):
        select_from_halves(dataset, daskfs.OnlineSubstitution(K, error_control="permuted", groups="x0"), SEEDS)


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", ["block", "mission", "univariate"])
def test_two_workers_give_what_two_shards_of_each_half_give(tmp_path, name):
    axis = "rows" if name in OF_ROWS else "columns"
    dataset = dataset_of(tmp_path, "dense", axis)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskfs.engine.run.n_shards_for", lambda *_: 2)
        expected = select_from_halves(dataset, CASES[name], SEEDS)
        with local_cluster(2) as client:
            given = select_from_halves(dataset, CASES[name], SEEDS, client=client)
    for one, other in zip(given, expected, strict=True):
        check_same(one, other)


@pytest.mark.parametrize("name", ["block", "mission"])
def test_a_stopped_run_goes_on(tmp_path, monkeypatch, name):
    monkeypatch.setattr("daskfs.engine.checkpoint.EVERY_SECONDS", 0.0)
    dataset = dataset_of(tmp_path, "dense", "rows" if name in OF_ROWS else "columns")
    expected, place = select_from_halves(dataset, CASES[name], SEEDS), tmp_path / "c"
    with pytest.raises(Stop):
        select_from_halves(dataset, CASES[name], SEEDS, checkpoint=place, progress=stopping_after(9))
    seen = []
    given = select_from_halves(dataset, CASES[name], SEEDS, checkpoint=place, progress=seen.append)
    assert (seen[0].number, seen[0].blocks_done) > (1, 1)
    for one, other in zip(given, expected, strict=True):
        check_same(one, other)


def test_the_data_are_read_as_often_as_by_one_selection(tmp_path):
    dataset, algorithm = dataset_of(tmp_path, "dense", "columns"), daskfs.OnlineSubstitution(K, passes=1)
    reads: list[int] = []
    counted = replace_blocks(dataset, reads)
    select_from_halves(counted, algorithm, SEEDS)
    assert len(reads) == dataset.n_blocks("columns")


def replace_blocks(dataset: daskfs.Dataset, reads: list[int]) -> daskfs.Dataset:
    """The dataset, which notes every block of a pass that is read."""
    blocks = dataset.blocks

    def noted(*arguments, **options):
        for block in blocks(*arguments, **options):
            reads.append(block.nbytes)
            yield block

    dataset.blocks = noted
    return dataset


def test_memory_decides_how_many_run_side_by_side(tmp_path, monkeypatch):
    dataset, algorithm = dataset_of(tmp_path, "dense", "columns"), CASES["block"]
    assert halves_at_once(dataset, algorithm, range(20), None, False) == [range(20)]
    of_five = FromHalves(algorithm, tuple(range(10))).resolve(dataset.meta)
    needed = of_five.nbytes(dataset.meta) + 60 * dataset.meta.block_nbytes + (48 << 20)
    monkeypatch.setattr("daskfs.engine.run.available_memory", lambda: needed)
    groups = halves_at_once(dataset, algorithm, range(20), None, False)
    assert [list(group) for group in groups] == [list(range(10)), list(range(10, 20))]
    monkeypatch.setattr("daskfs.engine.run.available_memory", lambda: 0)
    assert halves_at_once(dataset, algorithm, range(20), None, False)[0] == range(2)
    with pytest.raises(OptionError, match="the selection needs"):
        select_from_halves(dataset, algorithm, (0, 1))
