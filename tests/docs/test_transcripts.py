"""pipelines/docs/transcripts.py: how it compares what a page shows with what commands print."""

from __future__ import annotations

import pytest
from pages import load_script

transcripts = load_script("pipelines/docs/transcripts")

PAGE = """
```console
$ echo one two  # a remark
one  two
$ printf 'a\\nb 0.501\\nc\\n'
…
b 0.500
```
"""


def test_commands_and_what_is_shown():
    assert transcripts.commands_of(PAGE) == [
        ("echo one two", ["one  two"]),
        ("printf 'a\\nb 0.501\\nc\\n'", ["…", "b 0.500"]),
    ]


def test_a_page_that_tells_the_truth(tmp_path):
    for command in transcripts.commands_of(PAGE):
        assert transcripts.run(command, tmp_path) == []


@pytest.mark.parametrize(
    ("shown", "printed", "alike"),
    [
        ("rank  1 0.50", "rank 1   0.505", True),
        ("rank  1 0.50", "rank 1   0.53", False),
        ("GENE0020 12.50%", "GENE0021 12.50%", False),
        ("in runs/…/report.html", "in runs/0a1b/report.html", True),
        ("+0.5", "-0.5", False),
        ("what is (not) there", "what is (not) here", False),
    ],
)
def test_lines_alike(shown, printed, alike):
    assert transcripts.is_alike(shown, printed) == alike


def test_lines_are_expected_in_their_order():
    assert list(transcripts.missing(["b", "a"], ["a", "b"])) == ["a"]


def test_a_command_that_fails_is_said(tmp_path):
    first, *_ = transcripts.run(transcripts.Command("exit 3", []), tmp_path)
    assert first == "exit code 3: exit 3"
