"""daskfs select: what is printed, what is kept, what a second run finds, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner, Result
from toy_algorithms import Tangled

import daskfs
import daskfs.cli.select  # its flags are those of the algorithms there are now, not of a test's
from daskfs.algorithms.substitution import registration
from daskfs.cli import main
from daskfs.errors import Interrupted


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


X = np.random.default_rng(2).normal(size=(60, 40)).astype(np.float32)
GENES = [f"gene{i}" for i in range(40)]


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """A dataset of ten blocks, and an algorithm that is quick and the same every time."""
    monkeypatch.setattr(registration, "REGISTRATION", replace(registration.REGISTRATION, algorithm=Tangled))
    monkeypatch.chdir(tmp_path)
    daskfs.write_dataset("d.zarr", X, X[:, 0], GENES, chunk_bytes=1000)
    return tmp_path / "d.zarr"


SELECT = ("select", "d.zarr", "--serial", "--algorithm", "substitution", "-k", "4", "--out", "run")


def test_select_and_show(data):
    done = run(*SELECT, "--seed", "7")
    assert done.exit_code == 0, done.stderr
    selection = daskfs.load_selection("run")
    expected = daskfs.select(data, Tangled(4), seed=7)
    assert selection.features.tolist() == expected.features.tolist()
    assert selection.weights.tolist() == expected.weights.tolist()
    assert (selection.seed, selection.algorithm["n_select"], selection.source["url"]) == (7, 4, "d.zarr")
    for rank, (name, weight) in enumerate(zip(selection.names, selection.weights, strict=True), 1):
        share = rf"{selection.importance[rank - 1]:.2%}"
        assert re.search(rf"^ +{rank} +{name} +{share} +{re.escape(f'{weight:+.4g}')}\s*$", done.stdout, re.MULTILINE)
    for step, objective in enumerate(selection.history.objective.values, 1):
        assert re.search(rf"^step {step}: objective {objective:.6g}, \d+\.\d s$", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("kept in run\n")
    assert re.search(r"^memory: state .* \+ blocks .* = ", done.stderr, re.MULTILINE)
    assert "pass 1" not in done.stderr  # no progress bar in a pipe
    assert sorted(path.name for path in Path("run").iterdir()) == ["history.zarr", "run.json", "selection.json"]
    shown = run("show", "run")
    assert shown.exit_code == 0
    assert shown.stdout + "kept in run\n" == done.stdout


def test_online_substitution_by_its_flags(tmp_path, monkeypatch):
    """The real algorithm, the real flags: it finds what was planted, and says so."""
    monkeypatch.chdir(tmp_path)
    daskfs.write_dataset("d.zarr", X, np.where(X[:, 7] > X[:, 31], "spam", "ham"), GENES, chunk_bytes=1000)
    done = run(*SELECT, "-k", 2, "--loss", "logistic", "--passes", 2, "--ridge", 0.1, "--no-intercept")
    assert done.exit_code == 0, done.stderr
    selection = daskfs.load_selection("run")
    assert set(selection.names) == {"gene7", "gene31"}
    assert selection.score("d.zarr") > 0.9
    given = {"name": "OnlineSubstitution", "loss": "logistic", "passes": 2, "ridge": 0.1, "intercept": False}
    assert given.items() <= selection.algorithm.items()
    assert "weight (above 0: spam)" in done.stdout
    assert 2 <= done.stdout.count(" changes, ") <= 3


@pytest.fixture
def waves(tmp_path, monkeypatch) -> np.ndarray:
    """A dataset of five columns, of which one matters, in no straight line; its rows."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).uniform(size=(400, 5))
    daskfs.write_dataset("waves.zarr", X, np.sin(6 * X[:, 2]), layout="rows")
    return X


def test_random_features_by_their_flags(waves):
    flags = ("--penalty", "0.1", "--rounds", 2, "--per-round", 40, "--kernel", "gaussian")
    done = run("select", "waves.zarr", "--serial", "--algorithm", "random-features", "-k", 30, *flags, "--out", "run")
    assert done.exit_code == 0, done.output
    assert re.search(r"1 +(gaussian \d+|x\d) +[\d.]+% +[+-]", done.output)
    assert "30 random features of waves.zarr, 400 samples" in done.output
    assert re.search(r"inputs that matter: x2 [89]\d\.\d%, (x|\d others 0\.0%)", done.output)
    record = json.loads(run("show", "run", "--json").output)
    assert len(record["features"]) == 30
    assert [each["name"] for each in record["random_features"]["inputs"]] == ["x0", "x1", "x2", "x3", "x4"]
    assert json.loads(run("evaluate", "run", "waves.zarr", "--json").output)["metrics"]["r2"] > 0.75


