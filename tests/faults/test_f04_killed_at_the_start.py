"""F4: the scheduler killed while a run of the command line starts, when Dask itself has many words for it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from dask_processes import dask, said, started, worker
from fault_notes import note

import daskfs

pytestmark = pytest.mark.slow
LINE = "interrupted: the Dask scheduler or its workers are gone; when they are back, run the same again to go on\n"
NOTICES = ("dashboard: ", "memory: ")
"""What every run says as it starts."""
COMMAND = [sys.executable, "-c", "from daskfs.cli import main; main()", "select"]
LONGEST = 600  # seconds: a limit for what would otherwise hang
MOMENTS = ("the client has come", "there is a checkpoint")
LONG = [pytest.param("async" if seed % 2 else "block", None, seed, marks=pytest.mark.faults) for seed in range(20)]


def await_file(file: Path, command: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LONGEST
    while not file.exists():
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.timeout(2000)
@pytest.mark.parametrize(
    ("method", "moment", "seed"),
    [*((method, moment, None) for method in ("block", "async") for moment in MOMENTS), *LONG],
)
def test_f4_a_scheduler_killed_at_the_start_is_said_in_one_line(tmp_path, method, moment, seed):
    rng = random.Random(seed)
    delay = 0.3 if seed is None else rng.uniform(0, 2.5)
    moment = moment or rng.choice(MOMENTS)
    X = np.random.default_rng(0).normal(size=(400, 3000)).astype(np.float32)
    dataset = daskfs.write_dataset(tmp_path / "d", X, X[:, :20].sum(1), chunk_bytes=100_000)
    options = [dataset.url, "-a", "substitution", "-k", "20", "--method", method, "--out", str(tmp_path / "run")]
    here, log = ("--host", "127.0.0.1"), tmp_path / "scheduler.log"
    with started(dask("scheduler", *here, "--port", "0", "--no-dashboard"), log) as scheduler:
        address = said(log, r"Scheduler at:\s+(\S+)")[1]
        logs = [tmp_path / f"worker{number}.log" for number in range(2)]
        with worker(address, logs[0], "--no-nanny"), worker(address, logs[1], "--no-nanny"):
            for each in logs:
                said(each, "Registered to")
            with subprocess.Popen(
                [*COMMAND, *options, "--scheduler", address],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as command:
                if moment == MOMENTS[0]:
                    said(log, "Receive client connection", LONGEST)
                else:
                    await_file(tmp_path / "run/checkpoint", command)
                time.sleep(delay)
                scheduler.send_signal(signal.SIGKILL)
                struck = time.monotonic()
                _, errors = command.communicate(timeout=LONGEST)
    taken = time.monotonic() - struck
    if command.returncode:  # otherwise it had ended before
        lines = [line for line in errors.splitlines(keepends=True) if not line.startswith(NOTICES)]
        assert (command.returncode, lines) == (75, [LINE])
        assert taken < 60
        note(recovery=taken)
    again = subprocess.run([*COMMAND, *options, "--serial"], capture_output=True, text=True, timeout=LONGEST)
    assert again.returncode == 0, again.stderr
    assert len(daskfs.load_selection(tmp_path / "run").features) == 20
