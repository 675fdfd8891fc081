"""Patience with a store far away: what passes by itself is tried again for a while, with growing pauses."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from daskfs.errors import Interrupted, StorageError, redact

BUDGET = 90.0
"""Seconds for which one request is tried again; servers restart limit_retries a minute."""
READ_TIMEOUT = 20.0
"""Seconds without a single byte after which an answer is given up."""
SAYS_SO_AFTER = 4.0
"""Seconds of waiting after which whoever looks on is told."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_QUIET = 30.0  # seconds between two such remarks: many threads wait for the same server

T = TypeVar("T")
_log = logging.getLogger("daskfs")
_here = threading.local()


class TransientError(Exception):
    """A failure that will pass: an overloaded server, a lost connection, an answer cut short."""


class _Remarks:
    """Says that it waits, once for all who do."""

    def __init__(self) -> None:
        self._lock, self._last = threading.Lock(), -_QUIET

    def say(self, where: str, reason: str) -> None:
        with self._lock:
            if monotonic() - self._last < _QUIET:
                return
            self._last = monotonic()
        _log.warning("%s; trying again for up to %.0f seconds", redact(f"{where}: {reason}"), BUDGET)


_remarks = _Remarks()


def with_retries(where: str, attempt: Callable[[int], T]) -> T:
    """What ``attempt(number)`` returns, tried again while it raises `TransientError`; StorageError after the budget."""
    began, pause, number = monotonic(), _FIRST_PAUSE, 0
    stop: threading.Event = getattr(_here, "stop", None) or threading.Event()
    budget: float = min(BUDGET, getattr(_here, "budget", BUDGET))
    while True:
        try:
            return attempt(number)
        except TransientError as failure:
            reason = str(failure)
        waited = monotonic() - began
        if waited >= budget:
            raise StorageError(
                f"{where}: {reason}, {number + 1} times in {waited:.0f} seconds; "
                "run the same again when the store is well, or check its address"
            )
        if waited > SAYS_SO_AFTER:
            _remarks.say(where, reason)
        if stop.wait(min(pause * random.uniform(0.5, 1.0), budget - waited)):
            raise Interrupted(f"{where}: nobody waits for it any more")
        number, pause = number + 1, min(2 * pause, _LONGEST_PAUSE)


@contextmanager
def stop_retries_on(stop: threading.Event) -> Iterator[None]:
    """Let what this thread waits for be given up once the event is set."""
    _here.stop = stop
    try:
        yield
    finally:
        _here.stop = None


@contextmanager
def limit_retries(seconds: float) -> Iterator[None]:
    """Let this thread try for no longer than this, where little depends on it."""
    _here.budget = seconds
    try:
        yield
    finally:
        del _here.budget
