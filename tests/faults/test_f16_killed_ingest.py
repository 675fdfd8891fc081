"""F16: `daskfs ingest` SIGKILLed at random moments; and two of them at once."""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from faults.reading import files_of
from faults.samples import vw_lines

import daskfs
from daskfs.errors import DatasetError

KILLS = 10
WAIT_SECONDS = 120

# The command itself, with work cut small and each operation on the store a little slow: kills land in the middle.
SLOW_COMMAND = """
import pathlib, sys, time
import daskfs.store.ingest.arrays, daskfs.store.ingest.plan
from daskfs.cli import main
from daskfs.store.places.location import Location

daskfs.store.ingest.plan.PART_BYTES = 3000
daskfs.store.ingest.arrays.BLOCK_ENTRIES = daskfs.store.ingest.plan.BLOCK_ENTRIES = 256

def slowed(operation):
    def call(*arguments):
        pathlib.Path(sys.argv[-1] + ".begun").touch()
        time.sleep(float(sys.argv[1]))
        return operation(*arguments)
    return call

Location.write, Location.move = slowed(Location.write), slowed(Location.move)
main(sys.argv[2:])
"""


def started(sources: Path, out: Path, pause: float) -> subprocess.Popen[str]:
    begun(out).unlink(missing_ok=True)
    command = [sys.executable, "-c", SLOW_COMMAND, str(pause), "ingest", "-f", "vw", f"{sources}/*", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def begun(out: Path) -> Path:
    """The file the command makes when it does its first work on `out`."""
    return Path(f"{out}.begun")


def ended(process: subprocess.Popen[str]) -> str:
    """What a process that is about to end says on its standard error."""
    return process.communicate(timeout=WAIT_SECONDS)[1]


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists() and process.poll() is None:
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.005)


@pytest.fixture
def sources(tmp_path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    for seed in range(3):
        (folder / f"{seed}.vw").write_text(vw_lines(200, seed))
        (folder / f"{seed}.vw.xz").write_bytes(lzma.compress(vw_lines(50, 10 + seed).encode()))
    return folder


@pytest.mark.slow
def test_f16_killed_ten_times_at_random_moments(tmp_path, sources):
    whole, out = tmp_path / "whole.zarr", tmp_path / "out.zarr"
    process = started(sources, whole, pause=0.003)
    wait_for(begun(whole), process)
    begin = time.monotonic()
    assert ended(process) == ""
    duration = time.monotonic() - begin
    expected = files_of(whole)

    rng = np.random.default_rng(0)
    for _ in range(KILLS):
        process = started(sources, out, pause=0.003)
        wait_for(begun(out), process)
        time.sleep(duration * rng.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        ended(process)
        if (out / "zarr.json").exists():  # it came too late
            assert {name: (out / name).read_bytes() for name in expected} == expected
            shutil.rmtree(out)
        else:
            with pytest.raises(DatasetError, match=r"incomplete; run the same command again|no dataset here"):
                daskfs.open_dataset(out)
    process = started(sources, out, pause=0)
    assert ended(process) == ""
    assert process.returncode == 0
    assert files_of(out) == expected
    assert daskfs.verify_dataset(out) == []


@pytest.mark.slow
def test_f16_two_ingests_into_one_output(tmp_path, sources):
    out = tmp_path / "out.zarr"
    first = started(sources, out, pause=0.01)
    try:
        wait_for(out / "_unfinished" / "000000.json", first)
        os.kill(first.pid, signal.SIGSTOP)  # alive, and for as long as we like
        second = started(sources, out, pause=0)
        said = ended(second)
        assert second.returncode == 2
        assert said.splitlines() == [f"error: {out}: another process is writing here; wait for it to end"]
        with pytest.raises(DatasetError, match="another process is writing"):
            daskfs.write_dataset(out, np.eye(2), [0, 1], overwrite=True)
        os.kill(first.pid, signal.SIGCONT)
        assert ended(first) == ""
        assert first.returncode == 0
    finally:
        first.kill()
    third = started(sources, tmp_path / "whole.zarr", pause=0)
    assert ended(third) == ""
    assert files_of(out) == files_of(tmp_path / "whole.zarr")


@pytest.mark.slow
def test_f16_the_lock_of_a_killed_ingest_is_gone(tmp_path, sources):
    out = tmp_path / "out.zarr"
    first = started(sources, out, pause=0.01)
    wait_for(out / "_unfinished" / "000000.json", first)
    first.kill()
    ended(first)
    second = started(sources, out, pause=0)
    assert ended(second) == ""
    assert second.returncode == 0
    assert daskfs.verify_dataset(out) == []
