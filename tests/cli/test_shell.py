"""The command line in a shell: completion, pipes, a terminal, standard input, mistakes, no cluster without need."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import daskfs
from daskfs.cli import COMMANDS, UNREAD, main
from daskfs.engine.passes import PassProgress
from daskfs.observe import progress as bars

DASKFS = [sys.executable, "-c", "from daskfs.cli import main; main(prog_name='daskfs')"]
SELECT = ("select", "t.csv", "-k", "2", "--label", "sick")


@pytest.fixture(autouse=True)
def _table(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(120, 48))
    table = pd.DataFrame(X, columns=[f"gene{i}" for i in range(48)])
    table.assign(sick=np.where(X[:, 3] - X[:, 7] > 0, "yes", "no")).to_csv("t.csv", index=False)


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)


def error_of(*arguments: object) -> str:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    return done.stderr.splitlines()[-1]


def completions(words: str, incomplete: str) -> list[Any]:
    return ShellComplete(main, {}, "daskfs", "_DASKFS_COMPLETE").get_completions(words.split(), incomplete)


@pytest.mark.parametrize(
    "words",
    ["select", "select t.csv", "select t.csv --out", "plan", "run", "show", "evaluate", "evaluate RUN", "predict RUN",
     "evaluate RUN x.zarr --sizes", "predict RUN x.zarr --out", "report RUN --out", "ingest t.csv", "ingest --like"],
)  # fmt: skip
def test_file_names_are_completed(words):
    assert [item.type for item in completions(words, "t")] == ["file"]


def test_every_argument_of_every_command_is_a_path():
    commands = [main.get_command(click.Context(main), name) for name in COMMANDS if name != "airflow"]
    arguments = [
        param for command in commands if command for param in command.params if param.param_type_name != "option"
    ]
    assert len(arguments) >= 20
    assert [argument.name for argument in arguments if not isinstance(argument.type, click.Path)] == []


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        ("select --algorithm", "m", ["mission"]),
        ("select --loss", "s", ["squared", "squared_hinge", "softmax"]),
        ("select --kernel", "", ["gaussian", "laplacian", "perceptron"]),
        ("select --ridge", "", ["auto"]),
        ("plan --method", "b", ["block", "batch-iht"]),
        ("ingest --missing", "me", ["mean", "median"]),
        ("run --until", "s", ["split", "select", "stability"]),
        ("", "sh", ["show", "shuffle"]),
    ],
)
def test_choices_are_completed(words, incomplete, expected):
    assert sorted(item.value for item in completions(words, incomplete)) == sorted(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*SELECT, "--label", "scik"), "--label scik: no such column (did you mean 'sick'?)"),
        (("select", "t.csv", "-k", "2", "--label", "sik"), "--label sik: no such column (did you mean 'sick'?)"),
        (("plan", "t.csv", "-k", "2", "--label", "sik"), "--label sik: no such column (did you mean 'sick'?)"),
        (("ingest", "t.csv", "o", "-f", "csv", "--label", "sik"), "--label sik: no such column (did you mean 'sick'?)"),
        (("ingest", "t.csv", "o", "-f", "csv", "--label", "sick", "-k", "3"), "--k: format csv takes no such option;"),
        ((*SELECT, "--ignore", "gen11"), "--ignore gen11: no such column (did you mean 'gene11'?)"),
        ((*SELECT, "-a", "mision"), "univariate (did you mean 'mission'?)"),
        ((*SELECT, "--loss", "logistc"), "(did you mean 'logistic'?)"),
        ((*SELECT, "--method", "paper", "--keep", "gene1"), "does not: use --method block"),
        ((*SELECT, "--set", "stabilty.pairs=2"), "--set stabilty: no such key (did you mean 'stability'?)"),
        ((*SELECT, "--set", "stability.pair=2"), "--set stability.pair: no such key (did you mean 'pairs'?)"),
        ((*SELECT, "--set", "ingest.labl=2"), "--set ingest.labl: no such key (did you mean 'label'?)"),
        (("slect", "t.csv"), "No such command 'slect' (did you mean 'select'?)."),
        (("run", "job.toml"), "job.toml: ingest.label: sik: no such column (did you mean 'sick'?)"),
        (("run", "job.toml", "--set", "select.los=1"), "los: no such key (did you mean 'loss'?)"),
    ],
)  # fmt: skip
def test_mistakes_name_the_flag_and_the_nearest_name(arguments, message):
    write_job("job.toml", label="sik")
    last = error_of(*arguments)
    assert last.endswith(message) or (message[-1] == ";" and message in last)
    assert len(last) < 250


def test_some_of_many_columns_are_named():
    last = error_of("select", "t.csv", "-k", "2")
    assert last.endswith("one of gene0, gene1, gene2, gene3, …, gene45, gene46, gene47, sick (49 in all)")


def test_an_algorithm_is_named_as_its_flag_names_it():
    X = np.random.default_rng(0).normal(size=(30, 4))
    daskfs.write_dataset("d.zarr", X, X[:, :2], layout="both")
    last = error_of("select", "d.zarr", "-k", 2, "-a", "mission", "--serial", "--out", "o")
    assert "use --algorithm substitution, or" in last


def write_job(path: str, label: str = "sick") -> None:
    Path(path).write_text(
        f'out = "job"\n[ingest]\nsources = ["t.csv"]\nformat = "csv"\nlabel = "{label}"\n[split]\ntest = 0.2\n'
        '[select]\nalgorithm = "substitution"\nk = 2\n[cluster]\nprocesses = 2\n'
    )


class _StartedError(Exception):
    """Raised in place of the start of a cluster."""


@pytest.fixture
def no_cluster(monkeypatch) -> None:
    def start(*_: object) -> None:
        raise _StartedError

    monkeypatch.setattr("daskfs.engine.cluster.start.LocalCluster", lambda **_: start())


@pytest.mark.usefixtures("no_cluster")
@pytest.mark.parametrize("command", ["select", "run"])
def test_a_wrong_label_is_found_before_a_cluster_starts(command):
    write_job("job.toml", label="sik")
    arguments = {"select": (*SELECT[:-1], "sik", "--processes", 2), "run": ("run", "job.toml")}[command]
    assert "sik: no such column" in error_of(*arguments)
    write_job("job.toml")
    right = {"select": (*SELECT, "--processes", 2), "run": ("run", "job.toml")}[command]
    assert isinstance(run(*right).exception, _StartedError)  # so the fixture does what it says


@pytest.mark.parametrize("command", ["select", "run"])
def test_nothing_to_do_starts_no_cluster(command, request):
    write_job("job.toml")
    write_job("other.toml")
    where = {"select": (*SELECT, "--processes"), "run": ("run", "job.toml", "--set")}[command]
    here = {"select": (*SELECT, "--serial"), "run": ("run", "job.toml", "--serial")}[command]
    assert run(*here).exit_code == 0
    request.getfixturevalue("no_cluster")
    value = {"select": 2, "run": "cluster.processes=2"}[command]
    again = run(*where, value)
    assert again.exit_code == 0, again.output
    assert "select: there already" in again.stderr
    more = run(*where, value, *{"select": ("--seed", 1), "run": ("--set", "select.k=3")}[command])
    assert isinstance(more.exception, _StartedError)


@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd"])
def test_standard_input(kind):
    text = Path("t.csv").read_bytes()
    from daskfs.store.ingest.sources import zstd

    packed = {"plain": lambda: text, "gzip": lambda: gzip.compress(text, mtime=0), "zstd": lambda: zstd.compress(text)}
    given = packed[kind]()
    done = run("select", "-", *SELECT[2:], stdin=given)
    assert done.exit_code == 0, done.output
    assert set(daskfs.load_selection("stdin-selected").names) == {"gene3", "gene7"}
    again = run("select", "-", *SELECT[2:], stdin=given).stderr
    assert "ingest: there already" in again
    assert "select: there already" in again
    assert list(Path("stdin-selected").rglob("stdin*")) == []  # no second copy of the data is left
    planned = json.loads(run("plan", "-", *SELECT[2:], "--out", "o", "--json", stdin=given).stdout)
    assert planned["features"] == 48
    assert not Path("o").exists()


def test_standard_input_that_cannot_be():
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    for arguments, message in (
        (("-", "t.csv"), "-: standard input is the only source"),
        (("-",), "standard input: is empty"),
        (("-", "--out", "s3://bucket/x"), "must be a local folder"),
        (("-", "--out", "mine"), "mine: holds something that is no job's"),
    ):
        done = run("select", *arguments, *SELECT[2:], stdin=b"")
        assert (done.exit_code, message in done.stderr) == (2, True), done.output
    assert {path.name for path in Path().rglob("*") if path.is_file()} == {"t.csv", "notes.txt"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("-k", "2", "--label", "wrong"),
        ("-k", "0", "--label", "sick"),
        ("-k", "2", "--label", "sick", "--width", "64", "--kernel", "gaussian"),
        ("-k", "2", "--label", "sick", "--keep", "wrong"),
        ("-k", "2", "--label", "sick", "--set", "publish.to=x"),
    ],
)
def test_standard_input_is_not_left_behind_by_an_error(arguments):
    done = run("select", "-", *arguments, stdin=Path("t.csv").read_bytes())
    assert done.exit_code == 2, done.output
    assert [path.name for path in Path().iterdir()] == ["t.csv"]


def test_standard_input_is_not_left_behind_by_a_late_error(monkeypatch):
    def fail(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    text = Path("t.csv").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("daskfs.job.runner.JobRun._select", fail)
        assert run("select", "-", *SELECT[2:], stdin=text).exit_code != 0
    assert list(Path("stdin-selected").rglob("stdin*")) == []
    again = run("select", "-", *SELECT[2:], stdin=text)
    assert again.exit_code == 0, again.output
    assert "ingest: there already" in again.stderr


@pytest.mark.slow_but_first
@pytest.mark.parametrize(
    "arguments", [("show", "run"), ("show", "run", "--json"), SELECT], ids=["show", "json", "select"]
)
def test_a_pipe_that_nobody_reads_is_silent(arguments):
    X = np.random.default_rng(0).normal(size=(30, 4))
    daskfs.select(X, 2, y=X[:, 0]).save("run")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*DASKFS, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=240)
    os.close(writer)
    assert done.returncode == UNREAD
    assert not {"Traceback", "Broken", "error", "Exception"} & set(done.stderr.replace(":", " ").split())
    if arguments is SELECT:
        assert len(daskfs.load_selection("t-selected").features) == 2


def test_an_error_of_another_pipe_is_an_error(monkeypatch):
    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("daskfs.cli.results.load_selection", broken)
    done = run("show", "run")
    assert (done.exit_code, "error: [Errno 32] Broken pipe" in done.stderr) == (2, True)


def test_a_terminal_sees_at_once_what_is_being_done():
    """Before the imports of the command, which take most of the time of a small selection."""
    watched, terminal = pty.openpty()
    begun = time.monotonic()
    process = subprocess.Popen([*DASKFS, *SELECT], stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    said, seconds = b"", []
    while True:
        try:
            piece = os.read(watched, 1 << 16)
        except OSError:  # the terminal's other end is closed
            break
        if not piece:
            break
        said, seconds = said + piece, [*seconds, time.monotonic() - begun]
    assert process.wait(timeout=200) == 0
    os.close(watched)
    assert b"looking at t.csv" in said.splitlines()[0]
    assert seconds[0] < 0.4 * seconds[-1]


@pytest.mark.parametrize(
    "algorithm", [daskfs.Mission(2), daskfs.Mission(2, refit=3, idf=True, passes=2), daskfs.Univariate(2)]
)
def test_no_more_passes_than_the_bar_counts(algorithm):
    X = np.random.default_rng(0).normal(size=(50, 4))
    daskfs.write_dataset("d.zarr", X, X[:, 0] > 0, layout="both")
    seen: list[PassProgress] = []
    daskfs.select("d.zarr", algorithm, progress=seen.append)
    assert max(now.number for now in seen) == seen[0].passes


def test_time_left_is_that_of_all_passes(monkeypatch):
    shown: list[Any] = []

    class Bar(bars._WithDetails):
        def update(self, task_id: Any, **fields: Any) -> None:
            super().update(task_id, **fields)
            shown.append(
                (self.tasks[0].description, self.tasks[0].completed, self.tasks[0].total, self.tasks[0].time_remaining)
            )

    clock = [0.0]
    monkeypatch.setattr(bars, "_bar", lambda: Bar(console=bars.messages, disable=True, get_time=lambda: clock[0]))
    with bars.pass_progress() as show:
        for number, done in ((2, 0), (2, 50), (2, 100), (3, 0), (3, 50)):  # goes on after a first pass
            show(PassProgress(number, 4, done // 10, 10, done, 100, "rows", 10, seconds=1.0))
            clock[0] += 5
    assert [entry[:3] for entry in shown] == [
        ("pass 2/4", 100, 400), ("pass 2/4", 150, 400), ("pass 2/4", 200, 400),
        ("pass 3/4", 200, 400), ("pass 3/4", 250, 400),
    ]  # fmt: skip
    assert shown[2][3] == 20  # 10 bytes a second, 200 bytes to go
    with bars.pass_progress() as show:
        show(PassProgress(1, None, 5, 10, 50, 100, "rows", 10, seconds=1.0))
    assert shown[-1] == ("pass 1", 50, None, None)
