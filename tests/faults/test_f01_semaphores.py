"""F1: a command whose workers were killed leaves no semaphores behind, of which Python would warn as it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

import daskfs

pytestmark = pytest.mark.slow
LONG = 250  # seconds: a limit for what would otherwise hang


def workers_of(command: psutil.Process) -> list[psutil.Process]:
    return [child for child in command.children(recursive=True) if "spawn_main" in " ".join(child.cmdline())]


def test_f1_killed_workers_leave_no_semaphores(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3000)).astype(np.float32)
    daskfs.write_dataset(tmp_path / "d", X, X[:, :20].sum(1), chunk_bytes=100_000)
    options = ["-a", "substitution", "-k", "20", "--processes", "2", "--out", str(tmp_path / "run")]
    main = [sys.executable, "-c", "from daskfs.cli import main; main()", "select", str(tmp_path / "d"), *options]
    with subprocess.Popen(main, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as command:
        deadline = time.monotonic() + LONG
        while not (tmp_path / "run/checkpoint").exists():
            assert command.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed = workers_of(psutil.Process(command.pid))
        assert killed
        os.kill(killed[0].pid, signal.SIGKILL)
        _, errors = command.communicate(timeout=LONG)
    assert command.returncode == 0, errors
    assert "semaphore" not in errors
    assert "resource_tracker" not in errors
