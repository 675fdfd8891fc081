"""Random features on one thread, as ratios: expansion beside scikit-learn's, a pass beside the BLAS calls in it.

    python pipelines/benchmarks/random_features.py expansion    # beside RBFSampler.transform
    python pipelines/benchmarks/random_features.py gram         # a squared-loss pass beside its two products alone
    python pipelines/benchmarks/random_features.py passes       # scores, gradient and drawing, in expansions
    python pipelines/benchmarks/random_features.py accuracy     # what float32 costs, largest errors

Rows are uniform in the unit cube, float32, and in memory. CPU time, contenders interleaved, best of --rounds. --json
prints the figures as one line of JSON instead of a table.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded

import json
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import click
import numpy as np
from _measure import interleaved, show
from daskfs.algorithms.random_basis import RandomFeatures, directions, expand
from daskfs.algorithms.random_sums import add_gram, add_products, add_sums, scores
from numpy.typing import NDArray
from scipy.linalg.blas import ssyrk
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits

from daskfs.protocol import RowBlock

TILE = 4096  # rows of Φ that meet in one product, as many as `add_sums` takes for 1,000 features
GAMMA = 1.0


class Setting(NamedTuple):
    """Rows, targets, and features of them."""

    X: NDArray[np.float32]
    targets: NDArray[np.float64]
    features: RandomFeatures

    @property
    def block(self) -> RowBlock:
        return RowBlock(0, self.X, self.targets[:, 0])


def setting(n: int, d: int, A: int) -> Setting:
    rng = np.random.default_rng(0)
    W, b = directions(np.arange(A, dtype=np.uint64), d, 0, "gaussian", GAMMA)
    y = np.column_stack([rng.standard_normal(n), np.ones(n)])
    return Setting(rng.random((n, d), dtype=np.float32), y, RandomFeatures("gaussian", W, b, np.zeros(d), np.ones(d)))


def report(title: str, best: dict[str, float], unit: str, numbers: float, as_json: bool) -> None:
    """Times in ns a number and in multiples of the contender `unit`."""
    ratios = {name: took / best[unit] for name, took in best.items()}
    if as_json:
        figures = {name: {"ns": 1e9 * best[name] / numbers, "ratio": ratio} for name, ratio in ratios.items()}
        click.echo(json.dumps({"title": title, "unit": unit, "contenders": figures}))
        return
    rows = [[name, f"{1e9 * best[name] / numbers:.2f}", f"{ratio:.2f}"] for name, ratio in ratios.items()]
    show(f"{title}, CPU time", ["", "ns a number of Φ", f"times {unit}"], rows)


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Random features on one thread, as ratios."""


def options(command: Callable[..., None]) -> Callable[..., None]:
    """What all commands take."""
    for option in (
        click.option("--rows", "n", default=50_000),
        click.option("--columns", "d", default=22),
        click.option("--features", "A", default=1000),
        click.option("--json", "as_json", is_flag=True),
    ):
        command = option(command)
    return command


rounds_option = click.option("--rounds", default=7, help="Of which the best counts.")


@main.command()
@options
@rounds_option
def expansion(n: int, d: int, A: int, rounds: int, as_json: bool) -> None:
    """All features of all rows: into one array, and in tiles of 512 rows; scikit-learn's in float32 too.

    scikit-learn allocates what it returns, which may cost more than the numbers in it. Tiles are free of that.
    """
    X, _, features = setting(n, d, A)
    sampler = RBFSampler(gamma=GAMMA, n_components=A, random_state=0).fit(X)
    assert sampler.transform(X[:9]).dtype == np.float32
    tile, everything = np.empty((512, A), np.float32), np.ones((n, A), np.float32)

    def in_tiles(run: Callable[[NDArray[np.float32], NDArray[np.float32]], object]) -> Callable[[], None]:
        def over_all() -> None:
            for start in range(0, n, 512):
                run(X[start : start + 512], tile[: n - start])

        return over_all

    contenders: dict[str, Callable[[], object]] = {
        "daskfs": lambda: expand(X, features.W, features.b, "gaussian", everything),
        "RBFSampler": lambda: sampler.transform(X),
        "daskfs, tiles": in_tiles(lambda rows, out: expand(rows, features.W, features.b, "gaussian", out)),
        "RBFSampler, tiles": in_tiles(lambda rows, out: sampler.transform(rows)),
        "X W' alone, tiles": in_tiles(lambda rows, out: np.matmul(rows, features.W.T, out=out)),
    }
    with threadpool_limits(1):
        best = interleaved(contenders, rounds, time.process_time)
    report(f"expansion, n = {n:,}, d = {d}, A = {A:,}", best, "daskfs, tiles", n * A, as_json)


