"""The DAGs in a real Airflow (API server, scheduler, DAG processor, tasks in processes) beside a real Dask cluster."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from click.testing import CliRunner
from dask_processes import said, worker
from dask_processes import scheduler as scheduler_process
from faults.test_f30_other_versions import pretending
from hosts.certificates import configured, made

import daskfs
from daskfs.cli import main
from daskfs.engine import checkpoint
from daskfs.job import execute

try:
    importlib.metadata.version("apache-airflow")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("no Airflow: pip install 'daskfs[airflow]', or make test-airflow", allow_module_level=True)

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(REPOSITORY / "pipelines" / "benchmarks"))
services = importlib.import_module("_airflow_services")

JOB = """
out = "runs"

[ingest]
sources = ["clicks.vw"]
format = "vw"

[split]
test = 0.25

[select]
algorithm = "mission"
k = 5
width = 1024
synchronous = true

[publish]
at_least = {accuracy = 0.5}
"""
STEPS = ("ingest", "select", "evaluate", "publish")
pytestmark = pytest.mark.timeout(590)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """Certificates of two authorities: the folder of those that tasks show, and trust, is called "theirs"."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    for name in ("ours", "theirs"):
        made(folder / name)
        configured(folder / f"{name}-settings", folder / name, folder / name)
    settings = folder / "theirs-settings" / "tls.yaml"  # other tests have a cluster without TLS
    settings.write_text(settings.read_text().replace("require-encryption: true", "require-encryption: false"))
    return folder


@pytest.fixture(scope="module")
def airflow(tmp_path_factory, certificates) -> Iterator[Any]:
    home = tmp_path_factory.mktemp("airflow")
    path, settings = f"{REPOSITORY}{os.pathsep}{HERE}", str(certificates / "theirs-settings")
    with services.airflow(home, PYTHONPATH=path, DASKFS_RETRY_SECONDS="1", DASK_CONFIG=settings) as running:
        yield running


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[str]:
    with services.dask_cluster(tmp_path_factory.mktemp("dask")) as address:
        yield address


