"""What scripts take from daskfs is there: some of them need minutes, or Airflow, and run in no test."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for folder in ("pipelines", "datasets") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_name_is_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "daskfs":
            module = import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or import_module(f"{node.module}.{name.name}"), name.name
