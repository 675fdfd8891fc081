"""Events become series, whatever comes and however much of it; no cluster and no browser here."""

from __future__ import annotations

import math
import pickle

import pytest
from bokeh.document import Document
from hypothesis import given
from hypothesis import strategies as st

from daskfs.engine.events.messages import Spent, refused_event, share_event
from daskfs.observe.dashboard.live_runs import BIN_SECONDS, MOST_POINTS, MOST_RUNS, MOST_WORKERS, OTHERS, LiveRuns
from daskfs.observe.dashboard.page import AGAIN, page
from daskfs.observe.dashboard.series import MOST_BARS, SERIES, WELCOME, feature_table, headline, series_of

BEGUN = {
    "run": "a", "what": "begun", "algorithm": "Mission", "dataset": "d.zarr", "blocks": 10, "passes": 3,
    "workers": 2, "done": 0,
}  # fmt: skip
PROGRESS = {"run": "a", "what": "progress", "number": 1, "blocks_done": 5, "blocks": 10}
GLANCE = {
    "run": "a", "what": "preview", "objective": 3.0, "changes": 4.0, "features": [["x", 1.5]], "staleness": [3, 1],
}  # fmt: skip
PASS = {
    "run": "a", "what": "pass", "number": 1, "objective": 2.0, "changes": 7.0, "seconds": 2.0, "closing": 0.5,
    "busy": 1.0, "merging": 0.25, "scheduler": 0.125, "idle": 1.625,
}  # fmt: skip
CHECKPOINT = {"run": "a", "what": "checkpoint", "seconds": 0.125}
ENDED = {"run": "a", "what": "ended", "features": [["y", -2.0], ["x", None]], "why": None}
SHARE = share_event("a", "w", Spent(2, 20, 200, 0.5, 0.25, 0.0, 0.0, 100, 0.5))
REFUSED = refused_event("worker b has numpy 1.26 (here 2.4); install the same everywhere", "b")
NOW = 1010.0
ALL = (BEGUN, PROGRESS, SHARE, GLANCE, PASS, CHECKPOINT, ENDED)


def learned(*events: dict, every: float = 1.0) -> LiveRuns:
    watched = LiveRuns()
    for number, event in enumerate(events):
        assert watched.take(event, 1000.0 + every * number), event
    return watched


def test_whatever_is_new_is_one_message_to_the_browser():
    watched, doc, sent = learned(*ALL[:4]), Document(), []
    page(watched, {}, doc)
    doc.on_change(sent.append)
    again = doc.session_callbacks[0].callback
    for event in ALL[4:]:
        assert watched.take(event, NOW)
    again()
    assert len(sent) == 1
    for _ in range(AGAIN - 1):
        again()
    assert len(sent) == 1  # the run is over: time alone is nothing new
    again()
    assert len(sent) == 2  # a browser may have lost the connection, and all with it
    assert watched.take(BEGUN | {"run": "b"}, NOW)
    again()
    assert len(sent) == 3


def test_texts_of_a_long_run_are_told_more_often_than_its_plots(monkeypatch):
    clock, watched, doc = [1600.0], learned(BEGUN), Document()
    monkeypatch.setattr("daskfs.observe.dashboard.page.time.time", lambda: clock[0])
    page(watched, {}, doc)

    def told_after(seconds: float, *events: dict) -> set[int]:
        """Which places of the message are new: the first two are texts, the last counts."""
        clock[0] += seconds
        for event in events:
            assert watched.take(event, clock[0])
        before = doc.roots[0].tags[0].data["json"]
        doc.session_callbacks[0].callback()
        now = doc.roots[0].tags[0].data["json"]
        return {at for at, (old, new) in enumerate(zip(before[:-1], now, strict=False)) if old != new}

    texts = {0, 1}
    assert told_after(5.0, GLANCE) == texts
    assert told_after(5.0, PROGRESS) == {0}
    assert told_after(5.0, SHARE) > {0}
    assert told_after(1.0, PASS, ENDED) > texts  # nobody waits for what was the last