@pytest.fixture(scope="module")
def steps(tmp_path_factory) -> Iterator[Any]:
    """What tasks do, in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("home")))  # importing Airflow writes there
        patched.syspath_prepend(str(services.DAGS))
        yield importlib.import_module("daskfs_steps")


@pytest.fixture
def job(tmp_path) -> Path:
    """A job file and its source."""
    rng = np.random.default_rng(0)
    with open(tmp_path / "clicks.vw", "w") as file:
        for _ in range(2000):
            words = rng.choice(40, size=6, replace=False)
            label = 1 if rng.random() < 1 / (1 + np.exp(-3 * (3 in words) + 3 * (7 in words))) else -1
            file.write(f"{label} |w {' '.join(f'word{word}' for word in words)}\n")
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def published(out: Path) -> dict[str, bytes]:
    """The bytes that count: the pointer, and what it points to."""
    record = json.loads((out / "published.json").read_text())
    files = {name: (out / record["run"] / name).read_bytes() for name in record["files"]}
    return {"pointer": (out / "published.json").read_bytes()} | files


def on_the_command_line(job: Path, *options: str) -> dict[str, bytes]:
    """What the same job publishes without Airflow, in the same place: records name it."""
    out = job.parent / "runs"
    by_airflow = out.rename(job.parent / "aside")
    told = CliRunner().invoke(main, ["run", str(job), *options])
    assert told.exit_code == 0, told.output
    found = published(out)
    shutil.rmtree(out)
    by_airflow.rename(out)
    return found


def events(lines: list[dict[str, Any]]) -> list[str]:
    return [str(line["event"]) for line in lines]


def attempts(airflow: Any, dag: str, run: str) -> dict[str, tuple[str, int]]:
    return {task["task_id"]: (task["state"], task["try_number"]) for task in airflow.tasks(dag, run)}


def consumed(airflow: Any, of: str) -> str:
    """The run of daskfs_consume that a published run has set off, when it has ended."""
    for _ in services.waiting(120, f"daskfs_consume of {of}"):
        for run in airflow.runs("daskfs_consume"):
            if run["state"] == "success" and of in {
                found["run"] for found in airflow.result("daskfs_consume", run["dag_run_id"], "runs")
            }:
                return str(run["dag_run_id"])
    raise AssertionError


def test_from_a_job_file_to_predictions(airflow, scheduler, job):
    """The published bytes are those of the command line; whoever waits for them gets them; again, nothing is done."""
    job.write_text(JOB + "[report]\nperformance = true\n")  # of a cluster, which the last steps do without
    data = job.parent / "more.zarr"
    daskfs.ingest(job.parent / "clicks.vw", data, "vw")
    airflow.ask("/api/v2/variables", {"key": "daskfs_dataset", "value": str(data)})
    run = airflow.trigger("daskfs_job", job=str(job), scheduler=scheduler, n_select=4)
    assert airflow.finished("daskfs_job", run) == "success"
    assert attempts(airflow, "daskfs_job", run) == dict.fromkeys(STEPS, ("success", 1))
    log = events(airflow.log("daskfs_job", run, "select"))
    assert any(line.startswith("dashboard: http://127.0.0.1:") for line in log)
    assert any(line.startswith("select: 4 features in ") for line in log)
    result = airflow.result("daskfs_job", run, "publish")
    assert result["published"] == str(job.parent / "runs" / "published.json")
    assert result["metrics"]["accuracy"] > 0.6

    later = consumed(airflow, result["run"])
    selection = daskfs.load_selection(job.parent / "runs")
    shown = airflow.result("daskfs_consume", later, "show", 0)
    assert (shown["features"], shown["top"]) == (4, selection.names)
    predictions = airflow.result("daskfs_consume", later, "predict", 0)
    np.testing.assert_array_equal(xarray.open_zarr(predictions).prediction.values, selection.predict(data))

    before = published(job.parent / "runs")
    again = airflow.trigger("daskfs_job", job=str(job), scheduler=scheduler, n_select=4)
    assert airflow.finished("daskfs_job", again) == "success"
    assert any(line.startswith("select: there already") for line in events(airflow.log("daskfs_job", again, "select")))
    assert published(job.parent / "runs") == before
    assert before == on_the_command_line(job, "--set", "select.k=4", "--scheduler", scheduler)


def passes(airflow: Any, run: str, attempt: int) -> list[int]:
    """The passes that an attempt at selecting has told of, in order."""
    try:
        log = events(airflow.log("daskfs_job", run, "select", attempt))
    except (FileNotFoundError, json.JSONDecodeError):  # it has not begun, or is in the middle of a line
        return []
    return [int(found[1]) for line in log if (found := re.match(r"select: pass (\d+) ", line))]


def test_a_killed_task_is_retried_and_resumes(airflow, scheduler, job):
    """SIGKILL in the middle of the selection: the second attempt goes on from the checkpoint, to the same bytes."""
    job.write_text(
        JOB.replace("width = 1024", "width = 1024\npasses = 200")
        + f'[cluster]\nstart = "checkpoints.RunningCluster"\narguments = {{address = "{scheduler}"}}\n'
    )
    run = airflow.trigger("daskfs_job", job=str(job))
    for _ in services.waiting(200, "the fifth pass", 0.1):
        if max(passes(airflow, run, 1), default=0) >= 5:
            break
    (select,) = (task for task in airflow.tasks("daskfs_job", run) if task["task_id"] == "select")
    os.kill(select["pid"], signal.SIGKILL)
    assert airflow.finished("daskfs_job", run) == "success"
    assert attempts(airflow, "daskfs_job", run)["select"] == ("success", 2)
    log = events(airflow.log("daskfs_job", run, "select", attempt=2))
    assert "select: going on with the unfinished run that is there" in log
    assert passes(airflow, run, 1)[0] == 1
    assert passes(airflow, run, 2)[0] >= 4  # what was done by then is not done again
    assert published(job.parent / "runs") == on_the_command_line(job, "--scheduler", scheduler)


def check_fails_at_once(airflow: Any, run: str, task: str, reason: str) -> None:
    """One attempt, and one line of ours."""
    assert airflow.finished("daskfs_job", run) == "failed"
    assert attempts(airflow, "daskfs_job", run)[task] == ("failed", 1)
    errors = [line for line in airflow.log("daskfs_job", run, task) if line["level"] == "error"]
    assert reason in errors[0]["event"]
    assert "\n" not in errors[0]["event"]


def test_what_no_retry_makes_better_fails_at_once_in_one_line(airflow, job):
    missing = airflow.trigger("daskfs_job", job=str(job.with_name("none.toml")))
    job.write_text(JOB.replace("k = 5", "kk = 5"))
    wrong = airflow.trigger("daskfs_job", job=str(job))
    check_fails_at_once(airflow, missing, "ingest", "none.toml: cannot be read: No such file")
    check_fails_at_once(airflow, wrong, "ingest", "select: kk: no such key")
    assert not (job.parent / "runs").exists()


def test_a_cluster_that_cannot_do_it_fails_at_once_in_one_line(airflow, certificates, job, tmp_path):
    """A worker that is too small, a scheduler that trusts others, and one with another version."""
    encrypted, other, little = (tmp_path / name for name in ("encrypted", "other", "little"))
    for folder in (encrypted, other, little):
        folder.mkdir()
    ours = {"DASK_CONFIG": str(certificates / "ours-settings")}
    with (
        scheduler_process(encrypted, "--protocol", "tls", environment=ours) as strange,
        scheduler_process(other, environment=pretending(other, daskfs="0.0.9")) as older,
        scheduler_process(little) as poor,
        worker(older, other / "worker.log", "--no-nanny"),
        worker(poor, little / "worker.log", "--no-nanny", "--memory-limit", "2GB"),
    ):
        for folder in (other, little):
            said(folder / "worker.log", "Registered to")
        small = airflow.trigger("daskfs_job", job=str(job), scheduler=poor, changes={"select.width": 1 << 28})
        untrusted = airflow.trigger("daskfs_job", job=str(job), scheduler=strange, changes={"out": "a"})
        different = airflow.trigger("daskfs_job", job=str(job), scheduler=older, changes={"out": "b"})
        check_fails_at_once(airflow, small, "select", "each thread of worker tcp://127.0.0.1:")
        check_fails_at_once(airflow, untrusted, "ingest", f"--scheduler {strange}: certificates do not match")
        check_fails_at_once(airflow, different, "ingest", "the Dask scheduler has daskfs 0.0.9 (here ")


def check_ends_in_a_line(log: list[dict[str, Any]], pattern: str) -> None:
    """An attempt that is to be followed by another says why in a line; the only other one is Airflow's."""
    errors = [line for line in log if line["level"] == "error"]
    assert [line["event"] for line in errors[1:]] == ["Task exited"], errors
    assert re.match(pattern, errors[0]["event"])
    assert "\n" not in errors[0]["event"]
    assert not any("error_detail" in line for line in log)  # as Airflow calls a traceback


