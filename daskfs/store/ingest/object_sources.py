"""Source files in an object store: list objects, and read an object in pieces that are requested in advance."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fsspec.core import has_magic
from fsspec.utils import glob_translate

from daskfs.store.places.connections import SCHEMES, object_store, split_url
from daskfs.store.places.location import Location
from daskfs.store.places.options import StorageOptions

PIECE_BYTES = 4 << 20
AHEAD = 3  # pieces requested while one is parsed


def in_object_store(url: str, options: StorageOptions) -> bool:
    """Return True if the URL names an object store that the library obstore can read."""
    return url.startswith(tuple(f"{scheme}://" for scheme in SCHEMES)) and object_store(url, options) is not None


def find_objects(pattern: str, options: StorageOptions) -> Iterator[dict[str, Any]]:
    """Yield "name" (a URL), "size" and "ETag" of every object that the pattern (object, folder or glob) matches.

    Raise FileNotFoundError if the object or folder does not exist. Ignore hidden objects in a folder.
    """
    scheme, bucket, path = split_url(pattern)
    if not has_magic(path):
        yield from _below(f"{scheme}://{bucket}", path, options)
        return
    try:  # a name may look like a pattern, after the shell has expanded one
        yield from _below(f"{scheme}://{bucket}", path, options)
        return
    except FileNotFoundError:
        pass
    matches = re.compile(glob_translate(path)).match
    fixed = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]  # it has magic
    folder: Any = Location(f"{scheme}://{bucket}/{fixed}", options).folder
    for entry in folder.objects():
        parts = entry["path"].split("/")
        named = [n for n in range(1, len(parts) + 1) if matches("/".join(parts[:n]))]
        if named and not is_hidden(parts[named[0] :]):
            yield _describe(f"{scheme}://{bucket}", entry)


def _below(root: str, path: str, options: StorageOptions) -> Iterator[dict[str, Any]]:
    folder: Any = Location(f"{root}/{path}", options).folder
    try:
        yield _describe(root, folder.head() | {"path": path})
        return
    except FileNotFoundError:
        below = folder.objects()
    if not below:
        raise FileNotFoundError(f"{root}/{path}")
    for entry in below:
        if not is_hidden(entry["path"].removeprefix(path).split("/")):
            yield _describe(root, entry)


def is_hidden(parts: Sequence[str]) -> bool:
    """Return whether a file is not data, because its name or that of its folder begins with a dot or underscore."""
    return any(part.startswith((".", "_")) for part in parts)


def _describe(root: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"{root}/{entry['path']}", "size": entry["size"], "ETag": entry["e_tag"]}


class ObjectFile(io.RawIOBase):
    """A seekable file that reads an object in pieces, and requests pieces in advance while reads are sequential.

    No byte beyond `stop` is requested in advance.
    """

    def __init__(self, location: Location, size: int, stop: int | None = None) -> None:
        self._location, self._size = location, size
        self._stop = size if stop is None else min(stop, size)
        self._position = 0
        self._pieces: deque[tuple[int, Future[Any]]] = deque()  # where each starts; in order, without gaps
        self._threads = ThreadPoolExecutor(AHEAD, thread_name_prefix="daskfs-source")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = max({0: 0, 1: self._position, 2: self._size}[whence] + offset, 0)
        return self._position

    def readinto(self, target: Any) -> int:
        into = memoryview(target).cast("B")
        if self._position >= self._size or not len(into):
            return 0
        start, piece = self._piece()
        part = piece[self._position - start :][: len(into)]
        into[: len(part)] = part
        self._position += len(part)
        return len(part)

    def close(self) -> None:
        if not self.closed:
            self._threads.shutdown(cancel_futures=True)
        super().close()

    def _piece(self) -> tuple[int, memoryview]:
        """Return the start and the bytes of the piece that holds the current position.

        If the previous piece was read to the end, request the following pieces in advance.
        """
        end_of_last = None
        while self._pieces and not self._pieces[0][0] <= self._position < self._pieces[0][0] + PIECE_BYTES:
            start, future = self._pieces.popleft()
            future.cancel()
            end_of_last = start + PIECE_BYTES
        if not self._pieces:
            self._pieces.append(self._request(self._position))
        if end_of_last == self._position:
            while len(self._pieces) <= AHEAD and (following := self._pieces[-1][0] + PIECE_BYTES) < self._stop:
                self._pieces.append(self._request(following))
        start, future = self._pieces[0]
        return start, memoryview(future.result())

    def _request(self, start: int) -> tuple[int, Future[Any]]:
        stop = min(start + PIECE_BYTES, self._size)
        return start, self._threads.submit(self._location.folder.fetch, "", start, stop)
