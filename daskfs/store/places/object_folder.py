"""A folder in an object store, through obstore. A key's bytes are one object; folders are only prefixes of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import obstore
from obstore.exceptions import BaseError

from daskfs.store.places import lease
from daskfs.store.places.connections import object_store, split_url
from daskfs.store.places.folder import Parts
from daskfs.store.places.object_errors import NotAsExpected, meaning
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.retries import TransientError, with_retries

PART_BYTES = 16 << 20  # of an upload in several requests, each of which must get through before it counts as stalled
_UPLOADS = 4  # such requests at a time
_PART_RETRIES = 10  # of one part, before all are sent again
_DELETIONS = 1000  # objects that one request may name

T = TypeVar("T")
Tag = str
"""What names one version of an object."""


class ObjectFolder:
    """See `folder.Folder`."""

    threads = 6  # each request waits for the network, so several are under way
    ahead = threads + 1  # blocks lie where they came in; the caller lets its last one go when it has the next

    def __init__(self, url: str, options: StorageOptions) -> None:
        self.url = url
        self._store: Any = object_store(url, options)
        self._patient_store: Any = object_store(url, options, retries=_PART_RETRIES)
        _, self._bucket, self._root = split_url(url)

    def fetch(self, key: str, start: int | None, stop: int | None) -> Any:
        if stop is not None and stop <= (start or 0):
            return b""
        options: Any = {}
        if start is not None or stop is not None:
            options = {"range": {"offset": start} if stop is None else (start or 0, stop)}
        return self._call(key, lambda path: _whole(obstore.get(self._store, path, options=options)))

    def size(self, key: str) -> int:
        return int(self._call(key, lambda path: obstore.head(self._store, path))["size"])

    def write(self, key: str, parts: Parts) -> None:
        flat = [memoryview(part).cast("B") for part in parts]
        self._change(key, lambda path: self._put(path, flat))

    def create(self, key: str, data: bytes) -> bool:
        return self.create_tagged(key, data) is not None

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        try:
            now, tag = self.tagged(key)
        except FileNotFoundError:
            return False
        return now == expected and self.replace_tagged(key, data, tag) is not None

    def tagged(self, key: str) -> tuple[bytes, Tag]:
        """The bytes of a key and the name of this version of them."""

        def read(path: str) -> tuple[bytes, Tag]:
            found = obstore.get(self._store, path)
            return bytes(_whole(found)), str(found.meta["e_tag"])

        return self._call(key, read)

    def create_tagged(self, key: str, data: bytes) -> Tag | None:
        """Write a key that is not there; None if it is."""
        return self._put_if(key, data, "create")

    def replace_tagged(self, key: str, data: bytes, tag: Tag) -> Tag | None:
        """Write a key whose version is still the named one; None if it is not."""
        return self._put_if(key, data, {"e_tag": tag})

    def move(self, key: str, target: str) -> None:
        self._change(key, lambda path: obstore.copy(self._store, path, self._at(target)))
        self._change(key, lambda path: obstore.delete(self._store, path))

    def exists(self, key: str) -> bool:
        try:
            self.size(key)
        except FileNotFoundError:
            return any(True for _ in self._below(key))
        return True

    def is_empty(self) -> bool:
        own = self._at(lease.KEY)
        return all(found["path"] == own for found in self._below(""))

    def members(self, key: str) -> list[str]:
        found = self._call(key, lambda path: obstore.list_with_delimiter(self._store, path or None))
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        names = [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]
        return [name for name in names if key or name != lease.KEY]

    def stored_bytes(self, key: str) -> int:
        return sum(int(found["size"]) for found in self._below(key))

    def delete(self, key: str) -> None:
        paths = [found["path"] for found in self._below(key)]
        for first in range(0, len(paths), _DELETIONS):
            some = paths[first : first + _DELETIONS]
            self._change(key, lambda _, some=some: obstore.delete(self._store, some))  # type: ignore[misc]
        if key:
            self._change(key, lambda path: _ignoring_absence(lambda: obstore.delete(self._store, path)))

    def objects(self) -> Iterable[dict[str, Any]]:
        """Everything below the folder: "path" in the bucket, "size", "e_tag"."""
        return self._below("")

    def head(self) -> dict[str, Any]:
        """The same of the object that has this very URL; FileNotFoundError if there is none."""
        return dict(self._call("", lambda path: obstore.head(self._store, path)))

    def check_writer(self) -> None:
        lease.check_writer(self.url)

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        self.members("")  # raises where there is no such bucket; some servers would make one of what is written
        with lease.held(self):
            yield

    def _at(self, key: str) -> str:
        return f"{self._root}/{key}".strip("/")

    def _below(self, key: str) -> Iterable[Any]:
        def listed(path: str) -> list[Any]:
            return [one for batch in obstore.list(self._store, path or None) for one in batch]

        return self._call(key, listed)

    def _put(self, path: str, parts: Sequence[memoryview]) -> None:
        total = sum(len(part) for part in parts)
        if total <= PART_BYTES:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            obstore.put(self._store, path, data, use_multipart=False)
        else:
            obstore.put(self._patient_store, path, iter(parts), chunk_size=PART_BYTES, max_concurrency=_UPLOADS)

    def _put_if(self, key: str, data: bytes, mode: Any) -> Tag | None:
        def put(path: str, number: int) -> Tag | None:
            try:
                return str(obstore.put(self._store, path, data, mode=mode, use_multipart=False)["e_tag"])
            except BaseError as error:
                if not isinstance(meaning(error, path, self._bucket), NotAsExpected):
                    raise
            if number == 0:
                return None
            now, tag = self.tagged(key)  # an earlier attempt may have been carried out, and its answer lost
            return tag if now == data else None

        return self._call_counted(key, put)

    def _change(self, key: str, operation: Callable[[str], object]) -> None:
        """Try to change something, and before every attempt look whether we still may: the last one may be long ago."""

        def attempt(path: str, number: int) -> None:
            if number:
                self.check_writer()
            operation(path)

        self._call_counted(key, attempt)

    def _call(self, key: str, operation: Callable[[str], T]) -> T:
        return self._call_counted(key, lambda path, number: operation(path))

    def _call_counted(self, key: str, operation: Callable[[str, int], T]) -> T:
        where = f"{self.url}/{key}".rstrip("/")

        def attempt(number: int) -> T:
            try:
                return operation(self._at(key), number)
            except (BaseError, FileNotFoundError) as error:
                raise meaning(error, where, self._bucket) from None

        return with_retries(where, attempt)


def _whole(found: Any) -> Any:
    """All bytes of an answer, as many as it announced."""
    first, last = found.range
    data = found.bytes()
    if len(data) != last - first:
        raise TransientError(f"{len(data)} bytes of {last - first} came")
    return data


def _ignoring_absence(operation: Callable[[], object]) -> None:
    with suppress(FileNotFoundError):
        operation()
