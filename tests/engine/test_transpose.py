"""transpose: the same matrix in columns, whatever the blocks and the budget, with all that belongs to it."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import fsspec
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from faults.samples import small_blocks, vw_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from sparse_rows import POOLS, Rows, assert_columns
from stopping import Killed, dying_after, stopped_everywhere
from toy_runs import local_cluster, worker_pids

import daskfs
from daskfs.cli import main
from daskfs.engine.data.reorder import transpose_needs
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import ChunkError, DatasetError, OptionError
from daskfs.observe.describe import describe
from daskfs.protocol import SparseColumnBlock
from daskfs.store.reorder.columns import MergedColumns
from daskfs.store.reorder.plan import WriteTask
from daskfs.store.reorder.runs import Runs


@contextmanager
def budget(workers: int, run_entries: int, task_entries: int):
    """As if memory allowed for runs and tasks of just this size."""
    with pytest.MonkeyPatch.context() as patch:
        plan = ReorderMemory(workers, 16 * run_entries, 16 * task_entries)
        patch.setattr(ReorderMemory, "of", lambda *args, **sizes: plan)
        yield


def owned(block: SparseColumnBlock) -> SparseColumnBlock:
    """A copy: memory of blocks is reused."""
    arrays = [None if array is None else array.copy() for array in (getattr(block, n) for n in block.__slots__)]
    return SparseColumnBlock(*arrays)


def all_blocks(ds: daskfs.Dataset) -> list[SparseColumnBlock]:
    return [owned(block) for block in ds.blocks()]


@given(
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 50),
    pool=st.sampled_from(list(POOLS)),
    ones=st.booleans(),
    source=st.tuples(st.integers(1, 20), st.integers(1, 80)),
    plan=st.tuples(st.integers(1, 2), st.sampled_from([1, 30, 10**6]), st.sampled_from([1, 20, 10**6])),
    block_entries=st.sampled_from([1, 7, 64, 1 << 19]),
    compression=st.sampled_from(["none", "lz4", "zstd"]),
)
@settings(max_examples=60)
def test_columns_are_those_of_scipy(
    tmp_path_factory, seed, n_rows, pool, ones, source, plan, block_entries, compression
):
    folder = tmp_path_factory.mktemp("transpose")
    rows = Rows.random(seed, n_rows, POOLS[pool], ones)
    ds = rows.write(folder / "rows.zarr", *source)
    options = {"block_entries": block_entries, "compression": compression}
    with budget(*plan):
        columns = daskfs.transpose(ds, folder / "columns.zarr", **options)
    blocks = all_blocks(columns)
    ids, matrix = rows.columns()
    assert_columns(blocks, ids, matrix)
    assert [columns.read(number).ids.tolist() for number in range(columns.n_blocks())] == [
        block.ids.tolist() for block in blocks
    ]
    for block, size in zip(blocks, columns.block_sizes(), strict=True):
        np.testing.assert_array_equal(block.y, rows.y)
        assert len(block.rows) <= block_entries or len(block.ids) == 1
        assert block.nbytes == size <= columns.meta.block_nbytes
    assert ("values" in columns.arrays) == ("values" in ds.arrays)
    assert daskfs.verify_dataset(folder / "columns.zarr") == []
    again = daskfs.transpose(ds, folder / "again.zarr", **options)
    assert again.digest == columns.digest, "the content must not depend on the memory it took to make it"


@pytest.fixture
def clicks(tmp_path) -> daskfs.Dataset:
    """Hashed names, string labels, weights and tags, in several blocks and several chunks of names."""
    (tmp_path / "clicks.vw").write_text(vw_lines(40, 3))
    with small_blocks():
        return daskfs.ingest(tmp_path / "clicks.vw", tmp_path / "clicks.zarr", "vw", workers=1)


def joined(parts) -> np.ndarray:
    return np.concatenate([part.copy() for part in parts])


def test_names_labels_and_weights_are_kept(tmp_path, clicks):
    assert clicks.n_blocks() > 2
    columns = daskfs.transpose(tmp_path / "clicks.zarr", tmp_path / "columns.zarr", block_entries=32)
    ids = joined(block.ids for block in columns.blocks())
    assert columns.names(ids) == clicks.names(ids)
    assert "n^f7" in columns.names(ids)
    for name in ("n_features", "n_samples", "n_entries", "classes"):
        assert getattr(columns, name) == getattr(clicks, name)
    assert columns.meta.max_id == clicks.meta.max_id
    block = columns.read(columns.n_blocks() - 1)
    np.testing.assert_array_equal(joined(columns.targets()), joined(clicks.targets()))
    np.testing.assert_array_equal(block.y, joined(clicks.targets()))
    np.testing.assert_array_equal(joined(columns.weights()), joined(clicks.weights()))
    np.testing.assert_array_equal(block.weight, joined(clicks.weights()))
    assert set(block.weight) == {1, 2, 3}


def test_kmers_are_still_decoded_from_their_ids(tmp_path):
    (tmp_path / "x.fa").write_text(">a label=1\nACGTACGG\n>b label=-1\nTTTTTTTT\n")
    source = {"k": (3, 5), "position": True, "label": "header:label=([-+0-9]+)"}
    rows = daskfs.ingest(tmp_path / "x.fa", tmp_path / "rows.zarr", "fasta", **source)
    columns = daskfs.transpose(rows, tmp_path / "columns.zarr")
    ids = columns.read(0).ids
    assert columns.names(ids) == rows.names(ids)
    assert "ACGTA@0" in columns.names(ids)


def test_column_names_are_kept(tmp_path):
    daskfs.write_dataset(tmp_path / "rows.zarr", sp.eye_array(3, format="csr"), [1, 2, 3], ["a", "b", "c"])
    columns = daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "columns.zarr")
    assert columns.names([2, 0]) == ["c", "a"]


def test_empty_columns_and_rows(tmp_path):
    matrix = sp.csr_array(([1.0, 2.0, 3.0], [5, 5, 900], [0, 0, 1, 1, 2, 3, 3]), shape=(6, 1000))
    daskfs.write_dataset(tmp_path / "rows.zarr", matrix, np.arange(6))
    columns = daskfs.transpose(tmp_path / "rows.zarr", tmp_path / "columns.zarr")
    assert (columns.n_features, columns.n_samples) == (1000, 6)
    assert_columns(all_blocks(columns), np.array([5, 900]), sp.csc_array(matrix[:, [5, 900]]))


def test_one_huge_column_among_small_ones(tmp_path):
    n = 3000
    ids = np.stack([np.full(n, 2**62), 2**62 + 1 + np.arange(n)], axis=1).astype(np.uint64).reshape(-1)
    values = np.arange(2 * n, dtype=np.float32)
    rows = Rows(2 * np.arange(n + 1), ids, values, np.arange(n) * 1.0)
    with budget(1, run_entries=700, task_entries=300):
        columns = daskfs.transpose(rows.write(tmp_path / "rows.zarr"), tmp_path / "columns.zarr", block_entries=256)
    assert_columns(all_blocks(columns), *rows.columns())
    assert columns.read(0).ids.tolist() == [2**62]
    assert columns.arrays["rows"].shape[0] > columns.n_blocks()  # it alone takes several chunks
    assert columns.arrays["rows"].chunks == (1, 256)


def test_it_is_a_dataset_like_any_other(tmp_path, clicks):
    columns = daskfs.transpose(clicks, tmp_path / "columns.zarr")
    facts = describe(columns)
    assert (facts["layout"], facts["kind"], facts["weights"], facts["tags"]) == ("columns", "sparse", True, False)
    assert facts["labels"] == describe(clicks)["labels"]
    assert facts["made"] == {"by": "transpose", "source": clicks.digest}
    lazy = columns.to_xarray()
    assert lazy.rows.dims == ("chunk", "entry")
    assert lazy.ids.dims == ("block", "column")
    assert lazy.y.dims == lazy.weight.dims == ("sample",)
    again = pickle.loads(pickle.dumps(columns))
    np.testing.assert_array_equal(again.read(0).rows, columns.read(0).rows)
    with pytest.raises(ValueError, match="read-only"):
        columns.read(0).rows[:] = 0
    with pytest.raises(OptionError, match="cannot be read in rows; read what it was transposed from"):
        columns.read(0, "rows")
    with pytest.raises(OptionError, match="cannot be read in columns; daskfs transpose"):
        clicks.columns([1])


@pytest.mark.parametrize("url", ["memory://transpose/columns.zarr", "s3"])
def test_other_stores_hold_the_same(tmp_path, clicks, request, url):
    s3 = request.getfixturevalue("s3") if url == "s3" else None
    url, options = (s3.url("columns.zarr"), s3.options) if s3 else (url, {})
    with budget(2, run_entries=64, task_entries=100):
        there = daskfs.transpose(clicks, url, block_entries=64, storage_options=options)
    here = daskfs.transpose(clicks, tmp_path / "columns.zarr", block_entries=64)
    assert there.digest == here.digest
    assert daskfs.verify_dataset(url, storage_options=options) == []
    assert_columns(all_blocks(there), joined(block.ids for block in here.blocks()), whole(here))
    fs, path = fsspec.core.url_to_fs(url, **options)
    assert not [key for key in fs.find(path) if "_unfinished" in key]


@given(
    seed=st.integers(0, 2**32),
    pool=st.sampled_from(list(POOLS)),
    source=st.tuples(st.integers(1, 20), st.integers(1, 80)),
    run_entries=st.sampled_from([30, 200, 10**6]),
    task_entries=st.sampled_from([20, 100, 10**6]),
    block_entries=st.sampled_from([7, 64, 1 << 19]),
)
@settings(max_examples=12)
def test_a_cluster_gives_the_same(
    tmp_path_factory, two_workers, seed, pool, source, run_entries, task_entries, block_entries
):
    folder = tmp_path_factory.mktemp("cluster")
    ds = Rows.random(seed, 50, POOLS[pool]).write(folder / "rows.zarr", *source)
    here = daskfs.transpose(ds, folder / "here.zarr", block_entries=block_entries)
    with budget(1, run_entries, task_entries):
        there = daskfs.transpose(ds, folder / "there.zarr", block_entries=block_entries, client=two_workers)
    assert files_of(folder / "there.zarr") == files_of(folder / "here.zarr")
    assert daskfs.verify_dataset(there.url) == []
    assert there.digest == here.digest


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everything_of_a_dataset_goes_along_on_a_cluster(tmp_path, clicks, two_workers):
    here = daskfs.transpose(clicks, tmp_path / "here.zarr", block_entries=64)
    with budget(1, 64, 100):
        daskfs.transpose(clicks, tmp_path / "there.zarr", block_entries=64, client=two_workers)
    assert files_of(tmp_path / "there.zarr") == files_of(tmp_path / "here.zarr")
    assert "weight" in here.arrays


class KillAWorker:
    """A progress callback that kills a worker once a certain share of the work is done."""

    def __init__(self, pid: int, share: float) -> None:
        self._pid, self._share = pid, share
        self.killed_at: float | None = None

    def __call__(self, done: int, total: int) -> None:
        if self.killed_at is None and done >= self._share * total:
            os.kill(self._pid, signal.SIGKILL)  # ProcessLookupError if it is gone already
            self.killed_at = done / total


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.4, 0.6], ids=["first runs", "last runs", "blocks"])
def test_a_killed_worker_changes_nothing(tmp_path, share):
    rows = Rows.random(1, 400, POOLS["hashes"]).write(tmp_path / "rows.zarr", 10, 64)
    wanted = daskfs.transpose(rows, tmp_path / "wanted.zarr", block_entries=64)
    with local_cluster(2) as client:
        kill = KillAWorker(worker_pids(client, 2)[0], share)
        with budget(1, 64, 200):
            found = daskfs.transpose(rows, tmp_path / "columns.zarr", block_entries=64, client=client, progress=kill)
    assert kill.killed_at is not None
    assert share <= kill.killed_at < min(1, share + 0.2), "there was work left in the same phase"
    assert found.digest == wanted.digest
    assert files_of(tmp_path / "columns.zarr") == files_of(tmp_path / "wanted.zarr")


def test_a_damaged_source_is_an_error_on_a_cluster_too(tmp_path, clicks, two_workers):
    chunk = tmp_path / "clicks.zarr/ids/c/1/0"
    chunk.write_bytes(chunk.read_bytes()[:-9] + bytes(9))
    with pytest.raises(ChunkError, match="ids/c/1/0"):
        daskfs.transpose(clicks, tmp_path / "columns.zarr", client=two_workers)
    with pytest.raises(DatasetError, match="incomplete; run the same command again"):
        daskfs.open_dataset(tmp_path / "columns.zarr")


def whole(ds: daskfs.Dataset) -> sp.csc_array:
    parts = [sp.csc_array((b.values, b.rows, b.indptr), shape=(ds.n_samples, len(b.ids))) for b in all_blocks(ds)]
    return sp.hstack(parts, format="csc")


def test_memory_stays_within_the_budget_and_runs_are_used_for_it(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 1 << 14)
    matrix = sp.random_array((20_000, 1_000_000), density=75e-6, rng=rng, format="csr", dtype=np.float32)
    daskfs.write_dataset(tmp_path / "rows.zarr", matrix, np.zeros(20_000))
    ds = daskfs.open_dataset(tmp_path / "rows.zarr")
    daskfs.transpose(ds, tmp_path / "first.zarr")  # compiles
    calls = []
    for owner, name in ((Runs, "write"), (MergedColumns, "read"), (WriteTask, "write")):
        method = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a, method=method: calls.append(method) or method(*a))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    columns = daskfs.transpose(ds, tmp_path / "columns.zarr", memory="80MiB", block_entries=1 << 14)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert columns.n_entries == matrix.nnz
    assert sorted(Counter(calls).values())[0] > 3, "runs, ranges and tasks"
    assert len(Counter(calls)) == 3
    assert peak - before <= 16 << 20, "the budget less the 64 MiB for what is not arrays"


def test_progress_counts_every_entry_twice(tmp_path, clicks):
    seen = []
    with budget(1, 64, 64):
        daskfs.transpose(clicks, tmp_path / "columns.zarr", progress=lambda *now: seen.append(now))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (2 * clicks.n_entries, 2 * clicks.n_entries)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compression": "gzip"}, "compression: 'gzip' is none of"),
        ({"block_entries": 0}, "block_entries: 0"),
        ({"memory": "some"}, "--memory some: not a size"),
        ({"memory": "64MB"}, r"this transpose needs at least 64\.0"),
    ],
)
def test_options_that_cannot_work(tmp_path, clicks, options, reason):
    with pytest.raises(OptionError, match=reason):
        daskfs.transpose(clicks, tmp_path / "columns.zarr", **options)
    assert not (tmp_path / "columns.zarr").exists()


def test_more_entries_need_more_memory_not_more_runs():
    def plan(memory: str, n_entries: int) -> ReorderMemory:
        needs = transpose_needs(10**6, n_entries, largest_block=1 << 19, block_entries=1 << 19)
        return ReorderMemory.of("transpose", memory, 2, **needs)

    with pytest.raises(OptionError, match=r"at least 6\.0"):
        plan("4GB", 10**11)
    assert plan("8GB", 10**11).workers == 1
    assert plan("170MB", 10**6).workers == 1


def test_sources_that_have_no_columns_to_make(tmp_path, clicks):
    daskfs.write_dataset(tmp_path / "dense.zarr", np.eye(3), [1, 2, 3])
    daskfs.write_dataset(tmp_path / "empty.zarr", sp.csr_array((3, 4)), [1, 2, 3])
    daskfs.transpose(clicks, tmp_path / "columns.zarr")
    (tmp_path / "link.zarr").symlink_to(tmp_path / "clicks.zarr")
    for source, target, reason in (
        ("dense.zarr", "x.zarr", "dense; write it with layout='columns'"),
        ("empty.zarr", "x.zarr", "has no entries"),
        ("columns.zarr", "x.zarr", "laid out in columns already"),
        ("clicks.zarr", "link.zarr", "source and target are the same place"),
    ):
        with pytest.raises(OptionError, match=reason):
            daskfs.transpose(tmp_path / source, tmp_path / target, overwrite=True)
    assert not (tmp_path / "x.zarr").exists()


def test_a_damaged_source_is_an_error_and_leaves_nothing_that_opens(tmp_path, clicks):
    chunk = tmp_path / "clicks.zarr/ids/c/1/0"
    kept = chunk.read_bytes()
    chunk.write_bytes(kept[:-9] + bytes(9))
    with pytest.raises(ChunkError, match="ids/c/1/0"):
        daskfs.transpose(clicks, tmp_path / "columns.zarr")
    with pytest.raises(DatasetError, match="incomplete; run the same command again"):
        daskfs.open_dataset(tmp_path / "columns.zarr")
    chunk.write_bytes(kept)
    assert daskfs.transpose(clicks, tmp_path / "columns.zarr").n_entries == clicks.n_entries
    assert daskfs.verify_dataset(tmp_path / "columns.zarr") == []


def test_a_damaged_table_of_names_is_not_copied(tmp_path, clicks):
    chunk = tmp_path / "clicks.zarr/names/name/c/0"
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    with pytest.raises(ChunkError, match="names/name/c/0: the checksum does not match"):
        daskfs.transpose(clicks, tmp_path / "columns.zarr")


def test_an_error_ends_the_threads_that_read_ahead(tmp_path, clicks):
    """The garbage collector would end them too, but may do so in a thread that must not wait for another."""
    gc.disable()
    try:
        with budget(1, 100, 40), pytest.raises(Killed) as _, dying_after(24):
            daskfs.transpose(clicks, tmp_path / "columns.zarr", block_entries=16)
        assert list((tmp_path / "columns.zarr").glob("rows/c/*/0")), "blocks were being written"
        assert not [thread.name for thread in threading.enumerate() if "prefetch" in thread.name]
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_it_may_stop_at_any_operation_and_start_over(tmp_path, clicks, overwrite):
    target, options = tmp_path / "columns.zarr", {"block_entries": 64, "overwrite": overwrite}
    wanted = daskfs.transpose(clicks, tmp_path / "wanted.zarr", block_entries=64).digest
    if overwrite:
        daskfs.write_dataset(target, np.eye(3), [1, 2, 3])

    def run() -> None:
        with budget(1, 100, 100):
            daskfs.transpose(clicks, target, **options)

    stops = stopped_everywhere(run, target, wanted, "dense" if overwrite else None)
    assert stops > 30
    found = daskfs.open_dataset(target)
    assert found.digest == wanted
    members = {path.name for path in target.iterdir()}
    assert members == {"zarr.json", "manifest", "names", *(name for name in found.content if "/" not in name)}


def test_a_killed_process_leaves_no_dataset_and_no_lock(tmp_path):
    rows = Rows.random(1, 400, POOLS["hashes"]).write(tmp_path / "rows.zarr", 10, 64)
    slow = (
        "import time, daskfs.engine.data.reorder as r; from daskfs.cli import main; write = r.Runs.write\n"
        "def slowly(*a): time.sleep(0.05); return write(*a)\n"
        "r.Runs.write = slowly; r.ReorderMemory.of = lambda *a, **k: r.ReorderMemory(1, 16 * 64, 1600); main()"
    )
    command = ["transpose", str(tmp_path / "rows.zarr"), str(tmp_path / "columns.zarr")]
    process = subprocess.Popen([sys.executable, "-c", slow, *command], env={**os.environ, "COLUMNS": "200"})
    deadline = time.monotonic() + 60
    while not list((tmp_path / "columns.zarr").glob("_unfinished/*/run.1.index")):
        assert time.monotonic() < deadline, "no second run after a minute"
        time.sleep(0.01)
    with pytest.raises(DatasetError, match="another process is writing"):
        daskfs.transpose(rows, tmp_path / "columns.zarr")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(DatasetError, match="incomplete"):
        daskfs.open_dataset(tmp_path / "columns.zarr")
    assert daskfs.transpose(rows, tmp_path / "columns.zarr").n_entries == rows.n_entries
    assert not (tmp_path / "columns.zarr/_unfinished").exists()


def test_a_dataset_is_replaced_only_when_asked(tmp_path, clicks):
    daskfs.write_dataset(tmp_path / "columns.zarr", np.eye(3), [1, 2, 3])
    with pytest.raises(DatasetError, match="--overwrite"):
        daskfs.transpose(clicks, tmp_path / "columns.zarr")
    assert daskfs.transpose(clicks, tmp_path / "columns.zarr", overwrite=True).kind == "sparse"
    assert daskfs.verify_dataset(tmp_path / "columns.zarr") == []


def run(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_command_on_a_cluster(tmp_path, clicks, two_workers):
    done = run("transpose", clicks.url, tmp_path / "there.zarr", "--scheduler", two_workers.scheduler.address)
    assert done.exit_code == 0, done.stderr
    keys = two_workers.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    assert "daskfs-sort" in keys
    run("transpose", clicks.url, tmp_path / "here.zarr", "--workers", 1)
    assert files_of(tmp_path / "there.zarr") == files_of(tmp_path / "here.zarr")


def test_the_command(tmp_path, clicks):
    target = tmp_path / "columns.zarr"
    done = run("transpose", clicks.url, target, "--memory", "256MB")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"{target}: sparse, 40 samples x")
    assert json.loads(run("info", target, "--json").stdout)["layout"] == "columns"
    assert "sparse, in columns" in run("info", target).stdout
    assert run("verify", target).exit_code == 0
    again = run("transpose", clicks.url, target)
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)
    assert run("transpose", clicks.url, target, "--overwrite", "--compression", "none").exit_code == 0
    assert daskfs.open_dataset(target).arrays["rows"].codec.compression == "none"