def test_a_cluster_that_is_not_there_yet_is_tried_again(airflow, job):
    run = airflow.trigger("daskfs_job", job=str(job), scheduler=f"tcp://127.0.0.1:{services.free_port()}")
    for _ in services.waiting(120, "a second attempt"):
        state, number = attempts(airflow, "daskfs_job", run)["ingest"]
        if number == 2 or state == "failed":
            break
    assert state != "failed"
    check_ends_in_a_line(airflow.log("daskfs_job", run, "ingest"), "interrupted: .*nothing answers there")
    airflow.ask(f"/api/v2/dags/daskfs_job/dagRuns/{run}", {"state": "failed"}, "PATCH")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "daskfs_steps"]


def test_a_source_that_arrives_late_is_no_work_for_airflows_machine(steps, job, caplog):
    """What is selected is published without a cluster; what is not is left to one, whatever the task is called."""
    caplog.set_level("INFO")
    job.write_text(JOB.replace("clicks.vw", "*.vw"))
    nowhere = {"job": str(job), "scheduler": f"tcp://127.0.0.1:{services.free_port()}"}
    assert steps.do("select", {"job": str(job), "changes": {"cluster.serial": True}})["run"]
    assert steps.do("evaluate", nowhere)["metrics"]["accuracy"] > 0.5
    shutil.copy(job.with_name("clicks.vw"), job.with_name("late.vw"))
    with pytest.raises(SystemExit) as stopped:
        steps.do("publish", nowhere)
    assert (stopped.value.code, "nothing answers there" in logged(caplog)[-1]) == (75, True)
    assert len(list(job.parent.glob("runs/data/*/ingested.zarr"))) == 1


