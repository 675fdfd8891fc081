"""What a file is, by its name and its first lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from daskfs.errors import SourceError
from daskfs.store.ingest.recognise import recognise
from daskfs.store.ingest.sources import find_sources


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def seen(name: str, text: str | bytes) -> tuple[str, dict]:
    raw = text.encode() if isinstance(text, str) else text
    Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    found = recognise(find_sources([name]))
    return found.format, found.options


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.csv", "csv"),
        ("a.CSV.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.vw", "vw"),
        ("a.libsvm", "svmlight"),
        ("genome.fna.gz", "fasta"),
        ("a.parquet", "parquet"),
    ],
)
def test_by_name(name, format):
    assert seen(name, "a,b\tc\n1,2\t3\n")[0] == format


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+1 3:0.5 9:1\n-1 2:1\n-1\n", ("svmlight", {})),
        ("2 qid:4 1:0.5\n", ("svmlight", {})),
        ("1 |user uk age:3 |ad shoes\n-1 2.0 'row7|user fr\n", ("vw", {})),
        ("|a b c\n|a b\n", ("vw", {})),
        (">seq1\nACGT\n", ("fasta", {})),
        ("a,b,c\n1,2,3\n", ("csv", {})),
        ("a;b;c\n1,5;2;3\n2,5;2;3\n", ("csv", {"delimiter": ";"})),
        ("a|b|c\n1|2|3\n", ("csv", {"delimiter": "|"})),
        ("1,2,3\n4,5,6\n", ("csv", {"header": False})),
        ('name,"x, y",z\nuk,1,2\n', ("csv", {})),
        ("\ufeffa,b,c\n1,2,3\n", ("csv", {})),
        ("spam\tbuy now, only today\nham\tsee you at noon\n", ("text", {})),
        (b"PAR1\x15\x04", ("parquet", {})),
    ],
)
def test_by_content(text, expected):
    assert seen("data.txt", text) == expected


def test_delimiters_and_headers_of_csv_files():
    assert seen("a.csv", "a;b\n1;2\n") == ("csv", {"delimiter": ";"})
    assert seen("a.csv", "1.5,-2e3\n1,2\n") == ("csv", {"header": False})
    assert seen("a.tsv", "a,b\tc\n1\t2\n") == ("tsv", {})
    assert seen("one.csv", "a\n1\n") == ("csv", {})


def test_documents_in_folders():
    for folder in ("sport", "politics"):
        Path(f"news/{folder}").mkdir(parents=True)
        Path(f"news/{folder}/1").write_text("Subject: 1, 2, 3\nall of it\n")
    found = recognise(find_sources(["news"]))
    assert (found.format, found.options) == ("text", {"documents": "files"})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "a.txt: the file is empty"),
        ("a.bin", b"\x00\x01\x02\n", "a.bin: binary data of an unknown format"),
        ("a.txt", "just some prose\nwithout any label\n", "neither its name nor its first lines show what it is"),
    ],
)
def test_what_is_unknown_is_refused(name, text, message):
    with pytest.raises(SourceError, match=message):
        seen(name, text)


def test_files_of_one_format():
    Path("a.csv").write_text("a,b\n1,2\n")
    Path("b.vw").write_text("1 |a b\n")
    with pytest.raises(SourceError, match=r"different formats: .*a\.csv \(csv\), .*b\.vw \(vw\); name files of one"):
        recognise(find_sources(["a.csv", "b.vw"]))
