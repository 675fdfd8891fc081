"""The speed of Online Substitution, as ratios: against a literal loop, against sweeps over the data, against reading.

python pipelines/benchmarks/substitution.py [steps] [memory-sweeps] [stream]

A *sweep* is X.T @ r over the same columns; a *bare read* takes the same blocks through the fast reader and does nothing
with them. Passes are numbered as in the run's history; the last one accepts next to nothing, the set has settled. Two
workers are compared with one where each has a core to itself: a single worker with two cores reads on one of them and
computes on the other.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from _measure import console, interleaved, pin, show, two_processes_against_one
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import daskfs
from daskfs.protocol import ColumnBlock, Meta

S = 100
PASSES = 3


def planted(n: int, p: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The paper's regression: S of p columns count, noise .1."""
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.standard_normal((p, n), dtype=np.float32).T)
    true = rng.choice(p, S, replace=False)
    return X, X[:, true] @ rng.standard_normal(S) + 0.1 * rng.standard_normal(n)


def blocks_of(X: NDArray[np.float32], y: NDArray[np.float64], width: int = 128) -> Iterator[ColumnBlock]:
    for first in range(0, X.shape[1], width):
        columns = X[:, first : first + width]
        yield ColumnBlock(np.arange(first, first + columns.shape[1], dtype=np.uint64), columns, y)


def meta_of(X: NDArray[np.float32]) -> Meta:
    n, p = X.shape
    return Meta("dense", n, p, n * p, p - 1, None, 128 * n * X.itemsize, X.itemsize)


class Literal:
    """Algorithm 1 as it is listed, two products of X_S with a vector for each column, in the data's precision."""

    def __init__(self, X: NDArray[np.float32], y: NDArray[np.float64]) -> None:
        self.X, self.y = X, y.astype(X.dtype)
        self.held = np.zeros((len(X), S), X.dtype, order="F")
        self.w, self.k, self.gamma = np.zeros(S, X.dtype), 0, np.float32(0.5 / len(X))

    def take(self, columns: range) -> None:
        for j in columns:
            x, k = self.X[:, j], self.k
            r = self.y - self.held[:, :k] @ self.w[:k]
            w_j = self.gamma * (x @ r)
            self.w[:k] += self.gamma * (self.held[:, :k].T @ r)
            slot = k if k < S else int(np.argmin(np.abs(self.w)))
            if k < S or abs(self.w[slot]) < abs(w_j):
                self.k = min(k + 1, S)
                self.held[:, slot], self.w[slot] = x, w_j


def steps(n: int, rounds: int) -> None:
    """`method="paper"` against the literal loop, once the set is full."""
    X, y = planted(n, 1024)
    algorithm = daskfs.OnlineSubstitution(S, method="paper", passes=100).resolve(meta_of(X))
    state = algorithm.start(meta_of(X), 0)
    literal = Literal(X, y)
    for block in blocks_of(X, y):
        state = algorithm.update(state, block)
    literal.take(range(150))

    def batched() -> None:
        for block in blocks_of(X, y):
            algorithm.update(state, block)

    best = interleaved(
        {"literal loop": lambda: literal.take(range(150, 350)), "paper, BLAS-3": batched, "a sweep": lambda: X.T @ y},
        rounds,
        time.process_time,
    )
    per_column = {"literal loop": best["literal loop"] / 200, "paper, BLAS-3": best["paper, BLAS-3"] / 1024}
    rows = [
        [name, f"{1e6 * took:.0f}", f"{per_column['literal loop'] / took:.1f}x"] for name, took in per_column.items()
    ]
    show(f"algorithm 1, n = {n:,}, s = {S}, float32, CPU time", ["", "µs a column", "speed"], rows)


def memory_sweeps(n: int, rounds: int) -> None:
    """A settled pass of `method="block"` from memory, in sweeps."""
    X, y = planted(n, 4096)
    r = y.astype(np.float32)
    rows = []
    for loss in ("squared", "logistic"):
        target, classes = (y, None) if loss == "squared" else (np.sign(y), (-1.0, 1.0))
        algorithm = daskfs.OnlineSubstitution(S, loss=loss, passes=100)
        meta = Meta(**{**{name: getattr(meta_of(X), name) for name in Meta.__slots__}, "classes": classes})
        run = InMemory(algorithm, meta, X, target)
        first = interleaved({"pass": run.one_pass, "sweep": lambda: r @ X}, 1, time.process_time)
        for _ in range(4):
            run.one_pass()
        settled = interleaved({"pass": run.one_pass, "sweep": lambda: r @ X}, rounds, time.process_time)
        sweeps = [f"{took['pass'] / settled['sweep']:.2f}" for took in (first, settled)]
        rows.append([f"block, {loss}", *sweeps, f"{X.nbytes / settled['pass'] / 1e9:.1f}"])
    show(f"a pass from memory, n = {n:,}, s = {S}, in sweeps", ["", "first pass", "settled pass", "GB/s settled"], rows)


