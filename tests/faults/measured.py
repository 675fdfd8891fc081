"""How much memory a call takes, and a limit of its time: what tests of hostile files have in common."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from daskfs.engine.memory import _status

T = TypeVar("T")


def measured(call: Callable[[], T]) -> tuple[int, T]:
    """The most memory that a call took beyond what the process had before, and what it returned."""
    before = _status("VmRSS", reset=True)
    result = call()
    peak = _status("VmHWM", reset=False)
    return 0 if before is None or peak is None else peak - before, result


class TooLong(BaseException):
    """Raised by `at_most`. Code under test may catch OSError, of which TimeoutError is one, and Exception."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLong in this thread if the block takes longer, whether it computes or waits."""

    def interrupt(*_: object) -> None:
        raise TooLong(f"a case took more than {seconds} s")

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(seconds, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)
