"""The README is a test: its Python runs, its commands exist, its files are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskfs.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "gene" in printed
    assert "user^country=uk" in printed
    assert len([line for line in example.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("line", re.findall(r"^daskfs (\w+ .*)$", README, re.MULTILINE))
def test_every_command_and_flag_exists(line):
    command, *rest = line.split("#")[0].split()
    shown = CliRunner().invoke(main, [command, "--help"])
    assert shown.exit_code == 0
    for flag in (word for word in rest if word.startswith("-")):
        assert re.search(rf"{flag}\b", shown.output), flag


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_every_link_leads_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize("target", re.findall(r"^make (\w+)", README, re.MULTILINE))
def test_every_make_target_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
