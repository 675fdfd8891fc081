"""F36: metadata of any shape, depth and size: one line and exit code 2, and no memory taken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from faults.reading import read_everything
from faults.samples import MAKERS

import daskfs
from daskfs.cli import main
from daskfs.observe.describe import describe
from daskfs.store.dataset.codec import LZ4, append_crc, encode_strings


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dataset of every kind."""
    folder = tmp_path_factory.mktemp("samples")
    for kind, make in MAKERS.items():
        make(folder / kind)
    return folder


@pytest.fixture
def copy(samples: Path, tmp_path: Path) -> Callable[[str], Path]:
    def one(kind: str) -> Path:
        return Path(shutil.copytree(samples / kind, tmp_path / kind))

    return one


def refusal(folder: Path, *, is_opened: bool = True) -> str:
    """The line of reading everything, and by default also of `daskfs info`."""
    done = CliRunner().invoke(main, ["info", str(folder)])
    if is_opened:
        assert (done.exit_code, done.exception.__class__) == (2, SystemExit), (done.output, done.exception)
    with pytest.raises(daskfs.DaskfsError) as refused:
        read_everything(daskfs.open_dataset(folder))
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)
    assert len(str(refused.value)) < 1000
    return str(refused.value)


def change(folder: Path, edit: Callable[[Any, Any], Any]) -> None:
    """Edit the attributes and the arrays in the root metadata."""
    root = json.loads((folder / "zarr.json").read_text())
    edit(root["attributes"]["daskfs"], root["consolidated_metadata"]["metadata"])
    (folder / "zarr.json").write_text(json.dumps(root))


def chunk_of(array: Any, shape: list[int]) -> None:
    array["chunk_grid"]["configuration"]["chunk_shape"] = shape


HUGE = 10**15


def widen(arrays: Any) -> None:
    for name, more in (("y", 0), ("weight", 0), ("tag", 0), ("indptr", 1)):
        arrays[name]["shape"][1] = HUGE + more
        chunk_of(arrays[name], [1, HUGE + more])


def add_columns(facts: Any, arrays: Any) -> None:
    facts["n_features"] = arrays["X"]["shape"][1] = arrays["feature"]["shape"][0] = HUGE


def add_rows(facts: Any, arrays: Any) -> None:
    facts["n_samples"] = arrays["X"]["shape"][0] = arrays["y"]["shape"][0] = HUGE


def add_chunks(arrays: Any) -> None:
    arrays["ids"]["shape"][0] = arrays["values"]["shape"][0] = HUGE


