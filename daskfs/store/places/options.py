"""Storage options (addresses, keys) that can be printed and pickled without revealing a secret.

Option values stay in the memory of the process, in a table with random tokens as keys. A pickle of storage options, and
so a task graph, carries only a token. Other processes get the values of a token by `register_options`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from daskfs.errors import StorageError, hide_secrets

_values: dict[str, dict[str, Any]] = {}
_lock = threading.Lock()


class StorageOptions(Mapping[str, Any]):
    """Storage options given by the user, readable in every process that has registered the options.

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
        """Return the option values as a dict. Raise StorageError in a process that has not registered the options."""
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
    """Make the storage options behind a token from another process readable in this process."""
    hide_secrets(options)
    with _lock:
        _values[token] = dict(options)


def _token(options: dict[str, Any]) -> str:
    """Return the random token of some storage options; equal options have the same token."""
    if not options:
        return ""
    hide_secrets(options)
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
