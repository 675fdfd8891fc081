"""MISSION: how fast it learns beside others, on one worker and on two, and how much memory it takes.

    python pipelines/benchmarks/mission.py learn      # ns an entry, one core, CPU time (--width 4194304: in DRAM)
    python pipelines/benchmarks/mission.py classes    # the same with 20 classes
    python pipelines/benchmarks/mission.py quality    # accuracy, AUC and recall of the planted features
    python pipelines/benchmarks/mission.py seeds      # AUC and recall over five seeds, at three widths
    python pipelines/benchmarks/mission.py real       # scores on splice sites, newsgroups and DNA (--from DIR)
    python pipelines/benchmarks/mission.py rates      # the rate that is chosen beside fixed ones
    python pipelines/benchmarks/mission.py workers    # two processes against one
    python pipelines/benchmarks/mission.py memory     # peak above the imports

Rows are those of `datasets/rcv1_like.py`: 85 non-zeros on average, of a million words with ids below 2^30, 1,000 of
which decide the label; k = 1000 and width 2^18 unless said otherwise. They are written once into --work. With --json,
`learn`, `classes`, `seeds` and `real` add their figures to a file, such as docs/mission-speed.json.

Contenders of `learn` get the same rows in memory. MISSION: from blocks to its state, sketch and table cleared first.
Hashing: a loop over 2^18 weights, in the style of our kernels, no table and no names. SGDClassifier: scikit-learn's
`partial_fit` (log loss, no penalty, constant rate) on the rows hashed to 2^22 columns beforehand, which is not timed.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import scipy.sparse as sp
from _hashing_kernels import hashed_logistic, hashed_softmax
from _measure import (
    console,
    forget_peak,
    interleaved,
    one_and_two_workers,
    resident,
    save,
    show,
    two_processes_against_one,
)
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score

import daskfs
from daskfs.engine.run import memory_plan
from daskfs.protocol import Meta, SparseBlock

RECIPE = Path(__file__).parents[2] / "datasets" / "rcv1_like.py"
K = 1000
RATE = 2.0  # what the race chooses for these rows; given, so that contenders learn one rate each
SGD_BITS = 22


class Rows(NamedTuple):
    """A dataset, rows to judge by, and which features count."""

    train: daskfs.Dataset
    test: daskfs.Dataset
    truth: set[int]


def rows_of(work: Path, count: int, seed: int = 0) -> Rows:
    """The rows of the recipe, from --work if they are there."""
    out = work / (f"rcv1_like_{count}_seed{seed}.zarr" if seed else f"rcv1_like_{count}.zarr")
    if not out.exists():
        options = [str(out), "--rows", str(count), "--rows-test", "20000", "--seed", str(seed)]
        subprocess.run([sys.executable, str(RECIPE), *options], check=True, stdout=subprocess.DEVNULL)
    truth = np.load(out.with_suffix(".truth.npz"))["ids"]
    return Rows(daskfs.open_dataset(out), daskfs.open_dataset(out.with_suffix(".test.zarr")), set(truth.tolist()))


def judged(selection: daskfs.Selection, rows: Rows) -> tuple[float, float, float]:
    """Accuracy, AUC and the share of the features that count which were found."""
    y = np.concatenate([target.copy() for target in rows.test.targets()])
    scores = selection.decision_function(rows.test)
    found = len(rows.truth & set(selection.features.tolist())) / len(rows.truth)
    return float(np.mean((scores > 0) == (y > 0))), float(roc_auc_score(y > 0, scores)), found


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Print the tables."""


work_option = click.option("--work", type=click.Path(path_type=Path), default=Path("benchmark-data"), help="For rows.")
json_option = click.option(
    "--json", "path", type=click.Path(path_type=Path), help="The file to which figures are added."
)
rounds_option = click.option("--rounds", default=5, help="Of which the best counts.")


