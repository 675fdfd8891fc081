"""A hash table of feature names with bounded size, and numba kernels on packed strings.

A parser fills the hash table of names while hashing the strings of the source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.basis.prefetch_kernels import prefetch
from daskfs.jit import helper, inlined, kernel, warms
from daskfs.store.dataset.bits_kernels import bit_length
from daskfs.store.dataset.hashing_kernels import copy_text, feature_id, half_word_at

COUNT, BYTES, SLOTS, KEYS = 0, 1, 2, 3
FEWEST_SLOTS = 1 << 12
RECENT = 1 << 14  # 128 kB: these fit the second-level cache, which the set does not
FULL = -1


class NameSet(NamedTuple):
    """A hash table of names with open addressing; name i is ``text[starts[i]:starts[i + 1]]`` with the id ``ids[i]``.

    After `hand_over` only the keys of earlier names stay, so that an earlier name is not collected again. Only the
    first slots of the table are in use, at least two per key, so that a small table fits the processor's cache.
    """

    keys: NDArray[np.uint64]  # id + 1, or 0; at least twice as many as entries, a power of two
    entries: NDArray[np.int32]  # the entry number of the key in the same slot; empty if names are not numbered
    ids: NDArray[np.uint64]
    starts: NDArray[np.int64]
    text: NDArray[np.uint8]
    used: NDArray[np.int64]  # [COUNT] entries, [BYTES] of text, [SLOTS] of keys, a power of two, [KEYS] in them
    recent: NDArray[np.uint64]  # id + 1 of recent names, each at the position given by its low bits


def new_name_set(entries: int, text_bytes: int, known: int = 0, numbered: bool = True) -> NameSet:
    """Return an empty set with room for `entries` names of `text_bytes` bytes in total, and for `known` keys.

    In a large set that is not numbered, a new name is added in half the time, because one array less is written to.
    """
    slots = 1 << (2 * max(entries, known) - 1).bit_length()
    return NameSet(
        keys=np.zeros(slots, np.uint64),
        entries=np.empty(slots if numbered else 0, np.int32),
        ids=np.empty(entries, np.uint64),
        starts=np.zeros(entries + 1, np.int64),
        text=np.empty(text_bytes, np.uint8),
        used=np.array([0, 0, min(slots, FEWEST_SLOTS), 0]),
        recent=np.zeros(RECENT, np.uint64),
    )


def hand_over(names: NameSet) -> None:
    """Make room for more names, but keep the keys of the present names so that they are not collected again."""
    names.used[[COUNT, BYTES]] = 0


def clear(names: NameSet) -> None:
    """Remove all names and all keys from the set of names."""
    names.keys[: names.used[SLOTS]] = 0
    names.recent[:] = 0
    names.used[[COUNT, BYTES, KEYS]] = 0


def name_list(names: NameSet) -> list[bytes]:
    """Return the names of the set in the order in which the names were added."""
    text, starts = names.text[: names.used[BYTES]].tobytes(), names.starts
    return [text[starts[i] : starts[i + 1]] for i in range(names.used[COUNT])]


@helper
def _place(key, mask):
    """Return the slot of the hash table where the search for a feature id begins."""
    # Ids need not be hashes (labels are, k-mers are not): spread them before use.
    return ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) & mask


@helper
def intern(names, feature, source, start, stop):
    """Return the entry number of an id, adding the name ``source[start:stop]`` of a new id, or FULL without room.

    If names are not numbered, the number of a name that is not new is 0.
    """
    key, mask = feature + np.uint64(1), np.uint64(names.used[SLOTS] - 1)
    at = _place(feature, mask)
    while names.keys[at] != 0:
        if names.keys[at] == key:
            return names.entries[at] if len(names.entries) > 0 else 0
        at = (at + np.uint64(1)) & mask
    count, used = names.used[COUNT], names.used[BYTES]
    if count == len(names.ids) or used + (stop - start) > len(names.text) or 2 * names.used[KEYS] >= len(names.keys):
        return FULL
    copy_text(source, start, stop, names.text, used)
    names.ids[count] = feature
    names.starts[count] = used
    names.starts[count + 1] = used + (stop - start)
    names.used[COUNT] = count + 1
    names.used[BYTES] = used + (stop - start)
    names.keys[at] = key
    if len(names.entries) > 0:
        names.entries[at] = count
    names.used[KEYS] += 1
    if 2 * names.used[KEYS] > names.used[SLOTS] and names.used[SLOTS] < len(names.keys):
        _double_slots(names)
    return count


@helper
def _double_slots(names):
    """Double the number of slots in use, by moving the keys of names within the table.

    The move starts after an empty slot, so that a key moves before the keys that it had displaced. The slots that a
    moving key passes have been moved already, so that a later search finds every key.
    """
    slots = names.used[SLOTS]
    names.used[SLOTS] = 2 * slots
    names.keys[slots : 2 * slots] = np.uint64(0)
    mask = np.uint64(2 * slots - 1)
    empty = 0
    while names.keys[empty] != 0:
        empty += 1
    for step in range(1, slots):
        old = (empty + step) & (slots - 1)
        key = names.keys[old]
        if key != 0:
            names.keys[old] = np.uint64(0)
            at = _place(key - np.uint64(1), mask)
            while names.keys[at] != 0:
                at = (at + np.uint64(1)) & mask
            names.keys[at] = key
            if len(names.entries) > 0:
                names.entries[at] = names.entries[old]


@helper
def remember(names, feature, source, start, stop):
    """Add a name like `intern`, for callers that need no entry number. Return False if the set of names is full.

    Frequent names are found among the recent names, without a search in the hash table.
    """
    key, at = feature + np.uint64(1), feature & np.uint64(RECENT - 1)
    if names.recent[at] == key:
        return True
    if intern(names, feature, source, start, stop) < 0:
        return False
    names.recent[at] = key
    return True


@inlined
def has_no_names(names):
    """Return True if a set was made without room for any name, so that parsers leave out names."""
    return len(names.ids) == 0


@inlined
def is_far(names, feature):
    """Return False if a name is in one of the first two slots where it may be, or else True: it may be known or not."""
    key, mask = feature + np.uint64(1), np.uint64(names.used[SLOTS] - 1)
    at = _place(feature, mask)
    return (names.keys[at] != key) & (names.keys[(at + np.uint64(1)) & mask] != key)


@inlined
def prefetch_name(names, feature):
    """Load the slot where the search for a name begins into the cache, for a later search."""
    prefetch(names.keys, _place(feature, np.uint64(names.used[SLOTS] - 1)))


@inlined
def remember_all(names, ids, first, text, stops, count, unknown):
    """Add `count` names like `remember`. Return False if the set of names is full.

    The names lie end to end in `text` and have the ids from ``ids[first]`` on. All names are looked up first, without a
    branch, so that the processor fetches many slots from memory at a time.
    """
    if has_no_names(names):
        return True
    left = 0
    for i in range(count):
        unknown[left] = i
        left += is_far(names, ids[first + i])
    for j in range(left):
        i = unknown[j]
        start = stops[i - 1] if i > 0 else 0
        if intern(names, ids[first + i], text, start, stops[i]) < 0:
            return False
    return True


@helper
def forget(names, count):
    """Remove every name after the first `count` names, when the row that added the names turns out to be wrong."""
    mask = np.uint64(names.used[SLOTS] - 1)
    if count < names.used[COUNT]:
        names.recent[:] = 0
    for entry in range(names.used[COUNT] - 1, count - 1, -1):  # the last first: no later name was displaced by it
        at = _place(names.ids[entry], mask)
        while names.keys[at] != names.ids[entry] + np.uint64(1):
            at = (at + np.uint64(1)) & mask
        names.keys[at] = 0
        names.used[KEYS] -= 1
    names.used[COUNT] = count
    names.used[BYTES] = names.starts[count]


@helper
def intern_label(labels, source, start, stop):
    """Return the number of a string label among the labels seen so far, or FULL if there are too many labels."""
    return intern(labels, feature_id(source, start, stop), source, start, stop)


@kernel
def number_of_label(labels, label):
    """Return the number of the string label `label`, like `intern_label`, for callers outside a kernel."""
    return intern_label(labels, label, 0, len(label))


@kernel
def gather(cells, starts, lengths, out):
    """Copy slices of an array of any dtype to `out`, one slice after the other."""
    at = 0
    for i in range(len(starts)):
        for j in range(starts[i], starts[i] + lengths[i]):
            out[at] = cells[j]
            at += 1


@kernel
def gather_text(text, starts, lengths, out):
    """Copy slices of a byte array to `out`, one slice after the other, several bytes at a time."""
    at = 0
    for i in range(len(starts)):
        copy_text(text, starts[i], starts[i] + lengths[i], out, at)
        at += lengths[i]


@kernel
def order_of_hashes(ids):
    """Return the positions of ids in ascending order of the ids, the first position first where ids are equal.

    Hashes are spread evenly: of one or two buckets of equal width for every two ids, each has few different ids, which
    an insertion sort puts in order.
    """
    n, low, high = len(ids), ~np.uint64(0), np.uint64(0)
    for i in range(n):
        low, high = min(low, ids[i]), max(high, ids[i])
    order, sorted_ids = np.empty(n, np.int64), np.empty(n, np.uint64)
    shift = np.uint64(max(bit_length(high - low) - bit_length(np.uint64(n // 2)), 0))
    starts = np.zeros(n + 2, np.int32)
    for i in range(n):
        starts[((ids[i] - low) >> shift) + np.uint64(1)] += 1
    for bucket in range(1, len(starts)):
        starts[bucket] += starts[bucket - 1]
    for i in range(n):
        bucket = (ids[i] - low) >> shift
        at = starts[bucket]
        order[at], sorted_ids[at] = i, ids[i]
        starts[bucket] = at + 1
    for i in range(1, n):
        key, position, j = sorted_ids[i], order[i], i - 1
        while j >= 0 and sorted_ids[j] > key:
            sorted_ids[j + 1], order[j + 1] = sorted_ids[j], order[j]
            j -= 1
        sorted_ids[j + 1], order[j + 1] = key, position
    return order


@kernel
def first_of_each(order, ids, starts, lengths, text):
    """Return the position of one name for each id, and the number of names left out because of an id collision.

    `order` is the argsort of the ids. Of several names with the same id, the alphabetically first name is kept.
    """
    kept = np.empty(len(order), np.int64)
    count, collisions = 0, 0
    for i in range(len(order)):
        this = order[i]
        if count == 0 or ids[this] != ids[kept[count - 1]]:
            kept[count] = this
            count += 1
            continue
        before = _compare(text, starts[this], lengths[this], starts[kept[count - 1]], lengths[kept[count - 1]])
        if before != 0:
            collisions += 1
        if before < 0:
            kept[count - 1] = this
    return kept[:count], collisions


@helper
def _compare(text, a, a_length, b, b_length):
    """Return -1, 0 or 1 if a slice of text sorts before another slice, equals the other slice or sorts after it."""
    for i in range(min(a_length, b_length)):
        if text[a + i] != text[b + i]:
            return -1 if text[a + i] < text[b + i] else 1
    return np.sign(a_length - b_length)


@kernel
def pack_strings(text, starts, lengths, out):
    """Write strings in the format of Zarr's vlen-utf8, or return False if a string begins inside a character.

    Since the whole text is valid UTF-8, the strings are valid if every string begins at the start of a character.
    """
    at = 0
    for i in range(len(starts)):
        length = lengths[i]
        for shift in range(4):
            out[at + shift] = (length >> (8 * shift)) & 255
        at += 4
        if length > 0 and text[starts[i]] & 0xC0 == 0x80:
            return False
        for j in range(length):
            out[at + j] = text[starts[i] + j]
        at += length
    return True


@kernel
def find_strings(packed, starts):
    """Write the start of each string packed by `pack_strings` to `starts`; return False if a string is cut short."""
    at = np.int64(4)
    for i in range(len(starts) - 1):
        if at > len(packed):
            return False
        starts[i] = at
        at += np.int64(half_word_at(packed, at - 4)) + 4
    starts[-1] = at
    return at == len(packed) + 4


@warms
def _warm() -> None:
    number_of_label(new_name_set(2, 8), np.zeros(1, np.uint8))
    numbers, text = np.zeros(1, np.int64), np.zeros(8, np.uint8)
    gather_text(text, numbers, numbers, text)
    order_of_hashes(numbers.astype(np.uint64))
    first_of_each(numbers, numbers.astype(np.uint64), numbers, numbers, text)
    pack_strings(text, numbers, numbers, text)
    find_strings(np.frombuffer(bytes(8), np.uint8), numbers)  # read-only, as files that were read
