"""A piece of a source on its way into a dataset: files staged under ``_unfinished/``, and a record of them.

How much a piece gives is known only after it is parsed, and pieces are parsed in parallel. So each writes its
files, complete and checksummed, into a folder of its own, and its record last; once all records are there, the
dataset is put together from them. A killed ingest loses at most the pieces it was working on. A task that
Dask runs twice, or that outlives the run it belonged to, writes into another folder and disturbs nobody.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.codec import DamagedChunk, strip_crc
from daskfs.store.dataset.labels import Labels, distinct_numbers, merge_number_labels, merge_string_labels
from daskfs.store.dataset.layout import UNFINISHED
from daskfs.store.dataset.reader import manifest_line
from daskfs.store.ingest.rows import BadLines, LabelCodes
from daskfs.store.places.location import Location


@dataclass
class StagedPiece:
    """What is known of any staged piece."""

    number: int
    key: str  # of the source and the options it was made from
    folder: str
    files: dict[str, tuple[int, int]] = field(default_factory=dict)  # size and crc32c, by name in the folder
    numbers: list[float] | None = field(default_factory=list)  # distinct values of y, unless there are too many
    strings: list[str] = field(default_factory=list)  # string labels, by their number in y
    bad_lines: int = 0
    bad_examples: list[str] = field(default_factory=list)

    @property
    def relies_on(self) -> set[str]:
        """The folders of pieces that hold something of this one."""
        return {self.folder}

    def note_labels(self, y: NDArray[np.float64]) -> None:
        """Remember which labels occur."""
        distinct = distinct_numbers(y)
        if self.numbers is not None:
            self.numbers = None if distinct is None else sorted({*self.numbers, *distinct})

    def strings_used(self) -> list[str]:
        """The string labels of rows that are there: a record without rows may have named another."""
        return self.strings if self.numbers is None else [self.strings[int(code)] for code in self.numbers]


P = TypeVar("P", bound=StagedPiece)


class PieceWriter(Generic[P]):
    """Writes the files of one piece; `close` writes its record."""

    def __init__(self, location: Location, piece: P) -> None:
        self.location, self.piece = location, piece

    def write(self, name: str, file: bytes) -> None:
        """PieceWriter a file that ends with its crc32c."""
        self.location.write(f"{self.piece.folder}/{name}", file)
        self.piece.files[name] = manifest_line(file)

    def close(self, labels: LabelCodes, bad_lines: BadLines) -> P:
        """Write the record: from now on the piece need not be parsed again."""
        self.piece.strings = labels.label_strings()
        self.piece.bad_lines, self.piece.bad_examples = bad_lines.count, bad_lines.examples
        self.location.write(record_key(self.piece.number), json.dumps(asdict(self.piece)).encode())
        return self.piece


def merge_labels(pieces: Sequence[StagedPiece]) -> Labels:
    """Return the labels of a whole dataset from those of its pieces."""
    if any(piece.strings for piece in pieces):
        return merge_string_labels(piece.strings_used() for piece in pieces)
    return merge_number_labels(piece.numbers for piece in pieces)


def new_folder(number: int) -> str:
    """A folder for the files of a piece, another one for every attempt."""
    return f"{UNFINISHED}/{number:06d}-{uuid.uuid4().hex[:8]}"


def record_key(number: int) -> str:
    """Where the record of a piece is kept."""
    return f"{UNFINISHED}/{number:06d}.json"


def recall(kind: type[P], location: Location, number: int, key: str) -> P | None:
    """A piece that an earlier run has staged from the same source with the same options, if it is sound."""
    try:
        record = json.loads(location.read(record_key(number)))
    except (FileNotFoundError, ValueError):
        return None
    if record["key"] != key:
        return None
    piece = kind(**record)
    return piece if all(_is_sound(location, piece, name) for name in piece.files) else None


def _is_sound(location: Location, piece: StagedPiece, name: str) -> bool:
    try:
        file = location.read(f"{piece.folder}/{name}")
        strip_crc(file)
    except FileNotFoundError:
        return True  # published already; whoever moves it looks for it there
    except DamagedChunk:
        return False
    return manifest_line(file) == tuple(piece.files[name])
