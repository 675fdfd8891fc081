"""A folder of bytes, on a local disk, in an object store or behind any fsspec URL: the few operations a dataset needs.

Keys are relative, with slashes. A write is all or nothing: readers see the old bytes or the new.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.abc.store import Store
from zarr.storage import LocalStore

from daskfs.errors import OptionError, public_url
from daskfs.store.places.connections import object_store
from daskfs.store.places.folder import Folder
from daskfs.store.places.fsspec import FsspecFolder
from daskfs.store.places.local import LocalFolder
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.zarr_view import LocationStore


class Location:
    """One dataset's folder. Small and picklable: workers open the connection themselves, and secrets stay here."""

    def __init__(self, url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        if not os.fspath(url):
            raise OptionError("a place must have a name, and this is empty; '.' is the current folder")
        self.url = os.fspath(url).rstrip("/")
        self.options = StorageOptions(options)
        if "://" not in self.url or self.url.startswith("file://"):
            self.path: Path | None = Path(self.url.removeprefix("file://")).absolute()
        else:
            self.path = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Location, (self.url if self.path is None else self.path, self.options)  # others work in other folders

    def __repr__(self) -> str:
        return f"<Location {public_url(self.url)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and (self.url, self.options) == (other.url, other.options)

    def __hash__(self) -> int:
        return hash(self.url)

    @cached_property
    def folder(self) -> Folder:
        """What does the work, for the kind of place this is."""
        if self.path is not None:
            return LocalFolder(self.path, self.url)
        if object_store(self.url, self.options) is None:
            return FsspecFolder(self.url, self.options)
        from daskfs.store.places.object_folder import ObjectFolder  # needs obstore, which is an extra

        return ObjectFolder(self.url, self.options)

    def zarr_store(self) -> Store:
        """The same folder as zarr sees it, read-only."""
        return LocationStore(self) if self.path is None else LocalStore(self.path, read_only=True)

    def read(self, key: str, start: int | None = None, stop: int | None = None) -> bytes:
        """The bytes of a key, or a range of them; FileNotFoundError if there is none."""
        return bytes(self.folder.fetch(key, start, stop))

    def fetch(self, key: str) -> NDArray[np.uint8]:
        """The bytes of a key where they came in, without a copy; not to be written to."""
        return np.frombuffer(self.folder.fetch(key, None, None), np.uint8)

    def size(self, key: str) -> int:
        """How many bytes are stored under a key; FileNotFoundError if there is none."""
        return self.folder.size(key)

    def write(self, key: str, *parts: bytes | memoryview) -> None:
        """Store bytes under a key in one step; several parts are put together on the way."""
        self.folder.check_writer()
        self.folder.write(key, parts)

    def create(self, key: str, data: bytes) -> bool:
        """Store bytes under a key that is not there; False if it is. Of several who try, one succeeds."""
        self.folder.check_writer()
        return self.folder.create(key, data)

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        """Store bytes in place of the expected ones; False if others are there. Of several who try, one succeeds.

        Behind fsspec, which has no such thing, it is a look and then a write.
        """
        self.folder.check_writer()
        return self.folder.replace_if(key, data, expected)

    def move(self, key: str, target: str) -> None:
        """Give bytes another key, at no cost where the store can rename."""
        self.folder.check_writer()
        self.folder.move(key, target)

    def exists(self, key: str) -> bool:
        """True if there is such a key, or something below it."""
        return self.folder.exists(key)

    def is_empty(self) -> bool:
        """True if nothing is stored here (or the folder does not exist)."""
        return self.folder.is_empty()

    def members(self, key: str = "") -> list[str]:
        """The names of what lies directly in the folder, or in one below it."""
        return self.folder.members(key)

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
        return self.folder.stored_bytes(key)

    def delete(self, key: str) -> None:
        """Remove a key and everything below it; nothing happens if it is not there."""
        self.folder.check_writer()
        self.folder.delete(key)

    def remove_if_empty(self) -> None:
        """Remove the folder itself, where there is such a thing, if nothing is in it."""
        if self.path is not None and self.path.is_dir() and self.is_empty():
            self.path.rmdir()

    def one_writer(self) -> AbstractContextManager[None]:
        """Refuse to run beside another process that writes here; a killed one is in nobody's way for long.

        On a local disk a lock, in an object store a lease (see `lease`), behind fsspec nothing.
        """
        return self.folder.one_writer()
