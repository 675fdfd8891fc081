"""Schedulers and workers as people start them: processes of their own, of the `dask` command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import daskfs

TESTS = Path(__file__).parent
SOURCES = Path(daskfs.__file__).parents[1]
START_SECONDS = 120


@contextmanager
def started(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes to a log, killed in the end with all that it started."""
    paths = [(environment or {}).get("PYTHONPATH", ""), str(SOURCES), str(TESTS)]
    around = {**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=around, start_new_session=True
        )
    try:
        yield process
    finally:
        with_group(process)


def with_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and everything in it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait(10)


def dask(command: str, *arguments: str) -> list[str]:
    """The command line of ``dask scheduler`` or ``dask worker``."""
    return [sys.executable, "-m", "dask", command, *arguments]


def said(log: Path, pattern: str, seconds: float = START_SECONDS) -> re.Match[str]:
    """What a process has written to its log, once it has."""
    deadline = time.monotonic() + seconds
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        assert time.monotonic() < deadline, f"{log}: {log.read_text(errors='replace')[-3000:]}"
        time.sleep(0.1)
    return found


@contextmanager
def scheduler(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """A scheduler on loopback; its address."""
    log = folder / "scheduler.log"
    command = dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0", *arguments)
    with started(command, log, environment):
        yield said(log, r"Scheduler at:\s+(\S+)")[1]


@contextmanager
def worker(
    address: str, log: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of one thread on loopback; perhaps not there yet."""
    command = dask("worker", address, "--nthreads", "1", "--host", "127.0.0.1", "--no-dashboard", *arguments)
    with started(command, log, environment) as process:
        yield process


@dataclass(frozen=True)
class Processes:
    """A scheduler and its workers: where they are to be found."""

    address: str
    pages: str
    """The address of the scheduler's pages, without a slash behind."""
    folder: Path

    def page(self, name: str) -> str:
        """What the scheduler answers to a plain request."""
        with urlopen(f"{self.pages}/{name}", timeout=START_SECONDS) as answer:
            return str(answer.read().decode())

    @property
    def log(self) -> str:
        """What the scheduler has said."""
        return (self.folder / "scheduler.log").read_text()


@contextmanager
def dask_processes(folder: Path, workers: int = 2, options: Sequence[str] = ()) -> Iterator[Processes]:
    """A scheduler with these options, and so many workers; all end with the block."""
    with ExitStack() as running:
        address = running.enter_context(scheduler(folder, *options))
        for number in range(workers):
            running.enter_context(worker(address, folder / f"worker{number}.log", "--local-directory", str(folder)))
        pages = said(folder / "scheduler.log", r"dashboard at:\s+(http://[^/\s]+)")[1]
        yield Processes(address, pages, folder)
