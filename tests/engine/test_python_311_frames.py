"""Looks at the frames of threads that come and go, while what is collected lets others run."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest
from toy_algorithms import Census
from toy_runs import small_dataset

import daskfs
from daskfs.engine.cluster.plugin import avoid_frame_deadlock

LOOKS = """
import gc, sys, threading, time
from daskfs.engine.cluster.plugin import avoid_frame_deadlock

class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        time.sleep(0)  # others may run

def come_and_go(until):
    while time.monotonic() < until:
        threads = [threading.Thread(target=time.sleep, args=(0,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

{first}
gc.set_threshold(1)
until = time.monotonic() + 3
others = [threading.Thread(target=come_and_go, args=(until,)) for _ in range(4)]
for thread in others:
    thread.start()
while time.monotonic() < until:
    Cycle()
    sys._current_frames()
for thread in others:
    thread.join()
print("still there")
"""


@pytest.mark.slow
def test_a_process_that_is_looked_at_goes_on():
    script = LOOKS.format(first="avoid_frame_deadlock()")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200)
    assert done.stdout == "still there\n", done.stderr


@pytest.mark.parametrize("collects", [True, False])
def test_what_is_seen_and_what_is_left(collects, monkeypatch):
    monkeypatch.setattr(sys, "_current_frames", sys._current_frames)
    avoid_frame_deadlock()
    once = sys._current_frames
    avoid_frame_deadlock()
    assert sys._current_frames is once
    (gc.enable if collects else gc.disable)()
    try:
        seen = sys._current_frames()
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    frame = seen[threading.get_ident()]
    names = [frame.f_code.co_name]
    while frame := frame.f_back:
        names.append(frame.f_code.co_name)
    assert "test_what_is_seen_and_what_is_left" in names


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from Python 3.12 on there is nothing to be done")
def test_workers_are_looked_at_safely(tmp_path, two_workers):
    daskfs.select(small_dataset(tmp_path / "d"), Census(), client=two_workers)
    assert all(two_workers.run(lambda: hasattr(sys._current_frames, "__wrapped__")).values())
    assert hasattr(sys._current_frames, "__wrapped__")
