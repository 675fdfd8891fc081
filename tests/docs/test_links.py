"""pipelines/docs/links.py: what it finds in built pages."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pages import ROOT

SCRIPT = ROOT / "pipelines" / "docs" / "links.py"
GOOD = """
<link rel="canonical" href="https://example.org/"><link rel="stylesheet" href="style.css"><h1 id="top">Top</h1>
<a href="#top">up</a><a href="sub/">below</a><a href="sub/index.html#place">a place</a><a href="https://example.org">away</a>
"""


def looked_at(site, more=""):
    (site / "sub").mkdir()
    (site / "style.css").write_text("")
    (site / "index.html").write_text(GOOD + more)
    (site / "sub" / "index.html").write_text('<h2 id="place"></h2><a href="../index.html#top">back</a>')
    return subprocess.run([sys.executable, SCRIPT, site], capture_output=True, text=True)


def test_pages_without_a_fault(tmp_path):
    done = looked_at(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ('<a href="gone.html">', "index.html: gone.html: no such file"),
        ('<a href="sub/index.html#gone">', "index.html: sub/index.html#gone: no such place in it"),
        ('<a href="#gone">', "index.html: #gone: no such place in it"),
        ('<a href="../elsewhere.html">', "index.html: ../elsewhere.html: leads out of the site"),
        ('<img src="gone.png">', "index.html: gone.png: no such file"),
        (
            '<script src="https://cdn.example.org/x.js">',
            "index.html: loads https://cdn.example.org/x.js, from elsewhere",
        ),
    ],
)
def test_a_fault_is_named(tmp_path, fault, says):
    done = looked_at(tmp_path, fault)
    assert done.returncode == 1
    assert says in done.stderr.splitlines()


def test_a_folder_without_pages(tmp_path):
    assert subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True).returncode == 1
