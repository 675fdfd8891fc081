"""F36: every file that the program reads, and every text format, mutated: an error of ours or a result, nothing else.

The quick form has a few cases for each kind of file, the same every time; `make faults` a hundred thousand in all.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fault_notes import note
from faults.foreign_targets import FOREIGN
from faults.measured import at_most, measured
from faults.mutations import mutated_bytes, mutated_file, with_crc
from faults.reading import read_everything
from faults.samples import ARRAYS, MAKERS, vw_lines
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from selections import selection_of
from store.formats.dense_rows_of import dense_rows_of
from store.formats.rows_of import rows_of
from toy_algorithms import Tangled
from toy_runs import small_dataset

import daskfs
from daskfs.cli import main
from daskfs.engine.checkpoint import Checkpoint
from daskfs.errors import DaskfsError
from daskfs.job.file import load_job
from daskfs.observe.describe import describe, info_table
from daskfs.observe.report import write_report
from daskfs.observe.tables import selection_record
from daskfs.selection.records import METRICS, PROFILES, RUN_RECORD, SIZES, STABILITY, read_record
from daskfs.selection.run_folder import resolve_run
from daskfs.store.dataset.container import read_container
from daskfs.store.ingest.formats import make_format
from daskfs.store.places.location import Location

QUICK, LONG = 12, 1500  # cases of each of the targets below, which are 77
QUICK_COMMAND, LONG_COMMAND = 4, 400
MOST_BYTES = 64 << 20
LONGEST = 60.0  # seconds of a case, of which the slowest takes a tenth of one

Read = Callable[[], Any]


def check(file: Path, cases: st.SearchStrategy[bytes], read: Read, count: int, least: float) -> None:
    """Read `count` mutations of a file; only errors of ours may come of it, in one line, and little more memory."""
    sound = file.read_bytes()
    read()
    lines: list[str] = []

    def refusal() -> str | None:
        try:
            with warnings.catch_warnings(), at_most(LONGEST):
                warnings.simplefilter("ignore")
                read()
        except DaskfsError as error:
            return str(error)
        return None

    options = {"derandomize": count < LONG_COMMAND, "suppress_health_check": list(HealthCheck)}

    @settings(max_examples=count, deadline=None, database=None, **options)
    @given(raw=cases)
    def attempt(raw: bytes) -> None:
        file.write_bytes(raw)
        rise, line = measured(refusal)
        if rise >= MOST_BYTES:  # perhaps a kernel was compiled, or a module imported
            rise, line = measured(refusal)
        assert rise < MOST_BYTES
        assert line is None or ("\n" not in line and len(line) < 2000), line
        lines.append(line or "")

    attempt()
    file.write_bytes(sound)
    refused = sum(map(bool, lines))
    note(runs=len(lines))
    assert len(lines) >= count  # hypothesis may end early, or draw no case at all
    assert refused >= least * len(lines)


def dataset_root(kind: str) -> Callable[[Path], tuple[Path, st.SearchStrategy[bytes], Read]]:
    def make(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
        MAKERS[kind](folder / kind)

        def read() -> None:
            dataset = daskfs.open_dataset(folder / kind)
            info_table(json.loads(json.dumps(describe(dataset))))
            read_everything(dataset)

        file = folder / kind / "zarr.json"
        return file, mutated_file(file.read_bytes()), read

    return make


def manifest(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    MAKERS["sparse"](folder / "d")
    file = folder / "d/manifest/ids/c/0/0"
    cases = mutated_bytes(file.read_bytes()[:-4]).map(with_crc) | mutated_bytes(file.read_bytes())
    return file, cases, lambda: read_everything(daskfs.open_dataset(folder / "d"))


def chunk(kind: str, array: str) -> Callable[[Path], tuple[Path, st.SearchStrategy[bytes], Read]]:
    """A chunk whose checksum is right, in the file and in the manifest."""

    def make(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
        MAKERS[kind](folder / "d")
        file = next(path for path in sorted((folder / "d" / array / "c").rglob("*")) if path.is_file())
        lines_file = folder / f"d/manifest/{array.replace('/', '.')}/c/0/0"
        lines = np.frombuffer(lines_file.read_bytes()[:-4], np.uint64).reshape(-1, 2).copy()

        def read() -> None:
            raw = file.read_bytes()
            lines[0] = len(raw), int.from_bytes(raw[-4:], "little")
            lines_file.write_bytes(with_crc(lines.tobytes()))
            read_everything(daskfs.open_dataset(folder / "d"))

        return file, mutated_bytes(file.read_bytes()[:-4]).map(with_crc), read

    return make


def checkpoint(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    algorithm = Tangled()
    daskfs.select(small_dataset(folder / "d"), algorithm, checkpoint=folder / "c")
    file, location = folder / "c/checkpoint", Location(folder / "c")
    about, _ = read_container(location, "checkpoint")
    meta = daskfs.open_dataset(folder / "d").meta
    kind = type(algorithm.resolve(meta).start(meta, 0))
    cases = mutated_bytes(file.read_bytes()[:-4]).map(with_crc) | mutated_bytes(file.read_bytes())
    return file, cases, lambda: Checkpoint(location, about["of"]).read(kind)


def real_checkpoint(method: str) -> Callable[[Path], tuple[Path, st.SearchStrategy[bytes], Read]]:
    """The state of an algorithm around a centre, in the middle of its run."""

    def make(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
        dataset, algorithm = small_dataset(folder / "d"), daskfs.OnlineSubstitution(3, method=method)
        daskfs.select(dataset, algorithm, checkpoint=folder / "c")
        file, location = folder / "c/checkpoint", Location(folder / "c")
        about, _ = read_container(location, "checkpoint")
        kind = type(algorithm.resolve(dataset.meta).start(dataset.meta, 0))
        cases = mutated_bytes(file.read_bytes()[:-4]).map(with_crc) | mutated_bytes(file.read_bytes())
        return file, cases, lambda: Checkpoint(location, about["of"]).read(kind)

    return make


def selection(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    selection_of([3, 1, 4], classes=("ham", "spam")).save(folder / "run")
    file = folder / "run/selection.json"

    def read() -> None:
        loaded = daskfs.load_selection(folder / "run")
        json.dumps(selection_record(loaded, None), allow_nan=False)
        repr(loaded)
        loaded.predict(np.zeros((2, 12)))

    return file, mutated_file(file.read_bytes()), read


def history(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    selection_of([3, 1, 4]).save(folder / "run")
    file = folder / "run/history.zarr/zarr.json"
    return file, mutated_file(file.read_bytes()), lambda: daskfs.load_selection(folder / "run")


def published(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    file = folder / "published.json"
    file.write_text('{"files": {"selection.json": "ab"}, "job": "j", "run": "runs/0123456789ab", "version": 1}')
    return file, mutated_file(file.read_bytes()), lambda: resolve_run(Location(folder))


RECORDS = {
    RUN_RECORD: {
        "version": 1, "daskfs": "0.1", "algorithm": {"name": "Mission"}, "seed": 0, "packages": {"dask": "1"},
        "machine": {"cores": 2, "memory": 10}, "command": ["select"], "seconds": 1.5, "workers": 2,
        "source": {"url": "x", "digest": "ab", "n_samples": 3, "n_features": 4}, "steps": {"select": 1.0},
    },
    METRICS: {
        "rows": 3, "metrics": {"accuracy": 0.5}, "intervals": {"accuracy": [0.1, 0.9]}, "digest": "ab",
        "per_class": [{"class": "a"}], "baseline": {"answer": "a", "metrics": {"accuracy": 0.4}},
    },
    PROFILES: {
        "rows": 3, "digest": "ab", "shown": [3], "features": [
            {"id": 3, "name": "x3", "importance": 0.5, "edges": [0.0, 1.0, 2.0], "counts": [[2, 1]],
             "places": [0.5, 1.5], "means": [0.1, 0.9], "present": [2, 1]},
        ],
    },
    SIZES: {"metric": "r2", "sizes": [1, 2], "scores": [0.5, 0.6], "intervals": [[0.4, 0.6], [0.5, 0.7]]},
    STABILITY: {
        "over": "halves", "of": "sets", "seeds": [0, 1], "index": 0.5, "interval": [0.4, 0.6], "jaccard": 0.4,
        "distinct": 1, "n_candidates": 12, "identical": False, "features": [{"id": 3, "name": "x3", "times": 2}],
    },
}  # fmt: skip


def reported(name: str) -> Callable[[Path], tuple[Path, st.SearchStrategy[bytes], Read]]:
    """A record beside a selection, read as the report reads it."""

    def make(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
        selection_of([3, 1, 4]).save(folder / "run")
        file = folder / "run" / name
        file.write_text(json.dumps(RECORDS[name]))
        return file, mutated_file(file.read_bytes()), lambda: write_report(folder / "run")

    return make


def record(name: str) -> Callable[[Path], tuple[Path, st.SearchStrategy[bytes], Read]]:
    def make(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
        file = folder / name
        file.write_text(json.dumps(RECORDS[name]))
        return file, mutated_file(file.read_bytes()), lambda: read_record(Location(folder), name)

    return make


JOB = b"""
out = "runs"
[ingest]
sources = ["a.svm", "${HOME}/b.svm"]
format = "svmlight"
[split]
test = 0.2
seed = 1
[select]
algorithm = "mission"
k = 10
loss = "logistic"
[storage]
region = "eu"
[publish]
at_least = {accuracy = 0.5}
"""


def job(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    file = folder / "job.toml"
    file.write_bytes(JOB)
    return file, mutated_bytes(JOB), lambda: load_job(file)


TABLE = b"a,b,when,y\n1,x,2024-01-02,0\n2.5,y,2024-02-03,1\n,z,2024-03-04,0\n4,x,2024-04-05,1\n"
TEXTS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "svmlight": (b"1 1:0.5 7:2\n-1 3:1e-3 qid:3\n1 2:1 # note\n", {}),
    "vw": (vw_lines(3, 0).encode(), {}),
    "csv": (TABLE, {"label": "y"}),
    "tsv": (TABLE.replace(b",", b"\t"), {"label": "y"}),
    "fasta": (b">a label=1\nACGTACGT\nNNAC\n>b label=2\nTTTTGGGG\n", {"label": "header:label=(.*)", "k": 3}),
    "text": ("1\tone two, three\n0\tgrüße an alle\n".encode(), {"words": (1, 2), "chars": (3,)}),
}


def text(name: str) -> Callable[[Path], tuple[Path, st.SearchStrategy[bytes], Read]]:
    def make(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
        raw, options = TEXTS[name]
        file = folder / "source"
        file.write_bytes(raw)
        form = make_format(name, options)
        return file, mutated_bytes(raw), lambda: rows_of(form, [file])

    return make


def dense_text(folder: Path) -> tuple[Path, st.SearchStrategy[bytes], Read]:
    raw = b"a,b,y\n1,2,0\n3,4.5,1\n-1,1e3,0\n"
    file = folder / "source.csv"
    file.write_bytes(raw)
    form = make_format("csv", {"label": "y", "table": "dense"})
    return file, mutated_bytes(raw), lambda: dense_rows_of(form, [file])


CHUNKS = [(kind, array) for kind in ("sparse", "sparse_columns", "both") for array in ARRAYS[kind]]
TARGETS = {
    **{f"root of {kind}": dataset_root(kind) for kind in MAKERS},
    "manifest": manifest,
    **{f"chunk of {array} ({kind})": chunk(kind, array) for kind, array in CHUNKS},
    "checkpoint": checkpoint,
    **{f"checkpoint, {method}": real_checkpoint(method) for method in ("async", "block")},
    "selection": selection,
    "history": history,
    "published": published,
    **{name: record(name) for name in RECORDS},
    **{f"{name} in a report": reported(name) for name in RECORDS},
    "job": job,
    **{name: text(name) for name in TEXTS},
    "dense csv": dense_text,
    **FOREIGN,
}


HARMLESS = ("what is published", "record of a piece", "attributes of Zarr 2", "target in a text", "vw", "text")
"""Targets most of whose mutations are as good as the original, or as a file that is not there."""


@pytest.mark.parametrize("name", TARGETS)
def test_f36_some_mutations(tmp_path, name):
    check(*TARGETS[name](tmp_path), QUICK, least=0 if name in HARMLESS else 0.2)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_f36_many_mutations(tmp_path, name):
    check(*TARGETS[name](tmp_path), LONG, least=0 if name in HARMLESS else 0.3)


COMMANDS: dict[str, list[str]] = {
    **{f"root of {kind}": ["info", f"{{folder}}/{kind}"] for kind in ("columns", "both", "sparse_columns")},
    "root of sparse": ["verify", "{folder}/sparse"],
    "root of rows": ["verify", "{folder}/rows"],
    "manifest": ["verify", "{folder}/d"],
    "chunk of ids (sparse)": ["verify", "{folder}/d"],
    "chunk of feature (both)": ["info", "{folder}/d"],
    "selection": ["show", "{folder}/run"],
    "history": ["report", "{folder}/run"],
    **{
        name: ["ingest", "{folder}/source", "{folder}/out.zarr", "-f", name, "--overwrite", *options]
        for name, options in {
            "svmlight": [],
            "vw": [],
            "text": [],
            "csv": ["--label", "y"],
            "tsv": ["--label", "y"],
            "fasta": ["--label", "header:label=(.*)", "-k", "3"],
        }.items()
    },
    "dense csv": ["plan", "{folder}/source.csv", "-k", "1", "--label", "y"],
    "parquet": ["plan", "{folder}/t.parquet", "-k", "1", "--label", "y"],
    "npy": ["plan", "{folder}/X.npy", "-k", "1", "--label", "{folder}/y.npy"],
    "target in a text": ["plan", "{folder}/X.npy", "-k", "1", "--label", "{folder}/y.txt"],
    "matrix of Zarr 3": ["plan", "{folder}/g", "-k", "1"],
    "matrix of Zarr 2": ["select", "{folder}/g", "-k", "1", "--out", "{folder}/out"],
    "chunk of Zarr 3": ["select", "{folder}/g", "-k", "1", "--out", "{folder}/out"],
    "job": ["run", "{folder}/job.toml", "--until", "ingest"],
}


def check_command(folder: Path, name: str, count: int) -> None:
    def run() -> None:
        done = CliRunner().invoke(main, [word.format(folder=folder) for word in COMMANDS[name]])
        if done.exit_code:
            assert isinstance(done.exception, SystemExit), done.exception
            assert done.exit_code == 2, done.output
            raise DaskfsError(done.stderr.strip().replace("\n", " ")[:1000])

    file, cases, _ = TARGETS[name](folder)
    (folder / "a.svm").write_text("1 1:2\n0 2:3\n")
    check(file, cases, lambda: run() if file.read_bytes() not in (JOB, b"") else None, count, least=0)


@pytest.mark.parametrize("name", COMMANDS)
def test_f36_mutations_on_the_command_line(tmp_path, name):
    check_command(tmp_path, name, QUICK_COMMAND)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_f36_many_mutations_on_the_command_line(tmp_path, name):
    check_command(tmp_path, name, LONG_COMMAND)
