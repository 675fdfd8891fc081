"""MISSION's idf, interactions and γ, each against what it must equal."""

from __future__ import annotations

import numpy as np
import pytest
from algorithms.mission_rows import block_of, meta_of, passed, selected, some_rows
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import PolynomialFeatures

import daskfs
from daskfs.algorithms.mission.cell_kernels import fade_cells
from daskfs.algorithms.mission.memory_kernels import fade, read_weights
from daskfs.algorithms.mission.rows import WINDOW, factors_of, name_spaces_of, rows_of, windows
from daskfs.algorithms.mission.state import rule_of
from daskfs.errors import OptionError
from daskfs.protocol import copy_state

pytestmark = pytest.mark.kernels


def clicks(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Lines of VW: a click happens where user and ad are of the same kind, which neither shows alone."""
    rng = np.random.default_rng(seed)
    user, ad = rng.integers(0, 3, (2, n))
    y = np.where((user == ad) != (rng.random(n) < 0.05), 1, -1)
    others = rng.integers(0, 20, n)
    return [f"{a} |user u{b} |ad a{c} |page p{d}" for a, b, c, d in zip(y, user, ad, others, strict=True)], y


@pytest.fixture(scope="module")
def clicked(tmp_path_factory: pytest.TempPathFactory) -> daskfs.Dataset:
    folder = tmp_path_factory.mktemp("clicks")
    (folder / "c.vw").write_text("\n".join(clicks(3000)[0]) + "\n")
    return daskfs.ingest(folder / "c.vw", folder / "c.zarr", format="vw")


def test_counted_weights_are_those_of_scikit_learn():
    rows, y = some_rows(500, 80)
    rows = [{feature: value or 1.0 for feature, value in row.items()} for row in rows]  # a zero would count here
    chosen = daskfs.Mission(10, width=2**8, idf=True)
    state, _ = chosen.end_pass(chosen.update(chosen.start(meta_of(rows), 0), block_of(rows, y)))
    ids = np.unique([feature for row in rows for feature in row]).astype(np.uint64)
    X = np.array([[row.get(int(feature), 0.0) for feature in ids] for row in rows])
    expected = TfidfTransformer(norm=None, smooth_idf=True).fit(X).idf_
    np.testing.assert_allclose(factors_of(state.idf, ids), expected, rtol=1e-5)


def test_weights_of_a_selection_apply_to_values_as_they_are():
    rows, y = some_rows(2000, 120)
    chosen = daskfs.Mission(20, width=2**12, learning_rate=1.0, intercept=False, scale=False)
    state = chosen.start(meta_of(rows), 0)
    idf = daskfs.Mission(20, width=2**12, learning_rate=1.0, intercept=False, scale=False, idf=True)
    counted, _ = idf.end_pass(idf.update(idf.start(meta_of(rows), 0), block_of(rows, y)))
    weigh = {f: float(factors_of(counted.idf, np.array([f], np.uint64))[0]) for row in rows for f in row}
    scaled = [{feature: value * weigh[feature] for feature, value in row.items()} for row in rows]
    by_hand = chosen.result(passed(chosen, state, scaled, y))
    given = selected(idf, rows, y)
    assert given.features.tolist() == by_hand.features.tolist()
    expected = by_hand.weights * [weigh[feature] for feature in by_hand.features.tolist()]
    np.testing.assert_allclose(given.weights, expected, rtol=1e-3, atol=1e-5)


def test_shards_count_together():
    rows, y = some_rows(400, 60)
    chosen = daskfs.Mission(10, width=2**8, idf=True)
    start = chosen.start(meta_of(rows), 0)
    whole, _ = chosen.end_pass(chosen.update(copy_state(start), block_of(rows, y)))
    state = start
    for first in range(0, 400, 100):
        thirds = [range(first + shard, first + 100, 3) for shard in range(3)]
        shards = [
            chosen.update(copy_state(state), block_of([rows[i] for i in third], y[list(third)])) for third in thirds
        ]
        state = chosen.merge([chosen.merge(shards[:2]), shards[2]])
    merged, _ = chosen.end_pass(state)
    np.testing.assert_array_equal(merged.idf, whole.idf)
    assert merged.history[0, 1] == 400


@pytest.mark.parametrize("interactions", ["all", "user,ad", "ad,user"])
def test_interactions_find_what_no_feature_shows_alone(clicked, interactions, tmp_path):
    alone = daskfs.select(clicked, daskfs.Mission(9, width=2**12))
    assert alone.score(clicked) < 0.6
    selection = daskfs.select(clicked, daskfs.Mission(9, width=2**12, interactions=interactions))
    assert selection.score(clicked) > 0.9
    both = {frozenset(name.split(" × ")) for name in selection.names}
    assert {frozenset({f"user^u{kind}", f"ad^a{kind}"}) for kind in range(3)} <= both
    selection.save(tmp_path / "run")
    again = daskfs.load_selection(tmp_path / "run")
    assert again.names == selection.names
    np.testing.assert_array_equal(again.decision_function(clicked), selection.decision_function(clicked))


def test_pairs_are_those_of_scikit_learn(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    X[np.abs(X) < 0.4] = 0
    daskfs.write_dataset(tmp_path / "x.zarr", X, X[:, 0] * X[:, 3] > 0, layout="rows")
    selection = daskfs.select(tmp_path / "x.zarr", daskfs.Mission(15, width=2**10, interactions="all"))
    expected = PolynomialFeatures(degree=2, interaction_only=True, include_bias=False).fit(X)
    names = [name.replace(" ", " × ") for name in expected.get_feature_names_out()]
    assert sorted(selection.names) == sorted(names)
    order = [names.index(name) for name in selection.names]
    for data in (X, daskfs.open_dataset(tmp_path / "x.zarr")):
        np.testing.assert_allclose(selection.transform(data), expected.transform(X)[:, order], rtol=1e-6)
    daskfs.write_dataset(tmp_path / "columns.zarr", X, X[:, 0] > 0)
    np.testing.assert_allclose(selection.predict(tmp_path / "columns.zarr"), selection.predict(X))


def test_windows_hold_every_pair_once():
    rows, y = some_rows(7, 4000, per_row=600)
    chosen = daskfs.Mission(10, interactions="all")
    state = chosen.start(meta_of(rows), 0)
    parts = list(windows(rows_of(block_of(rows, y), y), state.name_spaces, 0))
    assert len(parts) > 1
    assert all(len(part.ids) <= WINDOW for part in parts)
    assert [len(part.y) for part in parts] == [5, 2]
    sizes = np.concatenate([np.diff(part.indptr) for part in parts])
    assert sizes.tolist() == [600 + 600 * 599 // 2] * 7
    pairs = parts[0].pairs[600 : parts[0].indptr[1]]
    assert len(np.unique(pairs, axis=0)) == len(pairs)


def test_pairs_of_overlapping_name_spaces_come_once():
    rows = [{1: 1.0, 2: 2.0, 3: 4.0}]
    left, right = np.array([1, 2], np.uint64), np.array([2, 3], np.uint64)
    meta = meta_of(rows)
    object.__setattr__(meta, "members", lambda space: {"a": left, "b": right}[space])
    y = np.ones(1)
    (window,) = windows(rows_of(block_of(rows, y), y), name_spaces_of("a,b", meta), 0)
    assert window.pairs[3:].tolist() == [[1, 2], [1, 3], [2, 3]]
    assert window.values[3:].tolist() == [2.0, 4.0, 8.0]


def test_a_row_of_too_many_pairs_is_named():
    rows, y = some_rows(3, 9000, per_row=20)
    long, _ = some_rows(1, 9000, per_row=3000)
    rows[1] = long[0]
    chosen = daskfs.Mission(5, interactions="all")
    state = chosen.start(meta_of(rows), 0)
    with pytest.raises(daskfs.DaskfsError, match=r"row 11, .* one of 3,000 that make 4,498,500 pairs"):
        chosen.end_pass(chosen.update(state, block_of(rows, y, first=10)))


@pytest.mark.parametrize(
    ("given", "said"), [("user", "two name spaces"), ("user,", "two name spaces"), ("user,nobody", "'nobody'")]
)
def test_interactions_of_nothing_are_refused(clicked, given, said):
    with pytest.raises(OptionError, match=said):
        daskfs.select(clicked, daskfs.Mission(5, interactions=given))


def test_what_fades_is_the_sketch_beside_the_largest():
    rows, y = some_rows(600, 300)
    chosen = daskfs.Mission(20, method="paper", width=2**12, learning_rate=1.0, refit=0)
    state = passed(chosen, chosen.start(meta_of(rows), 0), rows, y)
    before = copy_state(state)
    rule = rule_of(chosen, state.room)
    fade(state.memory, rule, np.float32(0.5))
    for some in (before, state):
        read_weights(some.memory, rule, 0)
    kept, own = (dict(zip(some.memory.keys[0], some.memory.weights[0, :, 0], strict=True)) for some in (before, state))
    for key, weight in kept.items():
        assert own[key] == pytest.approx(weight, abs=0.02)
    assert np.abs(state.memory.sketch).sum() < 0.9 * np.abs(before.memory.sketch).sum()


def test_what_fades_in_cells_are_the_weights():
    rows, y = some_rows(600, 300)
    chosen = daskfs.Mission(20, width=2**6, learning_rate=1.0, refit=0)
    cells = passed(chosen, chosen.start(meta_of(rows), 0), rows, y).memory.cells.copy()
    faded = cells.copy()
    fade_cells(faded, np.float32(0.5), 1)
    np.testing.assert_array_equal(faded[::2], 0.5 * cells[::2])
    np.testing.assert_array_equal(faded[1::2].view(np.uint32), cells[1::2].view(np.uint32))  # sums and marks


def test_fading_leaves_less_noise_behind():
    rows, y = some_rows(2000, 1000)
    sizes = []
    for fading in (0.0, 0.5):
        chosen = daskfs.Mission(100, width=2**8, fading=fading, learning_rate=1.0, refit=0)
        sizes.append(np.abs(passed(chosen, chosen.start(meta_of(rows), 0), rows, y).memory.cells[::2]).mean())
    assert sizes[1] < 0.5 * sizes[0]
