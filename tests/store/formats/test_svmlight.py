"""svmlight: equal to scikit-learn's reader on its own terms, and to plain Python beyond them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from store.formats.rows_of import rows_of

from daskfs.errors import BadLineError, SourceError
from daskfs.store.ingest.formats.svmlight import Svmlight
from daskfs.store.ingest.rows import BadLines
from daskfs.store.ingest.sources import find_sources

pytestmark = pytest.mark.kernels


@pytest.fixture
def rcv1_like(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        ids = np.sort(rng.choice(2**30, rng.integers(0, 60), replace=False))
        entries = " ".join(f"{i}:{v:.6g}" for i, v in zip(ids, rng.normal(size=len(ids)), strict=True))
        lines.append(f"{rng.choice(['+1', '-1'])} {entries}")
    path = tmp_path / "x.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("part_bytes", [500, 10_000, 10**9])
@pytest.mark.parametrize("window_bytes", [64, 5000, 1 << 20])
@pytest.mark.parametrize(("block_rows", "block_entries"), [(7, 1000), (1000, 70), (1000, 100_000)])
def test_equals_scikit_learn_however_it_is_cut(rcv1_like, part_bytes, window_bytes, block_rows, block_entries):
    X, y = load_svmlight_file(str(rcv1_like), zero_based=True)
    rows = rows_of(
        Svmlight(),
        [rcv1_like],
        part_bytes=part_bytes,
        window_bytes=window_bytes,
        block_rows=block_rows,
        block_entries=block_entries,
    )
    np.testing.assert_array_equal(rows.indptr, X.indptr)
    np.testing.assert_array_equal(rows.ids, X.indices)
    np.testing.assert_array_equal(rows.values, X.data.astype(np.float32))
    np.testing.assert_array_equal(rows.y, y)


def test_reads_what_scikit_learn_writes(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 20)) * 10.0 ** rng.integers(-8, 8, (50, 20)), rng.normal(size=50)
    dump_svmlight_file(X, y, str(tmp_path / "x.svm"), comment="made by scikit-learn", query_id=np.arange(50))
    rows = rows_of(Svmlight(), [tmp_path / "x.svm"])
    np.testing.assert_allclose(rows.values.reshape(50, 20), X.astype(np.float32), rtol=2e-7)
    np.testing.assert_allclose(rows.y, y, rtol=1e-15)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_any_float32_survives_text(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("svm") / "x.svm"
    path.write_text(f"1 5:{value!r}\n")
    assert rows_of(Svmlight(), [path]).values == pytest.approx([np.float32(value)], rel=1.2e-7, abs=1e-45)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**8), max_value=10**8))
def test_labels_are_exact(tmp_path_factory, number):
    path = tmp_path_factory.mktemp("svm") / "x.svm"
    path.write_text(f"{number} 5:1\n")
    assert rows_of(Svmlight(), [path]).y[0] == float(number)


LEGAL = {
    "crlf": "1 2:3\r\n-1 4:5\r\n",
    "no final newline": "1 2:3\n-1 4:5",
    "trailing blanks": "1 2:3  \t\n-1 4:5 \n",
    "blank lines": "\n1 2:3\n\n   \n-1 4:5\n\n",
    "comments": "# header\n1 2:3 # note 9:9\n-1 4:5#x\n",
    "byte order mark": "\ufeff1 2:3\n-1 4:5\n",
    "query ids": "1 qid:7 2:3\n-1 qid:8 4:5\n",
    "tabs": "1\t2:3\n-1\t4:5\n",
    "signs and exponents": "+1.0 2:+3e0\n-1E0 4:50e-1\n",
    "leading zeros": "01 002:03\n-1 4:5.000\n",
}


@pytest.mark.parametrize("text", LEGAL.values(), ids=LEGAL.keys())
def test_f17_what_is_legal_parses(tmp_path, text):
    (tmp_path / "x.svm").write_bytes(text.encode())
    rows = rows_of(Svmlight(), [tmp_path / "x.svm"])
    assert (rows.y.tolist(), rows.ids.tolist(), rows.values.tolist()) == ([1, -1], [2, 4], [3, 5])


BAD = {
    "no colon": ("1 2:3\n1 7\n", 2, "expected id:value: '7'"),
    "ragged": ("1 2:3\n1 4:5 :\n", 2, "not a whole number"),
    "empty value": ("1 2:\n", 1, "not a number: '2:'"),
    "empty id": ("1 :2\n", 1, "not a whole number"),
    "text value": ("1 2:3\n\n1 4:abc\n", 3, "the value is not a number: '4:abc'"),
    "value and rest": ("1 2:3x\n", 1, "not a number"),
    "two points": ("1 2:3.4.5\n", 1, "not a number"),
    "text label": ("1 2:3\nyes 4:5\n", 2, "the label is not a number"),
    "nan value": ("1 2:nan\n", 1, "NaN"),
    "infinite value": ("1 2:-inf\n", 1, "NaN, infinite"),
    "too large": ("1 2:1e39\n", 1, "too large for a float32"),
    "nan label": ("1 2:3\nnan 2:3\n", 2, "label is NaN"),
    "nul": ("1 2:3\n1 2:3 \0\n", 2, "NUL"),
    "negative id": ("1 -2:3\n", 1, "between 0 and 2^63-1: '-2:3'"),
    "id 2^63": (f"1 {2**63}:1\n", 1, "between 0 and 2^63-1"),
    "id of 20 digits": ("1 99999999999999999999:1\n", 1, "between 0 and 2^63-1"),
}


@pytest.mark.parametrize(("text", "line", "reason"), BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("part_bytes", [6, 10**9])
def test_f17_f18_f19_what_is_wrong_is_named_by_line(tmp_path, text, line, reason, part_bytes):
    path = tmp_path / "x.svm"
    path.write_bytes(text.encode())
    with pytest.raises(BadLineError) as error:
        rows_of(Svmlight(labels="numbers"), [path], part_bytes=part_bytes, window_bytes=64)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert reason in str(error.value)
    skipped = rows_of(Svmlight(labels="numbers"), [path], part_bytes=part_bytes, skip_bad=True)
    assert skipped.bad == 1
    assert len(skipped.y) == sum(bool(other.strip()) for other in text.split("\n")) - 1


def test_f18_ids_of_every_size_are_exact_and_duplicates_are_summed(tmp_path):
    ids = [2**63 - 1, 0, 2**40, 2**31, 2**40, 5]
    (tmp_path / "x.svm").write_text("1 " + " ".join(f"{i}:1" for i in ids) + "\n")
    rows = rows_of(Svmlight(), [tmp_path / "x.svm"])
    assert rows.ids.tolist() == [0, 5, 2**31, 2**40, 2**63 - 1]
    assert rows.values.tolist() == [1, 1, 1, 2, 1]


def test_string_labels_are_numbered(tmp_path):
    (tmp_path / "x.svm").write_text("spam 1:1\nham 2:1\nspam 3:1\n")
    rows = rows_of(Svmlight(), [tmp_path / "x.svm"])
    assert [rows.labels[int(code)] for code in rows.y] == ["spam", "ham", "spam"]


def test_f17_a_line_of_ten_megabytes(tmp_path):
    n = 900_000
    (tmp_path / "x.svm").write_text("1 1:1\n1 " + " ".join(f"{i}:0.5" for i in range(n)) + "\n1 2:1\n")
    rows = rows_of(Svmlight(), [tmp_path / "x.svm"], window_bytes=1 << 16, block_entries=1000)
    assert np.diff(rows.indptr).tolist() == [1, n, 1]


def test_too_many_bad_lines_end_it(tmp_path):
    (tmp_path / "x.svm").write_text("1 x\n" * 5)
    (source,) = find_sources([str(tmp_path / "x.svm")])
    policy = BadLines(skip=True, most=2)
    policy.report(source, 1, "bad")
    policy.report(source, 2, "bad")
    with pytest.raises(SourceError, match=r"more than 2 bad lines; the latest: .*x\.svm:3: bad"):
        policy.report(source, 3, "bad")