@main.command()
@options
@rounds_option
@click.option("--old", default=0, help="Features whose products with each other are known.")
def gram(n: int, d: int, A: int, rounds: int, as_json: bool, old: int) -> None:
    """`add_sums` (expansion, Gram matrix, Φᵀy, Φᵀ1) beside X W' and Φ'Φ on tiles of the same shape."""
    X, targets, features = setting(n, d, A)
    Phi, other = np.empty((TILE, A), np.float32), np.empty((TILE, A), np.float32)
    total, square_of_all = np.empty((A - old, A), np.float32), np.empty((A, A), np.float32)
    expand(X[:TILE], features.W, features.b, "gaussian", Phi)
    G, products, weight = np.zeros((A - old, A)), np.zeros((A - old, 2)), np.ones(n)

    def over_tiles(square: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for start in range(0, n - TILE + 1, TILE):
                np.matmul(X[start : start + TILE], features.W.T, out=other)
                square()

        return run

    whole = n // TILE * TILE
    block = RowBlock(0, X[:whole], targets[:whole, 0])
    contenders: dict[str, Callable[[], object]] = {
        "two sgemm": over_tiles(lambda: np.matmul(other[:, old:].T, Phi, out=total)),
        "sgemm, ssyrk of numpy": over_tiles(lambda: np.matmul(Phi.T, Phi, out=square_of_all)),
        "sgemm, ssyrk of scipy": over_tiles(lambda: ssyrk(1.0, Phi.T)),
        "sgemm, add_gram": over_tiles(lambda: add_gram(Phi, old, G)),
        "add_sums": lambda: add_sums(features, block, targets[:whole], None, old, G, products),
        "add_sums, weights": lambda: add_sums(features, block, targets[:whole], weight[:whole], old, G, products),
    }
    with threadpool_limits(1):
        best = interleaved(contenders, rounds, time.process_time)
    report(f"a squared-loss pass, n = {whole:,}, d = {d}, A = {A:,}, {old} old", best, "two sgemm", whole * A, as_json)


@main.command()
@options
@rounds_option
def passes(n: int, d: int, A: int, rounds: int, as_json: bool) -> None:
    """Passes without a Gram matrix, and drawing, in expansions of a tile that is used again."""
    given = setting(n, d, A)
    X, targets, features = given
    block, tile, products = given.block, np.empty((512, A), np.float32), np.zeros((A, 1))
    perceptrons = RandomFeatures("perceptron", features.W, features.b, features.offset, features.scale)
    w = np.ones((A, 1))
    times = n // A  # directions are drawn for as many numbers as Φ has, or the clock is too coarse

    def expanded() -> None:
        for start in range(0, n, 512):
            expand(X[start : start + 512], features.W, features.b, "gaussian", tile[: n - start])

    contenders = {
        "expansion": expanded,
        "scores": lambda: scores(features, block, w),
        "scores of perceptrons": lambda: scores(perceptrons, block, w),
        "gradient": lambda: add_products(features, block, targets[:, :1], products),
        "directions, normal": lambda: directions(np.arange(A * times, dtype=np.uint64), d, 0, "gaussian", GAMMA),
        "directions, Cauchy": lambda: directions(np.arange(A * times, dtype=np.uint64), d, 0, "laplacian", GAMMA),
    }
    with threadpool_limits(1):
        best = interleaved(contenders, rounds, time.process_time)
    for name in ("directions, normal", "directions, Cauchy"):
        best[name] *= n / (times * d)  # per number of W
    report(f"passes, n = {n:,}, d = {d}, A = {A:,} (directions: a number of W)", best, "expansion", n * A, as_json)


@main.command()
@options
def accuracy(n: int, d: int, A: int, as_json: bool) -> None:
    """How far Φ is from float64, which has room for few rows, and how far Cauchy directions reach."""
    X = setting(min(n, 10_000), d, 1).X
    rows, figures = [], {}
    for kind in ("gaussian", "laplacian"):
        W, b = directions(np.arange(A, dtype=np.uint64), d, 0, kind, GAMMA)  # type: ignore[arg-type]
        Phi = np.empty((len(X), A), np.float32)
        expand(X, W, b, kind, Phi)  # type: ignore[arg-type]
        u = X.astype(np.float64) @ W.T.astype(np.float64)
        error = np.abs(Phi - math.sqrt(2) * np.cos(2 * math.pi * (u + b)))
        near = error[np.abs(u) < 10].max()
        figures[kind] = {"largest": error.max(), "median": float(np.median(error)), "below 10 turns": near}
        figures[kind] |= {"most turns": float(np.abs(u).max())}
        rows.append([kind, *(f"{figure:.1e}" for figure in figures[kind].values())])
    if as_json:
        click.echo(json.dumps({kind: {k: float(v) for k, v in of.items()} for kind, of in figures.items()}))
    else:
        show("errors of Φ in float32", ["", *figures["gaussian"]], rows)


if __name__ == "__main__":
    main()
