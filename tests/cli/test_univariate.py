"""daskfs select and daskfs run with --algorithm univariate: what they show, and which layouts they read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.feature_selection import chi2

import daskfs
from daskfs.cli import main

X = np.random.default_rng(0).poisson(1.0, (200, 30)).astype(np.float32)
Y = np.where(X[:, 4] + X[:, 9] > 2, "ill", "well")


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("layout", ["columns", "rows"])
def test_score_p_value_and_q_value_are_shown(layout):
    daskfs.write_dataset("d.zarr", X, Y, layout=layout)
    flags = ("--serial", "-a", "univariate", "-k", 2, "--score", "chi2")
    shown = run("select", "d.zarr", *flags, "--out", "run")
    assert all(word in shown for word in ("score", "p-value", "q-value"))
    record = json.loads(run("show", "run", "--json"))
    best = [feature["id"] for feature in record["features"]]
    assert sorted(best) == [4, 9]
    scores, p = (values[best] for values in chi2(X.astype(np.float64), Y))
    assert record["statistics"]["score"] == pytest.approx(scores.tolist(), rel=1e-9)
    assert record["statistics"]["p_value"] == pytest.approx(p.tolist(), rel=1e-6)
    line = next(line for line in run("show", "run").splitlines() if f"x{best[1]} " in line)
    assert line.split()[-3:] == [f"{record['statistics'][name][1]:.3g}" for name in ("p_value", "q_value", "score")]
    assert json.loads(run("evaluate", "run", "d.zarr", "--json"))["metrics"]["roc_auc"] > 0.9
    run("report", "run")
    page = Path("run/report.html").read_text()
    assert "univariate scores" in page
    assert "features with a q-value up to 0.05" in page


def test_a_job_transposes_sparse_rows_and_goes_through_every_step():
    daskfs.write_dataset("rows.zarr", sp.csr_array(X), Y)
    refused = run("select", "rows.zarr", "--serial", "-a", "univariate", "-k", 2, "--out", "r", code=2)
    assert "is laid out in rows, and Univariate reads columns; run daskfs transpose" in refused
    Path("job.toml").write_text("""
out = "job"
[data]
train = "rows.zarr"
[split]
test = 0.25
[select]
algorithm = "univariate"
k = 2
[stability]
seeds = 2
[cluster]
serial = true
""")
    done = json.loads(run("run", "job.toml", "--json"))
    assert done["metrics"]["balanced_accuracy"] > 0.8
    assert sorted(daskfs.load_selection("job").names) == ["x4", "x9"]
