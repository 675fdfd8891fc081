"""daskfs show: a selection for people, for machines, and with names that mean harm."""

from __future__ import annotations

import json
import re

import numpy as np
from click.testing import CliRunner, Result
from selections import HISTORY, selection_of

from daskfs.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_score_is_the_last_one_on_held_back_rows(tmp_path):
    history = [{"objective": 2.0, "held_back": 0.5}, {"objective": np.nan, "held_back": 0.75}]
    selection_of([3], history=history).save(tmp_path)
    record = json.loads(run("show", tmp_path, "--json").stdout)
    assert record["score"] == 0.75
    assert record["history"]["objective"] == [2.0, None]


def test_a_line_for_every_step(tmp_path):
    selection_of([3], history=[*HISTORY, {"objective": 1.0, "seconds": 61.04}]).save(tmp_path)
    lines = run("show", tmp_path).stdout.splitlines()[-3:]
    assert lines == [
        "step 1: objective 3.5, 7 changes, 0.2 s",
        "step 2: objective 1.25, 0 changes, 0.1 s",
        "step 3: objective 1, 61.0 s",
    ]


def test_show_so_many(tmp_path):
    selection_of(range(30)).save(tmp_path)
    shown = run("show", tmp_path).stdout
    assert "x19" in shown
    assert "x20 " not in shown
    assert "… and 10 more" in shown
    assert "x2 " not in run("show", tmp_path, "--top", 2).stdout
    assert "more" not in run("show", tmp_path, "--top", 30).stdout


def test_weights_say_what_they_speak_for(tmp_path):
    selection_of([1, 2], [0.5, -1.5], classes=("ham", "spam")).save(tmp_path / "two")
    assert "weight (above 0: spam)" in run("show", tmp_path / "two").stdout
    weights = [[0.1, -2.0, 0.3], [0.0, 0.1, 0.25]]
    selection_of([1, 2], weights, intercept=[0, 0, 0], classes=(1.0, 2.5, 3.0)).save(tmp_path / "three")
    shown = run("show", tmp_path / "three").stdout
    assert re.search(r"1 +x1 +88\.\d+% +-2  2\.5\s", shown)
    assert re.search(r"2 +x2 +11\.\d+% +\+0\.25  3\s", shown)


HOSTILE = ["\x1b[2J\x1b]0;title\x07", "[red]x[/red]", "a\nb\rc", "=1+1", "\u202eevil", "n" * 10**6, "</script>"]


def test_f26_hostile_names_are_shown_and_not_obeyed(tmp_path):
    ids = range(len(HOSTILE))
    selection = selection_of(ids, names=HOSTILE, classes=("\x1b[31m", "[bold]" + "y" * 10**6), url="\x1b[2J[red]")
    selection.save(tmp_path)
    done = run("show", tmp_path)
    assert done.exit_code == 0, done.output
    assert len(done.stdout) < 5000
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert "[red]x[/red]" in done.stdout
    machine = run("show", tmp_path, "--json").stdout
    assert [feature["name"] for feature in json.loads(machine)["features"]] == HOSTILE
    assert all(line.isprintable() for line in machine.split("\n"))