@pytest.mark.parametrize("objective", [1e308, math.nan, -math.inf, 10**400, True])
def test_a_number_that_no_axis_has_room_for_is_no_news(objective):
    assert not learned(BEGUN).take({**GLANCE, "objective": objective}, NOW)


def test_a_run_from_its_begin_to_its_end():
    run = learned(*ALL).latest
    assert (run.algorithm, run.dataset, run.passes, run.ended, run.why) == ("Mission", "d.zarr", 3, True, None)
    assert (run.number, run.blocks_done, run.fraction) == (2, 5, 0.0)
    assert (run.objectives.x, run.objectives.y) == ([0.5, 1], [3.0, 2.0])
    assert run.changes_before == 7
    assert run.staleness == [3, 1]
    assert run.features == [("y", -2.0), ("x", None)]
    assert (run.checkpoints.x, run.checkpoints.y) == ([5.0], [0.125])
    assert run.total.bytes == 200
    assert run.storage_rate == 200.0
    drawn = series_of(run, 1100.0)
    times = {"busy": [1.0], "merging": [0.25], "scheduler": [0.125], "idle": [1.625], "closing": [0.5]}
    assert drawn["times"] == {"number": [1], **times}
    assert drawn["rates"]["bytes"] == [200 / BIN_SECONDS]
    assert "finished after 1 pass ·" in headline(run, NOW)


def test_a_pass_begins_with_no_blocks():
    assert "pass 1 of 3, 5 of 10 blocks (50%)" in headline(learned(BEGUN, PROGRESS).latest, NOW)
    assert "pass 2 of 3, 0 of 10 blocks (0%)" in headline(learned(BEGUN, PROGRESS, PASS).latest, NOW)


def test_every_plot_has_its_columns_of_equal_length():
    for count in range(len(ALL) + 1):
        run = learned(*ALL[:count]).latest
        if run is not None:
            drawn = series_of(run, 1000.5)
            assert {name: tuple(columns) for name, columns in drawn.items()} == SERIES
            assert all(len({*map(len, columns.values())}) == 1 for columns in drawn.values())


def test_silence_shows():
    run = learned(BEGUN, SHARE).latest
    assert "no news" not in headline(run, 1010.0)
    assert "no news for 60 s" in headline(run, 1061.0)
    rates = series_of(run, 1061.0)["rates"]["bytes"]
    assert rates == [200 / BIN_SECONDS] + [0.0] * (len(rates) - 1)
    assert len(rates) == int(60 / BIN_SECONDS)


def test_a_driver_that_is_gone_has_ended_its_run_unless_it_comes_back():
    watched = learned({**BEGUN, "client": "c"}, SHARE)
    watched.client_left("another")
    assert not watched.latest.ended
    watched.client_left("c")
    assert "stopped: whoever started it is gone" in headline(watched.latest, NOW)
    watched.take(SHARE, 1003.0)
    assert watched.latest.ended, "a worker may still be at a block"
    watched.take(PROGRESS, 1004.0)
    assert (watched.latest.ended, watched.latest.why) == (False, None)


def test_a_worker_that_leaves_a_run_is_named():
    watched = learned(BEGUN, SHARE)
    watched.worker_left("w")
    assert "1 left: w" in headline(watched.latest, NOW)
    watched.take(ENDED, 1002.0)
    watched.worker_left("w")
    assert len(watched.latest.left) == 1


def test_storage_of_a_worker_that_has_left_is_no_limit_any_more():
    other = {**SHARE, "name": "v"}
    watched = learned(BEGUN, SHARE, other)
    assert watched.latest.storage_rate == 400.0
    watched.worker_left("w")
    assert watched.latest.storage_rate == 200.0
    assert watched.latest.total.bytes == 400  # what it did is done


