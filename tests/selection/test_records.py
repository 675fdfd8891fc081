"""Records beside a selection: the same bytes for the same record, and nothing that is read is trusted."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from daskfs.errors import SelectionError
from daskfs.selection import records
from daskfs.selection.records import (
    METRICS,
    PROFILES,
    RUN_RECORD,
    SIZES,
    STABILITY,
    read_record,
    without_nan,
    write_record,
)
from daskfs.store.places.location import Location

GOOD: dict[str, dict[str, Any]] = {
    RUN_RECORD: {
        "version": 1,
        "daskfs": "0.1.0",
        "python": "3.11.2",
        "packages": {"numpy": "2.1"},
        "machine": {"cores": 2, "memory": 4e9},
        "command": "daskfs select …",
        "algorithm": {"name": "Mission", "n_select": 3},
        "seed": -1,
        "source": {"url": "s3://b/x.zarr", "digest": "ab", "n_samples": 3, "n_features": 2**63},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:01+00:00",
        "seconds": 1.5,
        "workers": 2,
        "memory": {"promised": 10, "used": None, "text": "state 5 + blocks 5 = 10"},
        "bytes_read": 10**12,
        "offers": {"count": 4.0, "staleness": 0.25, "staleness_max": 1.0},
        "performance_report": None,
    },
    METRICS: {
        "dataset": "d.zarr",
        "digest": "cd",
        "rows": 10,
        "unknown_rows": 0,
        "weighted": False,
        "metrics": {"accuracy": 0.5, "roc_auc": None},
        "intervals": {"accuracy": [0.2, 0.8], "roc_auc": [None, None]},
        "per_class": [{"class": "<b>x</b>\u0007", "rows": 3}, {"class": 2.0, "rows": 7}],
        "curves": {"confusion": [[3, 0], [0, 7]], "roc": None},
    },
    PROFILES: {
        "rows": 10,
        "classes": [{"class": "<b>x</b>", "rows": 10}],
        "shown": [0],
        "features": [
            {"id": 2**64 - 1, "name": "=1+1", "importance": 0.5, "present": [3], "values": [None]},
            {"id": 1, "name": "x", "importance": 0.5, "edges": [0, 1], "counts": [[10]], "alternatives": []},
        ],
        "alternatives": "",
    },
    SIZES: {
        "metric": "r2",
        "sizes": [1, 2],
        "scores": [0.1, 0.2],
        "intervals": [[0.0, 0.2], [0.1, 0.3]],
        "how": "so",
        "as_selected": {"size": 2, "score": 0.2, "interval": [0.1, 0.3]},
    },
    STABILITY: {
        "seeds": [0, 1],
        "index": 0.5,
        "jaccard": None,
        "features": [{"id": 2**64 - 1, "name": "=1+1", "times": 2}],
        "distinct": 1,
        "of": "features",
        "interval": [0.1, 0.9],
    },
}
NAMES = sorted(GOOD)
MUSTS = {
    RUN_RECORD: ["version", "daskfs", "algorithm", "seed"],
    METRICS: ["rows", "metrics", "intervals"],
    PROFILES: ["rows", "features"],
    SIZES: ["metric", "sizes", "scores", "intervals"],
    STABILITY: ["seeds", "index", "jaccard", "features", "distinct"],
}


@pytest.fixture
def place(tmp_path) -> Location:
    return Location(tmp_path / "run")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read(place, name):
    write_record(place, name, dict(reversed(GOOD[name].items())))
    assert read_record(place, name) == GOOD[name]
    raw = (place.path / name).read_bytes()
    assert raw == (json.dumps(GOOD[name], indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    write_record(place, name, GOOD[name])
    assert (place.path / name).read_bytes() == raw
    assert os.listdir(place.path) == [name]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_there_is_none(place, name):
    assert read_record(place, name) is None


@pytest.mark.parametrize(
    ("name", "key", "bad"),
    [
        (RUN_RECORD, "version", True),
        (RUN_RECORD, "algorithm", []),
        (RUN_RECORD, "seed", 1.0),
        (RUN_RECORD, "seed", 10**400),
        (RUN_RECORD, "packages", {"numpy": 2}),
        (RUN_RECORD, "machine", {"cores": 2}),
        (RUN_RECORD, "command", ["daskfs", 3]),
        (RUN_RECORD, "source", {"url": "x"}),
        (RUN_RECORD, "seconds", "1"),
        (RUN_RECORD, "memory", {"promised": 1, "used": "2", "text": ""}),
        (RUN_RECORD, "offers", {"count": "many", "staleness": 0.25, "staleness_max": 1.0}),
        (METRICS, "rows", -1),
        (METRICS, "metrics", {"accuracy": "high"}),
        (METRICS, "intervals", {"accuracy": None}),
        (METRICS, "intervals", {"accuracy": [0.1]}),
        (METRICS, "weighted", 1),
        (METRICS, "per_class", [{"rows": 3}]),
        (METRICS, "per_class", [{"class": None}]),
        (METRICS, "curves", {"confusion": [3]}),
        (METRICS, "curves", {"roc": {"false_positive": [0.0]}}),
        (METRICS, "curves", {"scatter": {"true": [None], "predicted": [1.0], "step": 1}}),
        (PROFILES, "classes", [{"class": "a"}]),
        (PROFILES, "shown", [-1]),
        (PROFILES, "features", [{"id": 1, "name": "x"}]),
        (PROFILES, "features", [{"id": 1, "name": "x", "importance": 1.0, "edges": ["0"]}]),
        (PROFILES, "features", [{"id": 1, "name": "x", "importance": 1.0, "effect": {"values": [1]}}]),
        (PROFILES, "features", [{"id": 1, "name": "x", "importance": 1.0, "alternatives": [{"id": 2}]}]),
        (SIZES, "sizes", [True]),
        (SIZES, "scores", {"1": 0.5}),
        (SIZES, "intervals", [[0, 1], None]),
        (SIZES, "as_selected", {"size": 3, "score": 0.5}),
        (STABILITY, "index", float("inf")),
        (STABILITY, "seeds", [0.5]),
        (STABILITY, "features", [{"id": 2**64, "name": "", "times": 1}]),
        (STABILITY, "features", [{"id": 1, "name": None, "times": 1}]),
        (STABILITY, "distinct", None),
    ],
)
def test_every_member_has_its_type(place, name, key, bad):
    with pytest.raises(SelectionError, match=f"{name}: '{key}' .*not what it should be; it was not written"):
        write_record(place, name, GOOD[name] | {key: bad})
    assert not place.exists(name)
    place.write(name, json.dumps(GOOD[name] | {key: bad}).encode())
    with pytest.raises(SelectionError, match=f"{name}: '{key}' .*not what it should be; remove it"):
        read_record(place, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_must_is_missed(place, name):
    for key in MUSTS[name]:
        short = {other: value for other, value in GOOD[name].items() if other != key}
        place.write(name, json.dumps(short).encode())
        with pytest.raises(SelectionError, match=f"run/{name}: '{key}' is missing, or not what it should be; remove"):
            read_record(place, name)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff\xff{}", "codec can't decode"),
        (b"[1]", "is no JSON object"),
        (b"null", "is no JSON object"),
        (b"[" * 100_000, "recursion|too deep"),
        (b'{"metric": "r2"', "delimiter"),
        (b'{"metric": "\\ud800", "sizes": [], "scores": [], "intervals": []}', "surrogates not allowed"),
        (b'{"metric": "r2", "sizes": [1.5], "scores": [], "intervals": []}', "'sizes'"),
        (b'{"metric": "r2", "sizes": [], "scores": [NaN], "intervals": []}', "'scores'"),
        (b'{"metric": "r2", "sizes": [], "scores": [1e999], "intervals": []}', "'scores'"),
        (b'{"metric": "r2", "sizes": [], "scores": [], "intervals": [], "else": NaN}', "not JSON compliant"),
        (b'{"metric": "r2", "sizes": [], "scores": [], "intervals": [[1, 2, 3]]}', "'intervals'"),
        (b'{"metric": "r2", "sizes": [' + b"9" * 5000 + b'], "scores": [], "intervals": []}', "digits"),
    ],
)
def test_hostile_files(place, raw, reason):
    place.write(SIZES, raw)
    with pytest.raises(SelectionError, match=reason) as caught:
        read_record(place, SIZES)
    assert str(caught.value).startswith(f"{place.url}/{SIZES}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(place.url)


def test_what_we_do_not_know_stays(place):
    write_record(place, SIZES, GOOD[SIZES] | {"later": {"versions": ["say", "more"]}})
    assert read_record(place, SIZES)["later"] == {"versions": ["say", "more"]}


def test_too_large(place, monkeypatch):
    monkeypatch.setattr(records, "MOST_BYTES", 1000)
    with pytest.raises(SelectionError, match="are too many"):
        write_record(place, SIZES, GOOD[SIZES] | {"how": "x" * 1000})
    assert not place.exists(SIZES)
    place.write(SIZES, json.dumps(GOOD[SIZES] | {"how": "x" * 1000}).encode())
    with pytest.raises(SelectionError, match="where at most 1,000 belong; remove it"):
        read_record(place, SIZES)


def test_a_record_that_cannot_be_written_leaves_the_old_one(place):
    write_record(place, SIZES, GOOD[SIZES])
    with pytest.raises(SelectionError, match="'scores' is missing, or not what it should be; it was not written"):
        write_record(place, SIZES, GOOD[SIZES] | {"scores": [float("nan")]})
    assert read_record(place, SIZES) == GOOD[SIZES]


def test_a_folder_in_place_of_the_file(place):
    place.write(f"{SIZES}/x", b"")
    with pytest.raises(SelectionError, match=f"{SIZES}: cannot be read"):
        read_record(place, SIZES)


def test_without_nan():
    assert without_nan({"a": [float("inf"), 1, "x"], "b": {"c": (None, True)}}) == {
        "a": [None, 1, "x"],
        "b": {"c": [None, True]},
    }


def test_on_s3(s3):
    place = Location(s3.url("run"), s3.options)
    assert read_record(place, METRICS) is None
    write_record(place, METRICS, GOOD[METRICS])
    assert read_record(place, METRICS) == GOOD[METRICS]
