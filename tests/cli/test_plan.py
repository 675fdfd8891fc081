"""daskfs plan: what a selection would choose and take, beside what it takes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import daskfs
from daskfs.algorithms.registry import registration
from daskfs.cli import main
from daskfs.job.timing import START_SECONDS


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, code: int = 0):
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == code, done.output
    return done


def planned(*arguments: str) -> dict:
    return json.loads(run("plan", *arguments, "--json").stdout)


def table(n: int = 30_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 12)).round(4), columns=[f"x{i}" for i in range(12)])
    return frame.assign(y=np.where(frame.x3 > 0, "yes", "no"))


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "sorted"])
def test_estimates_are_near_the_truth(form):
    frame = table().sort_values("y") if form == "sorted" else table()
    name = f"t.{form}" if form != "sorted" else "t.csv"
    if form == "parquet":
        frame.to_parquet(name, row_group_size=2000)
    elif form == "csv.gz":
        Path(name).write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    else:
        frame.to_csv(name, index=False)
    plan = planned(name, "-k", "3", "--label", "y")
    assert plan["is_estimate"]
    assert plan["rows"] == pytest.approx(30_000, rel=0.35 if form == "csv.gz" else 0.05)
    assert plan["features"] == 12
    assert [path.name for path in Path().iterdir()] == [name]  # nothing was written
    run("select", name, "-k", "3", "--label", "y")
    record = json.loads(next(Path("t-selected/runs").rglob("run.json")).read_text())
    files = [path for path in Path("t-selected/data").rglob("*.zarr/**/*") if path.is_file()]
    written = sum(path.stat().st_size for path in files)
    assert plan["bytes_written"] == pytest.approx(written, rel=0.4 if form == "csv.gz" else 0.1)
    assert record["bytes_read"] == pytest.approx(3 * 0.8 * plan["bytes_written"] / 2, rel=0.5)
    assert record["memory"]["promised"] == pytest.approx(plan["memory"], rel=0.2)


def test_a_dataset_is_known_exactly():
    X = np.random.default_rng(0).normal(size=(1000, 50)).astype(np.float32)
    daskfs.write_dataset("d.zarr", X, X[:, 0])
    plan = planned("d.zarr", "-k", "5", "--test", "0")
    stored = 1000 * 50 * 4 + 1000 * 8
    assert (plan["rows"], plan["features"], plan["is_estimate"]) == (1000, 50, False)
    assert (plan["passes"], plan["tasks"], plan["puts"], plan["bytes_written"]) == (3, 3, 0, 0)
    assert plan["bytes_read"] == pytest.approx(3 * stored, rel=0.01)


def test_time_and_money_have_their_formulas():
    X = np.random.default_rng(0).normal(size=(1000, 50)).astype(np.float32)
    daskfs.write_dataset("d.zarr", X, X[:, 0])
    options = ("d.zarr", "-k", "5", "--cluster", "4,0.5", "--prices", "0.4,5,0.09")
    plan = planned(*options)
    train = round(0.8 * (1000 * 50 * 4 + 1000 * 8))
    beside = plan["bytes_read"] + plan["bytes_written"] - 3 * train
    computing = 3 * 40_000 * registration("OnlineSubstitution").nanoseconds / 1e9
    assert plan["seconds"] == pytest.approx(START_SECONDS + 3 * train / 0.5e9 + beside / (4 * 0.5e9))  # in one block
    assert computing < 3 * train / 0.5e9
    money = plan["gets"] * 0.4 / 1000 + plan["puts"] * 5 / 1000 + plan["bytes_read"] / 1e9 * 0.09
    assert plan["money"] == pytest.approx(money)
    shown = run("plan", *options).stdout
    assert "3.00 s to start + 3 passes x (the longer of" in shown
    assert "with 4 workers x 0.5 GB/s; extrapolated" in shown
    assert f"{plan['gets']} reads x 0.4 / 1000 + {plan['puts']} writes x 5 / 1000" in shown


def test_the_same_choices_are_said():
    table(500).to_csv("t.csv", index=False)
    said = run("plan", "t.csv", "-k", "3", "--label", "y").stderr
    then = run("select", "t.csv", "-k", "3", "--label", "y").stderr
    for start in ("format: ", "algorithm: ", "loss: "):
        line = next(line for line in said.splitlines() if line.startswith(start))
        assert line in then.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cluster", "4"), "--cluster 4: must be 2 numbers, such as 16,0.5"),
        (("--cluster", "4,x"), "--cluster 4,x: must be 2 numbers"),
        (("--prices", "1,2"), "--prices 1,2: must be 3 numbers"),
        (("--label", "z"), "--label z: no such column"),
    ],
)
def test_mistakes(arguments, message):
    table(100).to_csv("t.csv", index=False)
    label = () if "--label" in arguments else ("--label", "y")
    assert message in run("plan", "t.csv", "-k", "3", *label, *arguments, code=2).stderr.splitlines()[-1]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fasta_that_is_labelled_by_file_names(suffix):
    rng = np.random.default_rng(0)
    for name in ("one.a", "two.b"):
        records = "".join(f">r{i}\n{''.join(rng.choice(list('ACGT'), 80))}\n" for i in range(60))
        raw = records.encode()
        Path(f"{name}.fasta{suffix}").write_bytes(gzip.compress(raw) if suffix else raw)
    done = run("plan", f"one.a.fasta{suffix}", f"two.b.fasta{suffix}", "-k", "3")
    assert "two classes" in done.stdout + done.stderr
    assert planned(f"one.a.fasta{suffix}", f"two.b.fasta{suffix}", "-k", "3")["rows"] == 120
