"""A folder on a local disk, in which a write goes to a temporary file that then replaces the target file."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from daskfs.errors import Busy

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

AHEAD = 2

_replacing = threading.Lock()
_locked: set[Path] = set()  # folders whose lock this process holds


class LocalFolder:
    """The operations of `Location` on a local folder."""

    ahead = AHEAD
    """Number of blocks read ahead while the caller works on a block: few, since a local disk is fast."""
    threads = 1
    """Number of threads that read blocks at the same time."""

    def __init__(self, path: Path, url: str) -> None:
        self.path, self._url = path, url

    def fetch(self, key: str, start: int | None, stop: int | None) -> bytes:
        with open(self.path / key, "rb") as file:
            file.seek(start or 0)
            return file.read() if stop is None else file.read(stop - (start or 0))

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
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            with open(temporary, "wb") as file:
                file.writelines(parts)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
