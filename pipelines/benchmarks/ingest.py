"""Text to rows: the parsers of svmlight (beside scikit-learn's) and VW text, and both cores at work on one large file.

    python pipelines/benchmarks/ingest.py [--rows 60000]

Figures: one core, all checks on, svmlight at least 10x scikit-learn, VW text with names kept at most 45 ns an entry;
two threads close to twice one. A parser of VW text is timed with names that are all new to its set of names, which
begins empty, and with names that are all known to it, as most are in a long file.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import click
import vowpal_wabbit
from _measure import console, interleaved, show, two_processes_against_one
from sklearn.datasets import load_svmlight_file

import daskfs
from daskfs.store.ingest.formats import vw
from daskfs.store.ingest.formats.base import Format
from daskfs.store.ingest.formats.svmlight import Svmlight
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import ENTRIES, RowArrays
from daskfs.store.ingest.sources import SourcePart, find_sources

RECIPES = Path(__file__).parents[2] / "datasets"
SVMLIGHT, VW = Svmlight(labels="numbers"), vw.VowpalWabbit(labels="numbers")
NAMES_BYTES = 32 << 20  # as an ingest has it


def make_text(path: Path, rows: int) -> None:
    """An RCV1-like file: 85 entries a row, Zipf frequencies, ids over 2^30."""
    sys.path.insert(0, str(RECIPES))
    from rcv1_like import Language, write_text
    from rcv1_like import rows as rows_of

    write_text(path, rows_of(rows, 0, Language.invent(seed=0)))


def make_vw_text(path: Path, rows: int) -> None:
    """The same rows as VW text."""
    sys.path.insert(0, str(RECIPES))
    from rcv1_like import TRAIN

    vowpal_wabbit.make_text(path, rows, TRAIN)


def parse(path: Path, format: Format = SVMLIGHT, names: NameCollector | None = None) -> int:
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
        collected=names or NameCollector(NAMES_BYTES if format is VW else 1024),
        bad_lines=BadLines(),
    )
    (source,) = find_sources([str(path)])
    format.read(SourcePart(source), builder, 8 << 20)
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


@contextmanager
def one_stage() -> Iterator[None]:
    """Let the VW parser do without its fast path."""
    usual = vw.new_structure
    vw.new_structure = partial(usual, 0)
    try:
        yield
    finally:
        vw.new_structure = usual


def parse_in_one_stage(path: Path, names: NameCollector | None = None) -> int:
    with one_stage():
        return parse(path, VW, names)


def vw_table(path: Path, rounds: int) -> None:
    entries, size = parse(path, VW), path.stat().st_size
    known = NameCollector(NAMES_BYTES)
    parse(path, VW, known)
    contenders = {
        "new names, fast path off": lambda: parse_in_one_stage(path),
        "new names": lambda: parse(path, VW),
        "known names, fast path off": lambda: parse_in_one_stage(path, known),
        "known names": lambda: parse(path, VW, known),
    }
    best = interleaved(contenders, rounds, time.process_time)
    show(
        f"VW text to CSR and names: {size / 1e6:.0f} MB, {entries:,} entries, one core, CPU time, best of {rounds}",
        ["", "s", "ns/entry", "MB/s"],
        [[name, f"{t:.3f}", f"{t / entries * 1e9:.1f}", f"{size / t / 1e6:.0f}"] for name, t in best.items()],
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
        small_vw = small.with_suffix(".vw")
        make_vw_text(small_vw, rows)
        vw_table(small_vw, rounds)
        make_text(large, rows_large)
        cores_table(large, Path(folder), rounds)


if __name__ == "__main__":
    main()
