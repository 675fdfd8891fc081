"""Peak memory: of a 2 GB ingest with ``--memory 512MB``, and of selections beside what their plans promise.

python pipelines/benchmarks/memory.py [--megabytes 2000]
python pipelines/benchmarks/memory.py --selections          # every run in a process of its own; writes docs/memory.md
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp
from _measure import show
from ingest import make_text

import daskfs
from daskfs.job.request import Request, must_transpose
from daskfs.protocol import Algorithm
from daskfs.selection.records import RUN_RECORD, read_record
from daskfs.store.places.location import Location

ENTRY_BYTES, ROW_ENTRIES = 17, 85
PAGE, MARK = Path(__file__).parents[2] / "docs" / "memory.md", "<!-- table: selections -->"
COLUMNS = ["", "promised MiB", "used MiB", "used / promised"]


RNG = np.random.default_rng(0)


def dense(n: int, p: int, classes: int = 2) -> tuple[object, object]:
    """Return a matrix of random numbers, and a target that is a class, or for no classes a number."""
    X = RNG.normal(size=(n, p)).astype(np.float32)
    return X, X[:, 0] + RNG.normal(size=n) if not classes else X[:, :classes].argmax(axis=1)


def sparse(n: int, p: int, density: float) -> tuple[object, object]:
    """Return a sparse matrix, and two classes."""
    X = sp.random_array((n, p), density=density, format="csr", dtype=np.float32, rng=RNG)
    y = X[:, : p // 50].sum(axis=1)
    return X, y > np.median(y)


# The arguments of `dense` or `sparse`, and the algorithm.
SELECTIONS: dict[str, tuple[tuple[float, ...], Algorithm]] = {
    "substitution, 200 x 500": ((200, 500, 0), daskfs.OnlineSubstitution(10)),
    "substitution, 100 x 20,000": ((100, 20_000), daskfs.OnlineSubstitution(50)),
    "substitution, 100,000 x 60": ((100_000, 60, 0), daskfs.OnlineSubstitution(20)),
    "substitution, 4,000 x 400, 10 classes": ((4000, 400, 10), daskfs.OnlineSubstitution(50)),
    "substitution, sparse 20,000 x 5,000": ((20_000, 5000, 0.01), daskfs.OnlineSubstitution(50)),
    "substitution, paper": ((5000, 400), daskfs.OnlineSubstitution(20, method="paper", ridge=0.1)),
    "MISSION, 2,000 x 5,000, width 2^10": ((2000, 5000, 0.01), daskfs.Mission(100, width=2**10)),
    "MISSION, 20,000 x 50,000": ((20_000, 50_000, 0.001), daskfs.Mission(1000)),
    "MISSION, idf and refit=2": ((20_000, 50_000, 0.001), daskfs.Mission(1000, idf=True, refit=2)),
    "MISSION, dense 20,000 x 300": ((20_000, 300), daskfs.Mission(20)),
    "MISSION, 5 classes": ((20_000, 100, 5), daskfs.Mission(20)),
    "MISSION, paper": ((20_000, 50_000, 0.001), daskfs.Mission(1000, method="paper")),
    "random features, 2,000 x 10": ((2000, 10, 0), daskfs.SparseRandomFeatures()),
    "random features, 1,000 x 1,500": ((1000, 1500, 0), daskfs.SparseRandomFeatures(max_features=500)),
    "random features, 4,000 x 20, logistic": ((4000, 20), daskfs.SparseRandomFeatures(loss="logistic")),
    "univariate, 50,000 x 300": ((50_000, 300), daskfs.Univariate(10)),
    "univariate, sparse 20,000 x 50,000": ((20_000, 50_000, 0.001), daskfs.Univariate(10)),
}


def run_selection(name: str, folder: Path) -> None:
    """Print the bytes that a selection promised and used, in a process that has done nothing else."""
    shape, algorithm = SELECTIONS[name]
    X, y = sparse(*shape) if 0 < shape[-1] < 1 else dense(*shape)  # type: ignore[arg-type]
    dataset = daskfs.write_dataset(folder / "x.zarr", X, y, layout=algorithm.axis)
    if must_transpose(dataset, algorithm):
        dataset = daskfs.transpose(dataset, folder / "columns.zarr")
    del X, y
    Request(dataset, algorithm, Location(folder / "run")).run(None, {"command": []})
    record = read_record(Location(folder / "run"), RUN_RECORD)
    assert record is not None
    print("memory", record["memory"]["promised"], record["memory"]["used"])


def promised_and_used(name: str) -> tuple[float, float]:
    """Return the MiB that one of `SELECTIONS` promises and uses, in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True)
    figures = re.search(r"memory (\d+) (\d+)", done.stdout)
    if figures is None:
        raise RuntimeError(f"{name}: {done.stderr[-300:]}")
    return int(figures[1]) / (1 << 20), int(figures[2]) / (1 << 20)


def measure_selections() -> None:
    """Print what every one of `SELECTIONS` promised and used."""
    rows = []
    for name in SELECTIONS:
        promised, used = promised_and_used(name)
        rows.append([name, f"{promised:.0f}", f"{used:.0f}", f"{used / promised:.2f}"])
        print(rows[-1], file=sys.stderr, flush=True)
    show("memory of selections", COLUMNS, rows)
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), rows), "utf-8")


def with_table(page: str, rows: list[list[str]]) -> str:
    """Return a page with the table that follows the line of `MARK` replaced."""
    lines = [["selection", *COLUMNS[1:]], ["---", "--:", "--:", "--:"], *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return re.sub(rf"({MARK}\n\n)(?:\|.*\n)*\n?", lambda found: found[1] + table + "\n", page)


# Asked of the process itself: what its parent is told includes the parent's own memory at the fork.
REPORT = """
import atexit, re, sys
def report():
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
atexit.register(report)
from daskfs.cli import main
"""


def peak_megabytes(*arguments: str) -> tuple[float, float]:
    """Peak resident memory of the command (of its imports alone, without arguments) and wall seconds."""
    start = time.perf_counter()
    code = REPORT + ("main()" if arguments else "")
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1024, time.perf_counter() - start


@click.command()
@click.option("--megabytes", default=2000)
@click.option("--memory", default="512MB")
@click.option("--selections", is_flag=True)
@click.option("--one", type=click.Choice(list(SELECTIONS)))
def main(megabytes: int, memory: str, selections: bool, one: str | None) -> None:
    """Print the table."""
    if one:
        with tempfile.TemporaryDirectory() as folder:
            run_selection(one, Path(folder))
        return
    if selections:
        measure_selections()
        return
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder) / "big.svm", Path(folder) / "big.zarr"
        make_text(text, megabytes * 1_000_000 // (ENTRY_BYTES * ROW_ENTRIES))
        base, _ = peak_megabytes()
        peak, wall = peak_megabytes(
            *("ingest", str(text), str(out), "--format", "svmlight", "--memory", memory, "--overwrite")
        )
        speed = text.stat().st_size / 1e6 / wall
        show(
            f"ingest of {text.stat().st_size / 1e6:.0f} MB of svmlight text with --memory {memory}",
            ["", "peak MiB", "above imports", "wall s", "MB/s"],
            [
                ["imports alone", f"{base:.0f}", "", "", ""],
                ["ingest", f"{peak:.0f}", f"{peak - base:.0f}", f"{wall:.1f}", f"{speed:.0f}"],
            ],
        )


if __name__ == "__main__":
    main()
