"""Storage options: how a store is reached, keys and all. Whoever prints or pickles them sees a token and no secret.

The values stay in a table of this process. Pickles, and with them task graphs, carry the token; another process looks
its values up in a table of its own, which somebody has to fill (`register_options`): on Dask workers a plugin does.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from daskfs.errors import StorageError

_known: dict[str, dict[str, Any]] = {}
_lock = threading.Lock()


class StorageOptions(Mapping[str, Any]):
    """Options as the user gave them, readable in this process and in those that have learned them.

    >>> from daskfs.store.places.options import StorageOptions
    >>> options = StorageOptions({"key": "me", "secret": "mine"})
    >>> options, options["key"]
    (<storage options>, 'me')
    """

    __slots__ = ("token",)

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        self.token: str = given.token if isinstance(given, StorageOptions) else _token(dict(given or {}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_token, (self.token,)

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
        """The plain options; StorageError in a process that has not learned them."""
        if not self.token:
            return {}
        try:
            return _known[self.token]
        except KeyError:
            raise StorageError(
                "the storage options have not reached this process: pass them to daskfs.select or daskfs.ingest there, "
                "or set the environment variables of the store on every worker and pass none"
            ) from None


def register_options(token: str, options: Mapping[str, Any]) -> None:
    """Take in the options behind a token that comes from another process."""
    with _lock:
        _known[token] = dict(options)


def _token(options: dict[str, Any]) -> str:
    """The token of options, the same for the same ones; it is drawn, so that it says nothing about them."""
    if not options:
        return ""
    with _lock:
        for token, known in _known.items():
            if known == options:
                return token
        token = uuid.uuid4().hex
        _known[token] = options
        return token


def _by_token(token: str) -> StorageOptions:
    options = StorageOptions()
    options.token = token
    return options
