"""A folder in an object store, accessed through obstore: a file is one object, and a subfolder is a prefix of keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError, PreconditionError

from daskfs.errors import StorageError, public_url
from daskfs.store.places import lease
from daskfs.store.places.connections import object_store, split_url
from daskfs.store.places.local import check_size
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.retries import TransientError, with_retries

PART_BYTES = 16 << 20  # of an upload in several requests, each of which must end before the read timeout
_UPLOADS = 4  # such requests at a time
_PART_RETRIES = 10  # of one part, before all are sent again
_DELETIONS = 1000  # objects that one request may name

T = TypeVar("T")
Tag = str
"""The e-tag of an object, which identifies one version of the object."""


class ObjectFolder:
    """The operations of `Location` in an object store; a write raises Interrupted if this process lost the lease."""

    threads = 6  # requests at a time, since each waits for the network
    ahead = threads + 1  # a block uses the memory its response came in, so one more is alive while it is replaced

    def __init__(self, url: str, options: StorageOptions) -> None:
        self.url = url
        self._store: Any = object_store(url, options)
        self._store_with_retries: Any = object_store(url, options, retries=_PART_RETRIES)
        _, self._bucket, self._root = split_url(url)

    def fetch(self, key: str, start: int | None, stop: int | None, most: int | None = None) -> Any:
        if stop is not None and stop <= (start or 0):
            return b""
        options: Any = {}
        if start is not None or stop is not None:
            options = {"range": {"offset": start} if stop is None else (start or 0, stop)}
        return self._call(key, lambda path: _body(obstore.get(self._store, path, options=options), most))

    def size(self, key: str) -> int:
        return int(self._call(key, lambda path: obstore.head(self._store, path))["size"])

    def write(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        flat = [memoryview(part).cast("B") for part in parts]
        self._change(key, lambda path: self._put(path, flat))

    def create(self, key: str, data: bytes) -> bool:
        lease.check_writer(self.url)
        return self.put_if(key, data, None) is not None

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool:
        lease.check_writer(self.url)
        try:
            now, tag = self.tagged(key, len(expected))
        except FileNotFoundError:
            return False
        return now == expected and self.put_if(key, data, tag) is not None

    def tagged(self, key: str, most: int) -> tuple[bytes | None, Tag]:
        """Return the bytes of a key, or None if they are more than `most`, and the e-tag of this version."""

        def read(path: str) -> tuple[bytes | None, Tag]:
            response = obstore.get(self._store, path)
            is_small = response.meta["size"] <= most
            return bytes(_body(response)) if is_small else None, str(response.meta["e_tag"])

        return self._call(key, read)

    def put_if(self, key: str, data: bytes, tag: Tag | None) -> Tag | None:
        """Overwrite an object only if its e-tag is still `tag`, or create an object if `tag` is None.

        Return the new e-tag, or None if the object has another e-tag or, if `tag` is None, exists already.
        """
        mode: Any = "create" if tag is None else {"e_tag": tag}
        attempts = count()

        def put(path: str) -> Tag | None:
            is_first = next(attempts) == 0
            try:
                return str(obstore.put(self._store, path, data, mode=mode, use_multipart=False)["e_tag"])
            except BaseError as error:
                if not isinstance(_translate(error, path, self._bucket), _NotAsExpected):
                    raise
            if is_first:
                return None
            # An earlier attempt may have succeeded although its response was lost.
            now, new_tag = self.tagged(key, len(data))
            return new_tag if now == data else None

        return self._call(key, put)

    def move(self, key: str, target: str) -> None:
        self._change(key, lambda path: obstore.copy(self._store, path, self._path(target)))
        self._change(key, lambda path: obstore.delete(self._store, path))

    def exists(self, key: str) -> bool:
        try:
            self.size(key)
        except FileNotFoundError:
            return bool(self.objects(key))
        return True

    def is_empty(self) -> bool:
        lease_path = self._path(lease.KEY)
        return all(entry["path"] == lease_path for entry in self.objects())

    def members(self, key: str) -> list[str]:
        listing = self._call(key, lambda path: obstore.list_with_delimiter(self._store, path or None))
        paths = [*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])]
        names = [path.rstrip("/").rsplit("/", 1)[-1] for path in paths]
        return [name for name in names if key or name != lease.KEY]

    def stored_bytes(self, key: str) -> int:
        return sum(int(entry["size"]) for entry in self.objects(key))

    def delete(self, key: str) -> None:
        paths = [entry["path"] for entry in self.objects(key)]
        for first in range(0, len(paths), _DELETIONS):
            some = paths[first : first + _DELETIONS]
            self._change(key, lambda _, some=some: obstore.delete(self._store, some))  # type: ignore[misc]
        if key:
            with suppress(FileNotFoundError):
                self._change(key, lambda path: obstore.delete(self._store, path))

    def objects(self, key: str = "") -> list[dict[str, Any]]:
        """Return a dict with the "path" in the bucket, "size" and "e_tag" for every object below a key."""

        def entries(path: str) -> list[Any]:
            return [entry for batch in obstore.list(self._store, path or None) for entry in batch]

        return self._call(key, entries)

    def head(self) -> dict[str, Any]:
        """Return "path", "size" and "e_tag" of the object at the URL. Raise FileNotFoundError if no object exists."""
        return dict(self._call("", lambda path: obstore.head(self._store, path)))

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        self.members("")  # raises if there is no such bucket: some servers would create one at the first write
        with lease.hold_lease(self):
            yield

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".strip("/")

    def _put(self, path: str, parts: Sequence[memoryview]) -> None:
        if sum(len(part) for part in parts) <= PART_BYTES:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            obstore.put(self._store, path, data, use_multipart=False)
        else:
            obstore.put(self._store_with_retries, path, iter(parts), chunk_size=PART_BYTES, max_concurrency=_UPLOADS)

    def _change(self, key: str, operation: Callable[[str], object]) -> None:
        """Call an operation that writes, with retries; every attempt first checks that the lease is not lost."""

        def attempt(path: str) -> None:
            lease.check_writer(self.url)
            operation(path)

        self._call(key, attempt)

    def _call(self, key: str, operation: Callable[[str], T]) -> T:
        where = f"{self.url}/{key}".rstrip("/")

        def attempt() -> T:
            try:
                return operation(self._path(key))
            except (BaseError, FileNotFoundError) as error:
                raise _translate(error, where, self._bucket) from None

        return with_retries(where, attempt)


def _body(response: Any, most: int | None = None) -> Any:
    """Return all bytes of an obstore response. Raise TransientError if the response is shorter than announced."""
    first, last = response.range
    check_size(last - first, most)  # before the bytes are received
    data = response.bytes()
    if len(data) != last - first:
        raise TransientError(f"{len(data)} bytes of {last - first} came")
    return data


# The errors of obstore share little but their text, which may quote the server's response. Of that text our messages
# repeat only the status, the server's own code (such as NoSuchBucket) and the address.
_STATUS = re.compile(r"status code: (\d{3})([^:\n<]{0,40})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_HOST = re.compile(r"performing \w+ (https?://[^/\s]*)")
_WITHOUT_STATUS = re.compile(r"HTTP error: ([\w ,.'-]{1,100})")
_METADATA_SERVICES = ("169.254.169.254", "metadata.google", "169.254.170.2")
_TRANSIENT_STATUS = {408, 409, 425, 429}  # and all from 500 on
_TRANSIENT_CODES = {"RequestTimeout", "SlowDown", "IncompleteBody"}  # which come with a status that says less


class _NotAsExpected(Exception):
    """Raised if the condition of a conditional write does not hold."""


def _translate(error: Exception, where: str, bucket: str) -> Exception:
    """Return the exception to raise in place of an obstore error, such as TransientError or StorageError."""
    text = str(error).split("Debug source", 1)[0]
    status, code = _STATUS.search(text), _CODE.search(text)
    number, word = int(status[1]) if status else 0, code[1] if code else ""
    if word in ("NoSuchBucket", "ContainerNotFound"):
        return StorageError(f"{where}: there is no bucket {bucket!r}; create it, or check the name and the endpoint")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{where}: not there")
    if isinstance(error, AlreadyExistsError | PreconditionError):
        return _NotAsExpected(where)
    if isinstance(error, NotSupportedError) or number == 501:
        return lease.NotConditional(where)
    if any(service in text for service in _METADATA_SERVICES):
        return StorageError(f"{where}: no credentials; set AWS_ACCESS_KEY_ID and so on, or give storage_options")
    answer = f"{number}{status[2].rstrip()}{f', {word}' if word else ''}" if status else ""
    if word == "RequestTimeTooSkewed":
        return StorageError(f"{where}: refused ({answer}); set the clock of this machine")
    if number in (401, 403):
        return StorageError(f"{where}: refused ({answer}); check the credentials and what they allow")
    if number in _TRANSIENT_STATUS or number >= 500 or word in _TRANSIENT_CODES:
        return TransientError(f"the store answers {answer}")
    if number in (301, 307):
        return StorageError(f"{where}: the bucket is in another region; set AWS_REGION, or the option region")
    if number:
        return StorageError(f"{where}: the store answers {answer}; check the address and the options")
    if "builder error" in text:
        return StorageError(f"{where}: the endpoint is no address that can be asked; check the options")
    host, failure = _HOST.search(text), _WITHOUT_STATUS.search(text)
    reason = failure[1] if failure else "the connection was lost"
    return TransientError(f"no answer from {public_url(host[1])} ({reason})" if host else reason, is_answer=False)
