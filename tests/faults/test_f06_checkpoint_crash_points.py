"""F6: a run killed at any moment of any checkpoint goes on from the one before or the new one, never from a mix."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from toy_algorithms import Tangled
from toy_runs import always_due, check_same, small_dataset

import daskfs
from daskfs.errors import CheckpointError
from daskfs.store.places.location import Location

__all__ = ["always_due"]
TESTS = Path(__file__).parents[1]
MOMENTS = ("before", "half", "whole", "after")


class Killed(BaseException):
    """Where a real process would have ended."""


@contextmanager
def dying(last: int, moment: str) -> Iterator[None]:
    """The write number `last` stops for good: before it begins, half-way, before the file gets its name, or after."""
    write, count = Location.write, 0

    def dying_write(self: Location, key: str, *parts: bytes) -> None:
        nonlocal count
        count += 1
        if count < last:
            write(self, key, *parts)
            return
        data = b"".join(parts)
        if moment == "after":
            write(self, key, *parts)
        elif moment != "before":
            there = self.path / f"{key}.00000000.part"
            there.write_bytes(data if moment == "whole" else data[: len(data) // 2])
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Location, "write", dying_write)
        yield


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize("moment", MOMENTS)
def test_f6_killed_at_every_write_of_a_checkpoint(tmp_path, moment):
    dataset, algorithm = small_dataset(tmp_path / "d"), Tangled(passes=2, revisits=True)
    expected = daskfs.select(dataset, algorithm)
    writes = 2 * dataset.n_blocks() + 2  # the start; every block but the last, the pass; the end
    for last in range(1, writes + 1):
        with dying(last, moment), pytest.raises(Killed):
            daskfs.select(dataset, algorithm, checkpoint=tmp_path / f"c{last}")
        events = []
        given = daskfs.select(dataset, algorithm, checkpoint=tmp_path / f"c{last}", resume=True, progress=events.append)
        check_same(given, expected)
        there = last - 1 if moment != "after" else last  # checkpoints that came to be
        assert len(events) == 2 * dataset.n_blocks() - min(max(there - 1, 0), 2 * dataset.n_blocks())
        assert [file.name for file in (tmp_path / f"c{last}").iterdir()] == ["checkpoint"]


@pytest.mark.usefixtures("always_due")
def test_f11_a_full_disk_is_said_and_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    dataset, write, count = small_dataset(tmp_path / "d"), Location.write, 0

    def full(self: Location, key: str, *parts: bytes) -> None:
        nonlocal count
        count += 1
        if count == 20:
            raise OSError(28, "No space left on device")
        write(self, key, *parts)

    with monkeypatch.context() as patch:
        patch.setattr(Location, "write", full)
        with pytest.raises(CheckpointError, match=r"/c: the checkpoint cannot be written: .*no space left"):
            daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c")
    events = []
    given = daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c", resume=True, progress=events.append)
    check_same(given, daskfs.select(dataset, Tangled()))
    assert len(events) == 3 * dataset.n_blocks() - 18


KILLED_IN_EARNEST = """
import os, signal, sys
import daskfs
from daskfs.engine import checkpoint
from toy_algorithms import Tangled

checkpoint.EVERY_SECONDS = 0.0
def strike(event):
    if (event.number, event.blocks_done) == (2, 5):
        os.kill(os.getpid(), signal.SIGKILL)
daskfs.select(sys.argv[1], Tangled(), checkpoint=sys.argv[2], progress=strike)
"""


def test_f5_f6_a_process_killed_in_earnest_holds_no_lock_and_can_be_resumed(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    done = subprocess.run(
        [sys.executable, "-c", KILLED_IN_EARNEST, str(tmp_path / "d"), str(tmp_path / "c")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        timeout=120,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    events = []
    given = daskfs.select(dataset, Tangled(), checkpoint=tmp_path / "c", resume=True, progress=events.append)
    check_same(given, daskfs.select(dataset, Tangled()))
    assert len(events) == 2 * dataset.n_blocks() - 4


KILLED_AT_A_WRITE = """
import os, signal, sys
import daskfs
from daskfs.engine import checkpoint

url, place, what, last, moment = sys.argv[1:]
checkpoint.EVERY_SECONDS, left, replace = 0.0, int(last), os.replace
def strike(source, target):
    global left
    left -= str(target).endswith("checkpoint")
    if left == 0 and moment == "after":
        replace(source, target)
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = strike
daskfs.select(url, eval(what), checkpoint=place)
"""
REAL = ["daskfs.OnlineSubstitution(3)", "daskfs.OnlineSubstitution(3, method='paper')", "daskfs.Mission(3, passes=3)"]


@pytest.mark.faults
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("last", range(1, 8))
@pytest.mark.parametrize("what", REAL)
def test_f6_real_algorithms_killed_in_earnest_at_a_write(tmp_path, what, last, moment):
    """SIGKILL where the checkpoint number `last` gets its name; whatever is there then, the run ends as undisturbed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60)).astype(np.float32)
    cells = sp.csr_array(X * (rng.random(X.shape) < 0.3)) if "Mission" in what else X
    daskfs.write_dataset(tmp_path / "d", cells, X[:, 3] + X[:, 40] > 0, chunk_bytes=8000)
    command = [tmp_path / "d", tmp_path / "c", what, last, moment]
    done = subprocess.run([sys.executable, "-c", KILLED_AT_A_WRITE, *map(str, command)], timeout=280, check=False)
    assert done.returncode in (0, -signal.SIGKILL)  # 0: fewer checkpoints are written
    algorithm = eval(what)
    expected = daskfs.select(tmp_path / "d", algorithm)
    given = daskfs.select(tmp_path / "d", algorithm, checkpoint=tmp_path / "c", resume=True)
    assert given.features.tolist() == expected.features.tolist()
    np.testing.assert_array_equal(given.weights, expected.weights)
    assert not list((tmp_path / "c").glob("*.part"))
    assert done.returncode == -signal.SIGKILL or last > 1
