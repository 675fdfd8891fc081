"""F36: files that unpack without end, lines without end, tables without end: one line, within --memory and 64 MB."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MB = 1 << 20
MEMORY = 256 * MB
SMALL = "1 1:2\n-1 3:4\n"
MEASURED = """
import re, sys
from click.testing import CliRunner
from daskfs.cli import main

def kilobytes(field):
    return int(re.search(rf"^{field}:\\s+(\\d+) kB", open("/proc/self/status").read(), re.M)[1])

CliRunner().invoke(main, ["ingest", sys.argv[1], sys.argv[1] + ".zarr", "-f", "svmlight"])  # all modules are there then
before = kilobytes("VmRSS")
done = CliRunner().invoke(main, sys.argv[2:])
print((kilobytes("VmHWM") - before) >> 10, done.exit_code)
print(done.stderr)
"""


def ingest(folder: Path, source: Path, *options: str) -> tuple[int, int, str]:
    """The megabytes that an ingest took, its exit code and what it said."""
    (folder / "small.svm").write_text(SMALL)
    command = [folder / "small.svm", "ingest", source, folder / "out.zarr", "--memory", "256MiB", *options]
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    first, *said = done.stdout.splitlines()
    megabytes, code = first.split()
    assert not (folder / "out.zarr/zarr.json").exists()
    return int(megabytes), int(code), "\n".join(said).strip()


def check(taken: tuple[int, int, str], reason: str) -> None:
    megabytes, code, said = taken
    assert code == 2, said
    assert reason in said
    assert "\n" not in said
    assert megabytes < (MEMORY + 64 * MB) // MB


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lambda text: lzma.compress(text, preset=1),
    "zst": zstd.compress,
}


@pytest.mark.slow_but_first
@pytest.mark.parametrize("suffix", PACKERS)
def test_f36_a_small_file_that_unpacks_to_one_line(tmp_path, suffix):
    bomb = tmp_path / f"bomb.{suffix}"
    bomb.write_bytes(PACKERS[suffix](bytes(200 * MB)))
    assert bomb.stat().st_size < MB
    check(ingest(tmp_path, bomb, "-f", "svmlight"), f"{bomb}: no line or record ends within")


@pytest.mark.slow_but_first
@pytest.mark.parametrize("suffix", PACKERS)
def test_f36_a_small_table_that_unpacks_to_one_field(tmp_path, suffix):
    bomb = tmp_path / f"bomb.csv.{suffix}"
    bomb.write_bytes(PACKERS[suffix](b"a,y\n1,2\n" + b"7" * (200 * MB)))
    assert bomb.stat().st_size < MB
    check(ingest(tmp_path, bomb, "-f", "csv", "--label", "y"), "MB")


LINES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "svmlight": (b"1 1:2\n1 ", ("-f", "svmlight")),
    "vw": (b"1 |a b\n1 |", ("-f", "vw")),
    "csv": (b'a,y\n1,2\n"', ("-f", "csv", "--label", "y")),
    "fasta": (b">a\nACGT\n>b\n", ("-f", "fasta", "--label", "file", "-k", "3")),
    "text": (b"1\tone two\n2\t", ("-f", "text")),
    "a document": (b"one two ", ("-f", "text", "--documents", "files")),
}


@pytest.mark.slow
@pytest.mark.parametrize(("begin", "options"), LINES.values(), ids=LINES)
def test_f36_a_line_or_field_of_300_megabytes(tmp_path, begin, options):
    source = tmp_path / "long"
    source.write_bytes(begin)
    os.truncate(source, 300 * MB)  # zeros that take no space on the disk
    check(ingest(tmp_path, source, *options), "MB")


@pytest.mark.slow
@pytest.mark.parametrize("header", [True, False])
def test_f36_a_table_of_two_million_columns(tmp_path, header):
    table = tmp_path / "wide.csv"
    table.write_text("c," * 1_999_999 * header + "c\n" * header + "1," * 1_999_999 + "2\n")
    options = ("-f", "csv", "--label", "c0", "--header" if header else "--no-header")
    check(ingest(tmp_path, table, *options), f"{table}:1: 2,000,000 columns")
