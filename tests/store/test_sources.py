"""Sources: every line belongs to exactly one range, whatever the cuts, windows and compression."""

from __future__ import annotations

import bz2
import gzip
import lzma
from itertools import pairwise

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.errors import SourceError
from daskfs.store.ingest.sources import SourcePart, find_sources, first_lines, line_number, line_windows, zstd

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}


def source_of(path, data: bytes):
    path.write_bytes(data)
    return find_sources([str(path)])[0]


def text_of(part: SourcePart, window: int, separator: bytes = b"\n") -> bytes:
    return b"".join(window.text.tobytes() for window in line_windows(part, window, separator))


@given(
    lines=st.lists(st.binary(max_size=150).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=20),
    cuts=st.lists(st.integers(0, 3000), max_size=4),
    window=st.sampled_from([64, 100, 1000]),
    ending=st.sampled_from([b"", b"\n"]),
)
def test_ranges_share_no_line_and_lose_none(tmp_path_factory, lines, cuts, window, ending):
    data = b"\n".join(lines) + ending
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        data = b"x" + data
    source = source_of(tmp_path_factory.mktemp("source") / "lines.txt", data)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [SourcePart(source, start, stop) for start, stop in pairwise(edges)]
    joined = b"".join(text_of(part, window) for part in parts)
    assert joined.rstrip(b"\n") == data.rstrip(b"\n")


def test_a_longer_separator_cuts_at_records(tmp_path):
    data = b">a\nAC\nGT\n>b\nTT\n>c\nA"
    source = source_of(tmp_path / "x.fa", data)
    halves = [text_of(SourcePart(source, a, b), 64, b"\n>") for a, b in ((0, 5), (5, 11), (11, len(data)))]
    assert halves == [b">a\nAC\nGT\n", b">b\nTT\n", b">c\nA\n"]


@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_sources_read_the_same(tmp_path, ending):
    data = b"".join(b"line %d\n" % i for i in range(5000))
    source = source_of(tmp_path / f"lines.txt{ending}", COMPRESS[ending](data))
    assert text_of(SourcePart(source), 1000) == data
    assert line_number(source, data.index(b"line 4321")) == 4322
    assert source.name == "lines"


@pytest.mark.parametrize("ending", [ending for ending in COMPRESS if ending])
def test_f17_compressed_data_cut_short_is_named(tmp_path, ending):
    whole = COMPRESS[ending](b"".join(b"line %d\n" % i for i in range(50_000)))
    source = source_of(tmp_path / f"cut.txt{ending}", whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=rf"cut\.txt{ending}: .*cut short"):
        text_of(SourcePart(source), 1 << 20)


def test_a_mark_at_the_beginning_is_not_text(tmp_path):
    source = source_of(tmp_path / "bom.txt", b"\xef\xbb\xbf1 2:3\n")
    assert text_of(SourcePart(source), 64) == b"1 2:3\n"
    assert first_lines(source) == [b"1 2:3"]


def test_utf16_is_refused(tmp_path):
    source = source_of(tmp_path / "wide.txt", "1 2:3\n".encode("utf-16"))
    with pytest.raises(SourceError, match="UTF-16"):
        text_of(SourcePart(source), 64)


def test_globs_folders_and_urls_find_each_file_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text("x\n")
    paths = [str(tmp_path / "*.txt"), str(tmp_path / "a.txt"), str(tmp_path), f"file://{tmp_path}/c.csv"]
    found = [source.url.rsplit("/", 1)[-1] for source in find_sources(paths)]
    assert found == ["a.txt", "b.txt", "c.csv"]


def test_any_fsspec_file_system_serves(tmp_path):
    with fsspec.open("memory://sources/x.txt", "wb") as file:
        file.write(b"1\n2\n")
    (source,) = find_sources(["memory://sources/*.txt"])
    assert text_of(SourcePart(source), 64) == b"1\n2\n"
    assert source.folder == "sources"


@pytest.mark.parametrize(("pattern", "reason"), [("none.txt", "no such file"), ("none*.txt", "no file matches")])
def test_nothing_found_is_said(tmp_path, pattern, reason):
    with pytest.raises(SourceError, match=reason):
        find_sources([str(tmp_path / pattern)])


def test_a_changed_file_has_another_fingerprint(tmp_path):
    before = source_of(tmp_path / "x.txt", b"one\n")
    after = source_of(tmp_path / "x.txt", b"other\n")
    assert before.fingerprint != after.fingerprint
