"""Predictions on disk: a Zarr group that plain xarray opens, written chunk by chunk.

::

    prediction  (sample)          the label of a class (text or number), or the value; (sample, target) of several
    score       (sample)          the score behind the prediction; (sample, class) where every class has a score
    class       (class)           the labels of these columns of scores
    target      (target)          the names of several targets, of which predictions and scores are the same

The group of predictions is complete once its root metadata exist, and a manifest has size and crc32c of every chunk.
Earlier predictions are replaced only when all chunks are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import Label
from daskfs.store.dataset.layout import MOST_METADATA, ROOT, STRING, UNFINISHED, ArraySpec, is_ours
from daskfs.store.dataset.regroup import RowRegrouper
from daskfs.store.dataset.writer import DatasetWriter, clear, drop_staged, new_writer, prepare, write_chunk
from daskfs.store.places.location import Location

KIND = "predictions"
CHUNK_CELLS = 1 << 18  # scores in a chunk, about


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions for rows, computed from blocks of scores while they are written.

    Parameters
    ----------
    shape
        The shape of the scores: ``(rows,)``, ``(rows, classes)`` or ``(rows, targets)``.
    scores
        Blocks of scores, in order.
    predict
        Returns the predictions for scores.
    classes
        The labels of the classes; None for a real target.
    origin
        The source and the model, for the record.
    targets
        The names of several targets; None for one target and for classes.
    """

    shape: tuple[int, ...]
    scores: Iterable[NDArray[np.float64]]
    predict: Callable[[NDArray[np.float64]], NDArray[Any]]
    classes: Sequence[Label] | None
    origin: dict[str, Any]
    targets: Sequence[str] | None = None

    def write(self, location: Location, overwrite: bool, progress: Callable[[int, int], None]) -> None:
        """Write all predictions, or leave nothing behind after an error; call `check_place` first."""
        with location.one_writer():
            prepare(location, overwrite)
            with _all_or_nothing(location):
                location.write(f"{UNFINISHED}/{KIND}", b"")
                self._write_all(new_writer(location), progress)

    def _write_all(self, writer: DatasetWriter, progress: Callable[[int, int], None]) -> None:
        self._write_rows(writer, progress)
        if self.targets is not None:
            names = ArraySpec("target", self.shape[1:], self.shape[1:], STRING, ("target",))
            writer.write(names, np.array(self.targets, object))
        elif len(self.shape) == 2:
            labels = ArraySpec("class", self.shape[1:], self.shape[1:], self._label_type, ("class",))
            writer.write(labels, np.array(self.classes))
        classes = None if self.classes is None else list(self.classes)
        writer.close({"kind": KIND, "n_samples": self.shape[0], "classes": classes, "made": self.origin})

    def _write_rows(self, writer: DatasetWriter, progress: Callable[[int, int], None]) -> None:
        n_rows, columns = self.shape[0], self.shape[1:]
        step = min(max(CHUNK_CELLS // math.prod(columns), 1), n_rows)
        dims = ("sample", "class" if self.targets is None else "target")[: len(self.shape)]
        score = ArraySpec("score", self.shape, (step, *columns), np.dtype(np.float64), dims)
        prediction = ArraySpec("prediction", (n_rows,), (step,), self._label_type, ("sample",))
        if self.targets is not None:
            prediction = replace(score, name="prediction")
        rows = RowRegrouper(self.scores)
        for number, start in enumerate(range(0, n_rows, step)):
            scores = rows.take(min(step, n_rows - start))
            writer.add(score, [write_chunk(writer.location, score, number, scores)])
            writer.add(prediction, [write_chunk(writer.location, prediction, number, self.predict(scores))])
            progress(start + len(scores), n_rows)

    @property
    def _label_type(self) -> Any:
        return STRING if self.classes is not None and isinstance(self.classes[0], str) else np.dtype(np.float64)


def check_place(location: Location, overwrite: bool, source: Location | None) -> None:
    """Raise OptionError if `location` is within the source, or holds anything that must not be replaced."""
    url = location.url
    if location.path is not None and location.path.is_file():
        raise OptionError(f"{url}: is a file; predictions are a folder, choose another name")
    if source is not None and location.is_within(source):
        raise OptionError(f"{url}: is the dataset to be predicted, or lies in it; choose another place")
    if not location.exists(ROOT):
        return
    if not is_ours(location.read(ROOT, most=MOST_METADATA), KIND):
        raise OptionError(f"{url}: holds something other than predictions; choose another place")
    if not overwrite:
        raise OptionError(f"{url}: already holds predictions; --overwrite replaces them")


@contextmanager
def _all_or_nothing(location: Location) -> Iterator[None]:
    """Restore the earlier content of `location` after an error or Ctrl-C in the body of the context."""
    try:
        yield
    except BaseException:
        if location.exists(ROOT):
            drop_staged(location)
        else:
            clear(location)
            location.remove_if_empty()
        raise
