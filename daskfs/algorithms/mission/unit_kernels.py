"""Kernels of typical values: the sizes of values of features outside the tables, as the first rows show them.

Typical values are in 2^b slots, each with one feature or none. A slot is a number of 64 bits: in the lower half the
lower bits of the feature's id, by which it is recognised, and in the upper half, as float32, the unit of the feature: 1
over the mean size of its values. A value v of a feature with a unit counts as v · unit, and else as its sign.

Features of which the first rows have one size only have no slot, since their sign says as much. Of features that share
a slot, one that has most of the entries gets it (R. Boyer, J. S. Moore, *MJRTY: A Fast Majority Vote Algorithm*, 1991).
Whether a feature has a slot does not depend on the units in which it is measured.
"""

from __future__ import annotations

import numpy as np

from daskfs.algorithms.mission.cell_kernels import bits_of, cell_of, float_of, short_hash
from daskfs.jit import helper, inlined, kernel, warms

_SAME = np.float32(1e-4)  # relative difference of sizes that are the same up to rounding
_HALF = np.uint64(32)
# A slot is counted in four numbers: the lower bits of its feature's id; its votes and, in the lower half, the number of
# entries; the size of the first of these, negative if another differs; and the sum of sizes, as multiples of the first.
_OWNER, _VOTES_AND_COUNT, _FIRST, _RATIOS = 0, 1, 2, 3
_ONE_VOTE, _COUNT = np.uint32(1 << 16), np.uint32((1 << 16) - 1)
_VOTE_AND_COUNT = np.uint32(_ONE_VOTE + 1)


@inlined
def bits_of_units(units):
    """Return b for 2^b slots."""
    bits = 0
    while (1 << bits) < len(units):
        bits += 1
    return bits


@helper
def outside_of_entry(feature, v, units, bits):
    """Return a value of a feature outside the tables: times the feature's unit, or its sign without a unit."""
    if len(units) > 0:
        slot = units[cell_of(short_hash(feature), bits)]
        x = v * float_of(np.uint32(slot >> _HALF))
        if np.uint32(slot) == np.uint32(feature) and x != 0:
            return x
    return np.sign(v)


@kernel
def values_outside(ids, values, units):
    """Return the values of features that are in no table: value × unit if the unit is known, otherwise the sign."""
    out, bits = np.empty(len(ids), np.float32), bits_of_units(units)
    for e in range(len(ids)):
        out[e] = outside_of_entry(ids[e], values[e], units, bits)
    return out


@kernel
def measure_units(ids, values, bits):
    """Return the slots of features, from the entries of fewer than 2^16 rows; no slots if no feature has one."""
    n = 1 << bits
    tallies = np.zeros((n, 4), np.uint32)  # four numbers a slot: one access to memory for all
    sizes = tallies.view(np.float32)
    for e in range(len(ids)):
        size, owner, at = abs(values[e]), np.uint32(ids[e]), cell_of(short_hash(ids[e]), bits)
        if size == 0:
            continue
        both, is_own = tallies[at, _VOTES_AND_COUNT], tallies[at, _OWNER] == owner
        if not is_own and both >= _ONE_VOTE:
            tallies[at, _VOTES_AND_COUNT] = both - _ONE_VOTE
        elif not is_own or both == 0:
            tallies[at, _OWNER], tallies[at, _VOTES_AND_COUNT] = owner, _VOTE_AND_COUNT
            sizes[at, _FIRST], sizes[at, _RATIOS] = size, 1
        else:
            ratio = size / abs(sizes[at, _FIRST])
            tallies[at, _VOTES_AND_COUNT] = both + _VOTE_AND_COUNT
            sizes[at, _RATIOS] += ratio
            if abs(ratio - 1) > _SAME:
                sizes[at, _FIRST] = -abs(sizes[at, _FIRST])
    units, n_units = np.zeros(n, np.uint64), 0
    for at in range(n):
        if sizes[at, _FIRST] < 0:
            count = np.float32(tallies[at, _VOTES_AND_COUNT] & _COUNT)
            unit = np.float32(1) / (-sizes[at, _FIRST] * sizes[at, _RATIOS] / count)
            if 0 < unit < np.inf:
                units[at] = (np.uint64(bits_of(unit)) << _HALF) | np.uint64(tallies[at, _OWNER])
                n_units += 1
    return units if n_units > 0 else units[:0].copy()


@warms
def _warm_up() -> None:
    ids, values, units = np.arange(2, dtype=np.uint64), np.ones(2, np.float32), np.zeros(2, np.uint64)
    for array in (ids, values, units):
        array.flags.writeable = False
    measure_units(ids, values, 4)
    values_outside(ids, values, units)
