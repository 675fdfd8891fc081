"""Reading ahead: while the caller works on one block, background threads read the next blocks."""

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
    """An iterable of the results ``read(number, buffers)`` for all `numbers`, in order, read in advance by threads.

    Up to `ahead` results are ready or being read while the caller works on a result, with up to `threads` reads at the
    same time. Memory is bounded, because ``ahead + 1`` sets of buffers are used in turn. A result is valid only until
    the next result is requested, because its buffers are reused. An error of `read` is raised when the caller requests
    the failed result. Leaving a loop over a `Prefetcher` early stops its threads.
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
        remaining, stop = iter(self._numbers), threading.Event()
        pending: deque[tuple[Future[T], B]] = deque()
        threads = ThreadPoolExecutor(self._threads, thread_name_prefix="daskfs-prefetch")

        def read(number: int, buffers: B) -> T:
            with stop_retries_on(stop):
                return self._read(number, buffers)

        def submit_next(buffers: B) -> None:
            for number in remaining:
                pending.append((threads.submit(read, number, buffers), buffers))
                break

        try:
            for _ in range(min(self._ahead + 1, len(self._numbers))):
                submit_next(self._new_buffers())
            while pending:
                yield pending[0][0].result()
                submit_next(pending.popleft()[1])
        finally:
            stop.set()
            threads.shutdown(cancel_futures=True)
