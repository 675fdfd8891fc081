"""[stability] of a job on dense columns: halves beside each other, and how many features are false at most."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import daskfs
from daskfs.cli import main
from daskfs.job.execute import execute, lines

JOB = """
out = "runs"

[data]
train = "d.zarr"

[select]
algorithm = "substitution"
k = 10
ridge = 0.1

[stability]
pairs = 10

[cluster]
serial = true
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 120)).astype(np.float32)
    daskfs.write_dataset("d.zarr", X, X[:, :4].sum(axis=1) + rng.normal(size=200), layout="columns", chunk_bytes=20_000)
    Path("job.toml").write_text(JOB)
    return tmp_path


def test_true_features_are_chosen_by_halves_and_counted(folder):
    notes: list[str] = []
    outcome = execute("job.toml", lines(notes.append))
    assert "stability: 20 halves in the passes of one selection" in notes
    run = Path(outcome.run.url)
    record = json.loads((run / "stability.json").read_text())
    assert {feature["id"] for feature in record["features"][:4]} == set(range(4))
    bounds = record["false_bounds"]
    assert [bound["times"] for bound in bounds] == list(range(11, 21))
    often = [feature["times"] for feature in record["features"]]
    assert [bound["features"] for bound in bounds] == [sum(at >= times for at in often) for times in range(11, 21)]
    [sentence] = [note for note in notes if "expected to be false" in note]
    assert sentence.startswith("stability: 4 features were chosen by ")
    page = (run / "report.html").read_text()
    assert f"By the bound of Shah and Samworth, {sentence.removeprefix('stability: ')}." in page
    assert not (run / "again").exists()


def test_a_job_reports_what_limits_and_groups_allow(folder):
    """Rows of a donor, which are alike, are permuted together, and `daskfs run` ends with the sentence."""
    rng = np.random.default_rng(1)
    donor = np.repeat(np.arange(60), 4)
    X = (rng.normal(size=(60, 100))[donor] + 0.1 * rng.normal(size=(240, 100))).astype(np.float32)
    X[:, 7] = donor
    y = 4 * X[:, 0] - 4 * X[:, 1] + rng.normal(size=60)[donor]
    daskfs.write_dataset("e.zarr", X, y, layout="columns")
    limits = 'error_control = "permuted"\nmax_fdr = 0.2\nmax_false = 2\ngroups = "x7"'
    Path("job.toml").write_text(
        JOB.replace("ridge = 0.1", limits).replace("[stability]\npairs = 10\n", "").replace("d.zarr", "e.zarr")
    )
    done = CliRunner().invoke(main, ["run", "job.toml"], catch_exceptions=False)
    control = daskfs.load_selection(done.stdout.splitlines()[0].partition(": ")[2]).error_control
    assert done.stdout.splitlines()[1] == f"error control: {control.sentence}"
    assert (control.n_searched, control.max_fdr, control.max_false) == (10, 0.2, 2)
    algorithm = daskfs.OnlineSubstitution(10, error_control="permuted", max_fdr=0.2, max_false=2, groups="x7")
    assert daskfs.select("e.zarr", algorithm).error_control == control
    apart = daskfs.select("e.zarr", replace(algorithm, groups=None)).error_control
    assert apart.n_reported > control.n_reported > 0


@pytest.mark.parametrize("select", ['"univariate"\nk = 10', '"substitution"\nk = 9\nkeep = ["x5"]'])
def test_where_the_bound_does_not_hold_there_is_none(folder, select):
    text = JOB.replace("pairs = 10", "pairs = 2").replace('"substitution"\nk = 10\nridge = 0.1', select)
    Path("job.toml").write_text(text)
    run = Path(execute("job.toml", lines(lambda note: None)).run.url)
    assert "false_bounds" not in json.loads((run / "stability.json").read_text())
    assert "Shah and Samworth" not in (run / "report.html").read_text()
