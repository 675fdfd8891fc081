"""Scheduler, workers, object store and client on hosts of their own: whole, cut apart, healed, and kept out.

`make test-hosts` runs this; it takes some minutes, root and the ip command.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dask_processes import said
from hosts.certificates import REASONS, configured, made
from hosts.conftest import Hosts

pytestmark = pytest.mark.timeout(600)

WRITE = """
import numpy as np, scipy.sparse as sp, daskfs
rng = np.random.default_rng(0)
X = rng.standard_normal((2000, 3000), dtype=np.float32)
daskfs.write_dataset("s3://bucket/wide.zarr", X, X[:, :6] @ [6.0, -5, 4, -3, 2, 2], chunk_bytes=400_000)
S = sp.random_array((20_000, 5000), density=0.01, rng=rng, format="csr", dtype=np.float32)
y = S[:, [10, 20, 30]] @ np.array([3.0, -3, 3]) > 0.01
daskfs.write_dataset("s3://bucket/rows.zarr", S, y)
Z = rng.random((40_000, 8), dtype=np.float32)
daskfs.write_dataset("s3://bucket/waves.zarr", Z, np.sin(6 * Z[:, 1]) * Z[:, 4], layout="rows", chunk_bytes=100_000)
"""
JOBS = {
    "substitution": ("s3://bucket/wide.zarr", "-k", "6", "--passes", "12", "--ridge", "0.1"),
    "mission": ("s3://bucket/rows.zarr", "-k", "30", "--passes", "60", "--width", "4096", "--learning-rate", "1.0"),
    "random-features": ("s3://bucket/waves.zarr", "--penalty", "2.0", "--rounds", "12", "--per-round", "60"),
}
CLI = "from daskfs.cli import main; main()"
TELLING = """
import sys
from contextlib import nullcontext
from daskfs.cli import main, select
from daskfs.engine import checkpoint
from daskfs.engine.asynchronous import driver

