"""daskfs run: every step once, changes noticed, the same published bytes however often it was killed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import daskfs
from daskfs.cli import main
from daskfs.job.execute import execute, lines, needs_cluster
from daskfs.store.places.location import Location

JOB = """
out = "runs/clicks"

[ingest]
sources = ["clicks-*.vw"]
format = "vw"

[split]
test = 0.25

[select]
algorithm = "mission"
k = 5
width = 1024
seed = 1

[evaluate]

[stability]
pairs = 1

[publish]
at_least = {accuracy = 0.5}

[cluster]
serial = true
"""
STEPS = ("ingest", "split", "select", "stability", "evaluate", "report", "publish")


def clicks(path: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with open(path, "w") as file:
        for _ in range(rows):
            words = rng.choice(40, size=6, replace=False)
            label = 1 if rng.random() < 1 / (1 + np.exp(-3 * (3 in words) + 3 * (7 in words))) else -1
            file.write(f"{label} |w {' '.join(f'word{word}' for word in words)}\n")


@pytest.fixture
def job(tmp_path, monkeypatch) -> Path:
    """A job of two sources, in the folder the test is in."""
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        clicks(Path(f"clicks-{number}.vw"), 600, number)
    Path("job.toml").write_text(JOB)
    return tmp_path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["run", "job.toml", *map(str, arguments)])


def published() -> dict[str, bytes]:
    """The bytes that count: the pointer, and what it points to."""
    pointer = Path("runs/clicks/published.json")
    record = json.loads(pointer.read_text())
    folder = pointer.parent / record["run"]
    return {"pointer": pointer.read_bytes()} | {name: (folder / name).read_bytes() for name in record["files"]}


def test_from_sources_to_a_report(job):
    done = run("--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    folder = Path(told["run"])
    assert sorted(path.name for path in folder.iterdir()) == [
        *("history.zarr", "metrics.json", "profiles.json", "report.html", "run.json", "selection.json", "sizes.json"),
        "stability.json",
    ]
    assert {"w^word3", "w^word7"} <= set(daskfs.load_selection("runs/clicks").names)
    assert told["metrics"]["roc_auc"] > 0.6  # the best possible is .7
    record = json.loads((folder / "run.json").read_text())
    assert record["job"]["select"]["algorithm"] == "mission"
    assert set(record["steps"]) >= {"ingest", "split", "select", "stability", "evaluate"}
    assert json.loads((folder / "metrics.json").read_text())["rows"] == 300
    again = json.loads((folder / "stability.json").read_text())
    assert (again["over"], again["seeds"], again["identical"]) == ("halves", [1, 2], False)
    files = {"selection.json", "metrics.json", "profiles.json", "sizes.json", "stability.json"}
    assert set(published()) == {"pointer", *files}
    profiles = json.loads((folder / "profiles.json").read_text())
    assert (profiles["rows"], profiles["digest"]) == (900, daskfs.load_selection(folder).source["digest"])
    shown = CliRunner().invoke(main, ["show", "runs/clicks", "--json"])  # a job is the run it has published
    assert len(json.loads(shown.stdout)["features"]) == 5


def test_profiles_can_be_left_out_and_made_later(job):
    done = json.loads(run("--json", "--set", "report.profiles=false").stdout)
    profiles = Path(done["run"]) / "profiles.json"
    assert not profiles.exists()
    assert json.loads(run("--json").stdout)["run"] == done["run"]
    assert len(json.loads(profiles.read_text())["features"]) == 5
    assert "Feature by feature" in (profiles.parent / "report.html").read_text()


def test_a_finished_step_is_not_repeated(job):
    run()
    before, first = published(), {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*.json")}
    again = run()
    assert again.exit_code == 0
    for step in ("ingest", "split", "select", "stability", "evaluate"):
        assert f"{step}: there already" in again.stderr
    assert "published.json, as it was" in again.stderr
    assert published() == before
    changed = {path.name for path, written in first.items() if path.stat().st_mtime_ns != written}
    assert changed <= {"run.json"}  # the report's times


def test_a_changed_source_is_noticed_and_the_old_run_stays_until_the_new_one_counts(job):
    run()
    before, data = published(), set(Path("runs/clicks/data").iterdir())
    clicks(Path("clicks-1.vw"), 700, 9)
    half = run("--until", "evaluate")
    assert half.exit_code == 0
    assert "ingest: there already" not in half.stderr
    assert published() == before
    assert run().exit_code == 0
    assert published()["pointer"] != before["pointer"]
    assert len(list(Path("runs/clicks/runs").iterdir())) == 2
    assert not data & set(Path("runs/clicks/data").iterdir())  # nobody needs the old datasets


def test_a_changed_parameter_is_another_run_of_the_same_data(job):
    run()
    again = run("--set", "select.k=3", "--set", "stability={seeds=1}")
    assert again.exit_code == 0
    assert "ingest: there already" in again.stderr
    assert "select: there already" not in again.stderr
    assert len(daskfs.load_selection("runs/clicks").features) == 3


def test_what_is_left_when_all_is_selected_needs_no_cluster(job):
    """Whether it is, is asked of the sources and parameters as they are, and looking makes nothing."""
    assert needs_cluster("job.toml")
    assert not Path("runs").exists()
    run("--until", "select")
    assert (needs_cluster("job.toml"), needs_cluster("job.toml", {"stability": {"seeds": 1}})) == (True, True)
    assert run("--until", "stability").exit_code == 0
    assert not needs_cluster("job.toml")
    assert needs_cluster("job.toml", {"select.k": 3})
    clicks(Path("clicks-2.vw"), 100, 2)
    assert needs_cluster("job.toml")


def test_step_by_step(job):
    for step in STEPS:
        assert run("--until", step).exit_code == 0
        assert Path("runs/clicks/published.json").exists() == (step == "publish")
        records = list(Path("runs").rglob("run.json"))
        steps = {} if not records else json.loads(records[0].read_text())["steps"]
        assert set(steps) == set(STEPS[2 : STEPS.index(step) + 1]), "with what each took when it was done"
    stepwise = published()
    shutil.rmtree("runs")
    run()
    assert published() == stepwise


def test_a_report_and_a_pointer_in_other_places_are_replaced_by_the_next_ones(job):
    other = ("--set", "report.to=page.html", "--set", "publish.to=counts.json")
    assert run(*other).exit_code == 0
    before = Path("page.html").read_bytes(), Path("counts.json").read_bytes()
    assert run(*other, "--set", "select.k=3").exit_code == 0
    assert all(
        old != new.read_bytes() for old, new in zip(before, map(Path, ("page.html", "counts.json")), strict=True)
    )


def test_whatever_takes_long_says_how_far_it_is(job, monkeypatch):
    monkeypatch.setattr("daskfs.job.execute.LINE_SECONDS", 0.0)
    told: list[str] = []
    execute("job.toml", lines(told.append))
    for step in ("split", "evaluate", "sizes"):
        assert any(re.fullmatch(rf"{step}: [\d,]+ of [\d,]+", line) for line in told), step


def test_dasks_own_report_is_kept_with_the_run(job):
    Path("job.toml").write_text(JOB.replace("serial = true", "processes = 1").replace("[stability]\npairs = 1\n", ""))
    done = run("--set", "report.performance=true", "--json")
    assert done.exit_code == 0, done.output
    folder = Path(json.loads(done.stdout)["run"])
    assert json.loads((folder / "run.json").read_text())["performance_report"] == "performance.html"
    assert "daskfs-sketch" in (folder / "performance.html").read_text()


def test_what_is_not_good_enough_is_not_published(job):
    done = run("--set", "publish.at_least.roc_auc=0.999")
    assert done.exit_code == 3
    assert re.search(
        r"error: not published: roc_auc is 0\.\d+, at least 0\.999 was asked for; the run is in", done.stderr
    )
    assert not Path("runs/clicks/published.json").exists()
    assert run().exit_code == 0


def test_what_is_no_better_than_always_the_same_answer_is_not_published(job):
    for number in range(2):
        texts = [line.split("|")[1] for line in Path(f"clicks-{number}.vw").read_text().splitlines()]
        labels = np.random.default_rng(number).choice([-1, 1], len(texts))
        Path(f"clicks-{number}.vw").write_text("".join(f"{y} |{text}\n" for y, text in zip(labels, texts, strict=True)))
    text = JOB.replace("[stability]\npairs = 1\n", "").replace("at_least = {accuracy = 0.5}", "")
    Path("job.toml").write_text(text)
    done = run()
    assert done.exit_code == 3
    assert re.search(r"error: not published: no better than always saying -?1, the most frequent class", done.stderr)
    assert not Path("runs/clicks/published.json").exists()
    report = next(Path("runs/clicks").glob("runs/*/report.html")).read_text()
    assert "No better than always saying" in report
    assert run("--set", "publish.even_if_useless=true").exit_code == 0
    assert Path("runs/clicks/published.json").exists()


def test_features_to_keep_are_in_every_step(job):
    Path("job.toml").write_text(JOB.replace("k = 5", 'k = 2\nkeep = ["w^word20"]'))
    done = run()
    assert done.exit_code == 0, done.stderr
    selection = daskfs.load_selection("runs/clicks")
    assert (set(selection.names), selection.kept.names) == ({"w^word3", "w^word7"}, ["w^word20"])


@pytest.mark.parametrize("algorithm", ["mission", "substitution"])
def test_dense_sources_are_laid_out_as_the_algorithm_reads_them(job, algorithm):
    X = np.random.default_rng(0).normal(size=(400, 6))
    table = np.column_stack([X, X[:, 1] > X[:, 4]])
    np.savetxt("dense.csv", table, delimiter=",", header="a,b,c,d,e,f,y", comments="")
    text = JOB.replace(
        'sources = ["clicks-*.vw"]\nformat = "vw"', 'sources = ["dense.csv"]\nformat = "csv"\nlabel = "y"'
    )
    text = text.replace('"mission"', f'"{algorithm}"').replace("k = 5\nwidth = 1024", 'k = 2\nloss = "logistic"')
    Path("job.toml").write_text(text)
    done = run("--until", "evaluate", "--set", "stability={seeds=1}")
    assert done.exit_code == 0, done.stderr
    (selected,) = Path("runs/clicks/runs").iterdir()
    assert set(daskfs.load_selection(selected).names) == {"b", "e"}


def test_datasets_that_are_there_and_an_algorithm_that_reads_columns(job):
    train = daskfs.ingest("clicks-0.vw", "train.zarr", format="vw")
    daskfs.ingest("clicks-1.vw", "test.zarr", format="vw")
    text = re.sub(
        r"\[ingest\].*\[select\]", '[data]\ntrain = "train.zarr"\ntest = "test.zarr"\n[select]', JOB, flags=re.S
    )
    text = text.replace('"mission"', '"substitution"').replace("width = 1024", 'loss = "logistic"')
    Path("job.toml").write_text(text)
    done = run()
    assert done.exit_code == 0, done.stderr
    assert "transpose: " in done.stderr
    selection = daskfs.load_selection("runs/clicks")
    assert {"w^word3", "w^word7"} <= set(selection.names)
    assert train.n_samples == selection.source["n_samples"]


class Crash(BaseException):
    """What nobody catches."""


def crashing(monkeypatch: pytest.MonkeyPatch, last: int) -> list[int]:
    """Let the write of that number never happen, nor any after it; the list tells how many there were."""
    writes, write = [0], Location.write

    def or_crash(*arguments: Any) -> None:
        writes[0] += 1
        if writes[0] >= last:
            raise Crash
        write(*arguments)

    monkeypatch.setattr(Location, "write", or_crash)
    return writes


@pytest.mark.slow
def test_stopped_before_any_write_and_run_again(job, monkeypatch):
    """Cut short before every fourth write of the whole job, and finished: the published bytes are the same."""
    with monkeypatch.context() as patch:
        count = crashing(patch, 10**9)
        run()
    undisturbed = published()
    for last in range(1, count[0] + 1, 4):
        shutil.rmtree("runs")
        with monkeypatch.context() as patch:
            crashing(patch, last)
            with pytest.raises(Crash):
                CliRunner().invoke(main, ["run", "job.toml"], catch_exceptions=False)
        assert run().exit_code == 0
        assert published() == undisturbed


KILLED = """
import os, signal, sys
from daskfs.store.places.location import Location
from daskfs.cli import main

