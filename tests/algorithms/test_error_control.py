"""Error control by permuted targets: against plain numpy, with nothing to find, and with input it must refuse."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from reference import error_control as reference

import daskfs
from daskfs.algorithms.error_control import count_reported, permutation, q_values
from daskfs.algorithms.substitution.columns import sweep_block, sweep_sets
from daskfs.algorithms.substitution.error_control import (
    N_PERMUTED,
    check_groups,
    expected_false,
    permuted_rows,
    t_values,
)
from daskfs.errors import ColumnError, OptionError
from daskfs.protocol import ColumnBlock, ErrorControl, SparseColumnBlock
from daskfs.sklearn import OnlineSubstitutionSelector
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target

pytestmark = pytest.mark.kernels


def control(k: int, **options) -> daskfs.OnlineSubstitution:
    return daskfs.OnlineSubstitution(k, error_control="permuted", **options)


def planted(n=300, p=200, true=6, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, :true] @ rng.choice([-1.0, 1.0], true) + noise * rng.normal(size=n)


def last_state(X, y, algorithm):
    """The state after all passes, and the algorithm for these data."""
    dataset = InMemory(X, *encode_target(y, None), axis="columns")
    algorithm = algorithm.resolve(dataset.meta)
    state, go_on = algorithm.start(dataset.meta, seed=0), True
    while go_on:
        for block in dataset.blocks(axis="columns"):
            state = algorithm.update(state, block)
        state, go_on = algorithm.end_pass(state)
    return state, algorithm


def test_t_values_of_all_sets_are_those_of_plain_numpy():
    X, y = planted()
    state, algorithm = last_state(X, y, control(12))
    np.testing.assert_allclose(
        t_values(state.sets[0]), reference.t_values(X[:, state.sets[0].features], y, 0.1), rtol=1e-6
    )
    t, pooled = reference.t_values(X[:, state.sets[0].features], y, ridge=0), []
    for number, null in enumerate(state.nulls):
        y0 = y[permuted_rows(0, number, y)]
        pooled.append(reference.t_values(X[:, null.features], y0, ridge=0))
    assert len({tuple(sorted(null.features)) for null in state.nulls}) == N_PERMUTED  # each has a target of its own
    result = algorithm.result(state)
    best = np.sort(t)[::-1]
    np.testing.assert_allclose(result.statistics["t_value"], best, rtol=1e-4)  # under a ridge of 1e-6
    null = np.concatenate(pooled)
    np.testing.assert_allclose(result.statistics["expected_false"], reference.expected_false(best, null, N_PERMUTED))
    np.testing.assert_allclose(result.statistics["q_value"], reference.q_values(best, null, N_PERMUTED))
    bests = [values.max() for values in pooled]
    assert result.error_control.p_value_nothing == pytest.approx(reference.nothing_here(best, bests))


@pytest.mark.parametrize("seed", range(20))
def test_q_values_are_those_of_plain_numpy_also_with_ties(seed):
    rng = np.random.default_rng(seed)
    t, null = np.sort(rng.integers(0, 12, 15) / 2)[::-1], rng.integers(0, 8, 60) / 2
    expected = expected_false(t, null)
    np.testing.assert_allclose(expected, reference.expected_false(t, null, N_PERMUTED))
    np.testing.assert_allclose(q_values(t, expected), reference.q_values(t, null, N_PERMUTED))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("max_fdr", "max_false"), [(0.3, None), (None, 1.2), (0.3, 1.2), (0.05, 0.2), (1 / 3, 0.7)])
def test_limits_hold_together_for_the_features_reported(seed, max_fdr, max_false):
    """Against a plain search of all cuts, in fractions; scores have ties, and shares are exactly at the limit."""
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.integers(0, 25, 30))[::-1] / 2.0
    tenths = [int(n) for n in 1 + np.searchsorted(np.sort(-rng.integers(0, 9, 40) / 2.0), -scores, side="right")]
    fits = []
    for n in range(31):
        whole = n in (0, 30) or scores[n - 1] > scores[n]
        share = Fraction(tenths[n - 1], 10 * n) if n else 0
        within = n == 0 or (
            (max_fdr is None or share <= Fraction(max_fdr).limit_denominator(100))
            and (max_false is None or Fraction(tenths[n - 1], 10) <= Fraction(max_false).limit_denominator(100))
        )
        if whole and within:
            fits.append(n)
    assert count_reported(scores, np.array(tenths) / 10, max_fdr, max_false) == max(fits)


def test_a_limit_of_false_features_does_not_raise_the_false_discovery_rate():
    """All 20 features are below 0.05 together; of the two that `max_false` leaves, a tenth would be false."""
    scores, expected = np.arange(20.0, 0, -1), np.array([0.1, 0.2, *[0.3] * 18])
    assert count_reported(scores, expected, 0.05, None) == 20
    assert count_reported(scores, expected, None, 0.2) == 2
    assert count_reported(scores, expected, 0.05, 0.2) == 0
    assert q_values(np.ones(9), np.full(9, 2.7)).max() <= 0.3


def test_logistic_t_values_are_the_rise_of_the_loss_to_second_order():
    X, score = planted(n=500)
    state, algorithm = last_state(X, np.where(score > 0, "b", "a"), control(6))
    result = algorithm.result(state)
    assert set(result.features.tolist()) == set(range(6))
    S = X[:, result.features.astype(int)]
    Z = np.c_[np.ones(500), (S - S.mean(axis=0)) / np.linalg.norm(S - S.mean(axis=0), axis=0)]
    y, w = np.where(score > 0, 1.0, 0.0), np.zeros(7)
    penalty = np.diag([0.0] + [0.02] * 6)
    for _ in range(50):
        p = 1 / (1 + np.exp(-Z @ w))
        H = Z.T @ (Z * (p * (1 - p))[:, None]) + penalty
        w += np.linalg.solve(H, Z.T @ (y - p) - penalty @ w)
    expected = np.abs(w[1:]) / np.sqrt(np.diag(np.linalg.inv(H))[1:])
    np.testing.assert_allclose(result.statistics["t_value"], expected, rtol=1e-3)


def test_features_are_those_of_a_plain_selection():
    X, y = planted(true=12, noise=0.5)
    plain = daskfs.select(X, daskfs.OnlineSubstitution(12, ridge=0.1), y)
    controlled = daskfs.select(X, control(12, ridge=0.1), y)
    assert set(controlled.features.tolist()) == set(plain.features.tolist())
    by_id = [selection.weights[np.argsort(selection.features)] for selection in (controlled, plain)]
    np.testing.assert_allclose(*by_id, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("classes", [False, True])
def test_units_do_not_matter(classes, dtype):
    """Columns and a target times constants that are no powers of two, some of them negative."""
    X, y = planted(noise=3)
    rng = np.random.default_rng(1)
    scale = rng.choice([-1.0, 1.0], X.shape[1]) * 10.0 ** rng.uniform(-4, 4, X.shape[1])
    targets = [y, y, -3.7e3 * y] if not classes else [y > 0] * 3
    first, *others = [
        daskfs.select(data.astype(dtype), control(20), y) for data, y in zip([X, X * scale, X], targets, strict=True)
    ]
    assert first.statistics["q_value"].min() <= 0.1 < first.statistics["q_value"].max()
    for other in others:
        assert other.features.tolist() == first.features.tolist()
        np.testing.assert_array_equal(other.statistics["q_value"], first.statistics["q_value"])
        np.testing.assert_allclose(other.statistics["t_value"], first.statistics["t_value"], rtol=1e-3)


def test_limits_report_fewer_and_fit_these_alone():
    X, y = planted(noise=3.5)
    whole, some = (daskfs.select(X, control(20, **limits), y) for limits in ({}, {"max_fdr": 0.1}))
    q = whole.statistics["q_value"]
    assert 3 <= len(some.features) == (q <= 0.1).sum() < 20
    assert some.features.tolist() == whole.features[q <= 0.1].tolist()
    assert whole.error_control.q_values == some.error_control.q_values == tuple(q)
    S = X[:, some.features.astype(int)]
    least_squares = np.linalg.lstsq(S - S.mean(axis=0), y - y.mean())[0]
    np.testing.assert_allclose(some.weights, least_squares, rtol=0.1)
    more = daskfs.select(X, control(20, max_false=5), y)
    assert len(some.features) < len(more.features) == (whole.statistics["expected_false"] <= 5).sum() < 20
    assert " of 20 features with at most 5 expected to be false; at most about 4" in more.error_control.sentence
    n_good = (q <= 0.1).sum()
    least = 'the p-value of "there is nothing here" is 0.091, the least that 10 permutations can show'
    assert whole.error_control.sentence == (
        f"all 20 features, as no limit was given; {n_good} have a q-value up to 0.1; {least}"
    )


def test_a_p_value_is_called_the_least_only_if_it_is():
    numbers = (0.1, 1.0), (0.1, 0.5)
    assert "the least" in ErrorControl(2, 1, 0.1, None, 1 / 11, *numbers).sentence
    assert "the least" not in ErrorControl(2, 1, 0.1, None, 2 / 11, *numbers).sentence
    assert "the least" not in ErrorControl(2, 1, 0.1, None, None, *numbers, n_permuted=1).sentence


def test_a_record_without_the_number_of_permutations_has_ten():
    record = ErrorControl(2, 1, 0.1, None, 0.1, (0.1, 1.0), (0.1, 0.5)).record()
    del record["n_permuted"]
    assert ErrorControl.from_record(record).n_permuted == 10


@pytest.mark.parametrize("options", [{}, {"intercept": False}])
def test_nothing_to_report_is_a_selection_without_features(tmp_path, options):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 100)), rng.normal(size=200)
    selection = daskfs.select(X, control(10, max_fdr=0.1, **options), y)
    assert selection.names == []
    assert selection.error_control.sentence.startswith("none of 10 features at a false discovery rate of 0.1; ")
    assert selection.predict(X) == pytest.approx(np.full(200, y.mean() if not options else 0.0))
    selection.save(tmp_path / "run")
    assert daskfs.load_selection(tmp_path / "run").error_control == selection.error_control


def test_permutations_depend_on_seed_and_number_alone():
    orders = {tuple(permutation(seed, number, 50)) for seed in range(4) for number in range(5)}
    assert len(orders) == 20
    assert all(sorted(order) == list(range(50)) for order in orders)
    in_place = np.mean([permutation(0, number, 1000) == np.arange(1000) for number in range(100)])
    assert 0 < in_place < 0.01
    assert permutation(3, 0, 1 << 17)[:3].tolist() == permutation(3, 0, 1 << 17)[:3].tolist()


@pytest.mark.parametrize("n_classes", [2, 50])
def test_groups_with_one_target_each_exchange_it(n_classes):
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.repeat(np.arange(40), rng.integers(1, 9, 40)))
    y = rng.integers(0, n_classes, 40).astype(float)[groups]
    check_groups(y, groups)
    y0 = y[permuted_rows(0, 1, y, groups)]
    by_group = [set(y0[groups == group].tolist()) for group in range(40)]
    assert all(len(values) == 1 for values in by_group)
    values = [float(y[groups == group][0]) for group in range(40)]
    assert sorted(value for (value,) in by_group) == sorted(values)
    assert [value for (value,) in by_group] != values


def test_groups_of_one_size_exchange_their_targets_row_by_row():
    rng = np.random.default_rng(0)
    sizes = np.repeat([3, 5], 15)
    groups = rng.permutation(np.repeat(np.arange(30), sizes))
    y = rng.normal(size=len(groups))
    check_groups(y, groups)
    rows = permuted_rows(0, 0, y, groups)
    assert sorted(rows) == list(range(len(y)))
    for group in range(30):
        source = set(groups[rows[groups == group]].tolist())
        assert len(source) == 1
        assert sizes[source.pop()] == sizes[group]
    assert (rows == np.arange(len(y))).mean() < 0.3


def test_groups_that_cannot_change_places_are_refused():
    groups = np.repeat(np.arange(12), np.arange(1, 13))
    with pytest.raises(OptionError, match="12 groups would leave 100% of the rows in place, since only groups of the"):
        check_groups(np.arange(78.0), groups)
    with pytest.raises(OptionError, match="4 groups would leave 25% of the rows in place, since they are few"):
        check_groups(np.repeat(np.arange(4.0), 10), np.repeat(np.arange(4), 10))


REFUSED = {
    "paper": ({"method": "paper"}, "method='paper' treats columns one by one"),
    "keep": ({"keep": ["x3"]}, "kept features explain the target"),
    "hinge": ({"loss": "squared_hinge"}, "loss='squared_hinge' has not been studied"),
    "ridge": ({"ridge": 0.1}, "a ridge of 0.1 hides which of several similar features is true: use at most 0.02"),
    "small ridge": ({"ridge": 0.001}, "a ridge of 0.001 is too small to tell true features of classes: use at least"),
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_would_not_compare_is_refused(options, reason):
    X, y = planted()
    with pytest.raises(OptionError, match=f"error_control='permuted': {reason}"):
        daskfs.select(X, control(5, **options), y > 0)


def test_targets_and_rows_that_do_not_fit_are_refused():
    X, y = planted()
    with pytest.raises(OptionError, match="error_control='permuted': it is for one target"):
        daskfs.select(X, control(5), np.c_[y, y])
    with pytest.raises(OptionError, match="loss='softmax' has not been studied"):
        daskfs.select(X, control(5), np.digitize(y, [-1, 1]))
    with pytest.raises(OptionError, match="60 rows cannot judge 55 features: select fewer"):
        daskfs.select(X[:60], control(55), y[:60])
    with pytest.warns(UserWarning, match="300 rows are few to judge 50 features"):
        daskfs.select(X, control(50), y)


def test_a_pass_reads_the_bytes_of_a_plain_one(tmp_path):
    X, y = planted()
    daskfs.write_dataset(tmp_path / "d.zarr", X.astype("f4"), y, chunk_bytes=20_000)
    plain, controlled = (
        daskfs.select(tmp_path / "d.zarr", each) for each in (daskfs.OnlineSubstitution(8), control(8))
    )
    read = [set(selection.steps["bytes"][:2]) for selection in (plain, controlled)]
    assert read[0] == read[1] == {float(4 * X.size)}


def test_limits_are_checked():
    for options, reason in (
        ({"max_fdr": 0.1}, "max_fdr: needs error_control='permuted'"),
        ({"error_control": "bootstrap"}, "error_control: 'bootstrap' is none of"),
        ({"error_control": "permuted", "max_false": 0.05}, "10 permuted targets cannot tell less than 0.1"),
        ({"error_control": "permuted", "max_fdr": 0.01}, "10 permuted targets cannot tell less than 0.02"),
        ({"error_control": "permuted", "max_fdr": -1}, "max_fdr"),
    ):
        with pytest.raises(OptionError, match=reason):
            daskfs.OnlineSubstitution(5, **options)


@pytest.mark.parametrize(
    "damage",
    [
        {"n_searched": 3},
        {"n_permuted": None},
        {"n_reported": 9},
        {"q_values": None},
        {"q_values": [0.1, "a"]},
        {"max_fdr": "x"},
    ],
)
def test_a_damaged_record_is_refused(damage):
    record = ErrorControl(2, 1, 0.1, None, 0.1, (0.1, 1.0), (0.1, 0.5)).record()
    with pytest.raises(ValueError, match="error control has"):
        ErrorControl.from_record(record | damage)


def visits(donors=60, seed=0):
    """Four visits of every donor, whose columns and target are alike in all visits: 60 rows that count for 240."""
    rng = np.random.default_rng(seed)
    donor = np.repeat(np.arange(donors), 4)
    X = rng.normal(size=(donors, 150))[donor] + 0.1 * rng.normal(size=(len(donor), 150))
    return X, rng.normal(size=donors)[donor], donor


def test_rows_that_belong_together_deceive_unless_they_are_groups():
    X, y, donor = visits()
    alone, together = (
        daskfs.select(X, 20, y, error_control="permuted", max_fdr=0.1, groups=groups) for groups in (None, donor)
    )
    assert len(alone.features) > 5
    assert len(together.features) <= 1
    by_name = daskfs.select(X, 20, y, error_control="permuted", max_fdr=0.1, groups=[f"donor {at}" for at in donor])
    assert by_name.error_control == together.error_control


def test_columns_of_groups_are_read_once():
    X, y, donor = visits()
    dataset = InMemory(np.c_[X, donor], *encode_target(y, None), axis="columns")
    algorithm = control(5, groups="x150").resolve(dataset.meta)
    state = algorithm.start(dataset.meta, seed=0)
    assert algorithm.visit_first(state).tolist() == [150]
    for block in (*dataset.columns(algorithm.visit_first(state)), *dataset.blocks(axis="columns")):
        state = algorithm.update(state, block)
    state, go_on = algorithm.end_pass(state)
    assert go_on
    assert len(algorithm.visit_first(state)) == 0


def test_estimators_take_groups():
    X, y, donor = visits(30)
    options = {"error_control": "permuted", "max_fdr": 0.1}
    together = daskfs.select(X, 10, y, **options, groups=donor)
    selector = OnlineSubstitutionSelector(10, **options, random_state=0)
    assert selector.fit(X, y, groups=[f"donor {at}" for at in donor]).selection_.error_control == together.error_control
    assert selector.fit(X, y).selection_.error_control != together.error_control
    with pytest.raises(OptionError, match="groups: missing='drop' leaves out rows"):
        OnlineSubstitutionSelector(10, **options, missing="drop").fit(X, y, groups=donor)
    with pytest.raises(OptionError, match="groups: needs error control"):
        OnlineSubstitutionSelector(10).fit(X, y, groups=donor)


def donors_and_genes():
    import pandas as pd

    X, y, donor = visits(12)
    y += 2 * (donor == 3)  # it would be selected if it could be
    return pd.DataFrame(X[:, :40].round(6), columns=[f"gene{j}" for j in range(40)]).assign(y=y), donor


def test_a_column_of_groups_is_used_and_not_selected():
    table, donor = donors_and_genes()
    named = daskfs.select(table.assign(donor=donor.astype(float)), 5, "y", error_control="permuted", groups="donor")
    listed = daskfs.select(table, 5, "y", error_control="permuted", groups=donor)
    alone = daskfs.select(table, 5, "y", error_control="permuted")
    assert named.names == listed.names
    np.testing.assert_allclose(named.statistics["q_value"], listed.statistics["q_value"])
    assert named.error_control.q_values != alone.error_control.q_values


def test_groups_by_row_stay_with_their_rows_where_an_ingest_would_shuffle():
    table, donor = donors_and_genes()
    table["site"] = np.resize(["north", "south"], len(table))
    order = np.argsort(table.y, kind="stable")
    table, donor = table.iloc[order].reset_index(drop=True), donor[order]
    named = daskfs.select(
        table.assign(donor=donor.astype(float)), 5, "y", error_control="permuted", groups="donor", order="as-is"
    )
    listed = daskfs.select(table, 5, "y", error_control="permuted", groups=donor)
    assert named.names == listed.names
    assert named.error_control.q_values == pytest.approx(listed.error_control.q_values)


def test_groups_may_be_texts():
    """Both tables are shuffled in the same way, since they have texts and their targets come in runs."""
    table, donor = donors_and_genes()
    table["site"] = np.resize(["north", "south"], len(table))
    by_text, by_number = (
        daskfs.select(table.assign(donor=values), 5, "y", error_control="permuted", groups="donor")
        for values in ([f"d{at:02}" for at in donor], donor.astype(float))
    )
    assert by_text.names == by_number.names
    assert by_text.error_control.q_values == pytest.approx(by_number.error_control.q_values)


def test_groups_on_disk_survive_a_stop(tmp_path, monkeypatch):
    X, y, donor = visits()
    daskfs.write_dataset(tmp_path / "d.zarr", np.c_[X, donor].astype("f4"), y, chunk_bytes=20 * len(y) * 4)
    dataset, algorithm = daskfs.open_dataset(tmp_path / "d.zarr"), control(10, groups="x150")
    whole = daskfs.select(dataset, algorithm)
    daskfs.write_dataset(tmp_path / "without.zarr", X.astype("f4"), y, chunk_bytes=20 * len(y) * 4)
    listed = daskfs.select(tmp_path / "without.zarr", control(10), groups=donor)
    np.testing.assert_allclose(whole.statistics["q_value"], listed.statistics["q_value"])
    monkeypatch.setattr("daskfs.engine.checkpoint.EVERY_SECONDS", 0.0)
    reports = iter(range(11))
    with pytest.raises(StopIteration):
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", progress=lambda now: next(reports))
    again = daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", resume=True)
    assert again.error_control == whole.error_control


def test_groups_that_say_nothing_are_refused(tmp_path):
    X, y, donor = visits()
    options = {"error_control": "permuted"}
    with pytest.raises(OptionError, match="groups: the dataset has no feature 'donor'"):
        daskfs.select(X, 5, y, **options, groups="donor")
    with pytest.raises(OptionError, match="groups: must be whole numbers up to"):
        daskfs.select(X, 5, y, **options, groups="x3")
    with pytest.raises(OptionError, match=r"groups: has shape \(7,\); give one for each of the 240 rows"):
        daskfs.select(X, 5, y, **options, groups=donor[:7])
    with pytest.raises(OptionError, match="groups: row 2 has none"):
        daskfs.select(X, 5, y, **options, groups=np.where(np.arange(240) == 2, np.nan, donor))
    with pytest.raises(OptionError, match="groups: needs error control"):
        daskfs.select(X, 5, y, groups=donor)
    with pytest.raises(OptionError, match="groups: with a checkpoint"):
        daskfs.select(X, 5, y, **options, groups=donor, checkpoint=tmp_path / "c")
    with pytest.raises(OptionError, match="max_fdr: Univariate cannot say how many are false: use OnlineSub"):
        daskfs.select(X, daskfs.Univariate(5), y, max_fdr=0.1)


@pytest.mark.parametrize("classes", [False, True])
def test_sweeps_see_the_newest_residuals_also_after_a_merge(classes):
    X, y = planted(noise=2)
    dataset = InMemory(X, *encode_target(y > 0 if classes else y, None), axis="columns")
    algorithm = control(10).resolve(dataset.meta)

    def check(state):
        for number, selected in enumerate([state.sets[0], *state.nulls]):
            np.testing.assert_array_equal(state.residuals[number], selected.r[0])
            np.testing.assert_array_equal(state.curvatures[number] if classes else selected.h, selected.h)

    shards = []
    for first in (0, 100):
        state = algorithm.start(dataset.meta, seed=0)
        for start in range(first, first + 100, 20):
            [block] = dataset.columns(np.arange(start, start + 20, dtype=np.uint64))
            state = algorithm.update(state, block)
            check(state)
        shards.append(state)
    merged, turned = algorithm.merge(shards), algorithm.merge(shards[::-1])
    check(merged)
    for null, other in zip(merged.nulls, turned.nulls, strict=True):
        assert null.features.tolist() == other.features.tolist()
        assert null.objective == other.objective
    assert all(null.objective < alone.objective for null, alone in zip(merged.nulls, shards[0].nulls, strict=True))
    state, _ = algorithm.end_pass(merged)
    check(state)


def assert_memory_is_promised_and_kept(algorithm, dataset, block):
    algorithm.result(algorithm.update(algorithm.start(dataset.meta, 0), block))  # kernels are loaded by now
    tracemalloc.start()
    state, _ = algorithm.end_pass(algorithm.update(algorithm.start(dataset.meta, 0), block))
    algorithm.result(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= algorithm.nbytes(dataset.meta) <= 2 * peak


@pytest.mark.slow_but_first
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_memory_is_promised_and_kept(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 300)).astype(np.float32)
    dataset = InMemory(X, *encode_target(X[:, 5] > rng.normal(size=4000), None), axis="columns")
    algorithm = control(60, loss=loss).resolve(dataset.meta)
    [block] = dataset.blocks(axis="columns")
    assert_memory_is_promised_and_kept(algorithm, dataset, block)


@pytest.mark.slow_but_first
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("p", [2_000, 60_000])
def test_memory_of_sparse_columns_is_promised_and_kept(loss, p):
    """A block of sparse columns may have very many of them, which are swept a part at a time."""
    rng = np.random.default_rng(0)
    X = sp.random_array((3000, p), density=120_000 / 3000 / p, format="csc", rng=rng, dtype=np.float32)
    dataset = InMemory(X, *encode_target(rng.random(3000) < 0.5, None), axis="columns")
    algorithm = control(30, loss=loss).resolve(dataset.meta)
    block = next(iter(dataset.blocks(axis="columns")))
    assert len(block.ids) >= min(p, 20_000)
    assert_memory_is_promised_and_kept(algorithm, dataset, block)


def test_all_sets_get_the_same_passes_and_no_second_look():
    X, y = planted(noise=0.01)
    dataset = InMemory(X, *encode_target(y, None), axis="columns")
    algorithm = control(6, passes=3).resolve(dataset.meta)
    [block] = dataset.blocks(axis="columns")
    state, _ = algorithm.end_pass(algorithm.update(algorithm.start(dataset.meta, 0), block))
    assert state.sets[0].rejected.scores.max() > 0
    assert len(algorithm.revisit(state)) == 0
    state.changes, state.nulls_changed = 0, True  # the real set has settled, and a null set has not
    state, go_on = algorithm.end_pass(state)
    assert go_on
    state, go_on = algorithm.end_pass(state)  # the last pass, and nothing has changed
    assert not go_on


@pytest.mark.parametrize("n_sets", [1, 3, 11])
@pytest.mark.parametrize("n_entries", [0, 1, 5, 40])
def test_one_sweep_over_sparse_columns_for_all_sets_is_a_sweep_for_each(n_entries, n_sets):
    rng = np.random.default_rng(n_entries)
    lengths = rng.integers(n_entries // 2, n_entries + 1, 7)
    rows = np.concatenate([np.sort(rng.choice(300, length, replace=False)) for length in [*lengths, 2]])
    indptr, values = np.concatenate([[0], np.cumsum([*lengths, 2])]), rng.normal(2, 1, len(rows)).astype(np.float32)
    block = SparseColumnBlock(np.arange(8, dtype=np.uint64), indptr, rows.astype(np.uint32), values, np.zeros(300))
    r, h = rng.normal(size=(n_sets, 300)).astype("f4"), rng.uniform(0.1, 1, (n_sets, 300)).astype("f4")
    together = sweep_sets(block, r, h, centred=True)
    assert len(together) == n_sets
    for number, sweep in enumerate(together):
        alone = sweep_block(block, r[number : number + 1], h[number], centred=True)
        for name in ("mean", "norm", "g", "d"):
            np.testing.assert_allclose(getattr(sweep, name), getattr(alone, name), rtol=1e-9, atol=1e-9)
    values[-1] = np.nan
    with pytest.raises(ColumnError, match="column 7: holds NaN or infinity"):
        sweep_sets(block, r, h, centred=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [1, 4, 7, 9])
@pytest.mark.parametrize("curved", [False, True])
def test_one_sweep_for_all_sets_is_a_sweep_for_each(dtype, n_columns, curved):
    rng = np.random.default_rng(n_columns)
    X = np.asfortranarray(rng.normal(3, 1, (5000, n_columns)).astype(dtype))
    block = ColumnBlock(np.arange(n_columns, dtype=np.uint64), X, np.zeros(5000))
    r, h = rng.normal(size=(11, 5000)).astype(dtype), rng.uniform(0.1, 1, (11 * curved, 5000)).astype(dtype)
    together = sweep_sets(block, r, h, centred=True)
    for number, sweep in enumerate(together):
        alone = sweep_block(block, r[number : number + 1], h[number] if curved else h, centred=True)
        for name in ("mean", "norm", "g", "d"):
            np.testing.assert_allclose(getattr(sweep, name), getattr(alone, name), rtol=2e-4, atol=1e-4)
    assert len(together) == 11
