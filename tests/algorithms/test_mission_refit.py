"""MISSION's refit: averaged weights as plain Python gives them, rows that teach nothing, a verdict either way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from algorithms.mission_rows import block_of, meta_of, passed, selected, some_rows
from reference.mission import averaged_refit

import daskfs
from daskfs.algorithms.mission.refit import RefitState, held_back_share, is_held_back
from daskfs.algorithms.mission.state import MissionState
from daskfs.protocol import copy_state, flatten

pytestmark = pytest.mark.kernels


def log_loss(weights: dict[int, float], rows: list[dict[int, float]], y: np.ndarray) -> float:
    scores = [sum(weights.get(feature, 0.0) * value for feature, value in row.items()) for row in rows]
    return float(np.mean(np.log1p(np.exp(-y * scores))))


def begun(chosen: daskfs.Mission, rows: list[dict[int, float]], y: np.ndarray, shards: int = 1) -> MissionState:
    """The state after all passes but the refit."""
    state = chosen.start(replace(meta_of(rows), n_shards=shards), seed=0)
    for _ in range(chosen.n_passes):
        state, _ = chosen.end_pass(chosen.update(state, block_of(rows, y)))
    return state


def weights_of(result) -> dict[int, float]:
    return dict(zip(result.features.tolist(), result.weights.tolist(), strict=True))


def test_the_refit_is_averaged_regression_on_the_selected_features(monkeypatch):
    monkeypatch.setattr("daskfs.algorithms.mission.held_back_share", lambda meta: 1e-12)
    rows, y = some_rows(800, 100)
    chosen = daskfs.Mission(12, width=2**10, learning_rate=1.0, intercept=False, refit=1, sightings=20, scale=False)
    state = begun(chosen, rows, y)
    before = weights_of(chosen.result(state))
    assert state.refit.trials[0].pace[..., 0].max() > 0
    state.refit.trials[0].pace[..., 0] = 0  # the reference begins with nothing
    state = chosen.update(state, block_of(rows, y))
    norm, value = state.calibration.mean_squares
    expected = averaged_refit(rows, y, before, rate=1.0 / norm, beta=20 * value)
    trial = state.refit.trials[0]
    rows_done = float(trial.clock[0])
    average = trial.weights[0, :, 0] - trial.drift[0, :, 0] / rows_done
    assert rows_done == 800
    for key, weight in zip(state.memory.keys[0], average, strict=True):
        if key:
            assert weight == pytest.approx(expected[int(key) - 1], abs=3e-4)


def test_a_refit_makes_the_loss_on_other_rows_smaller():
    rows, y = some_rows(6000, 400)
    train, test = slice(0, 3000), slice(3000, 6000)
    plain = selected(daskfs.Mission(40, width=2**10, refit=0), rows[train], y[train])
    refitted = selected(daskfs.Mission(40, width=2**10, refit=1), rows[train], y[train])
    assert refitted.history[-1]["refitted"] == 1
    losses = [log_loss(weights_of(result), rows[test], y[test]) for result in (plain, refitted)]
    assert losses[1] < losses[0]
    assert refitted.history[-1]["held_back_loss"] == pytest.approx(losses[1], rel=0.3)


def test_weights_stay_where_a_refit_is_no_better():
    rows, y = some_rows(2000, 200)
    chosen = daskfs.Mission(20, width=2**10, refit=1)
    state = begun(chosen, rows, y)
    before = weights_of(chosen.result(state))
    state = chosen.update(state, block_of(rows, y))
    for trial in state.refit.trials:
        trial.drift[:] = 1e6  # as if weights had been far off all the time
        trial.weights[:] *= -1
    state, go_on = chosen.end_pass(state)
    result = chosen.result(state)
    assert not go_on
    assert result.history[-1]["refitted"] == 0
    assert weights_of(result) == before


def test_rows_held_back_teach_nothing():
    rows, y = some_rows(3000, 200)
    held = is_held_back(0, 3000, seed=0, share=held_back_share(meta_of(rows)))
    assert 100 < held.sum() < 300
    chosen = daskfs.Mission(20, width=2**10, refit=1)
    one = begun(chosen, rows, y)
    other = begun(chosen, rows, np.where(held, -y, y))
    for name in ("memory/keys", "memory/weights", "memory/bias", "calibration/rate_losses"):
        np.testing.assert_array_equal(flatten(one)[name], flatten(other)[name], err_msg=name)
    changed = begun(chosen, rows, np.where(np.arange(3000) == np.flatnonzero(~held)[5], -y, y))
    assert not np.array_equal(changed.memory.weights, one.memory.weights)


def test_few_rows_of_many_are_held_back():
    meta = replace(meta_of(some_rows(100, 50)[0]), n_samples=10**8, n_entries=85 * 10**8)
    held = is_held_back(0, 10**6, seed=3, share=held_back_share(meta))
    assert held.sum() == pytest.approx(4096 / 100, abs=20)
    parts = [is_held_back(first, 1000, seed=3, share=0.01) for first in range(0, 10_000, 1000)]
    np.testing.assert_array_equal(np.concatenate(parts), is_held_back(0, 10_000, seed=3, share=0.01))
    assert not np.array_equal(is_held_back(0, 10_000, seed=4, share=0.01), np.concatenate(parts))


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_shards_refit_together(loss):
    rows, y = some_rows(4000, 200)
    chosen = daskfs.Mission(20, loss=loss, width=2**10, refit=1, learning_rate=2.0)
    alone = chosen.result(passed(chosen, chosen.start(meta_of(rows), 0), rows, y))
    state = begun(chosen, rows, y, shards=2)
    for start in range(0, 4000, 400):
        middle, stop = start + 200, start + 400
        shards = [
            chosen.update(copy_state(state), block_of(rows[a:b], y[a:b], a))
            for a, b in ((start, middle), (middle, stop))
        ]
        state = chosen.merge(shards[::-1])
        assert state.refit.held_numbers.tolist() == sorted(state.refit.held_numbers.tolist())
    held = is_held_back(0, 4000, 0, state.held_back)
    assert state.refit.held_numbers.tolist() == np.flatnonzero(held).tolist()
    assert state.refit.trials[0].path_rows == (4000 - held.sum()) / 2
    result = chosen.result(chosen.end_pass(state)[0])
    assert result.history[-1]["rows"] == 4000
    assert result.history[-1]["refitted"] == 1
    assert result.history[-1]["held_back_loss"] == pytest.approx(alone.history[-1]["held_back_loss"], rel=0.1)
    assert math.isfinite(result.history[-1]["objective"])


@pytest.mark.parametrize("cut", [37, 400, 3000])
def test_trials_that_wait_learn_what_they_would_have_learned(monkeypatch, cut):
    """Trials wait while all rows are in memory, and begin in the midst of a pass: weights are those without a wait."""
    rows, y = some_rows(3000, 200)
    chosen = daskfs.Mission(12, width=2**10, learning_rate=1.0)
    monkeypatch.setattr("daskfs.algorithms.mission.fits_in_memory", lambda meta: False)
    monkeypatch.setattr("daskfs.algorithms.mission.refit._FIT_ENTRIES", 500)
    states = []
    for waits in (True, False):
        state = begun(chosen, rows, y)
        assert state.refit.waits
        if not waits:
            common = state.common, state.common_units
            state.refit = RefitState.start(state.memory, 1.0, True, False, *common)
            assert state.refit.trials
        for start in range(0, len(rows), cut):
            state = chosen.update(
                state, replace(block_of(rows[start : start + cut], y[start : start + cut]), first=start)
            )
        assert not state.refit.waits
        states.append(state)
    for trial, same in zip(*(state.refit.trials for state in states), strict=True):
        for name in trial._fields:
            np.testing.assert_array_equal(getattr(trial, name), getattr(same, name), err_msg=name)
    np.testing.assert_allclose(states[0].memory.totals, states[1].memory.totals, rtol=1e-12)
    assert states[0].memory.totals[2] == len(rows)


def test_trials_do_not_begin_if_all_selected_entries_fit_into_memory(monkeypatch):
    rows, y = some_rows(2000, 200)
    monkeypatch.setattr("daskfs.algorithms.mission.fits_in_memory", lambda meta: False)
    chosen = daskfs.Mission(12, width=2**10)
    state = chosen.update(begun(chosen, rows, y), block_of(rows, y))
    assert (state.refit.trials, state.refit.waits, state.memory.totals[2]) == ([], True, len(rows))
    assert len(state.refit.fit_rows.y) + len(state.refit.held_rows.y) == len(rows)
    state, _ = chosen.end_pass(state)
    assert len(chosen.result(state).features) == 12
