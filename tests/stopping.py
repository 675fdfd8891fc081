"""A run that ends at any one of its operations on the store, as if it had been killed there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import daskfs
from daskfs.errors import DatasetError
from daskfs.store.places.location import Location


class Killed(BaseException):
    """Where a real process would have ended."""


@contextmanager
def dying_after(operations: int) -> Iterator[None]:
    """Everything that changes the store works so many times, and never again."""
    left = [operations]

    def counted(operation):
        def call(self, *args):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return operation(self, *args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "move", "delete"):
            patch.setattr(Location, name, counted(getattr(Location, name)))
        yield


def stopped_everywhere(run: Callable[[], object], target: Path, wanted: str, replaced: str | None) -> int:
    """Stop a run at its first operation, the next at its second, … until one comes through; how many were stopped.

    What opens in between is what is wanted, or the dataset that is to be replaced, known by its kind.
    """
    stops = 0
    while True:
        try:
            with dying_after(stops):
                run()
        except Killed:
            stops += 1
        else:
            return stops
        try:
            found = daskfs.open_dataset(target)
        except DatasetError:
            continue
        assert found.digest == wanted or found.kind == replaced
        if found.digest == wanted:
            (target / "zarr.json").unlink()  # it was complete but for the cleaning up: go on with the next stop


SLOW = """
import time
from daskfs.cli import main
from daskfs.engine.memory import ReorderMemory
from daskfs.store.places.location import Location
write = Location.write
def slowly(*arguments):
    time.sleep(0.03)
    return write(*arguments)
Location.write = slowly
ReorderMemory.of = lambda *arguments, **sizes: ReorderMemory(1, 2000, 2000)
main()
"""


@contextmanager
def killed_at(folder: Path, pattern: str, *command: str) -> Iterator[None]:
    """A slow command in a process of its own, which is killed at the end, and not before there is such a file."""
    process, deadline = subprocess.Popen([sys.executable, "-c", SLOW, *command]), time.monotonic() + 60
    try:
        while not list(folder.glob(pattern)):
            assert time.monotonic() < deadline, f"no {pattern} after a minute"
            time.sleep(0.01)
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=200) == -signal.SIGKILL
