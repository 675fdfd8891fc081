"""F7: two runs into one output: the second refuses loudly, and the first ends as if it had been alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from faults.reading import files_of

import daskfs
from daskfs.errors import Busy

SELECT = """
import sys, daskfs

def wait(event):
    if event.number == 1 and event.blocks_done == 1:
        print("half-way", flush=True)
        input()

daskfs.select(sys.argv[1], daskfs.OnlineSubstitution(2), checkpoint=sys.argv[2] + "/checkpoint", progress=wait).save(
    sys.argv[2]
)
"""
INGEST = """
import sys, daskfs

def wait(progress):
    if progress.pieces_done == 1:
        print("half-way", flush=True)
        input()

daskfs.ingest(sys.argv[1], sys.argv[2], "svmlight", workers=1, progress=wait)
"""


@contextmanager
def half_way(program: str, *arguments: Path) -> Iterator[None]:
    """Another process that is half-way through its work, and goes on to its end afterwards."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half-way\n"
        try:
            yield
        finally:
            process.communicate("\n", timeout=120)
        assert process.returncode == 0


def daskfs_exits(*arguments: object) -> tuple[int, str]:
    command = [sys.executable, "-c", "from daskfs.cli import main; main()", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    X = np.random.default_rng(0).normal(size=(50, 40))
    daskfs.write_dataset(tmp_path / "d", X, X[:, 3], chunk_bytes=2000)
    return tmp_path / "d"


def test_f07_two_selections_into_one_folder(tmp_path, dataset):
    run = tmp_path / "run"
    with half_way(SELECT, dataset, run):
        before = files_of(run)
        with pytest.raises(Busy, match="another process is writing here"):
            daskfs.select(dataset, daskfs.OnlineSubstitution(3), checkpoint=run / "checkpoint")
        code, said = daskfs_exits("select", dataset, "-a", "substitution", "-k", "3", "--out", run, "--serial")
        assert code == 2, said
        assert files_of(run) == before
    alone = daskfs.select(dataset, daskfs.OnlineSubstitution(2))
    assert daskfs.load_selection(run).features.tolist() == alone.features.tolist()


@pytest.mark.slow
def test_f07_two_ingests_into_one_dataset(tmp_path):
    for number in range(3):
        lines = (f"{i % 2} {i % 7 + 1}:1 {i % 5 + 9}:{number}\n" for i in range(200_000))
        (tmp_path / f"{number}.svm").write_text("".join(lines))
    sources, out = tmp_path / "*.svm", tmp_path / "out.zarr"
    with half_way(INGEST, sources, out):
        with pytest.raises(Busy, match="another process is writing here"):
            daskfs.ingest(sources, out, "svmlight")
        code, said = daskfs_exits("ingest", sources, out, "-f", "svmlight", "--overwrite")
        assert (code, "another process is writing here" in said) == (2, True), said
    assert daskfs.open_dataset(out).n_samples == 600_000
    assert daskfs.verify_dataset(out) == []