EDITS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "rows beyond any memory": ("rows", add_rows),
    "columns beyond any memory": ("columns", add_columns),
    "a chunk beyond any memory": (
        "columns",
        lambda facts, arrays: (add_columns(facts, arrays), chunk_of(arrays["X"], [40, HUGE])),
    ),
    "more chunks than files": ("sparse", lambda facts, arrays: add_chunks(arrays)),
    "a wide block": ("sparse", lambda facts, arrays: widen(arrays)),
    "a shape below zero": ("rows", lambda facts, arrays: arrays["X"].update(shape=[-1, 30])),
    "a shape of words": ("rows", lambda facts, arrays: arrays["X"].update(shape=["40", 30])),
    "a shape of one number": ("rows", lambda facts, arrays: arrays["X"].update(shape=40)),
    "no shape": ("rows", lambda facts, arrays: arrays["y"].update(shape=[], dimension_names=[])),
    "a thousand dimensions": (
        "rows",
        lambda facts, arrays: arrays["y"].update(shape=[1] * 1000, dimension_names=["a"] * 1000),
    ),
    "objects": ("rows", lambda facts, arrays: arrays["X"].update(data_type="object")),
    "a data type with a shape": ("rows", lambda facts, arrays: arrays["X"].update(data_type="(1000000,1000000)f8")),
    "a data type of another array": ("rows", lambda facts, arrays: arrays["y"].update(data_type="float32")),
    "a list as a data type": ("rows", lambda facts, arrays: arrays["X"].update(data_type=["float32"])),
    "text in place of numbers": ("sparse", lambda facts, arrays: arrays["tag"].update(data_type="uint64")),
    "no codecs": ("rows", lambda facts, arrays: arrays["X"].update(codecs=[])),
    "codecs of numbers": ("rows", lambda facts, arrays: arrays["X"].update(codecs=[1, 2])),
    "another compression": (
        "sparse",
        lambda facts, arrays: arrays["ids"]["codecs"][1]["configuration"].update(cname="lz5"),
    ),
    "an array that is a number": ("rows", lambda facts, arrays: arrays.update(X=1)),
    "an array beside the others": ("rows", lambda facts, arrays: arrays.update(Z=arrays["X"])),
    "an array from elsewhere": ("rows", lambda facts, arrays: arrays.update({"../X": arrays["X"]})),
    "labels as a number": ("rows", lambda facts, arrays: facts.update(labels=3)),
    "classes as a text": ("rows", lambda facts, arrays: facts["labels"].update(classes="ab")),
    "classes of lists": ("rows", lambda facts, arrays: facts["labels"].update(classes=[[0], [1]])),
    "classes of two kinds": ("rows", lambda facts, arrays: facts["labels"].update(classes=[0, "one"])),
    "no classes of strings": ("sparse", lambda facts, arrays: facts["labels"].update(classes=None)),
    "an empty list of classes": ("rows", lambda facts, arrays: facts["labels"].update(classes=[])),
    "fewer classes than labels": ("sparse", lambda facts, arrays: facts["labels"].update(classes=["red"])),
    "targets of numbers": ("rows", lambda facts, arrays: facts["labels"].update(classes=None, targets=[1, 2])),
    "names from nowhere": ("rows", lambda facts, arrays: facts.update(names={"from": "nowhere"})),
    "names as a list": ("rows", lambda facts, arrays: facts.update(names=["from"])),
    "k-mers of no length": ("rows", lambda facts, arrays: facts.update(names={"from": "kmers", "shift": "9"})),
    "a prefix that is a number": ("rows", lambda facts, arrays: facts.update(names={"from": "ids", "prefix": 3})),
    "a name that is no text": ("rows", lambda facts, arrays: facts.update(digest="\ud800")),
    "rows not a number": ("rows", lambda facts, arrays: facts.update(n_samples=float("nan"))),
    "entries below zero": ("sparse", lambda facts, arrays: facts.update(n_entries=-1)),
    "an id too large": ("sparse", lambda facts, arrays: facts.update(max_id=1 << 63)),
    "a kind that is a list": ("rows", lambda facts, arrays: facts.update(kind=["dense"])),
    "a digest that is a number": ("rows", lambda facts, arrays: facts.update(digest=3)),
    "gaps filled with words": (
        "rows",
        lambda facts, arrays: facts.update(missing={"how": "mean", "values": {"a": "b"}, "indicators": {}}),
    ),
    "columns of numbers": ("rows", lambda facts, arrays: facts.update(columns=[1])),
    "an origin that is a list": ("rows", lambda facts, arrays: facts.update(made=[])),
    "another version": ("rows", lambda facts, arrays: facts.update(version=[[]])),
    "attributes that are a list": ("rows", lambda facts, arrays: arrays.update(X=[])),
}


@pytest.mark.parametrize(("kind", "edit"), EDITS.values(), ids=EDITS)
def test_f36_metadata_of_the_wrong_kind(copy, kind, edit):
    folder = copy(kind)
    change(folder, edit)
    refusal(folder)


RAW = {
    "nothing": b"",
    "no object": b"3",
    "null": b"null",
    "a list": b"[]",
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep attributes": b'{"attributes": {"daskfs": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    "many lists": b"[" + b"[]," * (1 << 22) + b"[]]",
    "a long number": b"9" * 100_000,
    "no UTF-8": b'{"attributes": "\xff\xfe"}',
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW)
def test_f36_metadata_that_is_no_metadata(copy, raw):
    folder = copy("rows")
    (folder / "zarr.json").write_bytes(raw)
    assert "not a daskfs dataset" in refusal(folder)


def manifest(folder: Path, array: str) -> Path:
    return folder / f"manifest/{array.replace('/', '.')}/c/0/0"


def forge(folder: Path, array: str, chunk: str, body: bytes) -> None:
    """Replace the first chunk of an array and its line in the manifest, so that all checksums are right."""
    file = append_crc(body)
    (folder / array / "c" / chunk).write_bytes(file)
    lines = np.frombuffer(manifest(folder, array).read_bytes()[:-4], np.uint64).reshape(-1, 2).copy()
    lines[0] = len(file), int.from_bytes(file[-4:], "little")
    manifest(folder, array).write_bytes(append_crc(lines))


def packed(cells: Any, dtype: str) -> bytes:
    return LZ4.encode(np.asarray(cells, dtype))[:-4]


def edges(folder: Path, change: Callable[[Any], None]) -> bytes:
    cells = np.concatenate([daskfs.open_dataset(folder).read(0).indptr, np.zeros(99, np.int64)])
    width = daskfs.open_dataset(folder).arrays["indptr"].shape[1]
    change(cells)
    return packed(cells[:width], "int64")


def index(folder: Path, more: int, value: int) -> bytes:
    """An index of blocks that has the same number for every block."""
    return np.full(daskfs.open_dataset(folder).n_blocks() + more, value).tobytes()


