"""Small JSON records beside a selection: run times and versions, metrics, profiles, scores by size, and stability.

Each record is one file, written in one step, with sorted keys and null for unknown numbers. Reading checks the size of
the file, that required members are present, and the types of all known members; unknown members are left as they are.
The text in a record is not checked, so that names may contain HTML.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from daskfs.errors import SelectionError
from daskfs.store.places.location import Location

RUN_RECORD, METRICS, SIZES, STABILITY = "run.json", "metrics.json", "sizes.json", "stability.json"
PROFILES = "profiles.json"
REPORT = "report.html"
MOST_BYTES = 1 << 26  # labels and names may be long

Record = dict[str, Any]
Check = Callable[[Any], bool]


def write_record(location: Location, name: str, record: Mapping[str, Any]) -> None:
    """Write a record into the folder of a selection run, and replace an earlier record of the same name.

    Parameters
    ----------
    location
        The folder.
    name
        `RUN_RECORD`, `METRICS`, `PROFILES`, `SIZES` or `STABILITY`.
    record
        Values that JSON can hold, without NaN (see `without_nan`).

    Examples
    --------
    >>> from daskfs.store.places.location import Location
    >>> write_record(Location("run"), SIZES, {"metric": "r2", "sizes": [1], "scores": [0.5], "intervals": [[0.4, 0.6]]})
    >>> read_record(Location("run"), SIZES)["scores"], read_record(Location("run"), METRICS)
    ([0.5], None)
    """
    try:
        raw = (as_json(_check(name, dict(record)), indent=1) + "\n").encode()
    except ValueError as error:
        raise SelectionError(f"{location.url}/{name}: {error}; it was not written") from error
    if len(raw) > MOST_BYTES:
        raise SelectionError(f"{location.url}/{name}: {len(raw) >> 20} MB are too many, at most {MOST_BYTES >> 20}")
    location.write(name, raw)


def read_record(location: Location, name: str) -> Record | None:
    """Return a record that `write_record` wrote, None without a file; raise SelectionError if the file is damaged."""
    where = f"{location.url}/{name}"
    try:
        raw = location.read(name, 0, MOST_BYTES + 1) if location.exists(name) else None
    except OSError as error:
        raise SelectionError(f"{where}: cannot be read: {error}") from error
    if raw is None:
        return None
    if len(raw) > MOST_BYTES:
        raise SelectionError(f"{where}: larger than {MOST_BYTES >> 20} MB, which none of ours is; remove it")
    try:
        record = _check(name, json.loads(raw))
        as_json(record).encode()  # or it could not be written again: half a character, a number without end
    except (ValueError, RecursionError) as error:
        raise SelectionError(f"{where}: {str(error) or 'too deep'}; remove it, or make it again") from error
    return record


def without_nan(value: Any) -> Any:
    """Return a value for JSON, with None for numbers that are not finite, lists for tuples, and no numpy types.

    >>> without_nan({"a": (1.5, float("nan")), "b": np.float64(2)})
    {'a': [1.5, None], 'b': 2.0}
    """
    if isinstance(value, Mapping):
        return {key: without_nan(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(member) for member in value]
    if hasattr(value, "tolist"):
        return without_nan(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(record: Any, indent: int | None = None) -> str:
    """Return a record as JSON text with sorted keys; raise ValueError if the record contains NaN."""
    return json.dumps(record, indent=indent, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _check(name: str, record: Any) -> Record:
    """Return the record if it has the members that `SHAPES` gives for `name`; raise ValueError if not."""
    if not isinstance(record, dict):
        raise ValueError("is no JSON object")
    must, may = SHAPES[name]
    for key, check in must.items():
        if key not in record or not check(record[key]):
            raise ValueError(f"{key!r} is missing, or not what it should be")
    for key, check in may.items():
        if key in record and not check(record[key]):
            raise ValueError(f"{key!r} is not what it should be")
    return record


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value from JSON is a number that fits into a float64, which large integers do not."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_whole(value: Any) -> bool:
    return type(value) is int and is_number(value)


def is_count(value: Any) -> bool:
    """Return whether a value from JSON is a whole number that fits into an unsigned 64-bit integer."""
    return type(value) is int and 0 <= value < 1 << 64


def _is(kind: type) -> Check:
    return lambda value: isinstance(value, kind)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _object_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _with(**members: Check) -> Check:
    """Return a function that checks whether a value is an object with at least these members."""
    return lambda value: isinstance(value, dict) and all(key in value and members[key](value[key]) for key in members)


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_or_none(is_number), value))


def _is_label(value: Any) -> bool:
    return isinstance(value, str) or is_number(value)


_is_text, _is_flag, _is_object = _is(str), _is(bool), _is(dict)
_maybe_number = _or_none(is_number)  # null where it is unknown
_numbers, _maybe_numbers = _list_of(is_number), _list_of(_maybe_number)
_CURVES: dict[str, Check] = {
    "confusion": _or_none(_list_of(_numbers)),
    "roc": _or_none(_with(false_positive=_numbers, true_positive=_numbers)),
    "calibration": _with(predicted=_numbers, share=_numbers, rows=_numbers),
    "scatter": _with(true=_numbers, predicted=_numbers, step=is_count),
}
_OF_FEATURE: dict[str, Check] = {
    "edges": _numbers,
    "counts": lambda value: _numbers(value) or _list_of(_numbers)(value),
    "places": _numbers,
    "means": _numbers,
    "present": _numbers,
    "values": _maybe_numbers,
    "with": _maybe_number,
    "without": _maybe_number,
    "effect": _with(values=_numbers, means=_list_of(_numbers)),
    "alternatives": _list_of(_with(id=is_count, name=_is_text, correlation=is_number)),
}


def _may_have(members: Mapping[str, Check]) -> Check:
    """Return a function that checks those of these members that an object has."""
    return lambda value: isinstance(value, dict) and all(members[key](value[key]) for key in members if key in value)


def _is_profile(value: Any) -> bool:
    return _with(id=is_count, name=_is_text, importance=is_number)(value) and _may_have(_OF_FEATURE)(value)


SHAPES: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    RUN_RECORD: (
        {"version": is_count, "daskfs": _is_text, "algorithm": _is_object, "seed": _is_whole},
        {
            "python": _is_text,
            "packages": _object_of(_is_text),
            "machine": _with(cores=_maybe_number, memory=_maybe_number),
            "command": _or_none(lambda command: isinstance(command, str) or _list_of(_is_text)(command)),
            "source": _with(url=_is_text, digest=_is_text, n_samples=is_count, n_features=is_count),
            "started": _is_text,
            "finished": _is_text,
            "seconds": _maybe_number,
            "workers": _or_none(is_count),
            "memory": _or_none(_with(promised=_maybe_number, used=_maybe_number, text=_is_text)),
            "bytes_read": _maybe_number,
            "offers": _or_none(_with(count=_maybe_number, staleness=_maybe_number, staleness_max=_maybe_number)),
            "performance_report": _or_none(_is_text),
        },
    ),
    METRICS: (
        {"rows": is_count, "metrics": _object_of(_maybe_number), "intervals": _object_of(_is_interval)},
        {
            "dataset": _is_text,
            "digest": _is_text,
            "held_back": _is_flag,
            "unknown_rows": is_count,
            "weighted": _is_flag,
            "per_class": _list_of(_with(**{"class": _is_label})),
            "per_target": _list_of(_with(target=_is_text)),
            "baseline": _with(answer=_is_label, metrics=_object_of(_maybe_number)),
            "curves": _may_have(_CURVES),
            "univariate": _with(features=is_count, metrics=_object_of(_maybe_number)),
            "is_useless": _is_flag,
            "verdict": _is_text,
        },
    ),
    PROFILES: (
        {"rows": is_count, "features": _list_of(_is_profile)},
        {
            "dataset": _is_text,
            "digest": _is_text,
            "classes": _or_none(_list_of(_with(**{"class": _is_label}, rows=is_count))),
            "shown": _list_of(is_count),
            "sampled": is_count,
            "effect_of": _is_text,
            "alternatives": _is_text,
            "least_correlation": is_number,
        },
    ),
    SIZES: (
        {
            "metric": _is_text,
            "sizes": _list_of(is_count),
            "scores": _list_of(_maybe_number),
            "intervals": _list_of(_is_interval),
        },
        {
            "dataset": _is_text,
            "digest": _is_text,
            "how": _is_text,
            "as_selected": _or_none(_with(size=is_count, score=_maybe_number, interval=_is_interval)),
        },
    ),
    STABILITY: (
        {
            "seeds": _list_of(_is_whole),
            "index": _maybe_number,
            "jaccard": _maybe_number,
            "features": _list_of(_with(id=is_count, name=_is_text, times=is_count)),
            "distinct": is_count,
        },
        {
            "of": _is_text,
            "over": _is_text,
            "interval": _is_interval,
            "n_candidates": lambda count: _is_whole(count) and count >= 0,  # pairs of 63-bit ids are beyond 64
            "identical": _is_flag,
            "remark": _is_text,
            "rank_correlation": _maybe_number,
        },
    ),
}
"""The required and the optional members of each record, and the function that checks each member."""