def in_memory(dataset: daskfs.Dataset) -> list[SparseBlock]:
    return [block for number in range(dataset.n_blocks()) if isinstance(block := dataset.read(number), SparseBlock)]


def joined(blocks: list[SparseBlock]) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.float32], Any]:
    """indptr, ids, values and target of all blocks."""
    sizes = np.concatenate([np.diff(block.indptr) for block in blocks])
    ids, values, y = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("ids", "values", "y"))
    return np.concatenate([[0], np.cumsum(sizes)]), ids, values, y


def learning(algorithm: daskfs.Mission, meta: Meta, blocks: list[SparseBlock]) -> Callable[[], object]:
    """A pass over blocks in memory, from nothing."""

    def run() -> None:
        state = algorithm.start(meta, 0)
        for block in blocks:
            state = algorithm.update(state, block)
        algorithm.end_pass(state)

    return run


def show_costs(title: str, best: dict[str, float], entries: int, others: tuple[str, ...]) -> dict[str, Any]:
    """Print what entries cost, and return the figures."""
    lines = [
        [name, f"{seconds / entries * 1e9:.1f}", *(f"{seconds / best[other]:.2f}" for other in others)]
        for name, seconds in best.items()
    ]
    show(title, ["", "ns an entry", *(f"x {other}" for other in others)], lines)
    return {
        name: {"ns_an_entry": round(seconds / entries * 1e9, 2)}
        | {f"x {other}": round(seconds / best[other], 3) for other in others}
        for name, seconds in best.items()
    }


@main.command()
@work_option
@rounds_option
@click.option("--width", default=2**18, help="Of the sketch.")
@json_option
def learn(work: Path, rounds: int, width: int, path: Path | None) -> None:
    """What an entry costs, beside feature hashing and scikit-learn."""
    train = rows_of(work, 100_000).train
    blocks = in_memory(train)
    indptr, ids, values, y = joined(blocks)
    columns = (ids * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - SGD_BITS)).astype(np.int32)
    X = sp.csr_matrix((values, columns, indptr.astype(np.int32)), shape=(len(y), 1 << SGD_BITS))

    def sgd() -> None:
        model = SGDClassifier(loss="log_loss", penalty=None, learning_rate="constant", eta0=0.5)
        model.partial_fit(X, y, classes=[-1.0, 1.0])

    def hashing() -> None:
        hashed_logistic(indptr, ids, values, y, np.zeros(1 << 18, np.float32), 18, 0.5)

    contenders = {
        "MISSION, paper": learning(daskfs.Mission(K, method="paper", width=width), train.meta, blocks),
        "MISSION, active": learning(daskfs.Mission(K, learning_rate=RATE, refit=0, width=width), train.meta, blocks),
        "MISSION, active, rate raced": learning(daskfs.Mission(K, refit=0, width=width), train.meta, blocks),
        "hashing": hashing,
        "SGDClassifier": sgd,
    }
    best = interleaved(contenders, rounds, time.process_time)
    title, others = f"learning {len(y):,} rows, width {width:,}, CPU time", ("SGDClassifier", "hashing")
    save(path, f"mission.py learn --width {width}", show_costs(title, best, len(ids), others))


