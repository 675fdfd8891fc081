"""Docstring examples run as tests, each in an empty folder, with the names they use; kernels are compiled before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskfs.jit import is_cold


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        import daskfs

        doctest_namespace.update(np=np, daskfs=daskfs, Path=Path)
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


def pytest_configure() -> None:
    """Compile all kernels in a process of its own first, where they are not compiled yet.

    numba's code for a sum may differ in its last bits between the process that compiled it and those that load it
    from the cache; tests that compare processes bit for bit need all of them to load it.
    """
    if is_cold():
        subprocess.run([sys.executable, "-c", "import daskfs, daskfs.jit; daskfs.jit.warm_up()"], check=True)
