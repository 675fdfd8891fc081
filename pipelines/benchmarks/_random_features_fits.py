"""Whole fits of Sparse Random Features: on two workers, with and without screening, and beside scikit-learn."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from _measure import (
    IDLE,
    forget_peak,
    interleaved,
    multiply,
    one_and_two_workers,
    resident,
    show,
    two_processes_against_one,
)
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import daskfs
from daskfs.algorithms.random_features.inputs import median_gamma

RECIPES = Path(__file__).parents[2] / "datasets"
SCRIPT = Path(__file__).with_name("random_features.py")
FOLDER = click.Path(path_type=Path, file_okay=False)
CHUNK_BYTES = 500_000  # shards share whole blocks; with few columns a block of the usual size is a second of work

work_option = click.option("--work", type=FOLDER, default=Path("benchmark-data"), help="For datasets.")
source_option = click.option("--from", "source", metavar="DIR", type=FOLDER, required=True, help="Public files.")
json_option = click.option("--json", "as_json", is_flag=True)


def dataset_of(name: str, part: str, source: Path, work: Path) -> Path:
    """The dataset that a recipe writes of public files, from --work if it is there."""
    out = work / f"{name}-{part}.zarr"
    if not out.exists():
        work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(RECIPES / f"{name}.py"), str(out), "--from", str(source), "--part", part]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def in_memory(dataset: daskfs.Dataset) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """All rows and targets."""
    blocks = [(block.X.astype(np.float32), block.y.copy()) for block in dataset.blocks(axis="rows")]
    X, y = zip(*blocks, strict=True)
    return np.concatenate(X), np.concatenate(y)


def report(title: str, figures: dict[str, Any], columns: list[str], rows: list[list[str]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"title": title, **figures}))
    else:
        show(title, columns, rows)


@click.command()
@click.option("--rows", "n", default=200_000)
@click.option("--columns", "d", default=20)
@click.option("--features", "A", default=1000, help="Of the Gram pass.")
@click.option("--rounds", default=3, help="Of which the best counts.")
@work_option
@json_option
def workers(n: int, d: int, A: int, rounds: int, work: Path, as_json: bool) -> None:
    """Two workers against one, a core for each: a Gram pass of A features, and a whole fit of five rounds, in seconds.

    Of the pass what workers share counts, and not the ℓ1 problem that is solved when it is over ("closing" in the
    history): that is the work of one, wherever it is done. Of the fit everything counts. The controls are two processes
    that have nothing to do with each other, counting and multiplying matrices, before and after; the lower ones count.
    """
    dataset = waves(work, n, d)
    one_pass = daskfs.SparseRandomFeatures(rounds=1, per_round=A, screen=False, gamma=1.0, penalty=n / 1000)
    whole_fit = daskfs.SparseRandomFeatures(rounds=5, per_round=200, gamma=1.0, penalty=n / 10_000)
    best = {(what, number): float("inf") for what in ("Gram pass", "whole fit") for number in (1, 2)}
    control, products = two_processes_against_one(), two_processes_against_one(100, multiply)
    with one_and_two_workers() as clients:
        for _ in range(rounds):
            for number, client in clients.items():
                history = daskfs.select(dataset, one_pass, client=client).history
                shared = float(history.seconds.values[1] - history.closing.values[1])
                best["Gram pass", number] = min(best["Gram pass", number], shared)
                start = time.perf_counter()
                daskfs.select(dataset, whole_fit, client=client)
                best["whole fit", number] = min(best["whole fit", number], time.perf_counter() - start)
    control = min(control, two_processes_against_one())
    products = min(products, two_processes_against_one(100, multiply))
    figures: dict[str, Any] = {"control": control, "products": products}
    rows = []
    for what in ("Gram pass", "whole fit"):
        one, two = best[what, 1], best[what, 2]
        figures[what] = {"1": one, "2": two, "ratio": one / two}
        void = " (too busy to judge)" if control < IDLE else ""
        rows.append([what, f"{one:.2f}", f"{two:.2f}", f"{one / two:.2f}", f"{control:.2f}{void}", f"{products:.2f}"])
    columns = ["", "1 worker, s", "2 workers, s", "ratio", "control", "bare products"]
    report(f"{n:,} rows x {d}, {A:,} features, best of {rounds}", figures, columns, rows, as_json)


def waves(work: Path, n: int, d: int) -> daskfs.Dataset:
    """Rows whose target is no straight line, from --work if they are there."""
    out = work / f"waves_{n}_{d}.zarr"
    if not out.exists():
        X = np.random.default_rng(0).random((n, d), dtype=np.float32)
        y = np.sin(6 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2
        daskfs.write_dataset(out, X, y, layout="rows", chunk_bytes=CHUNK_BYTES)
    return daskfs.open_dataset(out)


@click.command()
@source_option
@work_option
@click.option("--literal-rounds", default=20)
@click.option("--per-round", default=500)
@click.option("--rounds", default=3, help="Of which the best counts.")
@json_option
def screening(source: Path, work: Path, literal_rounds: int, per_round: int, rounds: int, as_json: bool) -> None:
    """CPU time that screened rounds and the paper's take to the same objective; compactiv, penalty 1, gamma 1."""
    dataset = daskfs.open_dataset(dataset_of("compactiv", "train", source, work))

    def fitted(rounds: int, screen: bool) -> daskfs.Selection:
        options = {"penalty": 1.0, "gamma": 1.0, "per_round": per_round}
        return daskfs.select(dataset, daskfs.SparseRandomFeatures(rounds=rounds, screen=screen, **options))

    def objective(selection: daskfs.Selection) -> float:
        return float(selection.history.objective.values[-1]) * dataset.n_samples

    literal = fitted(literal_rounds, screen=False)
    goal = objective(literal)
    enough, screened = next(
        ((number, found) for number in range(1, 99) if objective(found := fitted(number, screen=True)) <= goal),
        (0, None),
    )
    if screened is None:
        raise click.ClickException(f"screened rounds never reach the objective {goal:.4f}: they end before")
    contenders: dict[str, Callable[[], object]] = {
        "literal": lambda: fitted(literal_rounds, screen=False),
        "screened": lambda: fitted(enough, screen=True),
    }
    best = interleaved(contenders, rounds, time.process_time)
    rows, figures = [], {}
    for name, of, found in ("literal", literal_rounds, literal), ("screened", enough, screened):
        share = best[name] / best["literal"]
        drawn = int(found.history.drawn.values[-1])
        figures[name] = {"rounds": of, "objective": objective(found), "cpu": best[name], "share": share}
        rows.append([name, str(of), f"{drawn:,}", f"{objective(found):.4f}", f"{best[name]:.2f}", f"{share:.2f}"])
    columns = ["", "rounds", "drawn", "objective", "CPU s", "of literal"]
    report(f"compactiv, {dataset.n_samples:,} rows, {per_round} a round", figures, columns, rows, as_json)