checkpoint.EVERY_SECONDS, driver.TOGETHER = float(sys.argv.pop(1)), 0.0
tell = lambda now: print(f"at {now.number}:{now.blocks_done}", file=sys.stderr, flush=True)
select.pass_progress = lambda: nullcontext(tell)
main()
"""
"""The same, with every step of a pass in the log, and checkpoints as often as is asked for."""


@pytest.fixture(autouse=True)
def _staffed(hosts: Hosts) -> None:
    hosts.staff()


@pytest.fixture(scope="module")
def data(hosts: Hosts) -> None:
    """The datasets, in the object store."""
    hosts.python(WRITE)


def command(hosts: Hosts, algorithm: str, out: str, *flags: str, scheduler: str | None = None) -> list[str]:
    where = [] if "--serial" in flags else ["--scheduler", scheduler or hosts.scheduler]
    data, *fields = JOBS[algorithm]
    return [sys.executable, "-c", CLI, "select", data, "-a", algorithm, "--out", out, *fields, *flags, *where]


def selected(hosts: Hosts, algorithm: str, name: str, *flags: str) -> dict[str, Any]:
    """What a run selects, made on the hosts unless it is serial."""
    out = f"s3://bucket/runs/{algorithm}-{name}"
    code, _, errors = hosts.ran(*command(hosts, algorithm, out, *flags))
    assert code == 0, errors
    return shown(hosts, out)


def shown(hosts: Hosts, out: str) -> dict[str, Any]:
    code, text, errors = hosts.ran(sys.executable, "-c", CLI, "show", out, "--json")
    assert code == 0, errors
    record: dict[str, Any] = json.loads(text)
    return {key: record[key] for key in ("features", "intercept", "algorithm", "seed")}


@pytest.fixture(scope="module")
def undisturbed(hosts: Hosts, data: None) -> Callable[[str], dict[str, Any]]:
    """What an algorithm selects on the hosts when they are left alone, workers waiting for each other; run once."""
    return cache(lambda algorithm: selected(hosts, algorithm, "whole", "--synchronous"))


@pytest.mark.parametrize("algorithm", JOBS)
def test_hosts_select_what_one_process_does(hosts, undisturbed, algorithm):
    alone = selected(hosts, algorithm, "serial", "--serial")
    given = undisturbed(algorithm)
    assert {each["id"] for each in given["features"]} == {each["id"] for each in alone["features"]}
    weights = [{each["id"]: each["weight"] for each in one["features"]} for one in (given, alone)]
    assert weights[0] == pytest.approx(weights[1], rel=1e-3, abs=1e-3)


def test_workers_that_do_not_wait_for_each_other(hosts, data):
    given = selected(hosts, "substitution", "asynchronous")
    assert {each["id"] for each in given["features"]} == set(range(6))


def telling(line: list[str], every: float) -> list[str]:
    """The same command, with steps in the log and a checkpoint every so many seconds."""
    python, option, _, *arguments = line
    return [python, option, TELLING, str(every), *arguments]


def steps(log: Path) -> list[tuple[int, int]]:
    """The passes, and blocks of each, that a run has told of."""
    return [
        (int(number), int(block)) for number, block in re.findall(r"^at (\d+):(\d+)$", log.read_text(), re.MULTILINE)
    ]


def cut_in_a_pass(
    hosts: Hosts, algorithm: str, out: str, host: str, seconds: float, *flags: str, after: int = 1, every: float = 30.0
) -> tuple[int, Path, tuple[int, int]]:
    """A run that has told of so many steps when a host is cut off for a time: exit code, log, and where it was then."""
    log = hosts.folder / f"{out.rpartition('/')[2]}.log"
    with hosts.begun(telling(command(hosts, algorithm, out, *flags), every), log) as process:
        said(log, rf"(at \d+:[1-9]\d*\s+){{{after}}}")
        with hosts.network.cut(host):
            assert process.poll() is None, "the run was over before anything could be cut"
            where = steps(log)[-1]
            time.sleep(seconds)
        process.communicate(timeout=240)
    return process.returncode, log, where


def survived(hosts: Hosts, algorithm: str, out: str, host: str, seconds: float, *flags: str) -> None:
    """A run in the middle of which a host is cut off for a time, and which ends well all the same."""
    code, log, where = cut_in_a_pass(hosts, algorithm, out, host, seconds, *flags)
    assert code == 0, log.read_text()
    assert steps(log)[-1] > where


CUTS = [
    ("worker1", 10, "substitution"),
    ("worker1", 10, "mission"),
    ("worker2", 10, "random-features"),
    ("client", 10, "substitution"),
    ("store", 10, "mission"),
    ("scheduler", 10, "random-features"),
    ("worker2", 45, "substitution"),  # longer than Dask believes in a connection
]


@pytest.mark.parametrize(("host", "seconds", "algorithm"), CUTS)
def test_a_host_that_is_cut_off_and_comes_back(hosts, undisturbed, host, seconds, algorithm):
    """The run ends, and its result is the one of a run that was left alone."""
    out, expected = f"s3://bucket/runs/{algorithm}-{host}-{seconds}", undisturbed(algorithm)
    survived(hosts, algorithm, out, host, seconds, "--synchronous")
    assert shown(hosts, out) == expected


@pytest.mark.parametrize(("sender", "receiver"), [("scheduler", "client"), ("client", "scheduler")])
def test_f34_packets_that_are_dropped_one_way(hosts, undisturbed, sender, receiver):
    """For longer than the patience, which is short here: the run ends, and the same command goes on."""
    out, log = f"s3://bucket/runs/one-way-{sender}", hosts.folder / f"one-way-{sender}.log"
    line = telling(command(hosts, "mission", out, "--synchronous"), 0.0)
    with hosts.begun(line, log, {"DASK_DASKFS__PATIENCE": "10"}) as process:
        said(log, r"(at \d+:[1-9]\d*\s+){3}", 300)
        with hosts.network.dropped(sender, receiver):
            process.communicate(timeout=240)
    assert process.returncode == 75
    assert log.read_text().splitlines()[-1].startswith("interrupted: ")
    hosts.staff()
    code, _, errors = hosts.ran(*line)
    assert code == 0, errors
    assert shown(hosts, out) == undisturbed("mission")


def gone_on(hosts: Hosts, algorithm: str, out: str, host: str, *flags: str) -> dict[str, Any]:
    """What is selected by a run whose host was cut off for long: exit code 75, then the same command.

    What was done before the last checkpoint is not done again.
    """
    code, log, where = cut_in_a_pass(hosts, algorithm, out, host, 45, *flags, after=5, every=0.0)
    assert code == 75, log.read_text()
    assert log.read_text().splitlines()[-1].startswith("interrupted: ")
    fourth = steps(log)[3]
    hosts.staff()
    code, _, errors = hosts.ran(*telling(command(hosts, algorithm, out, *flags), every=30.0))
    assert code == 0, errors
    log.write_text(errors)
    assert steps(log)[0] >= fourth
    assert steps(log)[-1] > where
    return shown(hosts, out)


@pytest.mark.parametrize("host", ["client", "scheduler"])
def test_who_is_cut_off_for_long_goes_on_by_the_same_command(hosts, undisturbed, host):
    assert gone_on(hosts, "mission", f"s3://bucket/runs/mission-{host}-45", host, "--synchronous") == undisturbed(
        "mission"
    )


@pytest.mark.parametrize("host", ["client", "scheduler"])
def test_an_asynchronous_run_goes_on_by_the_same_command(hosts, data, host):
    given = gone_on(hosts, "substitution", f"s3://bucket/runs/asynchronous-{host}-45", host)
    assert {each["id"] for each in given["features"]} == set(range(6))


@pytest.mark.parametrize("host", ["worker1", "worker2"])
def test_an_asynchronous_run_goes_on_without_its_centre(hosts, data, host):
    """On one of the two the centre is."""
    out = f"s3://bucket/runs/asynchronous-{host}"
    survived(hosts, "substitution", out, host, 10)
    assert {each["id"] for each in shown(hosts, out)["features"]} == set(range(6))


@pytest.mark.parametrize("wrong", REASONS)
def test_who_has_the_wrong_certificates_is_told_so_in_a_line(hosts, data, tmp_path, wrong):
    foreign, ours = made(tmp_path / "theirs"), hosts.folder / "ours"
    configuration = {
        "none": {"DASK_CONFIG": str(tmp_path / "nothing")},
        "foreign": configured(tmp_path / "a", foreign, foreign),
        "foreign certificate": configured(tmp_path / "b", ours, foreign),
        "tcp": {},
        "tcp, none": {"DASK_CONFIG": str(tmp_path / "nothing")},
        "no file": configured(tmp_path / "c", tmp_path, ours),
    }[wrong]
    address = hosts.scheduler.replace("tls://", "tcp://") if wrong.startswith("tcp") else hosts.scheduler
    line = command(hosts, "substitution", "s3://bucket/runs/never", scheduler=address)
    code, out, errors = hosts.ran(*line, environment=configuration)
    assert code == 2, errors
    assert out == ""
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert REASONS[wrong] in errors
    assert hosts.python("import s3fs; print(s3fs.S3FileSystem().exists('bucket/runs/never'))") == "False\n"