@main.command()
@click.option("--classes", "n_classes", default=20)
@work_option
@rounds_option
@json_option
def classes(n_classes: int, work: Path, rounds: int, path: Path | None) -> None:
    """What an entry costs with several classes, in about the same memory as hashing."""
    train = rows_of(work, 100_000).train
    rng = np.random.default_rng(0)
    blocks = [
        SparseBlock(b.first, b.indptr, b.ids, b.values, rng.integers(0, n_classes, len(b.y)).astype(np.float64))
        for b in in_memory(train)
    ]
    indptr, ids, values, y = joined(blocks)
    meta = Meta("sparse", len(y), train.n_features, len(ids), 1 << 30, tuple(map(float, range(n_classes))), 1 << 24)
    algorithm = daskfs.Mission(K, loss="softmax", width=2**14, learning_rate=RATE, refit=0)
    paper = daskfs.Mission(K, loss="softmax", width=2**14, method="paper")

    def hashing() -> None:
        hashed_softmax(indptr, ids, values, y, np.zeros((1 << 15, n_classes), np.float32), 15, 0.5)

    contenders = {
        "MISSION, active": learning(algorithm, meta, blocks),
        "MISSION, paper": learning(paper, meta, blocks),
        "hashing to 2^15": hashing,
    }
    best = interleaved(contenders, rounds, time.process_time)
    costs = show_costs(f"{n_classes} classes, {len(y):,} rows, CPU time", best, len(ids), ("hashing to 2^15",))
    save(path, f"mission.py classes --classes {n_classes}", costs)


@main.command()
@work_option
def quality(work: Path) -> None:
    """Accuracy, AUC and recall, one pass, with the default rate of each method (paper: .5)."""
    rows = rows_of(work, 100_000)
    lines = []
    for width in (2**18, 2**14):
        for fields in ({"method": "paper"}, {}, {"refit": 1}, {"refit": 2}, {"method": "iht"}):
            selection = daskfs.select(rows.train, daskfs.Mission(K, width=width, **fields))  # type: ignore[arg-type]
            name = ", ".join(f"{field}={value}" for field, value in fields.items()) or "active"
            lines.append([f"width {width:,}  {name}", *(f"{figure:.3f}" for figure in judged(selection, rows))])
    show("100,000 rows, one pass", ["", "accuracy", "AUC", "recall"], lines)


@main.command()
@work_option
@click.option("--seeds", "n_seeds", default=5)
@json_option
def seeds(work: Path, n_seeds: int, path: Path | None) -> None:
    """AUC and recall with defaults, over several seeds of the rows, at three widths."""
    lines, figures = [], {}
    for width in (2**14, 2**18, 2**22):
        found = []
        for seed in range(n_seeds):
            rows = rows_of(work, 100_000, seed)
            found.append(judged(daskfs.select(rows.train, daskfs.Mission(K, width=width)), rows)[1:])
        auc, recall = np.mean(found, axis=0)
        figures[f"width {width}"] = {
            "auc": round(auc, 4),
            "recall": round(recall, 4),
            "by_seed": np.round(found, 4).tolist(),
        }
        lines.append([f"{width:,}", f"{auc:.4f}", f"{recall:.4f}", "  ".join(f"{a:.4f}/{r:.3f}" for a, r in found)])
    save(path, "mission.py seeds", figures)
    show(f"100,000 rows, defaults, {n_seeds} seeds", ["width", "AUC", "recall", "AUC/recall by seed"], lines)


class RealSet(NamedTuple):
    """A recipe of real data, its arguments, features to select, and widths."""

    recipe: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    sizes: tuple[int, ...]
    widths: tuple[int, ...]


REAL = {
    "splice": RealSet(
        "splice.py",
        ("--part", "train", "--k", "1,2,3,4"),
        ("--part", "test", "--k", "1,2,3,4"),
        (1000,),
        (2**14, 2**16),
    ),
    "news20": RealSet("news20.py", ("--shuffle",), ("--part", "test"), (1000, 10_000), (2**14, 2**18)),
    "DNA": RealSet(
        "dna_fragments.py",
        ("--k", "6,8,10", "--coverage", ".05", "--shuffle"),
        ("--k", "6,8,10", "--coverage", ".02", "--seed", "9"),
        (10_000,),
        (2**14, 2**18),
    ),
}


