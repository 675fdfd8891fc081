"""Dask plugins that prepare every worker process of a cluster, including workers that restart or join late.

A worker that does not pass a check, of versions or of memory, is closed, and its log contains the reason.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from types import FrameType
from typing import Any

import scipy.linalg  # noqa: F401  # so that its BLAS, which kernels use, is among those limited to one thread
from distributed import Client, Scheduler, SchedulerPlugin, Worker, WorkerPlugin
from distributed.versions import get_versions
from threadpoolctl import threadpool_limits

from daskfs.engine.cluster.waiting import call
from daskfs.engine.events.messages import TOPIC, refused_event
from daskfs.engine.events.send import events_enabled
from daskfs.engine.memory import USABLE, MemoryPlan
from daskfs.errors import OptionError
from daskfs.jit import warm_up
from daskfs.store.places.options import StorageOptions, register_options

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30
_frames_lock = threading.Lock()
Versions = Mapping[str, str | None]
WHOLE = ("daskfs", "dask", "distributed")
"""Packages whose whole version must be the same in all processes of a cluster, since they exchange pickled objects."""
FIRST_TWO = ("python", "numba", "numpy", "scipy", "zarr")
"""Packages whose first two version numbers must be the same in all processes of a cluster."""
_PACKAGES = [name for name in (*WHOLE, *FIRST_TWO) if name != "python"]


def versions_here() -> Versions:
    """Return the versions in this process of the packages to compare, with None for packages not installed."""
    return _relevant(get_versions(_PACKAGES)["packages"])


def check_versions(client: Client) -> None:
    """Raise OptionError if the scheduler or a worker of a cluster has other versions than this process."""
    versions: Any = call(client, partial(client.get_versions, packages=_PACKAGES))
    here = versions_here()
    check_same("the Dask scheduler", _relevant(versions["scheduler"]["packages"]), here)
    for address, worker in sorted(versions["workers"].items()):
        check_same(f"worker {address}", _relevant(worker["packages"]), here)


def check_same(process: str, there: Versions, here: Versions) -> None:
    """Raise OptionError if the versions in another process (`there`) differ from the versions in this process (`here`).

    >>> from daskfs.engine.cluster.plugin import check_same
    >>> check_same("worker a", {"numpy": "2.3", "zarr": None}, {"numpy": "2.4", "zarr": "3.1"})
    Traceback (most recent call last):
        ...
    daskfs.errors.OptionError: worker a has numpy 2.3 (here 2.4), no zarr (here 3.1); install the same everywhere
    """
    others = [
        f"{name} {there[name]} (here {version})" if there[name] else f"no {name} (here {version})"
        for name, version in here.items()
        if there[name] != version
    ]
    if others:
        raise OptionError(f"{process} has {', '.join(others)}; install the same everywhere")


def _relevant(versions: Versions) -> Versions:
    cut = {name: version and ".".join(version.split(".")[:2]) for name, version in versions.items()}
    return {name: versions.get(name) for name in WHOLE} | {name: cut.get(name) for name in FIRST_TWO}


class DaskfsWorker(WorkerPlugin):
    """Worker plugin, registered on every cluster, that checks versions and configures malloc, BLAS and profiling."""

    name = "daskfs"
    idempotent = True

    def __init__(self) -> None:
        self._versions = versions_here()  # of the driver, equal to those of the scheduler

    async def setup(self, worker: Worker) -> None:
        with _close_if_refused(worker):
            check_same(f"worker {worker.address}", versions_here(), self._versions)
        keep_freed_memory()
        avoid_frame_deadlock()
        threadpool_limits(1, user_api="blas")  # Dask runs a task per core already


class WarmKernels(WorkerPlugin):
    """Compiles or loads the numba kernels of the given modules, before the first task needs the kernels.

    Kernels of other modules are left out, since compiling the parsers of all formats took 52 s of CPU time.
    """

    idempotent = True

    def __init__(self, *modules: str) -> None:
        self.name, self._modules = f"daskfs-kernels-{'-'.join(modules)}", modules

    async def setup(self, worker: Worker) -> None:
        del worker
        await asyncio.to_thread(warm_up, *self._modules)  # in a thread: the worker must stay responsive


class StorageAccess(WorkerPlugin):
    """Registers storage options on every worker, so that tasks need not carry the options; see `StorageOptions`.

    The options travel as JSON. Dask keeps the plugin on the scheduler for later workers, and logs the pickle of the
    plugin at level debug; the JSON is masked there, so that no log shows it. The mask is not encryption.
    """

    idempotent = True

    def __init__(self, options: StorageOptions) -> None:
        self.name = f"daskfs-storage-{options.token}"
        raw = _json(options.plain_values())
        self._token, self._mask = options.token, os.urandom(len(raw))
        self._masked = _exclusive_or(raw, self._mask)

    def setup(self, worker: Worker) -> None:
        register_options(self._token, json.loads(_exclusive_or(self._masked, self._mask)))


def _json(options: Mapping[str, Any]) -> bytes:
    """Return storage options as JSON. Raise OptionError, without the value, for an option that JSON would change."""
    for name, value in options.items():
        try:
            is_same = json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            is_same = False
        if not is_same:
            raise OptionError(
                f"storage_options: {name!r} is a {type(value).__name__} and cannot be sent to workers; "
                "use text, numbers, true or false, None, lists, and dicts of these with text as keys"
            )
    return json.dumps(dict(options)).encode()


def _exclusive_or(text: bytes, mask: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(text, mask, strict=True))


class EnoughMemory(WorkerPlugin):
    """Refuses workers with too little memory for a selection run, and keeps the other workers from spilling states.

    From 60 % of a worker's memory on, Dask spills results to disk, which here are states that are needed again at once.
    Several selection runs may use a cluster at the same time, with one instance (a guard) for every run. The worker's
    original spill settings are copied from guard to guard, and the last guard restores the settings. Workers at the
    addresses in `checked` are known to have the memory of the `plan`; `client` is the id of the run's Dask client.
    """

    def __init__(self, plan: MemoryPlan, checked: frozenset[str], client: str) -> None:
        self._plan, self._checked = plan, checked
        self._is_active, self._used = False, 0  # on a worker, and its bytes at that moment
        self._before: tuple[float, float] | None = None  # the worker's settings before any run
        self.name = f"{self.names_for(client)}{os.urandom(4).hex()}"

    @staticmethod
    def names_for(client: str) -> str:
        """Return the prefix of the plugin names of all memory guards of a Dask client."""
        return f"daskfs-memory-{client}-"

    def setup(self, worker: Worker) -> None:
        manager, used = worker.memory_manager, worker.monitor.get_process_memory()
        if worker.address not in self._checked:
            with _close_if_refused(worker):
                self._plan.check_worker(worker.address, manager.memory_limit, used, worker.state.nthreads)
        others = self._others_on(worker)
        self._before = others[0]._before if others else _spill_settings(manager)
        self._is_active, self._used = True, used
        self._keep_in_memory(worker, [*others, self])

    def teardown(self, worker: Worker) -> None:
        if self._is_active:
            self._keep_in_memory(worker, self._others_on(worker))

    def _others_on(self, worker: Worker) -> list[EnoughMemory]:
        """Return the active memory guards of other selection runs on a worker."""
        guards = [plugin for plugin in worker.plugins.values() if isinstance(plugin, EnoughMemory)]
        return [guard for guard in guards if guard is not self and guard._is_active]

    def _keep_in_memory(self, worker: Worker, guards: list[EnoughMemory]) -> None:
        """Set the limits from which Dask spills so high that the selection runs of all given guards fit into memory."""
        if self._before is None:
            return
        manager: Any = worker.memory_manager
        spill, limit = self._before
        fraction = 0.0
        if guards:
            used = min(guard._used for guard in guards)  # of the first: later ones include what earlier runs use
            needed = worker.state.nthreads * sum(guard._plan.total for guard in guards)
            fraction = min(USABLE, (used + needed) / manager.memory_limit)  # beyond that Dask pauses the worker
        manager.memory_spill_fraction = max(spill, fraction)
        manager.data.fast.n = max(limit, fraction * manager.memory_limit)


def _spill_settings(manager: Any) -> tuple[float, float] | None:
    """Return the memory fraction and the bytes of results from which a worker spills, or None for no spilling."""
    try:
        spill, limit = manager.memory_spill_fraction, manager.data.fast.n
    except AttributeError:  # results are kept elsewhere, or Dask has changed
        return None
    return (spill, limit) if spill and manager.memory_limit else None


class RemoveGuards(SchedulerPlugin):
    """Removes the memory guards of a client that has disconnected, since a killed client cannot remove its guards."""

    name = "daskfs-without-guards"
    idempotent = True

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        for name in [name for name in scheduler.worker_plugins if name.startswith(EnoughMemory.names_for(client))]:
            scheduler.loop.add_callback(_unregister, scheduler, name)


async def _unregister(scheduler: Scheduler, name: str) -> None:
    """Remove a plugin from the scheduler and from all workers, where the plugin's `teardown` runs."""
    with suppress(Exception):  # a worker leaves meanwhile, or the plugin is already removed
        await scheduler.unregister_worker_plugin(None, name)


