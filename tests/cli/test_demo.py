"""daskfs demo: what it finds is true, what it prints works, and it replaces nothing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import daskfs
from daskfs.cli import main
from daskfs.observe.terminal import program


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> tuple[Path, str]:
    """The demo, run as make does: by the path of a program that is not on the search path; where, and what it said."""
    folder = tmp_path_factory.mktemp("demo")
    script = folder / "bin" / "daskfs"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom daskfs.cli import main\nmain()\n")
    script.chmod(0o755)
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        ["bin/daskfs", "demo"], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_it_finds_what_is_known(shown):
    folder, text = shown
    found = {name: daskfs.load_selection(folder / "demo" / name) for name in ("tumours", "words", "friedman")}
    assert [name for name in found["tumours"].names if "shuffled" in name] == []
    assert {"w:sklearn", "w:from scipy"} <= set(found["words"].names)
    assert set(found["friedman"].input_importance.input.values[:5]) == {"x1", "x2", "x3", "x4", "x5"}
    assert text.count("known:  ") == 3


def test_scores_stand_beside_a_guess_and_scikit_learn(shown):
    rows = re.findall(
        r"^ (\w+) +(\S+) +[\d,of ]+ (?:AUC|R²) ([\d.]+) \(([\d.]+)–([\d.]+)\) +([\d.]+) +([\d.]+) *$", shown[1], re.M
    )
    assert [row[:2] for row in rows] == [
        ("tumours", "substitution"),
        ("words", "mission"),
        ("friedman", "random-features"),
    ]
    for *_, score, low, high, guess, every in (map(str, row) for row in rows):
        assert float(low) - 0.01 <= float(score) <= float(high) + 0.01
        assert float(score) > float(guess) + 0.4
        assert float(every) > float(guess) + 0.4
        assert float(score) > float(every) - 0.04  # nearly as good as all features, or better


@pytest.mark.slow
def test_every_command_that_it_prints_works_as_printed(shown):
    folder, text = shown
    commands = re.findall(r"^(?:\$|again:| ) +(bin/daskfs .*)$", text, re.MULTILINE)
    assert len(commands) == 9
    for command in dict.fromkeys(commands):
        done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
    assert len(daskfs.load_selection(folder / "demo" / "tumours").features) == 5  # the last of them
    for report in re.findall(r"^   (\S+/report.html)$", text, re.MULTILINE):
        assert "<html" in (folder / report).read_text()


def test_it_replaces_nothing_that_is_not_its_own(tmp_path):
    (tmp_path / "tumours.csv").write_text("mine")
    done = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert (done.exit_code, "is there already, and is not the demo's" in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["tumours.csv"]


def test_the_program_is_named_as_a_shell_finds_it(tmp_path, monkeypatch):
    script = tmp_path / "my bin" / "daskfs"
    script.parent.mkdir()
    script.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "")
    assert program() == f"'{script}'"
    monkeypatch.setenv("PATH", str(script.parent))
    assert program() == "daskfs"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert program() == "daskfs"
