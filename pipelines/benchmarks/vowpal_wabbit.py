"""Learning from text, beside Vowpal Wabbit: the same file, about the same memory, CPU time and wall time, test AUC.

    python pipelines/benchmarks/vowpal_wabbit.py [--rows 120000] [--json docs/mission-speed.json]

The file is VW text of RCV1-like rows (`datasets/rcv1_like.py`): 85 features a row, ``|f 12345:0.31 …``, names below
2^30 of 1,000,000 words, two classes, logistic loss. Everybody goes over it once, but where passes are named:

* VW from text: ``--hash all`` (names are hashed as strings, as daskfs does it), adaptive, normalised and invariant
  updates as is its default: 2^18 weights of four floats, 4 MiB. It parses, hashes and learns as it reads, and leaves
  nothing behind but weights: no names, no rows.
* VW from text, ``--sgd``: plain steps, 2^20 weights of one float, 4 MiB.
* VW from text, constant rate: the same with ``-l 1 --power_t 0``; of 1, 2, 4 and 10 the best over ten passes.
* VW from its cache: the same three, names hashed already; writing the cache is not counted.
* VW from its cache, constant rate, 10 passes: whether more passes make up for what one does not learn.
* daskfs from text: `ingest` with one worker, then `select` of 1,000 features with `Mission(1000)`: cells of 4 MiB and a
  table of the largest. `ingest` writes a dataset on the way: rows sorted, compressed and checksummed, every name,
  labels, line numbers of errors; it can be verified, resumed and learned from again.
* daskfs, `ingest` alone: that part of it.
* daskfs straight from text: `select` of the path, which learns while it parses and writes nothing; with names.
* daskfs from Zarr: that `select` alone, with the names of what was selected.
* One pass: `refit=0`, as VW goes over the rows once. With a refit, as is the default: the rows are read a second time,
  and the selected features are fitted.

VW runs as its own driver, in this process; CPU time is that of all threads, VW's parser and the reading ahead of
daskfs among them. Kernels are compiled before. AUC is on rows nobody has learned from, by a run that is not timed.

More passes do not bring VW to the same AUC: at a constant rate it has .933 after ten passes, the most that was found in
up to twenty passes at rates 1 to 10, chosen by the very rows that judge.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from _measure import console, save, show
from sklearn.metrics import roc_auc_score

import daskfs

try:
    from vowpalwabbit import Workspace
except ImportError:
    Workspace = None

RECIPES = Path(__file__).parents[2] / "datasets"
MISSION = daskfs.Mission(1000, width=2**18)
ONE_PASS = daskfs.Mission(1000, width=2**18, refit=0)
VW = "--hash all --loss_function logistic --quiet --no_stdin"
UPDATES = {"": "-b 18", ", --sgd": "-b 20 --sgd", ", constant rate": "-b 20 --sgd -l 1 --power_t 0"}
MANY_PASSES = 10
BASES = {
    "straight from text": ["VW from text"],
    "from text": ["VW from text"],
    "from Zarr": ["VW from its cache", "VW from its cache, --sgd"],
}
"""What daskfs is compared with, by where it reads."""
Contender = tuple[Callable[[], object], Callable[[], float | None]]


class Files(NamedTuple):
    """What is learned from, and what is judged by; `cache` is VW's, `rows` and `rows_test` are datasets."""

    text: Path
    cache: Path
    rows: Path
    test: Path
    rows_test: Path
    folder: Path


def make_text(path: Path, rows: int, part: int) -> None:
    """VW text of RCV1-like rows."""
    from rcv1_like import Language, svmlight_text
    from rcv1_like import rows as rows_of

    with path.open("wb") as file:
        for X, y in rows_of(rows, 0, Language.invent(seed=0), part):
            lines = svmlight_text(X, y).splitlines(keepends=True)
            file.writelines(line.replace(b" ", b" |f ", 1) for line in lines)


