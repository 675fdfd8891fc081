"""One rule for a k beyond the number of features: all features, and a remark, in every algorithm and way in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import daskfs
from daskfs.cli import main
from daskfs.job.execute import execute
from daskfs.sklearn import MissionSelector, OnlineSubstitutionSelector

X = np.random.default_rng(0).normal(size=(80, 5))
Y = (X[:, 1] - X[:, 3] > 0).astype(int)
NAMES = [f"gene{i}" for i in range(5)]
REMARK = "5 features of the 9 asked for: the data have no more"
ALGORITHMS = {
    "substitution": daskfs.OnlineSubstitution(9),
    "substitution-paper": daskfs.OnlineSubstitution(9, method="paper"),
    "substitution-async": daskfs.OnlineSubstitution(9, method="async"),
    "mission": daskfs.Mission(9),
    "univariate": daskfs.Univariate(9),
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_of_a_dataset(algorithm):
    daskfs.write_dataset("d.zarr", X, Y, NAMES, layout="both")
    with pytest.warns(UserWarning, match=REMARK):
        selection = daskfs.select("d.zarr", algorithm)
    assert sorted(selection.names) == NAMES
    assert selection.algorithm["n_select"] == 9  # as asked for, so that the same request finds its run


def test_a_huge_k_takes_no_memory():
    daskfs.write_dataset("d.zarr", X, Y, NAMES, layout="both")
    for algorithm in (daskfs.Mission(10**12), daskfs.OnlineSubstitution(10**12), daskfs.Univariate(10**12)):
        with pytest.warns(UserWarning, match="5 features of the 1,000,000,000,000 asked for"):
            daskfs.select("d.zarr", algorithm)


def test_pairs_of_features_are_more_than_the_features():
    daskfs.write_dataset("d.zarr", X, Y, NAMES, layout="rows")
    assert len(daskfs.select("d.zarr", daskfs.Mission(9, interactions="all")).features) == 9


def test_of_a_table_in_memory():
    with pytest.warns(UserWarning, match=REMARK):
        assert sorted(daskfs.select(pd.DataFrame(X, columns=NAMES), 9, y=Y).names) == NAMES


@pytest.mark.parametrize("estimator", [OnlineSubstitutionSelector, MissionSelector])
def test_of_estimators(estimator: Any):
    with pytest.warns(UserWarning, match=REMARK):
        fitted = estimator(n_select=9).fit(X, Y)
    assert fitted.get_support().all()
    assert estimator(n_select=5).fit(X, Y).get_support().all()  # without a warning, which would be an error here


@pytest.mark.parametrize("algorithm", ["substitution", "mission", "univariate"])
def test_of_the_command_line_and_of_job_files(algorithm):
    pd.DataFrame(X, columns=NAMES).assign(y=Y).to_csv("t.csv", index=False)
    done = CliRunner().invoke(main, ["select", "t.csv", "-k", "9", "--label", "y", "--algorithm", algorithm])
    assert done.exit_code == 0, done.output
    assert REMARK in done.stderr
    assert sorted(daskfs.load_selection("t-selected").names) == NAMES
    assert CliRunner().invoke(main, ["plan", "t.csv", "-k", "9", "--label", "y", "-a", algorithm]).exit_code == 0
    Path("job.toml").write_text(
        'out = "job"\n[ingest]\nsources = ["t.csv"]\nformat = "csv"\nlabel = "y"\n[cluster]\nserial = true\n'
        f'[select]\nalgorithm = "{algorithm}"\nk = 9\n'
    )
    with pytest.warns(UserWarning, match=REMARK):
        execute("job.toml")
    assert sorted(daskfs.load_selection("job").names) == NAMES
