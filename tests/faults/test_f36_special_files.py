"""F36: FIFOs, devices, links and odd names as sources: said by name, and nothing waits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from faults.measured import at_most

import daskfs
from daskfs.store.places.location import Location

LINES = "1 1:2\n-1 3:4\n"


def daskfs_says(*arguments: object) -> tuple[int, str]:
    """The exit code and the only line of a command, which is given a minute."""
    command = [sys.executable, "-c", "from daskfs.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL)
    assert done.stderr.count("\n") <= 1, done.stderr
    return done.returncode, done.stderr.strip()


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


def listening(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # absolute paths may be longer than a socket allows
    return path


def folder_with(path: Path) -> Path:
    path.mkdir()
    (path / "good.svm").write_text(LINES)
    fifo(path / "pipe.svm")
    return path


SPECIAL = {
    "a FIFO": (fifo, "is a FIFO (named pipe), not a file"),
    "a link to a device": (lambda path: path.symlink_to("/dev/zero") or path, "is a device, not a file"),
    "a socket": (listening, "is a socket, not a file"),
    "a FIFO in a folder": (folder_with, "pipe.svm: is a FIFO"),
    "a link to itself": (lambda path: path.symlink_to(path) or path, "levels of symbolic links"),
    "a link that leads nowhere": (lambda path: path.symlink_to("nowhere") or path, "no such file"),
}


@pytest.mark.slow_but_first
@pytest.mark.parametrize("command", ["ingest", "select", "plan"])
@pytest.mark.parametrize(("make", "reason"), SPECIAL.values(), ids=SPECIAL)
def test_f36_special_files_are_refused_by_name(tmp_path, monkeypatch, make, reason, command):
    monkeypatch.chdir(tmp_path)
    source = make(tmp_path / "source.svm")
    out = {"ingest": (tmp_path / "out.zarr",), "select": ("-k", "1", "--out", tmp_path / "run"), "plan": ("-k", "1")}
    code, said = daskfs_says(command, source, *out[command], "--format", "svmlight")
    assert (code, reason in said, "source.svm" in said) == (2, True, True), said


def test_f36_a_pipe_is_read_as_standard_input(tmp_path):
    """What the message about a FIFO proposes."""
    rows = "".join(f"{i % 2} {i % 2 + 1}:1 9:{i}\n" for i in range(40))
    command = [sys.executable, "-c", "from daskfs.cli import main; main()", "select", "-", "-k", "1"]
    command += ["--format", "svmlight", "--out", str(tmp_path / "run"), "--serial"]
    done = subprocess.run(command, input=rows, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["a::b.svm", "s3::x.svm", "::", "a::file.svm.gz::b.svm"])
def test_f36_two_colons_in_a_local_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(LINES)
    for source in (name, tmp_path / name):
        assert daskfs.ingest(source, tmp_path / "out.zarr", "svmlight", overwrite=True).n_samples == 2


def test_f36_folders_that_contain_links_to_themselves(tmp_path):
    """Each file counts once, however the links go; links to other folders are followed."""
    top, other = tmp_path / "top", tmp_path / "other"
    (top / "inner").mkdir(parents=True)
    other.mkdir()
    (top / "a.svm").write_text(LINES)
    (top / "inner/b.svm").write_text(LINES)
    (other / "c.svm").write_text(LINES)
    (top / "itself").symlink_to(top)
    (top / "inner/back").symlink_to("..")
    (top / "other").symlink_to(other)
    (other / "again").symlink_to(top)
    assert daskfs.ingest(top, tmp_path / "out.zarr", "svmlight").n_samples == 6


@pytest.mark.parametrize("make", [make for make, _ in SPECIAL.values()][:2], ids=list(SPECIAL)[:2])
def test_f36_special_files_are_no_job_files(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    code, said = daskfs_says("run", make(tmp_path / "job.toml"))
    assert (code, f"{tmp_path}/job.toml: cannot be read: is a" in said) == (2, True), said


def test_f36_a_leftover_that_is_a_fifo_is_not_waited_for(tmp_path):
    left = fifo(tmp_path / "run.json.0123abcd.part")
    with at_most(100):
        Location(tmp_path).sweep("*")
    assert left.is_fifo()
