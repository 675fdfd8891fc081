"""Labels that come in runs are recognised, and their rows shuffled by default: as sources per class, in any pieces."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from whole_rows import rows_of

import daskfs
from daskfs.engine.data import ingest as engine
from daskfs.store.dataset.label_order import LabelOrder, join_orders
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target


def autocorrelation(labels: list[object]) -> float:
    """The oracle: how much more often neighbours are equal than pairs of rows drawn at random."""
    n = len(labels)
    equal = np.mean([a == b for a, b in pairwise(labels)])
    chance = sum((labels.count(label) / n) ** 2 for label in set(labels))
    return (equal - chance) / (1 - chance)


@pytest.mark.parametrize("seed", range(4))
def test_sums_over_parts_give_the_autocorrelation_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.integers(0, 2, 60), rng.integers(1, 4, 60)).astype(float)
    cuts = np.sort(rng.integers(1, len(y), 5))
    parts = [LabelOrder.of(part) for part in np.split(y, cuts) if len(part)]
    assert join_orders(parts).autocorrelation == pytest.approx(autocorrelation(y.tolist()))
    real = y + rng.normal(size=len(y))
    deviations = real - real.mean()
    expected = 1 - (np.diff(real) ** 2).mean() / 2 / (deviations**2).mean()
    parts = [LabelOrder.of(part) for part in np.split(real, cuts) if len(part)]
    assert join_orders(parts).autocorrelation == pytest.approx(expected)


@pytest.mark.parametrize(
    ("y", "mixed"),
    [
        (np.repeat([0, 1], 100), False),
        (np.tile([0, 1], 100), True),
        (np.random.default_rng(0).integers(0, 5, 300), True),
        (np.repeat(np.random.default_rng(0).integers(0, 5, 100), 3), False),
        (np.sort(np.random.default_rng(0).normal(size=300)), False),
        (np.random.default_rng(0).normal(size=300), True),
        (np.cumsum(np.random.default_rng(0).integers(-2, 3, 300)), False),  # whole numbers that drift
        (np.array(["a", "b"] * 9 + ["c"] * 90), False),
        (np.repeat([0, 1], 8), None),
        (np.ones(100), None),
    ],
)
def test_what_is_mixed(tmp_path, y, mixed):
    assert InMemory(np.eye(len(y)), *encode_target(y), "rows").meta.mixed is mixed
    daskfs.write_dataset(tmp_path / "x.zarr", np.ones((len(y), 1)), y)
    assert daskfs.open_dataset(tmp_path / "x.zarr").meta.mixed is mixed


def write_folders(folder, rows=60):
    """A folder of documents for each class, as newsgroups come."""
    for label in ("atheism", "hockey", "space"):
        (folder / label).mkdir(parents=True)
        for number in range(rows):
            (folder / label / f"{number}.txt").write_text(f"{label} says {number}")


def ingest_folders(tmp_path, name="x.zarr", **options):
    options = {"documents": "files", "label": "folder", **options}
    return daskfs.ingest(tmp_path / "in", tmp_path / name, "text", **options)


def labels_of(dataset):
    codes = np.concatenate([y.copy() for y in dataset.targets()])
    return [dataset.classes[int(code)] for code in codes]


def test_a_folder_for_each_class_is_shuffled_unless_told_otherwise(tmp_path, monkeypatch):
    write_folders(tmp_path / "in")
    kept = ingest_folders(tmp_path, "kept.zarr", order="as-is")
    assert labels_of(kept) == ["atheism"] * 60 + ["hockey"] * 60 + ["space"] * 60
    assert kept.meta.mixed is False
    mixed = ingest_folders(tmp_path)
    assert mixed.meta.mixed is True
    assert abs(autocorrelation(labels_of(mixed))) < 0.3
    assert sorted(rows_of(mixed)) == sorted(rows_of(kept))
    assert mixed.attributes["made"]["autocorrelation"] > 0.95
    assert mixed.digest == daskfs.shuffle(kept, tmp_path / "shuffled.zarr").digest
    assert sorted(path.name for path in (tmp_path / "x.zarr").iterdir() if path.name.startswith("_")) == []
    again = json.loads((tmp_path / "x.zarr/zarr.json").read_text())
    monkeypatch.setattr("daskfs.store.ingest.plan.new_plan", None)  # a second call does nothing
    assert ingest_folders(tmp_path).attributes == again["attributes"]["daskfs"]


def test_pieces_of_one_class_each(tmp_path, monkeypatch):
    """String labels are numbered anew in every piece; across pieces they must still be told apart."""
    monkeypatch.setattr("daskfs.store.ingest.plan.LEAST_PART_BYTES", 64)
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 64)
    write_folders(tmp_path / "in", rows=20)
    for workers in (1, 2):
        got = ingest_folders(tmp_path, f"{workers}.zarr", workers=workers)
        assert got.attributes["made"]["autocorrelation"] == round(1 - 2 / 59 / (2 / 3), 3)
        assert got.meta.mixed is True


@pytest.mark.parametrize("stage", ["before the shuffle", "while the old rows are deleted"])
def test_a_killed_shuffle_is_finished_by_the_next_call(tmp_path, monkeypatch, stage):
    write_folders(tmp_path / "in")
    expected = ingest_folders(tmp_path, "expected.zarr").digest
    with monkeypatch.context() as patch:
        if stage == "before the shuffle":
            patch.setattr(engine, "shuffle_in_place", lambda *_: 1 / 0)
        else:
            patch.setattr("daskfs.store.dataset.writer._delete_members", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ingest_folders(tmp_path)
    with pytest.raises(daskfs.DaskfsError, match="incomplete"):
        daskfs.open_dataset(tmp_path / "x.zarr")
    if stage == "before the shuffle":
        with monkeypatch.context() as patch:
            patch.setattr(engine, "stage_piece", None)  # nothing is parsed again
            assert ingest_folders(tmp_path).digest == expected
    assert ingest_folders(tmp_path).digest == expected


def test_what_is_laid_out_in_columns_stays_and_says_so(tmp_path):
    (tmp_path / "x.csv").write_text("label,a,b\n" + "".join(f"{row // 50},{row},1.5\n" for row in range(100)))
    got = daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="label")
    assert got.meta.mixed is False
    assert np.concatenate(list(got.targets())).tolist() == [0] * 50 + [1] * 50
    rows = daskfs.ingest(tmp_path / "x.csv", tmp_path / "rows.zarr", "csv", label="label", layout="rows")
    assert rows.meta.mixed is True


def test_shuffle_split_and_transpose_carry_the_fact_on(tmp_path):
    write_folders(tmp_path / "in")
    kept = ingest_folders(tmp_path, "kept.zarr", order="as-is")
    mixed = ingest_folders(tmp_path, "mixed.zarr")
    for source, expected in ((kept, False), (mixed, True)):
        train, test = daskfs.split(source, tmp_path / "train.zarr", tmp_path / "test.zarr", overwrite=True)
        columns = daskfs.transpose(source, tmp_path / "columns.zarr", overwrite=True)
        assert [part.meta.mixed for part in (train, test, columns)] == [expected] * 3
    assert daskfs.shuffle(kept, tmp_path / "shuffled.zarr").meta.mixed is True
