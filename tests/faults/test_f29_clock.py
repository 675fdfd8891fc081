"""F29: a clock that jumps changes no result, and takes no lease from who holds it."""

from __future__ import annotations

import time
from itertools import cycle

import numpy as np
import pytest
from toy_algorithms import Tangled
from toy_runs import check_same, small_dataset

import daskfs
from daskfs.errors import Busy
from daskfs.store.places import lease
from daskfs.store.places.location import Location

DAY = 86_400


def test_f29_a_clock_that_jumps_back_and_forth(tmp_path, monkeypatch):
    dataset, clock, jumps = small_dataset(tmp_path / "d"), time.time, cycle([0, DAY, -DAY])
    expected = daskfs.select(dataset, Tangled())
    monkeypatch.setattr(time, "time", lambda: clock() + next(jumps))
    monkeypatch.setattr("daskfs.engine.events.send.time", time.time)
    given = daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c")
    check_same(given, expected)
    seconds = given.history.seconds.values
    assert (seconds >= 0).all()
    assert np.sum(seconds) < DAY / 2


def test_f29_a_lease_is_not_taken_by_a_process_whose_clock_is_ahead(s3, monkeypatch):
    monkeypatch.setattr(lease, "LIFETIME", 8.0)
    monkeypatch.setattr(lease, "RENEWAL", 1.0)
    url, clock = s3.url("d"), time.time
    with Location(url, s3.options).one_writer():
        monkeypatch.setattr(time, "time", lambda: clock() + DAY)
        with pytest.raises(Busy), Location(url, s3.options).one_writer():
            pass
