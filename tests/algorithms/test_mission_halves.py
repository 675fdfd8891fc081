"""MISSION with error control: learners of halves, their salts and targets, and what they say of the features."""

from __future__ import annotations

import importlib
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.algorithms.mission import halves
from daskfs.algorithms.mission.halves import N_LEARNERS, POOL, HalvesState, is_in_first_half, learners, salts
from daskfs.algorithms.mission.rows import rows_of
from daskfs.errors import OptionError
from daskfs.protocol import SparseBlock, copy_state
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest import arrays
from daskfs.store.ingest.arrays import encode_target

N, P, TRUE = 12_000, 3_000, 20


def words(n: int = N, true: int = TRUE, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """Rows of twenty Zipf words, and classes that the first words after the hundred most frequent tell apart."""
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(1, P + 1))
    cells = np.repeat(np.arange(n), 20) * P + np.searchsorted(shares / shares[-1], rng.random(20 * n))
    cells = np.unique(cells)
    X = sp.csr_array((np.ones(len(cells), np.float32), (cells // P, cells % P)), (n, P))
    effects = np.zeros(P)
    effects[100 : 100 + true] = 4 * np.resize([1.0, -1.0], true)
    return X, rng.random(n) < 1 / (1 + np.exp(-(X @ effects)))


def control(k: int = 60, **fields) -> daskfs.Mission:
    return daskfs.Mission(k, width=2**12, error_control="halves", **fields)


@pytest.fixture(scope="module")
def selection() -> daskfs.Selection:
    X, y = words()
    return daskfs.select(X, control(max_fdr=0.1), y)


def test_true_words_are_reported_and_few_others(selection):
    said = selection.error_control
    assert said.n_searched == 60
    assert said.n_reported == len(selection.features)
    true = (selection.features >= 100) & (selection.features < 100 + TRUE)
    assert true.sum() >= 0.7 * TRUE
    assert (~true).mean() <= 0.15
    assert selection.statistics["q_value"].max() <= 0.1
    assert selection.statistics["times_chosen"].max() == N_LEARNERS // 2
    assert "p-value" not in said.sentence
    assert f"{said.n_reported} of 60 features at a false discovery rate of 0.1" in said.sentence


def test_a_selection_keeps_it_on_disk(selection, tmp_path):
    selection.save(tmp_path / "run")
    again = daskfs.load_selection(tmp_path / "run")
    assert again.error_control == selection.error_control
    assert again.statistics["times_chosen"].tolist() == selection.statistics["times_chosen"].tolist()


def test_the_learner_of_all_rows_is_that_without_error_control(selection):
    X, y = words()
    plain = daskfs.select(X, replace(control(), error_control=None), y)
    searched = daskfs.select(X, control(), y)
    assert sorted(searched.features.tolist()) == sorted(plain.features.tolist())
    assert set(selection.features.tolist()) < set(plain.features.tolist())


def test_expected_numbers_are_those_of_the_definition():
    state = HalvesState([], features=np.arange(6).astype(np.uint64), times=np.array([20, 20, 19, 12, 3, 0]))
    state.null_times = np.array([12, 2, 5, 1, 1, 3])
    said = halves.error_control_of(daskfs.Mission(6, error_control="halves", max_fdr=0.5), state)
    assert said.expected_false == (1, 1, 1, 2, 4, 7)
    assert said.q_values == pytest.approx((1 / 3, 1 / 3, 1 / 3, 0.5, 0.8, 1))
    assert said.n_reported == 4


def by_feature(selection: daskfs.Selection) -> dict[int, tuple[float, float]]:
    """How often every feature was chosen, and its q-value."""
    numbers = selection.statistics["times_chosen"].tolist(), selection.statistics["q_value"].tolist()
    return dict(zip(selection.features.tolist(), zip(*numbers, strict=True), strict=True))


def test_units_change_no_q_value():
    """Of the target, and of columns by positive constants, none of which is a power of two."""
    X, y = words(6_000)
    score = X[:, 100:120].sum(axis=1) + 0.3 * np.random.default_rng(1).normal(size=6_000)
    first, *others = [by_feature(daskfs.select(X, control(), factor * score)) for factor in (1, 3, -370.0)]
    assert min(q for _, q in first.values()) < 0.2
    assert others == [first, first]
    scale = 10.0 ** np.random.default_rng(2).uniform(-2, 2, P)
    assert by_feature(daskfs.select(X * scale, control(), y)) == by_feature(daskfs.select(X, control(), y))


def test_columns_with_another_sign_are_found_as_well():
    """Their weights have another sign in the cells that features share, so that q-values are others."""
    X, y = words()
    turned = X * np.random.default_rng(1).choice([-3.0, 3.0], P)
    selection = daskfs.select(turned, control(max_fdr=0.1), y)
    true = (selection.features >= 100) & (selection.features < 100 + TRUE)
    assert true.sum() >= 0.7 * TRUE
    assert (~true).mean() <= 0.15


def test_nothing_is_reported_where_nothing_is():
    X, y = words(true=0)
    selection = daskfs.select(X, control(max_fdr=0.1), y)
    assert len(selection.features) == 0
    assert selection.error_control.sentence == "none of 60 features at a false discovery rate of 0.1"
    assert np.unique(selection.decision_function(X)).size == 1


def test_every_learner_has_its_own_hashes():
    """With common hashes, words that share a cell with a true one are chosen by all halves alike."""
    assert len(set(salts(0).tolist())) == N_LEARNERS
    assert not set(salts(0).tolist()) & set(salts(1).tolist())
    assert salts(0).max() < 2**63
    rows = rows_of(
        SparseBlock(0, np.array([0, 2]), np.array([3, 9], np.uint64), np.ones(2, np.float32), np.ones(1)), np.ones(1)
    )
    given = [own.ids for own in learners(0, rows, np.zeros(1), np.arange(1))]
    assert len({ids.tobytes() for ids in given}) == N_LEARNERS
    for ids, salt in zip(given, salts(0), strict=True):
        assert (ids ^ salt).tolist() == [3, 9]


def test_halves_are_complementary_and_follow_from_row_numbers():
    numbers = np.arange(10_000)
    rows = rows_of(
        SparseBlock(0, np.arange(10_001), numbers.astype(np.uint64), np.ones(10_000, np.float32), np.ones(10_000)),
        np.ones(10_000),
    )
    weights = np.array([own.weight for own in learners(0, rows, np.zeros(10_000), numbers)])
    assert (weights[0::4] + weights[2::4] == 1).all()
    assert (weights[0::2] == weights[1::2]).all()  # the same half for the target and the permuted one
    assert (weights.sum(axis=1) == 5_000).all()
    assert abs(np.corrcoef(weights[0], weights[4])[0, 1]) < 0.05
    part = is_in_first_half(0, 3, np.arange(77, 1234))
    assert (part == is_in_first_half(0, 3, numbers)[77:1234]).all()


@pytest.mark.parametrize("sizes", [(16_000,), (1, 4_191, 4_000, 7_808), (333,) * 48 + (16,)])
def test_permuted_targets_do_not_depend_on_blocks(sizes):
    """Of rows that are long, 4,000 are learned together, and the pool of targets grows."""
    y, state, taken, first = np.arange(20_000.0), HalvesState([]), [], 4_000
    taken.append(state.permuted(y[:4_000], 0, 5))
    for size in sizes:
        taken.append(state.permuted(y[first : first + size], first, 5))
        first += size
    taken = np.concatenate(taken)
    assert sorted(taken[:4_000]) == sorted(y[:4_000])
    assert (taken[4_000:] < np.minimum(y[4_000:], POOL)).all()
    assert taken.max() > POOL - 10
    assert abs(np.corrcoef(taken[:POOL], y[:POOL])[0, 1]) < 0.7  # later rows have more to take from
    assert abs(np.corrcoef(taken[POOL:], y[POOL:])[0, 1]) < 0.05
    assert np.unique(taken[POOL:], return_counts=True)[1].max() < 12  # as drawn at random, from 8,192 targets
    again = HalvesState([])
    again.permuted(y[:4_000], 0, 6)
    assert (again.permuted(y[4_000:], 4_000, 6) != taken[4_000:]).mean() > 0.9


def test_rows_in_the_order_of_classes_are_mixed():
    """Few rows, sorted by class: permuted among all of them, and each stays in its half in every pass."""
    X, y = words(6_000)
    order = np.argsort(y, kind="stable")
    selection = daskfs.select(X[order], control(40, max_fdr=0.1), y[order])
    true = (selection.features >= 100) & (selection.features < 100 + TRUE)
    assert true.sum() >= 8
    assert (~true).mean() <= 0.2


def test_mixed_rows_keep_their_half_and_their_target_in_every_pass(monkeypatch):
    """Every row has one word, whose id is the number of the row, and rows are sorted by class."""
    learn = importlib.import_module("daskfs.algorithms.mission.learn")
    seen, learners_of = [], learn.learners

    def recorded(seed, rows, nulls, numbers, groups):
        seen.append((rows.ids.copy(), nulls.copy(), numbers.copy()))
        return learners_of(seed, rows, nulls, numbers, groups)

    monkeypatch.setattr(learn, "learners", recorded)
    n = 400
    daskfs.select(
        sp.eye_array(n, format="csr", dtype=np.float32), control(10, passes=2, refit=0), np.arange(n) >= n // 2
    )
    (ids, nulls, numbers), (again, nulls_again, numbers_again) = seen
    assert sorted(numbers) == list(range(n))
    assert ids.tolist() == numbers.tolist() != sorted(numbers)
    assert again.tolist() == numbers_again.tolist() != ids.tolist()
    assert (nulls[np.argsort(numbers)] == nulls_again[np.argsort(numbers_again)]).all()


@pytest.mark.parametrize(("n_shards", "first_rows"), [(1, 500), (2, 8_192), (3, 500)])
def test_shards_keep_the_permuted_target_in_every_pass(tmp_path, monkeypatch, n_shards, first_rows):
    """Every row has one word, whose id is the number of the row."""
    learn, seen = importlib.import_module("daskfs.algorithms.mission.learn"), np.full((2, 20_000), np.nan)
    learners_of, n_seen = learn.learners, np.zeros(20_000, int)

    def recorded(seed, rows, nulls, numbers, groups):
        assert rows.ids.tolist() == numbers.tolist()
        seen[n_seen[numbers], numbers] = nulls
        n_seen[numbers] += 1
        return learners_of(seed, rows, nulls, numbers, groups)

    monkeypatch.setattr(learn, "learners", recorded)
    monkeypatch.setattr(learn, "scale_target", lambda y, unit: y)  # shards differ in it until they merge
    monkeypatch.setattr("daskfs.algorithms.mission.calibration.FIRST_ENTRIES", first_rows)
    monkeypatch.setattr("daskfs.engine.run.n_shards_for", lambda *_: n_shards)
    monkeypatch.setattr(arrays, "BLOCK_ENTRIES", 1_000)
    X, y = sp.eye_array(20_000, format="csr", dtype=np.float32), np.random.default_rng(0).normal(size=20_000)
    dataset = daskfs.write_dataset(tmp_path / "d.zarr", X, y)
    daskfs.select(dataset, replace(control(10, passes=2, refit=0), width=16))
    assert (n_seen == 2).all()
    assert (seen[0] == seen[1]).all()
    assert np.isin(seen[0], y).all()
    assert abs(np.corrcoef(seen[0], y)[0, 1]) < 0.03


@pytest.mark.parametrize("size", [1_000, 5_000])
def test_shards_merge_into_one(tmp_path, size, monkeypatch):
    """Shards find what one learner finds, and merging leaves their states as they are."""
    X, y = words()
    monkeypatch.setattr(arrays, "BLOCK_ENTRIES", 20 * size)
    dataset = daskfs.write_dataset(tmp_path / "d.zarr", X, y)
    algorithm = control().resolve(dataset.meta)
    states = [algorithm.start(replace(dataset.meta, n_shards=2), 0) for _ in range(2)]
    for shard, block in enumerate(dataset.blocks(axis="rows")):
        states[shard % 2] = algorithm.update(states[shard % 2], block)
    before = copy_state(states)
    merged = algorithm.merge(states)
    learned = [algorithm._learn_buffer(copy_state(state)) for state in states]
    for number, memory in enumerate(merged.halves.memories):
        biases = [state.halves.memories[number].bias[0] for state in learned]
        assert memory.bias[0] == pytest.approx(np.mean(biases), rel=1e-4, abs=1e-6)
    state, _ = algorithm.end_pass(merged)
    for one, other in zip(states, before, strict=True):
        assert all((a.keys == b.keys).all() for a, b in zip(one.halves.memories, other.halves.memories, strict=True))
    searched, times = state.halves.features, state.halves.times
    assert np.isin(np.arange(100, 100 + TRUE), searched[times >= 15]).mean() >= 0.6
    assert state.halves.memories == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"method": "paper"}, "method='paper' has not been studied"),
        ({"loss": "squared_hinge"}, "loss='squared_hinge' has not been studied"),
        ({"keep": ("x1",)}, "kept features explain the target"),
        ({"interactions": "all"}, "interactions have not been studied"),
        ({"fading": 0.1}, "fading has not been studied"),
    ],
)
def test_what_was_not_studied_is_refused(fields, reason):
    X, y = words(500)
    with pytest.raises(OptionError, match=f"error_control='halves': {reason}"):
        daskfs.select(X, control(**fields), y)


