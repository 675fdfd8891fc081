"""Storage options (addresses, keys) that can be printed and pickled without revealing a secret.

The values stay in a table of this process. A pickle, and so a task graph, carries only a random token. Another process
finds the values in its own table after `register_options`; on Dask workers a plugin calls it.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from daskfs.errors import StorageError

_values: dict[str, dict[str, Any]] = {}
_lock = threading.Lock()


class StorageOptions(Mapping[str, Any]):
    """Options as the user gave them, readable in every process that has registered them.

    >>> from daskfs.store.places.options import StorageOptions
    >>> options = StorageOptions({"key": "me", "secret": "mine"})
    >>> options, options["key"]
    (<storage options>, 'me')
    """

    __slots__ = ("token",)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.token: str = options.token if isinstance(options, StorageOptions) else _token(dict(options or {}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_token, (self.token,)

    def __repr__(self) -> str:
        return "<storage options>" if self.token else "{}"

    def __bool__(self) -> bool:
        return bool(self.token)

    def __eq__(self, other: object) -> bool:
        return self.token == other.token if isinstance(other, StorageOptions) else dict(self) == other

    def __hash__(self) -> int:
        return hash(self.token)

    def __getitem__(self, key: str) -> Any:
        return self.plain_values()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain_values())

    def __len__(self) -> int:
        return len(self.plain_values())

    def plain_values(self) -> dict[str, Any]:
        """Return the options themselves. Raise StorageError in a process that has not registered them."""
        if not self.token:
            return {}
        try:
            return _values[self.token]
        except KeyError:
            raise StorageError(
                "the storage options have not reached this process: pass them to daskfs.select or daskfs.ingest there, "
                "or set the environment variables of the store on every worker and pass none"
            ) from None


def register_options(token: str, options: Mapping[str, Any]) -> None:
    """Make the options behind a token of another process readable in this one."""
    with _lock:
        _values[token] = dict(options)


def _token(options: dict[str, Any]) -> str:
    """Return the token of options, the same for equal ones; it is random and says nothing about them."""
    if not options:
        return ""
    with _lock:
        for token, known in _values.items():
            if known == options:
                return token
        token = uuid.uuid4().hex
        _values[token] = options
        return token


def _from_token(token: str) -> StorageOptions:
    options = StorageOptions()
    options.token = token
    return options
