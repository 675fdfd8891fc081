"""The serial loop: every block once and in order, told as it goes, kept where it is asked to be."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from faults.samples import sparse as weighted_rows
from numpy.typing import NDArray
from threadpoolctl import threadpool_info
from toy_algorithms import Tangled, TangledState
from toy_runs import KINDS, always_due, check_same, small_dataset, tangled

import daskfs
from daskfs.engine.checkpoint import Snapshot
from daskfs.engine.passes import SelectionRun, SerialRunner
from daskfs.engine.run import memory_plan
from daskfs.engine.shards import FAN_IN, merge_states, merge_tree, one_blas_thread, rounds_of
from daskfs.errors import CheckpointError
from daskfs.protocol import copy_state, flatten

__all__ = ["always_due"]


def by_hand(dataset, algorithm, seed=0):
    """The protocol's own words, as a loop."""
    state, go_on = algorithm.start(dataset.meta, seed), True
    while go_on:
        for number in range(dataset.n_blocks(algorithm.axis)):
            state = algorithm.update(state, dataset.read(number, algorithm.axis))
        state, go_on = algorithm.end_pass(state)
    for block in dataset.columns(ids) if len(ids := algorithm.revisit(state)) else ():
        state = algorithm.update(state, block)
    return algorithm.result(state)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_loop_of_the_protocol(tmp_path, kind):
    dataset, algorithm = small_dataset(tmp_path / "d", kind), tangled(kind, revisits=kind == "columns")
    expected = by_hand(dataset, algorithm, seed=3)
    given = daskfs.select(dataset, algorithm, seed=3)
    assert given.features.tolist() == expected.features.tolist()
    assert given.weights.tobytes() == expected.weights.tobytes()
    assert given.history.objective.values.tolist() == [record["objective"] for record in expected.history]


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_of_blocks_are_known_before_they_are_read(tmp_path, kind):
    dataset = small_dataset(tmp_path / "d", kind)
    assert dataset.n_blocks() > 10
    check_sizes(dataset)


def test_sizes_of_blocks_with_weights(tmp_path):
    weighted_rows(tmp_path / "d")
    check_sizes(daskfs.open_dataset(tmp_path / "d"))


def check_sizes(dataset):
    sizes = dataset.block_sizes()
    assert sizes.tolist() == [block.nbytes for block in dataset.blocks()]
    assert sizes.max() <= dataset.meta.block_nbytes


def test_progress_and_history(tmp_path):
    dataset, events = small_dataset(tmp_path / "d"), []
    history = daskfs.select(dataset, Tangled(passes=2, revisits=True), progress=events.append).history
    blocks, total = dataset.n_blocks(), int(dataset.block_sizes().sum())
    assert [event.number for event in events] == [1] * blocks + [2] * blocks
    assert [event.blocks_done for event in events] == 2 * list(range(1, blocks + 1))
    assert {(event.passes, event.blocks, event.bytes) for event in events} == {(2, blocks, total)}
    assert events[-1].bytes_done == total
    seconds = [event.seconds for event in events]
    assert seconds[:blocks] == sorted(seconds[:blocks])
    assert history.bytes.values.tolist() == [total, total, 2 * 8 * dataset.n_samples]  # two columns seen once more
    assert (history.seconds.values > 0).all()


def test_records_that_are_not_passes_have_no_cost(tmp_path):
    class Chatty(Tangled):
        def result(self, state):
            result = super().result(state)
            result.history.extend({"objective": 0.0} for _ in range(3))
            return result

    history = daskfs.select(small_dataset(tmp_path / "d"), Chatty(passes=2)).history
    assert np.isfinite(history.bytes.values).tolist() == [True, True, True, False, False]
    assert history.bytes.values[2] == 0  # of a second look that was not needed


@pytest.mark.parametrize("lanes", [2, 3, 5, 14])
@pytest.mark.parametrize("blocks", [14, 15, 29, 100, 1000])
def test_rounds_hold_every_block_once_and_in_order(lanes, blocks):
    rounds = rounds_of(np.ones(blocks, np.int64), lanes, 10)
    assert [number for shares in rounds for share in shares for number in share] == list(range(blocks))
    assert all(len(shares) == lanes and min(map(len, shares)) >= 1 for shares in rounds)
    ends = [shares[-1].stop for shares in rounds]
    for number, end in enumerate(ends):
        assert rounds_of(np.ones(blocks, np.int64), lanes, 10, end) == rounds[number + 1 :]


def test_lanes_meet_at_places_of_their_own():
    with pytest.raises(CheckpointError, match="no round of 3 shards ends at block 1"):
        rounds_of(np.ones(30, np.int64), 3, 10, position=1)


@pytest.mark.parametrize(("shards", "rounds"), [(2, 4), (16, 4), (64, 1), (256, 1)])
def test_many_shards_meet_less_often(monkeypatch, shards, rounds):
    """A round costs all workers the time in which the scheduler serves every one of them."""
    monkeypatch.setattr("daskfs.engine.shards.GROUP_BYTES", 256)
    monkeypatch.setattr("daskfs.engine.shards._ROUND_BYTES_PER_SHARD", 16)
    sizes = np.full(4 * 8 * shards, 32)  # four rounds of the least size
    assert len(rounds_of(sizes, shards)) == rounds
    assert len(rounds_of(sizes, shards, merges=10)) == 10  # what the algorithm needs, it gets


