"""How a small selection starts: in one process, without the packages that only clusters and labelled arrays need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskfs

HEAVY = {"bokeh", "dask", "distributed", "pandas", "sklearn", "xarray", "zarr"}
"""Packages that take from a tenth to half a second to import."""
FOR_LATER = {"jinja2", "pyarrow", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special"}
"""Packages that a selection may need, but not before its first row is read."""
CODE = """
import sys
from daskfs.cli import main
if len(sys.argv) > 1:
    main(sys.argv[1:], standalone_mode=False)
else:
    import daskfs.cli.select
print("imported:", *sys.modules)
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported_by(*arguments: str) -> set[str]:
    """Return the modules that a command of daskfs has imported in a process of its own."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert "dashboard" not in done.stderr  # so there was no cluster
    return set(done.stdout.splitlines()[-1].split()[1:])


def write_svmlight(path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 50, size=(200, 5))
    path.write_text("".join(f"{1 if 7 in row else -1} {' '.join(f'{i}:1' for i in np.unique(row))}\n" for row in rows))


def write_csv(path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(200, 6))
    table = np.column_stack([X, X[:, 2] > 0])
    np.savetxt(path, table, "%.4f", ",", header="a,b,c,d,e,f,y", comments="")


@pytest.mark.parametrize(
    ("write", "arguments", "needed"),
    [
        (write_svmlight, ("t.svm", "-k", "3", "-a", "mission"), set()),
        (write_csv, ("t.csv", "-k", "2", "--label", "y"), {"pandas"}),  # pyarrow imports it, whatever is asked of it
    ],
    ids=["mission", "substitution"],
)
def test_a_small_selection_does_without_heavy_packages(write, arguments, needed):
    write(Path(arguments[0]))
    assert imported_by("select", *arguments) & HEAVY <= needed


def test_a_small_dataset_is_selected_from_in_one_process():
    X = np.random.default_rng(0).normal(size=(50, 5))
    daskfs.write_dataset("d.zarr", X, X[:, 3])
    assert imported_by("select", "d.zarr", "-k", "1", "-a", "substitution", "--out", "run") & HEAVY == set()


def test_the_command_is_ready_before_what_it_needs_later_is_imported():
    assert imported_by() & (HEAVY | FOR_LATER) == set()
