"""What tests of faults have in common: they kill workers."""

from __future__ import annotations

from pathlib import Path

import pytest

LEFT_BEHIND = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
"""Dask leaves a connection that was about to be made to a worker that is killed then to the garbage collector."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(LEFT_BEHIND))
