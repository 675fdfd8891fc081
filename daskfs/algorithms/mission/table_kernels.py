"""Kernels of the hash tables that hold features: hashing and look-up.

A table has open addressing with linear probing. A key is a feature id plus one, so that zero marks a free slot.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel


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
    i = np.int64((h >> np.uint64(33)) & np.uint64(mask))
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
