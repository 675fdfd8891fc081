"""Text to rows: the svmlight parser beside scikit-learn's, and both cores at work on one large file.

    python pipelines/benchmarks/ingest.py [--rows 60000]

Figures: one core, all checks on, at least 10x scikit-learn; two threads close to twice one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import click
from _measure import console, interleaved, show, two_processes_against_one
from sklearn.datasets import load_svmlight_file

import daskfs
from daskfs.store.ingest.formats.svmlight import Svmlight
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import ENTRIES, RowArrays
from daskfs.store.ingest.sources import SourcePart, find_sources

RECIPES = Path(__file__).parents[2] / "datasets"


def make_text(path: Path, rows: int) -> None:
    """An RCV1-like file: 85 entries a row, Zipf frequencies, ids over 2^30."""
    sys.path.insert(0, str(RECIPES))
    from rcv1_like import Language, write_text
    from rcv1_like import rows as rows_of

    write_text(path, rows_of(rows, 0, Language.invent(seed=0)))


def parse(path: Path) -> int:
    """Text to CSR blocks in memory, as an ingest does it, and nothing else."""
    entries = 0

    def take(rows: RowArrays) -> None:
        nonlocal entries
        entries += int(rows.progress[ENTRIES])

    builder = RowBuilder(
        take,
        lambda names: None,
        block_rows=8000,
        block_entries=1 << 19,
        collected=NameCollector(1024),
        bad_lines=BadLines(),
    )
    (source,) = find_sources([str(path)])
    Svmlight(labels="numbers").read(SourcePart(source), builder, 8 << 20)
    builder.finish()
    return entries


def parser_table(path: Path, rounds: int) -> None:
    entries, size = parse(path), path.stat().st_size
    contenders = {
        "scikit-learn load_svmlight_file": lambda: load_svmlight_file(str(path), zero_based=True),
        "daskfs parser, all checks on": lambda: parse(path),
    }
    best = interleaved(contenders, rounds, time.process_time)
    base = best["scikit-learn load_svmlight_file"]
    show(
        f"svmlight text to CSR: {size / 1e6:.0f} MB, {entries:,} entries, one core, CPU time, best of {rounds}",
        ["", "s", "ns/entry", "MB/s", "ratio"],
        [
            [name, f"{t:.3f}", f"{t / entries * 1e9:.1f}", f"{size / t / 1e6:.0f}", f"{base / t:.1f}x"]
            for name, t in best.items()
        ],
    )


def cores_table(path: Path, folder: Path, rounds: int) -> None:
    console.print(f"control, two processes against one: {two_processes_against_one():.2f}x (below 1.85: void)")
    outputs = (folder / f"{number}.zarr" for number in count())

    def run(workers: int) -> None:
        daskfs.ingest(path, next(outputs), "svmlight", workers=workers)

    best = interleaved({"1 thread": lambda: run(1), "2 threads": lambda: run(2)}, rounds, time.perf_counter)
    size = path.stat().st_size
    show(
        f"the whole ingest of {size / 1e6:.0f} MB, wall time, best of {rounds}",
        ["", "s", "MB/s of text", "ratio"],
        [[name, f"{t:.2f}", f"{size / t / 1e6:.0f}", f"{best['1 thread'] / t:.2f}x"] for name, t in best.items()],
    )


@click.command()
@click.option("--rows", default=60_000, help="For the parser.")
@click.option("--rows-large", default=300_000, help="For the whole ingest.")
@click.option("--rounds", default=5)
def main(rows: int, rows_large: int, rounds: int) -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.svm", Path(folder) / "large.svm"
        make_text(small, rows)
        parser_table(small, rounds)
        make_text(large, rows_large)
        cores_table(large, Path(folder), rounds)


if __name__ == "__main__":
    main()
