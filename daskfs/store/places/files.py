"""Opening of local files that may come from strangers: special files and files that are too large are refused."""

from __future__ import annotations

import os
import stat
from io import FileIO
from typing import Any

_SPECIAL = {
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class NotAFile(OSError):
    """Raised for a FIFO, a device or a socket, which may wait or go on for ever; no byte of it was read."""


class TooLarge(OSError):
    """Raised if a file is larger than what belongs there; no byte of the file was read."""

    def __init__(self, size: int, most: int) -> None:
        self.size, self.most = size, most
        super().__init__(f"{size:,} bytes, where at most {most:,} belong")

    def __reduce__(self) -> tuple[Any, ...]:
        return TooLarge, (self.size, self.most)


def special_kind(mode: int) -> str | None:
    """Return what a file is, given its mode, such as "a device"; None for regular files and folders."""
    return _SPECIAL.get(stat.S_IFMT(mode))


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Open a local file for reading without a buffer. Raise NotAFile, and do not wait, if the file is no regular file.

    >>> from daskfs.store.places.files import open_regular
    >>> open_regular("/dev/zero")
    Traceback (most recent call last):
        ...
    daskfs.store.places.files.NotAFile: is a device, not a file
    """
    file = FileIO(path, opener=_open_without_waiting)
    kind = special_kind(os.fstat(file.fileno()).st_mode)
    if kind is not None:
        file.close()
        raise NotAFile(f"is {kind}, not a file")
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a FIFO would wait for its writer


def check_size(size: int, most: int | None) -> None:
    """Raise TooLarge if a file of `size` bytes has more than `most` bytes, where `most` may be None for any number."""
    if most is not None and size > most:
        raise TooLarge(size, most)
