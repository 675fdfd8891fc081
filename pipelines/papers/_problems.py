"""The data of the experiments: what the recipes in datasets/ write, in memory for peers and stored for daskfs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _recipes import recipe, run_recipe
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

import daskfs

HELD_OUT = 1 / 3  # of the rows of real data


@dataclass(frozen=True)
class Problem:
    """Rows to choose and fit with, rows to judge by where there are any, and the truth where it is known."""

    X: NDArray[np.floating[Any]]
    y: NDArray[np.float64]  # a number, or -1 and 1
    X_test: NDArray[np.floating[Any]] | None = None
    y_test: NDArray[np.float64] | None = None
    truth: dict[int, float] | None = None
    chunk_columns: int = 128
    """Columns of a chunk when stored: n is small here, and a chunk of the default size would hold most of them."""

    @cached_property
    def varying(self) -> NDArray[np.int64]:
        """The columns that are not constant."""
        return np.flatnonzero(np.ptp(self.X, axis=0))

    @cached_property
    def standardised(self) -> NDArray[np.float64]:
        """Those columns with mean 0 and variance 1, for peers."""
        Z = np.array(self.X[:, self.varying], dtype=np.float64, order="F")
        Z -= Z.mean(axis=0)
        Z /= Z.std(axis=0)
        return Z

    def store(self, url: Path) -> str:
        """Write the training rows as a dataset."""
        chunk_bytes = self.chunk_columns * len(self.y) * self.X.itemsize
        daskfs.write_dataset(url, self.X, self.y, chunk_bytes=chunk_bytes, overwrite=True)
        return str(url)


def regression(p: int, seed: int, *options: str) -> Problem:
    """The paper's sparse regression; options are those of the recipe."""
    with tempfile.TemporaryDirectory() as folder:
        url = _run("os_regression", folder, "--p", p, "--seed", seed, *options)
        return Problem(*_read(url), truth=_truth(url))


def classification(p: int, seed: int, *options: str) -> Problem:
    """The paper's signs of a sparse linear function, with as many rows again to test on."""
    with tempfile.TemporaryDirectory() as folder:
        url = _run("os_classification", folder, "--p", p, "--seed", seed, *options)
        return Problem(*_read(url), *_read(url.with_suffix(".test.zarr")), truth=_truth(url))


def lagging_gradient(n: int, p: int, k: int, seed: int, alpha: float = 1.0) -> Problem:
    """MISSION's noise-free target of k columns, which are divided by `alpha`; in memory only."""
    drawn = recipe("mission_lagging_gradient").simulate(n, p, k, alpha, "ones", seed)
    return Problem(drawn.X, drawn.y, truth=dict(zip(drawn.support.tolist(), drawn.weights.tolist(), strict=True)))


def dexter(source: Path) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """All rows of dexter, from the folder of its public file."""
    with tempfile.TemporaryDirectory() as folder:
        return _read(_run("dexter", folder, "--from", source))


def mnist(source: Path, pairs: str) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The training images of fours (-1) and nines (1): pixels and products of pairs of them."""
    with tempfile.TemporaryDirectory() as folder:
        features = ["--digits", "4,9", "--features", "pixels,products", "--pairs", pairs]
        X, y = _read(_run("mnist", folder, "--from", source, *features))
    return X, np.where(y == 9, 1.0, -1.0)


def split(X: NDArray[np.float32], y: NDArray[np.float64], seed: int) -> Problem:
    """A third of the rows held out by the seed, both classes in proportion."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=HELD_OUT, stratify=y, random_state=seed)
    return Problem(X, y, X_test, y_test)


def _run(recipe: str, folder: str, *arguments: object) -> Path:
    return run_recipe(recipe, Path(folder) / "data.zarr", *arguments)


def _read(url: Path) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    arrays = daskfs.open_dataset(url).to_xarray()
    return np.asfortranarray(arrays.X.values), arrays.y.values


def _truth(url: Path) -> dict[int, float]:
    with np.load(url.with_suffix(".truth.npz")) as arrays:
        return dict(zip(arrays["ids"].tolist(), arrays["weights"].tolist(), strict=True))
