"""Running the recipes in datasets/, which are scripts beside their helpers and no package."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from pathlib import Path
from types import ModuleType

import daskfs
from daskfs.errors import DatasetError

RECIPES = Path(__file__).parents[2] / "datasets"


def run_recipe(name: str, url: Path, *arguments: object) -> Path:
    """Let a recipe write a dataset, without what it says."""
    with contextlib.redirect_stdout(io.StringIO()):
        recipe(name).main.main([str(url), *map(str, arguments)], standalone_mode=False)
    return url


def recipe(name: str) -> ModuleType:
    """A recipe as a module."""
    if str(RECIPES) not in sys.path:
        sys.path.append(str(RECIPES))
    return importlib.import_module(name)


def dataset_of(name: str, url: Path, *arguments: object) -> daskfs.Dataset:
    """The dataset a recipe has written there before, or writes now."""
    with contextlib.suppress(DatasetError):
        return _opened(url)
    return _opened(run_recipe(name, url, *arguments))


def shuffled(dataset: daskfs.Dataset, url: Path) -> daskfs.Dataset:
    """The rows of a dataset in random order, written there before or now."""
    with contextlib.suppress(DatasetError):
        return _opened(url)
    daskfs.shuffle(dataset, url)
    return _opened(url)


def _opened(url: Path) -> daskfs.Dataset:
    dataset = daskfs.open_dataset(url)
    _ = dataset.digest  # opened for certain: what is not complete has none
    return dataset
