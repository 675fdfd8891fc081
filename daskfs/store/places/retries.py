"""Retries of requests to a remote store after transient errors, with growing pauses and a time limit."""

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
"""Seconds for which a failed request is tried again, more than the minute that a server takes to restart."""
FIRST_CONTACT = 2.5
"""Seconds for which a store is tried again that has never answered: its address may be wrong."""
READ_TIMEOUT = 20.0
"""Seconds without a received byte after which a request counts as failed."""
SAYS_SO_AFTER = 4.0
"""Seconds of retries after which a warning is logged."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_QUIET = 30.0  # seconds between two warnings: many threads wait for the same server

T = TypeVar("T")
_log = logging.getLogger("daskfs")
_this_thread = threading.local()
_warning_lock = threading.Lock()
_last_warning = -_QUIET
_answered: set[str] = set()  # the addresses of stores that have answered, in this process or in that of the caller


class TransientError(Exception):
    """A failure that a retry may overcome: an overloaded server, a lost connection, an incomplete response.

    `is_answer` tells whether the failure shows that there is a server at the address.
    """

    def __init__(self, reason: str, is_answer: bool = True) -> None:
        self.is_answer = is_answer
        super().__init__(reason)


def mark_answered(url: str) -> None:
    """Note that the store of a URL has answered, in this process or in the process that sent the URL."""
    _answered.add(_address(url))


def _address(url: str) -> str:
    """Return scheme and bucket (or host) of a URL.

    >>> _address("s3://bucket/some/where")
    's3://bucket'
    """
    return "/".join(url.split("/")[:3])


def with_retries(where: str, attempt: Callable[[], T]) -> T:
    """Call ``attempt()`` until no `TransientError` is raised, and return the result.

    `where` is the URL of the file or object. Raise StorageError after `BUDGET` seconds of failures, or after
    `FIRST_CONTACT` seconds if nothing has ever answered there. Raise Interrupted when the event given to
    `stop_retries_on` is set.
    """
    began, pause, number = monotonic(), _FIRST_PAUSE, 0
    stop: threading.Event = getattr(_this_thread, "stop", None) or threading.Event()
    budget: float = min(BUDGET, getattr(_this_thread, "budget", BUDGET))
    while True:
        try:
            result = attempt()
        except TransientError as failure:
            reason, is_answer = str(failure), failure.is_answer
        except Exception:
            mark_answered(where)  # that something is missing or refused is an answer
            raise
        else:
            mark_answered(where)
            return result
        if is_answer:
            mark_answered(where)
        elif _address(where) not in _answered:
            budget = min(budget, FIRST_CONTACT)
        waited = monotonic() - began
        if waited >= budget:
            raise StorageError(
                f"{where}: {reason}, {number + 1} times in {waited:.0f} seconds; "
                "run the same again when the store is well, or check its address"
            )
        if waited > SAYS_SO_AFTER:
            _warn(where, reason)
        if stop.wait(min(pause * random.uniform(0.5, 1.0), budget - waited)):
            raise Interrupted(f"{where}: nobody waits for it any more")
        number, pause = number + 1, min(2 * pause, _LONGEST_PAUSE)


def _warn(where: str, reason: str) -> None:
    """Log that a request is being tried again, at most once in `_QUIET` seconds for all threads together."""
    global _last_warning
    with _warning_lock:
        if monotonic() - _last_warning < _QUIET:
            return
        _last_warning = monotonic()
    _log.warning("%s; trying again for up to %.0f seconds", redact(f"{where}: {reason}"), BUDGET)


@contextmanager
def stop_retries_on(stop: threading.Event) -> Iterator[None]:
    """Let retries in this thread end with the exception Interrupted as soon as the event `stop` is set."""
    _this_thread.stop = stop
    try:
        yield
    finally:
        _this_thread.stop = None


@contextmanager
def limit_retries(seconds: float) -> Iterator[None]:
    """Let requests in this thread be tried again for at most `seconds`."""
    _this_thread.budget = seconds
    try:
        yield
    finally:
        del _this_thread.budget
