"""The exception classes of daskfs, whose messages state the problem, its location and a remedy.

The command line reports a :class:`DaskfsError` in one line with its `exit_code`. Any other exception is a bug.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any, get_args

_USER = re.compile(r"://(?:[^/\s]*@|[^/\s:@]*:(?!\d+/)[^\s@]*@)")  # a password may have slashes
_OWNER = re.compile(r"\b(github|gist|dropbox|box|gdrive|wandb)://[^/\s]+")  # a token is often put there
_NAME_OF_SECRET = re.compile(r"secret|password|passphrase|token|credential|sas|(^|_)key$", re.IGNORECASE)
_LEAST_SECRET = 8  # characters: shorter ones may be part of any word
_secrets: set[str] = set()
_QUERY = re.compile(r"(://[^\s?]+)\?\S+?(?=(?::\d+)?:?(?:\s|$))")  # a line's number and a colon may follow it


def public_url(url: str) -> str:
    """Return a URL without user, password and query, so that the URL can be stored in a record.

    >>> from daskfs.errors import public_url
    >>> public_url("s3://key:secret@bucket/x.zarr?token=1")
    's3://bucket/x.zarr'
    """
    return _USER.sub("://", url).split("?")[0] if "://" in url else url


def without_secrets(value: Any) -> Any:
    """Return a JSON value without users, passwords and queries of URLs, and without null, which TOML lacks."""
    if isinstance(value, dict):
        return {key: without_secrets(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_secrets(member) for member in value if member is not None]
    return " ".join(map(public_url, value.split(" "))) if isinstance(value, str) else value


def redact(text: str) -> str:
    """Return a text with users, passwords and signatures removed from all URLs in the text, and all known secrets.

    Known secrets are the values that `hide_secrets` was given, and environment variables that are called so.

    >>> from daskfs.errors import redact
    >>> redact("https://me:secret@host/x.vw?sig=secret: no such file")
    'https://host/x.vw?…: no such file'
    """
    text = _OWNER.sub(r"\1://…", _QUERY.sub(r"\1?…", _USER.sub("://", text)))
    of_system = {value for name, value in os.environ.items() if _NAME_OF_SECRET.search(name) and "/" not in value[:2]}
    for secret in sorted(_secrets | of_system, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, "…")
    return text


def hide_secrets(value: Any, is_secret: bool = False) -> None:
    """Keep the secrets of storage options, or of a URL, out of all later messages, even if other libraries quote them.

    Secrets are the option values whose names look so, and user, password and signature of a URL.
    """
    if isinstance(value, Mapping):
        for name, member in value.items():
            hide_secrets(member, bool(_NAME_OF_SECRET.search(str(name))))
    elif isinstance(value, str) and is_secret:
        _secrets.add(value)
    elif isinstance(value, str):
        for user in _USER.finditer(value):
            _secrets.update([user[0][3:-1], *user[0][3:-1].split(":", 1)[1:]])
        _secrets.update(part.partition("=")[2] for part in value.partition("?")[2].split("&") if "://" in value)


class DaskfsError(Exception):
    """The base class of all exceptions that daskfs raises on purpose.

    The message of a DaskfsError never contains a password or a signature of a URL.
    """

    exit_code = 2
    """The exit code of a command that ends with this error: 2 for wrong usage or bad input."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redact(part) if isinstance(part, str) else part for part in arguments))


class SourceError(DaskfsError):
    """Raised if a source file cannot be read because it is missing, truncated or of the wrong kind."""


class BadLineError(SourceError):
    """Raised if one line (or row, or record) of a source file cannot be parsed in the file's format."""

    def __init__(self, file: str, line: int, reason: str, unit: str = "") -> None:
        self.file, self.line, self.reason, self.unit = public_url(file), line, redact(reason), unit
        super().__init__(self.file, line, self.reason, unit)  # all four, so that it survives a pickle

    def __str__(self) -> str:
        where = f"{self.unit} {self.line}" if self.unit else str(self.line)
        return f"{self.file}:{where}: {self.reason}"


class OptionError(DaskfsError, ValueError):
    """Raised for an invalid argument, before anything is read or written."""


class Unreachable(OptionError):
    """Raised if no Dask scheduler answers at the address of a cluster, perhaps only temporarily."""


class DatasetError(DaskfsError):
    """Raised if a dataset is missing, incomplete, or not in the format of daskfs."""


class Busy(DatasetError):
    """Raised if another process is writing to the same location."""


class ChunkError(DatasetError):
    """Raised if one chunk of a dataset is missing, truncated or altered."""

    def __init__(self, dataset: str, chunk: str, reason: str) -> None:
        self.dataset, self.chunk, self.reason = public_url(dataset), chunk, redact(reason)
        super().__init__(self.dataset, chunk, self.reason)

    def __str__(self) -> str:
        return f"{self.dataset}: chunk {self.chunk}: {self.reason}"


