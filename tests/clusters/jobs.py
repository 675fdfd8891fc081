"""The job files of docs/clusters.md, run as they stand there but for what is different on this machine."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

DOCUMENT = Path(__file__).parents[2] / "docs" / "clusters.md"
DASKFS = Path(sys.executable).parent / "daskfs"
RUN_SECONDS = 400  # kernels may have to be compiled first, on a machine with other things to do
END_SECONDS = 60


def documented(start: str) -> str:
    """The job file of the document that starts a class."""
    jobs = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (text,) = [job for job in jobs if tomllib.loads(job)["cluster"]["start"] == start]
    return str(text)


@dataclass(frozen=True)
class Ran:
    """What came of a run."""

    code: int
    out: str
    errors: str


def run(job: Path, changes: Mapping[str, Any], *flags: str, environment: Mapping[str, str]) -> Ran:
    """``daskfs run`` with other values, as a process of its own in the folder of the job."""
    command = [str(DASKFS), "run", job.name, *flags]
    for key, value in changes.items():
        command += ["--set", f"{key}={toml(value)}"]
    done = subprocess.run(
        command, cwd=job.parent, env=dict(environment), capture_output=True, text=True, timeout=RUN_SECONDS
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def toml(value: Any) -> str:
    """A value as TOML has it: as JSON does, but for tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def selection_of(out: Path) -> bytes:
    """The selection that a job made, to the last byte."""
    (record,) = out.glob("runs/*/selection.json")
    return record.read_bytes()


def workers_of(out: Path) -> int:
    """How many the run was shared among, as its record has it."""
    (record,) = out.glob("runs/*/run.json")
    return int(json.loads(record.read_text())["workers"])


def check_refused(ran: Ran, *reasons: str) -> None:
    """One line that says why, and the exit code of bad input."""
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.errors.startswith("error: "), ran.errors
    assert ran.errors.count("\n") == 1, ran.errors
    for reason in reasons:
        assert reason in ran.errors


def missing(*programs: str) -> str:
    """Why a service cannot be started here; nothing if it can."""
    absent = [program for program in programs if program_at(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


def program_at(name: str) -> str | None:
    """Where a program is, also one that only root has on its path or that came with a Python package."""
    places = ["/usr/sbin", "/sbin", str(DASKFS.parent)]
    return shutil.which(name) or shutil.which(name, path=":".join(places))


def eventually(question: Callable[[], bool], seconds: float = END_SECONDS) -> bool:
    """Whether something comes true in time."""
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def marked(mark: str) -> list[psutil.Process]:
    """Processes that carry a word in their environment: those that a service started, wherever they are now."""
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.environ().values() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # it has just ended, or is somebody else's
            continue
    return found


@contextmanager
def swept(mark: str) -> Iterator[None]:
    """Whoever carries the word is killed in the end, also those who lead a session of their own."""
    try:
        yield
    finally:
        for process in marked(mark):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def free_port() -> int:
    """A port of loopback at which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