def test_rows_outside_the_range_are_a_note(waves):
    run("select", "waves.zarr", "--serial", "--algorithm", "random-features", "--rounds", 1, "--out", "run")
    waves[:9, 1] += 3
    daskfs.write_dataset("far.zarr", waves, np.zeros(400), layout="rows")
    for arguments in (("evaluate", "run", "far.zarr"), ("predict", "run", "far.zarr", "--out", "p.zarr")):
        done = run(*arguments)
        assert done.exit_code == 0
        assert "note: far.zarr: 9 of 400 rows have values outside the range" in " ".join(done.output.split())


def test_a_penalty_that_lets_nobody_in_is_a_note(waves):
    done = run("select", "waves.zarr", "--serial", "--algorithm", "random-features", "--penalty", "1e9", "--out", "run")
    assert done.exit_code == 0
    assert "lets no feature in" in done.output
    assert "0 random features" in done.output
    done = run("select", "waves.zarr", "--serial", "--algorithm", "random-features", "--penalty", "0", "--out", "other")
    assert done.exit_code == 2
    assert "--penalty 0.0: must be a number above 0" in done.output
    assert not Path("other").exists()


def test_the_same_run_twice_gives_the_same_bytes(data):
    run(*SELECT)
    run(*SELECT[:-1], "again")
    assert Path("run/selection.json").read_bytes() == Path("again/selection.json").read_bytes()


def test_the_record_of_a_run(data):
    run(*SELECT, "--seed", 3)
    record = json.loads(Path("run/run.json").read_text())
    selection = daskfs.load_selection("run")
    assert (record["algorithm"], record["seed"], record["source"]) == (selection.algorithm, 3, selection.source)
    assert record["bytes_read"] == np.nansum(selection.history.bytes.values) > 0
    assert (record["workers"], record["daskfs"]) == (0, daskfs.__version__)
    assert record["memory"]["promised"] > 0
    assert record["started"] <= record["finished"]


def test_json_for_machines(data):
    run(*SELECT)
    selection, record = daskfs.load_selection("run"), json.loads(run("show", "run", "--json").stdout)
    assert record["features"] == [
        {"rank": rank, "id": id_, "name": name, "weight": weight, "importance": selection.importance[rank - 1]}
        for rank, (id_, name, weight) in enumerate(
            zip(selection.features.tolist(), selection.names, selection.weights.tolist(), strict=True), 1
        )
    ]
    assert record["score"] is None
    assert record["history"]["objective"] == selection.history.objective.values.tolist()
    for key in ("algorithm", "source", "seed", "classes"):
        assert record[key] == getattr(selection, key)
    assert record["intercept"] == selection.intercept[0]
    assert len(json.loads(run("show", "run", "--json", "--top", 2).stdout)["features"]) == 2


def test_a_finished_run_is_not_run_over(data):
    run(*SELECT)
    before = Path("run/selection.json").read_bytes()
    again = run(*SELECT)
    assert (again.exit_code, again.stderr) == (
        2,
        "error: run: holds this run, finished; --resume shows it, --overwrite runs it again\n",
    )
    other = run(*SELECT, "--passes", 2, "--seed", 1)
    assert other.exit_code == 2
    assert "run: holds another run (passes was 3, now 2, seed was 0, now 1); choose another --out" in other.stderr
    assert run(*SELECT, "--passes", 2, "--resume").exit_code == 2
    assert Path("run/selection.json").read_bytes() == before
    shown = run(*SELECT, "--resume")
    assert shown.exit_code == 0
    assert daskfs.load_selection("run").names[0] in shown.stdout
    assert "memory" not in shown.stderr  # nothing was run
    replaced = run(*SELECT, "--passes", 2, "--overwrite")
    assert replaced.exit_code == 0
    assert daskfs.load_selection("run").algorithm["passes"] == 2


def test_another_dataset_is_another_run(data):
    run(*SELECT)
    daskfs.write_dataset("d.zarr", X + 1, X[:, 0], GENES, chunk_bytes=1000, overwrite=True)
    done = run(*SELECT, "--resume")
    assert (done.exit_code, "holds another run (dataset was" in done.stderr) == (2, True)


