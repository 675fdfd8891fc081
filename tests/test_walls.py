"""The walls between folders hold: an import that goes the wrong way breaks a contract of import-linter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

VIOLATIONS = {
    "the engine imports an algorithm": (
        "engine/run.py",
        "from daskfs.algorithms.mission import Mission",
        "daskfs.engine.run -> daskfs.algorithms.mission",
    ),
    "the store imports a loss": (
        "store/places/location.py",
        "from daskfs.algorithms.losses import Loss",
        "daskfs.store is not allowed to import daskfs.algorithms",
    ),
    "one algorithm imports another": (
        "algorithms/mission/__init__.py",
        "from daskfs.algorithms.substitution import OnlineSubstitution",
        "daskfs.algorithms.mission is not allowed to import daskfs.algorithms.substitution",
    ),
    "an algorithm imports metrics": (
        "algorithms/random_features/__init__.py",
        "from daskfs.selection import metrics",
        "daskfs.algorithms is not allowed to import daskfs.selection",
    ),
    "a new module at the root imports everything": (
        "everything.py",
        "import daskfs.cli, daskfs.engine.run, daskfs.algorithms.registry",
        "- daskfs.everything (Since this contract is marked as 'exhaustive'",
    ),
    "the basis imports distributed": (
        "basis/__init__.py",
        "import distributed",
        "daskfs.basis -> distributed",
    ),
    "the estimators import zarr": (
        "sklearn/__init__.py",
        "import zarr",
        "daskfs.sklearn -> zarr",
    ),
    "an algorithm imports xarray": (
        "algorithms/univariate/moments.py",
        "import xarray",
        "daskfs.algorithms.univariate.moments -> xarray",
    ),
    "the basis imports pandas": (
        "basis/__init__.py",
        "import xarray, pandas",
        "daskfs.basis -> pandas",
    ),
    "an algorithm imports the public names": (
        "algorithms/univariate/moments.py",
        "import daskfs",
        "daskfs.algorithms.univariate.moments -> daskfs",
    ),
    "the protocol imports more than numpy": (
        "protocol.py",
        "import scipy.sparse",
        "daskfs.protocol -> scipy",
    ),
}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package that may be damaged."""
    shutil.copytree(ROOT / "daskfs", tmp_path / "daskfs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "pipelines" / "house").mkdir(parents=True)
    shutil.copy(ROOT / "pipelines" / "house" / "walls.py", tmp_path / "pipelines" / "house")
    return tmp_path


def checked(house: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    environment = {**os.environ, "PYTHONPATH": str(house), "COLUMNS": "400"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=house, env=environment, capture_output=True, text=True, timeout=120
    )


def plant(house: Path, file: str, line: str) -> None:
    with open(house / "daskfs" / file, "a", encoding="utf-8") as module:
        module.write(f"\n{line}  # planted\n")


def assert_breaks(house: Path, complaint: str) -> None:
    done = checked(house)
    assert done.returncode == 1, done.stdout + done.stderr
    assert complaint in " ".join(done.stdout.split()), done.stdout


@pytest.mark.parametrize("name", VIOLATIONS)
def test_an_import_that_goes_the_wrong_way_breaks_a_contract(house, name):
    file, line, complaint = VIOLATIONS[name]
    plant(house, file, line)
    assert_breaks(house, complaint)


def test_a_new_folder_that_can_import_the_store_is_closed_to_algorithms(house):
    (house / "daskfs" / "warehouse").mkdir()
    plant(house, "warehouse/__init__.py", "from daskfs.store.places import location")
    plant(house, "algorithms/mission/__init__.py", "from daskfs import warehouse")
    project = house / "pyproject.toml"
    listed = project.read_text().replace('    "algorithms | store"', '    "warehouse",\n    "algorithms | store"')
    assert '"warehouse"' in listed
    project.write_text(listed)
    assert_breaks(house, "daskfs.algorithms is not allowed to import daskfs.warehouse")


def test_the_package_as_it_is_breaks_none(house):
    done = checked(house)
    assert done.returncode == 0, done.stdout + done.stderr
