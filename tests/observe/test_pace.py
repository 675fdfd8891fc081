"""Who lags behind: by what workers did of late, or by their silence; no cluster here."""

from __future__ import annotations

import numpy as np

from daskfs.engine.events.messages import Event, Spent, share_event
from daskfs.observe.dashboard.live_runs import MOST_WORKERS, LiveRuns
from daskfs.observe.dashboard.series import headline

ENDED = {"run": "a", "what": "ended", "features": None, "why": None}


def share_of(worker: str, busy: float, nbytes: int = 100) -> Event:
    return share_event("a", worker, Spent(1, 1, nbytes, busy=busy))


def an_hour_of(watched: LiveRuns, workers: str) -> float:
    """All at the same speed; when the hour is over."""
    for second in range(0, 3600, 5):
        for name in workers:
            watched.take(share_of(name, 5.0, 500), 1000.0 + second)
    return 4600.0


def test_a_worker_that_becomes_slow_lags_behind_soon():
    watched = LiveRuns()
    now = an_hour_of(watched, "abc")
    assert watched.latest.stragglers() == set()
    for second in range(0, 120, 5):
        for name in "ab":
            watched.take(share_of(name, 5.0, 500), now + second)
    watched.take(share_of("c", 120.0, 500), now + 120)
    assert watched.latest.stragglers() == {"c"}
    an_hour_later = now + 3600
    for name in "abc":
        watched.take(share_of(name, 5.0, 500), an_hour_later)
    assert watched.latest.stragglers() == set(), "that is long ago"


class TestStuck:
    """A worker that is stuck in a block sends no event; Dask knows that it has a task."""

    def seen(self, at_work: set[str], seconds: float, heard: str = "", every: float = 1.0) -> LiveRuns:
        """Runs of three workers, of which some are at work and some are heard for so long."""
        watched = LiveRuns(lambda: at_work)
        for name in "abc":
            watched.take(share_of(name, every), 1000.0)
        for now in np.arange(1000.0, 1000.0 + seconds, 5.0).tolist():
            for name in heard:
                watched.take(share_of(name, every), now)
            watched.look(now)
        return watched

    def test_one_that_says_nothing_lags_behind(self):
        watched = self.seen({*"abc"}, 60, heard="ab")
        assert watched.latest.stragglers() == {"c"}
        assert "lagging behind: c" in headline(watched.latest, 1060.0)
        watched.take(share_of("c", 30.0, 3000), 1060.0)
        watched.look(1060.0)
        assert watched.latest.stragglers() == set()

    def test_so_does_one_for_which_the_others_wait(self):
        assert self.seen({"c"}, 60).latest.stragglers() == {"c"}

    def test_one_that_never_said_anything_is_found_too(self):
        assert self.seen({*"abcd"}, 60, heard="abc").latest.stragglers() == {"d"}

    def test_nobody_does_who_waits_for_the_next_task(self):
        assert self.seen({"a"}, 600, heard="a").latest.stragglers() == set()

    def test_one_that_has_just_begun_has_time(self):
        at_work = {"a"}
        watched = self.seen(at_work, 600, heard="a")
        at_work.add("c")
        for now in (1600.0, 1620.0):
            watched.take(share_of("a", 1.0), now)
            watched.look(now)
            assert watched.latest.stragglers() == set()

    def test_the_silence_of_all_is_the_silence_of_the_run(self):
        assert self.seen({*"abc"}, 60).latest.stragglers() == set()

    def test_where_blocks_take_long_so_does_a_word(self):
        assert self.seen({*"abc"}, 60, heard="ab", every=20.0).latest.stragglers() == set()

    def test_one_of_very_many_is_not_told_apart(self):
        at_work: set[str] = set()
        watched = LiveRuns(lambda: at_work)
        for number in range(MOST_WORKERS + 2):
            at_work.add(f"w{number}")
        for now in range(1000, 1100, 5):
            for name in at_work:
                watched.take(share_of(name, 1.0), float(now))
            watched.look(float(now))
        assert watched.latest.stragglers() == set()

    def test_nobody_does_when_it_is_over(self):
        watched = self.seen({*"abc"}, 60, heard="ab")
        watched.take(ENDED, 1061.0)
        assert watched.latest.stragglers() == set()

    def test_one_that_has_left_does_not(self):
        at_work = {*"abc"}
        watched = self.seen(at_work, 60, heard="ab")
        at_work.remove("c")
        watched.worker_left("c")
        watched.look(1060.0)
        assert watched.latest.stragglers() == set()
