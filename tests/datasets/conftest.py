"""Running recipes, which are scripts and no package, and reading back what they wrote."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner, Result
from numpy.typing import NDArray

import daskfs


@pytest.fixture(scope="session")
def recipes_folder() -> Path:
    return Path(__file__).parents[2] / "datasets"


@pytest.fixture
def recipe(recipes_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A recipe, or a helper beside them, as a module, by name."""
    monkeypatch.syspath_prepend(str(recipes_folder))
    return importlib.import_module


@pytest.fixture
def invoke(recipe: Callable[[str], ModuleType]) -> Callable[..., Result]:
    """Run a recipe with a command line, whatever comes of it."""

    def run(name: str, *arguments: object) -> Result:
        return CliRunner().invoke(recipe(name).main, [str(argument) for argument in arguments])

    return run


@dataclass(frozen=True)
class Written:
    """A dataset that a recipe wrote, read back by the plain means of xarray and of blocks."""

    dataset: daskfs.Dataset
    truth_file: Path

    @property
    def truth(self) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
        with np.load(self.truth_file) as arrays:
            return arrays["ids"], arrays["weights"]

    @property
    def names(self) -> list[str]:
        return self.dataset.names(np.arange(self.dataset.n_features))

    def dense(self) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """X and y."""
        assert self.dataset.kind == "dense"
        arrays = self.dataset.to_xarray()
        return arrays.X.values, arrays.y.values

    def sparse(self) -> tuple[scipy.sparse.csr_array, NDArray[np.float64]]:
        """X, with one column for each id there can be, and y."""
        assert self.dataset.kind == "sparse"
        blocks = [self.dataset.read(b) for b in range(self.dataset.n_blocks())]
        ids = np.concatenate([block.ids for block in blocks]).astype(np.int64)
        values = np.concatenate([block.values for block in blocks])
        starts = np.concatenate([[0], *(np.diff(block.indptr) for block in blocks)]).cumsum()
        y = np.concatenate([block.y for block in blocks])
        return scipy.sparse.csr_array((values, ids, starts), shape=(len(y), int(ids.max()) + 1)), y

    def rows_by_name(self) -> list[tuple[Any, dict[str, float]]]:
        """The label of each sparse row, and its entries by the names of their features."""
        X, y = self.sparse()
        classes = self.dataset.classes
        strings = classes is not None and isinstance(classes[0], str)
        rows = []
        for row, label in enumerate(y.tolist()):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            names = self.dataset.names(X.indices[entries])
            named = dict(zip(names, X.data[entries].tolist(), strict=True))
            rows.append((classes[int(label)] if strings else label, named))
        return rows


@pytest.fixture
def write(invoke: Callable[..., Result], tmp_path: Path) -> Callable[..., Written]:
    """Run a recipe that must succeed, and open the dataset it wrote."""

    def run(name: str, *arguments: object, out: str = "out") -> Written:
        result = invoke(name, tmp_path / f"{out}.zarr", *arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        dataset = daskfs.open_dataset(tmp_path / f"{out}.zarr")
        up_to = "up to " if dataset.n_features_is_limit else ""
        assert f"{dataset.n_samples:,} samples x {up_to}{dataset.n_features:,} features" in result.output
        return Written(dataset, tmp_path / f"{out}.truth.npz")

    return run


@pytest.fixture
def open_written(tmp_path: Path) -> Callable[[str], Written]:
    """A dataset that a recipe wrote beside the one it was asked for."""
    return lambda out: Written(daskfs.open_dataset(tmp_path / f"{out}.zarr"), tmp_path / f"{out}.truth.npz")
