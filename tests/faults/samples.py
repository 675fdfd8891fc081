"""Small datasets that have every array the layout knows, in several chunks each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import daskfs
from daskfs.engine.memory import IngestMemory

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 30)).astype(np.float32)
NAMES = [f"gene{i}" for i in range(30)]


@contextmanager
def small_blocks(entries: int = 64, part_bytes: int = 1000, names: int = 16) -> Iterator[None]:
    """Cut sources and rows so small that a few lines fill several pieces, blocks and chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", entries)
        patch.setattr("daskfs.store.ingest.plan.BLOCK_ENTRIES", entries)
        patch.setattr("daskfs.store.ingest.plan.PART_BYTES", part_bytes)
        patch.setattr("daskfs.store.dataset.names.CHUNK", names)
        patch.setattr("daskfs.store.dataset.name_runs.CHUNK", names)
        memory = replace(IngestMemory.of(None, 1), window_bytes=1 << 12, names_bytes=1 << 12)
        patch.setattr(IngestMemory, "of", lambda *_: memory)
        yield


def dense(layout: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        with small_blocks():
            daskfs.write_dataset(folder, X, X[:, 0] > 0, NAMES, layout, chunk_bytes=1000)

    return write


def vw_lines(rows: int, seed: int) -> str:
    """Rows with string labels, importance weights, tags, and names of their own."""
    rng = np.random.default_rng(seed)
    lines = []
    for row in range(rows):
        features = " ".join(f"f{i}:{rng.normal():.3f}" for i in rng.integers(0, 60, 5))
        lines.append(f"{rng.choice(['red', 'blue'])} {rng.integers(1, 4)} 't{seed}.{row}|n {features}")
    return "\n".join(lines) + "\n"


def sparse(folder: Path) -> None:
    sources = folder.with_name("sources")
    sources.mkdir(exist_ok=True)
    for seed in range(2):
        (sources / f"{seed}.vw").write_text(vw_lines(15, seed))
    with small_blocks():
        daskfs.ingest(sources / "*.vw", folder, "vw", workers=1)


def sparse_columns(folder: Path) -> None:
    rows = folder.with_name("rows_of_columns")
    sparse(rows)
    daskfs.transpose(rows, folder, block_entries=64)


DENSE_ARRAYS = ["X", "y", "feature"]
SPARSE_ARRAYS = ["ids", "values", "indptr", "y", "weight", "tag", "block_rows", "block_entries", "block_chunk"]
SPARSE_COLUMNS = ["rows", "values", "indptr", "ids", "y", "weight"]
BLOCK_INDEX = ["block_columns", "block_entries", "block_chunk", "block_first"]
ARRAYS = {
    "columns": DENSE_ARRAYS,
    "rows": DENSE_ARRAYS,
    "both": [*DENSE_ARRAYS, "X_rows"],
    "sparse": [*SPARSE_ARRAYS, "names/first", "names/id", "names/name"],
    "sparse_columns": [*SPARSE_COLUMNS, *BLOCK_INDEX, "names/first", "names/id", "names/name"],
}
"""The arrays of each sample; beside each stands its manifest."""

MAKERS: dict[str, Callable[[Path], None]] = {
    "columns": dense("columns"),
    "rows": dense("rows"),
    "both": dense("both"),
    "sparse": sparse,
    "sparse_columns": sparse_columns,
}