def sessions(n: int, true: int, size: int) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Rows, their classes and their sessions; all rows of a session have the same class and twenty words in common."""
    rng = np.random.default_rng(0)
    session = rng.permutation(np.repeat(np.arange(n // size), size))
    common, y = words(n // size, true)
    return common[session], y[session], session


def test_sessions_deceive_unless_they_are_groups():
    """Words that all rows of a session share stand out in both halves, unless a session is in one of them."""
    X, y, session = sessions(8_000, true=0, size=16)
    apart, together = (
        daskfs.select(X, control(max_fdr=0.1), y, groups=groups) for groups in (None, [f"s{at}" for at in session])
    )
    assert len(apart.features) >= 10
    assert len(together.features) == 0


def test_true_words_are_found_in_sessions():
    X, y, session = sessions(16_000, true=10, size=8)
    selection = daskfs.select(X, control(max_fdr=0.1), y, groups=session)
    true = (selection.features >= 100) & (selection.features < 110)
    assert true.sum() >= 8
    assert (~true).sum() <= 2


def test_a_name_space_of_groups_is_used_and_not_selected(tmp_path, monkeypatch):
    """By lines of Vowpal Wabbit, in two passes: the session that a row names, and the one given for the row."""
    learn, seen = importlib.import_module("daskfs.algorithms.mission.learn"), []
    learners_of = learn.learners

    def recorded(seed, rows, nulls, numbers, groups):
        seen.append((rows.ids, nulls, groups))
        return learners_of(seed, rows, nulls, numbers, groups)

    monkeypatch.setattr(learn, "learners", recorded)
    rng = np.random.default_rng(0)
    session = rng.integers(0, 40, 600)
    y = rng.random(40)[session] < 0.5
    lines = [
        f"{1 if label else -1} |w a{a} b{b} |session s{at}"
        for label, at, a, b in zip(y, session, rng.integers(0, 30, 600), rng.integers(0, 30, 600), strict=True)
    ]
    (tmp_path / "rows.vw").write_text("\n".join(lines) + "\n")
    dataset = daskfs.ingest(tmp_path / "rows.vw", tmp_path / "rows.zarr", "vw")
    selection = daskfs.select(dataset, control(20, groups="session", passes=2), order="as-is")
    assert len(selection.names) == 20
    assert {name.partition("^")[0] for name in selection.names} == {"w"}
    (ids, nulls, groups), (_, nulls_again, groups_again) = seen
    assert len(ids) == 1_200  # two words a row
    assert (nulls == nulls_again).all()
    assert (groups == groups_again).all()
    pairs = set(zip(session.tolist(), groups.tolist(), strict=True))
    assert len(pairs) == len(dict(pairs)) == len(set(groups.tolist())) == len(set(session.tolist()))
    assert all(len(set(nulls[session == at])) == 1 for at in range(40))


def test_a_column_of_groups_is_not_selected_and_rows_without_a_group_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    donor = rng.integers(0, 50, 1_000)
    X, y = rng.normal(size=(1_000, 30)), donor % 2 == 0
    selection = daskfs.select(np.column_stack([X, donor]), control(30), y, groups="x30")
    assert "x30" not in selection.names
    assert len(selection.names) == 30  # all others
    for numbers in (donor / 3, donor + 2**25):  # such as a gap that was filled, and what float32 cannot tell apart
        with pytest.raises(OptionError, match="groups: must be whole numbers up to 16,777,216"):
            daskfs.select(np.column_stack([X, numbers]), control(30), y, groups="x30")
    lines = [f"{1 if row % 2 else -1} |w a{row % 7} |session s{row % 9}" for row in range(200)]
    (tmp_path / "rows.vw").write_text("\n".join([*lines, "1 |w a3"]) + "\n")
    dataset = daskfs.ingest(tmp_path / "rows.vw", tmp_path / "rows.zarr", "vw")
    with pytest.raises(OptionError, match="groups: there are rows that belong to no group"):
        daskfs.select(dataset, control(5, groups="session"))


def test_groups_are_halved_together():
    rng = np.random.default_rng(0)
    groups, numbers = rng.integers(0, 300, 5_000).astype(np.uint64), np.arange(5_000)
    rows = rows_of(
        SparseBlock(0, np.arange(5_001), numbers.astype(np.uint64), np.ones(5_000, np.float32), np.ones(5_000)),
        np.ones(5_000),
    )
    weights = np.array([own.weight for own in learners(0, rows, np.zeros(5_000), numbers, groups)])
    assert (weights[0::4] + weights[2::4] == 1).all()
    for group in np.unique(groups):
        assert (np.ptp(weights[:, groups == group], axis=1) == 0).all()
    assert abs(weights.mean() - 0.5) < 0.05
    assert len({own.tobytes() for own in weights[::2]}) == N_LEARNERS // 2


def test_groups_among_the_first_rows_exchange_their_targets():
    """The target is the number of the group; all later groups take that of one of these."""
    rng = np.random.default_rng(0)
    group = np.concatenate([rng.permutation(np.repeat(np.arange(100), 5)), rng.integers(0, 400, 3_000)])
    keys, y, state = group.astype(np.uint64) * np.uint64(10**15), group.astype(float), HalvesState([])
    edges = [0, 500, 501, 1_700, 3_500]
    taken = np.concatenate([state.permuted(y[a:b], a, 3, keys[a:b]) for a, b in pairwise(edges)])
    of_group = {(own, other) for own, other in zip(group.tolist(), taken.tolist(), strict=True)}
    assert len(of_group) == len(dict(of_group)) == 400  # one other group for each
    first = {own: other for own, other in of_group if own < 100}
    assert sorted(first.values()) == list(range(100))
    assert sum(own == other for own, other in first.items()) < 6
    assert set(taken) == set(range(100))
    assert (state.permuted(y[501:1_700], 501, 3, keys[501:1_700]) == taken[501:1_700]).all()


def test_limits_and_rows_that_say_nothing_are_refused(tmp_path):
    X, y = words(500)
    with pytest.raises(OptionError, match="max_fdr: needs error_control='halves'"):
        daskfs.Mission(10, max_fdr=0.1)
    with pytest.raises(OptionError, match=r"max_fdr=0.01: one permuted target cannot tell less than 0.1"):
        control(10, max_fdr=0.01)
    with pytest.raises(OptionError, match=r"max_false=0.5: one permuted target cannot tell less than 1"):
        control(10, max_false=0.5)
    with pytest.raises(OptionError, match="error_control: 'permuted' is none of halves"):
        daskfs.select(X, daskfs.Mission(10), y, error_control="permuted")
    with pytest.raises(OptionError, match="groups: needs error_control='halves'"):
        daskfs.Mission(10, groups="session")
    with pytest.raises(OptionError, match="groups: the dataset has no feature 'session'"):
        daskfs.select(X, control(10), y, groups="session")
    with pytest.raises(OptionError, match="groups: the first 500 rows are of 4 groups, and at least 5 have to"):
        daskfs.select(X, control(10), y, groups=np.arange(500) % 4)
    X, y = words(9_000)
    sorted_rows = daskfs.write_dataset(tmp_path / "sorted.zarr", X[np.argsort(y)], np.sort(y))
    with (
        pytest.warns(UserWarning, match="sorted by label"),
        pytest.raises(OptionError, match="rows in the order of their targets cannot be permuted in one pass"),
    ):
        daskfs.select(sorted_rows, control(10), order="as-is")


def test_the_plan_says_what_it_costs():
    assert daskfs.Mission(10).extra_work == ""
    assert control(10).extra_work.startswith("error control learns every row 20 times more")


def test_memory_of_all_learners_is_promised():
    X, y = words(2_000)
    dataset = InMemory(X, *encode_target(y, None), axis="rows")
    algorithm = replace(control(60), width=2**16).resolve(dataset.meta)
    [block] = dataset.blocks(axis="rows")
    algorithm.update(algorithm.start(dataset.meta, 0), block)
    tracemalloc.start()
    algorithm.end_pass(algorithm.update(algorithm.start(dataset.meta, 0), block))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= algorithm.nbytes(dataset.meta) <= 2 * peak
