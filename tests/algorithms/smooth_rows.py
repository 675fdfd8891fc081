"""Rows whose target is no straight line, for tests of Sparse Random Features."""

from __future__ import annotations

import numpy as np

import daskfs


def smooth(n=600, seed=0, margin=0.0):
    """Five inputs of which two matter, together and in no straight line."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(margin, 1 - margin, size=(n, 5))
    return X, np.sin(5 * X[:, 0]) * X[:, 3] + 0.05 * rng.normal(size=n)


def unseen(n=600):
    """Rows that nobody has learned from, within the range of those that were."""
    return smooth(n, seed=1, margin=0.05)


def written(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, **({"layout": "rows"} | options))
    return daskfs.open_dataset(folder / "d.zarr")