class StorageError(DaskfsError):
    """Raised if an object store is unreachable, lacks the bucket, or refuses the credentials."""


class ColumnError(DaskfsError):
    """Raised if a column of a dataset cannot be used, with the dataset and the column's name added by the engine."""

    def __init__(self, feature: int, reason: str) -> None:
        self.feature, self.reason = feature, reason
        super().__init__(feature, reason)

    def __str__(self) -> str:
        return f"column {self.feature}: {self.reason}"


class RowError(DaskfsError):
    """Raised if a row of a dataset cannot be used, with the dataset and the feature's name added by the engine."""

    def __init__(self, row: int, feature: int, reason: str) -> None:
        self.row, self.feature, self.reason = row, feature, reason
        super().__init__(row, feature, reason)

    def __str__(self) -> str:
        return f"row {self.row}, feature {self.feature}: {self.reason}"


class SelectionError(DaskfsError):
    """Raised if a saved selection is missing, incomplete, or not in the format of daskfs."""


class CheckpointError(DaskfsError):
    """Raised if a checkpoint is damaged, or belongs to another selection run than the run to be resumed."""


class JobError(DaskfsError):
    """Raised for an invalid job file, before the first step of the job."""


class NotPublished(DaskfsError):
    """Raised if a job ran to its end, and its result is not good enough to be published."""

    exit_code = 3


class WorkerError(DaskfsError):
    """Raised if tasks repeatedly kill the workers of a Dask cluster."""


class Interrupted(DaskfsError):
    """Raised if a command was interrupted from outside and can be resumed by the same command."""

    exit_code = 75


_REMEDIES = {
    errno.ENOSPC: "free some space there, and run the same command again",
    errno.EDQUOT: "free some space there, or ask for a larger quota, and run the same command again",
    errno.EACCES: "check who owns it and who may read or write it",
    errno.EPERM: "check who owns it and who may read or write it",
    errno.EROFS: "choose a place that can be written",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "close other programs that hold files open",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOMEM: "close other programs, or give --memory less",
    errno.EIO: "the disk or the network drive may be failing: see the log of the system",
    errno.ELOOP: "a link leads back to itself: remove it",
}


def explain_os_error(error: OSError) -> str:
    """Return what an error of the operating system says, in one line: the place, what is wrong, and what to do.

    >>> import errno
    >>> from daskfs.errors import explain_os_error
    >>> explain_os_error(OSError(errno.ENOSPC, "No space left on device", "run/selection.json"))
    'run/selection.json: no space left on device; free some space there, and run the same command again'
    """
    if error.errno is None or not error.strerror:
        return str(error)
    reason = error.strerror[:1].lower() + error.strerror[1:]
    place, remedy = error.filename, _REMEDIES.get(error.errno)
    if place is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = f"{tempfile.gettempdir()} or the folder of the output"
    where = f"{os.fsdecode(place) if isinstance(place, bytes | os.PathLike) else place}: " if place is not None else ""
    return f"{where}{reason}" + (f"; {remedy}" if remedy else "")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" with the known word most similar to `word`, or "" if no known word is similar.

    Upper and lower case are similar.

    >>> from daskfs.errors import nearest
    >>> nearest("widht", ["width", "depth"])
    " (did you mean 'width'?)"
    """
    folded = {each.casefold(): each for each in known}
    match = get_close_matches(word.casefold(), list(folded), 1)
    return f" (did you mean {folded[match[0]]!r}?)" if match else ""


def nearest_or_some(word: str, known: Iterable[str]) -> str:
    """Return what `nearest` returns or, if no known word is similar, "; there are …" with some of the known words.

    >>> from daskfs.errors import nearest_or_some
    >>> nearest_or_some("wide", ["k", "seed"])
    '; there are k, seed'
    """
    known = list(known)
    return nearest(word, known) or f"; there are {some_names(known)}"


def some_names(names: Iterable[str], most: int = 8) -> str:
    """Return names between commas: all of them, or the first and the last ones and how many there are.

    >>> from daskfs.errors import some_names
    >>> some_names([f"x{i}" for i in range(300)], most=4)
    'x0, x1, …, x298, x299 (300 in all)'
    """
    names = list(names)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most // 2])}, …, {', '.join(names[-(most // 2) :])} ({len(names):,} in all)"


def check_choice(option: str, value: object, choices: object) -> None:
    """Raise OptionError if the value of an option is not one of the strings of a `Literal` type."""
    words = get_args(choices)
    if not isinstance(value, str) or value not in words:
        raise OptionError(f"{option}: {value!r:.80} is none of {', '.join(words)}{nearest(str(value), words)}")


def check_whole(option: str, value: object, least: int) -> None:
    """Raise OptionError if the value of an option is not a whole number, or is less than `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise OptionError(f"{option}={value!r:.40}: must be a whole number, at least {least}")
