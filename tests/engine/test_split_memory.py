"""The memory a split may use is decided before it starts, and kept."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import OptionError
from daskfs.jit import warm_up
from daskfs.store.reorder.plan import WriteTask

pytestmark = pytest.mark.slow


def sparse(folder: Path, entries: int) -> None:
    """Rows of that many entries, 600,000 in all."""
    rng, n = np.random.default_rng(0), 600_000 // entries
    ids = np.sort(rng.integers(0, 2**14, (n, entries)), axis=1).reshape(-1)
    X = sp.csr_array((rng.normal(size=len(ids)).astype("f4"), ids, entries * np.arange(n + 1)), shape=(n, 2**14))
    daskfs.write_dataset(folder, X, np.arange(n) % 2)


def sparse_columns(folder: Path, entries: int) -> None:
    sparse(folder.with_name("source.zarr"), entries)
    daskfs.transpose(folder.with_name("source.zarr"), folder, block_entries=1 << 13)


def dense(layout: str):
    def write(folder: Path, columns: int) -> None:
        X = np.random.default_rng(0).normal(size=(2_000_000 // columns, columns)).astype("f4")
        daskfs.write_dataset(folder, X, X[:, 0] > 0, layout=layout, chunk_bytes=50_000)

    return write


CASES = [(sparse, 5), (sparse, 75), (sparse_columns, 75), (dense("rows"), 4), (dense("columns"), 200)]


@pytest.mark.parametrize(("make", "width"), CASES)
def test_memory_stays_within_the_budget_and_is_used(tmp_path, monkeypatch, make, width):
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 1 << 13)
    make(tmp_path / "all.zarr", width)
    warm_up()
    ds = daskfs.open_dataset(tmp_path / "all.zarr")
    calls = []
    write = WriteTask.write
    monkeypatch.setattr(WriteTask, "write", lambda *a: calls.append(1) or write(*a))
    ds.meta  # noqa: B018  # reads what is kept of a dataset
    daskfs.split  # noqa: B018  # imports it
    tracemalloc.start()
    try:
        train, test = daskfs.split(ds, tmp_path / "a.zarr", tmp_path / "b.zarr", 0.01, memory="72MiB", workers=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert train.n_entries + test.n_entries == ds.n_entries
    assert len(calls) > 5
    # The budget less the 64 MiB for what is not arrays; and a few chunks of labels, 1 MiB each, that a reader keeps.
    assert peak <= 12 << 20


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("memory", ["180MiB", "512MB", "4GB"])
def test_shares_never_exceed_the_whole(workers, memory):
    plan = ReorderMemory.of("split", memory, workers, largest_block=8 << 20, fixed=10 << 20, each=64 << 20)
    assert 1 <= plan.workers <= workers
    assert plan.task_bytes >= 8 << 20


def test_too_little_is_said():
    with pytest.raises(OptionError, match=r"--memory 100MB: this split needs at least 154\.0"):
        ReorderMemory.of("split", "100MB", 2, largest_block=8 << 20, fixed=10 << 20, each=64 << 20)
