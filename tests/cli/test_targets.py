"""Several targets from a table to a report: every command, and a job."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xarray
from click.testing import CliRunner

import daskfs
from daskfs.cli import main
from daskfs.job.execute import execute

RNG = np.random.default_rng(4)
COLUMNS = [f"gene{number}" for number in range(12)]


def run(*arguments, code=0):
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A CSV file with three targets, of which two columns know most."""
    monkeypatch.chdir(tmp_path)
    X = RNG.normal(size=(300, 12))
    Y = (
        X[:, [3, 8]] @ [[1.0, 200.0, 0.0], [0.0, 100.0, 3e-4]]
        + [0, 5e4, 0]
        + RNG.normal(size=(300, 3)) * [0.1, 9, 1e-4]
    )
    frame = pd.DataFrame(X, columns=COLUMNS).assign(mass=Y[:, 0], height=Y[:, 1], age=Y[:, 2])
    frame.to_csv("table.csv", index=False)
    return frame


@pytest.mark.parametrize(
    "label", [["--label", "mass,height,age"], ["--label", "mass", "--label", "height", "--label", "age"]]
)
def test_from_a_table_to_a_report(table, label):
    assert "300 samples x 12 features, targets mass, height, age" in run(
        "ingest", "table.csv", "d.zarr", "-f", "csv", *label
    )
    assert "3 real targets: mass, -" in run("info", "d.zarr")
    facts = json.loads(run("info", "d.zarr", "--json"))["labels"]
    assert facts["kind"] == "targets"
    assert facts["targets"]["height"]["mean"] == pytest.approx(table.height.mean())
    assert "all as they were written" in run("verify", "d.zarr")
    run("split", "d.zarr", "train.zarr", "test.zarr", "--test", "0.3")
    shown = run("select", "train.zarr", "-a", "substitution", "-k", "2", "--out", "run", "--serial")
    assert "weight of mass  weight of height  weight of age" in shown
    assert "weight of age" in run("show", "run", "--top", "1")
    record = json.loads(run("show", "run", "--json"))
    assert record["targets"] == ["mass", "height", "age"]
    assert sorted(feature["name"] for feature in record["features"]) == ["gene3", "gene8"]
    evaluated = run("evaluate", "run", "test.zarr", "--sizes", "train.zarr", "--keep")
    for words in (
        "R² (mean over targets)",
        "always the mean of each target",
        "95 % interval of R²",
        "height",
        "as selected, 2",
    ):
        assert words in evaluated
    metrics = json.loads(run("evaluate", "run", "test.zarr", "--json"))
    assert [line["target"] for line in metrics["per_target"]] == ["mass", "height", "age"]
    assert metrics["metrics"]["r2"] == pytest.approx(daskfs.load_selection("run").score("test.zarr"))
    run("predict", "run", "test.zarr", "--out", "p.zarr")
    assert xarray.open_zarr("p.zarr").prediction.shape == (90, 3)
    run("report", "run")


def test_one_clear_line_for_what_cannot_be(table):
    table.assign(town="Rome").to_csv("table.csv", index=False)
    assert run("ingest", "table.csv", "d.zarr", "-f", "csv", "--label", "mass,town", code=2).endswith(
        "error: --label mass, town: several labels must be numbers, and town holds categorical values\n"
    )
    run("ingest", "table.csv", "d.zarr", "-f", "csv", "--label", "mass,age", "--ignore", "town", "--layout", "both")
    for algorithm, name in (("mission", "Mission"), ("random-features", "SparseRandomFeatures")):
        refused = run("select", "d.zarr", "-a", algorithm, "-k", "2", "--out", "run", "--serial", code=2)
        assert f"error: {name} takes one target, d.zarr has 2 (mass, age): use --algorithm substitution" in refused


@pytest.mark.parametrize("label", ['"mass,height,age"', '["mass", "height", "age"]'])
def test_a_job(table, label, tmp_path):
    (tmp_path / "job.toml").write_text(
        f"""
        out = "job"
        [ingest]
        sources = ["table.csv"]
        format = "csv"
        label = {label}
        [split]
        test = 0.3
        [select]
        algorithm = "substitution"
        k = 2
        [evaluate]
        [stability]
        pairs = 1
        [publish]
        at_least = {{ r2 = 0.8 }}
        [cluster]
        serial = true
        """
    )
    outcome = execute(tmp_path / "job.toml")
    selection = daskfs.load_selection(tmp_path / "job")
    assert selection.targets == ("mass", "height", "age")
    assert sorted(selection.names) == ["gene3", "gene8"]
    assert outcome.record()["metrics"]["r2"] > 0.8
    page = (outcome.run.path / "report.html").read_text()
    assert "2 of 12 features predict 3 numbers (mass, height, age)" in page
    assert "Target by target" in page
    assert "R², mean over targets" in page
