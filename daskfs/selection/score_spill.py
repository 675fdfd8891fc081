"""The scores of all rows, with their labels and weights, in a file: written once, read once for every class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.selection.ranking import Ranked, read_into

PIECE_BYTES = 4 << 20
LEAST_ROWS = 1 << 10  # of a piece, however many classes there are


class ScoreSpill:
    """Takes rows of scores, one for every class, and gives them back class by class.

    The file consists of pieces of equal size: the scores of the first class, of the next, …, class numbers, weights: 8
    bytes a score, and 8 a row. What does not fill a piece is kept in memory.

    Parameters
    ----------
    file
        An empty one, to be written and read by nobody else.
    n_classes
        How many scores a row has.
    piece_bytes
        How large a piece is, about.
    """

    def __init__(self, file: IO[bytes], n_classes: int, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_rows = max(piece_bytes // (8 * n_classes + 8), LEAST_ROWS)
        self._scores = np.empty((n_classes, self._piece_rows))
        self._numbers = np.empty(self._piece_rows, np.int32)
        self._weights = np.empty(self._piece_rows, np.float32)
        self._file, self._pieces, self._filled = file, 0, 0

    def add(
        self, scores: NDArray[np.float64], numbers: NDArray[np.integer], weights: NDArray[np.float32] | None
    ) -> None:
        """Add rows: scores ``(rows, classes)``, the number of each row's class, and weights unless all are 1."""
        done = 0
        while done < len(scores):
            count = min(self._piece_rows - self._filled, len(scores) - done)
            here, there = slice(self._filled, self._filled + count), slice(done, done + count)
            self._scores[:, here] = scores[there].T
            self._numbers[here] = numbers[there]
            self._weights[here] = 1 if weights is None else weights[there]
            done, self._filled = there.stop, here.stop
            if self._filled == self._piece_rows:
                self._write_piece()

    def ranked(self, number: int) -> Iterator[Ranked]:
        """What `rank_quality` takes for a class: its scores, and weights, below 0 where a row is of another."""
        scores, numbers, weights = (np.empty_like(array) for array in self._parts(number))
        for piece in range(self._pieces):
            start = piece * self._piece_bytes
            read_into(self._file, start + number * scores.nbytes, scores)
            read_into(self._file, start + self._scores.nbytes, numbers)
            read_into(self._file, start + self._scores.nbytes + numbers.nbytes, weights)
            yield scores, np.where(numbers == number, weights, -weights)
        scores, numbers, weights = (array[: self._filled] for array in self._parts(number))
        yield scores, np.where(numbers == number, weights, -weights)

    def _parts(self, number: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self._scores[number], self._numbers, self._weights

    @property
    def _piece_bytes(self) -> int:
        return self._scores.nbytes + self._numbers.nbytes + self._weights.nbytes

    def _write_piece(self) -> None:
        self._file.seek(self._pieces * self._piece_bytes)
        for part in (self._scores, self._numbers, self._weights):
            self._file.write(part.data)
        self._pieces, self._filled = self._pieces + 1, 0
