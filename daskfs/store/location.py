"""A folder of bytes, on a local disk or behind any fsspec URL: the few operations a dataset needs.

Keys are relative, with slashes. A write is all or nothing: readers see the old bytes or the new.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import fsspec
from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore

from daskfs.errors import DatasetError

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None  # type: ignore[assignment]


class Location:
    """One dataset's folder. Small and picklable: workers open the connection themselves."""

    def __init__(self, url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        self.url = os.fspath(url).rstrip("/")
        self.options = dict(options or {})
        if "://" not in self.url or self.url.startswith("file://"):
            self.path: Path | None = Path(self.url.removeprefix("file://")).absolute()
        else:
            self.path = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Location, (self.url if self.path is None else self.path, self.options)  # others work in other folders

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and (self.url, self.options) == (other.url, other.options)

    def __hash__(self) -> int:
        return hash(self.url)

    @cached_property
    def _remote(self) -> tuple[fsspec.AbstractFileSystem, str]:
        try:
            fs, root = fsspec.core.url_to_fs(self.url, **self.options)
        except (ImportError, ValueError) as error:
            raise DatasetError(f"{self.url}: {error}") from error
        return fs, root.rstrip("/")

    def zarr_store(self) -> Store:
        """The same folder as zarr sees it, read-only."""
        if self.path is not None:
            return LocalStore(self.path, read_only=True)
        return FsspecStore.from_url(self.url, storage_options=self.options or None, read_only=True)

    def read(self, key: str, start: int | None = None, stop: int | None = None) -> bytes:
        """The bytes of a key, or a range of them; FileNotFoundError if there is none."""
        if self.path is None:
            fs, root = self._remote
            data: bytes = fs.cat_file(f"{root}/{key}", start=start, end=stop)
            return data
        with open(self.path / key, "rb") as file:
            file.seek(start or 0)
            return file.read() if stop is None else file.read(stop - (start or 0))

    def size(self, key: str) -> int:
        """How many bytes are stored under a key; FileNotFoundError if there is none."""
        if self.path is None:
            fs, root = self._remote
            return int(fs.info(f"{root}/{key}")["size"])
        return (self.path / key).stat().st_size

    def write(self, key: str, *parts: bytes | memoryview) -> None:
        """Store bytes under a key in one step; several parts are put together on the way."""
        if self.path is None:
            fs, root = self._remote
            fs.pipe_file(f"{root}/{key}", b"".join(parts))
            return
        target = self.path / key
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.part")
        try:
            with open(temporary, "wb") as file:
                file.writelines(parts)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def move(self, key: str, target: str) -> None:
        """Give bytes another key, at no cost where the store can rename."""
        if self.path is None:
            fs, root = self._remote
            fs.mv(f"{root}/{key}", f"{root}/{target}")
            return
        (self.path / target).parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.path / key, self.path / target)

    def exists(self, key: str) -> bool:
        if self.path is None:
            fs, root = self._remote
            return bool(fs.exists(f"{root}/{key}"))
        return (self.path / key).exists()

    def is_empty(self) -> bool:
        """True if nothing is stored here (or the folder does not exist)."""
        if self.path is None:
            fs, root = self._remote
            return not fs.exists(root) or not fs.find(root, maxdepth=2)
        return not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir()))

    def members(self, key: str = "") -> list[str]:
        """The names of what lies directly in the folder, or in one below it."""
        if self.path is None:
            fs, root = self._remote
            names = fs.ls(f"{root}/{key}".rstrip("/"), detail=False)
            return [name.rstrip("/").rsplit("/", 1)[-1] for name in names]
        folder = self.path / key
        return [member.name for member in folder.iterdir()] if folder.is_dir() else []

    def below(self, key: str) -> Location:
        """A folder in this one, as a place of its own."""
        return Location(f"{self.url}/{key}", self.options)

    def is_same_place(self, other: Location) -> bool:
        """True if both are one folder, whatever it is called."""
        if self.path is None or other.path is None:
            return self.url == other.url
        return self.path.resolve() == other.path.resolve()

    def is_within(self, other: Location) -> bool:
        """True if this is the other folder, or lies in it."""
        if self.path is None or other.path is None:
            return f"{self.url}/".startswith(f"{other.url}/")
        return self.path.resolve().is_relative_to(other.path.resolve())

    def sweep(self, key: str | None = None) -> None:
        """Remove what a writer that was killed has left half-written beside its target: any, or that of one key."""
        if self.path is not None:
            for part in self.path.rglob("*.part") if key is None else self.path.glob(f"{key}.*.part"):
                part.unlink(missing_ok=True)

    def stored_bytes(self, key: str) -> int:
        """Bytes of everything below a key."""
        if self.path is None:
            fs, root = self._remote
            return int(fs.du(f"{root}/{key}"))
        return sum(file.stat().st_size for file in (self.path / key).rglob("*") if file.is_file())

    def delete(self, key: str) -> None:
        """Remove a key and everything below it; nothing happens if it is not there."""
        if self.path is None:
            fs, root = self._remote
            if fs.exists(f"{root}/{key}"):
                fs.rm(f"{root}/{key}", recursive=True)
            return
        target = self.path / key
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def remove_if_empty(self) -> None:
        """Remove the folder itself, where there is such a thing, if nothing is in it."""
        if self.path is not None and self.path.is_dir() and self.is_empty():
            self.path.rmdir()

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        """Refuse to run beside another process that writes here; a killed one leaves no lock behind."""
        if self.path is None or fcntl is None:  # no such lock there; the job runner's lease covers object stores
            yield
            return
        self.path.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # on the folder itself: no lock file to forget
            except BlockingIOError:
                raise DatasetError(f"{self.url}: another process is writing here; wait for it to end") from None
            yield
        finally:
            os.close(folder)
