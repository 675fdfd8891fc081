"""F17: what is wrong in a text file is named by file and line; what is legal, if odd, is read; nothing is lost."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from pathlib import Path

import fsspec
import numpy as np
import pytest
from click.testing import CliRunner
from faults.samples import small_blocks
from pairwise import in_turn

import daskfs
from daskfs.cli import main
from daskfs.errors import BadLineError, DatasetError, SourceError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

GOOD = {"svmlight": b"1 2:3 9:0.5\n", "vw": b"1 |a x:3 y:0.5\n"}
BAD = {
    "svmlight": {
        "no colon": (b"1 2:3 7", "expected id:value: '7'"),
        "no id": (b"1 :3", "not a whole number"),
        "no label": (b"2:3 4:5", "the label is not a number"),
        "empty value": (b"1 2: 3:4", "the value is not a number: '2:'"),
        "two colons": (b"1 2:3:4", "the value is not a number"),
        "blank after the colon": (b"1 2: 3", "the value is not a number"),
        "words": (b"1 two:3", "not a whole number"),
        "NUL": (b"1 2:3 \0 4:5", "NUL byte"),
        "NUL in a value": (b"1 2:3\0", "NUL byte"),
        "NUL label": (b"\0 2:3", "the label is not a number"),
        "carriage return within": (b"1 2:3\r4:5", "expected id:value"),
        "form feed": (b"1 2:3 \x0c4:5", "expected id:value"),
        "an encoding other than UTF-8": (b"1 2:3 \xff\xfe:5", "not a whole number"),
        "a comma for a point": (b"1 2:3,5", "the value is not a number"),
        "hexadecimal": (b"1 2:0x1p3", "the value is not a number"),
        "an underscore": (b"1 2:1_000", "the value is not a number"),
        "half an exponent": (b"1 2:1e", "the value is not a number"),
        "a text label": (b"yes 2:3", "the label is not a number"),
    },
    "vw": {
        "no bar": (b"1 2 3 a:3", "no | before the features"),
        "no label": (b"|a x:3", "no label"),
        "empty value": (b"1 |a x: y", "value is not a number"),
        "two colons": (b"1 |a x:3:4", "value is not a number"),
        "a word as a value": (b"1 |a x:three", "value is not a number"),
        "a word as a scale": (b"1 |a:b x", "scale is not a number"),
        "an empty scale": (b"1 |a: x", "scale is not a number"),
        "a word as a weight": (b"1 heavy |a x", "importance weight"),
        "a negative weight": (b"1 -2 |a x", "importance weight"),
        "NUL": (b"1 |a x\0", "control character"),
        "NUL before the bar": (b"1\0 |a x", "control character"),
        "carriage return within": (b"1 |a x\ry", "control character"),
        "an endless name": (b"1 |a " + 70_000 * b"x", "longer than 65536 bytes"),
        "a text label": (b"yes |a x", "the label is not a number"),
        "the sign that ends a namespace, in one": (b"1 |a^b x", "a namespace with a ^"),
    },
}
CASES = [pytest.param(kind, *case, id=f"{kind}-{name}") for kind, cases in BAD.items() for name, case in cases.items()]
CUTS = {"one piece": 1 << 26, "many pieces": 40}


def ingest(path: Path, kind: str, part_bytes: int = 1 << 26, **options) -> daskfs.Dataset:
    out = path.parent / f"{part_bytes}.zarr"
    with small_blocks(part_bytes=part_bytes):
        return daskfs.ingest(path, out, kind, overwrite=True, **options)


@pytest.mark.parametrize(
    ("kind", "bad", "reason", "line", "part_bytes"), in_turn(2, CASES, line=[1, 2, 9], part_bytes=CUTS.values())
)
def test_f17_file_and_line_are_named(tmp_path, kind, bad, reason, line, part_bytes):
    path = tmp_path / "source.txt"
    lines = 12 * [GOOD[kind]]
    lines[line - 1] = bad + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(BadLineError) as caught:
        ingest(path, kind, part_bytes)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)
    with pytest.raises(DatasetError, match=r"incomplete|no dataset here"):
        daskfs.open_dataset(tmp_path / f"{part_bytes}.zarr")


@pytest.mark.parametrize(("kind", "bad", "reason", "part_bytes"), in_turn(1, CASES, part_bytes=CUTS.values()))
def test_f17_skipped_lines_leave_no_trace_but_their_count(tmp_path, kind, bad, reason, part_bytes):
    path = tmp_path / "source.txt"
    path.write_bytes(GOOD[kind] + bad + b"\n" + GOOD[kind] + bad + b"\n")
    skipped = ingest(path, kind, part_bytes, on_bad_line="skip")
    assert skipped.attributes["made"]["bad_lines"] == 2
    path.write_bytes(2 * GOOD[kind])
    clean = ingest(path, kind, part_bytes)
    for fact in ("n_samples", "n_features", "n_entries", "classes"):
        assert getattr(skipped, fact) == getattr(clean, fact)


LEGAL = {
    "svmlight": {
        "CRLF": b"1 2:3\r\n-1 4:5\r\n",
        "no final newline": b"1 2:3\n-1 4:5",
        "CRLF, no final newline": b"1 2:3\r\n-1 4:5\r",
        "trailing blanks": b"1 2:3  \t\n-1 4:5 \n",
        "blank lines": b"\n\n1 2:3\n   \n-1 4:5\n\r\n\t\n",
        "BOM": b"\xef\xbb\xbf1 2:3\n-1 4:5\n",
        "comments": b" # one\n1 2:3 # two\n#three\n-1 4:5#four\n",
        "leading blanks": b"  1 2:3\n\t-1 4:5\n",
    },
    "vw": {
        "CRLF": b"1 | 2:3\r\n-1 | 4:5\r\n",
        "no final newline": b"1 | 2:3\n-1 | 4:5",
        "CRLF, no final newline": b"1 | 2:3\r\n-1 | 4:5\r",
        "trailing blanks": b"1 | 2:3  \t\n-1 | 4:5 \n",
        "blank lines": b"\n\n1 | 2:3\n   \n-1 | 4:5\n\r\n\t\n",
        "BOM": b"\xef\xbb\xbf1 | 2:3\n-1 | 4:5\n",
        "leading blanks": b"  1 | 2:3\n\t-1 | 4:5\n",
    },
}


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("part_bytes", [1 << 26, 5], ids=CUTS)
@pytest.mark.parametrize(
    ("kind", "text"),
    [pytest.param(kind, text, id=f"{kind}-{name}") for kind, cases in LEGAL.items() for name, text in cases.items()],
)
def test_f17_what_is_legal_is_read(tmp_path, kind, text, part_bytes):
    path = tmp_path / "source.txt"
    path.write_bytes(text)
    ds = ingest(path, kind, part_bytes)
    blocks = [ds.read(number) for number in range(ds.n_blocks())]
    assert np.concatenate([block.y for block in blocks]).tolist() == [1, -1]
    ids = np.concatenate([block.ids for block in blocks])
    assert ds.names(ids) == ["2", "4"]
    assert np.concatenate([block.values for block in blocks]).tolist() == [3, 5]
    assert ds.classes == (-1, 1)


@pytest.mark.parametrize("order", [">", "<"])
def test_f17_utf16_is_refused_by_name(tmp_path, order):
    path = tmp_path / "source.txt"
    path.write_bytes("\ufeff1 2:3\n".encode(f"utf-16-{'be' if order == '>' else 'le'}"))
    with pytest.raises(SourceError, match=rf"{path}: UTF-16"):
        ingest(path, "svmlight")


LONG = {
    "svmlight": (b"1 %s\n", b"%d:0.5", 900_000),
    "vw": (b"1 |%s\n", b" %d:0.5", 900_000),
    "vw, one namespace": (b"1 |a %s\n", b"feature%d", 700_000),
}


@pytest.mark.parametrize(("row", "entry", "count"), LONG.values(), ids=LONG)
def test_f17_a_line_of_ten_megabytes(tmp_path, row, entry, count):
    """More entries than a block holds, more names than fit into memory for them."""
    path = tmp_path / "source.txt"
    kind = "svmlight" if b"|" not in row else "vw"
    long = row % b" ".join(entry % i for i in range(count))
    assert len(long) > 9_000_000
    path.write_bytes(GOOD[kind] + long + GOOD[kind])
    ds = daskfs.ingest(path, tmp_path / "out.zarr", kind)
    rows = np.concatenate([np.diff(ds.read(number).indptr) for number in range(ds.n_blocks())])
    assert rows.tolist() == [2, count, 2]
    assert ds.n_entries == count + 4


@pytest.mark.parametrize("kind", GOOD)
def test_f17_a_bad_line_of_ten_megabytes(tmp_path, kind):
    path = tmp_path / "source.txt"
    path.write_bytes(GOOD[kind] + 10_000_000 * b"x" + b"\n" + GOOD[kind])
    with pytest.raises(BadLineError) as caught:
        daskfs.ingest(path, tmp_path / "out.zarr", kind)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert len(str(caught.value)) < 500
    assert daskfs.ingest(path, tmp_path / "skip.zarr", kind, on_bad_line="skip").n_samples == 2


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd.compress}
PLACES = {"local": "{}/source{}", "memory": "memory:/{}/source{}"}


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_f17_compressed_sources_are_read_whole(tmp_path, suffix, place):
    url = place.format(tmp_path, suffix)
    half = COMPRESS[suffix](500 * GOOD["svmlight"])
    with fsspec.open(url, "wb") as file:
        file.write(half + half)  # as `cat` and parallel compressors make them
    assert daskfs.ingest(url, tmp_path / "out.zarr", "svmlight").n_samples == 1000


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_f17_cut_and_altered_compressed_files_are_refused_by_name(tmp_path, suffix, kind):
    path = tmp_path / f"source{suffix}"
    (tmp_path / "good.txt").write_bytes(GOOD[kind])
    rng = np.random.default_rng(0)
    text = b"".join(
        b"1 %d:0.5 # %d\n" % (i, i) if kind == "svmlight" else b"1 |a %d:0.5\n" % i
        for i in rng.integers(0, 10**9, 20_000)
    )
    whole = COMPRESS[suffix](text)
    for cut in [0, 1, 5, len(whole) - 1, *rng.integers(6, len(whole) - 1, 5)]:
        path.write_bytes(whole[:cut])
        with pytest.raises(SourceError, match="damaged or cut short") as caught:
            daskfs.ingest([tmp_path / "good.txt", path], tmp_path / "out.zarr", kind, overwrite=True)
        assert str(path) in str(caught.value)
        with pytest.raises(DatasetError, match=r"incomplete|no dataset here"):
            daskfs.open_dataset(tmp_path / "out.zarr")


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])  # a .zst may carry no checksum
def test_f17_a_flipped_bit_in_a_compressed_file_is_no_traceback(tmp_path, suffix, seed):
    path = tmp_path / f"source{suffix}"
    rng = np.random.default_rng(seed)
    text = b"".join(b"1 %d:0.5\n" % i for i in rng.integers(0, 10**9, 2000))
    altered = bytearray(COMPRESS[suffix](text))
    altered[rng.integers(20, len(altered))] ^= 1 << rng.integers(8)
    path.write_bytes(altered)
    with pytest.raises(SourceError) as caught:
        daskfs.ingest(path, tmp_path / "out.zarr", "svmlight")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_f17_lines_of_a_compressed_file_are_counted_as_they_are_read(tmp_path, suffix):
    path = tmp_path / f"source{suffix}"
    path.write_bytes(COMPRESS[suffix](2000 * GOOD["svmlight"] + b"1 x\n" + GOOD["svmlight"]))
    with pytest.raises(BadLineError) as caught:
        ingest(path, "svmlight")
    assert (caught.value.file, caught.value.line) == (str(path), 2001)


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("part_bytes", [1 << 26, 40], ids=CUTS)
@pytest.mark.parametrize("kind", GOOD)
def test_f17_the_cap_on_bad_lines_holds_over_all_pieces_and_runs(tmp_path, kind, part_bytes, workers):
    path = tmp_path / "source.txt"
    path.write_bytes(20 * (GOOD[kind] + b"1 x:y\n"))
    options = {"on_bad_line": "skip", "workers": workers}
    out = tmp_path / "out.zarr"
    with small_blocks(part_bytes=part_bytes):
        for _ in range(3):  # again and again: what was staged before counts, too
            with pytest.raises(SourceError, match="more than 19 bad lines") as caught:
                daskfs.ingest(path, out, kind, max_bad_lines=19, **options)
            assert str(path) in str(caught.value)
        ds = daskfs.ingest(path, out, kind, max_bad_lines=20, **options)
    assert ds.n_samples == 20
    assert ds.attributes["made"]["bad_lines"] == 20


def test_f17_the_command_says_it_in_one_line(tmp_path):
    path = tmp_path / "source.txt"
    path.write_bytes(GOOD["svmlight"] + b"1 2:\x1b[31m\n")
    told = CliRunner().invoke(main, ["ingest", str(path), str(tmp_path / "out.zarr"), "-f", "svmlight"])
    assert told.exit_code == 2
    assert told.output == f"error: {path}:2: the value is not a number: '2:\\x1b[31m'\n"
    skip = ["ingest", str(path), str(tmp_path / "skip.zarr"), "-f", "svmlight", "--on-bad-line", "skip"]
    told = CliRunner().invoke(main, skip)
    assert told.exit_code == 0
    assert "1 bad lines were left out" in told.output
    told = CliRunner().invoke(main, [*skip, "--overwrite", "--max-bad-lines", "0"])
    assert told.exit_code == 2
    assert f"more than 0 bad lines; the latest: {path}:2:" in told.output
