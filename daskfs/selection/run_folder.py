"""Files of a selection run, ``selection.json`` and ``history.zarr``, and of a job, ``published.json``.

The file selection.json holds `version`, `algorithm`, `seed`, `source`, `classes`, `intercept` and `features`, and the
names of several `targets` where there are any. `date_formats` says how dates of columns are written, where it is not
ISO 8601. `threshold` is a list of numbers where predictions have one.
`statistics` are lists of numbers of the features by name, with null for
NaN, where the algorithm computes any.
`features` is a list of ``{"id", "importance", "name", "rank", "weight"}``, one a line; a product of two features also
has ``"parents"``. `kept` is such a list of the features that the user asked to keep, and `chosen` holds values that the
data decided for parameters. Equal models give equal bytes: keys are sorted, numbers have the fewest digits that read
back the same, and measured seconds are in the history. The file selection.json is written last, and without it the
folder does not load. Reading checks the types and sizes of all values and executes nothing.

The file published.json of a job points to the folder of a selection run and is replaced in one step. The members of
published.json are "version", "job", "run" (the folder) and "files" (SHA-256 digests by name of file). A reader who
follows published.json finds the old or the new selection run, complete. The digests show whether a file was changed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from daskfs.errors import DaskfsError, OptionError, SelectionError, public_url
from daskfs.protocol import Label
from daskfs.selection.records import Record, as_json
from daskfs.store.dataset.json_checks import is_count, is_number, parse_json
from daskfs.store.dataset.table import TableColumns, read_table, write_table
from daskfs.store.places.location import Location

VERSION = 1
RECORD, HISTORY, CHECKPOINT, PUBLISHED = "selection.json", "history.zarr", "checkpoint", "published.json"
SOURCE = {"url": str, "digest": str, "n_samples": int, "n_features": int}
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


def _parse(raw: bytes) -> Record:
    """Return the record in the bytes of a selection.json; raise ValueError if a member is missing or wrong."""
    record = parse_json(raw)
    if not isinstance(record, dict) or record.get("version") != VERSION:
        version = record.get("version") if isinstance(record, dict) else None
        raise ValueError(f"its version is {version!r:.40}, this daskfs reads {VERSION}")
    record.setdefault("chosen", {})  # selections of older versions have none
    for key, kind in {"algorithm": dict, "seed": int, "source": dict, "features": list, "chosen": dict}.items():
        _check_type(record, key, kind)
    for key, kind in SOURCE.items():
        _check_type(record["source"], key, kind)
    for rank, feature in enumerate(record["features"], 1):
        if not isinstance(feature, dict) or feature.get("rank") != rank:
            raise ValueError(f"feature {rank} of the list is not the feature of that rank")
        _check_feature(feature, rank)
    if "kept" in record:
        _check_type(record, "kept", list)
        for number, feature in enumerate(record["kept"], 1):
            _check_type({"kept": feature}, "kept", dict)
            _check_feature(feature, number)
    _check_numbers(record, "intercept")
    record["classes"] = _classes(record)
    if "targets" in record:
        _check_targets(record["targets"])
    if "statistics" in record:
        _check_statistics(record["statistics"])
    if "threshold" in record:
        _check_type(record, "threshold", list)
        _check_numbers(record, "threshold")
    if "date_formats" in record:
        _check_date_formats(record["date_formats"])
    as_json(
        [record["algorithm"], record["source"], record["chosen"], record["classes"]]
    ).encode()  # or it could not be saved again
    return record


def _classes(record: Record) -> list[Label] | None:
    if record.get("classes") is None:
        return None
    _check_type(record, "classes", list)
    kinds = {type(label) for label in record["classes"]}
    if not kinds <= {int, float} and kinds != {str}:
        raise ValueError("classes are neither all strings nor all numbers")
    return [label if isinstance(label, str) else float(label) for label in record["classes"]]


def _check_targets(targets: Any) -> None:
    """Raise ValueError unless a value is a list of at least two different strings that can be saved again."""
    if not isinstance(targets, list) or not all(isinstance(name, str) for name in targets):
        raise ValueError("targets are not a list of names")
    if len(targets) < 2 or len(set(targets)) < len(targets):
        raise ValueError("targets are fewer than two, or two have the same name")
    as_json(targets).encode()


def _check_statistics(statistics: Any) -> None:
    """Raise ValueError unless a value is an object of lists of numbers and null, with names that can be saved again."""
    if not isinstance(statistics, dict) or not all(isinstance(column, list) for column in statistics.values()):
        raise ValueError("statistics are not lists of numbers by name")
    if not all(number is None or is_number(number) for column in statistics.values() for number in column):
        raise ValueError("statistics have something else than numbers and null")
    as_json(list(statistics)).encode()


def _check_date_formats(formats: Any) -> None:
    """Raise ValueError unless a value is an object of texts that can be saved again."""
    if not isinstance(formats, dict) or not all(isinstance(text, str) for text in formats.values()):
        raise ValueError("date formats are not texts by name")
    as_json(formats).encode()


def _check_feature(feature: Record, rank: int) -> None:
    _check_type(feature, "id", int)
    _check_type(feature, "name", str)
    _check_numbers(feature, "weight")
    if "importance" in feature and not (is_number(feature["importance"]) and feature["importance"] >= 0):
        raise ValueError(f"feature {rank} of the list: its importance is not a number from 0")
    feature["name"].encode()  # half a surrogate pair is JSON, but no text
    if "parents" in feature:
        _check_parents(feature["parents"], rank)
    if not is_count(feature["id"]):
        raise ValueError(f"feature {rank} of the list: {feature['id']!r:.40} is no feature id")


def _check_parents(parents: Any, rank: int) -> None:
    ids, names = (parents.get("ids"), parents.get("names")) if isinstance(parents, dict) else ([], [])
    good_ids = isinstance(ids, list) and list(map(is_count, ids)) == [True, True]
    good_names = isinstance(names, list) and [isinstance(name, str) for name in names] == [True, True]
    if not good_ids or not good_names:
        raise ValueError(f"feature {rank} of the list: its parents are not two features")
    as_json(names).encode()


def _check_type(record: Mapping[str, Any], key: str, kind: type) -> None:
    if type(record.get(key)) is not kind:
        raise ValueError(f"{key!r} is missing or not of type {kind.__name__}")


def _check_numbers(record: Mapping[str, Any], key: str) -> None:
    """Raise ValueError unless ``record[key]`` is a finite number or a list of finite numbers."""
    value = record.get(key)
    numbers = value if isinstance(value, list) else [value]
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers):
        raise ValueError(f"{key!r} is missing or not a finite number")


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
    """Return the path of a run relative to the pointer's folder, or the URL of a run outside the pointer's folder."""
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
