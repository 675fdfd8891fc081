"""What a run tells: the events of real runs on a cluster, beside what is known of them by other means."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
import xarray
from centre_runs import Paced, planted
from distributed import Client, SchedulerPlugin
from distributed.utils import key_split
from toy_algorithms import Tangled
from toy_runs import local_cluster, small_dataset, wait_for_events_of_workers, wait_until

import daskfs
from daskfs.engine.checkpoint import PassCost
from daskfs.engine.events import send
from daskfs.engine.events.listener import RunListener
from daskfs.engine.events.messages import TOPIC, Spent
from daskfs.protocol import Preview, Sharing, flatten

K = 4
ALGORITHMS = {
    "asynchronous": (daskfs.OnlineSubstitution(K), "columns", {}),
    "synchronous": (daskfs.OnlineSubstitution(K), "columns", {"synchronous": True}),
    "async": (daskfs.OnlineSubstitution(K, method="async"), "columns", {}),
    "serial": (daskfs.OnlineSubstitution(K, method="paper"), "columns", {}),
    "mission": (daskfs.Mission(K, width=2**10, passes=2, interactions="all"), "rows", {}),
    "random features": (daskfs.SparseRandomFeatures(rounds=2, per_round=20), "rows", {}),
}


def dataset_for(folder, axis: str) -> daskfs.Dataset:
    if axis == "columns":
        return planted(folder)
    X = np.random.default_rng(0).normal(size=(3000, 6)).astype(np.float32)
    daskfs.write_dataset(folder, X, X[:, 2] * X[:, 4] > 0, layout="rows", chunk_bytes=6000)
    return daskfs.open_dataset(folder)


def events_of_the_last_run(client: Client) -> list[dict]:
    events = [event for _, event in client.get_events(TOPIC)]
    run = [event["run"] for event in events if event["what"] == "begun"][-1]
    return [event for event in events if event.get("run") == run]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_tells_what_it_does(two_workers, tmp_path, name):
    algorithm, axis, options = ALGORITHMS[name]
    dataset = dataset_for(tmp_path / "d", axis)
    sizes = dataset.block_sizes(axis)

    def of(what: str) -> list[dict]:
        return [event for event in events_of_the_last_run(two_workers) if event["what"] == what]

    for attempt in range(3):  # on a busy machine a group may be done twice, of which a history counts one
        checkpoint = tmp_path / f"c{attempt}"
        selection = daskfs.select(dataset, algorithm, client=two_workers, checkpoint=checkpoint, **options)
        history = selection.history
        wait_for_events_of_workers(two_workers)
        worked_on, least = sum(event["bytes"] for event in of("share")), int(np.nansum(history.bytes.values))
        if worked_on == least or name == "async":
            break
    passes = int((history.bytes.values == sizes.sum()).sum())
    if name == "async":  # columns seen once more have no line of their own in its history: at least those of the set
        column = int(sizes.sum()) // dataset.n_features
        assert worked_on >= least + K * column
        assert (worked_on - least) % column == 0
    else:
        assert worked_on == least
    wait_until(lambda: of("ended"))
    per_pass = dataset.n_samples if axis == "rows" else dataset.n_features
    assert sum(event["items"] for event in of("share")) * int(sizes.sum()) == worked_on * per_pass
    assert sum(event["blocks"] for event in of("share")) >= passes * len(sizes)
    assert [event["number"] for event in of("pass")] == list(range(1, passes + 1))
    told, busy = [event["busy"] for event in of("pass")], sum(event["busy"] for event in of("share"))
    assert told == history.busy.values[:passes].tolist()
    shown = np.nansum(history.busy.values)
    assert shown == pytest.approx(busy) or (name == "async" and shown < busy)  # with the states, and from the workers
    objectives = [event["objective"] for event in of("pass")]
    assert objectives == pytest.approx(history.objective.values[:passes].tolist(), nan_ok=True)
    assert len(of("checkpoint")) >= passes + 1  # more, if half a minute passes in a pass
    (ended,) = of("ended")
    assert [[*feature] for feature in ended["features"]] == [
        [one, pytest.approx(float(np.atleast_1d(weight)[np.abs(weight).argmax()]))]
        for one, weight in zip(selection.names[:20], selection.weights[:20], strict=True)
    ]
    glances = of("preview")
    assert glances
    assert {name for name, _ in glances[-1]["features"]} & set(selection.names)
    assert max(len(json.dumps(event)) for event in events_of_the_last_run(two_workers)) < 4000


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", ALGORITHMS)
def test_times_add_up(two_workers, tmp_path, name):
    algorithm, axis, options = ALGORITHMS[name]
    dataset = dataset_for(tmp_path / "d", axis)
    history = daskfs.select(dataset, algorithm, client=two_workers, **options).history
    passes = history.isel(step=np.isfinite(history.busy.values))
    assert passes.sizes["step"] >= 1
    beside = name in ("asynchronous", "async")  # the centre's time is none of the workers'
    together = passes.busy + passes.scheduler + passes.idle + (0 if beside else passes.merging)
    ratio = (together / (passes.seconds - passes.closing))[passes.closing < 0.9 * passes.seconds]  # the others: noise
    lanes = np.round(ratio.values)
    assert len(lanes) > 0
    assert {*lanes.tolist()} <= {1.0, 2.0}
    assert ratio.values == pytest.approx(lanes)
    assert (passes.closing >= 0).all()
    assert (passes.closing <= passes.seconds).all()


NAP = 0.03


@dataclass(frozen=True)
class Ceremonious(Tangled):
    """Takes its time to merge, and none over blocks."""

    def merge(self, states):
        time.sleep(NAP)
        return super().merge(states)


SLOW = {
    "synchronous": Tangled(seconds=NAP),
    "serial": Tangled(seconds=NAP, schedule="serial"),
    "asynchronous": Paced(K, seconds=NAP),
}


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", SLOW)
def test_work_on_blocks_is_busy(two_workers, tmp_path, name):
    """However it is shared: what the algorithm sleeps over its blocks is there, and is none of merging or idling."""
    dataset = small_dataset(tmp_path / "d")
    history = daskfs.select(dataset, SLOW[name], client=two_workers).history
    passes = history.isel(step=history.bytes.values == dataset.block_sizes("columns").sum())
    assert passes.sizes["step"] >= 1
    assert (passes.busy >= dataset.n_blocks("columns") * NAP).all()
    assert (passes.busy > passes.merging).all()
    assert (passes.busy <= 2 * (passes.seconds - passes.closing)).all()


def test_merging_is_not_busy(two_workers, tmp_path):
    history = daskfs.select(small_dataset(tmp_path / "d"), Ceremonious(), client=two_workers).history
    assert (history.merging.values[:3] >= NAP).all()
    assert (history.merging.values[:3] > history.busy.values[:3]).all()


def test_without_a_cluster_only_closing_is_told_apart(tmp_path):
    history = daskfs.select(small_dataset(tmp_path / "d"), Tangled()).history
    assert {"seconds", "closing"} <= set(history)
    assert not {"busy", "merging", "scheduler", "idle"} & set(history)


def test_history_keeps_its_times(two_workers, tmp_path):
    selection = daskfs.select(small_dataset(tmp_path / "d"), Tangled(), client=two_workers)
    selection.save(tmp_path / "run")
    assert "busy" not in (tmp_path / "run" / "selection.json").read_text()
    kept = daskfs.load_selection(tmp_path / "run").history
    xarray.testing.assert_identical(kept, selection.history)
    assert kept.busy.values.sum() > 0


def test_closing_is_the_time_of_end_pass(tmp_path):
    class Slow(Tangled):
        def end_pass(self, state):
            time.sleep(0.05)
            return super().end_pass(state)

    history = daskfs.select(small_dataset(tmp_path / "d"), Slow(passes=2)).history
    assert (history.closing.values[:2] >= 0.05).all()
    assert (history.seconds.values[:2] >= history.closing.values[:2]).all()


class Named(SchedulerPlugin):
    """Collects what tasks that begin are called on Dask's pages."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def transition(self, key, start, finish, *_, **__):
        if finish == "processing":
            self.seen.add(key_split(key))


