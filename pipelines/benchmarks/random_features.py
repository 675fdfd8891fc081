"""Random features on one thread, as ratios: beside scikit-learn's, and beside the BLAS calls in a pass; whole fits.

    python pipelines/benchmarks/random_features.py expansion               # beside RBFSampler.transform
    python pipelines/benchmarks/random_features.py gram                    # a squared-loss pass beside its two products
    python pipelines/benchmarks/random_features.py passes                  # passes of all kinds, in expansions
    python pipelines/benchmarks/random_features.py accuracy                # what float32 costs, largest errors
    python pipelines/benchmarks/random_features.py workers                 # two processes against one
    python pipelines/benchmarks/random_features.py screening --from DIR    # compactiv, to an equal objective
    python pipelines/benchmarks/random_features.py fit --from DIR          # ijcnn1, beside RBFSampler and LinearSVC

Rows of the first four are uniform in the unit cube, float32, and in memory. CPU time, contenders interleaved, best of
--rounds. `--from` is where the public files are, of which `datasets/` says more; the recipes write datasets to --work.
--json prints the figures as one line of JSON instead of a table.
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
from _random_features_fits import fit, one_fit, screening, workers
from numpy.typing import NDArray
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits

import daskfs
from daskfs.algorithms.random_features.rounds import begin_pass
from daskfs.algorithms.random_features.state import PassKind, ScoreModel
from daskfs.algorithms.random_features.sums import TILE_ROWS, add_gram
from daskfs.basis import Basis, Kernel, RandomFeatures
from daskfs.protocol import Meta, RowBlock

GAMMA = 1.0
Run = Callable[[], object]


class Setting(NamedTuple):
    """Rows, a target of two values, and features of the rows."""

    X: NDArray[np.float32]
    y: NDArray[np.float64]
    features: RandomFeatures

    @property
    def meta(self) -> Meta:
        n, d = self.X.shape
        return Meta("dense", n, d, n * d, d - 1, (-1.0, 1.0), self.X.nbytes)


def setting(n: int, d: int, A: int) -> Setting:
    rng = np.random.default_rng(0)
    X = rng.random((n, d), dtype=np.float32)
    return Setting(X, np.sign(X[:, 0] - 0.5), Basis("gaussian", GAMMA, 0, d).features(np.arange(A, dtype=np.uint64)))


def update_of(given: Setting, kind: PassKind, old: int = 0, **options: object) -> Run:
    """A pass of the algorithm itself over rows in memory, of some kind."""
    algorithm = daskfs.SparseRandomFeatures(gamma=GAMMA, scaling="none", **options)  # type: ignore[arg-type]
    block, A = RowBlock(0, given.X, given.y), len(given.features.W)
    state = algorithm.start(given.meta, 0)
    state, _ = algorithm.end_pass(algorithm.update(state, block))
    ids = np.arange(A, dtype=np.uint64)
    state.active = ids[:0] if kind == "screen" else ids
    state.model = ScoreModel(np.zeros((len(state.active), 1)), state.model.intercept)
    state.candidates, state.n_known = ids, old
    begin_pass(state, kind)

    def run() -> None:
        state.pending = state.pending.part(slice(0))
        algorithm.update(state, block)

    return run


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
    """What the commands on made-up rows in memory take."""
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

    def in_tiles(run: Callable[[NDArray[np.float32], NDArray[np.float32]], object]) -> Run:
        def over_all() -> None:
            for start in range(0, n, 512):
                run(X[start : start + 512], tile[: n - start])

        return over_all

    contenders: dict[str, Run] = {
        "daskfs": lambda: features.expand(X, everything),
        "RBFSampler": lambda: sampler.transform(X),
        "daskfs, tiles": in_tiles(lambda rows, out: features.expand(rows, out)),
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
    """A pass as `update` makes it (scaling, expansion, ΦᵀΦ, Φᵀy, Φᵀ1) beside X Wᵀ and ΦᵀΦ on tiles of its shape."""
    n = n // TILE_ROWS * TILE_ROWS
    given = setting(n, d, A)
    X, _, features = given
    Phi, other = features.expand(X[:TILE_ROWS]), np.empty((TILE_ROWS, A), np.float32)
    product, square, G = np.empty((A - old, A), np.float32), np.empty((A, A), np.float32), np.zeros((A - old, A))

    def over_tiles(multiply: Run) -> Run:
        def run() -> None:
            for start in range(0, n, TILE_ROWS):
                np.matmul(X[start : start + TILE_ROWS], features.W.T, out=other)
                multiply()

        return run

    contenders: dict[str, Run] = {
        "two sgemm": over_tiles(lambda: np.matmul(other[:, old:].T, Phi, out=product)),
        "sgemm, ssyrk of numpy": over_tiles(lambda: np.matmul(Phi.T, Phi, out=square)),
        "sgemm, add_gram": over_tiles(lambda: add_gram(Phi, old, G)),
        "update": update_of(given, "gram", old),
    }
    with threadpool_limits(1):
        best = interleaved(contenders, rounds, time.process_time)
    report(f"a squared-loss pass, n = {n:,}, d = {d}, A = {A:,}, {old} old", best, "two sgemm", n * A, as_json)


@main.command()
@options
@rounds_option
def passes(n: int, d: int, A: int, rounds: int, as_json: bool) -> None:
    """Passes of all kinds with A features or candidates, and drawing, in expansions of a tile that is used again."""
    given = setting(n, d, A)
    X, _, features = given
    tile, times = np.empty((512, A), np.float32), n // A  # directions: as many numbers as Φ has, for the clock's sake
    ids = np.arange(A * times, dtype=np.uint64)

    def expanded() -> None:
        for start in range(0, n, 512):
            features.expand(X[start : start + 512], tile[: n - start])

    contenders: dict[str, Run] = {
        "expansion": expanded,
        "screen": update_of(given, "screen"),
        "screen, perceptron": update_of(given, "screen", kernel="perceptron"),
        "gram": update_of(given, "gram"),
        "newton, logistic": update_of(given, "newton", loss="logistic"),
        "directions, normal": lambda: Basis("gaussian", GAMMA, 0, d).features(ids),
        "directions, Cauchy": lambda: Basis("laplacian", GAMMA, 0, d).features(ids),
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
    kernels: tuple[Kernel, ...] = ("gaussian", "laplacian")
    for kernel in kernels:
        features = Basis(kernel, GAMMA, 0, d).features(np.arange(A, dtype=np.uint64))
        u = X.astype(np.float64) @ features.W.T.astype(np.float64)
        error = np.abs(features.expand(X) - math.sqrt(2) * np.cos(2 * math.pi * (u + features.b)))
        near = error[np.abs(u) < 10].max()
        found = {"largest": error.max(), "median": np.median(error), "below 10 turns": near, "most turns": abs(u).max()}
        figures[kernel] = {name: float(figure) for name, figure in found.items()}
        rows.append([kernel, *(f"{figure:.1e}" for figure in figures[kernel].values())])
    if as_json:
        click.echo(json.dumps(figures))
    else:
        show("errors of Φ in float32", ["", *figures["gaussian"]], rows)


for command in (workers, screening, fit, one_fit):
    main.add_command(command)

if __name__ == "__main__":
    main()
