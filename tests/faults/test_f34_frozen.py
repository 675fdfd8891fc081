"""F34: client, scheduler or a worker frozen (SIGSTOP) for longer than the patience, in the middle of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import psutil
import pytest
from dask_processes import SOURCES, TESTS, dask, said, started
from fault_notes import note
from frozen_run import ALGORITHMS, shown
from toy_runs import small_dataset

import daskfs

pytestmark = pytest.mark.faults
PATIENCE = 8.0  # seconds, in place of 40
FROZEN = 16.0  # seconds, in place of 90
OF_USERS = (40.0, 90.0)
LIMIT = 60.0  # seconds from the fault until the run has ended or goes on; with the patience of users one minute more
LONG = 240  # seconds: a limit for what would otherwise hang


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[psutil.Process]]]:
    """The address of a scheduler, and the processes: the scheduler, and two workers without a nanny."""
    with ExitStack() as running:
        here = ("--host", "127.0.0.1")
        command = dask("scheduler", *here, "--port", "0", "--no-dashboard")
        processes = [running.enter_context(started(command, folder / "scheduler.log"))]
        address = said(folder / "scheduler.log", r"Scheduler at:\s+(\S+)")[1]
        for number in range(2):
            worker = dask("worker", address, *here, "--nthreads", "1", "--no-nanny", "--no-dashboard")
            command = [*worker, "--local-directory", str(folder)]
            processes.append(running.enter_context(started(command, folder / f"worker{number}.log")))
        yield address, [psutil.Process(process.pid) for process in processes]


def run(address: str, source: str, folder: Path, schedule: str, patience: float = PATIENCE) -> subprocess.Popen[str]:
    """A run in a process of its own."""
    around = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCES), str(TESTS)]),
        "DASK_DASKFS__PATIENCE": str(patience),
    }
    command = [sys.executable, str(TESTS / "frozen_run.py"), address, source, str(folder), schedule]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=around)


def begun(folder: Path) -> None:
    deadline = time.monotonic() + LONG
    while not (folder / "began").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def undisturbed(address: str, source: str, folder: Path, schedule: str) -> tuple[str, float]:
    """What a run prints, and the seconds it takes."""
    folder.mkdir()
    began = time.monotonic()
    out, _ = run(address, source, folder, schedule, OF_USERS[0]).communicate(timeout=LONG)
    return out, time.monotonic() - began


SCHEDULES = ("synchronous", "serial", "asynchronous")
WORKS = (*SCHEDULES, "ingest", "shuffle")


def source_of(folder: Path, work: str) -> str:
    """What a run reads: a dataset, or texts."""
    if work == "ingest":
        for number in range(40):
            (folder / f"{number}.svm").write_text(f"{number % 2} {number + 1}:1\n" * 500)
        return str(folder / "*.svm")
    return small_dataset(folder / "d", "rows" if work == "shuffle" else "columns").url


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("who", "schedule", "patience", "frozen"),
    [
        *((who, work, PATIENCE, FROZEN) for who, work in product(("scheduler", "worker", "client"), WORKS)),
        *((who, "asynchronous", *OF_USERS) for who in ("scheduler", "worker", "client")),
    ],
)
def test_f34_a_frozen_process_does_not_hang_the_run(tmp_path, who, schedule, patience, frozen):
    source = source_of(tmp_path, schedule)
    with cluster(tmp_path) as (address, processes):
        expected, seconds = undisturbed(address, source, tmp_path / "undisturbed", schedule)
        command = run(address, source, tmp_path, schedule, patience)
        begun(tmp_path)
        victim = {"scheduler": processes[0], "worker": processes[1], "client": psutil.Process(command.pid)}[who]
        struck = time.monotonic()
        try:
            victim.send_signal(signal.SIGSTOP)
            if who == "scheduler":  # no answer for longer than the patience: the run has ended, in one line
                out, errors = command.communicate(timeout=LONG)
                assert (command.returncode, errors) == (75, "")
                assert out == "the Dask scheduler does not answer; when it does, run the same again to go on\n"
                assert time.monotonic() - struck < LIMIT
            time.sleep(max(struck + frozen - time.monotonic(), 0.0))
        finally:
            victim.send_signal(signal.SIGCONT)
        if who == "scheduler":
            command = run(address, source, tmp_path, schedule, patience)
        out, errors = command.communicate(timeout=LONG)
    assert command.returncode == 0, errors
    assert out == expected  # to the last bit
    assert time.monotonic() - struck < LIMIT + frozen + 2 * seconds
    note(exact=True, recovery=max(time.monotonic() - struck - seconds, 0.0))


@pytest.mark.parametrize(("when", "schedule"), list(product(("before", "in a pass"), SCHEDULES)))
def test_f34_a_worker_that_never_wakes_is_dropped(tmp_path, when, schedule):
    """The scheduler goes on to believe in it for five minutes, and every wait for it took as long."""
    dataset = small_dataset(tmp_path / "d")
    with cluster(tmp_path) as (address, processes):
        expected, seconds = undisturbed(address, dataset.url, tmp_path / "undisturbed", schedule)
        if when == "before":  # then there is one worker in the end
            processes[1].send_signal(signal.SIGSTOP)
            expected = shown(daskfs.select(dataset, ALGORITHMS[schedule])) + "\n"
        struck = time.monotonic()
        command = run(address, dataset.url, tmp_path, schedule)
        if when == "in a pass":
            begun(tmp_path)
            processes[1].send_signal(signal.SIGSTOP)
            struck = time.monotonic()
        out, errors = command.communicate(timeout=LONG)
    taken = time.monotonic() - struck
    assert command.returncode == 0
    assert "has not been heard from for a while; others do its part" in errors
    assert out == expected
    assert taken < LIMIT + 2 * seconds
    note(exact=True, recovery=max(taken - seconds, 0.0))