@main.command()
@work_option
@click.option("--from", "source", type=click.Path(path_type=Path, exists=True), required=True, help="Public files.")
@click.option("--seeds", "n_seeds", default=3, help="Of the selection.")
@json_option
def real(work: Path, source: Path, n_seeds: int, path: Path | None) -> None:
    """Scores on unseen rows of real data, with defaults: average precision of splice sites, accuracy of the others."""
    lines, figures = [], {}
    for name, what in REAL.items():
        outs = work / f"{name}.zarr", work / f"{name}.test.zarr"
        for out, options in zip(outs, (what.train, what.test), strict=True):
            if not out.exists():
                command = [
                    sys.executable,
                    str(RECIPE.with_name(what.recipe)),
                    str(out),
                    "--from",
                    str(source),
                    *options,
                ]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        train, test = map(daskfs.open_dataset, outs)
        for k in what.sizes:
            for width in what.widths:
                metric = "average_precision" if name == "splice" else "accuracy"
                started, scores = time.process_time(), []
                for seed in range(n_seeds):
                    selection = daskfs.select(train, daskfs.Mission(k, width=width), seed=seed)
                    scores.append(selection.evaluate(test).metrics[metric])
                seconds = (time.process_time() - started) / n_seeds
                figures[f"{name}, {k} features, width {width}"] = {metric: np.round(scores, 4).tolist()}
                by_seed = "  ".join(f"{score:.4f}" for score in scores)
                lines.append([name, f"{k:,}", f"{width:,}", f"{np.mean(scores):.4f}", by_seed, f"{seconds:.1f}"])
    save(path, "mission.py real", figures)
    show("real data, defaults", ["", "features", "width", "score", "by seed", "CPU s"], lines)


