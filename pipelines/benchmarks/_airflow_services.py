"""Airflow as people run it, on this machine alone: API server, scheduler and DAG processor, on SQLite."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

LOOPBACK = "127.0.0.1"
REPOSITORY = Path(__file__).parents[2]
DAGS = REPOSITORY / "pipelines" / "airflow"
OURS = ("daskfs_job", "daskfs_jobs", "daskfs_consume")
START_SECONDS, RUN_SECONDS, STOP_SECONDS = 240, 300, 20
ANSWER_SECONDS = 120  # the first answers of a server take a while on a busy machine
ATTEMPTS = 20
FINISHED = ("success", "failed")


@dataclass
class Airflow:
    """Running services, spoken to as everybody does: over HTTP."""

    home: Path
    url: str
    token: str = field(default="", repr=False)

    def ask(self, path: str, content: Mapping[str, Any] | None = None, method: str | None = None) -> Any:
        """Return what the API answers; HTTPError if it refuses.

        Airflow's database here is SQLite. On a busy machine the API may answer 500 because another service has locked
        it: what may be said twice, everything but POST, is said again.
        """
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        body = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        for left in range(ATTEMPTS, 0, -1):
            try:
                with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as refusal:
                if refusal.code < 500 or request.get_method() == "POST" or left == 1:
                    raise
                refusal.close()
                time.sleep(1)
        raise AssertionError("unreachable")

    def trigger(self, dag: str, **params: Any) -> str:
        """Start a run; its id."""
        run = f"test-{uuid.uuid4().hex[:8]}"
        self.ask(f"/api/v2/dags/{dag}/dagRuns", {"dag_run_id": run, "logical_date": None, "conf": params})
        return run

    def finished(self, dag: str, run: str) -> str:
        """How a run ended, once it has."""
        for _ in waiting(RUN_SECONDS, f"{dag} {run}"):
            state: str = self.ask(f"/api/v2/dags/{dag}/dagRuns/{run}")["state"]
            if state in FINISHED:
                return state
        raise AssertionError

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """All runs there were."""
        return list(self.ask(f"/api/v2/dags/{dag}/dagRuns")["dag_runs"])

    def tasks(self, dag: str, run: str) -> list[dict[str, Any]]:
        """The tasks of a run."""
        return list(self.ask(f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"])

    def result(self, dag: str, run: str, task: str, index: int = -1) -> Any:
        """What a task handed on."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        return self.ask(f"{path}?map_index={index}&deserialize=true")["value"]

    def log(self, dag: str, run: str, task: str, attempt: int = 1, index: int = -1) -> list[dict[str, Any]]:
        """The lines that an attempt at a task has logged."""
        folder = self.home / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        file = (folder / f"map_index={index}" if index >= 0 else folder) / f"attempt={attempt}.log"
        return [json.loads(line) for line in file.read_text().splitlines()]


@contextmanager
def airflow(home: Path, **environment: str) -> Iterator[Airflow]:
    """Start the services with our DAGs, and stop them afterwards.

    Parameters
    ----------
    home
        An empty folder, or one to be made.
    environment
        More variables for all of them, tasks included.
    """
    home.mkdir(exist_ok=True)
    port = free_port()
    services = Airflow(home, f"http://{LOOPBACK}:{port}")
    variables = {**os.environ, **_settings(home, port), **environment}
    command = [sys.executable, "-m", "airflow"]
    subprocess.run([*command, "db", "migrate"], env=variables, check=True, capture_output=True, timeout=START_SECONDS)
    with ExitStack() as running:
        for name, *options in (
            ("api-server", "--host", LOOPBACK, "--port", str(port), "--workers", "1"),
            ("scheduler", "--skip-serve-logs"),
            ("dag-processor",),
        ):
            running.enter_context(process([*command, name, *options], home / f"{name}.log", variables))
        for _ in waiting(START_SECONDS, f"Airflow: see {home}"):
            if _is_ready(services):
                break
        yield services


def _is_ready(services: Airflow) -> bool:
    """True once it answers and has read our DAGs, which it reads again and again."""
    try:
        services.token = services.token or services.ask("/auth/token")["access_token"]
        known = {dag["dag_id"] for dag in services.ask("/api/v2/dags")["dags"]}
    except (OSError, ValueError):
        return False
    return known >= set(OURS)


def _settings(home: Path, port: int) -> dict[str, str]:
    sections: dict[str, dict[str, object]] = {
        "CORE": {
            "DAGS_FOLDER": DAGS,
            "LOAD_EXAMPLES": False,
            "DAGS_ARE_PAUSED_AT_CREATION": False,
            "EXECUTOR": "LocalExecutor",
            "PARALLELISM": 3,
            "SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
            "EXECUTION_API_SERVER_URL": f"http://{LOOPBACK}:{port}/execution/",
        },
        "API": {"BASE_URL": f"http://{LOOPBACK}:{port}", "SECRET_KEY": uuid.uuid4().hex},
        "API_AUTH": {"JWT_SECRET": uuid.uuid4().hex * 2},
        "USAGE_DATA_COLLECTION": {"ENABLED": False},
    }
    settings = {f"AIRFLOW__{name}__{key}": str(value) for name, keys in sections.items() for key, value in keys.items()}
    return {**settings, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """A scheduler and workers, each a process of its own; the address."""
    dask, file = [sys.executable, "-m", "dask"], folder / "scheduler.json"
    variables = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    where = ["--host", LOOPBACK, "--scheduler-file", str(file)]
    scheduler = [*dask, "scheduler", *where, "--port", "0", "--dashboard-address", f"{LOOPBACK}:0"]
    worker = [*dask, "worker", *where, "--nthreads", "1", "--no-dashboard"]
    with ExitStack() as running:
        running.enter_context(process(scheduler, folder / "scheduler.log", variables))
        for number in range(workers):
            running.enter_context(process(worker, folder / f"worker{number}.log", variables))
        for _ in waiting(START_SECONDS, f"Dask: see {folder}"):
            if file.exists() and (text := file.read_text()):
                break
        yield json.loads(text)["address"]


@contextmanager
def process(command: list[str], log: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is stopped at the end with all it has started, gently if it lets itself be."""
    with open(log, "wb") as file:
        running = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield running
    finally:
        family = psutil.Process(running.pid).children(recursive=True) if running.poll() is None else []
        running.terminate()
        try:
            running.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        for child in family:  # a task goes on when its scheduler is gone
            with suppress(psutil.NoSuchProcess):
                child.kill()


def waiting(seconds: float, what: str, pause: float = 0.5) -> Iterator[None]:
    """Look again and again, for a bounded time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
    raise TimeoutError(f"{what}: not within {seconds:g} s")


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])
