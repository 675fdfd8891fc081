"""Small JSON records beside a selection: run times and versions, metrics, profiles, scores by size, and stability.

Each record is one file, written in one step, with sorted keys and null for unknown numbers. Reading checks the size of
the file, that required members are present, and the types of all known members; unknown members are left as they are.
The text in a record is not checked, so that names may contain HTML.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from daskfs.errors import SelectionError
from daskfs.store.dataset.json_checks import (
    Check,
    check_members,
    is_count,
    is_flag,
    is_label,
    is_number,
    is_object,
    is_text,
    is_whole,
    list_of,
    may_have,
    object_of,
    or_none,
    parse_json,
    with_members,
)
from daskfs.store.places.location import Location

RUN_RECORD, METRICS, SIZES, STABILITY = "run.json", "metrics.json", "sizes.json", "stability.json"
PROFILES = "profiles.json"
REPORT = "report.html"
MOST_BYTES = 1 << 26  # labels and names may be long

Record = dict[str, Any]


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
    location.sweep(name)
    location.write(name, raw)


def read_record(location: Location, name: str) -> Record | None:
    """Return a record that `write_record` wrote, None without a file; raise SelectionError if the file is damaged."""
    where = f"{location.url}/{name}"
    try:
        raw = location.read(name, most=MOST_BYTES) if location.exists(name) else None
    except OSError as error:
        raise SelectionError(f"{where}: cannot be read: {error}; remove it, or make it again") from error
    if raw is None:
        return None
    try:
        record = _check(name, parse_json(raw))
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
    return check_members(record, *SHAPES[name])


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(or_none(is_number), value))


_maybe_number = or_none(is_number)  # null where it is unknown
_numbers, _maybe_numbers = list_of(is_number), list_of(_maybe_number)
_CURVES: dict[str, Check] = {
    "confusion": or_none(list_of(_numbers)),
    "roc": or_none(with_members(false_positive=_numbers, true_positive=_numbers)),
    "calibration": with_members(predicted=_numbers, share=_numbers, rows=_numbers),
    "scatter": with_members(true=_numbers, predicted=_numbers, step=is_count),
}
_OF_FEATURE: dict[str, Check] = {
    "edges": _numbers,
    "counts": lambda value: _numbers(value) or list_of(_numbers)(value),
    "places": _numbers,
    "means": _numbers,
    "present": _numbers,
    "values": _maybe_numbers,
    "with": _maybe_number,
    "without": _maybe_number,
    "effect": with_members(values=_numbers, means=list_of(_numbers)),
    "alternatives": list_of(with_members(id=is_count, name=is_text, correlation=is_number)),
}


def _is_profile(value: Any) -> bool:
    return with_members(id=is_count, name=is_text, importance=is_number)(value) and may_have(_OF_FEATURE)(value)


SHAPES: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    RUN_RECORD: (
        {"version": is_count, "daskfs": is_text, "algorithm": is_object, "seed": is_whole},
        {
            "python": is_text,
            "packages": object_of(is_text),
            "machine": with_members(cores=_maybe_number, memory=_maybe_number),
            "command": or_none(lambda command: isinstance(command, str) or list_of(is_text)(command)),
            "source": with_members(url=is_text, digest=is_text, n_samples=is_count, n_features=is_count),
            "started": is_text,
            "finished": is_text,
            "seconds": _maybe_number,
            "workers": or_none(is_count),
            "memory": or_none(with_members(promised=_maybe_number, used=_maybe_number, text=is_text)),
            "bytes_read": _maybe_number,
            "offers": or_none(with_members(count=_maybe_number, staleness=_maybe_number, staleness_max=_maybe_number)),
            "performance_report": or_none(is_text),
            "steps": or_none(is_object),
        },
    ),
    METRICS: (
        {"rows": is_count, "metrics": object_of(_maybe_number), "intervals": object_of(_is_interval)},
        {
            "dataset": is_text,
            "digest": is_text,
            "held_back": is_flag,
            "unknown_rows": is_count,
            "weighted": is_flag,
            "per_class": list_of(with_members(**{"class": is_label})),
            "per_target": list_of(with_members(target=is_text)),
            "baseline": with_members(answer=is_label, metrics=object_of(_maybe_number)),
            "curves": may_have(_CURVES),
            "univariate": with_members(features=is_count, metrics=object_of(_maybe_number)),
            "is_useless": is_flag,
            "verdict": is_text,
        },
    ),
    PROFILES: (
        {"rows": is_count, "features": list_of(_is_profile)},
        {
            "dataset": is_text,
            "digest": is_text,
            "classes": or_none(list_of(with_members(**{"class": is_label}, rows=is_count))),
            "shown": list_of(is_count),
            "sampled": is_count,
            "effect_of": is_text,
            "alternatives": is_text,
            "least_correlation": is_number,
        },
    ),
    SIZES: (
        {
            "metric": is_text,
            "sizes": list_of(is_count),
            "scores": list_of(_maybe_number),
            "intervals": list_of(_is_interval),
        },
        {
            "dataset": is_text,
            "digest": is_text,
            "how": is_text,
            "as_selected": or_none(with_members(size=is_count, score=_maybe_number, interval=_is_interval)),
        },
    ),
    STABILITY: (
        {
            "seeds": list_of(is_whole),
            "index": _maybe_number,
            "jaccard": _maybe_number,
            "features": list_of(with_members(id=is_count, name=is_text, times=is_count)),
            "distinct": is_count,
        },
        {
            "of": is_text,
            "over": is_text,
            "interval": _is_interval,
            "n_candidates": lambda count: is_whole(count) and count >= 0,  # pairs of 63-bit ids are beyond 64
            "identical": is_flag,
            "remark": is_text,
            "rank_correlation": _maybe_number,
            "false_bounds": list_of(with_members(times=is_count, features=is_count, false=is_number)),
        },
    ),
}
"""The required and the optional members of each record, and the function that checks each member."""
