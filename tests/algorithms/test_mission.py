"""MISSION: its kernels against plain Python, its fast kernels against the general ones, and what cannot change it."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from algorithms.mission_rows import block_of, calibrated, meta_of, selected, some_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.mission import ActiveCells, batch_iht, iht, mission, softmax_sgd
from scipy.optimize import brentq

import daskfs
from daskfs.algorithms.loss_kernels import residual, value_and_implicit_residual
from daskfs.algorithms.loss_kernels import value as loss_value
from daskfs.algorithms.mission.active_kernels import learn_active, learn_active_classes
from daskfs.algorithms.mission.paper_kernels import learn_sketch, learn_sketch_fast
from daskfs.algorithms.mission.rows import rows_of
from daskfs.algorithms.mission.state import rule_of
from daskfs.protocol import copy_state, flatten

pytestmark = pytest.mark.kernels
LOSSES = {"squared": 0, "squared_hinge": 1, "logistic": 2}


@pytest.mark.parametrize("depth", [1, 3, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_with_room_for_all_features_paper_mode_is_the_listing(loss, depth):
    rows, y = some_rows(300, 60)
    chosen = daskfs.Mission(60, loss=loss, method="paper", width=2**14, depth=depth, learning_rate=0.1, intercept=False)
    norm = np.mean([sum(value**2 for value in row.values()) for row in rows])
    expected = mission(rows, y, k=60, depth=depth, bits=14, rate=0.1 / norm, loss=loss)
    given = selected(chosen, rows, y)
    weights = dict(zip(given.features.tolist(), given.weights.tolist(), strict=True))
    assert weights.keys() == expected.keys()
    for feature, weight in expected.items():
        assert weights[feature] == pytest.approx(weight, abs=2e-5)


def test_paper_mode_finds_what_the_listing_finds():
    rows, y = some_rows(1500, 300)
    chosen = daskfs.Mission(30, method="paper", width=2**8, learning_rate=0.5, intercept=False)
    norm = np.mean([sum(value**2 for value in row.values()) for row in rows])
    expected = mission(rows, y, k=30, depth=3, bits=8, rate=0.5 / norm, loss="logistic")
    truth = {feature * 1_000_003 for feature in range(30)}
    found = set(selected(chosen, rows, y).features.tolist())
    assert len(found & truth) >= len(expected.keys() & truth) - 2
    assert len(expected.keys() & truth) >= 20


@pytest.mark.parametrize("k", [1, 5, 40, 60])
@pytest.mark.parametrize("n_features", [60, 2000])
def test_iht_keeps_the_largest_after_every_row(k, n_features):
    """Rows share few features, so that many of them together would still fit into the table."""
    rows, y = some_rows(300, n_features)
    given = selected(daskfs.Mission(k, loss="squared", method="iht", learning_rate=0.1, intercept=False), rows, y)
    norm = np.mean([sum(value**2 for value in row.values()) for row in rows])
    expected = iht(rows, y, k=k, rate=0.1 / norm)
    weights = dict(zip(given.features.tolist(), given.weights.tolist(), strict=True))
    assert weights == pytest.approx(expected, abs=2e-5)


def test_a_row_costs_iht_as_much_whatever_the_number_of_features_it_selects():
    """Were all selected features visited after every row, the larger number would take hundreds of times as long."""
    rows, y = some_rows(4000, 10**6)

    def seconds(k):
        algorithm = daskfs.Mission(k, loss="squared", method="iht", learning_rate=0.1, intercept=False)
        times = []
        for _ in range(3):
            start = time.process_time()
            selected(algorithm, rows, y)
            times.append(time.process_time() - start)
        return min(times)

    seconds(10)  # compiles
    assert seconds(20_000) < 20 * seconds(20)


def test_batch_iht_keeps_the_largest_once_its_memory_is_full():
    """Of features that wait for their gradients it has room for as many as a sketch has numbers, 3 x 128."""
    rows, y = some_rows(600, 2000)
    chosen = daskfs.Mission(20, loss="squared", method="batch-iht", width=2**7, learning_rate=1.0, intercept=False)
    given = selected(chosen, rows, y)
    norm = np.mean([sum(value**2 for value in row.values()) for row in rows])
    expected = batch_iht(rows, y, k=20, rate=1.0 / norm, room=20 + 3 * 2**7)
    weights = dict(zip(given.features.tolist(), given.weights.tolist(), strict=True))
    assert weights == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("method", ["active", "paper"])
def test_softmax_without_collisions_is_softmax_regression(method):
    rows, y = some_rows(200, 40)
    y = (y > 0) + (np.arange(200) % 2)
    norm = np.mean([sum(value**2 for value in row.values()) for row in rows])
    expected = softmax_sgd(rows, y.astype(int), 3, rate=0.2 / norm)
    options = {
        "loss": "softmax",
        "width": 2**12,
        "learning_rate": 0.2,
        "intercept": False,
        "sightings": 1e9,
        "scale": False,
        "refit": 0,
    }
    given = selected(daskfs.Mission(40, method=method, **options), rows, y, classes=(0.0, 1.0, 2.0))
    assert set(given.features.tolist()) == expected.keys()
    for feature, weights in zip(given.features.tolist(), given.weights, strict=True):
        np.testing.assert_allclose(weights, expected[feature], atol=2e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_fast_kernel_learns_what_the_general_one_learns(loss):
    rows, y = some_rows(600, 400)
    chosen = daskfs.Mission(20, loss=loss, method="paper", width=2**7, learning_rate=0.5)
    state = calibrated(chosen.start(meta_of(rows), seed=0))
    rule = rule_of(chosen, state.room, state.calibration)._replace(rate=1.0 / 6.0)
    memories = [copy_state(state).memory for _ in range(2)]
    for kernel, memory in zip((learn_sketch_fast, learn_sketch), memories, strict=True):
        assert kernel(rows_of(block_of(rows, y), y), memory, rule) == 600
    orders = [np.argsort(memory.keys[0]) for memory in memories]  # the order of insertion differs within a row
    keys, others = (memory.keys[0, order] for memory, order in zip(memories, orders, strict=True))
    assert keys.tolist() == others.tolist()
    for name in ("weights", "pace"):
        pair = [getattr(memory, name)[0, order][keys > 0] for memory, order in zip(memories, orders, strict=True)]
        np.testing.assert_allclose(*pair, rtol=2e-3, atol=2e-4, err_msg=name)
    for name in ("sketch", "bias", "totals", "status"):
        pair = [getattr(memory, name) for memory in memories]
        np.testing.assert_allclose(*pair, rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("loss", [*LOSSES, "softmax"])
@pytest.mark.parametrize("seed", range(3))
def test_active_cells_are_those_of_plain_python(loss, seed):
    """Cells are few and shared, and the table is pruned many times."""
    rows, y = some_rows(400, 300, seed)
    classes = (0.0, 1.0, 2.0) if loss == "softmax" else None
    y = ((y > 0) + (np.arange(400) % 2)).astype(float) if classes else y
    chosen = daskfs.Mission(20, loss=loss, width=2**6, intercept=False, scale=False)
    state = calibrated(chosen.start(meta_of(rows, classes) if classes else meta_of(rows), seed=0))
    memory, C = state.memory, 3 if classes else 1
    rule = rule_of(chosen, state.room, state.calibration)._replace(rate=0.2, decay=0.05)
    learn = learn_active_classes if classes else learn_active
    assert learn(rows_of(block_of(rows, y), y), memory, rule) == 400
    expected = ActiveCells(C, 20, state.room, bits=7, rate=0.2, decay=0.05)
    for row, target in zip(rows, y, strict=True):
        expected.learn(row, float(target), loss)
    slots = np.flatnonzero(memory.keys[0])
    features = (memory.keys[0, slots] - np.uint64(1)).tolist()
    assert set(features) == expected.table.keys()
    assert memory.status[0].tolist() == pytest.approx([len(features), expected.threshold], rel=1e-3)
    for slot, feature in zip(slots, features, strict=True):
        weights, total = expected.table[feature]
        np.testing.assert_allclose(memory.weights[0, slot], weights, rtol=2e-3, atol=2e-4)
        assert memory.pace[0, slot].tolist() == pytest.approx([total, 1.0], rel=2e-3)
    cells = memory.cells.reshape(-1, C + 1)
    np.testing.assert_allclose(cells[:, :C], expected.cells, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(np.abs(cells[:, C]), expected.sums, rtol=2e-3, atol=2e-4)
    marked = np.flatnonzero(np.signbit(cells[:, C])).tolist()
    assert marked == sorted({expected.place(feature)[0] for feature in features})


@given(
    cuts=st.lists(st.integers(0, 300), max_size=5), method=st.sampled_from(["active", "paper", "hashing", "batch-iht"])
)
@settings(max_examples=30)
def test_blocks_may_be_cut_anywhere(cuts, method):
    rows, y = some_rows(300, 200)
    chosen = daskfs.Mission(15, method=method, width=2**6, learning_rate=1.0)
    whole = calibrated(chosen.start(meta_of(rows), seed=0))
    pieces = copy_state(whole)
    whole = chosen.update(whole, block_of(rows, y))
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 300], strict=True):
        pieces = chosen.update(pieces, block_of(rows[start:stop], y[start:stop], start))
    for name, value in flatten(whole).items():
        np.testing.assert_array_equal(flatten(pieces)[name], value, err_msg=name)


def test_the_memory_of_a_block_may_be_reused():
    """As the store does: the first rows wait for more, and may not be views of their block."""
    rows, y = some_rows(200, 40)
    chosen, block = daskfs.Mission(5, width=2**6, refit=0), block_of(rows, y)
    expected = selected(chosen, rows, y)
    state = chosen.update(chosen.start(meta_of(rows), seed=0), block)
    for array in (block.indptr, block.ids, block.values, block.y):
        array[:] = 0
    result = chosen.result(chosen.end_pass(state)[0])
    assert result.features.tolist() == expected.features.tolist()
    assert result.weights.tobytes() == expected.weights.tobytes()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_scale_of_the_values_does_not_matter(scale):
    rows, y = some_rows(800, 300)
    scaled = [{feature: value * scale for feature, value in row.items()} for row in rows]
    plain, given = (selected(daskfs.Mission(30, width=2**10), some, y) for some in (rows, scaled))
    assert len(set(plain.features.tolist()) & set(given.features.tolist())) >= 28
    assert given.history[0]["objective"] == pytest.approx(plain.history[0]["objective"], rel=1e-3)


@given(
    loss=st.sampled_from(list(LOSSES)), u=st.floats(-30, 30), y=st.sampled_from([-1.0, 1.0]), reach=st.floats(0, 1e3)
)
def test_an_implicit_step_ends_where_its_own_pull_leads(loss, u, y, reach):
    code = LOSSES[loss]
    loss_of_u, t = value_and_implicit_residual(code, u, y, reach)
    assert loss_of_u == pytest.approx(loss_value(code, u, y), rel=1e-9, abs=1e-12)
    before = residual(code, u, y)  # and 0: the residual after the step lies between
    exact = (
        brentq(lambda t: t - residual(code, u + reach * t, y), *sorted((0.0, before)), xtol=1e-15) if before else 0.0
    )
    assert t == pytest.approx(exact, rel=1e-3, abs=1e-12)
    assert math.copysign(1, t) == math.copysign(1, residual(code, u, y)) or t == 0


def test_a_value_that_is_not_finite_is_named_and_the_state_is_as_before_its_row(tmp_path):
    rows, y = some_rows(50, 40)
    chosen = daskfs.Mission(5, width=2**6, learning_rate=1.0)
    feature = list(rows[17])[2]
    start = calibrated(chosen.start(meta_of(rows), seed=0))
    before = chosen.update(copy_state(start), block_of(rows[:17], y[:17]))
    rows[17][feature] = math.inf
    with pytest.raises(daskfs.DaskfsError) as caught:
        chosen.update(start, block_of(rows, y))
    what = "the value inf is not finite, or too large; write the data again without it"
    assert str(caught.value) == f"row 17, feature {feature}: {what}"
    for name in ("cells", "weights", "bias", "keys"):
        np.testing.assert_array_equal(getattr(start.memory, name), getattr(before.memory, name), err_msg=name)


@pytest.mark.parametrize("method", ["active", "paper", "hashing"])
def test_shards_that_merge_find_what_one_finds(method):
    """Each of two shards learns every other row with steps of twice the size, and they merge ten times."""
    rows, y = some_rows(3000, 300)
    chosen = daskfs.Mission(30, method=method, width=2**10, learning_rate=0.3)
    alone = chosen.result(chosen.update(chosen.start(meta_of(rows), 0), block_of(rows, y)))
    state = chosen.start(replace(meta_of(rows), n_shards=2), 0)
    for start in range(0, 3000, 300):
        shards = [
            chosen.update(copy_state(state), block_of(rows[first : start + 300 : 2], y[first : start + 300 : 2]))
            for first in (start, start + 1)
        ]
        before = [flatten(copy_state(shard)) for shard in shards]
        state = chosen.merge(shards)
        swapped = chosen.merge(shards[::-1])
        for shard, values in zip(shards, before, strict=True):
            for name, value in values.items():
                np.testing.assert_array_equal(flatten(shard)[name], value, err_msg=name)
        np.testing.assert_allclose(swapped.memory.bias, state.memory.bias, rtol=1e-5)
        assert set(swapped.memory.keys.ravel().tolist()) == set(state.memory.keys.ravel().tolist())
    assert (state.memory.totals + state.totals_before)[2] == 3000
    found = chosen.result(state)
    truth = {feature * 1_000_003 for feature in range(30)}
    recall = [len(truth & set(result.features.tolist())) for result in (alone, found)]
    assert recall[0] >= 24
    assert recall[1] >= recall[0] - 2


@pytest.mark.parametrize("method", ["active", "paper"])
def test_shards_may_merge_like_a_tree(method):
    """Five shards, four of which merge first: each counts as much as in one merge of all."""
    rows, y = some_rows(1000, 100)
    chosen = daskfs.Mission(100, method=method, width=2**12, learning_rate=0.3)  # room for all, and no collisions
    start = chosen.start(replace(meta_of(rows), n_shards=5), 0)
    shards = [chosen.update(copy_state(start), block_of(rows[shard::5], y[shard::5])) for shard in range(5)]
    flat, tree = chosen.merge(shards), chosen.merge([chosen.merge(shards[:4]), shards[4]])
    for name in ("memory/bias", "memory/totals", "merged_shards", "calibration/mean_squares"):
        np.testing.assert_allclose(flatten(tree)[name], flatten(flat)[name], rtol=1e-5, err_msg=name)
    one, other = chosen.result(flat), chosen.result(tree)
    assert set(one.features.tolist()) == set(other.features.tolist())
    by_id = [result.weights[np.argsort(result.features)] for result in (one, other)]
    np.testing.assert_allclose(by_id[1], by_id[0], rtol=1e-3, atol=1e-5)
    assert flat.memory.totals[2] == 1000


def test_shards_that_merge_again_and_again_keep_the_best_rate():
    """As in hundreds of passes on many workers: what all of them have in common is not added up."""
    rows, y = some_rows(1000, 100)
    chosen = daskfs.Mission(10, width=2**6)
    start = chosen.start(replace(meta_of(rows), n_shards=4), 0)
    state = chosen.merge(
        [chosen.update(copy_state(start), block_of(rows[shard::4], y[shard::4])) for shard in range(4)]
    )
    losses = state.calibration.rate_losses.copy()
    assert np.ptp(losses) > 0
    for _ in range(600):  # 4**600 is beyond all numbers
        state = chosen.merge([chosen.update(copy_state(state), block_of(rows[:2], y[:2])) for _ in range(4)])
    np.testing.assert_array_equal(state.calibration.rate_losses, losses)


def test_a_target_far_from_zero_is_a_remark(tmp_path):
    X = np.random.default_rng(0).normal(size=(600, 5))
    daskfs.write_dataset(tmp_path / "far.zarr", X, X[:, 3] + 300, layout="rows")
    with pytest.warns(UserWarning, match="its target is far from zero"):
        daskfs.select(tmp_path / "far.zarr", daskfs.Mission(2, loss="squared", width=2**10))
