"""Who of a row is in a table: for most of those who are not, a look at one byte tells.

A table has a few bytes for every slot; those where the hashes of its features lie are marked. A feature whose byte is
not marked is outside; the others are looked up. Marks depend on who is in the table alone, not on how blocks are cut.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from daskfs.algorithms.mission.memory_kernels import COUNT, take_over
from daskfs.algorithms.mission.sketch_kernels import find, mixed
from daskfs.jit import helper, inlined, kernel

MARKS = 8  # for every slot of a table


class Marks(NamedTuple):
    """The marks of T tables."""

    marked: Any  # (T, MARKS × capacity)
    shift: Any  # of a hash, that leaves the place of its byte


class Split(NamedTuple):
    """Entries of a row by whether T tables have their feature; a row of an array for each table."""

    inside: Any
    slots: Any  # where the inside ones are in the table
    outside: Any
    maybe: Any  # (most,): those to look up


@kernel
def new_marks(keys):
    """The marks of tables."""
    n_tables, capacity = keys.shape
    shift = np.uint64(64)
    while (1 << (64 - np.int64(shift))) < MARKS * capacity:
        shift -= np.uint64(1)
    marks = Marks(np.empty((n_tables, MARKS * capacity), np.uint8), shift)
    for t in range(n_tables):
        mark_all(keys[t], marks.marked[t], shift)
    return marks


@helper
def mark_all(keys, marked, shift):
    """Mark the features of a table, and nobody else."""
    for at in range(len(marked)):
        marked[at] = 0
    for slot in range(len(keys)):
        if keys[slot] != 0:
            marked[mixed(keys[slot] - np.uint64(1)) >> shift] = 1


@kernel
def new_split(n_tables, most):
    """Room for rows of so many entries."""
    inside, slots = np.empty((n_tables, most), np.int32), np.empty((n_tables, most), np.int32)
    return Split(inside, slots, np.empty((n_tables, most), np.int32), np.empty(most, np.int32))


@inlined
def split_row(keys, marks, t, ids, hashes, first, size, split):
    """Tell apart the `size` entries of a row; returns how many are inside and how many outside.

    `hashes` begins with the row, `ids` have it at `first`.
    """
    own, marked, maybe = keys[t], marks.marked[t], split.maybe
    inside, slots, outside = split.inside[t], split.slots[t], split.outside[t]
    n_in = n_out = n_maybe = np.int64(0)
    for q in range(size):
        # Written to both lists and counted in one: a branch would often be guessed wrong.
        is_maybe = np.int64(marked[hashes[q] >> marks.shift])
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


@kernel
def admit(rows, first, large, n_large, hashes, memory, rule, t, marks):
    """Let those features of a row into table t that are large enough, and keep the marks true."""
    gauge = memory.gauge[t]
    for u in range(n_large):
        q, count = large[u], gauge[COUNT]
        take_over(rows, first + q, hashes[q], memory, rule, t)
        if gauge[COUNT] > count:
            marks.marked[t, hashes[q] >> marks.shift] = 1
        elif gauge[COUNT] < count:  # some had to go
            mark_all(memory.keys[t], marks.marked[t], marks.shift)
