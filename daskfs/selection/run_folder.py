"""Files of a selection run, ``selection.json`` and ``history.zarr``, and of a job, ``published.json``.

The file selection.json holds `version`, `algorithm`, `seed`, `source`, `classes`, `intercept` and `features`, and the
names of several `targets` where there are any. `date_formats` says how dates of columns are written, where it is not
ISO 8601. `threshold` is a list of numbers where predictions have one.
`statistics` are lists of numbers of the features by name, with null for
NaN, where the algorithm computes any.
`features` is a list of ``{"id", "importance", "name", "rank", "weight"}``, one a line; a product of two features also
has ``"parents"``. `kept` is such a list of the features that the user asked to keep, and `chosen` holds values that the
data decided for parameters. Equal models give equal bytes: keys are sorted, numbers have the fewest digits that read
back the same, and measured seconds, which vary, are stored in the history. The file selection.json is written last, and
without it the folder does not load. Reading checks the types and sizes of all values and executes nothing.

The file published.json of a job points to the folder of a selection run and is replaced in one step. The members of
published.json are "version", "job", "run" (the folder) and "files" (SHA-256 digests by name of file). A reader who
follows published.json finds the old or the new selection run, complete. The digests show whether a file was changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from daskfs.errors import DaskfsError, OptionError, SelectionError, public_url
from daskfs.selection.records import Record, as_json
from daskfs.store.dataset.json_checks import (
    Check,
    are_fills,
    check_members,
    is_count,
    is_kind,
    is_number,
    is_object,
    is_text,
    is_whole,
    list_of,
    object_of,
    or_none,
    parse_json,
    with_members,
)
from daskfs.store.dataset.table import TableColumns, read_table, write_table
from daskfs.store.places.location import Location

VERSION = 1
RECORD, HISTORY, CHECKPOINT, PUBLISHED = "selection.json", "history.zarr", "checkpoint", "published.json"
SOURCE = ("url", "digest", "n_samples", "n_features")
MOST_BYTES = 1 << 28  # of a selection.json: some two million features
_MOST_POINTER_BYTES = 1 << 16


def write_selection(location: Location, record: Mapping[str, Any], history: TableColumns) -> None:
    """Write a selection into a folder, and replace an earlier selection in the folder."""
    if location.path is not None and location.path.is_file():
        raise SelectionError(f"{location.url}: is a file; a selection is a folder, choose another name")
    raw = _as_bytes({**record, "version": VERSION})
    if len(raw) > MOST_BYTES:
        raise SelectionError(f"{location.url}: {len(raw) >> 20} MB of names and weights are too many; select fewer")
    with location.one_writer():
        location.sweep("*")
        location.delete(RECORD)  # first, so that no record ever stands beside another's history
        location.delete(HISTORY)
        write_table(location.below(HISTORY), history, rows="step")
        location.write(RECORD, raw)


def read_selection(location: Location) -> tuple[Record, TableColumns]:
    """Return the record and history that `write_selection` wrote; raise SelectionError if these are damaged."""
    try:
        raw = location.read(RECORD, most=MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        if location.exists(f"{CHECKPOINT}/checkpoint"):  # the file; a run that never began may have left a folder
            raise SelectionError(f"{location.url}: an unfinished run; daskfs select --resume finishes it") from None
        raise SelectionError(f"{location.url}: no selection here") from None
    except OSError as error:
        raise SelectionError(f"{location.url}/{RECORD}: cannot be read: {error}") from error
    try:
        record = _parse(raw)
        history = read_table(location.below(HISTORY), rows="step")
    except DaskfsError as error:
        raise SelectionError(f"{error}; the selection is damaged, make it again") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise SelectionError(f"{location.url}/{RECORD}: {error}; make the selection again") from error
    return record, history


def _as_bytes(record: Mapping[str, Any]) -> bytes:
    members = []
    for key in sorted(record):
        value = record[key]
        text = "[\n" + ",\n".join(map(as_json, value)) + "\n]" if key == "features" else as_json(value)
        members.append(f'"{key}": {text}')
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


def _are_numbers(value: Any) -> bool:
    return is_number(value) or list_of(is_number)(value)


def _two(check: Check) -> Check:
    return lambda value: list_of(check)(value) and len(value) == 2


_KEPT = {"id": is_count, "name": is_text, "weight": _are_numbers}
_SELECTED = {**_KEPT, "rank": is_count, "importance": lambda share: is_number(share) and share >= 0}
_PRODUCT = {"parents": with_members(ids=_two(is_count), names=_two(is_text))}
_MUST: dict[str, Check] = {
    "algorithm": is_object,
    "seed": is_whole,
    "source": with_members(url=is_text, digest=is_text, n_samples=is_count, n_features=is_count),
    "features": is_kind(list),
    "intercept": _are_numbers,
    "chosen": is_object,
}
_MAY: dict[str, Check] = {
    "classes": or_none(lambda labels: list_of(is_number)(labels) or list_of(is_text)(labels)),
    "kept": is_kind(list),
    "targets": lambda names: list_of(is_text)(names) and len(set(names)) == len(names) >= 2,
    "statistics": object_of(list_of(or_none(is_number))),
    "threshold": list_of(is_number),
    "date_formats": object_of(is_text),
    "missing": are_fills,
    "error_control": is_object,
}


def _parse(raw: bytes) -> Record:
    """Return the record in the bytes of a selection.json; raise ValueError if a member is missing or wrong."""
    record = parse_json(raw)
    if not isinstance(record, dict) or record.get("version") != VERSION:
        version = record.get("version") if isinstance(record, dict) else None
        raise ValueError(f"its version is {version!r:.40}, this daskfs reads {VERSION}")
    check_members(record, _MUST, _MAY)
    for key, must in (("features", _SELECTED), ("kept", _KEPT)):
        for number, feature in enumerate(record.get(key, ()), 1):
            try:
                check_members(feature, must, _PRODUCT)
            except ValueError as error:
                raise ValueError(f"feature {number} of {key!r}: {error}") from None
    if [feature["rank"] for feature in record["features"]] != list(range(1, len(record["features"]) + 1)):
        raise ValueError("the features are not in the order of their ranks")
    as_json([record["algorithm"], record["source"], record["chosen"]])  # or it could not be saved again
    return record


def publish(pointer: Location, run: Location, files: Iterable[str], job: str) -> bool:
    """Write a file that points to a selection run; return False if the file points to that run already.

    Parameters
    ----------
    pointer
        The file itself, as a location.
    run
        The folder of the run.
    files
        The names of the run's files whose digests are written.
    job
        The name of the job.
    """
    folder, key = _split(pointer)
    hashes = {name: hashlib.sha256(run.read(name)).hexdigest() for name in files}
    record = {"files": hashes, "job": job, "run": _address_from(folder, run), "version": VERSION}
    raw = (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    if folder.exists(key) and folder.read(key, 0, len(raw) + 1) == raw:
        return False
    folder.sweep(key)
    folder.write(key, raw)
    return True


def check_replaceable(pointer: Location) -> None:
    """Raise OptionError if the file exists but does not point to a selection run, so that daskfs did not write it."""
    folder, key = _split(pointer)
    try:
        if folder.exists(key):
            _address(folder.read(key, 0, _MOST_POINTER_BYTES))
    except DaskfsError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, IsADirectoryError):
        raise OptionError(f"{pointer.url}: is there already, and points to no run; choose another name") from None


def resolve_run(location: Location) -> Location:
    """Return the selection run that a job's folder or published.json points to, or any other location unchanged."""
    try:
        if location.url.endswith(".json"):
            folder, key = _split(location)
        elif location.exists(RECORD) or not location.exists(PUBLISHED):
            return location
        else:
            folder, key = location, PUBLISHED
        address = _address(folder.read(key, 0, _MOST_POINTER_BYTES))
    except DaskfsError:
        raise
    except OSError as error:
        raise SelectionError(f"{location.url}: cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SelectionError(f"{folder.url}/{key}: does not point to a run ({error}); run the job again") from error
    return Location(address, location.options) if "://" in address or address[:1] == "/" else folder.below(address)


def _address_from(folder: Location, run: Location) -> str:
    """Return how a file in `folder` names a run: by its path relative to `folder`, or by its URL if it is elsewhere."""
    if not run.is_within(folder):
        return public_url(run.url)
    if run.path is None or folder.path is None:
        return run.url[len(folder.url) + 1 :]
    return run.path.resolve().relative_to(folder.path.resolve()).as_posix()  # "./", ".." and links are other spellings


def _address(raw: bytes) -> str:
    """Return the path or URL of a pointer's selection run; raise ValueError, TypeError or KeyError for other bytes."""
    record = parse_json(raw)
    if record["version"] != VERSION:
        raise ValueError(f"version {record['version']!r:.20}")
    address = record["run"]
    if not isinstance(address, str) or ".." in address.split("/"):
        raise ValueError(f"run {address!r:.80}")
    return address


def _split(pointer: Location) -> tuple[Location, str]:
    folder, _, key = pointer.url.rpartition("/")
    return Location(folder or ".", pointer.options), key
