"""Datasets far larger than the disk: chunk files are hard links to a pool of real chunks, in an order of one's own.

For daskfs these are datasets like all others: every chunk has a key, a file and a line in the manifest, and is read and
checked when its turn comes. Only the disk knows that files are the same. So whoever measures with them must say what is
repeated: the processor's caches do not hold a chunk until it comes again, the system's page cache may hold all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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
Pool = Sequence[Dataset]
"""Datasets of one kind, with chunks of one size, whose blocks are counted through."""


def permuted_sweeps(n_blocks: int, count: int, rng: np.random.Generator) -> Order:
    """Return `count` numbers below `n_blocks`: a permutation of all of them, then another one, and so on."""
    sweeps = [rng.permutation(n_blocks) for _ in range(-(-count // n_blocks))]
    return np.concatenate(sweeps)[:count].astype(np.int64)


def repeat_columns(pool: Pool, out: Path, order: Order) -> Dataset:
    """Write a dense dataset in columns, whose blocks are those of the pool in this order; all have the same target."""
    X, y = pool[0].arrays["X"], pool[0].arrays["y"]
    height, width = X.chunks
    features = width * len(order)
    writer = DatasetWriter(Location(out))
    _link(pool, writer, replace(X, shape=(height, features)), order)
    _link(pool[:1], writer, y, np.arange(y.n_chunks))
    sizes = {"n_features": features, "n_entries": features * height, "max_id": features - 1}
    return _closed(pool, writer, sizes)


def repeat_dense_rows(pool: Pool, out: Path, order: Order) -> Dataset:
    """Write a dense dataset in rows, whose blocks are those of the pool in this order; only its target is new."""
    X, y = pool[0].arrays["X"], pool[0].arrays["y"]
    height, width = X.chunks
    if any(part.n_samples % height for part in pool):
        raise ValueError("a part of the pool ends within a block")
    rows = height * len(order)
    targets = np.concatenate([_cells(part, part.arrays["y"]) for part in pool]).reshape(-1, height)
    writer = DatasetWriter(Location(out))
    _link(pool, writer, replace(X, shape=(rows, width)), order)
    _write(writer, y, targets[order].ravel())
    return _closed(pool, writer, {"n_samples": rows, "n_entries": rows * width})


def repeat_rows(pool: Pool, out: Path, order: Order) -> Dataset:
    """Write a sparse dataset in rows, whose blocks are those of the pool in this order."""
    writer = DatasetWriter(Location(out))
    arrays, n_blocks = ({name: spec for name, spec in pool[0].arrays.items() if "/" not in name}, pool[0].n_blocks())
    if not all(spec.n_chunks == n_blocks for name, spec in arrays.items() if not name.startswith("block_")):
        raise ValueError("a block of the pool has more than one chunk")
    for name, spec in arrays.items():
        if name == "block_chunk":
            _write(writer, spec, np.arange(len(order) + 1))
        elif name.startswith("block_"):
            _write(writer, spec, _all_cells(pool, name)[order])
        else:
            _link(pool, writer, replace(spec, shape=(len(order), *spec.shape[1:])), order)
    rows, entries = (int(_all_cells(pool, f"block_{name}")[order].sum()) for name in ("rows", "entries"))
    return _closed(pool, writer, {"n_samples": rows, "n_entries": entries})


def _cells(part: Dataset, spec: ArraySpec) -> NDArray[Any]:
    return ArrayReader(part.location, spec).read_all()


def _all_cells(pool: Pool, name: str) -> NDArray[Any]:
    return np.concatenate([_cells(part, part.arrays[name]) for part in pool])


def _write(writer: DatasetWriter, spec: ArraySpec, cells: NDArray[Any]) -> None:
    writer.write(replace(spec, shape=cells.shape, chunks=cells.shape), cells)


def _link(pool: Pool, writer: DatasetWriter, spec: ArraySpec, order: Order) -> None:
    """Add an array whose chunk `i` is chunk `order[i]` of the pool's arrays of that name."""
    if np.bincount(order).max(initial=0) > _MOST_LINKS:
        raise ValueError(f"more than {_MOST_LINKS:,} links to a file: the pool is too small")
    arrays = [(part.location, part.arrays[spec.name]) for part in pool]
    if any(array.chunks != spec.chunks for _, array in arrays):
        raise ValueError("parts of the pool have chunks of other sizes")
    manifest = np.concatenate([read_manifest(*array) for array in arrays])
    files = [f"{place.path}/{array.key(number)}" for place, array in arrays for number in range(array.n_chunks)]
    for number, source in enumerate(order.tolist()):
        target = Path(f"{writer.location.path}/{spec.key(number)}")
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(files[source], target)
    writer.add(spec, _records(manifest, order))


def _records(manifest: NDArray[np.uint64], order: Order) -> Iterable[tuple[int, int, int]]:
    return ((number, int(size), int(crc)) for number, (size, crc) in enumerate(manifest[order].tolist()))


def _closed(pool: Pool, writer: DatasetWriter, sizes: dict[str, int]) -> Dataset:
    kept: Attributes = {key: value for key, value in pool[0].attributes.items() if key not in ("digest", "version")}
    writer.close({**kept, **sizes})
    return open_dataset(str(writer.location.path))
