"""The README is a test: its Python runs, its commands exist, its files are there."""

from __future__ import annotations

import re

import pytest
from pages import ROOT, blocks, check_link, commands, completed_job, links, load_script, parse_command, run_examples

from daskfs.job.file import load_job

transcripts = load_script("pipelines/docs/transcripts")
README = (ROOT / "README.md").read_text()


def test_the_examples_run_and_the_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_examples(README, "README.md")
    assert "worst concave points" in capsys.readouterr().out
    (command,) = transcripts.commands_of(README)
    assert command.line.startswith("daskfs select ")
    assert transcripts.run(command, tmp_path) == []


def test_it_is_short_and_begins_with_what_a_stranger_needs():
    lines = README.splitlines()
    assert len(lines) <= 170
    screen = "\n".join(lines[:30])
    assert "](docs/front-door.svg)" in screen
    assert "pip install" in screen


@pytest.mark.parametrize("line", commands(README))
def test_every_command_and_flag_exists(line):
    parse_command(line)


@pytest.mark.parametrize("snippet", blocks(README, "toml"))
def test_every_job_file_loads(snippet, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(completed_job(snippet))
    assert load_job(job).select.params


@pytest.mark.parametrize("link", links(README))
def test_every_link_leads_somewhere(link):
    check_link(ROOT / "README.md", link)


@pytest.mark.parametrize("target", re.findall(r"^make ([\w-]+)", README, re.MULTILINE))
def test_every_make_target_exists(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
