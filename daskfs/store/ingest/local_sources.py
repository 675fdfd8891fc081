"""Source files on a local disk: regular files, and all regular files below a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from daskfs.errors import SourceError
from daskfs.store.ingest.object_sources import is_hidden
from daskfs.store.places.local import special_kind


def is_local(url: str) -> bool:
    """Return whether a name is a path of a local file; without ``://``, even ``::`` is part of the name."""
    return "://" not in url or url.startswith("file://")


def local_file(path: str) -> dict[str, Any]:
    """Return "name", "size" and "mtime" of a file. Raise SourceError for FIFOs, devices and sockets.

    A FIFO or a device may wait or go on for ever, and cannot be read twice, as an ingest does.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        if not os.path.islink(path):
            raise
        raise SourceError(f"{path}: is a link that leads nowhere ({error.strerror}); remove it") from error
    if (kind := special_kind(status.st_mode)) is not None:
        raise SourceError(
            f"{path}: is {kind}, not a file; write its bytes to a file first, or pipe them into daskfs select -"
        )
    # The time of a link is its own, so that a link that is changed is a change.
    return {"name": path, "size": status.st_size, "mtime": os.lstat(path).st_mtime}


def local_files(path: str) -> Iterator[dict[str, Any]]:
    """Yield the facts of `local_file` on a file, or on all files below a folder that are not hidden.

    Links to folders are followed, unless they lead to a folder that contains them.
    """
    if not stat.S_ISDIR(os.stat(path).st_mode):
        yield local_file(path)
        return
    for folder, folders, files in os.walk(path, followlinks=True):
        above = _folders_above(path, folder)
        folders[:] = [
            name for name in folders if not is_hidden([name]) and os.path.realpath(f"{folder}/{name}") not in above
        ]
        for name in files:
            if not is_hidden([name]):
                yield local_file(os.path.join(folder, name))


def _folders_above(top: str, folder: str) -> set[str]:
    """Return the real paths of a folder and of all folders between the folder and `top`."""
    parts = os.path.relpath(folder, top).split("/")
    return {os.path.realpath(os.path.join(top, *parts[:depth])) for depth in range(len(parts) + 1)}
