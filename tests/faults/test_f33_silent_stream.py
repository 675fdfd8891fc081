"""F33: the scheduler's stream to the client closed, half-open or silent, before or while somebody waits for tasks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from centre_runs import K, Once, found, paced, planted
from distributed import Client
from fault_notes import note
from harmed_streams import HARMS, SECONDS, harm
from sparse_rows import POOLS, Rows
from toy_algorithms import Tangled
from toy_runs import always_due, check_same, local_cluster, small_dataset, tasks_on, wait_for_no_tasks, wait_until

import daskfs
from daskfs.engine.cluster.pool import DaskWorkers
from daskfs.engine.cluster.waiting import await_result
from daskfs.errors import Interrupted

__all__ = ["always_due"]
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")


def mostly_long(cases: Iterable[tuple[Any, ...]]) -> list[Any]:
    """The first case for `make test`, the others for `make faults`."""
    first, *others = cases
    return [pytest.param(*first), *(pytest.param(*case, marks=pytest.mark.faults) for case in others)]


@pytest.fixture(scope="module")
def workers() -> Iterator[Client]:
    with local_cluster(2) as client:
        yield client


@pytest.fixture
def client(workers: Client) -> Iterator[Client]:
    """With little patience, and in the end as good as new."""
    with dask.config.set({"daskfs.patience": SECONDS}):
        yield workers
        wait_for_no_tasks(workers)


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize(("how", "schedule"), mostly_long(product(HARMS, ["synchronous", "serial"])))
def test_f33_a_synchronous_selection_goes_on_and_is_exact(tmp_path, client, how, schedule):
    dataset = small_dataset(tmp_path / "d")
    expected = daskfs.select(dataset, Tangled(schedule=schedule), client=client)
    strike = Once(lambda: harm(client, how), 2, 1)
    slow = Tangled(schedule=schedule, seconds=0.02)
    given = daskfs.select(dataset, slow, client=client, progress=strike, checkpoint=tmp_path / "c")
    assert strike.struck is not None
    check_same(given, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "method"), mostly_long(product(HARMS, ["block", "async"])))
def test_f33_an_asynchronous_selection_goes_on(tmp_path, client, how, method):
    strike = Once(lambda: harm(client, how), 1, 2)
    given = daskfs.select(planted(tmp_path / "d"), paced(method, 0.02), client=client, progress=strike)
    assert strike.struck is not None
    assert found(given) == K


def ingested(folder: Path, client: Client | None) -> str:
    for number in range(4):
        (folder / f"{number}.svm").write_text(f"{number % 2} {number + 1}:1\n" * 100)
    return daskfs.ingest(str(folder / "*.svm"), folder / "out", format="svmlight", client=client).digest


def sparse(folder: Path) -> daskfs.Dataset:
    return Rows.random(1, 60, POOLS["hashes"]).write(folder / "rows.zarr", 10, 64)


def shuffled(folder: Path, client: Client | None) -> str:
    return daskfs.shuffle(sparse(folder), folder / "out", client=client).digest


def transposed(folder: Path, client: Client | None) -> str:
    return daskfs.transpose(sparse(folder), folder / "out", client=client).digest


def parted(folder: Path, client: Client | None) -> list[str]:
    return [part.digest for part in daskfs.split(sparse(folder), folder / "a", folder / "b", client=client)]


def verified(folder: Path, client: Client | None) -> list[Any]:
    return daskfs.verify_dataset(sparse(folder).url, client=client)


def written(folder: Path, client: Client | None) -> str:
    """Rows with gaps are looked for before anything is written, and the target is lazy, too."""
    X = da.from_array(np.arange(240.0).reshape(12, 20), chunks=(12, 5))
    with nullcontext() if client is None else client.as_current():
        y = da.from_array(np.arange(12) % 2, chunks=6)
        return daskfs.write_dataset(folder / "out", X, y, missing="drop").digest


WORKS = (ingested, shuffled, transposed, parted, verified, written)


@pytest.mark.slow
@pytest.mark.parametrize("work", mostly_long(zip(WORKS)))
def test_f33_a_stream_that_was_silent_before_does_no_harm(tmp_path, client, work: Callable[[Path, Any], Any]):
    """All later work through that client hung as well."""
    expected = here(work, tmp_path)
    harm(client, "stopped")
    assert work(tmp_path / "there", client) == expected


@pytest.mark.faults
@pytest.mark.parametrize(("work", "how"), list(product(WORKS, HARMS)))
def test_f33_a_stream_that_is_harmed_during_the_work_does_no_harm(tmp_path, client, work, how):
    expected, struck = here(work, tmp_path), threading.Event()
    striking = threading.Thread(target=strike_at_first_task, args=(client, how, struck))
    striking.start()
    try:
        assert work(tmp_path / "there", client) == expected
    finally:
        striking.join()
    assert struck.is_set()
    note(exact=True)


def here(work: Callable[[Path, Any], Any], folder: Path) -> Any:
    """What the work gives in this process; it will be done a second time on a cluster."""
    for name in ("here", "there"):
        (folder / name).mkdir()
    return work(folder / "here", None)


def strike_at_first_task(client: Client, how: str, struck: threading.Event) -> None:
    """Harm the stream as soon as the scheduler knows of a task of the work."""
    deadline = time.monotonic() + 60
    while all("daskfs-seat" in str(key) for key in list(client.cluster.scheduler.tasks)):
        if time.monotonic() > deadline:
            return
        time.sleep(0.001)
    harm(client, how)
    struck.set()


@pytest.mark.slow
@pytest.mark.parametrize("how", mostly_long(zip(HARMS)))
def test_f33_tasks_of_a_pool_are_submitted_again(client, how):
    struck = []
    results = []
    for result in DaskWorkers(client).unordered("nap", slow_square, [(number,) for number in range(12)]):
        results.append(result)
        if not struck:
            struck.append(harm(client, how))
    assert sorted(results) == [number**2 for number in range(12)]


def slow_square(number: int) -> int:
    time.sleep(0.05)
    return number**2


@pytest.mark.slow
def test_f33_a_stream_that_stays_silent_ends_the_wait_and_not_the_next(client, monkeypatch):
    """Where connecting anew does not help: the exit code 75."""
    harm(client, "stopped")
    future = client.submit(slow_square, 3, pure=False)
    monkeypatch.setattr("daskfs.engine.cluster.waiting._reconnect", lambda client: None)
    with pytest.raises(Interrupted, match="news do not arrive; run the same again") as caught:
        await_result(client, future)
    monkeypatch.undo()
    assert caught.value.exit_code == 75
    with pytest.raises(CancelledError):  # upon connecting anew
        await_result(client, future)
    assert await_result(client, client.submit(slow_square, 3, pure=False)) == 9


@pytest.mark.slow
def test_f33_a_scheduler_that_forgets_a_task_is_noticed(client):
    """The stream is alive, but will never say anything of that task."""
    future = client.submit(time.sleep, 60, pure=False)
    wait_until(lambda: future.key in tasks_on(client))
    harm(client, "released", future.key)
    with pytest.raises(CancelledError):
        await_result(client, future)
