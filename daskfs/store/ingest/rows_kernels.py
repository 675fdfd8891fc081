"""Arrays that a parser fills with sparse rows, and kernels that sort the entries of a row and sum duplicates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import helper, kernel, read_only, warms
from daskfs.store.dataset.bits_kernels import bit_length

# The status that a parser kernel returns. From FIRST_ERROR on it is an error code of the format, for the row that
# starts at progress[LINE]; the error is at byte progress[AT].
DONE, FULL, NAMES_FULL, FIRST_ERROR = 0, 1, 2, 10

ROWS, ENTRIES, NEXT, LINE, AT, TAG_BYTES = 0, 1, 2, 3, 4, 5

LONGEST_TAG = 256

SHORT_ROW = 16  # entries up to which insertion is fastest
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # ids need not be hashes
LONG_ROW = 1 << 12  # entries up to which a row and its positions fit the first-level cache


class Spare(NamedTuple):
    """The working memory for sorting one row."""

    ids: NDArray[np.uint64]
    values: NDArray[np.float32]
    place: NDArray[np.int64]  # of each digit, for the radix sort
    buckets: NDArray[np.uint16]  # for the spreading sort


class RowArrays(NamedTuple):
    """The arrays of one block of CSR rows, with counters in `progress` of the rows and entries filled so far."""

    indptr: NDArray[np.int64]  # (rows + 1,)
    ids: NDArray[np.uint64]
    values: NDArray[np.float32]
    y: NDArray[np.float64]
    weight: NDArray[np.float32]
    tags: NDArray[np.uint8]  # names of rows, end to end; only some formats have them
    tag_ends: NDArray[np.int64]
    progress: NDArray[np.int64]  # [ROWS], [ENTRIES], [TAG_BYTES] filled; [NEXT] byte to parse; [LINE], [AT] of an error
    spare: Spare


def new_row_arrays(rows: int, entries: int) -> RowArrays:
    """Return empty arrays of a block with room for `rows` rows and `entries` entries."""
    return RowArrays(
        indptr=np.zeros(rows + 1, np.int64),
        ids=np.zeros(entries, np.uint64),
        values=np.zeros(entries, np.float32),
        y=np.zeros(rows, np.float64),
        weight=np.zeros(rows, np.float32),
        tags=np.zeros(max(32 * rows, LONGEST_TAG), np.uint8),
        tag_ends=np.zeros(rows, np.int64),
        progress=np.zeros(6, np.int64),
        spare=new_spare(entries),
    )


def new_spare(entries: int) -> Spare:
    """Return working memory for sorting rows of up to `entries` entries."""
    return Spare(
        ids=np.empty(entries, np.uint64),
        values=np.empty(entries, np.float32),
        place=np.empty(256, np.int64),
        buckets=np.empty(2 * LONG_ROW, np.uint16),
    )


@helper
def close_row(out, stop, y, weight):
    """Sort the entries ``ids[indptr[rows]:stop]`` of the current row, sum duplicates, and add the row to the block.

    Return False, without adding the row, if a sum of duplicates exceeds the range of float32.
    """
    rows = out.progress[ROWS]
    start = out.indptr[rows]
    ordered = start + 1
    while ordered < stop and out.ids[ordered - 1] < out.ids[ordered]:
        ordered += 1
    if ordered < stop:
        kept = start + sort_and_sum(out.ids[start:stop], out.values[start:stop], out.spare)
        if kept < stop:
            for i in range(start, kept):
                if not np.isfinite(out.values[i]):
                    return False
        stop = kept
    out.y[rows] = y
    out.weight[rows] = weight
    out.indptr[rows + 1] = stop
    out.progress[ROWS] = rows + 1
    out.progress[ENTRIES] = stop
    return True


@helper
def _insert_all(from_ids, from_values, ids, values):
    """Sort entries by id with insertion sort, from source arrays to target arrays, which may be the same arrays."""
    for i in range(len(ids)):
        key, value = from_ids[i], from_values[i]
        j = i - 1
        while j >= 0 and ids[j] > key:
            ids[j + 1], values[j + 1] = ids[j], values[j]
            j -= 1
        ids[j + 1], values[j + 1] = key, value


@helper
def _spreading_sort(ids, values, spare):
    """Sort evenly distributed ids, such as hashes, with a bucket for each range of ids: about as many as there are ids.

    The sort is stable. Return False, without sorting, if too many ids are in the same bucket.
    """
    n, buckets = len(ids), spare.buckets
    low = high = ids[0]
    for i in range(1, n):
        low, high = min(low, ids[i]), max(high, ids[i])
    shift = np.uint64(max(bit_length(high - low) - bit_length(np.uint64(n - 1)) - 1, 0))
    used = np.int64((high - low) >> shift) + 1
    buckets[:used] = 0
    for i in range(n):
        buckets[(ids[i] - low) >> shift] += np.uint16(1)
    before, crowding = np.int64(0), np.int64(0)
    for i in range(used):
        count = np.int64(buckets[i])
        buckets[i] = before
        before += count
        crowding += count * count
    if crowding > 4 * n:  # at least twice the value expected for hashes
        return False
    for i in range(n):
        bucket = (ids[i] - low) >> shift
        to = np.int64(buckets[bucket])
        spare.ids[to], spare.values[to] = ids[i], values[i]
        buckets[bucket] = to + 1
    _insert_all(spare.ids, spare.values, ids, values)
    return True


@helper
def _radix_sort(ids, values, spare):
    """Sort entries by id with a radix sort from the lowest byte, and skip bytes that are equal in all ids.

    The sort is stable, so that the values of equal ids are added in the order of the source.
    """
    differing = np.uint64(0)
    for i in range(1, len(ids)):
        differing |= ids[i] ^ ids[0]
    spare_ids, spare_values = spare.ids[: len(ids)], spare.values[: len(ids)]
    place = spare.place
    in_spare = False
    for byte in range(8):
        shift = np.uint64(8 * byte)
        if differing >> shift & np.uint64(255):
            if in_spare:
                _scatter(spare_ids, spare_values, ids, values, shift, place)
            else:
                _scatter(ids, values, spare_ids, spare_values, shift, place)
            in_spare = not in_spare
    if in_spare:
        for i in range(len(ids)):
            ids[i], values[i] = spare_ids[i], spare_values[i]


@helper
def _scatter(ids, values, to_ids, to_values, shift, place):
    """Do one pass of the radix sort by the byte at bit `shift`, with working memory `place` for 256 positions."""
    place[:] = 0
    for i in range(len(ids)):
        place[ids[i] >> shift & np.uint64(255)] += 1
    before = 0
    for digit in range(256):
        count = place[digit]
        place[digit] = before
        before += count
    for i in range(len(ids)):
        digit = ids[i] >> shift & np.uint64(255)
        to = place[digit]
        to_ids[to], to_values[to] = ids[i], values[i]
        place[digit] = to + 1


@helper
def sort_and_sum(ids, values, spare):
    """Sort one row by id in place, sum the values of equal ids, and return the new length of the row."""
    n = len(ids)
    if n <= SHORT_ROW:
        _insert_all(ids, values, ids, values)
    elif n > LONG_ROW or not _spreading_sort(ids, values, spare):
        _radix_sort(ids, values, spare)
    distinct = 1
    while distinct < n and ids[distinct - 1] != ids[distinct]:
        distinct += 1
    if distinct >= n:
        return n
    kept = i = distinct - 1
    while i < n:
        key, total = ids[i], 0.0  # a float64, since a float32 cannot count beyond 2^24
        while i < n and ids[i] == key:
            total += values[i]
            i += 1
        ids[kept], values[kept] = key, np.float32(total)
        kept += 1
    return kept


@kernel
def copy_rows(indptr, ids, values, y, first, out):
    """Append CSR rows from row `first` on while the rows fit, and return the next row and DONE, FULL or FIRST_ERROR.

    FIRST_ERROR means that the next row has duplicate entries whose sum is infinite.
    """
    for row in range(first, len(y)):
        start, stop = indptr[row], indptr[row + 1]
        entry = out.progress[ENTRIES]
        if out.progress[ROWS] == len(out.y) or entry + stop - start > len(out.ids):
            return row, FULL
        for i in range(start, stop):
            out.ids[entry + i - start] = ids[i]
            out.values[entry + i - start] = values[i]
        if not close_row(out, entry + stop - start, y[row], np.float32(1)):
            return row, FIRST_ERROR
    return len(y), DONE


COUNTS, BINARY, UNIT = 0, 1, 2  # how the values of counted features (k-mers, n-grams) are stored


@helper
def weigh_last_row(out, weighting):
    """Replace the counts in the last added row by ones (BINARY), or scale the row to Euclidean length 1 (UNIT)."""
    rows = out.progress[ROWS]
    start, stop = out.indptr[rows - 1], out.indptr[rows]
    if weighting == BINARY:
        out.values[start:stop] = np.float32(1)
    elif weighting == UNIT:
        square = 0.0
        for i in range(start, stop):
            square += np.float64(out.values[i]) ** 2
        scale = np.float32(1 / np.sqrt(square)) if square > 0 else np.float32(0)
        for i in range(start, stop):
            out.values[i] *= scale


@kernel
def all_ones(values):
    """Return True if every value is exactly 1, so that the values need not be stored."""
    for i in range(len(values)):
        if values[i] != np.float32(1):
            return False
    return True


@kernel
def rows_with_new_ids(indptr, ids, wanted):
    """Return the numbers of the rows in which one of the distinct ids `wanted` occurs for the first time, ascending."""
    bits = 4
    while (1 << bits) < 4 * len(wanted):
        bits += 1
    mask, shift, n = (1 << bits) - 1, np.uint64(64 - bits), 0
    keys, rows = np.zeros(1 << bits, np.uint64), np.empty(len(wanted), np.int64)
    is_known = np.zeros(1 << bits, np.bool_)
    for i in range(len(wanted)):
        at = np.int64((wanted[i] * _SPREAD) >> shift)
        while keys[at] != 0:
            at = (at + 1) & mask
        keys[at] = wanted[i] + np.uint64(1)
    left = len(wanted)
    for r in range(len(indptr) - 1):
        before = left
        for e in range(indptr[r], indptr[r + 1]):
            at = np.int64((ids[e] * _SPREAD) >> shift)
            while keys[at] != 0 and keys[at] != ids[e] + np.uint64(1):
                at = (at + 1) & mask
            if keys[at] != 0 and not is_known[at]:
                is_known[at] = True
                left -= 1
        if left < before:
            rows[n] = r
            n += 1
        if left == 0:
            break
    return rows[:n].copy()


@kernel
def first_not_finite(values):
    """Return the position of the first NaN or infinity in a flat array, or -1 if all values are finite."""
    for i in range(len(values)):
        if not np.isfinite(values[i]):
            return i
    return -1


@warms
def _warm() -> None:
    ids, ones = np.zeros(2, np.uint64), np.ones(2, np.float32)
    all_ones(ones)
    rows_with_new_ids(read_only(np.array([0, 2])), read_only(ids), ids)
    copy_rows(np.array([0, 2]), ids, ones, np.zeros(1), 0, new_row_arrays(1, 2))
    first_not_finite(ones)
    first_not_finite(ones.astype(np.float64))
