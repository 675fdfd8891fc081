"""Passes on a cluster give the bits of the same lanes in one process, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client
from toy_algorithms import LargestColumns, Tangled
from toy_runs import (
    KINDS,
    Stop,
    always_due,
    check_same,
    local_cluster,
    small_dataset,
    stopping_after,
    submitted_bytes,
    tangled,
    wait_for_no_tasks,
)

import daskfs
from daskfs.selection.selection import Selection

__all__ = ["always_due"]


@pytest.fixture(scope="module")
def six_threads() -> Iterator[Client]:
    """Six workers in this process: they share memory, so a task that changes what it is given shows."""
    with local_cluster(6, processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Client]:
    with local_cluster(1, processes=False) as client:
        yield client


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of some tasks, not of one."""
    monkeypatch.setattr("daskfs.engine.shards.GROUP_BYTES", 4000)


def in_this_process(lanes: int, dataset: daskfs.Dataset, algorithm: Tangled, **options) -> Selection:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskfs.engine.run.n_shards_for", lambda *_: lanes)
        return daskfs.select(dataset, algorithm, **options)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schedule", ["synchronous", "serial", "asynchronous"])
def test_one_worker_is_serial(tmp_path, kind, schedule, one_worker):
    dataset, algorithm = small_dataset(tmp_path / "d", kind), tangled(kind, schedule=schedule)
    check_same(daskfs.select(dataset, algorithm, client=one_worker), daskfs.select(dataset, algorithm))


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_is_serial(tmp_path, kind, two_workers):
    dataset, algorithm = small_dataset(tmp_path / "d", kind), tangled(kind, schedule="serial")
    check_same(daskfs.select(dataset, algorithm, client=two_workers), daskfs.select(dataset, algorithm))


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_rounds_on_two_processes(tmp_path, kind, schedule, two_workers):
    dataset = small_dataset(tmp_path / "d", kind)
    algorithm = tangled(kind, schedule=schedule, revisits=kind == "columns")
    given = daskfs.select(dataset, algorithm, client=two_workers, synchronous=schedule == "asynchronous", seed=4)
    check_same(given, in_this_process(2, dataset, algorithm, seed=4))
    assert given.history.blocks[0] == 3 * dataset.n_blocks() + algorithm.revisits


@pytest.mark.parametrize("lanes", [2, 4, 5, 6])
def test_rounds_on_workers_that_share_memory(tmp_path, lanes, six_threads):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(revisits=True)
    given = in_this_process(lanes, dataset, algorithm, client=six_threads)
    check_same(given, in_this_process(lanes, dataset, algorithm))


def test_an_algorithm_that_merges_exactly_gives_the_serial_result(tmp_path, six_threads):
    dataset = small_dataset(tmp_path / "d")
    check_same(daskfs.select(dataset, LargestColumns(5), client=six_threads), daskfs.select(dataset, LargestColumns(5)))


def test_progress_of_rounds(tmp_path, two_workers):
    dataset, events = small_dataset(tmp_path / "d"), []
    daskfs.select(dataset, Tangled(passes=2), client=two_workers, progress=events.append)
    ends = [event.blocks_done for event in events]
    assert ends[: len(ends) // 2] == ends[len(ends) // 2 :] == sorted(set(ends))
    assert ends[-1] == dataset.n_blocks()
    assert events[-1].bytes_done == dataset.block_sizes().sum()


@pytest.mark.slow
@pytest.mark.usefixtures("always_due", "small_groups")
@pytest.mark.parametrize("lanes", [1, 2, 6])
def test_a_run_stopped_at_any_round_resumes_to_the_same_bits(tmp_path, lanes, six_threads):
    """Wherever it goes on: on the same cluster, on another, or here."""
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(passes=2)
    events: list[object] = []
    expected = in_this_process(lanes, dataset, algorithm, client=six_threads, progress=events.append)
    for stop in range(1, len(events) + 1):
        with pytest.raises(Stop):
            in_this_process(
                lanes,
                dataset,
                algorithm,
                client=six_threads,
                checkpoint=tmp_path / "c",
                progress=stopping_after(stop),
            )
        where = six_threads if stop % 2 else None
        check_same(daskfs.select(dataset, algorithm, client=where, checkpoint=tmp_path / "c", resume=True), expected)


@pytest.mark.usefixtures("always_due")
def test_resume_with_another_number_of_workers(tmp_path, six_threads, two_workers, one_worker):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(passes=2)
    expected = daskfs.select(dataset, algorithm, client=six_threads)
    for client in (two_workers, one_worker):
        with pytest.raises(Stop):
            daskfs.select(dataset, algorithm, client=six_threads, checkpoint=tmp_path / "c", progress=stopping_after(2))
        check_same(daskfs.select(dataset, algorithm, client=client, checkpoint=tmp_path / "c", resume=True), expected)


@pytest.mark.parametrize("stop", [None, 1, 4])
def test_nothing_is_left_on_the_cluster(tmp_path, stop, two_workers):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(passes=2)
    if stop is None:
        daskfs.select(dataset, algorithm, client=two_workers)
    else:
        with pytest.raises(Stop):
            daskfs.select(dataset, algorithm, client=two_workers, progress=stopping_after(stop))
    wait_for_no_tasks(two_workers)


def test_an_error_of_the_algorithm_comes_back_as_it_is(tmp_path, two_workers):
    with pytest.raises(ZeroDivisionError):
        daskfs.select(small_dataset(tmp_path / "d"), Divides(), client=two_workers)
    wait_for_no_tasks(two_workers)


class Divides(Tangled):
    def update(self, state, block):
        return state if block.ids[0] < 20 else 1 / 0


def test_arguments_of_tasks_are_small(tmp_path, two_workers, monkeypatch):
    sizes = submitted_bytes(monkeypatch)
    daskfs.select(small_dataset(tmp_path / "d"), Tangled(), client=two_workers)
    assert len(sizes) > 30
    assert max(sizes) < 2000
