"""What the recipes share: the command line around them, finding source files, saving what is known to be true."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import fsspec
import numpy as np
from numpy.typing import ArrayLike

import daskfs
from daskfs.errors import DaskfsError

T = TypeVar("T")


class RecipeError(click.ClickException):
    """Wrong usage or bad input: one line, and the exit code the daskfs command has for it."""

    exit_code = 2


class Recipe(click.Command):
    """A command that tells errors made on purpose in one line, and any other as the bug it is."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DaskfsError as error:
            raise RecipeError(str(error)) from error


def recipe(function: Callable[..., None]) -> Recipe:
    """A recipe's command: ``OUT.zarr`` and ``--overwrite``, besides the options it declares itself."""
    function = click.argument("out", metavar="OUT.zarr")(function)
    function = click.option("--overwrite", is_flag=True, help="Replace a dataset that is there.")(function)
    return click.command(cls=Recipe, context_settings={"show_default": True})(function)


source_folder = click.option(
    "--from", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Where the public files are."
)
seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, help="Same seed, same dataset.")
shuffle_option = click.option("--shuffle", is_flag=True, help="Rows in random order, and not class by class.")


def mixed(items: Iterable[T], seed: int = 0) -> list[T]:
    """Items in an order that says nothing of them.

    >>> mixed("abc")
    ['c', 'a', 'b']
    """
    ordered = list(items)
    return [ordered[i] for i in np.random.default_rng(seed).permutation(len(ordered))]


def weighting_option(default: str) -> Callable[..., Any]:
    """``--weighting``: how much a feature that occurs in a row is worth."""
    choices = click.Choice(["count", "binary", "unit"])
    return click.option(
        "--weighting", type=choices, default=default, help="Counts, ones, or counts scaled to unit norm."
    )


class WholeNumbers(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """Whole numbers between commas: ``6,8,10``; none at all for an empty text."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            return tuple(int(part) for part in value.split(",") if part)
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers between commas", param, ctx)


def lengths_option(name: str, default: str, help: str) -> Callable[..., Any]:
    """An option that takes lengths of n-grams or k-mers."""
    return click.option(name, type=WholeNumbers(), default=default, help=help)


def find_files(folder: Path | None, patterns: Sequence[str], origin: str) -> list[Path]:
    """One file for each pattern, from `folder` or any folder below it.

    A pattern is a glob, or several of them between ``|`` where a file goes by different names. One that is
    not there ends the recipe with the name of the public collection to get it from.
    """
    return [_matches(folder, pattern, origin)[0] for pattern in patterns]


def find_all(folder: Path | None, pattern: str, origin: str) -> list[Path]:
    """Every file the pattern matches in the one folder where there are any."""
    found = _matches(folder, pattern, origin)
    return [path for path in found if path.parent == found[0].parent]


def _matches(folder: Path | None, pattern: str, origin: str) -> list[Path]:
    for glob in pattern.split("|"):
        if folder and (found := sorted(path for path in folder.rglob(glob) if path.is_file())):
            return found
    where = f"in {folder}" if folder else "without --from DIR"
    raise RecipeError(f"no {pattern.replace('|', ' or ')} {where}; its public origin: {origin}")


def beside(out: str, ending: str) -> str:
    """The place of a companion: ``runs/a.zarr`` and ``truth.npz`` give ``runs/a.truth.npz``.

    >>> beside("runs/a.zarr", "test.zarr")
    'runs/a.test.zarr'
    """
    return f"{out.rstrip('/').removesuffix('.zarr')}.{ending}"


def save_truth(out: str, ids: ArrayLike, weights: ArrayLike) -> None:
    """Write the features that made the target, and their weights, to ``truth.npz`` beside a dataset."""
    file = io.BytesIO()
    np.savez(file, ids=np.asarray(ids, np.uint64), weights=np.asarray(weights, np.float64))
    with fsspec.open(beside(out, "truth.npz"), "wb") as target:
        target.write(file.getvalue())


def announce(out: str) -> None:
    """Say what has been written, as the dataset itself sees it."""
    click.echo(repr(daskfs.open_dataset(out)).strip("<>").removeprefix("daskfs.Dataset "))
