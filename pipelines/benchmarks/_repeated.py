"""Datasets far larger than the disk: chunk files are hard links to a pool of real chunks, in an order of one's own.

For daskfs these are datasets like all others: every chunk has a key, a file and a line in the manifest, and is read and
checked when its turn comes. Only the disk knows that files are the same. So whoever measures with them must say what is
repeated: the processor's caches do not hold a chunk until it comes again, the system's page cache may hold all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.layout import ArraySpec, Attributes
from daskfs.store.dataset.reader import ArrayReader, read_manifest
from daskfs.store.dataset.writer import DatasetWriter
from daskfs.store.places.location import Location

_MOST_LINKS = 60_000  # of a file, of which ext4 allows 65,000
Order = NDArray[np.int64]
"""Numbers of the pool's blocks, one for each block of the repeated dataset."""


def permuted_sweeps(n_blocks: int, count: int, rng: np.random.Generator) -> Order:
    """Return `count` numbers below `n_blocks`: a permutation of all of them, then another one, and so on."""
    sweeps = [rng.permutation(n_blocks) for _ in range(-(-count // n_blocks))]
    return np.concatenate(sweeps)[:count].astype(np.int64)


def repeat_columns(pool: Dataset, out: Path, order: Order) -> Dataset:
    """Write a dense dataset in columns, whose blocks are those of the pool in this order."""
    X, y = pool.arrays["X"], pool.arrays["y"]
    height, width = X.chunks
    features = width * len(order)
    writer = DatasetWriter(Location(out))
    _link(pool, writer, replace(X, shape=(height, features)), order)
    _link(pool, writer, y, np.arange(y.n_chunks))
    sizes = {"n_features": features, "n_entries": features * height, "max_id": features - 1}
    return _closed(pool, writer, sizes)


def repeat_rows(pool: Dataset, out: Path, order: Order) -> Dataset:
    """Write a sparse dataset in rows, whose blocks are those of the pool in this order."""
    writer = DatasetWriter(Location(out))
    arrays = {name: spec for name, spec in pool.arrays.items() if "/" not in name}
    if not all(spec.n_chunks == pool.n_blocks() for name, spec in arrays.items() if not name.startswith("block_")):
        raise ValueError("a block of the pool has more than one chunk")
    for name, spec in arrays.items():
        if name == "block_chunk":
            _write(writer, spec, np.arange(len(order) + 1))
        elif name.startswith("block_"):
            _write(writer, spec, _cells(pool, spec)[order])
        else:
            _link(pool, writer, replace(spec, shape=(len(order), *spec.shape[1:])), order)
    rows, entries = (int(_cells(pool, arrays[f"block_{name}"])[order].sum()) for name in ("rows", "entries"))
    return _closed(pool, writer, {"n_samples": rows, "n_entries": entries})


def _cells(pool: Dataset, spec: ArraySpec) -> NDArray[Any]:
    return ArrayReader(pool.location, spec).read_all()


def _write(writer: DatasetWriter, spec: ArraySpec, cells: NDArray[Any]) -> None:
    writer.write(replace(spec, shape=cells.shape, chunks=cells.shape), cells)


def _link(pool: Dataset, writer: DatasetWriter, spec: ArraySpec, order: Order) -> None:
    """Add an array whose chunk `i` is chunk `order[i]` of the pool's array."""
    if np.bincount(order).max(initial=0) > _MOST_LINKS:
        raise ValueError(f"more than {_MOST_LINKS:,} links to a file: the pool is too small")
    manifest, of_pool = read_manifest(pool.location, pool.arrays[spec.name]), pool.arrays[spec.name]
    for number, source in enumerate(order.tolist()):
        target = Path(f"{writer.location.path}/{spec.key(number)}")
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(f"{pool.location.path}/{of_pool.key(source)}", target)
    writer.add(spec, _records(manifest, order))


def _records(manifest: NDArray[np.uint64], order: Order) -> Iterable[tuple[int, int, int]]:
    return ((number, int(size), int(crc)) for number, (size, crc) in enumerate(manifest[order].tolist()))


def _closed(pool: Dataset, writer: DatasetWriter, sizes: dict[str, int]) -> Dataset:
    kept: Attributes = {key: value for key, value in pool.attributes.items() if key not in ("digest", "version")}
    writer.close({**kept, **sizes})
    return open_dataset(str(writer.location.path))