def test_a_task_that_takes_too_long_is_stopped_and_goes_on(steps, scheduler, job, caplog, monkeypatch):
    """By the very clock of Airflow's tasks, whose shortest time is hours: nothing stands in the way of the retry."""
    timeout = importlib.import_module("airflow.sdk.execution_time.timeout").timeout
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(execute, "LINE_SECONDS", 0.0)
    caplog.set_level("INFO")
    job.write_text(JOB.replace("width = 1024", "width = 1024\npasses = 3000"))
    asked = {"job": str(job), "scheduler": scheduler}
    steps.do("split", asked)
    with pytest.raises(SystemExit) as stopped, timeout(8):
        steps.do("select", asked)
    assert (stopped.value.code, logged(caplog)[-1].startswith("interrupted: not done in the time")) == (75, True)
    done = [int(found[1]) for line in logged(caplog) if (found := re.match(r"select: pass (\d+) ", line))]
    caplog.clear()
    with pytest.raises(SystemExit), timeout(8):
        steps.do("select", asked)
    again = [int(found[1]) for line in logged(caplog) if (found := re.match(r"select: pass (\d+) ", line))]
    assert again[0] >= done[-1] - 1 > 1


@pytest.mark.parametrize(
    ("dag", "params"),
    [
        ("daskfs_job", {}),
        ("daskfs_job", {"job": ""}),
        ("daskfs_job", {"job": "j.toml", "n_select": 0}),
        ("daskfs_job", {"job": "j.toml", "n_select": "many"}),
        ("daskfs_job", {"job": "j.toml", "scheduler": "somewhere"}),
        ("daskfs_job", {"job": "j.toml", "changes": {"select passes": 3}}),
        ("daskfs_jobs", {"jobs": []}),
        ("daskfs_jobs", {"jobs": ["j.toml"], "n_select": [0]}),
        ("daskfs_consume", {"top": 0}),
    ],
)
def test_a_bad_param_is_refused_when_it_is_given(airflow, dag, params):
    before = len(airflow.runs(dag))
    with pytest.raises(urllib.error.HTTPError) as refused:
        airflow.trigger(dag, **params)
    with refused.value as answer:
        assert (answer.code, b"param" in answer.read().lower()) == (400, True)
    assert len(airflow.runs(dag)) == before


def test_several_numbers_of_features(airflow, scheduler, job):
    run = airflow.trigger("daskfs_jobs", jobs=[str(job)], n_select=[2, 4], scheduler=scheduler)
    assert airflow.finished("daskfs_jobs", run) == "success"
    out = job.parent / "runs"
    assert not (out / "published.json").exists()
    for index, k in enumerate((2, 4)):
        assert len(daskfs.load_selection(out / f"published-{k}.json").features) == k
        log = events(airflow.log("daskfs_jobs", run, "select", index=index))
        assert any(line.startswith("ingest: there already") for line in log)
    compared = airflow.result("daskfs_jobs", run, "compare")
    assert [line["n_select"] for line in compared] == [2, 4]
    assert all(line["metrics"]["accuracy"] > 0.5 for line in compared)


def test_airflow_reads_the_files_without_loading_daskfs(airflow, monkeypatch):
    """It reads them every half minute."""
    assert airflow.ask("/api/v2/importErrors")["import_errors"] == []
    read = (
        f"import sys, {', '.join(services.OURS)}; print([name for name in sys.modules if name.startswith('daskfs.')])"
    )
    monkeypatch.setenv("PYTHONPATH", str(services.DAGS))
    monkeypatch.setenv("AIRFLOW_HOME", str(airflow.home))
    told = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout.splitlines()[-1] == "[]"
