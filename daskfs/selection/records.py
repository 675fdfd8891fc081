"""Small JSON records beside a selection: what is known of a run besides what it chose.

Each is one file, written in one step, with sorted keys and null for what cannot be told. Reading trusts nothing: a
record is no larger than ours are, what it must hold is there, and everything we know has its type; what we do not know
is left as it is. Text may still be anything, such as names with HTML in them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from daskfs.errors import SelectionError
from daskfs.store.places.location import Location

RUN_RECORD, METRICS, SIZES, STABILITY = "run.json", "metrics.json", "sizes.json", "stability.json"
REPORT = "report.html"  # what is made of them
MOST_BYTES = 1 << 26  # labels and names may be long

Record = dict[str, Any]
Check = Callable[[Any], bool]


def write_record(location: Location, name: str, record: Mapping[str, Any]) -> None:
    """Keep a record in the folder of a run, in place of one that is there.

    Parameters
    ----------
    location
        The folder.
    name
        `RUN_RECORD`, `METRICS`, `SIZES` or `STABILITY`.
    record
        What JSON can hold, and no NaN (see `without_nan`).

    Examples
    --------
    >>> from daskfs.store.places.location import Location
    >>> write_record(Location("run"), SIZES, {"metric": "r2", "sizes": [1], "scores": [0.5], "intervals": [[0.4, 0.6]]})
    >>> read_record(Location("run"), SIZES)["scores"], read_record(Location("run"), METRICS)
    ([0.5], None)
    """
    try:
        raw = (_as_json(_checked(name, dict(record)), indent=1) + "\n").encode()
    except ValueError as error:
        raise SelectionError(f"{location.url}/{name}: {error}; it was not written") from error
    if len(raw) > MOST_BYTES:
        raise SelectionError(f"{location.url}/{name}: {len(raw) >> 20} MB are too many, at most {MOST_BYTES >> 20}")
    location.write(name, raw)


def read_record(location: Location, name: str) -> Record | None:
    """What `write_record` kept; None where nothing is. SelectionError says what is wrong with anything else."""
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
        record = _checked(name, json.loads(raw))
        _as_json(record).encode()  # or it could not be written again: half a character, a number without end
    except (ValueError, RecursionError) as error:
        raise SelectionError(f"{where}: {str(error) or 'too deep'}; remove it, or make it again") from error
    return record


def without_nan(value: Any) -> Any:
    """The same as JSON holds it: None for numbers that are not finite, lists for tuples, Python's numbers for numpy's.

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


def _as_json(record: Record, indent: int | None = None) -> str:
    return json.dumps(record, indent=indent, sort_keys=True, allow_nan=False, ensure_ascii=False)


def _checked(name: str, record: Any) -> Record:
    """The record, if it is one of that name; ValueError says what is wrong with it."""
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


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Whether a float64 can hold it; JSON's whole numbers have no end."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_whole(value: Any) -> bool:
    return type(value) is int and _is_number(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _object_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _with(**members: Check) -> Check:
    """An object that has these members, and perhaps others."""
    return lambda value: isinstance(value, dict) and all(key in value and members[key](value[key]) for key in members)


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_or_none(_is_number), value))


def _is_label(value: Any) -> bool:
    return _is_text(value) or _is_number(value)


_told = _or_none(_is_number)  # a number, or null where it cannot be told
SHAPES: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    RUN_RECORD: (
        {"version": _is_count, "daskfs": _is_text, "algorithm": _is_object, "seed": _is_whole},
        {
            "python": _is_text,
            "packages": _object_of(_is_text),
            "machine": _with(cores=_told, memory=_told),
            "command": _or_none(lambda command: _is_text(command) or _list_of(_is_text)(command)),
            "source": _with(url=_is_text, digest=_is_text, n_samples=_is_count, n_features=_is_count),
            "started": _is_text,
            "finished": _is_text,
            "seconds": _told,
            "workers": _or_none(_is_count),
            "memory": _or_none(_with(promised=_told, used=_told, text=_is_text)),
            "bytes_read": _told,
            "offers": _or_none(_with(count=_told, staleness=_told, staleness_max=_told)),
            "performance_report": _or_none(_is_text),
        },
    ),
    METRICS: (
        {"rows": _is_count, "metrics": _object_of(_told), "intervals": _object_of(_is_interval)},
        {
            "dataset": _is_text,
            "digest": _is_text,
            "held_back": _is_flag,
            "unknown_rows": _is_count,
            "weighted": _is_flag,
            "per_class": _list_of(_with(**{"class": _is_label})),
        },
    ),
    SIZES: (
        {
            "metric": _is_text,
            "sizes": _list_of(_is_count),
            "scores": _list_of(_told),
            "intervals": _list_of(_is_interval),
        },
        {
            "dataset": _is_text,
            "digest": _is_text,
            "how": _is_text,
            "as_selected": _or_none(_with(size=_is_count, score=_told, interval=_is_interval)),
        },
    ),
    STABILITY: (
        {
            "seeds": _list_of(_is_whole),
            "index": _told,
            "jaccard": _told,
            "features": _list_of(_with(id=_is_count, name=_is_text, times=_is_count)),
            "distinct": _is_count,
        },
        {
            "of": _is_text,
            "over": _is_text,
            "interval": _is_interval,
            "n_candidates": lambda count: _is_whole(count) and count >= 0,  # pairs of 63-bit ids are beyond 64
            "identical": _is_flag,
            "remark": _is_text,
            "rank_correlation": _told,
        },
    ),
}
"""What each record must hold, and what else we know of it."""
