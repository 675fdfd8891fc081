"""The README is a test: its Python runs, its commands exist, its files are there."""

from __future__ import annotations

import re

import pytest
from pages import ROOT, blocks, check_link, commands, completed_job, links, parse_command, run_examples

from daskfs.job.file import load_job

README = (ROOT / "README.md").read_text()


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_examples(README, "README.md")
    printed = capsys.readouterr().out
    assert "gene3" in printed
    assert "gene8" in printed
    assert "user^country=uk" in printed
    assert len([line for line in blocks(README, "python")[0].splitlines() if line.strip()]) <= 10


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
