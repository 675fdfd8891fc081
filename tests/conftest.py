"""What every test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import loopback
import pytest
from chromium import chromium
from distributed import Client, LocalCluster
from fault_table import _noted, pytest_runtest_logreport, pytest_terminal_summary
from hypothesis import settings
from s3_server import s3

from daskfs.engine.cluster import connect

__all__ = ["_noted", "chromium", "pytest_runtest_logreport", "pytest_terminal_summary", "s3", "two_workers"]

loopback.refuse()
os.environ["COLUMNS"] = "200"  # tables of the terminal do not wrap, whoever runs the tests

# A script that runs the tests in the background lets them ignore Ctrl-C, and with them the programs they send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The first example of a test may compile a kernel, and the machine may be busy: time decides nothing here.
settings.register_profile("daskfs", deadline=None, print_blob=True)
settings.load_profile("daskfs")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of a test as slow, except the first, if the test is marked `slow_but_first`."""
    begun: set[str] = set()
    for item in items:
        if item.get_closest_marker("slow_but_first"):
            name = item.nodeid.partition("[")[0]
            if name in begun:
                item.add_marker("slow")
            begun.add(name)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a scheduler that is not there."""
    monkeypatch.setattr(connect, "ANSWER_SECONDS", 1)


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Client]:
    """A real cluster of two worker processes on this machine."""
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=40,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
