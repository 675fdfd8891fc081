"""The one way daskfs compiles a kernel: `@kernel` on a function, `@warms` on a tiny call of it.

A kernel is a plain function over arrays: ``njit(nogil=True)``, one thread, no objects. Its machine
code is cached on disk, so that the second process on a machine starts at once, under rules that
hold on a cluster where many processes share one home directory:

* the folder's name carries the processor, the versions and a digest of *every* kernel source, since
  numba alone would not notice a changed callee in another file, or code built for another machine;
* it carries ``NUMBA_BOUNDSCHECK`` too, or a checked run would load unchecked code;
* a save takes a lock: numba numbers its files from an index it read earlier, so two processes
  compiling different signatures at once could hand each other the wrong code;
* where nothing can be written, kernels are compiled in memory and the program goes on.

``DASKFS_CACHE_DIR`` moves the cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba.core.caching import FunctionCache
from numba.core.options import DefaultOptions

F = TypeVar("F", bound=Callable[..., Any])

_ANY_ORDER = {"reassoc", "contract", "nsz"}
# An option numba keeps to itself: without it kernels are slower, not wrong.
_NO_COUNTING: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_warmers: list[Callable[[], object]] = []
_one_at_a_time = threading.Lock()
COMPILING = "compiling, once on this machine: some 15 seconds"
"""A message for users before kernels that are not compiled yet (`is_cold`) are used."""


def kernel(function: F) -> F:
    """Compile `function` with numba on its first call, or load it from the cache."""
    compiled: F = _cached(_njit(function, {}))
    return compiled


def summing(function: F) -> F:
    """Compile a kernel whose sums may be taken in any order, so that they fill vector registers.

    NaN and infinity keep their meaning; the same machine gives the same bits every time.
    """
    compiled: F = _cached(_njit(function, {"fastmath": _ANY_ORDER}))
    return compiled


def summing_helper(function: F) -> F:
    """Compile a `helper` of `summing` kernels, whose sums may be taken in any order, too.

    It is always inlined. A call would be bound to one of two copies, which may sum in different orders: its own in
    the process that compiled it, that in its caller's cache in all others.
    """
    compiled: F = _njit(function, {"fastmath": _ANY_ORDER, "forceinline": True} | _NO_COUNTING)
    return compiled


def helper(function: F) -> F:
    """Compile a small function that only kernels call: it becomes part of them, and of their cache.

    It must not allocate, nor call what does. In return numba does not count references to the arrays it is
    given, which would cost more than the work: 80 ns against 3 for a look into a table, when this was measured.
    """
    compiled: F = _njit(function, _NO_COUNTING)
    return compiled


def inlined(function: F) -> F:
    """Compile a `helper` that is inlined into its callers, for functions called for every entry or row.

    A call hands over a record of arrays field by field, some 60 numbers for one of eight.
    """
    compiled: F = _njit(function, {"forceinline": True} | _NO_COUNTING)
    return compiled


def _njit(function: Any, options: dict[str, Any]) -> Any:
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def warms(function: F) -> F:
    """Register a function that calls kernels on tiny arrays, of the types that real data have."""
    _warmers.append(function)
    return function


def warm_up(*modules: str) -> int:
    """Compile or load the kernels that these modules use, by default all; return how many `warms` functions ran.

    A module uses the modules that it imports functions and classes from, and those that they use. Of several
    processes that start on a new machine, one compiles, and the others wait and load.

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


def _reached(modules: Iterable[str]) -> set[str]:
    """Return the modules of daskfs that these use, themselves included."""
    reached, ahead = set[str](), {import_module(name).__name__ for name in modules}
    while ahead:
        reached |= ahead
        used = {_home(value) for name in ahead for value in vars(sys.modules[name]).values()}
        ahead = {name for name in used - reached if name.startswith("daskfs.") and name in sys.modules}
    return reached


def _home(value: object) -> str:
    """Return the name of the module that defines a value, or of the module that the value is."""
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def is_cold(module: str) -> bool:
    """Return whether kernels that a module uses must still be compiled here, which takes some seconds each."""
    folder, reached = cache_folder(), _reached([module])
    homes = [warmer.__module__.split(".")[-2:] for warmer in _warmers if warmer.__module__ in reached]
    with_kernels = [home for home in homes if home[1].endswith("kernels")]  # others warm those of their neighbours
    # numba's folder for a file is named after the folder of the source and a hash of its path
    return folder is None or not all(any(folder.glob(f"{room}_*/{file}.*.nbi")) for room, file in with_kernels)


def _cached(dispatcher: Any) -> Any:
    root = cache_folder()
    if root is not None and hasattr(dispatcher, "py_func"):  # not with NUMBA_DISABLE_JIT
        settings: Any = numba.config
        with _one_at_a_time:  # threads of a worker import modules side by side
            before, settings.CACHE_DIR = settings.CACHE_DIR, str(root)
            try:
                dispatcher._cache = _LockedCache(dispatcher.py_func)
            finally:
                settings.CACHE_DIR = before
    return dispatcher


class _LockedCache(FunctionCache):
    """numba's cache with one writer at a time; a damaged file in it is compiled anew."""

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
    """Return a digest of all that determines the machine code: processor, versions, settings, sources."""
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
