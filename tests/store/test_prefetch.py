"""Reading ahead: order, bounded memory, errors in their place, no thread left behind."""

from __future__ import annotations

import threading
import time

import pytest

from daskfs.store.places.read_ahead import Prefetcher


def alive() -> int:
    return sum(thread.name.startswith("daskfs-prefetch") for thread in threading.enumerate())


def test_items_come_in_order_from_a_fixed_set_of_buffers():
    made, used = [], []

    def new_buffer() -> list[int]:
        made.append([])
        return made[-1]

    def read(number: int, buffer: list[int]) -> int:
        used.append(id(buffer))
        return number * 10

    numbers = [5, 1, 5, 2, 9, 0]
    assert list(Prefetcher(read, numbers, new_buffer, ahead=2)) == [10 * n for n in numbers]
    assert len(made) == 3
    assert set(used) <= {id(buffer) for buffer in made}


def test_the_next_item_is_read_while_the_caller_works():
    started = [threading.Event() for _ in range(3)]

    def read(number: int, buffer: None) -> int:
        started[number].set()
        return number

    for number in Prefetcher(read, range(3), lambda: None, ahead=1):
        if number + 1 < 3:
            assert started[number + 1].wait(100), "nothing was read ahead"


def test_no_more_is_read_ahead_than_allowed():
    read_so_far = []

    def read(number: int, buffer: None) -> int:
        read_so_far.append(number)
        return number

    items = iter(Prefetcher(read, range(100), lambda: None, ahead=3))
    next(items)
    deadline = time.monotonic() + 100
    while len(read_so_far) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert read_so_far == [0, 1, 2, 3]
    items.close()
    assert alive() == 0


def test_an_error_surfaces_at_its_item():
    def read(number: int, buffer: None) -> int:
        if number == 2:
            raise OSError("chunk 2 is gone")
        return number

    items = iter(Prefetcher(read, range(5), lambda: None))
    assert [next(items), next(items)] == [0, 1]
    with pytest.raises(OSError, match="chunk 2"):
        next(items)
    assert alive() == 0
