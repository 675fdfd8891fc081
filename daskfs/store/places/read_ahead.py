"""Read ahead: while a kernel works on one block, threads fetch the next ones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from daskfs.store.places.retries import stop_retries_on

T = TypeVar("T")
B = TypeVar("B")


class Prefetcher(Generic[T, B]):
    """Iterates ``read(number, buffers)`` over `numbers`, up to `ahead` of them ready or under way in advance.

    There are ``ahead + 1`` sets of buffers in rotation, so memory is bounded and nothing is allocated
    after the first round: an item is valid until the next one is asked for, and a list of them all would
    show the last few over and over. Up to `threads` reads run at a time; items come in order. An error of the reader
    surfaces at the item it belongs to; leaving the loop early stops the threads.
    """

    def __init__(
        self,
        read: Callable[[int, B], T],
        numbers: Sequence[int],
        new_buffers: Callable[[], B],
        ahead: int = 2,
        threads: int = 1,
    ) -> None:
        self._read, self._numbers, self._new_buffers = read, numbers, new_buffers
        self._ahead = max(ahead, 1)
        self._threads = min(max(threads, 1), self._ahead)

    def __iter__(self) -> Iterator[T]:
        left, stop = iter(self._numbers), threading.Event()
        coming: deque[tuple[Future[T], B]] = deque()
        threads = ThreadPoolExecutor(self._threads, thread_name_prefix="daskfs-prefetch")

        def ask(buffers: B) -> None:
            for number in left:
                coming.append((threads.submit(self._one, stop, number, buffers), buffers))
                break

        try:
            for _ in range(min(self._ahead + 1, len(self._numbers))):
                ask(self._new_buffers())
            while coming:
                yield coming[0][0].result()
                ask(coming.popleft()[1])
        finally:
            stop.set()
            threads.shutdown(cancel_futures=True)

    def _one(self, stop: threading.Event, number: int, buffers: B) -> T:
        with stop_retries_on(stop):
            return self._read(number, buffers)
