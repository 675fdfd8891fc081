"""A terabyte streamed through an algorithm on one machine: memory, the planted features, and time beside a bare read.

    python pipelines/benchmarks/terabyte.py [substitution] [mission] [--gigabytes 20] [--pool 0.2] [--work FOLDER]
    python pipelines/benchmarks/terabyte.py --terabytes 1 --pool 8
    python pipelines/benchmarks/terabyte.py --s3 --gigabytes 2

A terabyte of chunk keys lead to a pool of real chunk files, as hard links (see `_repeated.py`), so that all code
between the key and the selected features is the code that users run; every chunk is compared with its checksum. The
chunks come in another order in every sweep over the pool. The features that count are in chunks of their own: two that
are not repeated (Online Substitution), or one block in twenty (MISSION). The pool stays in the page cache as far as
memory goes, for the selection and for the bare read beside it, which makes the bare read fast and the ratio large.

With `--s3`, every key is an object of its own in a real S3 server on this machine (SeaweedFS), so that nothing is
repeated but the contents, and all the bytes need room on the disk.

*Slope* is the growth of the resident memory of the process in MB for every GB streamed, after the first tenth. The
*bare read* takes the same blocks through the same reader, checksums included, and does nothing with them.
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
from _repeated import permuted_sweeps, repeat_columns, repeat_rows
from numpy.typing import NDArray

import daskfs
from daskfs.protocol import Algorithm
from daskfs.store.dataset.dataset import Dataset

NAMES = ("substitution", "mission")
SAMPLES = 10_000
K = 20
CHUNK_BYTES = 8_000_000
NONZEROS, TRUE_IN_A_ROW = 64, 4  # of a row, and of those that count
NOISE_IDS = 1 << 16  # below them are features without meaning
SIGNAL_EVERY = 20  # of the blocks of rows, one has the features that count
LEFT_ON_DISK = 20e9


class Stream(NamedTuple):
    """A large dataset, the ids of the features that count, and the algorithm to find them."""

    dataset: Dataset
    truth: set[int]
    algorithm: Algorithm


def columns(folder: Path, pool_bytes: float, nbytes: float) -> Stream:
    """Columns of noise, and two chunks with columns that the target is made of."""
    rng = np.random.default_rng(0)
    width = CHUNK_BYTES // (4 * SAMPLES)
    noise = max(2, round(pool_bytes / CHUNK_BYTES))
    shape = SAMPLES, (noise + 2) * width
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, shape, fortran_order=True)  # or it fills memory
    for first in range(0, shape[1], width):
        X[:, first : first + width] = rng.standard_normal((width, SAMPLES), dtype=np.float32).T
    in_pool = noise * width + rng.choice(2 * width, K, replace=False)
    y = X[:, in_pool] @ rng.uniform(0.5, 1.5, K) + 0.5 * rng.standard_normal(SAMPLES)
    pool = daskfs.write_dataset(folder / "pool.zarr", X, y, chunk_bytes=CHUNK_BYTES)
    (folder / "X.npy").unlink()
    order = permuted_sweeps(noise, max(4, round(nbytes / CHUNK_BYTES)), rng)
    places = rng.choice(len(order), 2, replace=False)
    order[places] = noise, noise + 1
    truth = {int(places[j // width - noise] * width + j % width) for j in in_pool}
    dataset = repeat_columns(pool, folder / "all.zarr", order)
    return Stream(dataset, truth, daskfs.OnlineSubstitution(K))


def rows(folder: Path, pool_bytes: float, nbytes: float) -> Stream:
    """Rows of features without meaning, and some blocks of rows with features that decide the label."""
    rng = np.random.default_rng(0)
    n_noise = round(pool_bytes / (12 * NONZEROS))
    n_signal = n_noise // SIGNAL_EVERY
    ids, values, labels = _noise(n_noise + n_signal, rng)
    true = NOISE_IDS + rng.choice(NOISE_IDS, K, replace=False)
    picks = np.sort(rng.random((n_signal, K)).argsort(axis=1)[:, :TRUE_IN_A_ROW], axis=1)
    effects = rng.choice([-1.0, 1.0], K) * rng.uniform(2, 4, K)
    ids[n_noise:, -TRUE_IN_A_ROW:] = np.sort(true)[picks]
    values[n_noise:, -TRUE_IN_A_ROW:] = 1
    labels[n_noise:] = rng.random(n_signal) < 1 / (1 + np.exp(-effects[picks].sum(axis=1)))
    edges = np.arange(0, ids.size + 1, NONZEROS)
    matrix = scipy.sparse.csr_matrix((values.ravel(), ids.ravel(), edges), (len(ids), 2 * NOISE_IDS))
    pool = daskfs.write_dataset(folder / "pool.zarr", matrix, labels.astype(float))
    starts = np.cumsum([0, *(len(pool.read(number).y) for number in range(pool.n_blocks()))])
    n_noise_blocks = int(np.searchsorted(starts, n_noise))  # with a block that has both
    if n_noise_blocks == pool.n_blocks():
        raise click.ClickException("the pool has no block of its own for the features that count: take a larger --pool")
    n_blocks = max(2 * SIGNAL_EVERY, round(nbytes * pool.n_blocks() / pool.stored_bytes))
    order = permuted_sweeps(n_noise_blocks, n_blocks, rng)
    places = np.arange(SIGNAL_EVERY // 2, n_blocks, SIGNAL_EVERY)
    order[places] = n_noise_blocks + permuted_sweeps(pool.n_blocks() - n_noise_blocks, len(places), rng)
    dataset = repeat_rows(pool, folder / "all.zarr", order)
    return Stream(dataset, set(true.tolist()), daskfs.Mission(K, passes=1, learning_rate=0.5))


def _noise(n: int, rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.bool_]]:
    """Return ids, ascending in a row and some far more frequent than others, values and labels of `n` rows."""
    ids = rng.integers(1, 2 * NOISE_IDS // NONZEROS, (n, NONZEROS), dtype=np.int32)  # steps, and then their sums
    np.cumsum(ids, axis=1, out=ids)
    np.minimum(ids, NOISE_IDS - NONZEROS + np.arange(NONZEROS, dtype=np.int32), out=ids)
    return ids, rng.random((n, NONZEROS), dtype=np.float32), rng.random(n) < 0.5


class Track:
    """A progress callback that notes the resident memory at every block, and the time and CPU time of every pass."""

    def __init__(self) -> None:
        self.memory: list[tuple[float, int]] = []
        self.passes: list[tuple[float, float]] = []
        self._began, self._done = self._now(), 0.0

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def __call__(self, now: Any) -> None:
        self.memory.append((self._done + now.bytes_done, resident()))
        if now.blocks_done == now.blocks and now.number > len(self.passes):
            self._done += now.bytes_done
            ended = self._now()
            self.passes.append((ended[0] - self._began[0], ended[1] - self._began[1]))
            self._began = ended

    @property
    def slope(self) -> float:
        """Megabytes of memory for every gigabyte streamed, after the first tenth."""
        streamed, memory = np.array(self.memory, dtype=float).T
        later = streamed >= 0.1 * streamed[-1]
        return float(np.polyfit(streamed[later] / 1e9, memory[later] / 1e6, 1)[0])


class Streamed(NamedTuple):
    """The figures of a run; those of a pass are of the last one."""

    algorithm: str
    pool: float
    """Gigabytes of different chunks."""
    gigabytes: float
    """Gigabytes that were streamed in all passes."""
    blocks: int
    passes: int
    found: float
    """The share of the features that count among those selected."""
    slope: float
    peak: float
    """Megabytes of resident memory above those before the run."""
    seconds: float
    ratio: float
    """Times the bare read, by the clock and by CPU seconds."""
    cpu_ratio: float


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
    first, track = bare_read(dataset), Track()
    selection = daskfs.select(dataset, stream.algorithm, progress=track)
    bare = np.minimum(first, bare_read(dataset))
    seconds, cpu = track.passes[-1]
    found = len(stream.truth & set(selection.features.tolist())) / len(stream.truth)
    nbytes = dataset.stored_bytes * len(track.passes)
    peak = max(memory for _, memory in track.memory) - before
    return Streamed(
        name, pool_bytes / 1e9, nbytes / 1e9, dataset.n_blocks(), len(track.passes), found, track.slope, peak / 1e6,
        seconds, seconds / bare[0], cpu / bare[1],
    )  # fmt: skip


MADE: dict[str, Callable[[Path, float, float], Stream]] = {"substitution": columns, "mission": rows}


def run(name: str, work: Path, pool_bytes: float, nbytes: float, on_s3: bool = False) -> Streamed:
    """Write the pool and the links, measure, and delete them; `on_s3` with an object in place of every link."""
    folder = work / f"terabyte-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = 2 * pool_bytes + nbytes * on_s3
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


def row(of: Streamed) -> list[str]:
    size = [f"{of.pool:g}", f"{of.gigabytes:,.1f}", f"{of.blocks:,}", str(of.passes)]
    memory = [f"{of.found:.0%}", f"{of.slope:+.2f}", f"{of.peak:.0f}"]
    return [of.algorithm, *size, *memory, f"{of.seconds:.1f}", f"{of.ratio:.2f}x", f"{of.cpu_ratio:.2f}x"]


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
    found = [run(name, work, 1e9 * pool, nbytes, on_s3) for name in which or NAMES]
    sizes = ["", "pool GB", "streamed GB", "blocks", "passes"]
    titles = [*sizes, "found", "slope MB/GB", "peak MB", "pass s", "of bare", "of its CPU"]
    show("streamed through an algorithm, beside a bare read", titles, [row(of) for of in found])
    save_records(out, "streams", [of._asdict() for of in found], ("algorithm",))


if __name__ == "__main__":
    main()
