"""Runs that several tests of reports look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_runs import CLASSES, keep_records, records

import daskfs
from daskfs.selection.profiles import feature_profiles


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """A run of every algorithm, with everything beside it."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 30)).astype(np.float32)
    scores = X[:, :3] * 3 + rng.gumbel(size=(300, 3))
    daskfs.write_dataset(folder / "two.zarr", X, X[:, 3] > X[:, 8], feature_names=[f"gene{i}" for i in range(30)])
    daskfs.write_dataset(folder / "news.zarr", X, np.array(CLASSES)[scores.argmax(axis=1)], layout="rows")
    daskfs.write_dataset(folder / "waves.zarr", X[:, :4], np.cos(3 * X[:, 2]), layout="rows")
    algorithms = {
        "two": daskfs.OnlineSubstitution(5, loss="logistic"),
        "news": daskfs.Mission(6, loss="softmax", width=2**10, passes=2, learning_rate=0.5),
        "waves": daskfs.SparseRandomFeatures(n_select=20, rounds=2, per_round=50),
    }
    for name, algorithm in algorithms.items():
        selection = daskfs.select(folder / f"{name}.zarr", algorithm)
        selection.save(folder / name)
        dataset = daskfs.open_dataset(folder / f"{name}.zarr")
        metrics = {**records(selection)["metrics"], "curves": selection.evaluate(dataset).curves}
        keep_records(folder / name, selection, metrics=metrics, profiles=feature_profiles(selection, dataset))
    return folder
