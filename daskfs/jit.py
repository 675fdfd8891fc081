"""Decorators that compile numba kernels, and the cache of compiled kernels on disk.

A kernel is a function of arrays, compiled with ``njit(nogil=True)`` and decorated with `@kernel`. A function decorated
with `@warms` calls kernels on tiny arrays to compile them. The machine code of kernels is cached on disk, also where
many processes share one home directory:

* The name of the cache folder contains a digest of the processor, the versions and *every* kernel source, because
  numba does not notice a changed callee in another file, or code compiled for another machine.
* The digest includes ``NUMBA_BOUNDSCHECK``, so that a process with bounds checks does not load code without checks.
* A process locks the cache while it writes, because numba chooses file names from an index read earlier, and two
  processes that compile different signatures at once could overwrite each other's files.
* If no cache folder can be written, kernels are compiled in memory.

The environment variable ``DASKFS_CACHE_DIR`` sets the folder of the cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.options import DefaultOptions
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

_ANY_ORDER = {"reassoc", "contract", "nsz"}
# An option numba keeps to itself: without it kernels are slower, not wrong.
_NO_COUNTING: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_warmers: list[Callable[[], object]] = []
_one_at_a_time = threading.Lock()
COMPILING = "compiling, once on this machine"
"""A message for users before the compilation of kernels that are not in the cache (see `is_cold`)."""
_SECONDS_BETWEEN_LINES = 4.0


def kernel(function: F) -> F:
    """Compile `function` with numba on its first call, or load its machine code from the cache."""
    return _cached(_njit(function))


def summing(function: F) -> F:
    """Compile a kernel with floating-point sums that may be reordered, so that the compiler can vectorise the sums.

    Unlike with full fastmath, NaN and infinity are allowed. Results on the same machine are reproducible bit for bit.
    """
    return _cached(_njit(function, fastmath=_ANY_ORDER))


def summing_helper(function: F) -> F:
    """Compile a `helper` of `summing` kernels, with floating-point sums that may be reordered.

    A summing helper is always inlined, because separately compiled copies of the helper could sum in different orders.
    """
    return _njit(function, fastmath=_ANY_ORDER, forceinline=True, **_NO_COUNTING)


def helper(function: F) -> F:
    """Compile a small function that only kernels call, as part of the machine code of these kernels.

    A helper must not allocate memory or call functions that allocate, because numba's reference counting is switched
    off. Reference counting would take longer than a small helper: 80 ns instead of 3 ns for a measured table lookup.
    """
    return _njit(function, **_NO_COUNTING)


def inlined(function: F) -> F:
    """Compile a `helper` that is always inlined into the calling kernel, for functions called for every entry or row.

    Inlining avoids passing a named tuple of arrays as arguments, about 60 numbers for a tuple of eight arrays.
    """
    return _njit(function, forceinline=True, **_NO_COUNTING)


def _njit(function: F, **options: Any) -> F:
    compiled: F = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return compiled


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of an array: to numba it has another type, for which kernels are compiled once more."""
    view = array.view()
    view.flags.writeable = False
    return view


def warms(function: F) -> F:
    """Register a function for `warm_up` that calls kernels on tiny arrays with the dtypes of real data."""
    _warmers.append(function)
    return function


def warm_up(*modules: str) -> int:
    """Compile or load all kernels that `modules` use (by default all kernels), and return the number of `warms` calls.

    The kernels of a module include the kernels of directly and indirectly imported modules. If several processes start
    on a new machine, one process compiles, and the other processes wait and load the kernels from the cache.

    >>> from daskfs.jit import warm_up
    >>> warm_up("daskfs.protocol")  # it uses no kernels
    0
    """
    reached = _reached(modules)  # imports them
    wanted = [warmer for warmer in _warmers if not modules or warmer.__module__ in reached]
    folder = cache_folder()
    with nullcontext() if folder is None else _locked(folder / "warm-up"):
        for warmer in wanted:
            warmer()
    return len(wanted)


