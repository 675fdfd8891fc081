"""Beside the score of every job stands that of as many features which are each chosen by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_selection import SelectKBest, f_regression

import daskfs
from daskfs.job.execute import execute


@pytest.fixture
def duplicates(tmp_path, monkeypatch) -> np.ndarray:
    """A target of two columns, of which one has five near copies, so that the best one by one are copies."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 20))
    X[:, 1:6] = X[:, :1] + 0.1 * rng.normal(size=(500, 5))
    y = 2 * X[:, 0] + X[:, 10] + 0.1 * rng.normal(size=500)
    daskfs.write_dataset("d.zarr", X, y)
    return X


def metrics(**tables: str) -> dict:
    extra = "".join(f"[{name}]\n{text}\n" for name, text in tables.items())
    Path("job.toml").write_text(
        "out = 'o'\n[data]\ntrain = 'd.zarr'\n[split]\ntest = 0.2\n[select]\nalgorithm = 'substitution'\nk = 2\n"
        f"[cluster]\nserial = true\n{extra}"
    )
    outcome = execute("job.toml")
    return json.loads(Path(outcome.run.url, "metrics.json").read_text())


def test_copies_one_by_one(duplicates):
    record = metrics()
    assert record["univariate"]["features"] == 2
    assert record["univariate"]["in_common"] <= 1
    assert record["metrics"]["r2"] > 0.95
    train = next(Path("o/data").rglob("train.zarr"))
    block = daskfs.open_dataset(train).read(0)
    best = SelectKBest(f_regression, k=2).fit(block.X, block.y).get_support(indices=True)
    assert set(best) <= set(range(6))  # without column 10
    test = daskfs.open_dataset(train.parent / "test.zarr").read(0)
    design = np.column_stack([np.ones(len(block.y)), block.X[:, best]])
    weights = np.linalg.lstsq(design, block.y, rcond=None)[0]
    errors = test.y - np.column_stack([np.ones(len(test.y)), test.X[:, best]]) @ weights
    expected = 1 - errors @ errors / np.square(test.y - test.y.mean()).sum()
    assert record["univariate"]["metrics"]["r2"] == pytest.approx(expected, abs=2e-3)
    assert expected < 0.9


def test_without(duplicates):
    assert "univariate" not in metrics(evaluate="univariate = false")
