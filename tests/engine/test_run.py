"""select: what it accepts, whom it asks to work, and what it says when it cannot."""

from __future__ import annotations

import pickle

import pytest
from distributed import Client
from toy_algorithms import LargestColumns, Tangled
from toy_runs import check_same, small_dataset

import daskfs
from daskfs.engine.memory import MemoryPlan
from daskfs.engine.run import memory_plan, n_shards_for, schedule_for
from daskfs.errors import ColumnError, DatasetError, OptionError


def test_a_path_will_do(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    expected = daskfs.select(dataset, Tangled())
    check_same(daskfs.select(tmp_path / "d", Tangled()), expected)
    check_same(daskfs.select(str(tmp_path / "d"), Tangled()), expected)


def test_a_selection_knows_where_it_comes_from(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    given = daskfs.select(dataset, LargestColumns(4), seed=9)
    assert given.names == dataset.names(given.features)
    assert given.algorithm == {"name": "LargestColumns", "n_select": 4, "passes": 1}
    assert (given.source["url"], given.source["digest"]) == (dataset.url, dataset.digest)
    assert (given.source["n_samples"], given.source["n_features"]) == (60, 40)
    assert given.seed == 9


@pytest.mark.parametrize("what", ["mission", None, Tangled, object()], ids=["name", "nothing", "class", "object"])
def test_what_is_no_algorithm_is_said(tmp_path, what):
    with pytest.raises(OptionError, match="is no algorithm"):
        daskfs.select(small_dataset(tmp_path / "d"), what)


def test_a_dataset_laid_out_the_other_way_is_said(tmp_path):
    with pytest.raises(OptionError, match="cannot be read in rows"):
        daskfs.select(small_dataset(tmp_path / "d", "columns"), Tangled(axis="rows"))


class Picky(Tangled):
    """Does not like a column."""

    def update(self, state, block):
        if 13 in block.ids:
            raise ColumnError(13, "it is constant; drop it")
        return super().update(state, block)


@pytest.mark.parametrize("where", ["here", "cluster"])
def test_a_column_an_algorithm_cannot_use_is_named(tmp_path, where, two_workers):
    small_dataset(tmp_path / "d")
    names = [f"gene{number}" for number in range(40)]
    X = daskfs.open_dataset(tmp_path / "d").to_xarray().X.values
    daskfs.write_dataset(tmp_path / "n", X, X[:, 0], names, chunk_bytes=1440)
    with pytest.raises(DatasetError) as caught:
        daskfs.select(tmp_path / "n", Picky(), client=two_workers if where == "cluster" else None)
    assert str(caught.value) == f"{tmp_path}/n: column 'gene13' (number 13): it is constant; drop it"


def test_a_column_error_survives_a_pickle():
    error = pickle.loads(pickle.dumps(ColumnError(7, "odd")))
    assert (error.feature, error.reason, str(error)) == (7, "odd", "column 7: odd")


@pytest.mark.parametrize(
    ("schedule", "synchronous", "runs", "n_shards"),
    [
        ("serial", False, "serial", 1),
        ("synchronous", False, "synchronous", 2),
        ("asynchronous", False, "asynchronous", 1),
        ("asynchronous", True, "synchronous", 2),
    ],
)
def test_schedule_and_shards(tmp_path, two_workers, schedule, synchronous, runs, n_shards):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(schedule=schedule)
    assert schedule_for(algorithm, two_workers, synchronous) == runs
    assert n_shards_for(dataset, algorithm, two_workers, synchronous) == n_shards
    assert schedule_for(algorithm, None, synchronous) == "serial"
    assert n_shards_for(dataset, algorithm, None, synchronous) == 1


def test_no_more_lanes_than_blocks(tmp_path, two_workers):
    daskfs.write_dataset(tmp_path / "d", [[1.0, 2.0], [3.0, 4.0]], [0, 1])
    dataset = daskfs.open_dataset(tmp_path / "d")
    assert n_shards_for(dataset, Tangled(), two_workers, False) == 1
    check_same(daskfs.select(dataset, Tangled(1), client=two_workers), daskfs.select(dataset, Tangled(1)))


def test_the_current_client_is_used(tmp_path, two_workers):
    dataset = small_dataset(tmp_path / "d")
    expected = daskfs.select(dataset, Tangled(), client=two_workers)
    with Client(two_workers.scheduler.address):
        check_same(daskfs.select(dataset, Tangled()), expected)
    with pytest.raises(AssertionError):  # two lanes are not one
        check_same(daskfs.select(dataset, Tangled()), expected)


def test_select_inside_a_task_stays_there(tmp_path, two_workers):
    dataset = small_dataset(tmp_path / "d")
    given = two_workers.submit(daskfs.select, dataset, Tangled(), pure=False).result(timeout=200)
    check_same(given, daskfs.select(dataset, Tangled()))


def test_memory_plan_in_words(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    plan = memory_plan(dataset, LargestColumns(3))
    assert (plan.state, plan.blocks, plan.total) == (320, 3 * 1440, 320 + 3 * 1440)
    assert str(plan) == "state 320 B + blocks 4.22 kiB + process 48.00 MiB = 48.00 MiB"
    assert str(MemoryPlan.of(LargestColumns(3), dataset.meta, n_shards=2, n_workers=2)).startswith(
        "state 4 x 320 B + blocks"
    )


@pytest.mark.parametrize(
    ("n_shards", "n_workers", "states"),
    [
        (1, 1, 3),
        (2, 2, 4),
        (4, 4, 6),
        (5, 5, 6),
        (100, 100, 6),
        (4, 1, 9),
        (4, 3, 7),
        (4, 9, 6),
        (1, None, 1),
        (4, None, 6),
    ],
)
def test_states_a_process_holds(tmp_path, n_shards, n_workers, states):
    """A worker may have several shards, and this process has all of them."""
    meta = small_dataset(tmp_path / "d").meta
    assert MemoryPlan.of(LargestColumns(3), meta, n_shards, n_workers=n_workers).states == states


class Huge(Tangled):
    """Promises to need more than there is, and must never be started."""

    def nbytes(self, meta):
        return 1 << 60

    def start(self, meta, seed):
        raise AssertionError("started")


@pytest.mark.parametrize(
    ("where", "said"), [("here", "this machine has"), ("cluster", r"each thread of worker tcp://\S+ has")]
)
def test_f10_too_much_memory_is_said_with_the_plan_before_anything_starts(tmp_path, where, said, two_workers):
    with pytest.raises(OptionError, match=said) as caught:
        daskfs.select(small_dataset(tmp_path / "d"), Huge(), client=two_workers if where == "cluster" else None)
    assert "state 1024.00 PiB + blocks 4.22 kiB + process 48.00 MiB = " in str(caught.value).replace("4 x ", "")
    assert "\n" not in str(caught.value)


class HugeAtHome(Huge):
    """All of what it needs stays where the run is."""

    def driver_nbytes(self, meta):
        return self.nbytes(meta)


def test_f10_what_stays_here_must_find_room_here(tmp_path, two_workers):
    with pytest.raises(OptionError, match="this machine has"):
        daskfs.select(small_dataset(tmp_path / "d"), HugeAtHome(), client=two_workers)