@pytest.mark.parametrize("position", [0, 1, 7, 20])
def test_one_lane_is_cut_by_size(monkeypatch, position):
    monkeypatch.setattr("daskfs.engine.shards.GROUP_BYTES", 30)
    sizes = np.random.default_rng(0).integers(1, 20, 20)
    groups = [shares[0] for shares in rounds_of(sizes, 1, position=position)]
    assert [number for group in groups for number in group] == list(range(position, 20))
    assert all(30 <= sizes[list(group)].sum() < 50 for group in groups[:-1])


def test_an_empty_pass_has_no_groups():
    assert rounds_of(np.empty(0, np.int64), 1) == []


def test_merging_leaves_the_states_as_they_were(tmp_path):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled()
    states = [algorithm.update(algorithm.start(dataset.meta, seed), dataset.read(seed)) for seed in range(4)]
    before = [copy_state(state) for state in states]
    first = merge_states(algorithm, *states)
    first.memory += 1
    for state, expected in zip(states, before, strict=True):
        given, wanted = flatten(state), flatten(expected)
        assert given.keys() == wanted.keys()
        assert all(np.array_equal(given[name], wanted[name]) for name in given)


@pytest.mark.parametrize("count", [1, 2, FAN_IN, FAN_IN + 1, 16, 17, 70])
def test_a_tree_of_merges_is_one_merge(count):
    calls = []

    def merge(*items):
        calls.append(len(items))
        return [leaf for item in items for leaf in item]

    assert merge_tree([[number] for number in range(count)], merge) == list(range(count))
    assert all(2 <= size <= FAN_IN for size in calls)


@pytest.mark.parametrize("lanes", [2, 3, 6])
def test_lanes_can_be_run_by_one_process(tmp_path, lanes):
    """What a cluster is compared with: another number of lanes is another result, and every block counts once."""
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(passes=2)

    def run(lanes):
        whole = SelectionRun(dataset, algorithm, Snapshot(algorithm.start(dataset.meta, 0), lanes))
        return whole.finish(SerialRunner(whole))

    state = run(lanes).state
    assert state.blocks + state.fresh == 2 * dataset.n_blocks()
    assert not np.array_equal(state.memory, run(1).state.memory)


def test_blas_has_one_thread_during_a_run(tmp_path):
    threads = []

    class Watching(Tangled):
        def update(self, state, block):
            threads.append({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
            return super().update(state, block)

    before = threadpool_info()
    daskfs.select(small_dataset(tmp_path / "d"), Watching(passes=1))
    assert threads
    assert all(numbers == {1} for numbers in threads)
    with one_blas_thread():
        pass
    assert [pool["num_threads"] for pool in threadpool_info()][: len(before)] == [p["num_threads"] for p in before]


def test_the_state_at_the_start_is_not_held_while_it_is_replaced(tmp_path):
    import weakref

    class Array(np.ndarray):
        pass

    class Replacing(Tangled):
        def start(self, meta, seed):
            state = super().start(meta, seed)
            state.memory = state.memory.view(Array)
            first.append(weakref.ref(state.memory))
            return state

        def update(self, state, block):
            state = super().update(copy_state(state), block)
            seen.append(first[0]() is not None)
            return state

    first, seen = [], []
    daskfs.select(small_dataset(tmp_path / "d"), Replacing(passes=1))
    assert not any(seen[1:])


@dataclass(kw_only=True)
class HeavyState(TangledState):
    ballast: NDArray[np.float64]


@dataclass(frozen=True)
class Heavy(Tangled):
    """A state far larger than a block, worked on in place."""

    def start(self, meta, seed):
        return HeavyState(**vars(super().start(meta, seed)), ballast=np.zeros(2 << 20))

    def update(self, state, block):
        state.ballast += 1
        return super().update(state, block)

    def nbytes(self, meta):
        return super().nbytes(meta) + (16 << 20)


@pytest.mark.usefixtures("always_due")
def test_f10_memory_is_what_the_plan_promised(tmp_path):
    """Checkpoints included, which are written from where the state lies."""
    X = np.random.default_rng(0).normal(size=(20_000, 60))
    daskfs.write_dataset(tmp_path / "d", X, np.arange(20_000) % 2, chunk_bytes=800_000)
    dataset = daskfs.open_dataset(tmp_path / "d")
    plan = memory_plan(dataset, Heavy())
    daskfs.select(dataset, Heavy(passes=1), checkpoint=tmp_path / "c")  # what stays for good is there afterwards
    tracemalloc.start()
    daskfs.select(dataset, Heavy(passes=1), checkpoint=tmp_path / "c")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 16 << 20 < peak < 1.25 * plan.total


def test_same_is_told_from_other(tmp_path):
    """The yardstick itself: one block too many in a run of many is noticed."""
    dataset = small_dataset(tmp_path / "d")

    class Twice(Tangled):
        def update(self, state, block):
            state = super().update(state, block)
            return super().update(state, block) if block.ids[0] == 18 else state

    with pytest.raises(AssertionError):
        check_same(daskfs.select(dataset, Twice()), daskfs.select(dataset, Tangled()))
