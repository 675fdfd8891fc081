"""Error control in the report: the sentence, and q-values in the table and the CSV."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

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
