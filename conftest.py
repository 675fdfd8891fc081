"""Docstring examples run as tests, each in an empty folder, with the names they use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _examples(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        import daskfs

        doctest_namespace.update(np=np, daskfs=daskfs, Path=Path)
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