def test_a_damaged_run_can_be_made_again(data):
    run(*SELECT)
    Path("run/selection.json").write_text("{")
    assert run(*SELECT, "--resume").exit_code == 2
    assert run(*SELECT, "--overwrite").exit_code == 0
    daskfs.load_selection("run")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--serial", "--scheduler", "tcp://127.0.0.1:1"), "choose one of them"),
        (("--resume", "--overwrite"), "choose one of them"),
        (("--ridge", "1"), "--ridge: substitution has no such option; there are --n-select, --passes"),
        (("--passes", "many"), "--passes: 'many' is not a whole number"),
        (("--algorithm", "nonsense"), "nonsense"),
        (("--serial", "--processes", "2"), "choose one of them"),
        (("--performance-report", "dask.html"), "is of a cluster"),
        (("--out", "d.zarr"), "d.zarr: is a dataset; choose another place"),
        (("--scheduler", ""), "choose one of them"),
    ],
)
def test_wrong_use_is_exit_code_2_and_writes_nothing(data, arguments, reason):
    done = run(*SELECT, *arguments)
    assert done.exit_code == 2
    assert reason in done.stderr
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "address",
    ["nonsense", "http://127.0.0.1:8786", "tcp://", "ucx://x:1", "", "tcp://x:port", "tcp://[::1:8786", "[::1"],
)
def test_what_is_no_address_of_a_scheduler(data, address):
    done = run("select", "d.zarr", *SELECT[3:], "--scheduler", address)
    assert done.exit_code == 2
    assert done.stderr == f"error: --scheduler {address}: must be an address such as tcp://127.0.0.1:8786\n"
    assert not Path("run").exists()


@pytest.mark.usefixtures("hasty")
def test_a_scheduler_that_is_not_there(data):
    done = run("select", "d.zarr", *SELECT[3:], "--scheduler", "tcp://127.0.0.1:1")
    assert (done.exit_code, "nothing answers there" in done.stderr) == (2, True)
    assert not Path("run").exists()


@pytest.mark.usefixtures("hasty")
def test_what_is_there_and_not_a_scheduler(data):
    """Something that listens and never says a word, as a server of another kind may."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        done = run("select", "d.zarr", *SELECT[3:], "--scheduler", address)
    assert (done.exit_code, "nothing answers there (no answer in" in done.stderr) == (2, True)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("who", ["worker", "nanny"])
def test_a_worker_is_no_scheduler(data, two_workers, who):
    """Their addresses stand beside the scheduler's in every log."""
    (worker, about), *_ = two_workers.scheduler_info()["workers"].items()
    address = {"worker": worker, "nanny": about["nanny"]}[who]
    done = run("select", "d.zarr", *SELECT[3:], "--scheduler", address)
    assert done.exit_code == 2
    assert done.stderr == f"error: --scheduler {address}: this is a {who}, not a scheduler\n"
    assert not Path("run").exists()


@pytest.mark.parametrize("name", ["report.html", "checkpoint/model.pt", "history.zarr/mine", "notes.txt"])
def test_a_folder_that_is_no_run_is_left_alone(data, name):
    mine = Path("run") / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    for overwrite in ((), ("--overwrite",)):
        done = run(*SELECT, *overwrite)
        assert (done.exit_code, "holds something that is no run" in done.stderr) == (2, True)
    assert [path for path in Path("run").rglob("*") if path.is_file()] == [mine]


def test_what_does_not_fit_together_leaves_nothing_behind(data):
    done = run("select", "d.zarr", "--serial", "-a", "mission", "-k", "3", "--loss", "softmax", "--out", "run")
    assert done.exit_code == 2
    assert not Path("run").exists()


def test_there_must_be_a_dataset(data):
    done = run("select", "none.zarr", *SELECT[2:])
    assert (done.exit_code, done.stderr) == (2, "error: none.zarr: no such file\n")
    assert run("show", "d.zarr").stderr == "error: d.zarr: no selection here\n"


def test_sparse_rows_must_be_transposed_first(data):
    daskfs.write_dataset("rows.zarr", sp.csr_array(np.where(X > 1, X, 0)), X[:, 0])
    done = run("select", "rows.zarr", *SELECT[2:])
    assert done.exit_code == 2
    assert done.stderr == (
        "error: rows.zarr: is laid out in rows, and Tangled reads columns; "
        "run daskfs transpose rows.zarr COLUMNS.zarr, and select from that\n"
    )
    assert not Path("run").exists()


