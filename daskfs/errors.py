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
    """A URL without what must not enter a record: user and password, and the query that may hold a signature.

    >>> from daskfs.errors import public_url
    >>> public_url("s3://key:secret@bucket/x.zarr?token=1")
    's3://bucket/x.zarr'
    """
    return re.sub(r"://[^/]*@", "://", url).split("?")[0] if "://" in url else url


def redact(text: str) -> str:
    """Text that may hold URLs, without the users, passwords and signatures in them.

    >>> from daskfs.errors import redact
    >>> redact("https://me:secret@host/x.vw?sig=secret: no such file")
    'https://host/x.vw?…: no such file'
    """
    return _QUERY.sub(r"\1?…", _USER.sub("://", text))


class DaskfsError(Exception):
    """The common parent: catch this to catch everything daskfs raises on purpose.

    None shows a password or a signature that is in a URL, whoever prints it.
    """

    def __init__(self, *given: object) -> None:
        super().__init__(*(redact(one) if isinstance(one, str) else one for one in given))


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
    """Nobody answers where a cluster should be; it may be there later."""


class DatasetError(DaskfsError):
    """A dataset is missing, incomplete, or not laid out as daskfs lays datasets out."""


class Busy(DatasetError):
    """Another process writes to the same place; when it has ended, the same can be tried again."""


class ChunkError(DatasetError):
    """One chunk of a dataset is missing, cut short or altered."""

    def __init__(self, dataset: str, chunk: str, reason: str) -> None:
        self.dataset, self.chunk, self.reason = public_url(dataset), chunk, redact(reason)
        super().__init__(self.dataset, chunk, self.reason)

    def __str__(self) -> str:
        return f"{self.dataset}: chunk {self.chunk}: {self.reason}"


class StorageError(DaskfsError):
    """An object store does not do what it is asked: unreachable, no such bucket, credentials that it refuses."""


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
    """A job file says something that cannot be done, noticed before anything is begun."""


class WorkerError(DaskfsError):
    """The workers of a cluster die of the work they are given, again and again."""


class Interrupted(DaskfsError):
    """A run ended before its time through no fault of its own; the same command resumes it."""


def nearest(word: str, known: Iterable[str]) -> str:
    """What somebody who wrote a word may have meant, as a question to add to an error; nothing if nothing is near.

    >>> from daskfs.errors import nearest
    >>> nearest("widht", ["width", "depth"])
    " (did you mean 'width'?)"
    """
    match = get_close_matches(word, list(known), 1)
    return f" (did you mean {match[0]!r}?)" if match else ""


def check_choice(option: str, given: object, choices: object) -> None:
    """OptionError for a word that is none of a Literal's, such as a job file or a script may hold."""
    words = get_args(choices)
    if given not in words:
        raise OptionError(f"{option}: {given!r} is none of {', '.join(words)}")


def check_whole(option: str, given: object, least: int) -> None:
    """OptionError for what is no whole number, or too small a one."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < least:
        raise OptionError(f"{option}={given!r:.40}: must be a whole number, at least {least}")


def check_positive(option: str, given: object, otherwise: str = "") -> None:
    """OptionError for what is no number above 0."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) < float("inf"):
        raise OptionError(f"{option}={given!r:.40}: must be a number above 0{otherwise}")
