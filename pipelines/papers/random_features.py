"""Sparse Random Features on the paper's real data, beside all random features, the exact kernel and a plain ridge.

    python pipelines/papers/random_features.py compactiv --from DIR --work WORK     # RMSE, target in [0, 1]
    python pipelines/papers/random_features.py ijcnn1 --from DIR --work WORK        # accuracy, two classes

`--from` is where the public files are, of which `datasets/` says more; the recipes write datasets to `--work`, where a
second call finds them. Yen et al., NIPS 2014, tables 1 and 2; a seed decides on the split and on the features.

"defaults" is `SparseRandomFeatures()` with the kernel (and the squared hinge for classes). For the rest, gamma and
penalty are those of --gamma and --penalty that do best on validation rows, which nobody learns from; test rows are
looked at once. For compactiv these are the tenth of the rows that the paper leaves, for ijcnn1 a tenth of those to
learn from. Peers take the same gamma, and a ridge or C chosen on the same rows: --dense features that are all kept, and
the exact kernel of at most --exact-rows rows, with a ridge for numbers, a support vector machine for classes, whose
"features" are rows.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from _random_features_peers import (
    Floats,
    InMemory,
    Loss,
    Peer,
    dense_features,
    kernel_ridge,
    linear,
    support_vectors,
)
from _recipes import dataset_of
from _report import Record, report
from threadpoolctl import threadpool_limits

import daskfs
from daskfs.basis import KERNELS, Kernel

VALIDATION_SHARE = 0.1  # of ijcnn1's training rows
ALL_KERNELS = "any"
DEFAULTS, CHOSEN, DENSE, EXACT = "sparse, defaults", "sparse, on validation", "all kept, ridge", "exact kernel"


@dataclass(frozen=True)
class Task:
    """Rows to learn from, to choose by and to judge by, and how."""

    train: daskfs.Dataset
    validation: daskfs.Dataset
    test: daskfs.Dataset
    metric: Literal["RMSE", "accuracy"]
    seed: int

    @property
    def fixed(self) -> dict[str, Any]:
        """Options of every fit."""
        return {"loss": "squared_hinge"} if self.metric == "accuracy" else {}

    @property
    def loss(self) -> Loss:
        return wrong if self.metric == "accuracy" else rmse

    def measured(self, y: Floats, scores: Floats) -> float:
        return 1 - wrong(y, scores) if self.metric == "accuracy" else rmse(y, scores)


def rmse(y: Floats, scores: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(y - scores))))


def wrong(y: Floats, scores: Floats) -> float:
    """The share of rows on the wrong side."""
    return float(np.mean((y > 0) != (scores > 0)))


def rows_of(dataset: daskfs.Dataset) -> tuple[NDArrayFloat32, Floats]:
    blocks = [(block.X.astype(np.float32), block.y.copy()) for block in dataset.blocks(axis="rows")]
    X, y = zip(*blocks, strict=True)
    return np.concatenate(X), np.concatenate(y)


NDArrayFloat32 = np.ndarray[Any, np.dtype[np.float32]]


def in_memory(task: Task) -> tuple[InMemory, Floats]:
    """All rows, scaled to [0, 1] by the training rows, and the targets of the test rows."""
    (X, y), (X_validation, y_validation), (X_test, y_test) = map(rows_of, (task.train, task.validation, task.test))
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    span[span == 0] = 1
    scaled = [(part - low) / span for part in (X, X_validation, X_test)]
    return InMemory(scaled[0], y, scaled[1], y_validation, scaled[2]), y_test


def scores_of(selection: daskfs.Selection, dataset: daskfs.Dataset) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a test row may lie a little outside
        return selection.decision_function(dataset).ravel() if selection.classes else selection.predict(dataset).ravel()


def fitted(task: Task, **options: Any) -> daskfs.Selection:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as many as max_features: the table shows it
        algorithm = daskfs.SparseRandomFeatures(**{**task.fixed, **options})
        return daskfs.select(task.train, algorithm, seed=task.seed)


def chosen_on_validation(task: Task, kernel: Kernel, given: Options) -> dict[str, float]:
    """The gamma and penalty of a grid that do best on validation rows, with at most so many features."""
    _, y = rows_of(task.validation)
    losses = {}
    for gamma in given.gammas:
        for penalty in given.penalties:
            selection = fitted(task, kernel=kernel, gamma=gamma, penalty=penalty, rounds=given.rounds)
            loss = task.loss(y, scores_of(selection, task.validation))
            losses[len(selection.features) > given.most, loss, gamma, penalty] = None
    _, _, gamma, penalty = min(losses)
    return {"gamma": gamma, "penalty": penalty}


@dataclass(frozen=True)
class Options:
    """Of a table."""

    kernels: Sequence[Kernel]
    gammas: Sequence[float]
    penalties: Sequence[float]
    rounds: int
    most: int
    n_select: int
    dense: int
    exact_rows: int
    only: Sequence[str]

    def asks_for(self, method: str) -> bool:
        return not self.only or method in self.only


def records_of(task: Task, given: Options) -> list[Record]:
    """A record for every method and kernel."""
    rows, y = in_memory(task)
    records: list[Record] = []

    def note(kernel: str, method: str, scores: Floats, size: int, **more: float) -> None:
        record = {"kernel": kernel, "method": method, "seed": task.seed, task.metric: task.measured(y, scores)}
        records.append({**record, "features": size, **more})
        click.echo(f"{records[-1]}", err=True)  # the table comes last, and this takes a while

    def note_fit(kernel: Kernel, method: str, **options: Any) -> None:
        if not given.asks_for(method):
            return
        selection = fitted(task, kernel=kernel, **options)
        more = {name: options[name] for name in ("gamma", "penalty") if isinstance(options.get(name), float)}
        note(kernel, method, scores_of(selection, task.test), len(selection.features), **more)

    for kernel in given.kernels:
        best: dict[str, Any] = {**chosen_on_validation(task, kernel, given), "rounds": given.rounds}
        note_fit(kernel, DEFAULTS)
        note_fit(kernel, CHOSEN, **best)
        note_fit(kernel, "the same, screen=False", **best, screen=False)
        note_fit(kernel, "the same, n_select", **best, n_select=given.n_select)
        note_fit(kernel, 'the same, penalty="auto"', **{**best, "penalty": "auto"})
        for method, peer in peers_of(task, rows, kernel, best["gamma"], given).items():
            note(kernel, method, peer.scores, peer.size, gamma=best["gamma"])
    if given.asks_for("linear ridge"):
        peer = linear(rows, task.loss)
        note(ALL_KERNELS, "linear ridge", peer.scores, peer.size)
    return records


def peers_of(task: Task, rows: InMemory, kernel: Kernel, gamma: float, given: Options) -> dict[str, Peer]:
    peers = {}
    if given.asks_for(DENSE):
        peers[DENSE] = dense_features(rows, kernel, gamma, given.dense, task.loss)
    if not given.asks_for(EXACT):
        return peers
    exact = support_vectors if task.metric == "accuracy" else kernel_ridge
    return peers | {EXACT: exact(sampled(rows, given.exact_rows, task.seed), kernel, gamma, task.loss)}


def sampled(rows: InMemory, most: int, seed: int) -> InMemory:
    """At most so many of the rows to learn from."""
    few = np.sort(np.random.default_rng(seed).permutation(len(rows.X))[:most])
    return replace(rows, X=rows.X[few], y=rows.y[few])


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Print the paper's tables."""
    threadpool_limits(1)


