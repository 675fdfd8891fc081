"""The timer of a task, which measures its blocks, bytes and seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from daskfs.engine.events.messages import Spent
from daskfs.protocol import Block, ColumnBlock, SparseColumnBlock

NOTIFY_SECONDS = 0.25
"""Least number of seconds between two calls of a meter's `notify`."""


class Meter:
    """Measures the blocks, bytes and seconds of a task while the task runs.

    Parameters
    ----------
    notify
        Called at intervals with the time and bytes of the task since the last call; None for no calls.
    clock
        Function that returns the time in seconds.

    Examples
    --------
    >>> from daskfs.engine.events.meter import Meter
    >>> daskfs.write_dataset("eye.zarr", np.eye(4), np.arange(4))
    >>> meter = Meter()
    >>> for block in meter.over(daskfs.open_dataset("eye.zarr").blocks()):
    ...     pass
    >>> meter.total.blocks, meter.total.items
    (1, 4)
    """

    def __init__(self, notify: Callable[[Spent], None] | None = None, clock: Callable[[], float] = perf_counter):
        self.total, self._unsent = Spent(), Spent()
        self._notify, self._clock, self._notified = notify, clock, clock()

    def over(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks, and measure how long the reading and the processing of every block take."""
        began, alone = self._clock(), True
        for block in blocks:
            read, nbytes, items, waited = self._clock(), block.nbytes, count_items(block), self.total.waiting
            yield block
            ended = self._clock()
            spent = Spent(1, items, nbytes, ended - began - (self.total.waiting - waited), read - began)
            if alone:  # while the first block is read there is none to work on
                spent.alone_bytes, spent.alone_seconds, alone = nbytes, read - began, False
            self._add(spent)
            began = ended

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Count the time inside the context as merging."""
        began = self._clock()
        yield
        self._add(Spent(merging=self._clock() - began))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside the context as waiting, and not as a part of `busy`."""
        began = self._clock()
        yield
        self._add(Spent(waiting=self._clock() - began))

    def finish(self) -> Spent:
        """Call `notify` a last time. Return the total time and bytes of the task."""
        self._send()
        return self.total

    def _add(self, spent: Spent) -> None:
        self.total.add(spent)
        self._unsent.add(spent)
        if self._clock() - self._notified >= NOTIFY_SECONDS:
            self._send()

    def _send(self) -> None:
        if self._notify is not None:
            self._notify(self._unsent)
        self._unsent, self._notified = Spent(), self._clock()


def count_items(block: Block) -> int:
    """Return the number of columns of a block of columns, or the number of rows of a block of rows."""
    return len(block.ids if isinstance(block, ColumnBlock | SparseColumnBlock) else block.y)
