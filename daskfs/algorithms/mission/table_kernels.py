"""Kernels of the hash tables that hold features: hashing, look-up, and a Bloom filter that spares most look-ups.

A table has open addressing with linear probing. A key is a feature id plus one, so that zero marks a free slot.

Most features of a row are in no table, which a Bloom filter shows for nearly all of these features with one read. The
Bloom filter has one hash function, bytes in place of bits, and depends only on the keys in the table.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.jit import helper, inlined, kernel

FILTER_BYTES = 8  # for every slot of a table


@helper
def mix(x):
    """Return the MurmurHash3 finaliser of x, in which every bit of a feature id changes every bit of the hash."""
    x = np.uint64(x)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(33)
    x *= np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


@helper
def find(keys, key, h):
    """Return the slot of a key whose feature has hash h, or for a missing key -1 - (the slot to insert it)."""
    mask = len(keys) - 1
    i = np.int64((h >> np.uint64(17)) & np.uint64(mask))
    while keys[i] != key:
        if keys[i] == 0:
            return -1 - i
        i = (i + 1) & mask
    return i


@kernel
def insert_ids(ids, keys):
    """Insert feature ids into a hash table that has room for these ids."""
    for e in range(len(ids)):
        slot = find(keys, ids[e] + np.uint64(1), mix(ids[e]))
        if slot < 0:
            keys[-1 - slot] = ids[e] + np.uint64(1)


@kernel
def find_ids(ids, keys):
    """Return the slots of feature ids in a hash table, or negative numbers for ids that are missing."""
    slots = np.empty(len(ids), np.int64)
    for e in range(len(ids)):
        slots[e] = find(keys, ids[e] + np.uint64(1), mix(ids[e]))
    return slots


class BloomFilter(NamedTuple):
    """The Bloom filters of T tables."""

    flags: Any  # (T, FILTER_BYTES × capacity): 1 where a feature of the table has its hash
    shift: Any  # a hash shifted right by this is the index of its flag


class RowSplit(NamedTuple):
    """Entries of a row inside and outside each of T tables, as arrays (T, entries), except `maybe`."""

    inside: Any
    slots: Any  # where the features inside are in the table
    outside: Any
    maybe: Any  # (entries,): those that the filter lets through and that must be looked up


@kernel
def new_filter(keys):
    """Return the Bloom filters of the tables with these keys."""
    n_tables, capacity = keys.shape
    shift = np.uint64(64)
    while (1 << (64 - np.int64(shift))) < FILTER_BYTES * capacity:
        shift -= np.uint64(1)
    bloom = BloomFilter(np.empty((n_tables, FILTER_BYTES * capacity), np.uint8), shift)
    for t in range(n_tables):
        fill_filter(keys[t], bloom.flags[t], shift)
    return bloom


@helper
def fill_filter(keys, flags, shift):
    """Set the Bloom filter's flags of the features in a table, and clear all other flags."""
    for at in range(len(flags)):
        flags[at] = 0
    for slot in range(len(keys)):
        if keys[slot] != 0:
            flags[mix(keys[slot] - np.uint64(1)) >> shift] = 1


@kernel
def new_split(n_tables, size):
    """Return an uninitialised `RowSplit` for rows of at most `size` entries."""
    inside, slots = np.empty((n_tables, size), np.int32), np.empty((n_tables, size), np.int32)
    return RowSplit(inside, slots, np.empty((n_tables, size), np.int32), np.empty(size, np.int32))


@inlined
def split_row(keys, bloom, t, ids, hashes, first, size, split):
    """Split the `size` entries of a row by table t; return how many features are in the table and how many are not.

    The row begins at entry 0 of `hashes` and at entry `first` of `ids`.
    """
    own, flags, maybe = keys[t], bloom.flags[t], split.maybe
    inside, slots, outside = split.inside[t], split.slots[t], split.outside[t]
    n_in = n_out = n_maybe = np.int64(0)
    for q in range(size):
        # Written to both lists and counted in one: a branch would often be mispredicted.
        is_maybe = np.int64(flags[hashes[q] >> bloom.shift])
        maybe[n_maybe], outside[n_out] = q, q
        n_maybe += is_maybe
        n_out += 1 - is_maybe
    for u in range(n_maybe):
        q = maybe[u]
        slot = find(own, ids[first + q] + np.uint64(1), hashes[q])
        inside[n_in], slots[n_in], outside[n_out] = q, slot, q
        n_in += slot >= 0
        n_out += slot < 0
    return n_in, n_out