def test_who_was_refused_is_said_until_a_run_begins():
    watched = learned(REFUSED)
    assert watched.latest is None
    assert "a worker was refused: worker b has numpy 1.26" in headline(None, NOW, watched.refused)
    during = learned(BEGUN, REFUSED, refused_event("<b>too small"))
    assert "a selection was refused: &lt;b&gt;too small" in headline(during.latest, NOW, during.refused)
    assert during.version == 3
    assert learned(refused_event("too small", "b")).refused == "worker b was refused: too small"
    watched.take(BEGUN, NOW)
    assert watched.refused is None


def test_where_the_time_of_a_worker_went():
    share = Spent(2, 20, 2048, busy=0.5, reading=0.125, merging=0.25, waiting=0.75)
    shown = series_of(learned(share_event("a", "w", share)).latest, NOW)["workers"]
    times = {"reading": [0.125], "working": [0.375], "merging": [0.25], "waiting": [0.75]}
    assert {name: shown[name] for name in times} == times
    assert shown["bytes"] == ["2.00 kiB"]


def test_without_a_run_there_is_a_friendly_word():
    assert headline(LiveRuns().latest, NOW) == WELCOME


def test_a_run_whose_begin_was_missed_is_shown_all_the_same():
    assert learned(SHARE, PROGRESS).latest.blocks_done == 5


def test_the_newest_run_is_the_latest_and_few_are_kept():
    watched = learned(*({**BEGUN, "run": f"r{number}"} for number in range(20)))
    assert len(watched.runs) == MOST_RUNS
    assert watched.latest.run == "r19"
    watched.take({**PROGRESS, "run": "r18"}, 2000.0)
    assert watched.latest.run == "r19"


def test_changes_never_fall():
    """Prometheus takes a counter that falls for one that began anew; a new centre counts from nothing."""
    watched, totals = LiveRuns(), []
    for changes in (4.0, 9.0, 1.0, None):
        watched.take({**GLANCE, "changes": changes} if changes is not None else {**PASS, "changes": 9.0}, 0.0)
        totals.append(watched.latest.changes_before + (watched.latest.changes or 0.0))
    assert totals == [4, 9, 9, 9]


def test_a_worker_that_does_half_of_the_usual_lags_behind():
    speeds = {"a": 100, "b": 110, "c": 90, "slow": 40}
    watched = learned(*(share_event("a", name, Spent(1, 1, speed, busy=1.0)) for name, speed in speeds.items()))
    assert watched.latest.stragglers() == {"slow"}
    assert "lagging behind: slow" in headline(watched.latest, NOW)
    frames = series_of(watched.latest, 0.0)["workers"]["edge"]
    assert len({*frames[:3]}) == 1 != len({*frames})


def test_memory_is_bounded_however_much_comes():
    watched = LiveRuns()
    sizes = []
    for number in range(40_000):
        watched.take({**SHARE, "name": f"w{number}"}, 10.0 * number)
        watched.take({**GLANCE, "objective": float(number)}, 10.0 * number)
        watched.take({**PASS, "number": number}, 10.0 * number)
        watched.take(CHECKPOINT, 10.0 * number)
        if number in (20_000, 39_999):
            sizes.append(len(pickle.dumps(watched)))
    run = watched.latest
    assert sizes[1] < 1.3 * sizes[0] < 1_000_000
    assert len(run.workers) <= MOST_WORKERS + 1
    assert run.workers[OTHERS].blocks > 0
    assert len(run.objectives.x) <= MOST_POINTS
    assert run.total.blocks == 80_000
    assert run.n_checkpoints == 40_000
    drawn = series_of(run, 10.0 * 40_000)
    assert len(drawn["workers"]["worker"]) == len({*drawn["workers"]["worker"]}) == MOST_BARS
    middle, nbytes, _ = run.flow.rates()
    assert len(middle) <= MOST_POINTS
    assert sum(nbytes) * run.flow.span == run.total.bytes  # spans grow, and nothing gets lost


def test_a_rate_is_shown_when_its_span_is_over():
    watched = learned(SHARE)
    assert series_of(watched.latest, 1000.0 + BIN_SECONDS / 2)["rates"]["x"] == []
    assert series_of(watched.latest, 1000.0 + BIN_SECONDS)["rates"]["x"] == [BIN_SECONDS / 2]


