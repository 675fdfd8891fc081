"""What a folder can do, wherever it is: the interface of `local_folder`, `object_folder` and `fsspec_folder`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Parts = tuple[bytes | memoryview, ...]
Bytes = NDArray[np.uint8]


class Folder(Protocol):
    """Keys are relative, with slashes; the folder itself is the key ``""``. See `Location` for what each must do."""

    ahead: int
    """Blocks in memory beside the one that is worked on."""
    threads: int
    """Reads worth having under way at a time."""

    def fetch(self, key: str, start: int | None, stop: int | None) -> Any:
        """Bytes of a key, as anything with a buffer."""

    def size(self, key: str) -> int: ...

    def write(self, key: str, parts: Parts) -> None: ...

    def create(self, key: str, data: bytes) -> bool: ...

    def replace_if(self, key: str, data: bytes, expected: bytes) -> bool: ...

    def move(self, key: str, target: str) -> None: ...

    def exists(self, key: str) -> bool: ...

    def is_empty(self) -> bool: ...

    def members(self, key: str) -> list[str]: ...

    def stored_bytes(self, key: str) -> int: ...

    def delete(self, key: str) -> None: ...

    def check_writer(self) -> None:
        """Interrupted if this process wrote here alone, and does no longer."""

    def one_writer(self) -> AbstractContextManager[None]: ...
