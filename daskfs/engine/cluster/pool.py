"""Pools that run tasks: threads of this process, which use all cores as kernels release the GIL, or Dask workers.

Dask is imported by the functions that need it, since work in this process starts half a second sooner without Dask.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from daskfs.engine.cluster.waiting import (
    ATTEMPTS,
    GONE,
    as_they_end,
    await_connection,
    await_result,
    call,
    call_briefly,
)
from daskfs.engine.cluster.worker_pool import keep_a_worker, register
from daskfs.errors import Interrupted, OptionError, WorkerError
from daskfs.store.places.options import StorageOptions

if TYPE_CHECKING:
    from distributed import Client

Task = tuple[Any, ...]
WAIT_FOR_WORKERS = 30  # seconds; an adaptive cluster needs a moment to start the first
ProgressCallback = Callable[[int, int], None]
"""Called with the amount of finished work, and the total amount of work."""


class ProgressCounter:
    """Counts finished work and reports the count to a callback."""

    def __init__(self, total: int, progress: ProgressCallback | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, count: int) -> None:
        """Add `count` to the amount of finished work."""
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)


class Threads:
    """A pool of threads of this process."""

    def __init__(self, workers: int | None = None) -> None:
        self.sharing = workers or available_cores()  # how many tasks share this process's memory

    def limited_to(self, workers: int) -> Threads:
        """Return a pool of at most `workers` threads, so that their tasks keep within a memory budget."""
        return Threads(workers)

    def unordered(self, name: str, function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield results as tasks end. An error cancels the tasks that have not begun."""
        queue = iter(tasks)
        with ThreadPoolExecutor(self.sharing, thread_name_prefix=f"daskfs-{name}") as executor:
            running: set[Future[Any]] = {executor.submit(function, *task) for task in islice(queue, self.sharing)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    running |= {executor.submit(function, *task) for task in islice(queue, 1)}
                    yield result

    def everywhere(self, function: Callable[[], object]) -> None:
        """Call a function once, since all tasks of this pool run in this process."""
        function()


class DaskWorkers:
    """A pool of the workers of a Dask cluster."""

    def __init__(
        self, client: Client, options: Iterable[StorageOptions] = (), kernels_of: Iterable[object] = ()
    ) -> None:
        self._client = client
        self.sharing = 1
        prepare_workers(client, options, kernels_of)

    def limited_to(self, workers: int) -> DaskWorkers:
        """Return this pool, since the memory budget is that of every thread of a worker."""
        return self

    def unordered(self, name: str, function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[Any]:
        """Yield results as tasks end. An error in a task, or in the iterator of tasks, cancels the remaining tasks."""
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        key, left = f"daskfs-{name}-{os.urandom(4).hex()}", dict[int, Task]()
        numbered: Iterable[tuple[int, Task]] = enumerate(tasks)
        for attempt in range(ATTEMPTS):
            futures = dict[Any, int]()
            try:
                for number, task in numbered:
                    left[number] = task
                    name_of_task = f"{key}-{attempt}-{number}"
                    futures[self._client.submit(function, *task, key=name_of_task, pure=False)] = number
                for future in as_they_end(self._client, list(futures)):
                    result = await_result(self._client, future)
                    del left[futures[future]]
                    future.release()
                    yield result
                return
            except (CancelledError, CommClosedError) as error:
                lost, numbered = error, list(left.items())
            except KilledWorker as killed:
                raise WorkerError(
                    f"{killed.allowed_failures + 1} workers died of the same task, {name}; their logs say why, and if "
                    "it was memory, allow less (--memory) or give workers more"
                ) from killed
            finally:
                if self._client.status == "running":
                    with suppress(TimeoutError):
                        call_briefly(self._client, self._client.cancel, list(futures))
            await_connection(self._client)
        raise Interrupted(GONE) from lost

    def everywhere(self, function: Callable[[], object]) -> None:
        """Call a function on every worker of the cluster that can be reached."""
        call(self._client, partial(self._client.run, function, on_error="ignore"))


Pool = Threads | DaskWorkers


def pool(
    client: Client | None = None,
    workers: int | None = None,
    options: Iterable[StorageOptions] = (),
    kernels_of: Iterable[object] = (),
) -> Pool:
    """Return a pool of the given or current Dask client, or a pool of threads of this process without a client.

    The arguments `options` and `kernels_of` are passed to `prepare_workers`.
    """
    if client is None and workers is None:
        client = current_client()
    return Threads(workers) if client is None else DaskWorkers(client, options, kernels_of)


def current_client() -> Client | None:
    """Return the current Dask client, or None if there is none, or in a task, which must not wait for other tasks."""
    if "distributed" not in sys.modules:  # then nobody has made a client
        return None
    from distributed import get_client, get_worker

    with suppress(ValueError):
        get_worker()
        return None
    with suppress(ValueError):
        return get_client()
    return None


def prepare_workers(client: Client, options: Iterable[StorageOptions] = (), kernels_of: Iterable[object] = ()) -> None:
    """Wait for the first worker, check versions, and register the plugins for all present and future workers.

    The plugins give workers the `options` of the stores that tasks will use, and compile or load the kernels of the
    objects `kernels_of` that tasks will use, such as an algorithm.
    """
    from daskfs.engine.cluster.plugin import (
        DaskfsWorker,
        StorageAccess,
        WarmKernels,
        avoid_frame_deadlock,
        check_versions,
    )

    avoid_frame_deadlock()  # the scheduler of a local cluster is in this process
    with keep_a_worker(client):
        try:
            call(client, partial(client.wait_for_workers, 1, timeout=WAIT_FOR_WORKERS))
        except TimeoutError:
            raise OptionError("no worker has joined the Dask scheduler; start some, or leave the cluster out") from None
        check_versions(client)
        register(client, DaskfsWorker())
        for each in set(filter(None, options)):
            register(client, StorageAccess(each))
        if modules := sorted({type(used).__module__ for used in kernels_of}):
            register(client, WarmKernels(*modules))


def in_order(where: Pool, name: str) -> Callable[[Callable[..., Any], Iterable[Task]], list[Any]]:
    """Return a function that maps another function over argument tuples in a pool and returns the list of results.

    Modules of the store take the returned function as an argument, so that these modules need not import Dask.
    """

    def run(function: Callable[..., Any], tasks: Iterable[Task]) -> list[Any]:
        calls = [(function, number, task) for number, task in enumerate(tasks)]
        results = dict(where.unordered(name, _numbered, calls))
        return [results[number] for number in range(len(calls))]

    return run


def _numbered(function: Callable[..., Any], number: int, task: Task) -> tuple[int, Any]:
    return number, function(*task)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
