"""Read ahead: while a kernel works on one block, a thread fetches the next ones."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Buffers = TypeVar("Buffers")
_END = object()


class Prefetcher(Generic[Item, Buffers]):
    """Iterates ``read(number, buffers)`` over `numbers`, up to `ahead` of them ready in advance.

    There are ``ahead + 1`` sets of buffers in rotation, so memory is bounded and nothing is allocated
    after the first round: an item is valid until the next one is asked for. An error of the reader
    surfaces at the item it belongs to; leaving the loop early stops the thread.
    """

    def __init__(
        self,
        read: Callable[[int, Buffers], Item],
        numbers: Sequence[int],
        new_buffers: Callable[[], Buffers],
        ahead: int = 2,
    ) -> None:
        self._read, self._numbers = read, numbers
        self._free: queue.Queue[Buffers] = queue.Queue()
        for _ in range(max(ahead, 1) + 1):
            self._spare = new_buffers()
            self._free.put(self._spare)
        self._ready: queue.Queue[tuple[object, Buffers | None]] = queue.Queue()
        self._stopped = False

    def __iter__(self) -> Iterator[Item]:
        thread = threading.Thread(target=self._fetch, name="daskfs-prefetch", daemon=True)
        thread.start()
        try:
            while (ready := self._ready.get())[0] is not _END:
                item, buffers = ready
                if isinstance(item, BaseException):
                    raise item
                yield item  # type: ignore[misc]  # what `read` returned
                self._free.put(buffers)  # type: ignore[arg-type]  # only errors come without
        finally:
            self._stopped = True
            self._free.put(self._spare)  # wakes the thread if it waits for a buffer
            thread.join()

    def _fetch(self) -> None:
        try:
            for number in self._numbers:
                buffers = self._free.get()
                if self._stopped:
                    return
                self._ready.put((self._read(number, buffers), buffers))
        except BaseException as error:
            self._ready.put((error, None))
        else:
            self._ready.put((_END, None))
