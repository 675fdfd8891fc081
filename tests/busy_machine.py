"""A machine at load: processes that do nothing but compute, beside a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOOPS = 20
SECONDS = 3 * 3600
"""Until a loop ends by itself, should the tests be killed."""
LOOP = """
import os, sys, time
parent, end = os.getppid(), time.monotonic() + float(sys.argv[1])
while time.monotonic() < end and os.getppid() == parent:
    sum(range(1_000_000))
"""


@contextmanager
def busy_machine(loops: int = LOOPS) -> Iterator[None]:
    """Keep all cores busy with so many processes."""
    processes = [subprocess.Popen([sys.executable, "-c", LOOP, str(SECONDS)]) for _ in range(loops)]
    try:
        yield
        assert [process.poll() for process in processes] == [None] * loops  # busy to the end
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(60)
