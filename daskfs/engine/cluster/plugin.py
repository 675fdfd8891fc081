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

from daskfs.engine.cluster.python_311_frames import look_at_frames_safely
from daskfs.engine.cluster.versions import check_same, versions_here
from daskfs.engine.events.messages import TOPIC, refused_event
from daskfs.engine.events.send import are_wanted
from daskfs.engine.memory import MemoryPlan, room_on, share_of
from daskfs.errors import OptionError
from daskfs.jit import warm_up
from daskfs.store.places.options import StorageOptions, register_options

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
        raw = pickle.dumps(options.plain_values())
        self._token, self._mask = options.token, os.urandom(len(raw))
        self._masked = _exclusive_or(raw, self._mask)

    def setup(self, worker: Worker) -> None:
        register_options(self._token, pickle.loads(_exclusive_or(self._masked, self._mask)))


def _exclusive_or(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


class EnoughMemory(WorkerPlugin):
    """Keeps workers out of a run that have less memory than it takes, and lets the others use as much as it takes.

    For Dask writes results to disk, here states that are needed again at once, from 60 % of a worker's memory on.
    Runs on one cluster begin and end as they like: what a worker was set to before the first of them is handed on from
    guard to guard, and comes back with the last.

    Parameters
    ----------
    plan
        What it takes.
    checked
        Workers that have been looked at before.
    client
        Whose run it is, by its id.
    """

    def __init__(self, plan: MemoryPlan, checked: frozenset[str], client: str) -> None:
        self._plan, self._checked = plan, checked
        self._is_in_force, self._used = False, 0  # on a worker, and its bytes when that began
        self._before: tuple[float, float] | None = None  # of a worker, what it was set to before any run
        self.name = f"{self.names_for(client)}{os.urandom(4).hex()}"

    @staticmethod
    def names_for(client: str) -> str:
        """What the names of all guards of a client begin with."""
        return f"daskfs-memory-{client}-"

    def setup(self, worker: Worker) -> None:
        manager, used = worker.memory_manager, worker.monitor.get_process_memory()
        if worker.address not in self._checked:
            with _leaving(worker):
                room = room_on(manager.memory_limit, used, worker.state.nthreads)
                self._plan.check_worker(worker.address, room)
        others = self._others_on(worker)
        self._before = others[0]._before if others else _kept_in_memory(manager)
        self._is_in_force, self._used = True, used
        self._keep_in_memory(worker, [*others, self])

    def teardown(self, worker: Worker) -> None:
        if self._is_in_force:
            self._keep_in_memory(worker, self._others_on(worker))

    def _others_on(self, worker: Worker) -> list[EnoughMemory]:
        """The guards of other runs that are in force on a worker."""
        guards = [one for one in worker.plugins.values() if isinstance(one, EnoughMemory)]
        return [one for one in guards if one is not self and one._is_in_force]

    def _keep_in_memory(self, worker: Worker, guards: list[EnoughMemory]) -> None:
        """Let results stay in memory as far as these take it together, if Dask does not do so anyway."""
        if self._before is None:
            return
        manager: Any = worker.memory_manager
        spill, most = self._before
        share = 0.0
        if guards:
            used = min(guard._used for guard in guards)  # the first's: that of others counts what it has taken
            taken = worker.state.nthreads * sum(guard._plan.total for guard in guards)
            share = share_of(manager.memory_limit, used + taken)
        manager.memory_spill_fraction = max(spill, share)
        manager.data.fast.n = max(most, share * manager.memory_limit)


def _kept_in_memory(manager: Any) -> tuple[float, float] | None:
    """From when on Dask spills: the share of a worker's memory, and bytes of results; None if it never does."""
    try:
        spill, most = manager.memory_spill_fraction, manager.data.fast.n
    except AttributeError:  # its owner keeps results elsewhere, or Dask has changed
        return None
    return (spill, most) if spill and manager.memory_limit else None


class WithoutGuards(SchedulerPlugin):
    """Takes the guards of runs away whose client is gone: one that was killed cannot do it itself."""

    name = "daskfs-without-guards"
    idempotent = True

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        for name in [name for name in scheduler.worker_plugins if name.startswith(EnoughMemory.names_for(client))]:
            scheduler.loop.add_callback(_take_away, scheduler, name)


async def _take_away(scheduler: Scheduler, name: str) -> None:
    """Take a plugin away from the scheduler and from all workers, which are asked to undo what it did."""
    with suppress(Exception):  # a worker leaves while it is told; or somebody else has done it
        await scheduler.unregister_worker_plugin(None, name)


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
