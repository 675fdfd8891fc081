"""F17: 100,000 lines that were tampered with: each gives the row a plain parser gives, or is left out; none crashes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import reference.svmlight
import reference.vw
from faults.samples import small_blocks
from reference.svmlight import BadLine

import daskfs

SPECIAL = [bytes([byte]) for byte in b": \t#|^'\r\n\0\x0b\xff-+.e07"]
SPECIAL += b"nan inf 1e38 1e-50 9223372036854775807 9223372036854775808 qid:3 \xc3\xa9".split()


def svmlight_line(rng: np.random.Generator) -> bytes:
    entries = b" ".join(b"%d:%.4g" % (i, x) for i, x in zip(rng.integers(0, 40, 4), rng.normal(size=4), strict=True))
    return b"%d %s" % (rng.integers(-1, 3), entries)


def vw_line(rng: np.random.Generator) -> bytes:
    words = [b"%d:%.3g" % (i, x) for i, x in zip(rng.integers(0, 40, 4), rng.normal(size=4), strict=True)]
    return b"%d 0.5 'tag%d|n:2 %s |m %s" % (
        rng.integers(-1, 3),
        rng.integers(9),
        b" ".join(words[:2]),
        b" w".join(words),
    )


def tampered(line: bytes, rng: np.random.Generator) -> bytes:
    """None to three places deleted, doubled, replaced or filled."""
    for _ in range(rng.integers(4)):
        a = int(rng.integers(len(line) + 1))
        b = min(len(line), a + int(rng.integers(1, 4)))
        middle = [b"", line[a:b] * 2, bytes([rng.integers(256)]), SPECIAL[rng.integers(len(SPECIAL))]][rng.integers(4)]
        keep = rng.integers(2)
        line = line[:a] + middle + line[a if keep else b :]
    return line


def fuzzed(make: Callable[[np.random.Generator], bytes], lines: int) -> bytes:
    rng = np.random.default_rng(0)
    good = [make(rng) for _ in range(1000)]  # the first ones as they are: they say what the labels are
    return b"\n".join(good[:100] + [tampered(good[i], rng) for i in rng.integers(0, 1000, lines)])


def plain(text: bytes, parse: Callable[..., Any], labels: str) -> tuple[list[Any], int]:
    """The rows of a plain parser, and how many lines it refuses."""
    rows, bad = [], 0
    for line in text.split(b"\n"):
        try:
            row = parse(line, labels_are_numbers=labels == "numbers")
        except BadLine:
            bad += 1
        else:
            rows += [] if row is None else [row]
    return rows, bad


KINDS = {"svmlight": (svmlight_line, reference.svmlight.parse_line), "vw": (vw_line, reference.vw.parse_line)}


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "lines"), [("numbers", 100_000), ("strings", 20_000)])
@pytest.mark.parametrize("kind", KINDS)
def test_f17_a_hundred_thousand_fuzzed_lines(tmp_path, kind, labels, lines):
    make, parse = KINDS[kind]
    text = fuzzed(make, lines)
    path = tmp_path / "fuzzed.txt"
    path.write_bytes(text)
    with small_blocks(entries=10_000, part_bytes=200_000, names=1000):
        ds = daskfs.ingest(
            path, tmp_path / "out.zarr", kind, labels=labels, on_bad_line="skip", max_bad_lines=lines, workers=2
        )
    expected, bad = plain(text, parse, labels)
    assert lines // 10 < bad < lines  # enough of both
    assert ds.attributes["made"]["bad_lines"] == bad
    assert ds.n_samples == len(expected)
    check_labels(ds, expected, labels)
    check_rows(ds, expected)


def check_labels(ds: daskfs.Dataset, expected: list[Any], labels: str) -> None:
    y = np.concatenate([target.copy() for target in ds.targets()])
    if labels == "numbers":
        np.testing.assert_array_max_ulp(y, np.array([float(row.label) for row in expected]), 4)
    else:
        words = [row.label.decode("utf-8", "backslashreplace") for row in expected]
        assert ds.classes == tuple(sorted(set(words)))
        assert [ds.classes[int(code)] for code in y] == words


def check_rows(ds: daskfs.Dataset, expected: list[Any]) -> None:
    rows = iter(expected)
    names: dict[int, str] = {}
    for number in range(ds.n_blocks()):
        block = ds.read(number)
        here = list(islice(rows, len(block.y)))
        entries = [by_id(row, names) for row in here]
        assert np.diff(block.indptr).tolist() == [len(row) for row in entries]
        assert block.ids.tolist() == [feature for row in entries for feature in row]
        values = np.array([value for row in entries for value in row.values()], np.float32)
        np.testing.assert_array_max_ulp(block.values, values, 1)
        weight = np.ones(len(here)) if block.weight is None else block.weight
        assert weight.tolist() == [getattr(row, "weight", 1) for row in here]
        assert ds.tags(number) == [getattr(row, "tag", b"").decode("utf-8", "replace") for row in here]
    if names:
        assert ds.n_features == len(names)
        assert ds.names(list(names)) == list(names.values())


def by_id(row: Any, names: dict[int, str]) -> dict[int, np.float32]:
    """A row's entries in the order of their ids; names are noted."""
    entries = {}
    for feature, value in row.entries.items():
        key = feature
        if isinstance(feature, bytes):
            key = reference.vw.feature_id(feature)
            names[key] = feature.decode("utf-8", "replace")
        entries[key] = value
    return dict(sorted(entries.items()))
