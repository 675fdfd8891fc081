"""Merging sorted runs of scores, and counting along the merged order what AUC and average precision are made of."""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, warms

TRUE, FALSE, AREA, PRECISION, TIED_TRUE, TIED_FALSE = range(6)
SUMS = 6
"""Weights of members and others above the current score; what they add up to; the same two at that very score."""


@helper
def _close_tie(sums):
    """Count the rows that share one score, of which nobody can say which is first."""
    sums[AREA] += sums[TIED_FALSE] * (sums[TRUE] + 0.5 * sums[TIED_TRUE])
    sums[TRUE] += sums[TIED_TRUE]
    sums[FALSE] += sums[TIED_FALSE]
    if sums[TIED_TRUE] > 0:
        sums[PRECISION] += sums[TIED_TRUE] * sums[TRUE] / (sums[TRUE] + sums[FALSE])
    sums[TIED_TRUE] = sums[TIED_FALSE] = 0


@helper
def _sift(heap, left, keys, at):
    """Let the run on top sink to where no run below it has a smaller key."""
    run = heap[0]
    key, place = keys[run, at[run]], 0
    while 2 * place + 1 < left:
        child = 2 * place + 1
        if child + 1 < left:
            one, other = heap[child], heap[child + 1]
            if keys[other, at[other]] < keys[one, at[one]]:
                child += 1
        lower = heap[child]
        if keys[lower, at[lower]] >= key:
            break
        heap[place] = lower
        place = child
    heap[place] = run


@kernel
def count_merged(keys, signed, at, stop, heap, left, tie, sums):
    """Count rows in ascending order of keys until a window is used up: that of the run ``heap[0]``.

    Row r of `keys` and `signed` is a window of run r, of which ``at[r]`` … ``stop[r]`` - 1 are to be counted. Refill it
    (not at all if the run is at its end) and call again; `left`, the number of runs in the heap, is returned, and is 0
    when all is counted.
    """
    if at[heap[0]] == stop[heap[0]]:
        left -= 1
        heap[0] = heap[left]
    while left > 0:
        _sift(heap, left, keys, at)
        run = heap[0]
        if keys[run, at[run]] != tie[0]:
            _close_tie(sums)
            tie[0] = keys[run, at[run]]
        weight = signed[run, at[run]]
        if weight > 0:
            sums[TIED_TRUE] += weight
        else:
            sums[TIED_FALSE] -= weight
        at[run] += 1
        if at[run] == stop[run]:
            return left
    _close_tie(sums)
    return 0


@warms
def _warm() -> None:
    keys, signed, heap = np.zeros((1, 1), np.uint64), np.ones((1, 1), np.float32), np.zeros(1, np.int64)
    count_merged(keys, signed, heap.copy(), heap + 1, heap, 1, keys[0], np.zeros(SUMS))
