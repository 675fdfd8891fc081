"""The DAGs in a real Airflow (API server, scheduler, DAG processor, tasks in processes) beside a real Dask cluster."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
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

import daskfs
from daskfs.cli import main

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
def airflow(tmp_path_factory) -> Iterator[Any]:
    home = tmp_path_factory.mktemp("airflow")
    path = f"{REPOSITORY}{os.pathsep}{HERE}"
    with services.airflow(home, PYTHONPATH=path, DASKFS_RETRY_SECONDS="1") as running:
        yield running


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[str]:
    with services.dask_cluster(tmp_path_factory.mktemp("dask")) as address:
        yield address


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


def test_a_killed_task_is_retried_and_resumes(airflow, scheduler, job):
    """SIGKILL in the middle of the selection: the second attempt goes on from the checkpoint, to the same bytes."""
    job.write_text(
        JOB.replace("width = 1024", "width = 1024\npasses = 200")
        + f'[cluster]\nstart = "checkpoints.RunningCluster"\narguments = {{address = "{scheduler}"}}\n'
    )
    run = airflow.trigger("daskfs_job", job=str(job))
    seen = set()
    for _ in services.waiting(200, "the third checkpoint", 0.02):
        seen |= {path.stat().st_mtime_ns for path in job.parent.glob("runs/runs/*/checkpoint/checkpoint")}
        if len(seen) == 3:
            break
    (select,) = (task for task in airflow.tasks("daskfs_job", run) if task["task_id"] == "select")
    os.kill(select["pid"], signal.SIGKILL)
    assert airflow.finished("daskfs_job", run) == "success"
    assert attempts(airflow, "daskfs_job", run)["select"] == ("success", 2)
    log = events(airflow.log("daskfs_job", run, "select", attempt=2))
    assert "select: going on with the unfinished run that is there" in log
    assert published(job.parent / "runs") == on_the_command_line(job, "--scheduler", scheduler)


def test_what_no_retry_makes_better_fails_at_once_in_one_line(airflow, job):
    missing = airflow.trigger("daskfs_job", job=str(job.with_name("none.toml")))
    job.write_text(JOB.replace("k = 5", "kk = 5"))
    wrong = airflow.trigger("daskfs_job", job=str(job))
    for run, reason in ((missing, "none.toml: cannot be read: No such file"), (wrong, "select: kk: no such key")):
        assert airflow.finished("daskfs_job", run) == "failed"
        assert attempts(airflow, "daskfs_job", run)["ingest"] == ("failed", 1)
        errors = [line for line in airflow.log("daskfs_job", run, "ingest") if line["level"] == "error"]
        assert reason in errors[0]["event"]
        assert "\n" not in errors[0]["event"]
    assert not (job.parent / "runs").exists()


def test_a_cluster_that_is_not_there_yet_is_tried_again(airflow, job):
    run = airflow.trigger("daskfs_job", job=str(job), scheduler=f"tcp://127.0.0.1:{services.free_port()}")
    for _ in services.waiting(120, "a second attempt"):
        state, number = attempts(airflow, "daskfs_job", run)["ingest"]
        if number == 2 or state == "failed":
            break
    assert state != "failed"
    assert any("nothing answers there" in line for line in events(airflow.log("daskfs_job", run, "ingest")))
    airflow.ask(f"/api/v2/dags/daskfs_job/dagRuns/{run}", {"state": "failed"}, "PATCH")


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
