"""Error control in the report: the sentence, and q-values in the table and the CSV."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import daskfs
from daskfs.observe.report import write_report
from daskfs.selection.selection import Selection


@pytest.fixture(scope="module")
def selection() -> Selection:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200))
    y = X[:, :4].sum(axis=1) + 3 * rng.normal(size=300)
    return daskfs.select(X, 20, y, error_control="permuted", max_fdr=0.2)


def test_sentence_table_and_csv(tmp_path, selection, chromium):
    selection.save(tmp_path / "run")
    report = Path(write_report(tmp_path / "run"))
    assert unescape(report.read_text()).count(selection.error_control.sentence) == 1
    with chromium.page(report) as page:
        cells = "[...document.querySelectorAll('#features tbody tr')].map((row) => row.lastChild.textContent)"
        shown = [float(text) for text in page.evaluate(cells)]
        np.testing.assert_allclose(shown, selection.statistics["t_value"], rtol=5e-3)
        raw = page.download("document.getElementById('download').click()", "selected-features.csv")
        assert page.complaints == []
    lines = list(csv.DictReader(io.StringIO(raw.decode(), newline="")))
    for name, numbers in selection.statistics.items():
        assert [float(line[name.replace("_", "-")]) for line in lines] == numbers.tolist()  # to the last bit


def test_a_report_says_by_what_features_stand_out(tmp_path, selection):
    """By their t-values, or how many halves chose them, which is not the order of MISSION's features."""
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((2_000, 300)) < 0.1).astype(np.float32))
    sparse = daskfs.select(X, daskfs.Mission(20, width=2**8, error_control="halves"), X[:, :5].sum(axis=1) > 0)
    pages = {}
    for name, of in (("columns", selection), ("rows", sparse)):
        of.save(tmp_path / name)
        pages[name] = Path(write_report(tmp_path / name)).read_text()
    by_t, by_halves = "features whose t-value is as large or larger", "features that as many halves of the rows chose"
    assert by_t in pages["columns"]
    assert "ran with 10 permuted targets" in pages["columns"]
    assert by_halves not in pages["columns"]
    assert by_halves in pages["rows"]
    assert "Halves of the rows also chose features for a permuted target" in pages["rows"]
    assert by_t not in pages["rows"]
    assert not any("all above it" in page for page in pages.values())


def test_nothing_to_report(tmp_path, chromium):
    rng = np.random.default_rng(4)
    selection = daskfs.select(
        rng.normal(size=(200, 100)), 10, rng.normal(size=200), error_control="permuted", max_fdr=0.1
    )
    selection.save(tmp_path / "run")
    report = Path(write_report(tmp_path / "run"))
    assert re.search(r"none of 10 features at a false discovery rate of 0\.1", report.read_text())
    with chromium.page(report) as page:
        assert page.evaluate("shown.textContent") == "No feature"
        assert page.complaints == []
