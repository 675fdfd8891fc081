"""Reading and checking of job files, TOML files that describe all steps of a job.

Paths are relative to the folder of the job file. ``${NAME}`` in a string is replaced by an environment variable.
Secrets are accepted only as ``${NAME}``. The module `daskfs.job.tables` defines the keys of a job file.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from io import BufferedReader
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from daskfs.errors import JobError, OptionError, nearest_or_some
from daskfs.job.tables import SHORT, Job
from daskfs.store.places.local import open_regular

_SECRET = {
    "storage": re.compile(r"secret|password|token|(^|_)key$|credential|sas", re.IGNORECASE),
    "cluster": re.compile(r"password|passphrase|(^|_)token$|^(client_)?secret$|(access|api)_key$", re.IGNORECASE),
}
"""For each table of a job file, a pattern of key names that hold secrets (with Kubernetes exceptions in [cluster])."""
_PATHS = {
    "": {"out"},
    "ingest": {"sources", "test_sources"},
    "data": {"train", "test"},
    "publish": {"to"},
    "report": {"to"},
}
"""For each table of a job file, the keys that hold paths."""
MOST_BYTES = 1 << 24
_VARIABLE = re.compile(r"\$\{(\w+)\}")


def load_job(path: str | os.PathLike[str], changes: Mapping[str, Any] | None = None) -> Job:
    """Read and check a job file. Raise JobError with a one-line message and line number if the file is invalid.

    Parameters
    ----------
    path
        The path of the job file.
    changes
        Values that replace values of the file, such as ``{"select.n_select": 50}``.

    Examples
    --------
    >>> _ = Path("job.toml").write_text('''
    ... out = "runs/genes"
    ... [data]
    ... train = "genes.zarr"
    ... [select]
    ... algorithm = "substitution"
    ... k = 10
    ... ''')
    >>> from daskfs.job.file import load_job
    >>> load_job("job.toml", {"select.k": 20}).select.params.n_select
    20
    """
    path = Path(path)
    try:
        with BufferedReader(open_regular(path)) as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise JobError(f"{path}: more than {MOST_BYTES >> 20} MB are no job file")
        text = raw.decode("utf-8-sig")
        content = tomllib.loads(text)
    except OSError as error:
        raise JobError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JobError(f"{path}: is not TOML: {error}") from error
    for key, value in (changes or {}).items():
        _change(content, key, value)
    try:
        for table, looks_secret in _SECRET.items():
            _check_no_secret(table, content.get(table), looks_secret)
        job = Job.model_validate(_absolute(_substitute(content), path.absolute().parent))
    except ValidationError as error:
        raise JobError(_refusal(path, text, error)) from None
    except OptionError as error:
        raise JobError(f"{path}: {error}") from None
    return job if job.name else job.model_copy(update={"name": path.stem})


def _change(content: dict[str, Any], key: str, value: Any) -> None:
    *tables, last = key.split(".")
    for table in tables:
        content = content.setdefault(table, {})
        if not isinstance(content, dict):
            raise JobError(f"{key}: {table} is no table")
    if last in SHORT.values() or last in SHORT:  # one key by two names
        for other in (*SHORT, *SHORT.values()):
            content.pop(other, None)
    content[last] = value


def _check_no_secret(where: str, value: Any, looks_secret: re.Pattern[str]) -> None:
    """Raise OptionError for a secret in a table, where ``{name = "A", value = "b"}`` also counts as ``{A = "b"}``."""
    if isinstance(value, list):
        for member in value:
            _check_no_secret(where, member, looks_secret)
    if not isinstance(value, dict):
        return
    named = {str(value["name"]): value["value"]} if {"name", "value"} <= value.keys() else {}
    for key, member in (*value.items(), *named.items()):
        _check_no_secret(f"{where}.{key}", member, looks_secret)
        if looks_secret.search(key) and isinstance(member, str) and not _VARIABLE.fullmatch(member):
            raise OptionError(f'{where}.{key}: no secrets in a file; write "${{NAME}}" and set NAME in the environment')


def _substitute(value: Any, where: str = "") -> Any:
    """Return a value in which every ``${NAME}`` is replaced by the environment variable NAME."""
    if isinstance(value, dict):
        return {key: _substitute(member, f"{where}.{key}".lstrip(".")) for key, member in value.items()}
    if isinstance(value, list):
        return [_substitute(member, where) for member in value]
    if not isinstance(value, str):
        return value
    for name in _VARIABLE.findall(value):
        if name not in os.environ:
            raise OptionError(f"{where}: ${{{name}}} is not set in the environment")
    return _VARIABLE.sub(lambda match: os.environ[match[1]], value)


def _absolute(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content of a job file with all relative paths made absolute, relative to `folder`."""
    for table, keys in _PATHS.items():
        inside = content if not table else content.get(table, {})
        if not isinstance(inside, dict):
            raise OptionError(f"{table}: must be a table, [{table}]")
        for key in keys & inside.keys():
            value = inside[key]
            if value == "":
                raise OptionError(f"{f'{table}.{key}'.lstrip('.')}: is empty; '.' is the folder of this file")
            inside[key] = [_path(item, folder) for item in value] if isinstance(value, list) else _path(value, folder)
    return content


def _path(value: Any, folder: Path) -> Any:
    return value if not isinstance(value, str) or "://" in value else os.path.join(folder, value)


def _refusal(path: Path, text: str, error: ValidationError) -> str:
    """Return a one-line message about the first validation error of a job file, with the line number."""
    where, reason = first_reason(error)
    about = re.match(r"(\w+)[:=]", reason)  # a key of that table, such as a field of an algorithm
    line = (_line(text, [*where, about[1]]) if about else None) or _line(text, where)
    place, key = f"{path}:{line}" if line else str(path), ".".join(where)
    return f"{place}: {key}: {reason[0].lower()}{reason[1:]}" if key else f"{place}: {reason}"


def first_reason(error: ValidationError) -> tuple[list[str], str]:
    """Return the tables and the key of the first error in the content of a job file, and what is wrong with it."""
    # A misspelt key is also missing under its right name: report the misspelling.
    first = min(error.errors(include_url=False), key=lambda entry: entry["type"] != "extra_forbidden")
    where = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        known = _keys(where[:-1])
        return where, f"no such key{nearest_or_some(where[-1], known)}"
    if first["type"] == "missing":
        keys = first["input"] if isinstance(first["input"], dict) else {}
        meant = get_close_matches(where[-1], keys, 1)
        return where, "must be given" + (f" (is it {meant[0]!r} that you call it?)" if meant else "")
    return where, first["msg"].removeprefix("Value error, ")


def _keys(tables: list[str]) -> list[str]:
    """Return the keys that a (nested) table of a job file can have."""
    model: Any = Job
    for table in tables:
        kinds = [model.model_fields[table].annotation]
        kinds += getattr(kinds[0], "__args__", ())
        model = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
    return list(model.model_fields)


def _line(text: str, where: list[str]) -> int | None:
    """Return the line number of a key in a job file, or of the header of its table, or None if not found."""
    if not where:
        return None
    table: list[str] = []
    table_line = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            table = header[1].split(".")
            table_line = number if table == where else table_line
        elif (key := re.match(r'\s*"?([\w-]+)"?\s*=', line)) and [*table, key[1]] == where[: len(table) + 1]:
            return number
    return table_line
