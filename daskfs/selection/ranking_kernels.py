"""Merging sorted runs of scores, and counting along the merged order what AUC and average precision are made of.

And their variances: how much each row moves either area is known once the rows above it are counted, but for totals
that come out last; so sums of it and of its square are kept, into which totals can be put afterwards.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, warms

TRUE, FALSE, AREA, PRECISION, TIED_TRUE, TIED_FALSE = range(6)
"""Weights of members and others above the current score; what they add up to; the same two at that very score."""
SQUARES_TRUE, SQUARES_FALSE, TIED_SQUARES_TRUE, TIED_SQUARES_FALSE = range(6, 10)
"""Squared weights of all so far, and of those at the current score."""
ABOVE_TRUE, ABOVE_TRUE_2, ABOVE_FALSE, ABOVE_FALSE_2 = range(10, 14)
"""Over members, others: squared weight times what of the opposite kind is above, ties by half; and times its square."""
GAINED, LOST = range(14, 16)
"""How precisions at and below this score would rise with a member, fall with another row, less the totals."""
PULL_TRUE, PULL_TRUE_2, PULL_FALSE, PULL_FALSE_2 = range(16, 20)
"""Over members, others: squared weight times what a row does to the average precision, less totals; and its square."""
SUMS = 20


@helper
def _close_tie(sums):
    """Count the rows that share one score, of which nobody can say which is first."""
    above_true = sums[FALSE] + 0.5 * sums[TIED_FALSE]
    above_false = sums[TRUE] + 0.5 * sums[TIED_TRUE]
    sums[AREA] += sums[TIED_FALSE] * above_false
    sums[ABOVE_TRUE] += sums[TIED_SQUARES_TRUE] * above_true
    sums[ABOVE_TRUE_2] += sums[TIED_SQUARES_TRUE] * above_true**2
    sums[ABOVE_FALSE] += sums[TIED_SQUARES_FALSE] * above_false
    sums[ABOVE_FALSE_2] += sums[TIED_SQUARES_FALSE] * above_false**2
    sums[PULL_FALSE] += sums[TIED_SQUARES_FALSE] * sums[LOST]
    sums[PULL_FALSE_2] += sums[TIED_SQUARES_FALSE] * sums[LOST] ** 2
    sums[TRUE] += sums[TIED_TRUE]
    sums[FALSE] += sums[TIED_FALSE]
    if sums[TIED_TRUE] > 0:
        total = sums[TRUE] + sums[FALSE]
        precision = sums[TRUE] / total
        sums[PRECISION] += sums[TIED_TRUE] * precision
        sums[PULL_TRUE] += sums[TIED_SQUARES_TRUE] * (precision - sums[GAINED])
        sums[PULL_TRUE_2] += sums[TIED_SQUARES_TRUE] * (precision - sums[GAINED]) ** 2
        sums[GAINED] += sums[TIED_TRUE] * sums[FALSE] / total**2
        sums[LOST] += sums[TIED_TRUE] * sums[TRUE] / total**2
    sums[SQUARES_TRUE] += sums[TIED_SQUARES_TRUE]
    sums[SQUARES_FALSE] += sums[TIED_SQUARES_FALSE]
    sums[TIED_TRUE] = sums[TIED_FALSE] = sums[TIED_SQUARES_TRUE] = sums[TIED_SQUARES_FALSE] = 0


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
        weight = np.float64(signed[run, at[run]])
        if weight > 0:
            sums[TIED_TRUE] += weight
            sums[TIED_SQUARES_TRUE] += weight * weight
        else:
            sums[TIED_FALSE] -= weight
            sums[TIED_SQUARES_FALSE] += weight * weight
        at[run] += 1
        if at[run] == stop[run]:
            return left
    _close_tie(sums)
    return 0


@warms
def _warm() -> None:
    keys, signed, heap = np.zeros((1, 1), np.uint64), np.ones((1, 1), np.float32), np.zeros(1, np.int64)
    count_merged(keys, signed, heap.copy(), heap + 1, heap, 1, keys[0], np.zeros(SUMS))
