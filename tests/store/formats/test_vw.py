"""Vowpal Wabbit text: namespaces, scales, weights, tags, string features and their names."""

from __future__ import annotations

import numpy as np
import pytest
from store.formats.rows_of import rows_of

import daskfs
from daskfs.errors import BadLineError
from daskfs.store.dataset.hashing_kernels import id_of_name
from daskfs.store.ingest.formats.vw import VowpalWabbit

pytestmark = pytest.mark.kernels


def rows(tmp_path, text: str, **options):
    (tmp_path / "x.vw").write_text(text)
    return rows_of(VowpalWabbit(), [tmp_path / "x.vw"], **options)


LINES = {
    "one namespace": ("1 |a x y:2", {"a^x": 1, "a^y": 2}),
    "nameless namespace": ("1 | x y:2", {"x": 1, "y": 2}),
    "two namespaces": ("1 |a x |b x:3", {"a^x": 1, "b^x": 3}),
    "a scaled namespace": ("1 |a:0.5 x y:4", {"a^x": 0.5, "a^y": 2}),
    "numbers are names": ("1 |f 9:6.25e-02 14:1", {"f^9": 0.0625, "f^14": 1}),
    "duplicates are summed": ("1 |a x x:2", {"a^x": 3}),
    "no features": ("1 |", {}),
    "signs in names": ("1 |a país=uk a=b:-1", {"a^país=uk": 1, "a^a=b": -1}),
    "blanks and a carriage return": ("  1   |a  x   y \r", {"a^x": 1, "a^y": 1}),
    "bar after a blank or none": ("1 |a x|b y", {"a^x": 1, "b^y": 1}),
}


@pytest.mark.parametrize(("line", "expected"), LINES.values(), ids=LINES.keys())
def test_features_of_a_line(tmp_path, line, expected):
    parsed = rows(tmp_path, line + "\n")
    assert parsed.named() == [pytest.approx(expected)]
    assert parsed.y.tolist() == [1]
    assert sorted(parsed.ids.tolist()) == sorted(id_of_name(name) for name in expected)


NAMESPACES = ["", "f", "user", "exactly", "a-namespace-of-more-than-thirty-two-bytes"]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_names_of_every_length(tmp_path, namespace):
    """At the end of a window too, where there is nothing left to read ahead."""
    names = [("näme" * 30)[:length] for length in range(1, 101)]
    for window_bytes in (64, 1 << 20):
        parsed = rows(tmp_path, "\n".join(f"1 |{namespace} {name}" for name in names), window_bytes=window_bytes)
        expected = [f"{namespace}^{name}" if namespace else name for name in names]
        assert parsed.named() == [{name: 1} for name in expected]
        assert parsed.ids.tolist() == [id_of_name(name) for name in expected]


def test_a_row_of_many_and_of_long_names(tmp_path):
    """More than are looked up at a time, by number or by length; the last are the first again."""
    names = [f"w{i}" for i in range(1000)] + [f"{i}" * 30_000 for i in range(9)] + ["w1", "0" * 30_000]
    parsed = rows(tmp_path, f"1 |{'n' * 60_000} " + " ".join(names), names_bytes=1 << 22)
    (row,) = parsed.named()
    assert row == {f"{'n' * 60_000}^{name}": 1 + (name in names[-2:]) for name in names}


def test_labels_weights_and_tags(tmp_path):
    (tmp_path / "x.vw").write_text("1 2.5 'first|a x\n-1 |a x\n1 0.5 0.1 third|a x\n-1 'four |a x\n")
    ds = daskfs.ingest(tmp_path / "x.vw", tmp_path / "x.zarr", "vw")
    block = ds.read(0)
    assert block.y.tolist() == [1, -1, 1, -1]
    assert block.weight.tolist() == [2.5, 1, 0.5, 1]
    assert ds.tags(0) == ["first", "", "third", "four"]


def test_string_labels(tmp_path):
    parsed = rows(tmp_path, "cat |a x\ndog |a y\ncat |a z\n")
    assert [parsed.labels[int(code)] for code in parsed.y] == ["cat", "dog", "cat"]


BAD = {
    "no label": ("|a x\n", 1, "no label"),
    "no bar": ("1 |a x\n1 a x\n", 2, "not a number of 0 or more"),
    "no bar at all": ("1 |a x\n\n1\n", 3, "no | before"),
    "text label": ("1 |a x\nyes |a x\n", 2, "label is not a number"),
    "nan label": ("nan |a x\n", 1, "label is NaN"),
    "negative weight": ("1 -2 |a x\n", 1, "importance weight"),
    "bad value": ("1 |a x:y\n", 1, "value is not a number"),
    "two colons": ("1 |a x:1:2\n", 1, "value is not a number"),
    "infinite value": ("1 |a x:inf\n", 1, "NaN, infinite"),
    "bad scale": ("1 |a:b x\n", 1, "scale is not a number"),
    "name too long": (f"1 |a x\n1 |a {'x' * 70_000}\n", 2, "name longer than"),
    "caret": ("1 |a^b x\n", 1, "namespace with a ^"),
    "sum too large": ("1 |a x:3e38 y x:3e38\n", 1, "sums up to more"),
    "nul": ("1 |a x\0y\n", 1, "control character"),
}


@pytest.mark.parametrize(("text", "line", "reason"), BAD.values(), ids=BAD.keys())
def test_f17_what_is_wrong_is_named_by_line(tmp_path, text, line, reason):
    path = tmp_path / "x.vw"
    path.write_text(text)
    kind = VowpalWabbit(labels="numbers")
    with pytest.raises(BadLineError) as error:
        rows_of(kind, [path])
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert reason in str(error.value)
    assert rows_of(kind, [path], skip_bad=True).bad == 1


@pytest.mark.parametrize("part_bytes", [300, 10**9])
@pytest.mark.parametrize("window_bytes", [64, 1 << 20])
@pytest.mark.parametrize("names_bytes", [1024, 1 << 20])
@pytest.mark.parametrize("block_entries", [40, 10_000])
def test_the_cut_does_not_matter(tmp_path, part_bytes, window_bytes, names_bytes, block_entries):
    rng = np.random.default_rng(0)
    lines = [
        f"{rng.choice([-1, 1])} |user u{rng.integers(50)} |ad "
        + " ".join(f"w{rng.integers(300)}:{rng.integers(1, 5)}" for _ in range(rng.integers(1, 20)))
        for _ in range(100)
    ]
    whole = rows(tmp_path, "\n".join(lines))
    cut = rows(
        tmp_path,
        "\n".join(lines),
        part_bytes=part_bytes,
        window_bytes=window_bytes,
        names_bytes=names_bytes,
        block_entries=block_entries,
    )
    cut.assert_equal(whole)
