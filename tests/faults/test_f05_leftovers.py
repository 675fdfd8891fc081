"""F5: what a command that was killed while it wrote a file has left is swept by the next run, and nothing else is."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskfs
from daskfs.store.places.location import Location

KILLED = """
import os, signal, sys
from daskfs.cli import main
replace, name, left = os.replace, sys.argv[1], [int(sys.argv[2])]

def kill_before(source, target):
    if str(target).endswith(name):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = kill_before
main(sys.argv[3:])
"""
JOB = """
out = "out"
[data]
train = "x.zarr"
[split]
test = 0.3
[select]
algorithm = "substitution"
k = 2
[cluster]
serial = true
"""


def run(folder: Path, name: str, number: int, *command: str) -> int:
    """The exit code of a command that kills itself before the `number`-th time a file `name` is put in place."""
    program = [sys.executable, "-c", KILLED, name, str(number), *command]
    return subprocess.run(program, cwd=folder, capture_output=True, timeout=200).returncode


def parts_in(folder: Path) -> list[str]:
    return sorted(path.name.split(".")[0] for path in folder.rglob("*.part"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).normal(size=(60, 8))
    daskfs.write_dataset(tmp_path / "x.zarr", X, X[:, 0] > 0)
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


@pytest.mark.slow_but_first
@pytest.mark.parametrize(
    ("name", "number"),
    [("run.json", 1), ("run.json", 3), ("metrics.json", 1), ("report.html", 1), ("published.json", 1)],
)
def test_f05_parts_of_a_killed_job_are_swept(folder, name, number):
    assert run(folder, name, number, "run", "job.toml") == -signal.SIGKILL
    assert parts_in(folder) == [name.split(".")[0]]
    assert run(folder, name, 0, "run", "job.toml") == 0
    assert parts_in(folder) == []
    assert (folder / "out/published.json").exists()


def test_f05_what_a_living_process_writes_stays(tmp_path):
    """So do files that only look like leftovers."""
    (tmp_path / "mine.part").write_text("a file of the user")
    (tmp_path / "a.json.0123abcd.part").write_text("a leftover")
    program = """
import sys
from pathlib import Path
from daskfs.store.places.local import LocalFolder
with LocalFolder(Path(sys.argv[1]), sys.argv[1])._temporary_file("b.json", [b"being written"]):
    print("open", flush=True)
    input()
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        Location(tmp_path).sweep("*")
        assert parts_in(tmp_path) == ["b", "mine"]
        writer.communicate("\n", timeout=200)
    assert parts_in(tmp_path) == ["mine"]
