"""F36, F25: Zarr arrays, Parquet and labels of others, and an unfinished ingest: one line, exit code 2, no memory."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from click.testing import CliRunner
from faults.foreign_targets import CELLS, LABELS, unfinished, write_group
from faults.measured import measured

import daskfs
from daskfs.cli import main

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MB = 1 << 20


def refusal(*command: object) -> str:
    """The line with which a command refuses its input, for which it takes little memory."""
    rise, done = measured(lambda: CliRunner().invoke(main, [str(word) for word in command]))
    if rise >= 64 * MB:  # modules were imported
        rise, done = measured(lambda: CliRunner().invoke(main, [str(word) for word in command]))
    assert (done.exit_code, done.exception.__class__) == (2, SystemExit), (done.output, done.exception)
    assert rise < 64 * MB
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return line


DEEP = b'{"a":' * 100_000


@pytest.mark.parametrize("command", [["select", "--out", "{}/out"], ["plan"]], ids=["select", "plan"])
@pytest.mark.parametrize("key", ["zarr.json", "X/zarr.json"])
def test_f36_metadata_of_others_that_are_nested_deeply(tmp_path, key, command):
    write_group(tmp_path / "g", 3)
    (tmp_path / "g" / key).write_bytes(DEEP)
    name, *options = (word.format(tmp_path) for word in command)
    assert "nested too deeply" in refusal(name, tmp_path / "g", "-k", 1, *options)


@pytest.mark.parametrize("key", ["zarr.json", "X/zarr.json"])
def test_f36_metadata_of_others_of_three_gigabytes(tmp_path, key):
    write_group(tmp_path / "g", 3)
    os.truncate(tmp_path / "g" / key, 3 << 30)  # zeros that take no space on the disk
    assert "3,221,225,472 bytes" in refusal("plan", tmp_path / "g", "-k", 1)


@pytest.mark.parametrize("name", ["X", "y", "column"])
def test_f36_a_huge_shape_with_few_files(tmp_path, name):
    write_group(tmp_path / "g", 3)
    about = json.loads((tmp_path / f"g/{name}/zarr.json").read_text())
    about["shape"][0] = 10**15
    (tmp_path / f"g/{name}/zarr.json").write_text(json.dumps(about))
    label = ["--label", tmp_path / "y.txt"] if name == "X" else []
    (tmp_path / "y.txt").write_text("0\n1\n" * 6)
    assert str(tmp_path) in refusal("plan", tmp_path / "g", "-k", 1, *label)


@pytest.mark.parametrize("side", [0, False])
def test_f36_chunks_that_hold_nothing(tmp_path, side):
    """Zarr opens an array whose chunks have `false` columns."""
    write_group(tmp_path / "g", 3)
    about = json.loads((tmp_path / "g/X/zarr.json").read_text())
    about["chunk_grid"]["configuration"]["chunk_shape"][1] = side
    (tmp_path / "g/X/zarr.json").write_text(json.dumps(about))
    assert str(tmp_path) in refusal("plan", tmp_path / "g", "-k", 1)


class Harmful:
    """A pickle that leaves a file behind when it is read."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.trace,)


@pytest.mark.parametrize("codecs", [["vlen-utf8", "pickle"], ["pickle"]], ids=str)
def test_f25_names_that_are_pickles_are_not_read(tmp_path, monkeypatch, codecs):
    """Whatever numcodecs allows: older versions allow pickles."""
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    write_group(tmp_path / "g", 2, compressors=None)
    about = json.loads((tmp_path / "g/column/.zarray").read_text())
    about |= {"dtype": "|O", "fill_value": None, "filters": [{"id": codec} for codec in codecs]}
    (tmp_path / "g/column/.zarray").write_text(json.dumps(about))
    (tmp_path / "g/column/0").write_bytes(pickle.dumps(Harmful(tmp_path / "trace")))
    assert "pickle" in refusal("plan", tmp_path / "g", "-k", 1)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("is_size_stated", [True, False])