def make_files(folder: Path, rows: int) -> Files:
    """Everything that stands there before the clock starts."""
    sys.path.insert(0, str(RECIPES))
    from rcv1_like import TEST, TRAIN

    names = ("train.vw", "train.cache", "train.zarr", "test.vw", "test.zarr")
    files = Files(*(folder / name for name in names), folder)
    make_text(files.text, rows, TRAIN)
    make_text(files.test, max(rows // 5, 1000), TEST)
    daskfs.ingest(files.text, files.rows, "vw")
    daskfs.ingest(files.test, files.rows_test, "vw")
    if Workspace is not None:
        vw(f"-d {files.text} --cache_file {files.cache} -k -b 18")
    return files


def vw(arguments: str) -> None:
    """Run VW's driver from end to end."""
    Workspace(f"{VW} {arguments}").finish()


def vw_auc(files: Files, learn: str) -> float:
    """How well VW tells the classes of the test rows apart after it has learned with these arguments."""
    model, scores = files.folder / "vw.model", files.folder / "vw.scores"
    vw(f"{learn} -f {model}")
    vw(f"-d {files.test} -t -i {model} -p {scores}")
    return float(roc_auc_score(held_out_labels(files), np.loadtxt(scores)))


def daskfs_auc(files: Files, algorithm: daskfs.Mission) -> float:
    """The same of the features MISSION has selected."""
    selection = daskfs.select(files.rows, algorithm)
    return float(
        roc_auc_score(held_out_labels(files), selection.decision_function(daskfs.open_dataset(files.rows_test)))
    )


def held_out_labels(files: Files) -> np.ndarray:
    return np.concatenate([y.copy() for y in daskfs.open_dataset(files.rows_test).targets()])


def vw_with(files: Files, learn: str) -> Contender:
    return lambda: vw(learn), lambda: vw_auc(files, learn)


def contenders(files: Files) -> dict[str, Contender]:
    """What to time, and how to get the AUC of it, by name."""
    found: dict[str, Contender] = {}
    if Workspace is not None:
        for source, given in {"text": "", "its cache": f" --cache_file {files.cache}"}.items():
            for name, update in UPDATES.items():
                learn = f"-d {files.text}{given} {update}"
                found[f"VW from {source}{name}"] = vw_with(files, learn)
        passes = f"--passes {MANY_PASSES} --holdout_off {UPDATES[', constant rate']}"
        found[f"VW from its cache, constant rate, {MANY_PASSES} passes"] = vw_with(
            files, f"-d {files.text} --cache_file {files.cache} {passes}"
        )
    outputs = (files.folder / f"{number}.zarr" for number in count())

    def ingest() -> daskfs.Dataset:
        return daskfs.ingest(files.text, next(outputs), "vw", workers=1)

    def from_text(algorithm: daskfs.Mission) -> daskfs.Selection:
        return daskfs.select(ingest(), algorithm)

    found["daskfs, ingest of the text alone"] = ingest, lambda: None
    for name, algorithm in {", one pass": ONE_PASS, ", with a refit": MISSION}.items():
        auc = cache(partial(daskfs_auc, files, algorithm))
        found[f"daskfs from text{name}"] = partial(from_text, algorithm), auc
        found[f"daskfs straight from text{name}"] = partial(daskfs.select, files.text, algorithm), auc
        found[f"daskfs from Zarr{name}"] = partial(daskfs.select, files.rows, algorithm), auc
    return found


def timed(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, tuple[float, float]]:
    """The best CPU time and the best wall time of each, in rounds in which each runs once."""
    best = dict.fromkeys(runs, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, run in runs.items():
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            took = time.process_time() - cpu, time.perf_counter() - wall
            best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    return best


def learning_table(files: Files, rounds: int) -> dict[str, object]:
    """Print the table, and return its figures."""
    entrants = contenders(files)
    aucs = {name: auc() for name, (_, auc) in entrants.items()}  # also loads all that is to be loaded
    best = timed({name: run for name, (run, _) in entrants.items()}, rounds)
    entries, size = daskfs.open_dataset(files.rows).n_entries, files.text.stat().st_size
    ratios = {name: ratios_of(name, best) for name in best}
    show(
        f"learning from {size / 1e6:.0f} MB of VW text, {entries:,} entries, best of {rounds}",
        ["", "CPU s", "ns/entry", "wall s", "times as fast as VW", "test AUC"],
        [
            [
                name,
                f"{cpu:.2f}",
                f"{cpu / entries * 1e9:.0f}",
                f"{wall:.2f}",
                ", ".join(f"{ratio:.2f}x {base.removeprefix('VW ')}" for base, ratio in ratios[name].items()),
                "" if aucs[name] is None else f"{aucs[name]:.4f}",
            ]
            for name, (cpu, wall) in best.items()
        ],
    )
    runs = {
        name: {"cpu": round(cpu, 3), "wall": round(wall, 3), "auc": aucs[name], "times_as_fast_as": ratios[name]}
        for name, (cpu, wall) in best.items()
    }
    return {"text_bytes": size, "entries": entries, "rounds": rounds, "runs": runs}


def ratios_of(name: str, best: dict[str, tuple[float, float]]) -> dict[str, float]:
    """How many times as fast as VW a run of daskfs is, by what VW reads and how it learns."""
    bases = next((bases for source, bases in BASES.items() if name.startswith(f"daskfs {source}")), [])
    return {base: round(best[base][0] / best[name][0], 3) for base in bases if base in best}


@click.command()
@click.option("--rows", default=[120_000], multiple=True)
@click.option("--rounds", default=5)
@click.option("--json", "path", type=click.Path(path_type=Path), help="The file to which figures are added.")
def main(rows: tuple[int, ...], rounds: int, path: Path | None) -> None:
    """Print a table for each number of rows."""
    if Workspace is None:
        console.print("vowpalwabbit is not installed (pip install vowpalwabbit): daskfs runs alone")
    for number in rows:
        with tempfile.TemporaryDirectory() as folder:
            figures = learning_table(make_files(Path(folder), number), rounds)
        save(path, f"vowpal_wabbit.py --rows {number}", figures)


if __name__ == "__main__":
    main()
