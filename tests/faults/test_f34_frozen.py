"""F34: client, scheduler or a worker frozen (SIGSTOP) for longer than the patience, in the middle of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from dask_processes import SOURCES, TESTS, dask, said, started
from toy_runs import small_dataset

import daskfs

pytestmark = pytest.mark.faults
PATIENCE = 8.0  # seconds, in place of 40
FROZEN = 16.0  # seconds, in place of 90
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


def run(address: str, dataset: daskfs.Dataset, folder: Path) -> subprocess.Popen[str]:
    """A run in a process of its own."""
    around = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCES), str(TESTS)]),
        "DASK_DASKFS__PATIENCE": str(PATIENCE),
    }
    command = [sys.executable, str(TESTS / "frozen_run.py"), address, dataset.url, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=around)


def freeze(process: psutil.Process) -> None:
    process.send_signal(signal.SIGSTOP)
    time.sleep(FROZEN)


def begun(folder: Path) -> None:
    deadline = time.monotonic() + LONG
    while not (folder / "began").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("who", ["scheduler", "worker", "client"])
def test_f34_a_frozen_process_does_not_hang_the_run(tmp_path, who):
    dataset = small_dataset(tmp_path / "d")
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    with cluster(tmp_path) as (address, processes):
        expected, _ = run(address, dataset, undisturbed).communicate(timeout=LONG)
        command = run(address, dataset, tmp_path)
        begun(tmp_path)
        victim = {"scheduler": processes[0], "worker": processes[1], "client": psutil.Process(command.pid)}[who]
        try:
            freeze(victim)
            if who == "scheduler":  # no answer for longer than the patience: the run has ended, in one line
                out, errors = command.communicate(timeout=LONG)
                assert (command.returncode, errors) == (75, "")
                assert out == "the Dask scheduler does not answer; when it does, run the same again to go on\n"
        finally:
            victim.send_signal(signal.SIGCONT)
        if who == "scheduler":
            command = run(address, dataset, tmp_path)
        out, errors = command.communicate(timeout=LONG)
    assert (command.returncode, errors) == (0, "")
    assert out == expected  # to the last bit