def test_on_a_cluster(data, two_workers):
    done = run("select", data, *SELECT[3:], "--scheduler", two_workers.scheduler.address)
    assert done.exit_code == 0, done.stderr
    expected = daskfs.select(data, Tangled(4), client=two_workers)
    assert daskfs.load_selection("run").weights.tolist() == expected.weights.tolist()


@pytest.mark.slow
def test_a_cluster_of_its_own(data):
    """Real processes on this machine, nobody else's dashboard address, and everything gone afterwards."""
    command = [sys.executable, "-c", SLOW, "select", "d.zarr", *SELECT[3:], "--performance-report", "dask.html"]
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^dashboard: http://127\.0\.0\.1:\d+/daskfs$", done.stderr, re.MULTILINE)
    record = json.loads(Path("run/run.json").read_text())
    assert record["workers"] == len(os.sched_getaffinity(0))
    assert record["memory"]["used"] > 0
    assert record["performance_report"] == "dask.html"
    assert "bokeh" in Path("dask.html").read_text().lower()
    assert daskfs.load_selection("run").features.shape == (4,)


def test_a_cluster_that_went_away_is_exit_code_75(data, monkeypatch):
    def gone(*_: Any, **__: Any) -> None:
        raise Interrupted("the Dask scheduler is gone")

    monkeypatch.setattr(sys.modules["daskfs.job.request"], "select", gone)
    done = run(*SELECT)
    assert (done.exit_code, "interrupted: the Dask scheduler is gone" in done.stderr) == (75, True)


SLOW = """
from dataclasses import dataclass, replace
from toy_algorithms import Tangled
from daskfs.cli import main
from daskfs.algorithms.substitution import registration

@dataclass(frozen=True)
class Slow(Tangled):
    seconds: float = 0.02

registration.REGISTRATION = replace(registration.REGISTRATION, algorithm=Slow)
main()
"""


@pytest.mark.slow_but_first
@pytest.mark.parametrize("where", [("--serial",), ("--processes", "2")], ids=["serial", "cluster"])
def test_control_c_and_the_same_command_again(data, where):
    """A real SIGINT for all processes after the first pass, then the same command: as if nothing had happened."""
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(Path(__file__).parents[1])}
    select = [sys.executable, "-c", SLOW, "select", "d.zarr", *where, *SELECT[3:-1]]
    subprocess.run([*select, "whole"], check=True, capture_output=True, timeout=240, env=environment)
    command = [*select, "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    checkpoint, written = Path("run/checkpoint/checkpoint"), set()
    deadline = time.monotonic() + 60
    while len(written) < 2 and time.monotonic() < deadline:  # the first is written at the start
        if checkpoint.exists():
            written.add(checkpoint.stat().st_mtime_ns)
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 75, errors
    assert errors.splitlines()[-1] == "interrupted: run the same command again to go on"
    assert "Traceback" not in errors
    assert not Path("run/selection.json").exists()
    unfinished = run("show", "run")
    assert (unfinished.exit_code, "unfinished run" in unfinished.stderr) == (2, True)
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert again.returncode == 0, again.stderr
    assert "going on with the unfinished run" in again.stderr
    assert Path("run/selection.json").read_bytes() == Path("whole/selection.json").read_bytes()


def test_an_unfinished_run_of_something_else_is_not_gone_on_with(data):
    daskfs.select(data, Tangled(4), checkpoint="run/checkpoint", seed=9)
    done = run(*SELECT)
    assert done.exit_code == 2
    assert "the checkpoint is of another run: seed=9, now 0" in done.stderr
    assert run(*SELECT, "--overwrite").exit_code == 0
    assert daskfs.load_selection("run").seed == 0


def test_features_to_keep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    daskfs.write_dataset("d.zarr", X, 3 * X[:, 5] + X[:, 8], GENES, layout="both")
    for algorithm in ("substitution", "mission"):
        select = ("select", "d.zarr", "--serial", "--algorithm", algorithm, "-k", "1")
        done = run(*select, "--keep", "gene5,gene7", "--out", algorithm)
        assert done.exit_code == 0, done.stderr
        selection = daskfs.load_selection(algorithm)
        assert (selection.names, selection.kept.names) == (["gene8"], ["gene5", "gene7"])
        for name, weight in zip(selection.kept.names, selection.kept.weights, strict=True):
            assert re.search(rf"^ +kept +{name} +{re.escape(f'{weight:+.4g}')}\s*$", done.stdout, re.MULTILINE)
    assert run(*select, "--keep", "age", "--out", "run").stderr.endswith("keep: the dataset has no feature 'age'\n")
