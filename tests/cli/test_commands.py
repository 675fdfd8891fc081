"""The command line as a person meets it: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import daskfs
from daskfs.cli import COMMANDS, main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def svm(tmp_path) -> Path:
    path = tmp_path / "x.svm"
    path.write_text("1 3:0.5 7:1\n-1 7:2\n1 9:1\n")
    return path


def test_ingest_info_verify(tmp_path, svm):
    out = tmp_path / "x.zarr"
    done = run("ingest", svm, out, "--format", "svmlight")
    assert (done.exit_code, done.stdout.strip()) == (0, f"{out}: sparse, 3 samples x 10 features, classes -1, 1")
    info = run("info", out)
    assert info.exit_code == 0
    for word in (
        "sparse",
        "3 samples x 10 features",
        "-1 (1)",
        "1 (2)",
        "4 entries",
        "lz4 + crc32c",
        "the feature's number",
    ):
        assert word in info.stdout
    verify = run("verify", out)
    assert (verify.exit_code, "all as they were written" in verify.stdout) == (0, True)


def test_json_for_machines(tmp_path, svm):
    made = json.loads(run("ingest", svm, tmp_path / "x.zarr", "-f", "libsvm", "--json").stdout)
    facts = json.loads(run("info", tmp_path / "x.zarr", "--json").stdout)
    assert made == facts
    assert (facts["samples"], facts["entries"], facts["labels"]["counts"]) == (3, 4, {"-1": 1, "1": 2})
    checked = json.loads(run("verify", tmp_path / "x.zarr", "--json").stdout)
    assert checked["damaged"] == []
    assert checked["chunks"] == facts["chunks"]


def test_verify_names_the_damaged_chunk(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", np.eye(10), np.arange(10), chunk_bytes=200)
    chunk = tmp_path / "d.zarr/X/c/0/3"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    done = run("verify", tmp_path / "d.zarr")
    assert done.exit_code == 2
    assert "X/c/0/3" in done.stderr
    assert "1 of" in done.stderr
    assert json.loads(run("verify", tmp_path / "d.zarr", "--json").stdout)["damaged"][0]["chunk"] == "X/c/0/3"


def test_a_bad_line_is_one_line_and_exit_code_2(tmp_path, svm):
    svm.write_text("1 3:0.5\n1 3:\x1b[31mred\n")
    done = run("ingest", svm, tmp_path / "x.zarr", "--format", "svmlight")
    assert done.exit_code == 2
    assert done.stderr.strip().count("\n") == 0
    assert f"{svm}:2: the value is not a number" in done.stderr
    assert "\x1b[31mred" not in done.stderr  # what a file says must not steer the terminal
    skipped = run("ingest", svm, tmp_path / "x.zarr", "--format", "svmlight", "--on-bad-line", "skip", "--overwrite")
    assert (skipped.exit_code, "1 bad lines were left out" in skipped.stderr) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["ingest", "none.svm", "x.zarr", "--format", "svmlight"], "none.svm: no such file"),
        (
            ["ingest", "x.svm", "x.zarr", "--format", "svmlight", "--coverage", "2"],
            "error: --coverage: format svmlight takes no such option",
        ),
        (["ingest", "x.svm", "x.zarr", "--format", "svmlight", "--memory", "1kB"], "needs at least"),
        (["ingest", "x.svm", "x.zarr", "--format", "nonsense"], "nonsense"),
        (["ingest", "x.svm", "x.zarr", "--format", "fasta", "-k", "a,b"], "whole numbers"),
        (["info", "none.zarr"], "no dataset here"),
        (["verify", "none.zarr"], "no dataset here"),
    ],
)
def test_wrong_use_is_exit_code_2(tmp_path, svm, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.exit_code == 2
    assert reason in done.stderr


def test_format_flags_reach_the_format(tmp_path):
    (tmp_path / "x.fa").write_text(">a label=1\nACGTAC\n>b label=-1\nTTTTTT\n")
    done = run(
        *("ingest", tmp_path / "x.fa", tmp_path / "x.zarr", "--format", "fasta", "-k", "2,3"),
        *("--label", "header:label=([-+0-9]+)", "--weighting", "binary"),
    )
    assert done.exit_code == 0, done.stderr
    ds = daskfs.open_dataset(tmp_path / "x.zarr")
    assert ds.classes == (-1, 1)
    assert "values" not in ds.arrays
    assert sorted(ds.names(ds.read(0).ids[:3])) == ["AC", "CG", "GT"]


def test_a_table_by_flags(tmp_path):
    (tmp_path / "x.csv").write_text("id,clicked,country,age\n1,0,uk,33\n2,1,,41\n")
    arguments = ("--label", "clicked", "--ignore", "id", "--categorical", "country")
    assert run("ingest", tmp_path / "x.csv", tmp_path / "x.zarr", "-f", "csv", *arguments).exit_code == 0
    ds = daskfs.open_dataset(tmp_path / "x.zarr")
    assert {*ds.names(ds.read(0).ids)} == {"country=uk", "country=(missing)", "age"}


def test_info_of_a_dense_dataset_with_hostile_names(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", np.eye(2), ["[red]x[/]", "\x1b[2J"], ["a", "b"], "both")
    info = run("info", tmp_path / "d.zarr")
    assert info.exit_code == 0
    assert "columns and rows" in info.stdout
    assert "[red]x[/]" in info.stdout  # shown, not obeyed
    assert "\x1b[2J" not in info.stdout


def test_version():
    assert daskfs.__version__ in run("--version").stdout


def test_control_c_leaves_a_resumable_ingest(tmp_path):
    """A real process, a real SIGINT, then the same command again."""
    import gzip

    lines = "".join(f"{i % 2} " + " ".join(f"{j * 7 + i}:{i % 9 + 1}" for j in range(200)) + "\n" for i in range(400))
    for number in range(40):
        (tmp_path / f"{number:02d}.svm.gz").write_bytes(gzip.compress(lines.encode() * 4, 1))
    code = "import daskfs.store.ingest.plan as plan; plan.PART_BYTES = 1; from daskfs.cli import main; main()"
    command = [sys.executable, "-c", code, "ingest", str(tmp_path / "*.gz"), str(tmp_path / "x.zarr"), "-f", "svmlight"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    deadline = time.monotonic() + 120
    while not (tmp_path / "x.zarr/_unfinished/000001.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 75, errors
    assert "run the same command again" in errors
    staged = len(list((tmp_path / "x.zarr/_unfinished").glob("*.json"))) - 1
    assert 1 <= staged < 40
    again = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr
    assert daskfs.open_dataset(tmp_path / "x.zarr").n_samples == 40 * 4 * 400


def test_shuffle(tmp_path):
    (tmp_path / "x.svm").write_text("".join(f"{row // 50} {row + 1}:1\n" for row in range(100)))
    rows, mixed = tmp_path / "rows.zarr", tmp_path / "mixed.zarr"
    run("ingest", tmp_path / "x.svm", rows, "-f", "svmlight", "--order", "as-is")
    done = run("shuffle", rows, mixed, "--memory", "256MB", "--seed", 4)
    said = f"{mixed}: sparse, 100 samples x 101 features, classes 0, 1"
    assert (done.exit_code, done.stdout.strip()) == (0, said), done.stderr
    at_once = run("ingest", tmp_path / "x.svm", tmp_path / "x.zarr", "-f", "svmlight", "--shuffle", "--seed", 4)
    assert at_once.exit_code == 0, at_once.stderr
    assert daskfs.open_dataset(tmp_path / "x.zarr").digest == daskfs.open_dataset(mixed).digest
    assert "random order" in run("shuffle", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["rows.zarr", "there.zarr"], "there.zarr: already holds a complete dataset; --overwrite replaces it"),
        (["rows.zarr", "rows.zarr", "--overwrite"], "rows.zarr: is the dataset to be shuffled"),
        (["there.zarr", "new.zarr"], "there.zarr: laid out in columns"),
        (["none.zarr", "new.zarr"], "none.zarr: no dataset here"),
        (["rows.zarr", "new.zarr", "--memory", "1kB"], "--memory 1kB: this shuffle needs at least"),
        (["rows.zarr", "new.zarr", "--seed", "-1"], "-1 is not in the range"),
        (["rows.zarr", "new.zarr", "--scheduler", "tcp://127.0.0.1:1"], "nothing answers there"),
        (["rows.zarr"], "Missing argument 'OUT'"),
    ],
)
@pytest.mark.usefixtures("hasty")
def test_a_shuffle_that_cannot_be_creates_nothing(tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    daskfs.write_dataset("rows.zarr", np.eye(4), [1, 2, 3, 4], layout="rows")
    daskfs.write_dataset("there.zarr", np.eye(4), [1, 2, 3, 4])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    done = run("shuffle", *arguments)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_help_loads_nothing_that_takes_long():
    code = "import sys; from daskfs.cli import main\ntry: main(['--help'])\nfinally: print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200).stdout
    assert "Choose the features that matter" in shown
    for slow in ("numpy", "numba", "dask", "distributed", "zarr", "xarray", "bokeh", "sklearn", "pydantic"):
        assert f"'{slow}'" not in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_there(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"daskfs {name}" in result.output or f"main {name}" in result.output


def test_names_of_commands_are_completed_without_loading_them():
    script = "import sys; from daskfs.cli import main; main(prog_name='daskfs')"
    environment = {**os.environ, "_DASKFS_COMPLETE": "bash_complete", "COMP_WORDS": "daskfs s", "COMP_CWORD": "1"}
    command = [sys.executable, "-X", "importtime", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)
    assert set(done.stdout.split()) == {"plain,select", "plain,show", "plain,shuffle", "plain,split"}
    assert "numba" not in done.stderr