@click.command()
@source_option
@work_option
@click.option("--penalty", default=5.0, help="Of daskfs.")
@click.option("--rounds", default=6, help="Of daskfs.")
@click.option("--components", default=1000, help="Of RBFSampler.")
@click.option("--c", "C", default=3.0, help="Of LinearSVC; √components / (2 penalty) is daskfs' objective.")
@click.option("--tolerance", default=1e-2, help="Of LinearSVC, whose own default is 1e-4.")
@click.option("--most-steps", default=50, help="Of LinearSVC, whose own default is 1,000.")
@json_option
def fit(source: Path, work: Path, as_json: bool, **settings: float) -> None:
    """ijcnn1 in the paper's split: SparseRandomFeatures beside RBFSampler and LinearSVC(penalty="l1"), squared hinge.

    Each in a process of its own. CPU time of the fit: daskfs from disk, scikit-learn from rows in memory, scaled to
    [0, 1]. Memory: peak above the imports and warm kernels, rows included. Both take gamma from the median distance.
    """
    paths = [str(dataset_of("ijcnn1", part, source, work)) for part in ("paper-train", "paper-test")]
    figures: dict[str, Any] = {}
    for name in CONTENDERS:
        command = [sys.executable, str(SCRIPT), "one-fit", name, *paths, json.dumps(settings)]
        figures[name] = json.loads(subprocess.check_output(command, text=True))
        click.echo(f"{name}: {figures[name]}", err=True)  # the second one takes long
    ours = figures["daskfs"]
    rows = [
        [
            name,
            f"{found['accuracy']:.4f}",
            f"{found['features']:,}",
            f"{found['cpu']:.1f}",
            f"{found['cpu'] / ours['cpu']:.1f}",
            f"{found['peak'] / 2**20:.0f}",
            f"{found['peak'] / ours['peak']:.1f}",
        ]
        for name, found in figures.items()
    ]
    columns = ["", "accuracy", "features", "CPU s", "times daskfs", "peak MiB", "times daskfs"]
    title = ", ".join(f"{name} {value:g}" for name, value in settings.items())
    report(f"ijcnn1: {title}", figures, columns, rows, as_json)


