"""The installed wheel, without the source tree: `make test-wheel` runs this in an environment of its own."""

from __future__ import annotations

import email
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

PYTHON = Path(sys.executable)
CHECKOUT = Path(__file__).parents[2]

SELECTION = """
import json, numpy as np, daskfs, daskfs.sklearn

X = np.random.default_rng(0).normal(size=(400, 50)).astype("float32")
daskfs.write_dataset("d.zarr", X, X[:, 3] - X[:, 8], feature_names=[f"gene{i}" for i in range(50)])
selection = daskfs.select("d.zarr", daskfs.OnlineSubstitution(2))
estimator = daskfs.sklearn.OnlineSubstitutionSelector(2).fit(X, X[:, 3] - X[:, 8])
columns = np.flatnonzero(estimator.get_support()).tolist()
print(json.dumps([daskfs.__file__, daskfs.__version__, sorted(selection.names), columns]))
"""


def run(folder: Path, *command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


def test_a_small_selection(folder):
    file, version, names, columns = json.loads(run(folder, PYTHON, "-I", "-c", SELECTION))
    assert CHECKOUT not in Path(file).parents or ".venv-wheel" in Path(file).parts
    assert "site-packages" in Path(file).parts
    assert version == distribution("daskfs").version
    assert (names, columns) == (["gene3", "gene8"], [3, 8])


def test_the_command(folder):
    daskfs = PYTHON.with_name("daskfs")
    assert distribution("daskfs").version in run(folder, daskfs, "--version")
    rows = (f"{1 if i % 7 > 3 else -1} |shop {'shoes' if i % 7 > 3 else 'boots'} day{i % 5}\n" for i in range(300))
    (folder / "rows.vw").write_text("".join(rows))
    run(folder, daskfs, "ingest", "rows.vw", "rows.zarr", "--format", "vw")
    run(folder, daskfs, "select", "rows.zarr", "-a", "mission", "-k", "2", "--serial", "--out", "run")
    features = json.loads(run(folder, daskfs, "show", "run", "--json"))["features"]
    assert {feature["name"] for feature in features} == {"shop^shoes", "shop^boots"}
    run(folder, daskfs, "report", "run")
    assert (folder / "run" / "report.html").stat().st_size > 10_000
    run(folder, daskfs, "airflow", "export", "dags")
    assert (folder / "dags" / "daskfs_job.py").exists()


def test_what_the_wheel_says_of_itself():
    wheel = distribution("daskfs")
    names = {str(path) for path in wheel.files or ()}
    assert {"daskfs/py.typed", "daskfs/dags/daskfs_job.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "pipelines/", "datasets/"))]
    about = email.message_from_string(wheel.read_text("METADATA") or "")
    assert about["License-Expression"] == "BSD-3-Clause"
    readme = str(about.get_payload())
    assert "](docs/" not in readme  # pictures and links that only a checkout could show
    assert "https://raw.githubusercontent.com/daskfs/daskfs/main/docs/report.png" in readme
