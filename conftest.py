"""Docstring examples run as tests, each in an empty folder; all tests leave nothing in the temporary directory."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        import daskfs

        doctest_namespace.update(np=np, daskfs=daskfs, Path=Path)
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


@pytest.fixture(scope="module", autouse=True)
def _return_freed_memory() -> Iterator[None]:
    """Return freed memory to the system after every file.

    Workers inside the test process tell glibc to keep freed memory, as all workers of daskfs do: a test process would
    grow to three gigabytes, of which it uses one.
    """
    yield
    with suppress(OSError, AttributeError):  # another system than Linux with glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


_IN_MEMORY = Path("/dev/shm")
_ROOM = 8 << 30  # the tests need a quarter of it


def _temporary_directory() -> str | None:
    """Return a directory in memory if there is room, since some disks take minutes to remove the tests' 200,000 files.

    The variable ``TMPDIR`` decides if it is set.
    """
    if "TMPDIR" in os.environ or not os.access(_IN_MEMORY, os.W_OK):
        return None
    free = min(shutil.disk_usage(_IN_MEMORY).free, psutil.virtual_memory().available)
    return str(_IN_MEMORY) if free > _ROOM else None


def pytest_configure(config: pytest.Config) -> None:
    """Give the tests, and every process that they start, a temporary directory of their own; remove it in the end."""
    if not hasattr(config, "workerinput"):  # processes of pytest-xdist inherit that of the one that started them
        folder = tempfile.mkdtemp(prefix="daskfs-pytest-", dir=_temporary_directory())
        os.environ["TMPDIR"], tempfile.tempdir = folder, folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
