"""A bounded set of names keyed by 64-bit id: what a parser fills while it hashes strings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import helper, kernel, warms
from daskfs.store.hashing_kernels import xxh64

COUNT, BYTES = 0, 1
FULL = -1


class NameSet(NamedTuple):
    """Open addressing over `slots`; name i is ``text[starts[i]:starts[i + 1]]`` with id ``ids[i]``."""

    slots: NDArray[np.int64]  # entry number + 1, or 0; twice as many as entries, a power of two
    ids: NDArray[np.uint64]
    starts: NDArray[np.int64]
    text: NDArray[np.uint8]
    used: NDArray[np.int64]  # [COUNT] entries, [BYTES] of text


def new_name_set(entries: int, text_bytes: int) -> NameSet:
    """An empty set with room for `entries` names of `text_bytes` bytes together."""
    slots = 1 << (2 * entries - 1).bit_length()
    return NameSet(
        slots=np.zeros(slots, np.int64),
        ids=np.zeros(entries, np.uint64),
        starts=np.zeros(entries + 1, np.int64),
        text=np.zeros(text_bytes, np.uint8),
        used=np.zeros(2, np.int64),
    )


def clear(names: NameSet) -> None:
    """Forget every name."""
    names.slots[:] = 0
    names.used[:] = 0


def name_list(names: NameSet) -> list[bytes]:
    """The names in the order they were first seen."""
    text, starts = names.text.tobytes(), names.starts
    return [text[starts[i] : starts[i + 1]] for i in range(names.used[COUNT])]


@helper
def _place(key, mask):
    """The slot where the search for an id begins."""
    # Ids need not be hashes (labels are, k-mers are not): spread them before use.
    return ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask


@helper
def find(slots, ids, key):
    """(entry number of id `key`, its slot), or (-1, the slot where it belongs)."""
    mask = np.uint64(len(slots) - 1)
    at = _place(key, mask)
    while slots[at] != 0 and ids[slots[at] - 1] != key:
        at = (at + np.uint64(1)) & mask
    return slots[at] - 1, at


@helper
def add(names, at, key, source, start, stop):
    """Add id `key`, which `find` did not find, as ``source[start:stop]``: its entry number; FULL if no room."""
    count, used = names.used[COUNT], names.used[BYTES]
    if count == len(names.ids) or used + (stop - start) > len(names.text):
        return FULL
    for i in range(start, stop):
        names.text[used + i - start] = source[i]
    names.ids[count] = key
    names.starts[count] = used
    names.starts[count + 1] = used + (stop - start)
    names.used[COUNT] = count + 1
    names.used[BYTES] = used + (stop - start)
    names.slots[at] = count + 1
    return count


@helper
def intern(names, key, source, start, stop):
    """The entry number of id `key`, added as ``source[start:stop]`` if new; FULL if no room.

    Where it is called for every entry, call `find` and, only if need be, `add`: numba counts references
    to all arrays of `names` whenever they are passed on together, 80 ns to the 3 ns of `find`.
    """
    entry, at = find(names.slots, names.ids, key)
    return entry if entry >= 0 else add(names, at, key, source, start, stop)


@helper
def forget(names, count):
    """Take back every name since there were `count` of them, as a row does that turns out to be wrong."""
    mask = np.uint64(len(names.slots) - 1)
    for entry in range(names.used[COUNT] - 1, count - 1, -1):  # the last one first: no other was put behind it
        at = _place(names.ids[entry], mask)
        while names.slots[at] != entry + 1:
            at = (at + np.uint64(1)) & mask
        names.slots[at] = 0
    names.used[COUNT] = count
    names.used[BYTES] = names.starts[count]


@helper
def intern_label(labels, source, start, stop):
    """The number of a string label among those seen so far; FULL if there are too many."""
    return intern(labels, xxh64(source, start, stop), source, start, stop)


@kernel
def number_of_label(labels, label):
    """`intern_label` of one whole label, for callers outside a kernel."""
    return intern_label(labels, label, 0, len(label))


@warms
def _warm() -> None:
    number_of_label(new_name_set(2, 8), np.zeros(1, np.uint8))