@main.command()
@work_option
def rates(work: Path) -> None:
    """The rate that the race chooses beside fixed ones, on rows of unit norm, as they are, and of zeros and ones."""
    rows = rows_of(work, 100_000)
    kinds: dict[str, Callable[[NDArray[np.float32], NDArray[np.int64]], NDArray[np.float32]]] = {
        "unit norm": lambda values, indptr: values,
        "term counts": lambda values, indptr: np.maximum(1, np.round(values * 20)).astype(np.float32),
        "binary": lambda values, indptr: np.ones_like(values),
    }
    lines = []
    for kind, change in kinds.items():
        train, test = (_changed(in_memory(dataset), change) for dataset in (rows.train, rows.test))
        tried = ("auto", 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
        lines += [[f"{kind}, {rate}", *_learned(rows, train, test, rate)] for rate in tried]
    show("learning rates, active", ["", "rate", "progressive loss", "AUC", "recall"], lines)


def _changed(blocks: list[SparseBlock], change: Callable[..., NDArray[np.float32]]) -> list[SparseBlock]:
    return [SparseBlock(b.first, b.indptr, b.ids, change(b.values, b.indptr), b.y) for b in blocks]


def _learned(rows: Rows, train: list[SparseBlock], test: list[SparseBlock], rate: Any) -> list[str]:
    algorithm = daskfs.Mission(K, learning_rate=rate)
    state = algorithm.start(rows.train.meta, 0)
    for block in train:
        state = algorithm.update(state, block)
    result = algorithm.result(algorithm.end_pass(state)[0])
    order = np.argsort(result.features)
    indptr, ids, values, y = joined(test)
    at = np.minimum(np.searchsorted(result.features[order], ids), len(order) - 1)
    hit = result.features[order][at] == ids
    weighted = np.where(hit, result.weights[order][at], 0.0) * values
    scores = np.add.reduceat(np.append(weighted, 0.0), indptr[:-1])
    recall = len(rows.truth & set(result.features.tolist())) / len(rows.truth)
    told = result.history[0]
    return [f"{told['rate']:g}", f"{told['objective']:.4f}", f"{roc_auc_score(y > 0, scores):.3f}", f"{recall:.3f}"]


@main.command()
@click.option("--rows", "count", default=800_000)
@click.option("--width", "widths", multiple=True, default=(2**14, 2**18, 2**22))
@work_option
@click.option("--rounds", default=3)
def workers(count: int, widths: tuple[int, ...], work: Path, rounds: int) -> None:
    """Rows a second of two workers against one, a core for each, and what sharing costs in quality."""
    rows = rows_of(work, count)
    lines = []
    for width in widths:
        algorithm = daskfs.Mission(K, width=width, learning_rate=RATE)
        control = two_processes_against_one()
        seconds, found = _on_workers(rows, algorithm, rounds)
        ratio = f"{seconds[1] / seconds[2]:.2f}"
        speeds = [f"{count / seconds[number] / 1e3:,.0f}k" for number in (1, 2)]
        lines.append([f"{16 * width / 2**20:.1f} MiB", *speeds, ratio, f"{control:.2f}", *found])
    columns = ["sketch", "rows/s, 1", "rows/s, 2", "ratio", "control", "AUC 1, 2", "recall 1, 2"]
    show(f"{count:,} rows, best of {rounds}", columns, lines)


def _on_workers(rows: Rows, algorithm: daskfs.Mission, rounds: int) -> tuple[dict[int, float], list[str]]:
    best, figures = {1: float("inf"), 2: float("inf")}, {}
    with one_and_two_workers() as clients:
        for _ in range(rounds):
            for n, client in clients.items():
                selection = daskfs.select(rows.train, algorithm, client=client)
                best[n] = min(best[n], float(selection.history.seconds.values[0]))
                figures[n] = judged(selection, rows)
    return best, [", ".join(f"{figures[n][which]:.4f}" for n in (1, 2)) for which in (1, 2)]


@main.command()
@click.option("--rows", "counts", multiple=True, default=(50_000, 200_000))
@work_option
def memory(counts: tuple[int, ...], work: Path) -> None:
    """Peak memory above the imports, k = 1000 and about 12 MB of sketch, ids of 63 bits; two classes and fifteen."""
    lines = []
    for n_classes in (2, 15):
        for count in counts:
            data = _worded(work, count, n_classes)
            printed = subprocess.check_output([sys.executable, __file__, "peak", str(data)], text=True).split()
            lines.append([f"{n_classes} classes, {count:,} rows", *printed])
    show("memory, MiB", ["", "promised", "peak above the imports", "the dataset"], lines)


@main.command(hidden=True)
@click.argument("data")
def peak(data: str) -> None:
    """Print what a selection promised, took at most, and how large its data are."""
    dataset = daskfs.open_dataset(data)
    several = len(dataset.classes or ()) > 2
    algorithm = daskfs.Mission(K, loss="softmax" if several else "logistic", width=2**16 if several else 2**20)
    small = partial(daskfs.Mission, 5, loss=algorithm.loss, width=2**4)
    learning(small(), dataset.meta, [dataset.read(0)])()  # type: ignore[list-item]  # kernels are loaded by now
    base = resident()
    forget_peak()
    daskfs.select(dataset, algorithm)
    plan, taken = memory_plan(dataset, algorithm).total, resident("VmHWM") - base
    size = int(dataset.block_sizes("rows").sum())
    click.echo(" ".join(f"{number / 2**20:.0f}" for number in (plan, taken, size)))


def _worded(work: Path, count: int, n_classes: int) -> Path:
    """Rows of a word that says the class and 85 others, of a million, hashed to ids of 63 bits."""
    out = work / f"words_{count}_{n_classes}.zarr"
    if out.exists():
        return out
    rng = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(1_000_000)], object)
    text = work / "words.vw"
    work.mkdir(parents=True, exist_ok=True)
    with text.open("w") as file:
        for _ in range(count):
            label = int(rng.integers(n_classes))
            drawn = (1_000_000 ** rng.random(85)).astype(int) - 1
            file.write(f"{label if n_classes > 2 else 2 * label - 1} |f c{label} {' '.join(words[drawn])}\n")
    daskfs.ingest([str(text)], str(out), format="vw")
    text.unlink()
    console.print(f"wrote {out}")
    return out


if __name__ == "__main__":
    main()