TASKS = {
    "asynchronous": {"daskfs-centre", "daskfs-score", "daskfs-revisit"},
    "synchronous": {"daskfs-score", "daskfs-merge", "daskfs-revisit"},
    "serial": {"daskfs-score"},
    "mission": {"daskfs-sketch"},  # so little data are one worker's business
    "random features": {"daskfs-expand"},
}
NOW_AND_THEN = {"daskfs-seat", "daskfs-preview"}


@pytest.mark.parametrize("name", TASKS)
def test_tasks_are_named_after_what_they_do(two_workers, tmp_path, name):
    algorithm, axis, options = ALGORITHMS[name]
    scheduler, named = two_workers.cluster.scheduler, Named()
    scheduler.add_plugin(named, name="named")
    try:
        daskfs.select(dataset_for(tmp_path / "d", axis), algorithm, client=two_workers, **options)
    finally:
        scheduler.remove_plugin("named")
    assert named.seen - NOW_AND_THEN == TASKS[name]


def test_glances_come_also_in_the_middle_of_a_pass(two_workers, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.engine.events.listener.PREVIEW_EVERY", 0.0)
    X = np.random.default_rng(0).normal(size=(3000, 6)).astype(np.float32)
    daskfs.write_dataset(tmp_path / "d", X, X[:, 2] > 0, layout="rows", chunk_bytes=600)
    daskfs.select(tmp_path / "d", Plain(3, width=2**10), client=two_workers)
    wait_until(lambda: [event for event in events_of_the_last_run(two_workers) if event["what"] == "ended"])
    told = [event["what"] for event in events_of_the_last_run(two_workers)]
    assert "preview" in told[: told.index("pass") - 1]  # one comes just before the pass is over
    assert not [one for one in two_workers.cluster.scheduler.tasks if "preview" in str(one)]


class Plain(daskfs.Mission):
    """Shares little data among workers."""

    @property
    def sharing(self) -> Sharing:
        return replace(super().sharing, min_bytes_per_merge=0)


class TestWatch:
    """Without a cluster."""

    def watch(self, folder) -> tuple[RunListener, list[dict]]:
        told: list[dict] = []
        return RunListener(planted(folder), daskfs.OnlineSubstitution(3), told.append), told

    def test_names_are_read_once(self, tmp_path, monkeypatch):
        watch, told = self.watch(tmp_path / "d")
        seen = Preview(1.0, 2.0, np.array([3, 71], np.uint64), np.array([0.5, -0.25]))
        watch.preview(seen)
        monkeypatch.setattr(daskfs.Dataset, "names", None)  # so that it must not be called
        watch.preview(Preview(0.5, 3.0, seen.features[::-1], seen.weights))
        assert [event["features"] for event in told] == [
            [["gene3", 0.5], ["gene71", -0.25]],
            [["gene71", 0.5], ["gene3", -0.25]],
        ]

    def test_what_is_as_it_was_is_not_told_again(self, tmp_path):
        watch, told = self.watch(tmp_path / "d")
        for _ in range(3):
            watch.preview(Preview(1.0, np.nan, np.array([3], np.uint64), np.array([np.nan])))
        assert len(told) == 1
        assert told[0]["features"] == [["gene3", None]]
        assert told[0]["changes"] is None

    def test_nothing_it_does_ends_a_run(self, tmp_path):
        watch, told = self.watch(tmp_path / "d")
        watch.preview(Preview(1.0, 0.0, np.array([2**60], np.uint64), np.array([1.0])))  # no such column
        assert told == []

    def test_a_failure_is_told(self, tmp_path):
        watch, told = self.watch(tmp_path / "d")
        watch.failed(ValueError("<b>" + "x" * 1000))
        assert told[-1]["why"].startswith("ValueError: <b>xxx")
        assert len(told[-1]["why"]) == 120

    def test_seconds_that_are_not_known_are_not_told(self, tmp_path):
        watch, told = self.watch(tmp_path / "d")
        unknown = Spent(busy=math.nan, merging=2.0, scheduler=math.nan)
        watch.pass_ended(PassCost(5.0, 100, closing=1.0, workers=2, spent=unknown), 1, 3.0, None, None)
        assert told[0].keys() & {"seconds", "closing", "busy", "merging", "scheduler", "idle"} == {
            "seconds", "closing", "merging",
        }  # fmt: skip

    def test_nobody_is_told_without_a_listener(self, tmp_path):
        watch = RunListener(planted(tmp_path / "d"), daskfs.OnlineSubstitution(3))
        assert watch.run == ""
        assert not watch.is_preview_due()


@pytest.mark.slow_but_first
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_glance_changes_nothing(tmp_path, name):
    params, axis, _ = ALGORITHMS[name]
    dataset = dataset_for(tmp_path / "d", axis)
    algorithm = params.resolve(dataset.meta)
    results = []
    for looks in (False, True):
        state, go_on = algorithm.start(dataset.meta, 0), True
        while go_on:
            for block in dataset.blocks(axis=axis):
                if looks:
                    algorithm.preview(state, 20)
                state = algorithm.update(state, block)
            state, go_on = algorithm.end_pass(state)
        seen = algorithm.preview(state, 3)
        assert len(seen.features) == len(seen.weights) <= 3
        results.append({one: np.asarray(value).tobytes() for one, value in flatten(state).items()})
    assert results[0] == results[1]


def test_changes_are_of_the_whole_set_where_nobody_counts_them(tmp_path):
    """Also of features that are too many to be shown."""
    told = []
    dataset = small_dataset(tmp_path / "d", "rows")
    daskfs.select(dataset, daskfs.Mission(30, passes=3, width=64, refit=0), progress=told.append)
    changes = {now.number: now.changes for now in told}
    assert math.isnan(changes[1])
    assert changes[2] == 30, "of the first pass"
    assert 0 <= changes[3] < 30


def test_a_listener_that_fails_is_no_harm(tmp_path, monkeypatch):
    """Neither a worker nor the driver can say anything, and the run is as it would have been."""
    before = set(send._unsent)  # of workers of other tests that were closed before they could tell
    expected = daskfs.select(small_dataset(tmp_path / "d"), Tangled())
    with local_cluster(1, processes=False) as client:
        monkeypatch.setattr("distributed.worker.Worker.log_event", None)
        monkeypatch.setattr("distributed.Client.log_event", None)
        given = daskfs.select(tmp_path / "d", Tangled(), client=client)
        time.sleep(2 * send.EVERY)
    assert given.weights.tobytes() == expected.weights.tobytes()
    assert set(send._unsent) <= before
    unknown = given.history[["busy", "merging", "scheduler", "idle"]].to_array()
    assert np.isnan(unknown).all()  # and not 0
    assert (given.history.seconds > 0).all()
