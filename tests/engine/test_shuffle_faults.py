"""A shuffle that is stopped anywhere leaves nothing half-published, and the same command again completes it."""

from __future__ import annotations

import numpy as np
import pytest
from sparse_rows import POOLS, Rows
from stopping import Killed, dying_after, killed_at, stopped_everywhere

import daskfs
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import DatasetError

SMALL = ReorderMemory(1, run_bytes=4000, task_bytes=4000)


@pytest.fixture
def rows(tmp_path) -> daskfs.Dataset:
    return Rows.random(1, 60, POOLS["hashes"]).write(tmp_path / "rows.zarr", 10, 64)


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_it_may_stop_at_any_operation_and_start_over(tmp_path, rows, overwrite, monkeypatch):
    monkeypatch.setattr(ReorderMemory, "of", lambda *args, **sizes: SMALL)
    target = tmp_path / "mixed.zarr"
    wanted = daskfs.shuffle(rows, tmp_path / "wanted.zarr").digest
    if overwrite:
        daskfs.write_dataset(target, np.eye(3), [1, 2, 3])

    def run() -> None:
        daskfs.shuffle(rows, target, overwrite=overwrite)

    stops = stopped_everywhere(run, target, wanted, "dense" if overwrite else None)
    assert stops > 30
    done = daskfs.open_dataset(target)
    assert done.digest == wanted
    assert {path.name for path in target.iterdir()} == {"zarr.json", "manifest", *done.content}
    assert daskfs.verify_dataset(target) == []


def test_a_killed_process_leaves_no_dataset_and_no_lock(tmp_path):
    rows = Rows.random(1, 400, POOLS["hashes"]).write(tmp_path / "rows.zarr", 10, 64)
    target = tmp_path / "mixed.zarr"
    with (
        killed_at(target, "_unfinished/*/run.1.index", "shuffle", rows.url, str(target)),
        pytest.raises(DatasetError, match="another process is writing"),
    ):
        daskfs.shuffle(rows, target)
    with pytest.raises(DatasetError, match="incomplete"):
        daskfs.open_dataset(target)
    assert daskfs.shuffle(rows, target).n_entries == rows.n_entries
    assert not (target / "_unfinished").exists()


OPERATIONS = [pytest.param(number, marks=[pytest.mark.slow] if number % 16 else []) for number in range(0, 89, 4)]


@pytest.mark.parametrize("stop_after", OPERATIONS)  # of 89
def test_an_ingest_in_random_order_may_stop_anywhere(tmp_path, stop_after):
    (tmp_path / "x.svm").write_text("".join(f"{row // 20} {row + 1}:1 {row + 50}:{row}\n" for row in range(40)))
    ingest = {"format": "svmlight", "shuffle": 3, "workers": 1}
    with pytest.raises(Killed), dying_after(stop_after):
        daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", **ingest)
    done = daskfs.ingest(tmp_path / "x.svm", tmp_path / "x.zarr", **ingest)
    daskfs.ingest(tmp_path / "x.svm", tmp_path / "plain.zarr", "svmlight", order="as-is")
    assert done.digest == daskfs.shuffle(tmp_path / "plain.zarr", tmp_path / "wanted.zarr", 3).digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.zarr", "wanted.zarr", "x.svm", "x.zarr"]
    assert not (tmp_path / "x.zarr/_unfinished").exists()