class InMemory:
    """An algorithm over a matrix in memory."""

    def __init__(self, algorithm: Any, meta: Meta, X: NDArray[np.float32], y: NDArray[np.float64]) -> None:
        self.algorithm, self.X, self.y = algorithm.resolve(meta), X, y
        self.state = self.algorithm.start(meta, 0)

    def one_pass(self) -> None:
        for block in blocks_of(self.X, self.y):
            self.state = self.algorithm.update(self.state, block)
        self.state, _ = self.algorithm.end_pass(self.state)


def read_all(dataset: daskfs.Dataset, numbers: range | None = None) -> int:
    """A bare read."""
    return sum(block.nbytes for block in dataset.blocks(numbers))


def passes_of(run: Callable[[], daskfs.Selection], rounds: int) -> tuple[list[float], float]:
    """The best seconds of every pass (a last look at rejected columns is none), and of the whole run."""
    history, whole = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        history.append(run().history.seconds.values[:PASSES].tolist())
        whole.append(time.perf_counter() - start)
    return np.min(history, axis=0).tolist(), min(whole)


def cluster(workers: int) -> LocalCluster:
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=40
    )


def read_on(client: Client, dataset: daskfs.Dataset, workers: int) -> float:
    """Seconds of a bare read by the workers of a cluster, in tasks like those of a run."""
    n = dataset.n_blocks()
    edges = np.linspace(0, n, 8 * workers + 1).astype(int)
    start = time.perf_counter()
    groups = [range(a, b) for a, b in pairwise(edges.tolist())]
    client.gather([client.submit(read_all, dataset, group, pure=False) for group in groups])
    return time.perf_counter() - start


def stream(dataset: daskfs.Dataset, rounds: int) -> None:
    """Passes from local Zarr, serially and on one and two workers, in bare reads of the same blocks."""
    algorithm = daskfs.OnlineSubstitution(S, passes=PASSES)
    read_all(dataset)  # into the page cache
    bare = interleaved({"read": lambda: read_all(dataset)}, 3, time.perf_counter)["read"]
    took, whole = passes_of(lambda: daskfs.select(dataset, algorithm), rounds)
    rows = [line("serial", took, bare, whole)]
    whole_of, settled_of = {}, {}
    for workers, pinned in ((2, False), (1, True), (2, True)):
        with cluster(workers) as local, Client(local, set_as_default=False) as client:
            if pinned:
                client.run(pin)
            daskfs.select(dataset, daskfs.OnlineSubstitution(S, passes=1), client=client)  # workers warm up
            bare_on = min(read_on(client, dataset, workers) for _ in range(3))
            took, whole = passes_of(partial(daskfs.select, dataset, algorithm, client=client), rounds)
            whole_of[workers], settled_of[workers] = whole, took[-1]
            name = f"{workers} worker{'s' * (workers > 1)}" + ", a core each" * pinned
            rows.append(line(name, took, bare_on, whole))
    columns = ["", *(f"pass {number + 1}" for number in range(PASSES)), "bare read s", "whole job s"]
    size = dataset.stored_bytes / 1e9
    show(
        f"passes in bare reads, {size:.1f} GB in {dataset.n_blocks()} blocks, n = {dataset.n_samples:,}", columns, rows
    )
    control = two_processes_against_one()
    console.print(
        f"2 workers against 1, a core each: settled pass {settled_of[1] / settled_of[2]:.2f}x, whole job "
        f"{whole_of[1] / whole_of[2]:.2f}x; control, two processes against one: {control:.2f}x"
        + (" (below 1.85: void)" if control < 1.85 else "")
    )


def line(name: str, took: list[float], bare: float, whole: float) -> list[str]:
    return [name, *(f"{seconds / bare:.2f}" for seconds in took), f"{bare:.2f}", f"{whole:.2f}"]


@click.command()
@click.argument("what", nargs=-1, type=click.Choice(["steps", "memory-sweeps", "stream"]))
@click.option("--samples", default=20_000)
@click.option("--features", default=100_000, help="Of the dataset on disk.")
@click.option("--rounds", default=3)
def main(what: tuple[str, ...], samples: int, features: int, rounds: int) -> None:
    """Print the tables asked for, all by default."""
    what = what or ("steps", "memory-sweeps", "stream")
    if "steps" in what:
        steps(samples, rounds)
    if "memory-sweeps" in what:
        memory_sweeps(samples, rounds)
    if "stream" in what:
        with tempfile.TemporaryDirectory() as folder:
            X, y = planted(samples, features)
            daskfs.write_dataset(Path(folder) / "wide.zarr", X, y)
            del X
            stream(daskfs.open_dataset(Path(folder) / "wide.zarr"), rounds)


if __name__ == "__main__":
    main()
