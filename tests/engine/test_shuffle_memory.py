"""The memory a shuffle may use is decided before it starts, and kept."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from engine.test_memory import megabytes_above_imports

import daskfs
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import OptionError
from daskfs.jit import warm_up
from daskfs.store.reorder.plan import WriteTask
from daskfs.store.reorder.runs import Runs


def sparse(folder: Path, entries: int) -> None:
    """Rows of that many entries, 1.5 million in all."""
    rng, n = np.random.default_rng(0), 1_500_000 // entries
    ids = np.sort(rng.integers(0, 2**20, (n, entries)), axis=1).reshape(-1)
    X = sp.csr_array((rng.normal(size=len(ids)).astype("f4"), ids, entries * np.arange(n + 1)), shape=(n, 2**20))
    daskfs.write_dataset(folder, X, np.arange(n) % 2)


def dense(folder: Path, columns: int) -> None:
    X = np.random.default_rng(0).normal(size=(5_000_000 // columns, columns)).astype("f4")
    daskfs.write_dataset(folder, X, X[:, 0] > 0, layout="rows", chunk_bytes=50_000)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "width"), [(sparse, 1), (sparse, 5), (sparse, 75), (dense, 4), (dense, 100)])
def test_memory_stays_within_the_budget_and_runs_are_used_for_it(tmp_path, monkeypatch, make, width):
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 1 << 13)
    make(tmp_path / "rows.zarr", width)
    warm_up()
    ds = daskfs.open_dataset(tmp_path / "rows.zarr")
    calls = []
    for owner in (Runs, WriteTask):
        write = owner.write
        monkeypatch.setattr(owner, "write", lambda *a, write=write: calls.append(type(a[0])) or write(*a))
    ds.meta  # noqa: B018  # reads what is kept of a dataset
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        mixed = daskfs.shuffle(ds, tmp_path / "mixed.zarr", memory="86MiB", workers=2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert mixed.n_entries == ds.n_entries
    assert calls.count(Runs) > 3
    assert len(calls) - calls.count(Runs) > 3
    assert peak - before <= 22 << 20, "the budget less the 64 MiB for what is not arrays"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_the_process_stays_within_the_budget(tmp_path):
    rng, n = np.random.default_rng(0), 200_000
    ids = np.sort(rng.integers(0, 2**20, (n, 60)), axis=1).reshape(-1)
    X = sp.csr_array((np.ones(len(ids), "f4") / 3, ids, 60 * np.arange(n + 1)), shape=(n, 2**20))
    daskfs.write_dataset(tmp_path / "rows.zarr", X, np.arange(n) // 20_000)
    daskfs.write_dataset(tmp_path / "tiny.zarr", X[:9], np.arange(9))
    megabytes_above_imports("shuffle", tmp_path / "tiny.zarr", tmp_path / "mixed.zarr")  # compiles, once
    command = "shuffle", tmp_path / "rows.zarr", tmp_path / "big.zarr", "--memory", "180MiB", "--workers", "2"
    assert megabytes_above_imports(*command) <= 180


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("memory", ["180MiB", "512MB", "4GB"])
def test_shares_never_exceed_the_whole(workers, memory):
    sizes = {"total": 10**10, "largest_block": 7 << 20, "each": 56 << 20}
    plan = ReorderMemory.of("shuffle", memory, workers, **sizes, run_factor=3)
    assert 1 <= plan.workers <= workers
    assert plan.run_bytes >= 7 << 20
    assert plan.task_bytes >= 7 << 20


def test_more_rows_need_more_memory_not_more_runs():
    sizes = {"total": 10**12, "largest_block": 7 << 20, "each": (56 << 20) + (400 << 21), "run_factor": 3}
    with pytest.raises(OptionError, match=r"at least 3\.6"):
        ReorderMemory.of("shuffle", "2GB", 2, **sizes)
    assert ReorderMemory.of("shuffle", "6GB", 2, **sizes).workers == 1
