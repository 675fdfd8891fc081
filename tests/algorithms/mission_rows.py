"""Rows to learn from, as dictionaries and as blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

import daskfs
from daskfs.algorithms.mission.calibration import NEUTRAL, Calibration
from daskfs.algorithms.mission.state import MissionState
from daskfs.protocol import Meta, SparseBlock


def some_rows(n: int, p: int, seed: int = 0, per_row: int = 6) -> tuple[list[dict[int, float]], np.ndarray]:
    """Rows of a few features each, and labels that the first tenth of the features decide."""
    rng = np.random.default_rng(seed)
    w = np.where(np.arange(p) < p // 10, rng.choice([-2.0, 2.0], p), 0.0)
    rows, y = [], np.empty(n)
    for i in range(n):
        ids = np.sort(rng.choice(p, per_row, replace=False))
        values = np.round(rng.normal(size=per_row), 3).astype(np.float32)
        rows.append(dict(zip((ids * 1_000_003).tolist(), values.tolist(), strict=True)))
        y[i] = 1.0 if w[ids] @ values + 0.3 * rng.normal() > 0 else -1.0
    return rows, y


def block_of(rows: list[dict[int, float]], y: np.ndarray, first: int = 0) -> SparseBlock:
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
    ids = np.array([feature for row in rows for feature in row], np.uint64)
    values = np.array([value for row in rows for value in row.values()], np.float32)
    return SparseBlock(first, indptr, ids, values, np.asarray(y, np.float64))


def calibrated(state: MissionState) -> MissionState:
    """The state, with a calibration that the first rows would otherwise decide."""
    state.calibration = Calibration(np.array([6.0, 1.0]), NEUTRAL.rate_losses.copy())
    return state


def meta_of(rows: list[dict[int, float]], classes: Any = (-1.0, 1.0)) -> Meta:
    entries = sum(map(len, rows))
    return Meta("sparse", len(rows), 10**9, entries, 10**9, classes, 12 * entries)


def passed(algorithm: daskfs.Mission, state: MissionState, rows: list[dict[int, float]], y: np.ndarray) -> MissionState:
    """The state after all passes over one block of rows."""
    go_on = True
    while go_on:
        state, go_on = algorithm.end_pass(algorithm.update(state, block_of(rows, y)))
    return state


def selected(algorithm: daskfs.Mission, rows: list[dict[int, float]], y: np.ndarray, classes: Any = (-1.0, 1.0)) -> Any:
    return algorithm.result(passed(algorithm, algorithm.start(meta_of(rows, classes), seed=0), rows, y))