def task_options(
    gammas: Sequence[float], penalties: Sequence[float], rounds: int, most: int, exact: int, seeds: Sequence[int]
) -> Callable[..., Any]:
    """What every task is told."""
    folder = click.Path(path_type=Path, file_okay=False)

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option("--json", "as_json", is_flag=True, help="Every run instead of a table."),
            click.option("--seed", "seeds", multiple=True, default=seeds, type=int),
            click.option("--kernel", "kernels", multiple=True, default=KERNELS, type=click.Choice(KERNELS)),
            click.option("--gamma", "gammas", multiple=True, default=gammas, type=float, help="To choose from."),
            click.option("--penalty", "penalties", multiple=True, default=penalties, type=float, help="Likewise."),
            click.option("--rounds", default=rounds),
            click.option("--most", default=most, help="Features, where there is a choice."),
            click.option("--n-select", default=100),
            click.option("--dense", default=2000, help="Features that are all kept."),
            click.option("--exact-rows", default=exact, help="At most, for the exact kernel."),
            click.option("--only", multiple=True, help="A method, as the table has it; repeatable."),
            click.option("--work", type=folder, required=True, help="Where datasets are written, and found again."),
            click.option("--from", "source", metavar="DIR", type=folder, required=True, help="Public files."),
        ):
            function = option(function)
        return function

    return add