HOSTILE = "<script>alert(1)</script>"


def test_hostile_texts_are_texts():
    watched = learned(
        {**BEGUN, "algorithm": HOSTILE, "dataset": HOSTILE + "\x1b[2J"},
        {**GLANCE, "features": [[HOSTILE, 1.0], ["a" * 10**6, 2.0]]},
        {**ENDED, "features": None, "why": HOSTILE},
    )
    shown = headline(watched.latest, NOW) + feature_table(watched.latest)
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "\x1b" not in shown
    assert len(shown) < 3000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_whatever_comes_is_taken_or_left(data):
    """One event with one of its values replaced, among others that are as they should be."""
    event = dict(data.draw(st.sampled_from((*ALL, REFUSED))))
    event[data.draw(st.sampled_from(sorted(event)))] = data.draw(JSON)
    watched = learned(*ALL)
    watched.take(event, 1010.0)
    watched.take(data.draw(JSON), 1010.0)
    for run in watched.runs.values():
        headline(run, NOW, watched.refused)
        feature_table(run)
        columns = [column for plot in series_of(run, 1020.0).values() for column in plot.values()]
        numbers = [x for column in columns for x in column if isinstance(x, float)]
        assert not any(math.isinf(x) for x in numbers)


NO_EVENTS = [None, 3, "text", [], {}, {"run": "a"}, {"run": "a", "what": "odd"}, {**BEGUN, "run": 5}]


@pytest.mark.parametrize("event", NO_EVENTS)
def test_what_is_no_event_is_left(event):
    watched = LiveRuns()
    assert not watched.take(event, 0.0)
    assert watched.runs == {}
    assert watched.version == 0


def test_metrics_tell_of_every_run():
    pytest.importorskip("prometheus_client")
    from daskfs.observe.dashboard.prometheus import COUNTERS, families

    watched = learned(*ALL, {**BEGUN, "run": "b", "algorithm": "Two\nlines"})
    found = {family.name: family.samples for family in families(watched)}
    assert [sample.labels["run"] for sample in found["daskfs_pass"]] == ["a", "b"]
    assert [sample.labels["run"] for sample in found["daskfs_objective"]] == ["a"]  # of b there is none yet
    assert found["daskfs_bytes_read"][0].name == "daskfs_bytes_read_total"
    assert COUNTERS["daskfs_merging_seconds"][1](watched.runs["a"]) == 0.25


RESUMED, STOPPED = {**BEGUN, "done": 4, "passes": 9}, {**ENDED, "why": "Stop"}
ENDS = {
    "resumed": ((RESUMED, {**PASS, "number": 5}, ENDED), 5, "finished after 5 passes"),
    "resumed, and nothing to do": ((RESUMED, ENDED), 4, "finished after 4 passes"),
    "stopped": ((RESUMED, {**PROGRESS, "number": 5}, STOPPED), 5, "stopped: Stop"),
    "many": ((BEGUN, *({**PASS, "number": n} for n in range(1, 2 * MOST_POINTS + 1)), ENDED), 1200, "after 1,200 "),
    "none": ((BEGUN, ENDED), 1, "finished after 0 passes"),
}


@pytest.mark.parametrize(("events", "number", "told"), ENDS.values(), ids=ENDS)
def test_passes_are_counted_from_the_first(events, number, told):
    pytest.importorskip("prometheus_client")
    from daskfs.observe.dashboard.prometheus import GAUGES

    run = learned(*events).latest
    assert GAUGES["daskfs_pass"][1](run) == number
    assert told in headline(run, NOW)


def test_seconds_of_merging_never_fall():
    """Also of a centre, whose work is in no worker's share, when there are more passes than are kept."""
    watched, seconds = LiveRuns(), []
    for number in range(1, 2 * MOST_POINTS):
        watched.take({**PASS, "number": number, "merging": 1.0 if number < MOST_POINTS else 0.0}, 0.0)
        seconds.append(watched.latest.merging)
    assert seconds == sorted(seconds)
    assert seconds[-1] == MOST_POINTS - 1
