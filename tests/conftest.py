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
from pairwise import covering
from s3_server import s3
from toy_runs import wait_until

from daskfs.engine.cluster import connect

__all__ = ["_noted", "chromium", "pytest_runtest_logreport", "pytest_terminal_summary", "s3", "two_workers"]

loopback.refuse()
os.environ["COLUMNS"] = "200"  # tables of the terminal do not wrap, whoever runs the tests

# A script that runs the tests in the background lets them ignore Ctrl-C, and with them the programs they send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The first example of a test may compile a kernel, and the machine may be busy: time decides nothing here. `make test`
# has the same examples every time; `make test-all` looks for others.
settings.register_profile("quick", deadline=None, print_blob=True, derandomize=True, max_examples=30)
settings.register_profile("thorough", deadline=None, print_blob=True)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the cases of a test marked `slow_but_first` or `slow_but_cover`, except those named by its mark."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if marks & {"slow_but_first", "slow_but_cover"} and "slow" not in marks:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        cover = same[0].get_closest_marker("slow_but_cover")
        quick = covering([values_of(item) for item in same], *cover.args) if cover else {0}
        for number in set(range(len(same))) - quick:
            same[number].add_marker("slow")


def values_of(item: pytest.Item) -> dict[str, object]:
    """Return what tells the values of a test's parameters apart: plain values, and the identity of all others."""
    params = item.callspec.params.items()  # type: ignore[attr-defined]
    return {name: repr(value) if isinstance(value, str | bytes | float | int) else id(value) for name, value in params}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a scheduler that is not there."""
    monkeypatch.setattr(connect, "ANSWER_SECONDS", 1)


@pytest.fixture(autouse=True)
def _leaves_no_task_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """A task that does not end, cancelled or not, would be the next test's trouble: each worker has one thread."""
    client = request.getfixturevalue("two_workers") if "two_workers" in request.fixturenames else None
    yield
    if client is not None:
        wait_until(lambda: not any(tasks_in_threads(client)), lambda: tasks_in_threads(client))


def tasks_in_threads(client: Client) -> list[list[str]]:
    """Return the tasks that the threads of each worker are at."""
    return list(client.run(lambda dask_worker: [str(key) for key in [*dask_worker.active_threads.values()]]).values())


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
