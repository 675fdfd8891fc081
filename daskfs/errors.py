"""Every error daskfs raises on purpose. Each says what is wrong, where, and what to do about it.

The command line turns a :class:`DaskfsError` into one line and exit code 2; anything else is a bug.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import get_args

_USER = re.compile(r"://[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?]+)\?\S+?(?=(?::\d+)?:?(?:\s|$))")  # a line's number and a colon may follow it


def public_url(url: str) -> str:
    """Return a URL without user, password and query, which may hold a signature: records must not contain them.

    >>> from daskfs.errors import public_url
    >>> public_url("s3://key:secret@bucket/x.zarr?token=1")
    's3://bucket/x.zarr'
    """
    return re.sub(r"://[^/]*@", "://", url).split("?")[0] if "://" in url else url


def redact(text: str) -> str:
    """Return a text with users, passwords and signatures removed from its URLs.

    >>> from daskfs.errors import redact
    >>> redact("https://me:secret@host/x.vw?sig=secret: no such file")
    'https://host/x.vw?…: no such file'
    """
    return _QUERY.sub(r"\1?…", _USER.sub("://", text))


class DaskfsError(Exception):
    """The common parent: catch this to catch everything daskfs raises on purpose.

    Its text never shows a password or a signature in a URL.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redact(part) if isinstance(part, str) else part for part in arguments))


class SourceError(DaskfsError):
    """A source file cannot be read: missing, cut short, of the wrong kind."""


class BadLineError(SourceError):
    """One line (or row, or record) of a source is not what its format promises."""

    def __init__(self, file: str, line: int, reason: str, unit: str = "") -> None:
        self.file, self.line, self.reason, self.unit = public_url(file), line, redact(reason), unit
        super().__init__(self.file, line, self.reason, unit)  # all four, so that it survives a pickle

    def __str__(self) -> str:
        where = f"{self.unit} {self.line}" if self.unit else str(self.line)
        return f"{self.file}:{where}: {self.reason}"


class OptionError(DaskfsError, ValueError):
    """An argument that cannot work, noticed before anything is read or written."""


class Unreachable(OptionError):
    """No scheduler answers at the address of a cluster; it may do so later."""


class DatasetError(DaskfsError):
    """A dataset is missing, incomplete, or not laid out as daskfs lays datasets out."""


class Busy(DatasetError):
    """Another process writes to the same place; try again when it has ended."""


class ChunkError(DatasetError):
    """One chunk of a dataset is missing, cut short or altered."""

    def __init__(self, dataset: str, chunk: str, reason: str) -> None:
        self.dataset, self.chunk, self.reason = public_url(dataset), chunk, redact(reason)
        super().__init__(self.dataset, chunk, self.reason)

    def __str__(self) -> str:
        return f"{self.dataset}: chunk {self.chunk}: {self.reason}"


class StorageError(DaskfsError):
    """An object store fails: it is unreachable, has no such bucket, or refuses the credentials."""


class ColumnError(DaskfsError):
    """One column of a dataset cannot be used; the engine adds the dataset and the column's name."""

    def __init__(self, feature: int, reason: str) -> None:
        self.feature, self.reason = feature, reason
        super().__init__(feature, reason)

    def __str__(self) -> str:
        return f"column {self.feature}: {self.reason}"


class RowError(DaskfsError):
    """One row of a dataset cannot be used; the engine adds the dataset and the feature's name."""

    def __init__(self, row: int, feature: int, reason: str) -> None:
        self.row, self.feature, self.reason = row, feature, reason
        super().__init__(row, feature, reason)

    def __str__(self) -> str:
        return f"row {self.row}, feature {self.feature}: {self.reason}"


class SelectionError(DaskfsError):
    """A saved selection is missing, incomplete, or not what daskfs writes."""


class CheckpointError(DaskfsError):
    """A checkpoint is damaged, or belongs to another run than the one that should resume from it."""


class JobError(DaskfsError):
    """A job file asks for something impossible; it is noticed before the first step."""


class WorkerError(DaskfsError):
    """Tasks kill the workers of a cluster again and again."""


class Interrupted(DaskfsError):
    """A run was interrupted from outside; the same command resumes it."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a question to append to an error, with the known word nearest to an unknown one; "" if none is near.

    >>> from daskfs.errors import nearest
    >>> nearest("widht", ["width", "depth"])
    " (did you mean 'width'?)"
    """
    match = get_close_matches(word, list(known), 1)
    return f" (did you mean {match[0]!r}?)" if match else ""


def check_choice(option: str, value: object, choices: object) -> None:
    """Raise OptionError if a value is none of the words of a Literal."""
    words = get_args(choices)
    if value not in words:
        raise OptionError(f"{option}: {value!r} is none of {', '.join(words)}")


def check_whole(option: str, value: object, least: int) -> None:
    """Raise OptionError if a value is no whole number, or too small."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise OptionError(f"{option}={value!r:.40}: must be a whole number, at least {least}")


def check_positive(option: str, value: object, otherwise: str = "") -> None:
    """Raise OptionError if a value is no number above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < float("inf"):
        raise OptionError(f"{option}={value!r:.40}: must be a number above 0{otherwise}")
