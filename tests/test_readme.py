"""The README is a test: its Python runs, its commands exist, its files are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskfs.cli import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}  # what one defines, the next may use
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "gene3" in printed
    assert "gene8" in printed
    assert "user^country=uk" in printed
    assert len([line for line in examples[0].splitlines() if line.strip()]) <= 10


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
