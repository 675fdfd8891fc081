"""What every worker process of a cluster gets, also after a restart or when it joins late.

Memory kept, one BLAS thread, profilers that stop nobody, the kernels of what it will be asked to do ready; and a look
at whether it may take part at all. One that may not leaves again: its log says why.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import scipy.linalg  # noqa: F401  # so that its BLAS, which kernels use, is among those limited to one thread
from distributed import Scheduler, SchedulerPlugin, Worker, WorkerPlugin
from threadpoolctl import threadpool_limits

from daskfs.errors import OptionError
from daskfs.jit import warm_up
from daskfs.store.options import StorageOptions, learn
from daskfs.stream.events import TOPIC, refused_event
from daskfs.stream.frames import look_at_frames_safely
from daskfs.stream.memory import MemoryPlan, room_on, share_of
from daskfs.stream.reporting import are_wanted
from daskfs.stream.versions import check_same, versions_here

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


class DaskfsWorker(WorkerPlugin):
    """Prepares a worker; every cluster daskfs works on gets it by itself."""

    name = "daskfs"
    idempotent = True

    def __init__(self) -> None:
        self._versions = versions_here()  # of the client, which the scheduler has too

    async def setup(self, worker: Worker) -> None:
        with _leaving(worker):
            check_same(f"worker {worker.address}", versions_here(), self._versions)
        keep_freed_memory()
        look_at_frames_safely()
        threadpool_limits(1, user_api="blas")  # Dask runs a task per core already


class WarmKernels(WorkerPlugin):
    """Compiles or loads the kernels that some modules lead to, before the first task needs them.

    Not those of all of daskfs: on a new machine the parsers of all formats alone took 52 s of CPU time when measured.
    """

    idempotent = True

    def __init__(self, *modules: str) -> None:
        self.name, self._modules = f"daskfs-kernels-{'-'.join(modules)}", modules

    async def setup(self, worker: Worker) -> None:
        del worker
        await asyncio.to_thread(warm_up, *self._modules)  # in its own time: the worker must stay responsive


class StorageAccess(WorkerPlugin):
    """Brings storage options to every worker, so that tasks need not carry them; see `store.options`.

    Dask keeps it on the scheduler for workers to come, and writes its pickle to its log where that says everything
    (level debug). The options are masked there, so that no log shows them; that is no encryption.
    """

    idempotent = True

    def __init__(self, options: StorageOptions) -> None:
        self.name = f"daskfs-storage-{options.token}"
        raw = pickle.dumps(options.values_here())
        self._token, self._mask = options.token, os.urandom(len(raw))
        self._masked = _exclusive_or(raw, self._mask)

    def setup(self, worker: Worker) -> None:
        learn(self._token, pickle.loads(_exclusive_or(self._masked, self._mask)))


def _exclusive_or(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


class EnoughMemory(WorkerPlugin):
    """Keeps workers out of a run that have less memory than it takes, and lets the others use as much as it takes.

    For Dask writes results to disk, here states that are needed again at once, from 60 % of a worker's memory on.

    Parameters
    ----------
    plan
        What it takes.
    checked
        Workers that were there when it began: they have been looked at before.
    client
        Whose run it is, by its id.
    """

    def __init__(self, plan: MemoryPlan, checked: frozenset[str], client: str) -> None:
        self._plan, self._checked = plan, checked
        self._before: tuple[float, float] | None = None  # of a worker, what it was set to
        self.name = f"{self.names_for(client)}{os.urandom(4).hex()}"

    @staticmethod
    def names_for(client: str) -> str:
        """What the names of all guards of a client begin with."""
        return f"daskfs-memory-{client}-"

    def setup(self, worker: Worker) -> None:
        manager = worker.memory_manager
        limit, used, threads = manager.memory_limit, worker.monitor.get_process_memory(), worker.state.nthreads
        if worker.address not in self._checked:
            with _leaving(worker):
                self._plan.check_worker(worker.address, room_on(limit, used, threads))
        self._before = _kept_in_memory(manager)
        if limit:
            _keep_in_memory(manager, share_of(limit, used + threads * self._plan.total))

    def teardown(self, worker: Worker) -> None:
        if self._before is not None:
            manager: Any = worker.memory_manager
            manager.memory_spill_fraction, manager.data.fast.n = self._before


def _kept_in_memory(manager: Any) -> tuple[float, float] | None:
    """From when on Dask spills: the share of a worker's memory, and bytes of results; None if it never does."""
    try:
        spill, most = manager.memory_spill_fraction, manager.data.fast.n
    except AttributeError:  # its owner keeps results elsewhere, or Dask has changed
        return None
    return (spill, most) if spill else None


def _keep_in_memory(manager: Any, share: float) -> None:
    """Let results stay in memory up to a share of it, if Dask does not do so anyway."""
    if (known := _kept_in_memory(manager)) is not None:
        manager.memory_spill_fraction = max(known[0], share)
        manager.data.fast.n = max(known[1], share * manager.memory_limit)


class WithoutGuards(SchedulerPlugin):
    """Takes the guards of runs away whose client is gone: one that was killed cannot do it itself."""

    name = "daskfs-without-guards"
    idempotent = True

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        for name in [name for name in scheduler.worker_plugins if name.startswith(EnoughMemory.names_for(client))]:
            del scheduler.worker_plugins[name]


@contextmanager
def _leaving(worker: Worker) -> Iterator[None]:
    """Close a worker that is refused; Dask itself makes no more than a note of what the plugin of a new one raises."""
    try:
        yield
    except OptionError as refusal:
        with suppress(Exception):  # those who watch may not hear of it; it leaves all the same
            if are_wanted():
                worker.log_event(TOPIC, refused_event(refusal, worker.name))
        worker.loop.add_callback(worker.close, reason=f"daskfs: {refusal}")
        raise


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed chunks instead of returning them to the system; True if it could be told.

    Dask's nanny asks for the opposite (MALLOC_TRIM_THRESHOLD_), and every chunk read would then fault in all
    its pages anew, which halves the speed of reading.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        return bool(mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES))
    return False
