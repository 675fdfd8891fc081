"""What every worker process of a cluster gets, also after a restart: kernels ready, memory kept, one BLAS thread."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from contextlib import suppress

import scipy.linalg  # noqa: F401  # so that its BLAS, which kernels use, is among those limited to one thread
from distributed import Worker, WorkerPlugin
from threadpoolctl import threadpool_limits

import daskfs.store.formats  # noqa: F401  # so that their kernels are among those warmed up
from daskfs.jit import warm_up

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 1 << 30


class DaskfsWorker(WorkerPlugin):
    """Prepares a worker; every cluster daskfs works on gets it by itself."""

    name = "daskfs"
    idempotent = True

    async def setup(self, worker: Worker) -> None:
        keep_freed_memory()
        threadpool_limits(1, user_api="blas")  # Dask runs a task per core already
        await asyncio.to_thread(warm_up)  # compiling takes long the first time; the worker must stay responsive


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