@click.command(hidden=True)
@click.argument("contender")
@click.argument("train")
@click.argument("test")
@click.argument("settings")
def one_fit(contender: str, train: str, test: str, settings: str) -> None:
    """Print accuracy, features, CPU time and peak memory of one contender."""
    with threadpool_limits(1):
        found = CONTENDERS[contender](daskfs.open_dataset(train), daskfs.open_dataset(test), json.loads(settings))
    click.echo(json.dumps(found))


Figures = dict[str, float]


def _of_daskfs(train: daskfs.Dataset, test: daskfs.Dataset, settings: dict[str, float]) -> Figures:
    def fitted(rounds: int, per_round: int) -> daskfs.Selection:
        algorithm = daskfs.SparseRandomFeatures(
            penalty=settings["penalty"], rounds=rounds, per_round=per_round, loss="squared_hinge"
        )
        return daskfs.select(train, algorithm)

    fitted(1, 2)  # kernels are loaded by now
    base = _begin()
    start = time.process_time()
    selection = fitted(int(settings["rounds"]), 500)
    cpu, peak = time.process_time() - start, resident("VmHWM") - base
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a test row may lie a little outside
        accuracy = float(np.mean(selection.predict(test) == in_memory(test)[1]))
    return {"accuracy": accuracy, "features": len(selection.features), "cpu": cpu, "peak": peak}


def _of_scikit_learn(train: daskfs.Dataset, test: daskfs.Dataset, settings: dict[str, float]) -> Figures:
    (X_test, y_test), base = in_memory(test), _begin()
    X, y = in_memory(train)
    low, span = X.min(axis=0), np.ptp(X, axis=0)
    X -= low
    X /= span
    start = time.process_time()
    gamma = median_gamma("gaussian", X[:512].astype(np.float64))
    sampler = RBFSampler(gamma=gamma, n_components=int(settings["components"]), random_state=0).fit(X)
    model = LinearSVC(
        penalty="l1", dual=False, C=settings["C"], tol=settings["tolerance"], max_iter=int(settings["most_steps"])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # --most-steps says so
        model.fit(sampler.transform(X), y)
    cpu, peak = time.process_time() - start, resident("VmHWM") - base
    accuracy = float(np.mean(model.predict(sampler.transform((X_test - low) / span)) == y_test))
    return {"accuracy": accuracy, "features": int(np.count_nonzero(model.coef_)), "cpu": cpu, "peak": peak}


def _begin() -> int:
    """Resident bytes now; peaks count from here."""
    forget_peak()
    return resident()


CONTENDERS = {"daskfs": _of_daskfs, "scikit-learn": _of_scikit_learn}
