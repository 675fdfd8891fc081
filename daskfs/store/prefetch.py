"""Read ahead: while a kernel works on one block, a thread fetches the next ones."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Buffers = TypeVar("Buffers")
_END = object()


class Prefetcher(Generic[Item, Buffers]):
    """Iterates ``read(number, buffers)`` over `numbers`, up to `ahead` of them ready in advance.

    There are ``ahead + 1`` sets of buffers in rotation, so memory is bounded and nothing is allocated
    after the first round: an item is valid until the next one is asked for, and a list of them all would
    show the last few over and over. An error of the reader
    surfaces at the item it belongs to; leaving the loop early stops the thread.
    """

    def __init__(
        self,
        read: Callable[[int, Buffers], Item],
        numbers: Sequence[int],
        new_buffers: Callable[[], Buffers],
        ahead: int = 2,
    ) -> None:
        self._read, self._numbers, self._new_buffers, self._ahead = read, numbers, new_buffers, max(ahead, 1)

    def __iter__(self) -> Iterator[Item]:
        free: queue.Queue[tuple[Buffers] | None] = queue.Queue()
        for _ in range(self._ahead + 1):
            free.put((self._new_buffers(),))
        ready: queue.Queue[tuple[object, tuple[Buffers] | None]] = queue.Queue()
        thread = threading.Thread(target=self._fetch, args=(free, ready), name="daskfs-prefetch", daemon=True)
        thread.start()
        try:
            while (found := ready.get())[0] is not _END:
                item, buffers = found
                if isinstance(item, BaseException):
                    raise item
                yield item  # type: ignore[misc]  # what `read` returned
                free.put(buffers)
        finally:
            free.put(None)  # wakes the thread if it waits for buffers, and ends it
            thread.join()

    def _fetch(self, free: queue.Queue[Any], ready: queue.Queue[Any]) -> None:
        try:
            for number in self._numbers:
                if (buffers := free.get()) is None:
                    return
                ready.put((self._read(number, buffers[0]), buffers))
        except BaseException as error:
            ready.put((error, None))
        else:
            ready.put((_END, None))
