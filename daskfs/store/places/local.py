"""A folder on a local disk, in which a write goes to a temporary file that then replaces the target file.

Files may come from strangers: special files, and files that are too large, are refused before a byte is read.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from daskfs.errors import Busy

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

AHEAD = 2
_SPECIAL = {
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_TEMPORARY = re.compile(r"\.[0-9a-f]{8}\.part$")

_replacing = threading.Lock()
_locked: set[Path] = set()  # folders whose lock this process holds


class NotAFile(OSError):
    """Raised for a FIFO, a device or a socket, which may wait or go on for ever; no byte of it was read."""


class TooLarge(OSError):
    """Raised if a file is larger than what belongs there; no byte of the file was read."""

    def __init__(self, size: int, most: int) -> None:
        self.size, self.most = size, most
        super().__init__(f"{size:,} bytes, where at most {most:,} belong")

    def __reduce__(self) -> tuple[Any, ...]:
        return TooLarge, (self.size, self.most)


def special_kind(mode: int) -> str | None:
    """Return what a file is, given its mode, such as "a device"; None for regular files and folders."""
    return _SPECIAL.get(stat.S_IFMT(mode))


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Open a local file for reading without a buffer. Raise NotAFile, and do not wait, if the file is no regular file.

    >>> from daskfs.store.places.local import open_regular
    >>> open_regular("/dev/zero")
    Traceback (most recent call last):
        ...
    daskfs.store.places.local.NotAFile: is a device, not a file
    """
    file = FileIO(path, opener=_open_without_waiting)
    kind = special_kind(os.fstat(file.fileno()).st_mode)
    if kind is not None:
        file.close()
        raise NotAFile(f"is {kind}, not a file")
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a FIFO would wait for its writer


def check_size(size: int, most: int | None) -> None:
    """Raise TooLarge if a file of `size` bytes has more than `most` bytes, where `most` may be None for any number."""
    if most is not None and size > most:
        raise TooLarge(size, most)


class LocalFolder:
    """The operations of `Location` on a local folder."""

    ahead = AHEAD
    """Number of blocks read ahead while the caller works on a block: few, since a local disk is fast."""
    threads = 1
    """Number of threads that read blocks at the same time."""

    def __init__(self, path: Path, url: str) -> None:
        self.path, self._url = path, url

    def fetch(self, key: str, start: int | None, stop: int | None, most: int | None = None) -> bytes:
        with open_regular(self.path / key) as raw, BufferedReader(raw) as file:
            size = os.fstat(file.fileno()).st_size
            check_size(size, most)
            file.seek(start or 0)
            if most is not None:  # some files of the system have the size 0, and yet bytes
                stop = min(most, max(size, 1 << 16)) + 1
            data = file.read() if stop is None else file.read(stop - (start or 0))
        check_size(len(data), most)
        return data

    def size(self, key: str) -> int:
        return (self.path / key).stat().st_size

    def write(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        with self._temporary_file(key, parts) as temporary:
            os.replace(temporary, self.path / key)

    def create(self, key: str, data: bytes) -> bool:
        with self._temporary_file(key, (data,)) as temporary:
            try:
                os.link(temporary, self.path / key)
            except FileExistsError:
                return False
        return True

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        is_locked = fcntl is None or self.path in _locked or not self.path.is_dir()
        with _replacing, nullcontext() if is_locked else self._lock():
            try:
                if self.fetch(key, None, None) != expected:
                    return False
            except FileNotFoundError:
                return False
            self.write(key, (data,))
        return True

    def move(self, key: str, target: str) -> None:
        (self.path / target).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.path / key, self.path / target)

    def exists(self, key: str) -> bool:
        return (self.path / key).exists()

    def is_empty(self) -> bool:
        return not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir()))

    def members(self, key: str) -> list[str]:
        folder = self.path / key
        return [member.name for member in folder.iterdir()] if folder.is_dir() else []

    def stored_bytes(self, key: str) -> int:
        return sum(file.stat().st_size for file in (self.path / key).rglob("*") if file.is_file())

    def delete(self, key: str) -> None:
        target = self.path / key
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            if fcntl is not None:
                try:
                    stack.enter_context(self._lock(fcntl.LOCK_NB))
                except BlockingIOError:
                    raise Busy(f"{self._url}: another process is writing here; wait for it to end") from None
                _locked.add(self.path)
                stack.callback(_locked.discard, self.path)
            yield

    @contextmanager
    def _lock(self, how: int = 0) -> Iterator[None]:
        """Hold an exclusive lock on the folder itself, which the operating system releases when the process ends."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | how)
            yield
        finally:
            os.close(folder)

    @contextmanager
    def _temporary_file(self, key: str, parts: Iterable[bytes | memoryview]) -> Iterator[Path]:
        target = self.path / key
        with _named(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            with open(temporary, "wb") as file:
                with _named(target):
                    _mark_as_written(file.fileno())
                    file.writelines(parts)
                    file.flush()
                yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def sweep(parts: Iterable[Path]) -> None:
    """Delete those temporary files that no living process writes, since their writers were killed."""
    for part in parts:
        if not _TEMPORARY.search(part.name):
            continue
        with suppress(OSError), open_regular(part) as file:  # another process may sweep, too
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _mark_as_written(file: int) -> None:
    """Lock a temporary file until it is closed, so that `sweep` in another process leaves it alone."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _named(target: Path) -> Iterator[None]:
    """Add the name of the target file to errors of the operating system, which often lack it, as for a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = str(target)
        raise
