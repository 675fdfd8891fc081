"""A new algorithm is its own folder, its test, its docs page and one line in the registry: everything else follows."""

from __future__ import annotations

import inspect
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from toy_fourth import Covariance

import daskfs
import daskfs.cli.select
import daskfs.sklearn
from daskfs.algorithms.registry import ALGORITHMS, registrations
from daskfs.cli import main
from daskfs.job.choice import choose_algorithm
from daskfs.job.timing import Work

X = np.random.default_rng(0).normal(size=(80, 12)).astype(np.float32)
Y = 3 * X[:, 4] - 2 * X[:, 9]
NAMES = [f"gene{column}" for column in range(12)]


@pytest.fixture(autouse=True)
def _one_line(monkeypatch, tmp_path):
    """Add the one line; the command is imported anew, as it would be by the next `daskfs select`."""
    monkeypatch.setitem(ALGORITHMS, "Covariance", "toy_fourth")
    monkeypatch.delitem(sys.modules, "daskfs.cli.select")
    monkeypatch.setattr(daskfs.cli, "select", daskfs.cli.select)  # put back afterwards
    monkeypatch.chdir(tmp_path)
    daskfs.write_dataset("d.zarr", X, Y, NAMES)
    yield
    for module in (daskfs, daskfs.sklearn):
        for name in ("Covariance", "CovarianceSelector"):
            vars(module).pop(name, None)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_python():
    assert daskfs.Covariance is Covariance
    assert daskfs.select("d.zarr", daskfs.Covariance(2)).names == ["gene4", "gene9"]


def test_the_commands_and_the_report():
    shown = " ".join(run("select", "--help").split())
    assert (
        "How much smaller weights are than covariances, as a share of these."
        in shown.split("Options of covariance:")[1]
    )
    out = run(
        "select", "d.zarr", "--serial", "--algorithm", "covariance", "-k", "2", "--shrinkage", "0.5", "--out", "r"
    )
    assert "gene4" in out
    record = json.loads(run("show", "r", "--json"))
    assert record["algorithm"] == {"name": "Covariance", "n_select": 2, "passes": 1, "shrinkage": 0.5}
    assert [feature["name"] for feature in record["features"]] == ["gene4", "gene9"]
    assert "Covariance(n_select=2, passes=1, shrinkage=0.5), seed 0" in run("show", "r")
    run("report", "r")
    page = Path("r/report.html").read_text()
    for words in ("Chosen by Largest Covariance", "the strongest covariance", "There were 1 passes of covariances."):
        assert words in page


def test_a_job_file():
    Path("job.toml").write_text("""
out = "job"
[data]
train = "d.zarr"
[split]
test = 0.25
[select]
algorithm = "covariance"
k = 2
shrinkage = 0.25
[cluster]
serial = true
""")
    done = json.loads(run("run", "job.toml", "--json"))
    assert done["metrics"]["r2"] > 0.5
    assert "Largest Covariance" in Path(done["report"]).read_text()


def test_a_wrong_key_of_a_job_is_refused_with_the_right_one():
    Path("job.toml").write_text(
        'out = "job"\n[data]\ntrain = "d.zarr"\n[select]\nalgorithm = "covariance"\nk = 2\nshrinkag = 0.5\n'
    )
    done = CliRunner().invoke(main, ["run", "job.toml"])
    assert done.exit_code == 2
    assert "did you mean 'shrinkage'?" in done.stderr


def test_the_choice_of_an_algorithm_and_the_time_in_a_plan():
    assert choose_algorithm("dense", 80, 12, 2, ["mission", "covariance"]) == ("covariance", "for its covariances")
    assert choose_algorithm("dense", 80, 12, 2, [*registrations()])[0] == "substitution"  # which stands above
    assert choose_algorithm("sparse", 80, 12, 2, ["covariance", "univariate"]) == (
        "covariance",
        "the first with these flags",
    )
    assert Work.of(Covariance(2), daskfs.open_dataset("d.zarr").meta, 1, 100, 1).nanoseconds == 1.5


def test_the_engine_asks_for_no_parameter_that_it_lacks():
    algorithm = Covariance(2)
    assert (algorithm.loss, algorithm.keep, algorithm.groups, algorithm.error_control) == (None, (), None, None)
    assert (algorithm.balanced, algorithm.fits_model, algorithm.needs_names) == (False, True, False)
    assert daskfs.Mission(2, interactions="all").needs_names
    assert daskfs.Mission(2, keep=["x1"]).needs_names
    assert not daskfs.Mission(2).needs_names


def test_an_estimator():
    selector = daskfs.sklearn.CovarianceSelector
    parameters = inspect.signature(selector).parameters.values()
    expected = {"n_select": None, "passes": 1, "shrinkage": 0.0, "missing": "error", "random_state": 0}
    assert {parameter.name: parameter.default for parameter in parameters} == expected
    assert [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY] == [*expected][3:]
    assert "How much smaller weights are" in inspect.getdoc(selector)
    model = make_pipeline(selector(2, shrinkage=0.5), LinearRegression()).fit(X, Y)
    assert model.score(X, Y) > 0.99
    assert pickle.loads(pickle.dumps(model))[0].get_support(indices=True).tolist() == [4, 9]
    assert repr(clone(model[0])) == "CovarianceSelector(n_select=2, shrinkage=0.5)"
