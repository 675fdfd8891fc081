"""A pass over data in object storage, beside bare obstore reading the same objects: SeaweedFS on this machine.

    python pipelines/benchmarks/object_store.py --gigabytes 2

Figures: `select`'s pass over dense columns (OnlineSubstitution) and over sparse rows (MISSION) reads at 60 % or more of
the rate at which bare obstore reads the same chunk objects with the number of requests in flight that suits it best,
nothing checked and nothing decoded. Server and client share the cores. Rates are of stored bytes. The same pass from
the local disk says how much of it is the algorithm's own work, which no store can make faster.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import obstore
import scipy.sparse as sp
from _measure import console, interleaved, show, two_processes_against_one
from obstore.store import S3Store

import daskfs

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from s3_server import KEY, SECRET, S3Server, s3_server

CHUNK_BYTES = 8_000_000
IN_FLIGHT = (2, 4, 8, 16)
ROWS = 20_000


def write_dense(places: dict[str, Any], size: int) -> None:
    """`size` bytes of columns; a few of them explain the target."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size // 4 // ROWS, ROWS), np.float32).T
    for url, options in places.items():
        daskfs.write_dataset(url, X, X[:, :5].sum(axis=1), chunk_bytes=CHUNK_BYTES, storage_options=options)


def write_sparse(places: dict[str, Any], size: int) -> None:
    """About `size` bytes of rows with 100 entries each, not compressed: 12 bytes an entry."""
    rng = np.random.default_rng(0)
    rows = size // 12 // 100
    ids = np.sort(rng.integers(0, 1 << 22, (rows, 100), np.int32), axis=1)
    values = rng.standard_normal(rows * 100, np.float32)
    X = sp.csr_array((values, ids.reshape(-1), np.arange(0, rows * 100 + 1, 100)), shape=(rows, 1 << 22))
    y = (values.reshape(rows, 100)[:, :10].sum(axis=1) > 0).astype(int)
    for url, options in places.items():
        daskfs.write_dataset(url, X, y, compression="none", storage_options=options)


class Bare:
    """obstore and nothing else."""

    def __init__(self, server: S3Server, url: str) -> None:
        prefix = url.removeprefix(f"s3://{server.bucket}/")
        self._store = S3Store(
            server.bucket,
            prefix=prefix,
            endpoint=server.endpoint,
            access_key_id=KEY,
            secret_access_key=SECRET,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        every = [one for batch in obstore.list(self._store) for one in batch]
        chunks = [one for one in every if "/c/" in one["path"] and not one["path"].startswith("manifest")]
        self._paths = [one["path"] for one in chunks]
        self.nbytes = sum(one["size"] for one in chunks)

    def read(self, in_flight: int) -> None:
        asyncio.run(self._read(in_flight))

    async def _read(self, in_flight: int) -> None:
        free = asyncio.Semaphore(in_flight)

        async def one(path: str) -> None:
            async with free:
                await (await obstore.get_async(self._store, path)).bytes_async()

        await asyncio.gather(*map(one, self._paths))


def measured(server: S3Server, url: str, local: str, algorithm: Any, rounds: int) -> None:
    """One table: bare reads, blocks read and thrown away, and the passes of a selection."""
    bare, ds, near = Bare(server, url), daskfs.open_dataset(url, server.options), daskfs.open_dataset(local)
    passes: dict[str, list[float]] = {"from the store": [], "from the local disk": []}

    def select(dataset: daskfs.Dataset, place: str) -> None:
        passes[place].extend(daskfs.select(dataset, algorithm).history.seconds.values[: algorithm.passes])

    contenders: dict[str, Any] = {f"bare obstore, {n} in flight": lambda n=n: bare.read(n) for n in IN_FLIGHT}
    contenders["blocks, checked and thrown away"] = lambda: [None for _ in ds.blocks()]
    runs = {
        place: (lambda data=data, place=place: select(data, place))
        for place, data in zip(passes, (ds, near), strict=True)
    }
    runs["from the store"]()  # kernels compiled, connections open
    passes["from the store"].clear()
    best = interleaved(contenders | runs, rounds, time.perf_counter)
    fastest = min(seconds for name, seconds in best.items() if name.startswith("bare"))
    best |= {place: min(seconds) for place, seconds in passes.items()}
    rows = []
    for name, seconds in best.items():
        named = f"{type(algorithm).__name__}, a pass {name}" if name in passes else name
        rows.append([named, f"{seconds:.2f}", f"{bare.nbytes / seconds / 1e6:,.0f}", f"{fastest / seconds:.0%}"])
    show(f"{ds!r}"[1:-1], ["", "seconds", "MB/s", "of bare obstore"], rows)


@click.command()
@click.option("--gigabytes", default=2.0, show_default=True)
@click.option("--rounds", default=5, show_default=True)
def main(gigabytes: float, rounds: int) -> None:
    """Write two datasets to a real S3 server and read them back."""
    console.print(f"two processes against one: {two_processes_against_one():.2f} (1.85 on a quiet machine)")
    with tempfile.TemporaryDirectory() as folder, s3_server(Path(folder)) as server:
        size = int(gigabytes * 1e9)
        for write, algorithm in (
            (write_dense, daskfs.OnlineSubstitution(5, passes=2, ridge=0.1)),
            (write_sparse, daskfs.Mission(10, passes=1)),
        ):
            url, local = server.url("data.zarr"), f"{folder}/{write.__name__}.zarr"
            write({url: server.options, local: None}, size)
            measured(server, url, local, algorithm, rounds)


if __name__ == "__main__":
    main()
