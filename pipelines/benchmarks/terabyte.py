"""A terabyte streamed through an algorithm on one machine: memory, the planted features, and time beside a bare read.

    python pipelines/benchmarks/terabyte.py [substitution] [mission] [random-features] [--gigabytes 20] [--pool 0.2]
    python pipelines/benchmarks/terabyte.py --terabytes 1 --pool 8
    python pipelines/benchmarks/terabyte.py --s3 --gigabytes 2

A terabyte of chunk keys lead to a pool of real chunk files, as hard links (see `_repeated.py`), so that all code
between the key and the selected features is the code that users run; every chunk is compared with its checksum. The
chunks come in another order in every sweep over the pool. The features that count are in chunks of their own: two that
are not repeated (Online Substitution), or one block in twenty (MISSION). Sparse Random Features have a function of five
inputs to find in all rows, and `found` is their R²; since all targets are in memory, their stream is 8 GB at most. The
pool stays in the page cache as far as memory goes, for the selection and for the bare read beside it, which makes the
bare read fast and the ratio large.

With `--s3`, every key is an object of its own in a real S3 server on this machine (SeaweedFS), so that nothing is
repeated but the contents, and all the bytes need room on the disk.

*Slope* is the growth of the resident memory of the process in MB for every GB streamed, in each pass after its first
tenth: a step between two passes is no leak. The *bare read* takes the same blocks through the same reader, checksums
included, and does nothing with them; its rate is said beside the ratios. All gigabytes are those of files. Every run is
saved in `--out` when it ends.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import scipy.sparse
from _measure import resident, save_records, show
from _repeated import permuted_sweeps, repeat_columns, repeat_dense_rows, repeat_rows
from numpy.typing import NDArray

import daskfs
from daskfs.protocol import Algorithm
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.ingest.arrays import BLOCK_ENTRIES

NAMES = ("substitution", "mission", "random-features")
SAMPLES = 10_000
K = 20
INPUTS = 20  # of a row of Sparse Random Features, whose targets are all in memory
CHUNK_BYTES = 8_000_000
PART_BYTES = 400_000_000  # of the pool, which are in memory at once
NONZEROS, TRUE_IN_A_ROW = 64, 4  # of a row, and of those that count
NOISE_IDS = 1 << 16  # below them are features without meaning
SIGNAL_EVERY = 20  # of the blocks of rows, one has the features that count
LEFT_ON_DISK = 20e9
MOST_DENSE = 8e9  # of dense rows, with targets of a tenth of that in memory


class Stream(NamedTuple):
    """A large dataset, the ids of the features that count, and the algorithm to find them."""

    dataset: Dataset
    truth: set[int] | None
    """None where a function was planted in place of features."""
    algorithm: Algorithm


def columns(folder: Path, pool_bytes: float, nbytes: float) -> Stream:
    """Columns of noise, and two chunks with columns that the target is made of."""
    rng = np.random.default_rng(0)
    width = CHUNK_BYTES // (4 * SAMPLES)

    def noise(count: int) -> NDArray[np.float32]:
        return rng.standard_normal((count * width, SAMPLES), dtype=np.float32).T

    X = noise(2)
    true = rng.choice(2 * width, K, replace=False)
    y = X[:, true] @ rng.uniform(0.5, 1.5, K) + 0.5 * rng.standard_normal(SAMPLES)
    pool = [daskfs.write_dataset(folder / "signal.zarr", X, y, chunk_bytes=CHUNK_BYTES)]
    n_noise = max(2, round(pool_bytes / CHUNK_BYTES))
    for number, count in enumerate(parts(n_noise, CHUNK_BYTES)):
        pool.append(daskfs.write_dataset(folder / f"{number}.zarr", noise(count), y, chunk_bytes=CHUNK_BYTES))
    order = 2 + permuted_sweeps(n_noise, max(4, round(nbytes / CHUNK_BYTES)), rng)
    places = rng.choice(len(order), 2, replace=False)
    order[places] = 0, 1
    truth = {int(places[j // width] * width + j % width) for j in true}
    return Stream(repeat_columns(pool, folder / "all.zarr", order), truth, daskfs.OnlineSubstitution(K))


def rows(folder: Path, pool_bytes: float, nbytes: float) -> Stream:
    """Rows of features without meaning, and some blocks of rows with features that decide the label."""
    rng = np.random.default_rng(0)
    n_noise = max(2, round(pool_bytes / (12 * BLOCK_ENTRIES)))
    n_signal = max(2, n_noise // SIGNAL_EVERY)
    true = NOISE_IDS + rng.choice(NOISE_IDS, K, replace=False)
    effects = rng.choice([-1.0, 1.0], K) * rng.uniform(2, 4, K)
    pool = []
    for number, count in enumerate([*parts(n_signal, 12 * BLOCK_ENTRIES), *parts(n_noise, 12 * BLOCK_ENTRIES)]):
        n = count * (BLOCK_ENTRIES // NONZEROS)
        ids, values, labels = _noise(n, rng)
        if sum(part.n_blocks() for part in pool) < n_signal:
            picks = np.sort(rng.random((n, K)).argsort(axis=1)[:, :TRUE_IN_A_ROW], axis=1)
            ids[:, -TRUE_IN_A_ROW:], values[:, -TRUE_IN_A_ROW:] = np.sort(true)[picks], 1
            labels = rng.random(n) < 1 / (1 + np.exp(-effects[picks].sum(axis=1)))
        edges = np.arange(0, ids.size + 1, NONZEROS)
        matrix = scipy.sparse.csr_matrix((values.ravel(), ids.ravel(), edges), (n, 2 * NOISE_IDS))
        pool.append(daskfs.write_dataset(folder / f"{number}.zarr", matrix, labels.astype(float)))
    stored = sum(part.stored_bytes for part in pool) / (n_signal + n_noise)
    n_blocks = max(2 * SIGNAL_EVERY, round(nbytes / stored))
    order = n_signal + permuted_sweeps(n_noise, n_blocks, rng)
    places = np.arange(SIGNAL_EVERY // 2, n_blocks, SIGNAL_EVERY)
    order[places] = permuted_sweeps(n_signal, len(places), rng)
    dataset = repeat_rows(pool, folder / "all.zarr", order)
    return Stream(dataset, set(true.tolist()), daskfs.Mission(K, passes=1, learning_rate=0.5))


def dense_rows(folder: Path, pool_bytes: float, nbytes: float) -> Stream:
    """Rows of numbers, of which five make a target that is no straight line: Friedman's first function."""
    rng, nbytes = np.random.default_rng(0), min(nbytes, MOST_DENSE)
    height = CHUNK_BYTES // (4 * INPUTS)
    pool = []
    for number, count in enumerate(parts(max(2, round(pool_bytes / CHUNK_BYTES)), CHUNK_BYTES)):
        X = rng.random((count * height, INPUTS), dtype=np.float32)
        y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
        y += rng.standard_normal(len(y))
        pool.append(daskfs.write_dataset(folder / f"{number}.zarr", X, y, layout="rows", chunk_bytes=CHUNK_BYTES))
    order = permuted_sweeps(sum(part.n_blocks() for part in pool), max(4, round(nbytes / CHUNK_BYTES)), rng)
    dataset = repeat_dense_rows(pool, folder / "all.zarr", order)
    algorithm = daskfs.SparseRandomFeatures(
        gamma=0.5, penalty=1e-4 * dataset.n_samples, rounds=2, per_round=300, screen=False
    )
    return Stream(dataset, None, algorithm)


