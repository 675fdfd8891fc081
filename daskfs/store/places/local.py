"""A folder on a local disk. Writes go to a file beside their target first, and then take its place."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daskfs.errors import Busy
from daskfs.store.places.folder import Parts

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]

AHEAD = 2  # blocks held ready while one is worked on: the disk is fast

_changing = threading.Lock()
_held: set[Path] = set()  # folders this process is the one writer of


class LocalFolder:
    """See `folder.Folder`."""

    ahead, threads = AHEAD, 1

    def __init__(self, path: Path, url: str) -> None:
        self.path, self._url = path, url

    def fetch(self, key: str, start: int | None, stop: int | None) -> bytes:
        with open(self.path / key, "rb") as file:
            file.seek(start or 0)
            return file.read() if stop is None else file.read(stop - (start or 0))

    def size(self, key: str) -> int:
        return (self.path / key).stat().st_size

    def write(self, key: str, parts: Parts) -> None:
        with self._written_beside(key, parts) as temporary:
            os.replace(temporary, self.path / key)

    def create(self, key: str, data: bytes) -> bool:
        with self._written_beside(key, (data,)) as temporary:
            try:
                os.link(temporary, self.path / key)
            except FileExistsError:
                return False
        return True

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        with _changing, self._locked():
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

    def check_writer(self) -> None:
        """A lock of this system is never lost."""

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield
            return
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # on the folder itself: no lock file to forget
            except BlockingIOError:
                raise Busy(f"{self._url}: another process is writing here; wait for it to end") from None
            _held.add(self.path)
            try:
                yield
            finally:
                _held.discard(self.path)
        finally:
            os.close(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else changes the folder meanwhile; a process that is its one writer need not wait for itself."""
        if fcntl is None or self.path in _held or not self.path.is_dir():
            yield
            return
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    @contextmanager
    def _written_beside(self, key: str, parts: Parts) -> Iterator[Path]:
        target = self.path / key
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            with open(temporary, "wb") as file:
                file.writelines(parts)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
