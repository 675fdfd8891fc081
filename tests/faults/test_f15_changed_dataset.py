"""F15: a dataset that changes between two passes, or before a resume, is refused."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest
from toy_algorithms import Tangled
from toy_runs import KINDS, Stop, small_dataset, stopping_after, tangled, worker_pids

import daskfs
from daskfs.errors import CheckpointError, DatasetError


@pytest.mark.parametrize("kind", KINDS)
def test_f15_a_dataset_that_was_replaced_is_not_resumed_on(tmp_path, kind):
    with pytest.raises(Stop):
        daskfs.select(
            small_dataset(tmp_path / "d", kind), tangled(kind), checkpoint=tmp_path / "c", progress=stopping_after(30)
        )
    before = (tmp_path / "c" / "checkpoint").read_bytes()
    replace(tmp_path / "d", kind)
    with pytest.raises(CheckpointError) as caught:
        daskfs.select(tmp_path / "d", tangled(kind), checkpoint=tmp_path / "c", resume=True)
    assert "the checkpoint is of another run: the dataset has changed since; start over" in str(caught.value)
    assert (tmp_path / "c" / "checkpoint").read_bytes() == before


@pytest.mark.parametrize("where", ["here", "cluster"])
@pytest.mark.parametrize("kind", KINDS)
def test_f15_a_dataset_that_is_replaced_between_two_passes(tmp_path, kind, where, two_workers):
    dataset = small_dataset(tmp_path / "d", kind)

    def strike(event: object) -> None:
        if event.number == 1 and event.blocks_done == event.blocks:
            replace(tmp_path / "d", kind)

    before = worker_pids(two_workers, 2)
    with pytest.raises(DatasetError, match=r"/d: was replaced by another dataset while it was in use"):
        daskfs.select(dataset, tangled(kind), progress=strike, client=two_workers if where == "cluster" else None)
    assert worker_pids(two_workers, 2) == before  # nobody's worker dies of it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [40, 300])
def test_f15_a_dataset_of_another_shape_is_named_as_such(tmp_path, kind, rows):
    """Not as a chunk that is missing, too long or too short, also if a thread reads ahead while it is replaced."""
    dataset = small_dataset(tmp_path / "d", kind)
    blocks = iter(dataset.blocks())
    next(blocks)
    X = np.random.default_rng(1).normal(size=(rows, 5))
    daskfs.write_dataset(tmp_path / "d", X, X[:, 0], overwrite=True, chunk_bytes=300)
    replaced = r"/d: was (replaced by another dataset|removed, or is being replaced,) while it was in use"
    with pytest.raises(DatasetError, match=replaced):
        list(blocks)


@pytest.mark.parametrize("kind", KINDS)
def test_f15_a_dataset_that_is_removed(tmp_path, kind):
    dataset = small_dataset(tmp_path / "d", kind)
    blocks = iter(dataset.blocks())
    next(blocks)
    shutil.rmtree(tmp_path / "d")
    with pytest.raises(DatasetError, match=r"/d: was removed, or is being replaced, while it was in use"):
        list(blocks)


def test_f15_a_pickle_can_be_loaded_whatever_has_become_of_the_dataset(tmp_path):
    """Dask loads the arguments of tasks where an error costs the worker its connection, and with it its life."""
    pickled = pickle.dumps(small_dataset(tmp_path / "d"))
    replace(tmp_path / "d", "columns")
    replaced = pickle.loads(pickled)
    with pytest.raises(DatasetError, match=r"/d: was replaced by another dataset while it was in use"):
        replaced.read(0)
    shutil.rmtree(tmp_path / "d")
    with pytest.raises(DatasetError, match=r"/d: no dataset here"):
        pickle.loads(pickled).read(0)


def replace(folder, kind):
    """Other cells of the same shape, as a colleague's script would put them there."""
    with pytest.MonkeyPatch.context() as patch:
        write = daskfs.write_dataset
        patch.setattr(daskfs, "write_dataset", lambda *args, **options: write(*args, **options, overwrite=True))
        small_dataset(folder, kind, seed=1)


def test_a_copy_of_the_same_data_is_the_same_dataset(tmp_path):
    small_dataset(tmp_path / "a")
    small_dataset(tmp_path / "b")
    with pytest.raises(Stop):
        daskfs.select(tmp_path / "a", Tangled(), checkpoint=tmp_path / "c", progress=stopping_after(30))
    daskfs.select(tmp_path / "b", Tangled(), checkpoint=tmp_path / "c", resume=True)