@contextmanager
def _close_if_refused(worker: Worker) -> Iterator[None]:
    """Close a worker whose check raises OptionError, since Dask would only log the error of a new worker's plugin."""
    try:
        yield
    except OptionError as refusal:
        with suppress(Exception):  # without the event it is closed all the same
            if events_enabled():
                worker.log_event(TOPIC, refused_event(refusal, worker.name))
        worker.loop.add_callback(worker.close, reason=f"daskfs: {refusal}")
        raise


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed memory instead of returning it to the system. Return whether glibc accepted the setting.

    Dask's nanny makes glibc return memory at once (MALLOC_TRIM_THRESHOLD_), so that every chunk read causes new page
    faults and reading takes twice as long.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        return bool(mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)) and bool(mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES))
    return False


def avoid_frame_deadlock() -> None:
    """Pause garbage collection while Dask's profiler reads the frames of all threads, on Python 3.11.

    `sys._current_frames` holds an interpreter lock while it creates objects, which may start a garbage collection. If a
    finalizer then switches to a thread that is about to end, this thread waits for the lock while it holds the GIL, and
    the process hangs (CPython issue 106883, solved in Python 3.12). The deadlock does occur, since Dask's profilers
    call `sys._current_frames` a hundred times a second, and read-ahead threads end with every task.
    """
    if sys.version_info >= (3, 12) or hasattr(sys._current_frames, "__wrapped__"):
        return
    current_frames = sys._current_frames

    @wraps(current_frames)
    def without_collection() -> dict[int, FrameType]:
        with _frames_lock:
            was_enabled = gc.isenabled()
            gc.disable()
            try:
                return current_frames()
            finally:
                if was_enabled:
                    gc.enable()

    sys._current_frames = without_collection
