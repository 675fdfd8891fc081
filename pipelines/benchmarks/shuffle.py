"""A shuffle and a transpose beside a plain copy: every block read, and written again as it is, by as many threads.

    python pipelines/benchmarks/shuffle.py [--rows 300000]

Both move rows twice, once through runs on disk that are not compressed, and sort them in between. To compare two
versions of daskfs, run it with each of them in PYTHONPATH.
"""

from __future__ import annotations

import tempfile
import time
from itertools import count
from pathlib import Path

import click
import numpy as np
from _measure import console, interleaved, show, two_processes_against_one
from ingest import make_text

import daskfs
from daskfs.engine.cluster.pool import Threads, available_cores
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.writer import write_chunk
from daskfs.store.places.location import Location


def copy_chunk(source: ArrayReader, target: Location, number: int) -> None:
    """Read a chunk and write it again: decoded, checked, encoded."""
    write_chunk(target, source.spec, number, source.read(number))


def copy(ds: daskfs.Dataset, out: Path) -> None:
    """All arrays of a dataset, one task a chunk."""
    readers = [ArrayReader(ds.location, spec) for spec in ds.content.values()]
    tasks = [(reader, Location(out), number) for reader in readers for number in range(reader.spec.n_chunks)]
    for _ in Threads(available_cores()).unordered("copy", copy_chunk, tasks):
        pass


def table(ds: daskfs.Dataset, folder: Path, rounds: int, memory: str) -> None:
    outputs = (folder / ds.kind / f"{number}.zarr" for number in count())
    contenders = {
        "copy": lambda: copy(ds, next(outputs)),
        f"shuffle, {memory}": lambda: daskfs.shuffle(ds, next(outputs), memory=memory),
    }
    if ds.kind == "sparse":
        contenders[f"transpose, {memory}"] = lambda: daskfs.transpose(ds, next(outputs), memory=memory)
    for run in contenders.values():
        run()  # compiles
    best = interleaved(contenders, rounds, time.perf_counter)
    work = interleaved(contenders, rounds, time.process_time)
    size = int(ds.block_sizes("rows").sum())
    show(
        f"{ds.kind}, {ds.n_samples:,} rows, {ds.n_entries:,} entries, {size / 1e6:.0f} MB, best of {rounds}",
        ["", "s", "MB/s", "of a copy", "CPU time of a copy"],
        [
            [name, f"{t:.2f}", f"{size / t / 1e6:.0f}", f"{t / best['copy']:.1f}x", f"{work[name] / work['copy']:.1f}x"]
            for name, t in best.items()
        ],
    )


@click.command()
@click.option("--rows", default=300_000)
@click.option("--rounds", default=5)
@click.option("--memory", default="256MB")
def main(rows: int, rounds: int, memory: str) -> None:
    """Print the tables."""
    console.print(f"control, two processes against one: {two_processes_against_one():.2f}x (below 1.85: void)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_text(folder / "rcv1.svm", rows)
        table(daskfs.ingest(folder / "rcv1.svm", folder / "rcv1.zarr", "svmlight"), folder, rounds, memory)
        X = np.random.default_rng(0).normal(size=(rows, 200)).astype(np.float32)
        daskfs.write_dataset(folder / "dense.zarr", X, X[:, 0] > 0, layout="rows")
        table(daskfs.open_dataset(folder / "dense.zarr"), folder, rounds, memory)


if __name__ == "__main__":
    main()