def parts(count: int, nbytes: int) -> list[int]:
    """Return how many of `count` blocks are in every part of a pool, for memory has room for a part and no more.

    None has a single block, which would be smaller than a block of many.

    >>> parts(7, PART_BYTES // 3)
    [3, 2, 2]
    """
    n_parts = min(-(-count // max(1, PART_BYTES // nbytes)), count // 2)
    return [len(part) for part in np.array_split(np.arange(count), n_parts)]


def _noise(n: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.bool_]]:
    """Return ids, ascending in a row and some far more frequent than others, values and labels of `n` rows."""
    ids = rng.integers(1, 2 * NOISE_IDS // NONZEROS, (n, NONZEROS), dtype=np.int32)  # steps, and then their sums
    np.cumsum(ids, axis=1, out=ids)
    np.minimum(ids, NOISE_IDS - NONZEROS + np.arange(NONZEROS, dtype=np.int32), out=ids)
    return ids, rng.random((n, NONZEROS), dtype=np.float32), rng.random(n) < 0.5


class Pass(NamedTuple):
    """A pass of a run."""

    what: str
    seconds: float
    cpu: float
    slope: float
    """Megabytes of memory for every gigabyte streamed, after the first tenth of the pass."""


class Track:
    """A progress callback that notes the resident memory at every block, and the times of every pass."""

    def __init__(self, stored_bytes: int) -> None:
        self.passes: list[Pass] = []
        self.peak = 0
        self._stored, self._began, self._memory = stored_bytes, self._now(), list[tuple[float, int]]()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def __call__(self, now: Any) -> None:
        self._memory.append((self._stored * now.bytes_done / now.bytes, resident()))
        self.peak = max(self.peak, self._memory[-1][1])
        if now.blocks_done == now.blocks and now.number > len(self.passes):
            ended = self._now()
            times = ended[0] - self._began[0], ended[1] - self._began[1]
            self.passes.append(Pass(f"pass {now.number}", *times, slope(self._memory)))
            self._began, self._memory = ended, []


def slope(memory: list[tuple[float, int]]) -> float:
    """Return the megabytes of memory for every gigabyte streamed, after the first tenth.

    >>> round(slope([(gigabyte * 1e9, 1000 + gigabyte * 3_000_000) for gigabyte in range(20)]), 6)
    3.0
    """
    streamed, sizes = np.array(memory, dtype=float).T
    later = streamed >= 0.1 * streamed[-1]
    if later.sum() < 2:
        return 0.0
    return float(np.polyfit(streamed[later] / 1e9, sizes[later] / 1e6, 1)[0])


class Streamed(NamedTuple):
    """The figures of a run; gigabytes are those of files, as they are stored."""

    algorithm: str
    pool: float
    """Gigabytes of different chunks."""
    gigabytes: float
    """Gigabytes that were streamed in all passes."""
    blocks: int
    found: float
    """The share of the features that count among those selected, or R² where no features were planted."""
    peak: float
    """Megabytes of resident memory above those before the run."""
    bare: float
    """Gigabytes a second of the bare read, by the clock, and for every CPU second."""
    bare_cpu: float
    passes: list[dict[str, Any]]
    """What a pass is, its seconds, the slope of memory, and times the bare read, by the clock and by CPU seconds."""


def bare_read(dataset: Dataset) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of reading and checking all blocks."""
    began = Track._now()
    for _ in dataset.blocks():
        pass
    ended = Track._now()
    return ended[0] - began[0], ended[1] - began[1]


def measure(name: str, stream: Stream, pool_bytes: float) -> Streamed:
    """Select from a stream, between two bare reads of the same blocks."""
    dataset, before = stream.dataset, resident()
    first, track = bare_read(dataset), Track(dataset.stored_bytes)
    selection = daskfs.select(dataset, stream.algorithm, progress=track)
    bare = np.minimum(first, bare_read(dataset))
    if isinstance(stream.algorithm, daskfs.Mission):
        learning = int(stream.algorithm.passes)
        track.passes = [of._replace(what="learning" if n < learning else "refit") for n, of in enumerate(track.passes)]
    passes = [{**of._asdict(), "ratio": of.seconds / bare[0], "cpu_ratio": of.cpu / bare[1]} for of in track.passes]
    gigabytes = dataset.stored_bytes / 1e9
    return Streamed(
        name, pool_bytes / 1e9, gigabytes * len(passes), dataset.n_blocks(), _found(stream, selection),
        (track.peak - before) / 1e6, gigabytes / bare[0], gigabytes / bare[1], passes,
    )  # fmt: skip


def _found(stream: Stream, selection: daskfs.Selection) -> float:
    if stream.truth is None:
        block = stream.dataset.read(0)
        left = block.y - np.asarray(selection.decision_function(block.X)).ravel()
        return float(1 - left.var() / block.y.var())
    return len(stream.truth & set(selection.features.tolist())) / len(stream.truth)


MADE: dict[str, Callable[[Path, float, float], Stream]] = {
    "substitution": columns, "mission": rows, "random-features": dense_rows,
}  # fmt: skip


def run(name: str, work: Path, pool_bytes: float, nbytes: float, on_s3: bool = False) -> Streamed:
    """Write the pool and the links, measure, and delete them; `on_s3` with an object in place of every link."""
    folder = work / f"terabyte-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = pool_bytes + nbytes * on_s3
    if shutil.disk_usage(folder).free < written + LEFT_ON_DISK:
        raise click.ClickException(f"{folder}: {written / 1e9:g} GB would leave less than 20 GB free")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stream = MADE[name](folder, pool_bytes, nbytes)
        if not on_s3:
            return measure(name, stream, pool_bytes)
        dataset = uploaded(stream.dataset, folder / "s3", stack)
        return measure(f"{name}, S3", stream._replace(dataset=dataset), pool_bytes)


def uploaded(dataset: Dataset, folder: Path, stack: ExitStack) -> Dataset:
    """Copy a dataset to an S3 server of its own, which runs until the stack is closed."""
    import s3fs

    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from s3_server import s3_server

    folder.mkdir()
    server = stack.enter_context(s3_server(folder))
    url = server.url("all.zarr")
    s3fs.S3FileSystem(**server.options).put(str(dataset.location.path), url, recursive=True)
    return daskfs.open_dataset(url, storage_options=server.options)


def lines(of: Streamed) -> list[list[str]]:
    """Return a line of the table for every pass, and with the first what is the same in all."""
    run = [f"{of.pool:g}", f"{of.gigabytes:,.1f}", f"{of.blocks:,}", f"{of.found:.2f}", f"{of.peak:.0f}"]
    rates = [f"{of.bare:.2f}", f"{of.bare_cpu:.2f}"]
    return [
        [of.algorithm if not number else "", *(run + rates if not number else [""] * 7), one["what"],
         f"{one['slope']:+.2f}", f"{one['seconds']:.1f}", f"{one['ratio']:.2f}x", f"{one['cpu_ratio']:.2f}x"]
        for number, one in enumerate(of.passes)
    ]  # fmt: skip


@click.command(context_settings={"show_default": True})
@click.argument("which", nargs=-1, type=click.Choice(NAMES))
@click.option("--gigabytes", default=20.0, help="Of chunk keys, read in every pass.")
@click.option("--terabytes", type=float, help="The same in terabytes.")
@click.option("--pool", default=0.2, help="Gigabytes of different chunks.")
@click.option("--s3", "on_s3", is_flag=True, help="Through an S3 server, which needs room for all the bytes.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("benchmark-data"), help="For the pool.")
@click.option("--out", type=click.Path(path_type=Path), help="For the figures: docs/scaling.json.")
def main(
    which: tuple[str, ...], gigabytes: float, terabytes: float | None, pool: float, on_s3: bool, work: Path,
    out: Path | None,
) -> None:  # fmt: skip
    """Print the table."""
    nbytes = 1e12 * terabytes if terabytes else 1e9 * gigabytes
    table = []
    for name in which or NAMES:
        measured = run(name, work, 1e9 * pool, nbytes, on_s3)
        save_records(out, "streams", [measured._asdict()], ("algorithm",))
        table += lines(measured)
    sizes = ["", "pool GB", "streamed GB", "blocks", "found", "peak MB", "bare GB/s", "GB/CPU s"]
    titles = [*sizes, "", "slope MB/GB", "s", "of bare", "of its CPU"]
    show("streamed through an algorithm, beside a bare read", titles, table)


if __name__ == "__main__":
    main()
