"""A folder behind any URL that fsspec supports, for stores that obstore cannot open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import fsspec

from daskfs.errors import StorageError, redact
from daskfs.store.places.local import TooLarge
from daskfs.store.places.retries import TransientError, with_retries

T = TypeVar("T")

# Transient errors of botocore, aiohttp and others, by name: they have no common parent and may not be installed.
_TRANSIENT = {"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError"}
_TRANSIENT |= {"IncompleteReadError", "ResponseStreamingError", "HTTPClientError", "ClientPayloadError"}
_TRANSIENT |= {"ServerDisconnectedError", "FSTimeoutError", "HttpError"}
_NO_CONTACT = {"EndpointConnectionError", "ConnectTimeoutError", "ClientConnectorError", "ClientConnectorDNSError"}


class FsspecFolder:
    """The operations of `Location` through fsspec, which has neither conditional writes nor locks."""

    ahead, threads = 3, 2  # as in `ObjectFolder`

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        try:
            self._fs, root = fsspec.core.url_to_fs(url, **options)
        except (ImportError, TypeError, ValueError) as error:  # TypeError: an option is missing
            raise StorageError(f"{url}: {error}") from None
        self._url, self._root = url, root.rstrip("/")

    def fetch(self, key: str, start: int | None, stop: int | None, most: int | None = None) -> bytes:
        end = stop if most is None else most + 1  # one request, where the size would take another
        data: bytes = self._call(key, lambda path: self._fs.cat_file(path, start=start, end=end))
        if most is not None and len(data) > most:
            raise TooLarge(max(self.size(key), len(data)), most)
        return data

    def size(self, key: str) -> int:
        return int(self._call(key, self._fs.info)["size"])

    def write(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        self._call(key, lambda path: self._fs.pipe_file(path, b"".join(parts)))

    def create(self, key: str, data: bytes) -> bool:
        if self.exists(key):
            return False
        self.write(key, (data,))
        return True

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        if not self.exists(key) or self.fetch(key, None, None) != expected:
            return False
        self.write(key, (data,))
        return True

    def move(self, key: str, target: str) -> None:
        self._call(key, lambda path: self._fs.mv(path, self._path(target)))

    def exists(self, key: str) -> bool:
        return bool(self._call(key, self._fs.exists))

    def is_empty(self) -> bool:
        return not self.exists("") or not self._call("", lambda path: self._fs.find(path, maxdepth=2))

    def members(self, key: str) -> list[str]:
        names = self._call(key, lambda path: self._fs.ls(path, detail=False))
        return [name.rstrip("/").rsplit("/", 1)[-1] for name in names]

    def stored_bytes(self, key: str) -> int:
        return int(self._call(key, self._fs.du))

    def delete(self, key: str) -> None:
        if self.exists(key):
            self._call(key, lambda path: self._fs.rm(path, recursive=True))

    def one_writer(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/")

    def _call(self, key: str, operation: Callable[[str], T]) -> T:
        where = f"{self._url}/{key}".rstrip("/")

        def attempt() -> T:
            try:
                return operation(self._path(key))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise
            except PermissionError as error:
                raise StorageError(f"{where}: refused ({_first_line(error)}); check the credentials") from None
            except Exception as error:
                if isinstance(error, ConnectionError | TimeoutError) or type(error).__name__ in _TRANSIENT:
                    is_answer = not isinstance(error, ConnectionError) and type(error).__name__ not in _NO_CONTACT
                    raise TransientError(_first_line(error), is_answer) from None
                if isinstance(error, OSError):
                    raise
                raise StorageError(f"{where}: {_first_line(error)}") from None

        return with_retries(where, attempt)


def _first_line(error: BaseException) -> str:
    return redact((str(error).splitlines() or [type(error).__name__])[0])[:200]