def test_f25_a_chunk_of_32_kilobytes_that_unpacks_to_a_gigabyte(tmp_path, is_size_stated):
    shape = (len(LABELS), 4096)  # of a chunk that may well have 40 kB when it is packed
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=shape, chunks=shape, dtype="f4", compressors=zarr.codecs.ZstdCodec()
    )
    array[...] = np.random.default_rng(0).normal(size=shape)
    packer = zstd.ZstdCompressor()
    if is_size_stated:
        packer.set_pledged_input_size(1 << 30)
    packed = b"".join(packer.compress(bytes(MB)) for _ in range(1 << 10)) + packer.flush()
    assert len(packed) < 40_000
    (tmp_path / "a.zarr/c/0/0").write_bytes(packed)
    np.save(tmp_path / "y.npy", LABELS)
    options = ("-k", 1, "--label", tmp_path / "y.npy", "--out", tmp_path / "out")
    assert "chunk c/0/0" in refusal("select", tmp_path / "a.zarr", *options)


NO_PLANS = [b"3", b"[", b"[" * 100_000, b"{}", b"[]", b"\xff", None]


@pytest.mark.parametrize("raw", NO_PLANS, ids=lambda raw: repr(raw)[:9])
def test_f36_a_plan_that_is_no_plan(tmp_path, raw):
    """Refused with a remedy, and the remedy works."""
    unfinished("vw", "plan.json")(tmp_path)
    plan = tmp_path / "kept/_unfinished/plan.json"
    if raw is None:
        os.truncate(plan, 3 << 30)
    else:
        plan.write_bytes(raw)
    ingest = ("ingest", tmp_path / "source.vw", tmp_path / "kept", "-f", "vw")
    assert "use --overwrite to drop" in refusal(*ingest)
    done = CliRunner().invoke(main, [*map(str, ingest), "--overwrite"])
    assert done.exit_code == 0, done.output


def test_f36_a_staged_file_of_three_gigabytes_is_staged_again(tmp_path):
    unfinished("vw", "000000.json")(tmp_path)
    staged = next((tmp_path / "kept/_unfinished").glob("000000-*/ids.0.0"))
    os.truncate(staged, 3 << 30)
    rise, dataset = measured(lambda: daskfs.ingest(tmp_path / "source.vw", tmp_path / "kept", "vw"))
    assert dataset.n_samples == 20
    assert rise < 64 * MB


@pytest.mark.parametrize("command", ["plan", "select", "ingest"])
@pytest.mark.parametrize("damage", ["a page", "the footer", "the end"])
def test_f36_parquet_that_is_damaged(tmp_path, damage, command):
    file, out = tmp_path / "t.parquet", tmp_path / "out"
    pq.write_table(pa.table({"a": CELLS[:, 0], "y": LABELS}), file)
    raw = bytearray(file.read_bytes())
    place = {"a page": slice(4, 40), "the footer": slice(-120, -60), "the end": slice(-60, None)}[damage]
    raw[place] = b"" if damage == "the end" else bytes(len(raw[place]))
    file.write_bytes(raw)
    options = {"plan": ("-k", 1), "select": ("-k", 1, "--out", out), "ingest": (out, "-f", "parquet")}[command]
    assert f"{file}: damaged, or no Parquet file" in refusal(command, file, *options, "--label", "y")


def test_f36_parquet_that_unpacks_without_end(tmp_path):
    file = tmp_path / "bomb.parquet"
    table = pa.table({"a": np.zeros(8 * MB), "y": np.arange(8 * MB) % 2 == 0})
    pq.write_table(table, file, use_dictionary=False, compression="zstd", data_page_size=1 << 30, row_group_size=8 * MB)
    del table
    options = ("-f", "parquet", "--label", "y", "--memory", "256MiB")
    assert "unpacks from" in refusal("ingest", file, tmp_path / "out.zarr", *options)


def test_f36_a_file_of_labels_that_is_none(tmp_path):
    write_group(tmp_path / "g", 3)
    shutil.copytree(tmp_path / "g/X", tmp_path / "X")
    os.mkfifo(tmp_path / "fifo")
    for name in ("large", "large.npy"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 3 << 30)
    for label in ("fifo", "large", "large.npy", "nothing"):
        assert str(tmp_path / label) in refusal("plan", tmp_path / "X", "-k", 1, "--label", tmp_path / label)


@pytest.mark.parametrize("code", [0xD800, 0x110000, 0xFFFFFFFF])
def test_f36_names_with_characters_that_do_not_exist(tmp_path, code):
    write_group(tmp_path / "g", 2, compressors=None)
    (tmp_path / "g/column/0").write_bytes(np.full(6, code, "<u4").tobytes())
    assert "characters that do not exist" in refusal("plan", tmp_path / "g", "-k", 1)
