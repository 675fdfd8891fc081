"""A split that is stopped anywhere leaves nothing half-published, and the same command again completes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from sparse_rows import POOLS, Rows
from stopping import Killed, dying_after, killed_at

import daskfs
from daskfs.engine.memory import ReorderMemory
from daskfs.errors import DatasetError

pytestmark = pytest.mark.slow


@pytest.fixture
def sources(tmp_path) -> dict[str, daskfs.Dataset]:
    rows = Rows.random(1, 16, POOLS["small"]).write(tmp_path / "rows.zarr", 6, 64)
    columns = daskfs.transpose(rows, tmp_path / "columns.zarr", block_entries=60)
    daskfs.write_dataset(tmp_path / "dense.zarr", np.eye(20), np.arange(20), layout="both", chunk_bytes=800)
    return {"rows": rows, "columns": columns, "dense": daskfs.open_dataset(tmp_path / "dense.zarr")}


def digest(folder: Path) -> str | None:
    """Of the dataset that opens there, if one does."""
    try:
        return daskfs.open_dataset(folder).digest
    except DatasetError:
        return None


@pytest.mark.parametrize(("kind", "overwrite"), [("rows", False), ("columns", False), ("dense", False), ("rows", True)])
def test_it_may_stop_at_any_operation_and_start_over(tmp_path, sources, kind, overwrite, monkeypatch):
    monkeypatch.setattr(ReorderMemory, "of", lambda *args, **sizes: ReorderMemory(1, 2000, 2000))
    source, places = sources[kind], (tmp_path / "train.zarr", tmp_path / "test.zarr")
    wanted = [part.digest for part in daskfs.split(source, tmp_path / "a.zarr", tmp_path / "b.zarr", seed=1)]
    old: list[str | None] = [None, None]
    if overwrite:
        old = [part.digest for part in daskfs.split(source, *places, seed=2)]
    stops = 0
    while True:
        try:
            with dying_after(stops):
                daskfs.split(source, *places, seed=1, overwrite=overwrite)
        except Killed:
            stops += 1
        else:
            break
        found = [digest(place) for place in places]
        for one, new, before in zip(found, wanted, old, strict=True):
            assert one in (new, before, None)
        if overwrite:
            assert found not in ([wanted[0], old[1]], [old[0], wanted[1]]), "parts of two splits, which may share rows"
        elif found[0] == wanted[0]:
            shutil.rmtree(places[0])  # else it would be found done, and stops counted from there
    assert stops > 25
    for place, new in zip(places, wanted, strict=True):
        done = daskfs.open_dataset(place)
        assert done.digest == new
        assert {path.name for path in place.iterdir()} == {"zarr.json", "manifest", *done.content}
        assert daskfs.verify_dataset(place) == []


@pytest.mark.parametrize("moment", ["train.zarr/ids/c/3", "test.zarr/ids/c/1"])
def test_a_killed_process_leaves_no_half_dataset_and_no_lock(tmp_path, moment):
    rows = Rows.random(1, 400, POOLS["hashes"]).write(tmp_path / "rows.zarr", 10, 64)
    wanted = daskfs.split(rows, tmp_path / "a.zarr", tmp_path / "b.zarr")
    places = tmp_path / "train.zarr", tmp_path / "test.zarr"
    with (
        killed_at(tmp_path, moment, "split", rows.url, *map(str, places)),
        pytest.raises(DatasetError, match="another process is writing"),
    ):
        daskfs.split(rows, *places)
    found = [digest(place) for place in places]
    assert found == ([wanted[0].digest, None] if moment.startswith("test") else [None, None])
    again = daskfs.split(rows, *places)
    for part, twin in zip(again, wanted, strict=True):
        theirs, ours = (
            {p.relative_to(ds.url): p for p in Path(ds.url).rglob("*") if p.is_file()} for ds in (twin, part)
        )
        assert {key: path.read_bytes() for key, path in ours.items()} == {
            key: path.read_bytes() for key, path in theirs.items()
        }
