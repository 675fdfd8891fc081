"""The files around the package agree with each other and with what reviewers of repositories expect."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import daskfs

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_said_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", daskfs.__version__)
    places = [path for path in (ROOT / "daskfs").rglob("*.py") if f'"{daskfs.__version__}"' in path.read_text()]
    assert places == [ROOT / "daskfs" / "__init__.py"]
    assert f"## {daskfs.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_pre_commit_uses_the_ruff_that_is_pinned():
    (pinned,) = re.findall(r"^ruff==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.search(rf"ruff-pre-commit\s+rev: v{re.escape(pinned)}\n", hooks)


def test_workflows_run_every_python_that_is_named():
    named = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)}
    (matrix,) = re.findall(r"python: \[([^\]]*)\]", (ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert set(re.findall(r"[\d.]+", matrix)) == named
    assert min(named, key=lambda version: int(version.partition(".")[2])) == "3.11"


def test_constraints_name_only_versions():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==\S+", line) for line in lines)
