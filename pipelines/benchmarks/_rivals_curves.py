"""Few columns and no straight line: Friedman's first function of 5 of 20 columns, with noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from _rivals import Outcome, Rival
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskfs

PARTS = ("train", "validation", "test")


def write(folder: Path, rows: int) -> None:
    """Write all parts as arrays, and the rows to learn from as a dataset."""
    X, y = make_friedman1(rows + 10_000, 20, noise=1.0, random_state=0)
    cuts = np.cumsum([rows, 5000])
    for part, some, of_some in zip(PARTS, np.split(X, cuts), np.split(y, cuts), strict=True):
        np.savez(folder / f"{part}.npz", X=some.astype(np.float32), y=of_some)
    daskfs.write_dataset(folder / "train.zarr", X[:rows].astype(np.float32), y[:rows], layout="rows")


def _outcome(folder: Path, predict: Any) -> Outcome:
    saved = {part: np.load(folder / f"{part}.npz") for part in PARTS[1:]}
    validation, test = (float(r2_score(saved[part]["y"], predict(saved[part]["X"]))) for part in PARTS[1:])
    return Outcome(validation, {"R²": test})


def _random_features(folder: Path, **fields: Any) -> Outcome:
    selection = daskfs.select(str(folder / "train.zarr"), daskfs.SparseRandomFeatures(**fields))
    return _outcome(folder, selection.predict)


def _sampler(folder: Path, gamma: float, features: int) -> Outcome:
    ridge = RidgeCV(np.logspace(-3, 3, 7))
    return _fitted(
        folder, make_pipeline(StandardScaler(), RBFSampler(gamma=gamma, n_components=features, random_state=0), ridge)
    )


def _fitted(folder: Path, model: Any) -> Outcome:
    saved = np.load(folder / "train.npz")
    return _outcome(folder, model.fit(saved["X"], saved["y"]).predict)


def _boosting(folder: Path, **fields: Any) -> Outcome:
    return _fitted(folder, HistGradientBoostingRegressor(random_state=0, **fields))


def _line(folder: Path) -> Outcome:
    return _fitted(folder, make_pipeline(StandardScaler(), LassoCV(random_state=0)))


RIVALS = {
    "daskfs, Sparse Random Features": Rival(_random_features),
    "RBFSampler, then ridge": Rival(
        _sampler, tuple({"gamma": gamma, "features": 1000} for gamma in (0.003, 0.01, 0.03, 0.1))
    ),
    "HistGradientBoosting": Rival(
        _boosting, tuple({"learning_rate": rate, "max_iter": trees} for rate in (0.05, 0.1) for trees in (200, 600))
    ),
    "LASSO, a straight line": Rival(_line),
}
