"""Dask's profilers look at the frames of all threads a hundred times a second, and Python 3.11 may stop dead of it.

`sys._current_frames` holds a lock of the interpreter's while it makes objects, which may start a garbage collection.
What that deletes may let another thread run, and if that thread is about to end, it waits for the lock with the
interpreter's other lock in its hands: nobody moves any more (CPython issue 106883; Python 3.12 collects elsewhere).
Threads that read ahead come and go with every task here, so it does happen.
"""

from __future__ import annotations

import gc
import sys
import threading
from functools import wraps
from types import FrameType

_lock = threading.Lock()


def look_at_frames_safely() -> None:
    """Let nothing be collected while somebody in this process looks at frames."""
    if sys.version_info >= (3, 12) or hasattr(sys._current_frames, "__wrapped__"):
        return
    look = sys._current_frames

    @wraps(look)
    def without_collections() -> dict[int, FrameType]:
        with _lock:
            collects = gc.isenabled()
            gc.disable()
            try:
                return look()
            finally:
                if collects:
                    gc.enable()

    sys._current_frames = without_collections
