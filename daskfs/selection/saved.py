"""How a selection is kept: ``selection.json``, which people and jq read, and ``history.zarr`` beside it.

selection.json holds `version`, `algorithm`, `seed`, `source`, `classes`, `intercept` and `features`, a list of
``{"id", "name", "rank", "weight"}``, one a line; a product of two features has its ``"parents"`` too. The same model
gives the same bytes: keys are sorted, numbers are the shortest that read back the same, and what differs from run to
run (seconds) is in the history. It is written last: without it nothing loads. Reading checks types and sizes of
everything and executes nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from daskfs.errors import DaskfsError, SelectionError
from daskfs.protocol import Label
from daskfs.store.dataset.table import TableColumns, read_table, write_table
from daskfs.store.places.location import Location

VERSION = 1
RECORD, HISTORY, CHECKPOINT = "selection.json", "history.zarr", "checkpoint"
SOURCE = {"url": str, "digest": str, "n_samples": int, "n_features": int}
MOST_BYTES = 1 << 28  # some two million features

Record = dict[str, Any]


def write_selection(location: Location, record: Mapping[str, Any], history: TableColumns) -> None:
    """Keep a selection, in place of one that is there."""
    if location.path is not None and location.path.is_file():
        raise SelectionError(f"{location.url}: is a file; a selection is a folder, choose another name")
    raw = _as_bytes({**record, "version": VERSION})
    if len(raw) > MOST_BYTES:
        raise SelectionError(f"{location.url}: {len(raw) >> 20} MB of names and weights are too many; select fewer")
    with location.one_writer():
        location.delete(RECORD)  # first, so that no record ever stands beside another's history
        location.delete(HISTORY)
        write_table(location.below(HISTORY), history, rows="step")
        location.write(RECORD, raw)


def read_selection(location: Location) -> tuple[Record, TableColumns]:
    """What `write_selection` wrote; SelectionError says what is wrong with anything else."""
    try:
        if location.size(RECORD) > MOST_BYTES:  # before a byte is read
            raise SelectionError(f"{location.url}/{RECORD}: larger than {MOST_BYTES >> 20} MB, which none of ours is")
        raw = location.read(RECORD)
    except (FileNotFoundError, NotADirectoryError):
        if location.exists(f"{CHECKPOINT}/checkpoint"):  # the file; a folder may be left of a run that never began
            raise SelectionError(f"{location.url}: an unfinished run; daskfs select --resume finishes it") from None
        raise SelectionError(f"{location.url}: no selection here") from None
    except OSError as error:
        raise SelectionError(f"{location.url}: cannot be read: {error}") from error
    try:
        record = _checked(raw)
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
        text = "[\n" + ",\n".join(map(_as_json, value)) + "\n]" if key == "features" else _as_json(value)
        members.append(f'"{key}": {text}')
    return ("{\n" + ",\n".join(members) + "\n}\n").encode()


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _checked(raw: bytes) -> Record:
    """The record in the bytes of a selection.json; ValueError if it is not one of ours."""
    record = json.loads(raw)
    if not isinstance(record, dict) or record.get("version") != VERSION:
        version = record.get("version") if isinstance(record, dict) else None
        raise ValueError(f"its version is {version!r:.40}, this daskfs reads {VERSION}")
    for key, kind in {"algorithm": dict, "seed": int, "source": dict, "features": list}.items():
        _need(record, key, kind)
    for key, kind in SOURCE.items():
        _need(record["source"], key, kind)
    for rank, feature in enumerate(record["features"], 1):
        _check_feature(feature, rank)
    _check_numbers(record, "intercept")
    record["classes"] = _classes(record)
    _as_json([record["algorithm"], record["source"], record["classes"]]).encode()  # or it could not be saved again
    return record


def _classes(record: Record) -> list[Label] | None:
    if record.get("classes") is None:
        return None
    _need(record, "classes", list)
    kinds = {type(label) for label in record["classes"]}
    if not kinds <= {int, float} and kinds != {str}:
        raise ValueError("classes are neither all strings nor all numbers")
    return [label if isinstance(label, str) else float(label) for label in record["classes"]]


def _check_feature(feature: Any, rank: int) -> None:
    if not isinstance(feature, dict) or feature.get("rank") != rank:
        raise ValueError(f"feature {rank} of the list is not the feature of that rank")
    _need(feature, "id", int)
    _need(feature, "name", str)
    _check_numbers(feature, "weight")
    feature["name"].encode()  # half a surrogate pair is JSON, but no text
    if "parents" in feature:
        _check_parents(feature["parents"], rank)
    if not 0 <= feature["id"] < 1 << 64:
        raise ValueError(f"feature {rank} of the list: {feature['id']!r:.40} is no feature id")


def _check_parents(parents: Any, rank: int) -> None:
    ids, names = (parents.get("ids"), parents.get("names")) if isinstance(parents, dict) else ([], [])
    good_ids = isinstance(ids, list) and [type(one) is int and 0 <= one < 1 << 64 for one in ids] == [True, True]
    good_names = isinstance(names, list) and [isinstance(one, str) for one in names] == [True, True]
    if not good_ids or not good_names:
        raise ValueError(f"feature {rank} of the list: its parents are not two features")
    _as_json(names).encode()


def _need(record: Mapping[str, Any], key: str, kind: type) -> None:
    if type(record.get(key)) is not kind:
        raise ValueError(f"{key!r} is missing or not of type {kind.__name__}")


def _check_numbers(record: Mapping[str, Any], key: str) -> None:
    """One number, or a list of them."""
    value = record.get(key)
    numbers = value if isinstance(value, list) else [value]
    if not all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers):
        raise ValueError(f"{key!r} is missing or not a finite number")