@contextmanager
def announced(notify: Callable[[str], None]) -> Iterator[None]:
    """Call `notify` with a line if this process compiles kernels, and every few seconds with the number of kernels."""
    with event.install_listener("numba:compile", _CompilationLines(notify)):
        yield


class _CompilationLines(event.Listener):
    """Lines for users on the compilation of kernels, of which numba reports the start and the end."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify, self._done, self._said, self._last = notify, 0, 0, 0.0

    def on_start(self, event: Any) -> None:
        if not self._last:
            self._last = time.monotonic()
            self._notify(COMPILING)

    def on_end(self, event: Any) -> None:
        self._done += isinstance(event.data["dispatcher"]._cache, _LockedCache)  # and not a helper of a kernel
        if self._done > self._said and time.monotonic() > self._last + _SECONDS_BETWEEN_LINES:
            self._said, self._last = self._done, time.monotonic()
            self._notify(f"compiled {self._done} kernels so far")


def _reached(modules: Iterable[str]) -> set[str]:
    """Return the modules of daskfs that `modules` use directly or indirectly, including `modules`."""
    reached, ahead = set[str](), {import_module(name).__name__ for name in modules}
    while ahead:
        reached |= ahead
        used = {_home(value) for name in ahead for value in vars(sys.modules[name]).values()}
        ahead = {name for name in used - reached if name.startswith("daskfs.") and name in sys.modules}
    return reached


def _home(value: object) -> str:
    """Return the name of the module that defines a value, or the name of the value if the value is a module."""
    return str(value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None))


def is_cold(module: str) -> bool:
    """Return True if no kernel that a module uses is in the cache, so that kernels must be compiled, for seconds."""
    folder, reached = cache_folder(), _reached([module])
    homes = [warmer.__module__.split(".")[-2:] for warmer in _warmers if warmer.__module__ in reached]
    with_kernels = [home for home in homes if home[1].endswith("kernels")]  # others warm those of their neighbours
    # numba's folder for a file is named after the folder of the source and a hash of its path
    return folder is None or not any(any(folder.glob(f"{room}_*/{file}.*.nbi")) for room, file in with_kernels)


def _cached(function: F) -> F:
    dispatcher: Any = function
    root = cache_folder()
    if root is not None and hasattr(dispatcher, "py_func"):  # not with NUMBA_DISABLE_JIT
        settings: Any = numba.config
        with _one_at_a_time:  # threads of a worker import modules side by side
            before, settings.CACHE_DIR = settings.CACHE_DIR, str(root)
            try:
                dispatcher._cache = _LockedCache(dispatcher.py_func)
            finally:
                settings.CACHE_DIR = before
    return function


class _LockedCache(FunctionCache):
    """A numba function cache with one writer at a time that treats a damaged file as missing."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # a torn or foreign file: compile instead
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError), _locked(Path(self.cache_path)):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: numba's own renames must do
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, or None if no folder can be written."""
    stamp = _stamp()
    for root in _candidates():
        folder = root / f"kernels-{stamp}"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    return None


def _candidates() -> Iterator[Path]:
    if named := os.environ.get("DASKFS_CACHE_DIR"):
        yield Path(named)
    if named := os.environ.get("XDG_CACHE_HOME"):
        yield Path(named) / "daskfs"
    with suppress(RuntimeError):  # no home directory
        yield Path.home() / ".cache" / "daskfs"
    yield Path(tempfile.gettempdir()) / f"daskfs-{os.getuid() if hasattr(os, 'getuid') else 'user'}"


def _stamp() -> str:
    """Return a digest of processor, versions, settings and kernel sources, which determine the machine code."""
    digest = hashlib.sha256()
    for fact in (
        platform.machine(),
        platform.python_version(),
        numba.__version__,
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        os.environ.get("NUMBA_BOUNDSCHECK", ""),
    ):
        digest.update(fact.encode() + b"\0")
    here = Path(__file__).parent
    for source in [Path(__file__), *sorted(here.rglob("*kernels.py"))]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
