"""Small datasets of many blocks, and what it means that two runs gave the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import cloudpickle
import dask
import numpy as np
import pytest
import scipy.sparse as sp
import xarray
from distributed import Client, LocalCluster
from fault_notes import note
from faults.samples import small_blocks
from toy_algorithms import Tangled

import daskfs
from daskfs.engine.events import send
from daskfs.selection.selection import Selection

TIMES = ("seconds", "closing", "busy", "merging", "scheduler", "idle")
KINDS = ("columns", "rows", "sparse")
PATIENCE = 150.0
"""Seconds that tests wait for what takes a moment, on a machine with time for it; half of the limit of a test."""


def small_dataset(folder: Path, kind: str = "columns", seed: int = 0) -> daskfs.Dataset:
    """Fourteen blocks or so."""
    X = np.random.default_rng(seed).normal(size=(60, 40))
    y = np.arange(60) % 2
    if kind == "sparse":
        with small_blocks(entries=44):
            daskfs.write_dataset(folder, sp.csr_array(np.where(X > 0.8, X, 0)), y)
    else:
        daskfs.write_dataset(folder, X, y, layout=kind, chunk_bytes=1440)
    return daskfs.open_dataset(folder)


def tangled(kind: str = "columns", **fields: Any) -> Tangled:
    """An algorithm for which every block of such a dataset counts, once and in its place."""
    return Tangled(axis="columns" if kind == "columns" else "rows", **fields)


def check_same(given: Selection, expected: Selection) -> None:
    """Equal to the last bit, but for the time it took."""
    assert given.features.tolist() == expected.features.tolist()
    assert given.weights.tobytes() == expected.weights.tobytes()
    assert given.intercept.tobytes() == expected.intercept.tobytes()
    assert given.names == expected.names
    assert without_times(given.history).identical(without_times(expected.history))
    note(exact=True)


def without_times(history: xarray.Dataset) -> xarray.Dataset:
    """What a history says but for how long things took, which differs from run to run."""
    return history.drop_vars(TIMES, errors="ignore")


class Stop(BaseException):
    """Ends a run at a certain point, as Ctrl-C would."""


def stopping_after(events: int) -> Callable[[object], None]:
    """A progress callback that ends the run at one of its events."""
    left = events

    def progress(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Stop

    return progress


@pytest.fixture
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every block or round."""
    monkeypatch.setattr("daskfs.engine.checkpoint.EVERY_SECONDS", 0.0)


@contextmanager
def local_cluster(workers: int, processes: bool = True) -> Iterator[Client]:
    """A cluster of its own, for tests that harm it."""
    settings = {
        # A nanny whose worker is away for long is dropped by default, and a test that kills often may look like that.
        "distributed.deploy.lost-worker-timeout": "1h",
        # For so long everyone tries to reach a worker, of which a process may have been killed.
        "distributed.comm.timeouts.connect": "2s" if processes else "30s",
    }
    with dask.config.set(settings), ExitStack() as stack:
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=processes,
            host="127.0.0.1" if processes else None,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",  # that of a worker in this process is open to all by default
            silence_logs=60,
        )
        stack.callback(closed, cluster)
        client = Client(cluster, set_as_default=False)
        stack.callback(closed, client)
        yield client


def closed(part: LocalCluster | Client) -> None:
    """Close what a test has harmed: Dask may trip over workers that have left as it closes."""
    with suppress(KeyError, RuntimeError):
        part.close()


def worker_pids(client: Client, count: int) -> list[int]:
    """The process ids of so many workers, when they are all there."""
    began, n_starts = time.monotonic(), 1
    while len(pids := list(client.run(os.getpid).values())) < count:
        time.sleep(0.1)
        if time.monotonic() - began > 60 * n_starts:
            if n_starts == 4:
                raise TimeoutError(f"{len(pids)} workers of {count} after four minutes")
            if client.cluster is not None:  # a nanny has given up: let Dask start another
                client.cluster.scale(count)
            n_starts += 1
    return pids


def tasks_on(client: Client) -> dict[str, str]:
    """What the scheduler knows of, and how it stands."""
    states: dict[str, str] = client.run_on_scheduler(
        lambda dask_scheduler: {str(key): task.state for key, task in dask_scheduler.tasks.items()}
    )
    return states


def wait_until(happens: Callable[[], object], why: Callable[[], object] = str) -> None:
    """Wait for something that takes seconds at most, or minutes on a busy machine."""
    deadline = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)


def wait_for_events_of_workers(client: Client) -> None:
    """Wait until the scheduler has every event of tasks that have ended: Dask keeps a worker's messages in order."""
    wait_until(lambda: not any(client.run(lambda: len(send._unsent)).values()))
    topic = f"test-{uuid4().hex}"
    workers = client.run(lambda dask_worker: dask_worker.log_event(topic, "the last one"))
    wait_until(lambda: len(client.get_events(topic)) == len(workers))


def wait_for_no_tasks(client: Client) -> None:
    """Futures are let go of in the background."""
    wait_until(lambda: not tasks_on(client), lambda: f"left on the scheduler: {tasks_on(client)}")


def submitted_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the arguments of every task from now on: numbers of blocks, an address, futures; never arrays."""
    sizes, submit, several = [], Client.submit, Client.map

    def measure(arguments):
        plain = [argument for argument in arguments if not hasattr(argument, "key")]
        sizes.append(len(cloudpickle.dumps(plain)))

    def measuring(self, function, *arguments, **options):
        measure(arguments)
        return submit(self, function, *arguments, **options)

    def measuring_each(self, function, *arguments, **options):
        for of_one in zip(*arguments, strict=True):
            measure(of_one)
        return several(self, function, *arguments, **options)

    monkeypatch.setattr(Client, "submit", measuring)
    monkeypatch.setattr(Client, "map", measuring_each)
    return sizes
