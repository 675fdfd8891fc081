"""A folder on a local disk, in an object store or behind any fsspec URL, with the operations that a dataset needs.

The key of a file is its path in the folder. Writes are atomic, so that readers see the old or the new bytes of a key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, hide_secrets, public_url
from daskfs.store.places.connections import object_store
from daskfs.store.places.fsspec import FsspecFolder
from daskfs.store.places.local import LocalFolder, sweep
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.retries import mark_answered

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from daskfs.store.places.object_folder import ObjectFolder


class Location:
    """The folder of a dataset, with a small pickle that holds no secret; every worker opens its own connection."""

    def __init__(self, url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> None:
        if not os.fspath(url):
            raise OptionError("a place must have a name, and this is empty; '.' is the current folder")
        self.url = os.fspath(url).rstrip("/")
        hide_secrets(self.url)
        self.options = StorageOptions(options)
        is_local = "://" not in self.url or self.url.startswith("file://")
        self.path = Path(self.url.removeprefix("file://")).absolute() if is_local else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_other_process, (
            self.path or self.url,
            self.options,
        )  # absolute: workers have other current folders

    def __repr__(self) -> str:
        return f"<Location {public_url(self.url)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and (self.url, self.options) == (other.url, other.options)

    def __hash__(self) -> int:
        return hash(self.url)

    @cached_property
    def folder(self) -> LocalFolder | FsspecFolder | ObjectFolder:
        """The implementation of this location's operations for a local disk, an object store or fsspec."""
        if self.path is not None:
            return LocalFolder(self.path, self.url)
        if object_store(self.url, self.options) is None:
            return FsspecFolder(self.url, self.options)
        from daskfs.store.places.object_folder import ObjectFolder  # needs obstore, which is an extra

        return ObjectFolder(self.url, self.options)

    def zarr_store(self) -> Store:
        """Return the folder as a read-only Zarr store, in which a missing chunk is an error."""
        from daskfs.store.places.zarr_store import LocationStore  # here, since importing zarr takes a fifth of a second

        return LocationStore(self)

    def read(self, key: str, start: int | None = None, stop: int | None = None, *, most: int | None = None) -> bytes:
        """Return the bytes of a key, or a range of the bytes. Raise FileNotFoundError if the key does not exist.

        Raise `TooLarge`, an OSError, before a byte is read if the key has more than `most` bytes.
        """
        return bytes(self.folder.fetch(key, start, stop, most))

    def fetch(self, key: str, most: int | None = None) -> NDArray[np.uint8]:
        """Return the bytes of a key as an array that is not a copy and must not be written to.

        Raise `TooLarge`, an OSError, before a byte is read if the key has more than `most` bytes.
        """
        return np.frombuffer(self.folder.fetch(key, None, None, most), np.uint8)

    def size(self, key: str) -> int:
        """Return the number of bytes stored under a key. Raise FileNotFoundError if the key does not exist."""
        return self.folder.size(key)

    def write(self, key: str, *parts: bytes | memoryview) -> None:
        """Store bytes under a key in one atomic step; several parts are concatenated."""
        self.folder.write(key, parts)

    def create(self, key: str, data: bytes) -> bool:
        """Store bytes under a new key, or return False if the key exists; of several concurrent calls one succeeds."""
        return self.folder.create(key, data)

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        """Replace the bytes of a key if the present bytes equal `expected`, otherwise return False.

        Of several concurrent calls of `replace_if` one succeeds, except behind fsspec, which has no conditional writes.
        """
        return self.folder.replace_if(key, data, expected)

    def move(self, key: str, target: str) -> None:
        """Rename a key, by copying and deleting where the store cannot rename."""
        self.folder.move(key, target)

    def exists(self, key: str) -> bool:
        """Return True if the key, or any key below the key, exists."""
        return self.folder.exists(key)

    def is_empty(self) -> bool:
        """Return True if the folder is empty or does not exist."""
        return self.folder.is_empty()

    def members(self, key: str = "") -> list[str]:
        """Return the names of the files and folders directly in this folder, or in its subfolder `key`."""
        return self.folder.members(key)

    def below(self, key: str) -> Location:
        """Return the subfolder `key` as a `Location`."""
        return Location(f"{self.url}/{key}", self.options)

    def is_same_place(self, other: Location) -> bool:
        """Return True if two locations are the same folder, even under different names."""
        if self.path is None or other.path is None:
            return self.url == other.url
        return self.path.resolve() == other.path.resolve()

    def is_within(self, other: Location) -> bool:
        """Return True if this folder is the folder `other` or lies inside `other`."""
        if self.path is None or other.path is None:
            return f"{self.url}/".startswith(f"{other.url}/")
        return self.path.resolve().is_relative_to(other.path.resolve())

    def sweep(self, key: str | None = None) -> None:
        """Delete the temporary files that killed writers have left, in the whole folder or of one key.

        The key ``"*"`` stands for all files directly in the folder.
        """
        if self.path is not None:
            sweep(
                self.path.rglob("*.part")
                if key is None
                else self.path.glob(f"{'*' if key == '*' else escape(key)}.*.part")
            )

    def stored_bytes(self, key: str) -> int:
        """Return the total size in bytes of everything stored below a key."""
        return self.folder.stored_bytes(key)

    def delete(self, key: str) -> None:
        """Delete a key and everything below the key; a key that does not exist is no error."""
        self.folder.delete(key)

    def remove_if_empty(self) -> None:
        """Delete an empty local folder; object stores have no empty folders."""
        if self.path is not None and self.path.is_dir() and self.is_empty():
            self.path.rmdir()

    def one_writer(self) -> AbstractContextManager[None]:
        """Make this process the only writer of the folder, or raise Busy if another process is writing.

        Other writers are kept out by a lock on a local disk, by a `lease` in an object store, and not at all by fsspec.
        """
        return self.folder.one_writer()


def _from_other_process(url: str | os.PathLike[str], options: StorageOptions) -> Location:
    """Return a location that another process has sent, which has been in contact with the store."""
    location = Location(url, options)
    if location.path is None:
        mark_answered(location.url)
    return location