@main.command()
@task_options(gammas=(0.1, 0.25, 1.0), penalties=(1.0, 2.0), rounds=20, most=500, exact=10_000, seeds=(0, 1, 2))
def compactiv(source: Path, work: Path, seeds: Sequence[int], as_json: bool, **given: Any) -> None:
    """How busy a computer is: 6,554 rows to learn from, 819 each to choose and to judge by, 21 inputs."""
    _print(partial(compactiv_task, source, work), seeds, Options(**given), as_json)


def compactiv_task(source: Path, work: Path, seed: int) -> Task:
    parts = [
        dataset_of("compactiv", work / f"compactiv-{part}-{seed}.zarr", "--from", source, "--part", part, *how)
        for part in ("train", "validation", "test")
        for how in [("--seed", seed)]
    ]
    return Task(*parts, metric="RMSE", seed=seed)


@main.command()
@task_options(gammas=(1.0, 2.0), penalties=(2.0, 5.0), rounds=6, most=1100, exact=4000, seeds=(0,))
def ijcnn1(source: Path, work: Path, seeds: Sequence[int], as_json: bool, **given: Any) -> None:
    """Ignitions of an engine: 127,591 rows to learn from and to choose by, 14,100 to judge by, 22 inputs."""
    _print(partial(ijcnn1_task, source, work), seeds, Options(**given), as_json)


def ijcnn1_task(source: Path, work: Path, seed: int) -> Task:
    all_train, test = (
        dataset_of("ijcnn1", work / f"ijcnn1-{part}-{seed}.zarr", "--from", source, "--part", part, *how)
        for part in ("paper-train", "paper-test")
        for how in [("--seed", seed)]
    )
    return Task(*_split(all_train, work, seed), test, metric="accuracy", seed=seed)


def _split(dataset: daskfs.Dataset, work: Path, seed: int) -> list[daskfs.Dataset]:
    """A dataset without its validation rows, and these."""
    paths = [work / f"ijcnn1-{part}-{seed}.zarr" for part in ("learn", "validation")]
    if not all(path.exists() for path in paths):
        X, y = rows_of(dataset)
        names = dataset.names(np.arange(dataset.n_features, dtype=np.uint64))
        held = np.random.default_rng(seed).random(len(y)) < VALIDATION_SHARE
        for path, part in zip(paths, (~held, held), strict=True):
            daskfs.write_dataset(path, X[part], y[part], feature_names=names, layout="rows", overwrite=True)
    return [daskfs.open_dataset(path) for path in paths]


def _print(task: Callable[[int], Task], seeds: Sequence[int], given: Options, as_json: bool) -> None:
    records = [record for seed in seeds for record in records_of(task(seed), given)]
    one = task(seeds[0])
    title = f"{one.train.n_samples:,} rows x {one.train.n_features}, {len(seeds)} seeds, at most {given.rounds} rounds"
    report(title, records, "kernel", [one.metric, "features"], as_json)


if __name__ == "__main__":
    main()