left, write = int(sys.argv.pop(1)), Location.write

def or_die(*arguments):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    write(*arguments)

Location.write = or_die
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("write", [10, 40, 60])
def test_killed_and_run_again(job, write):
    """A real SIGKILL: in the ingest, around the selection, towards the end; what it left locked or half-written is no
    hindrance."""
    run()
    undisturbed = published()
    shutil.rmtree("runs")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(write), "run", "job.toml"], timeout=250)
    assert killed.returncode == -signal.SIGKILL
    assert run().exit_code == 0
    assert published() == undisturbed


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("clicks-*", "none-*", r"none-\*\.vw: no (such )?file"),
        ('format = "vw"', 'format = "vw"\nformt = "x"', "did you mean 'format'"),
        ("serial = true", 'scheduler = "tcp://127.0.0.1:1"', "nothing answers there"),
        ("serial = true", 'start = "nowhere.Cluster"', r"nowhere\.Cluster: no such class"),
        ('out = "runs/clicks"', 'out = "."', "holds something that is no job's"),
        ('out = "runs/clicks"', 'out = ""', "job.toml: out: is empty"),
        ("[publish]", '[publish]\nto = "job.json"', "job.json: is there already, and points to no run"),
        ("[publish]", '[report]\nto = "job.toml"\n[publish]', "job.toml: is there already, and no report"),
        ("[publish]", "[report]\nperformance = true\n[publish]", "report.performance is of a cluster"),
    ],
)
@pytest.mark.usefixtures("hasty")
def test_bad_input_is_one_line_and_creates_nothing(job, old, new, reason):
    assert old in JOB
    Path("job.toml").write_text(JOB.replace(old, new))
    Path("job.json").write_text("{}")
    before = sorted(job.rglob("*"))
    done = run()
    assert done.exit_code == 2, done.output
    assert re.search(reason, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(job.rglob("*")) == before


def test_a_folder_with_other_data_is_not_a_jobs(job):
    """Old datasets of a job are deleted, and "data" is what anybody calls a folder."""
    Path("data").mkdir()
    Path("data/precious.txt").write_text("mine")
    Path("job.toml").write_text(JOB.replace('out = "runs/clicks"', 'out = "."'))
    done = run()
    assert (done.exit_code, "holds something that is no job's" in done.stderr) == (2, True)
    assert not Path("published.json").exists()


def test_what_others_put_beside_a_jobs_datasets_stays(job):
    run()
    Path("runs/clicks/data/precious.txt").write_text("mine")
    clicks(Path("clicks-1.vw"), 700, 9)
    assert run().exit_code == 0
    assert Path("runs/clicks/data/precious.txt").read_text() == "mine"


def test_halves_that_were_cut_short_are_not_taken_for_seeds(job, monkeypatch):
    run("--until", "select")
    with monkeypatch.context() as patch:
        patch.setattr("daskfs.job.runner.stability", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            CliRunner().invoke(main, ["run", "job.toml"], catch_exceptions=False)
    done = run("--set", "stability={seeds=2}")
    assert done.exit_code == 0, done.stderr


def test_a_dataset_that_is_still_being_written(job):
    Path("half.zarr/_unfinished").mkdir(parents=True)
    text = re.sub(r"\[ingest\].*\[split\]", '[data]\ntrain = "half.zarr"\n[split]', JOB, flags=re.S)
    Path("job.toml").write_text(text)
    done = run()
    assert (done.exit_code, "half.zarr: incomplete" in done.stderr) == (2, True)
    assert not Path("runs").exists()


HOLD = """
import time
from daskfs.store.places.location import Location
with Location("runs/clicks").one_writer():
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_at_once(job):
    """The second is refused while the first lives."""
    Path("runs/clicks/runs").mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as first:
        try:
            assert first.stdout.readline() == "held\n"
            second = run()
            assert (second.exit_code, "another process is writing here" in second.stderr) == (2, True)
        finally:
            first.kill()
    assert run().exit_code == 0
