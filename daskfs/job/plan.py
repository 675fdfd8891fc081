"""What a request will take, before anything is done: bytes, passes, memory, tasks, requests to stores, time and money.

Datasets and arrays are described by their metadata. Of files, the first and last rows are ingested into a temporary
folder, and sizes are scaled up to the size of all files; such numbers are estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from daskfs.engine.data.ingest import ingest
from daskfs.engine.memory import MemoryPlan
from daskfs.engine.sizes import format_bytes
from daskfs.errors import OptionError
from daskfs.job.timing import START_SECONDS, Work
from daskfs.protocol import Algorithm, Meta
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import CHUNK_BYTES
from daskfs.store.ingest.formats.parquet import open_parquet
from daskfs.store.ingest.formats.tabular import arrow
from daskfs.store.ingest.sources import Source

HEAD_BYTES, TAIL_BYTES = 768 << 10, 256 << 10
SAMPLE_ROWS = 5000
SAMPLE_FILES = 200


@dataclass(frozen=True)
class Sample:
    """Facts about data: of all of them, or of some rows scaled up to all."""

    meta: Meta
    stored_bytes: int
    is_estimate: bool = False

    @classmethod
    def of(cls, dataset: Dataset) -> Sample:
        """Return the facts about a whole dataset."""
        return cls(dataset.meta, dataset.stored_bytes)

    def scaled(self, scale: float) -> Sample:
        """Return the facts about `scale` times as many rows."""
        meta = self.meta
        rows, entries = max(1, round(meta.n_samples * scale)), max(1, round(meta.n_entries * scale))
        nbytes = max(1, round(self.stored_bytes * scale))
        block = min(max(meta.block_nbytes, nbytes), max(CHUNK_BYTES, rows * meta.itemsize))
        return Sample(replace(meta, n_samples=rows, n_entries=entries, block_nbytes=block), nbytes, is_estimate=True)


@contextmanager
def sample_sources(sources: Sequence[Source], options: dict[str, Any]) -> Iterator[Sample]:
    """Ingest some rows of source files into a temporary folder, and yield the facts scaled up to all rows."""
    with TemporaryDirectory(prefix="daskfs-") as folder:
        paths, share = _some_rows(sources, options, Path(folder))
        dataset = ingest(paths, Path(folder) / "sample.zarr", workers=1, order="as-is", **options)
        yield Sample.of(dataset).scaled(1 / share)


def _some_rows(sources: Sequence[Source], options: dict[str, Any], folder: Path) -> tuple[list[str], float]:
    """Return files with some rows of the sources, and their share of all rows, by size."""
    total = sum(source.size for source in sources)
    if options.get("documents") == "files":
        some = sources[:: -(-len(sources) // SAMPLE_FILES)]
        return [source.url for source in some], sum(source.size for source in some) / total
    first = sources[0]
    if options["format"] == "parquet":
        with open_parquet(first) as parquet:
            rows = next(parquet.iter_batches(SAMPLE_ROWS), None)
            if rows is None:
                raise OptionError(f"{first.url}: has no rows")
            arrow("pyarrow.parquet").write_table(arrow().Table.from_batches([rows]), folder / "sample.parquet")
            return [str(folder / "sample.parquet")], len(rows) / parquet.metadata.num_rows * first.size / total
    if options["format"] == "fasta":
        return _some_sequences(sources[:: -(-len(sources) // SAMPLE_FILES)], folder, total)
    with first.open() as file:
        head = file.read(HEAD_BYTES)
        if first.compression:
            packed = min(first.size, len(head) // 3)  # a guess: text is about a third of its size when compressed
            share = packed / total if len(head) == HEAD_BYTES else first.size / total
            text = head
        elif first.size <= HEAD_BYTES + TAIL_BYTES:
            text, share = head + file.read(), first.size / total
        else:
            file.seek(first.size - TAIL_BYTES)
            text = head[: head.rfind(b"\n") + 1] + file.read().partition(b"\n")[2]
            share = len(text) / total
    if len(head) == HEAD_BYTES and first.compression:
        text = text[: text.rfind(b"\n") + 1]
    path = folder / "sample"
    path.write_bytes(text)
    return [str(path)], share


def _some_sequences(sources: Sequence[Source], folder: Path, total: int) -> tuple[list[str], float]:
    """Return files of the same names, which may be labels, with the first records of each; see `_some_rows`."""
    paths, share = [], 0.0
    for number, source in enumerate(sources):
        most = max(HEAD_BYTES // len(sources), 1 << 14)
        with source.open() as file:
            head = file.read(most)
        text = head if len(head) < most or head.count(b"\n>") == 0 else head[: head.rfind(b"\n>") + 1]
        packed = len(text) // 3 if source.compression else len(text)  # a guess, as above
        share += min(1.0 if len(head) < most else packed / source.size, 1.0) * source.size / total
        path = folder / str(number) / f"{source.name}.fasta"
        path.parent.mkdir()
        path.write_bytes(text)
        paths.append(str(path))
    return paths, share


@dataclass(frozen=True)
class Cost:
    """What a request will take.

    Parameters
    ----------
    rows, features
        The size of the data; of sparse files the features of some rows, which are fewer than of all.
    bytes_read, bytes_written
        Bytes to read and write in all, from sources and in the folder of the request.
    passes
        How many times the selection reads the training rows at most.
    memory
        The most memory of a process, beyond the idle process.
    tasks
        The pieces of work that a cluster gets in all passes.
    gets, puts
        Requests to stores.
    is_estimate
        Whether sizes were estimated from some rows.
    work
        What the time of the passes on a cluster depends on.
    extra_work
        A remark on an option that takes much more time than usual.
    """

    rows: int
    features: int
    bytes_read: int
    bytes_written: int
    passes: int
    memory: int
    tasks: int
    gets: int
    puts: int
    is_estimate: bool
    work: Work
    extra_work: str = ""

    @classmethod
    def of(cls, algorithm: Algorithm, sample: Sample, source_bytes: int, test: float, copies: int, ahead: int) -> Cost:
        """Return the cost of a selection.

        Parameters
        ----------
        algorithm
            The algorithm.
        sample
            The facts about the data as a dataset.
        source_bytes
            Bytes of files to ingest; 0 if the data are read as they are.
        test
            The share of rows that are held back.
        copies
            How many times the data are written (ingest, split, transpose).
        ahead
            Blocks that are held ready.
        """
        data, passes = sample.stored_bytes, max(1, algorithm.resolve(sample.meta).max_reads or 1)
        chunks = max(1, -(-data // CHUNK_BYTES))
        pass_chunks = max(1, round(chunks * (1 - test)))
        train = round(data * (1 - test))
        work = Work.of(algorithm, sample.scaled(1 - test).meta, passes, train, pass_chunks)
        read = source_bytes + max(0, copies - bool(source_bytes)) * data + round(data * (passes * (1 - test) + test))
        return cls(
            rows=sample.meta.n_samples,
            features=sample.meta.n_features,
            bytes_read=read,
            bytes_written=copies * data,
            passes=passes,
            memory=MemoryPlan.of(algorithm, sample.meta, work.shards(1), ahead).promised,
            tasks=passes * pass_chunks,
            gets=-(-source_bytes // (64 << 20)) + (max(0, copies - 1) + 1) * chunks + passes * pass_chunks,
            puts=copies * chunks,
            is_estimate=sample.is_estimate,
            work=work,
            extra_work=algorithm.extra_work,
        )

    def seconds(self, workers: float, gigabytes: float) -> float:
        """Return the time on a cluster: that of the passes, and of all other bytes that are read or written."""
        return self.work.seconds(workers, gigabytes) + self.bytes_beside / (workers * gigabytes * 1e9)

    @property
    def bytes_beside(self) -> int:
        """Bytes that are read or written beside the passes: to ingest, to split, to transpose and to evaluate."""
        return self.bytes_read + self.bytes_written - self.work.passes * self.work.bytes

    def money(self, per_1000_gets: float, per_1000_puts: float, per_gigabyte: float) -> float:
        """Return the price of requests and of bytes that leave the store."""
        requests = self.gets / 1000 * per_1000_gets + self.puts / 1000 * per_1000_puts
        return requests + self.bytes_read / 1e9 * per_gigabyte

    def record(self) -> dict[str, Any]:
        """Return all numbers for JSON."""
        return {name: value for name, value in asdict(self).items() if name != "work"}

    def lines(self) -> list[str]:
        """Return the cost in lines for people."""
        about = "about " if self.is_estimate else ""
        return [
            f"size: {about}{self.rows:,} rows, {'at least ' if self.is_estimate else ''}{self.features:,} features",
            f"bytes: {about}{format_bytes(self.bytes_read)} to read, {format_bytes(self.bytes_written)} to write",
            f"passes: {self.passes} over the rows that are not held back, at most",
            f"memory: {about}{format_bytes(self.memory)} in a process",
            f"tasks: {about}{self.tasks:,}",
            f"requests to stores: {about}{self.gets:,} to read, {self.puts:,} to write",
            *([f"work: {self.extra_work}"] if self.extra_work else []),
        ]


def time_line(cost: Cost, workers: float, gigabytes: float) -> str:
    """Return the time on a cluster, with its formula."""
    from dask.utils import format_time  # here: selections do without Dask, and are planned by this module, too

    work, times = cost.work, cost.work.pass_times(workers, gigabytes)
    beside = cost.seconds(workers, gigabytes) - work.seconds(workers, gigabytes)
    total, start, reading, computing, waiting, beside_passes = map(
        format_time, (cost.seconds(workers, gigabytes), START_SECONDS, *times, beside)
    )
    if work.nanoseconds is None:
        computing = "an unknown time"
    return (
        f"time: {total} = {start} to start + {work.passes} passes x (the longer of {reading} to read and {computing} "
        f"to compute, + {waiting} to wait) + {beside_passes} beside them, "
        f"with {workers:g} workers x {gigabytes:g} GB/s; extrapolated"
    )


def money_line(cost: Cost, get: float, put: float, gigabyte: float) -> str:
    """Return the price of the requests and of the bytes that are read, with its formula."""
    requests = f"{cost.gets:,} reads x {get:g} / 1000 + {cost.puts:,} writes x {put:g} / 1000"
    return f"money: {cost.money(get, put, gigabyte):,.4g} = {requests} + {cost.bytes_read / 1e9:,.3g} GB x {gigabyte:g}"
