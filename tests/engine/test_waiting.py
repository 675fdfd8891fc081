"""Waits for a cluster that is well, but for what is asked of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import wait

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from distributed.comm.core import CommClosedError
from harmed_streams import harm
from toy_runs import local_cluster, tasks_on, wait_for_no_tasks, wait_until

import daskfs
from daskfs.engine.cluster.waiting import await_connection, await_result, call, call_briefly
from daskfs.errors import Interrupted


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with local_cluster(1, processes=False) as client:
        yield client


def test_an_answer_that_never_comes_ends_the_wait(client):
    with (
        dask.config.set({"daskfs.patience": 2}),
        pytest.raises(Interrupted, match="not with what it was asked for; run the same") as caught,
    ):
        call(client, asyncio.sleep, 600, within=0.2)
    assert caught.value.exit_code == 75


@pytest.mark.filterwarnings("ignore:_GatheringFuture exception:pytest.PytestUnraisableExceptionWarning")
def test_a_fetch_that_was_cancelled_before_it_began_does_not_break_the_client(client):
    """As a time limit does on a busy machine: in a run at load 30, all later fetches failed."""
    future = client.submit(int, 3, pure=False)
    call(client, future.exception, waits_for=[future])

    async def cancel() -> None:
        fetch = asyncio.ensure_future(client._gather([future]))
        while client._gather_future is None:
            await asyncio.sleep(0)
        client._gather_future.cancel()
        await asyncio.wait([fetch])

    wait([asyncio.run_coroutine_threadsafe(cancel(), client.loop.asyncio_loop)])
    assert client._gather_future.cancelled()
    assert await_result(client, future) == 3


def test_a_connection_that_dask_gave_up_is_made_again(client, monkeypatch):
    """The scheduler had sent news with its greeting, which Dask takes for an error. No later run had a connection."""
    attempts, connect = [], client._ensure_connected

    async def connect_but_once(timeout=None):
        attempts.append(timeout)
        assert len(attempts) > 1
        await connect(timeout=timeout)

    monkeypatch.setattr(client, "_ensure_connected", connect_but_once)
    harm(client, "closed")
    wait_until(lambda: attempts)
    with dask.config.set({"daskfs.patience": 10}):
        await_connection(client)
    assert await_result(client, client.submit(int, 3, pure=False)) == 3
    assert len(attempts) == 2


def test_tasks_of_a_connection_that_dask_forgot_are_released(client):
    """As if the client were back before its old connection was cleared away: tasks would stay in memory for ever."""

    def connect_again(dask_scheduler):
        from distributed.scheduler import ClientState

        dask_scheduler.clients[client_id] = ClientState(client_id, versions={})

    client_id, futures = client.id, client.map(abs, range(5), pure=False)
    for future in futures:
        call(client, future.exception, waits_for=[future])
    client.run_on_scheduler(connect_again)
    kept = client.submit(int, 3, pure=False)
    assert await_result(client, kept) == 3
    keys = {future.key for future in futures}
    assert keys <= tasks_on(client).keys()
    await_connection(client)
    assert not keys & tasks_on(client).keys()
    assert tasks_on(client)[kept.key] == "memory"
    del kept
    wait_for_no_tasks(client)


def fail() -> None:
    raise OSError("no space left")


def test_a_call_whose_connection_is_lost_is_made_once_more(client):
    attempts = []

    def cut() -> int:
        attempts.append(time.monotonic())
        if len(attempts) % 2:
            raise CommClosedError("in <TCP (closed)>: Stream is closed")
        return 3

    assert call(client, cut) == 3
    assert len(attempts) == 2


@pytest.mark.parametrize(("error", "most"), [(OSError("of a worker that left"), 2), (TimeoutError("of the method"), 1)])
def test_an_error_that_is_not_of_the_connection_comes_back(client, error, most):
    attempts = []

    def ask() -> None:
        attempts.append(error)
        raise error

    with pytest.raises(type(error), match=str(error)):
        call(client, ask)
    assert len(attempts) == most


def test_a_silent_scheduler_is_not_waited_for_again_while_a_run_cleans_up(client, monkeypatch):
    async def silent(*_: object) -> None:
        await asyncio.sleep(600)

    with dask.config.set({"daskfs.patience": 2}):
        with monkeypatch.context() as frozen:
            frozen.setattr(client, "run_on_scheduler", silent)
            with pytest.raises(Interrupted, match="does not answer"):
                call(client, silent)
        with pytest.raises(TimeoutError):
            call_briefly(client, client.nthreads, seconds=60)
        assert call(client, client.nthreads)  # as the next run does
        assert call_briefly(client, client.nthreads)


def test_an_error_of_a_task_is_raised_as_it_is(client):
    with pytest.raises(OSError, match="no space left"):
        await_result(client, client.submit(fail, pure=False))


def test_a_scheduler_that_answers_nobody_ends_a_call(client, monkeypatch):
    def cut(*_: object) -> None:
        raise CommClosedError("in <TCP (closed)>: Stream is closed")

    monkeypatch.setattr(client, "nthreads", cut)
    with dask.config.set({"daskfs.patience": 1}), pytest.raises(Interrupted, match="gone; when they are back"):
        call(client, cut)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Dask's own task, with its error
@pytest.mark.parametrize("cancels", [True, False])
def test_a_cancelled_task_with_dependents_that_nobody_wants_closes_the_stream(client, cancels):
    """The cause of the hangs on busy machines, in Dask: docs/faults.md. Runs release, and cancel no such tasks."""
    first = client.submit(time.sleep, 1, pure=False)
    between = client.submit(str, first, pure=False)
    last = client.submit(str, between, pure=False)
    stream, key, keys = client.scheduler_comm, between.key, {first.key, between.key, last.key}
    wait_until(lambda: keys <= tasks_on(client).keys())
    between.release()
    wait_until(lambda: key not in client.futures)
    if cancels:
        client.cancel([first], force=True)
        wait_until(lambda: client.scheduler_comm is not stream and client.status == "running")
        assert last.cancelled()
    else:
        first.release()
        assert await_result(client, last) == "None"
        assert client.scheduler_comm is stream
    del first, between, last
    await_connection(client)
    wait_until(lambda: not keys & tasks_on(client).keys())


@pytest.mark.parametrize("options", [{"missing": "drop"}, {"on_bad_row": "drop"}, {}])
def test_arrays_are_written_without_a_wait_that_nobody_watches(tmp_path, client, monkeypatch, options):
    """Dask's own `compute` waits for ever if the stream of the scheduler is silent; see F33."""
    X, y = np.arange(240.0).reshape(12, 20), np.arange(12) % 2
    if options:
        X[3, 5] = np.nan
    lazy = da.from_array(X, chunks=(12, 5)), da.from_array(y, chunks=6)
    expected = daskfs.write_dataset(tmp_path / "here", X, y, **options).digest
    monkeypatch.setattr(Client, "get", None)
    with client.as_current():
        assert daskfs.write_dataset(tmp_path / "there", *lazy, **options).digest == expected