def tags(folder: Path, count: int, raw: bytes = b"ab") -> bytes:
    count = count or daskfs.open_dataset(folder).arrays["tag"].shape[1]
    return encode_strings(np.array(["ab"] * count, object))[:-4].replace(b"ab", raw)


def no_blosc(folder: Path) -> bytes:
    sound = packed(np.arange(64), "uint64")
    return sound[:16] + bytes(len(sound) - 16)


def labels(folder: Path, label: float) -> bytes:
    return packed(np.full(daskfs.open_dataset(folder).arrays["y"].shape[1], label), "float64")


FORGED: dict[str, tuple[str, str, Callable[[Path], bytes]]] = {
    "rows that begin beyond the entries": (
        "indptr",
        "0/0",
        lambda folder: edges(folder, lambda cells: cells.__setitem__(1, 1 << 40)),
    ),
    "rows that begin before the entries": (
        "indptr",
        "0/0",
        lambda folder: edges(folder, lambda cells: cells.__setitem__(1, -5)),
    ),
    "more entries than there are": ("block_entries", "0", lambda folder: index(folder, 0, 1 << 40)),
    "more rows than there are": ("block_rows", "0", lambda folder: index(folder, 0, 1 << 40)),
    "rows below zero": ("block_rows", "0", lambda folder: index(folder, 0, -1)),
    "chunks that are not there": ("block_chunk", "0", lambda folder: index(folder, 1, 7)),
    "a chunk of blosc that ends early": ("ids", "0/0", lambda folder: packed(np.zeros((1, 64)), "uint64")[:20]),
    "a chunk of blosc that is none": ("ids", "0/0", no_blosc),
    "ids beyond the largest": ("ids", "0/0", lambda folder: packed(np.full(64, 1 << 63), "uint64")),
    "a label of no class": ("y", "0/0", lambda folder: labels(folder, 1e9)),
    "a label below all": ("y", "0/0", lambda folder: labels(folder, -1)),
    "a label that is no number": ("y", "0/0", lambda folder: labels(folder, np.nan)),
    "a tag that is no text": ("tag", "0/0", lambda folder: tags(folder, 0, b"\xff\xff")),
    "fewer tags than rows": ("tag", "0/0", lambda folder: tags(folder, 1) + bytes(999)),
    "a billion tags": ("tag", "0/0", lambda folder: np.uint32(1 << 30).tobytes() + bytes(999)),
}


@pytest.mark.parametrize(("array", "chunk", "body"), FORGED.values(), ids=FORGED)
def test_f36_chunks_whose_checksums_are_right(copy, array, chunk, body):
    folder = copy("sparse")
    forge(folder, array, chunk, body(folder))
    refusal(folder, is_opened=False)


def test_f36_the_samples_are_sound(samples):
    for kind in MAKERS:
        assert read_everything(daskfs.open_dataset(samples / kind)) > 0
        describe(daskfs.open_dataset(samples / kind))


def sparse_file(path: Path) -> None:
    """Three gigabytes that take no space on the disk."""
    path.unlink()
    with open(path, "wb") as file:
        os.truncate(file.fileno(), 3 << 30)


def link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.unlink()
        path.symlink_to(target)

    return make


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FILES = {"3 GB": sparse_file, "endless": link("/dev/zero"), "a link to itself": link("zarr.json"), "a FIFO": fifo}
PLACES = {
    "root": ("rows", "zarr.json", "info"),
    "manifest": ("rows", "manifest/X/c/0/0", "info"),
    "labels": ("rows", "y/c/0", "info"),
    "chunk": ("rows", "X/c/0/0", "verify"),
    "sparse chunk": ("sparse", "ids/c/0/0", "verify"),
    "names": ("sparse", "names/name/c/0", "verify"),
}
MEASURED = """
import resource, sys
from click.testing import CliRunner
from daskfs.cli import main
CliRunner().invoke(main, [sys.argv[1], sys.argv[2]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = CliRunner().invoke(main, [sys.argv[1], sys.argv[3]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, done.exit_code)
print(done.stderr)
"""


@pytest.mark.slow_but_first
@pytest.mark.parametrize(("kind", "key", "command"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("replace", FILES.values(), ids=FILES)
def test_f36_files_of_the_wrong_size_or_kind(copy, samples, kind, key, command, replace):
    folder = copy(kind)
    replace(folder / key)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, command, samples / kind, folder], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rise, code = map(int, done.stdout.splitlines()[0].split())
    assert (code, rise < 64 << 10) == (2, True), done.stdout
    assert "Traceback" not in done.stdout
    assert str(folder) in done.stdout
