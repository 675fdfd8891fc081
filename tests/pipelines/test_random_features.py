"""The tables and the benchmark of Sparse Random Features, run for real on small look-alikes of the public files."""

from __future__ import annotations

import bz2
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import daskfs

pytestmark = pytest.mark.slow

PIPELINES = Path(__file__).parents[2] / "pipelines"
SPARSE = {
    "sparse, defaults",
    "sparse, on validation",
    "the same, screen=False",
    "the same, n_select",
    'the same, penalty="auto"',
}
SMALL = ("--json", "--rounds", "2", "--dense", "60", "--exact-rows", "150", "--n-select", "9", "--work")


@pytest.fixture
def run(monkeypatch):
    """What a command prints as JSON; scripts of benchmarks and papers share a name, so they are loaded by path."""

    def run(folder, *arguments):
        monkeypatch.syspath_prepend(str(PIPELINES / folder))
        path = PIPELINES / folder / "random_features.py"
        spec = importlib.util.spec_from_file_location(f"{folder}_random_features", path)
        script = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, script)
        spec.loader.exec_module(script)
        result = CliRunner().invoke(script.main, [*map(str, arguments)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform(size=(300, 22)).round(4)


@pytest.fixture
def computer(tmp_path, rows):
    """A target that is a wave of one column."""
    table = np.column_stack([rows[:, :3], 50 + 40 * np.sin(6 * rows[:, 0])])
    names = [f"@attribute {name} real" for name in ("a", "b", "c", "usr")]
    body = [",".join(map(str, row)) for row in table]
    (tmp_path / "compactiv.dat").write_text("\n".join([*names, "@data", *body]) + "\n")
    return tmp_path


@pytest.fixture
def engine(tmp_path, rows):
    """Two classes, below and above the middle of a column."""
    lines = [
        f"{1 if row[2] > 0.5 else -1} " + " ".join(f"{j}:{value}" for j, value in enumerate(row, 1)) for row in rows
    ]
    for name, part in (("ijcnn1.trn.bz2", lines[:200]), ("ijcnn1.tst.bz2", lines[200:])):
        (tmp_path / name).write_bytes(bz2.compress(("\n".join(part) + "\n").encode()))
    return tmp_path


def by_method(records, kernel):
    return {record["method"]: record for record in records if record["kernel"] == kernel}


def test_computer_activity(run, computer, tmp_path):
    options = ("--seed", "0", "--gamma", "1", "--gamma", "4", "--penalty", "0.01", *SMALL, tmp_path / "work")
    records = run("papers", "compactiv", "--from", computer, *options)["records"]
    for kernel in ("gaussian", "laplacian", "perceptron"):
        found = by_method(records, kernel)
        assert found.keys() == SPARSE | {"all kept, ridge", "exact kernel"}
        assert found["the same, n_select"]["features"] == 9
        assert found["exact kernel"]["RMSE"] < 0.1
        assert found["sparse, on validation"]["gamma"] in (1, 4)
    assert by_method(records, "gaussian")["sparse, on validation"]["RMSE"] < 0.03
    assert by_method(records, "any")["linear ridge"]["RMSE"] > 0.1


def test_ignitions(run, engine, tmp_path):
    options = ("--kernel", "gaussian", "--gamma", "0.2", "--penalty", "0.1", *SMALL, tmp_path / "work")
    records = run("papers", "ijcnn1", "--from", engine, *options)["records"]
    found = by_method(records, "gaussian")
    assert found.keys() == SPARSE | {"all kept, ridge", "exact kernel"}
    assert all(0.5 < record["accuracy"] <= 1 for record in found.values())


def test_only_what_is_asked_for(run, computer, tmp_path):
    options = (
        "--json",
        "--only",
        "linear ridge",
        "--seed",
        "0",
        "--kernel",
        "gaussian",
        "--gamma",
        "1",
        "--penalty",
        "1",
    )
    records = run("papers", "compactiv", "--from", computer, *options, "--work", tmp_path / "work")["records"]
    assert [record["method"] for record in records] == ["linear ridge"]


@pytest.mark.parametrize(
    ("command", "contender"), [("expansion", "RBFSampler"), ("gram", "update"), ("passes", "gram")]
)
def test_kernels_beside_others(run, command, contender):
    figures = run("benchmarks", command, "--json", "--rows", "2048", "--features", "16", "--rounds", "1")
    assert figures["contenders"][contender]["ratio"] > 0


def test_screening_reaches_the_objective_of_the_paper(run, computer, tmp_path):
    small = ("--json", "--literal-rounds", "2", "--per-round", "20", "--rounds", "1", "--work", tmp_path / "work")
    figures = run("benchmarks", "screening", "--from", computer, *small)
    assert figures["screened"]["objective"] <= figures["literal"]["objective"]


def test_fits_beside_scikit_learn(run, rows, tmp_path):
    """Each as its process has it, without the process."""
    paths = tmp_path / "train.zarr", tmp_path / "test.zarr"
    for path, part in zip(paths, (rows[:200], rows[200:]), strict=True):
        daskfs.write_dataset(path, part, np.sign(part[:, 2] - 0.5), layout="rows")
    settings = {"penalty": 1.0, "rounds": 1, "components": 50, "C": 10.0, "tolerance": 1e-2, "most_steps": 50}
    for contender in ("daskfs", "scikit-learn"):
        figures = run("benchmarks", "one-fit", contender, *paths, json.dumps(settings))
        assert figures["accuracy"] > 0.6
        assert 0 < figures["features"] <= 500
        assert figures["cpu"] > 0
