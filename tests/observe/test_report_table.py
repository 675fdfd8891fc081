"""The report's table of features in a real browser: sorted, searched, a page at a time, and as CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from report_runs import CLASSES
from selections import selection_of

import daskfs
from daskfs.observe.report import write_report
from daskfs.protocol import NO_PARENT
from daskfs.selection.products import Products

DOWNLOAD = "document.getElementById('download').click()"
RANKS = "[...document.querySelectorAll('#features tbody .rank')].map((cell) => Number(cell.textContent))"
NAMES = "[...document.querySelectorAll('#features tbody .name')].map((cell) => cell.textContent)"
SORTED = "[...document.querySelectorAll('#features th[aria-sort]')].map((cell) => cell.getAttribute('aria-sort'))"


def click_header(title: str) -> str:
    return f"[...document.querySelectorAll('#features th button')].find((one) => one.textContent === '{title}').click()"


def search(words: str) -> str:
    return f"search.value = {json.dumps(words)}; search.dispatchEvent(new Event('input'))"


def table(raw: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(raw.decode(), newline="")))


def test_sort_search_and_pages(tmp_path, chromium):
    rng = np.random.default_rng(1)
    weights, names = rng.normal(size=60), [f"gene{number}" for number in rng.permutation(60)]
    selection_of(rng.permutation(1000)[:60].tolist(), weights, names=names).save(tmp_path / "run")
    with chromium.page(Path(write_report(tmp_path / "run"))) as page:
        assert page.evaluate(RANKS) == list(range(1, 26))
        assert page.evaluate(SORTED) == ["ascending", "none", "none", "none", "none"]
        page.evaluate(click_header("Weight"))
        assert page.evaluate(RANKS) == (1 + np.argsort(-weights)[:25]).tolist()
        assert page.evaluate(SORTED) == ["none", "none", "none", "none", "descending"]
        page.evaluate(click_header("Weight"))
        assert page.evaluate(RANKS) == (1 + np.argsort(weights)[:25]).tolist()
        page.evaluate(click_header("Feature"))
        assert page.evaluate(NAMES) == [f"gene{number}" for number in range(25)]  # as people count, not as text
        page.evaluate("document.getElementById('next').click()")
        page.evaluate("document.getElementById('next').click()")
        assert page.evaluate(NAMES) == [f"gene{number}" for number in range(50, 60)]
        assert page.evaluate("shown.textContent") == "51–60 of 60"
        assert page.evaluate("document.getElementById('next').disabled")
        page.evaluate(search("GENE5"))
        assert page.evaluate(NAMES) == ["gene5", *(f"gene{number}" for number in range(50, 60))]
        page.evaluate(search("nothing like that"))
        assert page.evaluate(NAMES) == []
        assert "No feature" in page.evaluate("shown.textContent")
        assert page.complaints == []


def test_the_csv_is_the_selection(runs, chromium):
    selection = daskfs.load_selection(runs / "two")
    with chromium.page(Path(write_report(runs / "two"))) as page:
        page.evaluate(click_header("Feature") + ";" + search("gene3"))  # what is shown does not matter
        lines = table(page.download(DOWNLOAD, "selected-features.csv"))
    assert [int(line["rank"]) for line in lines] == list(range(1, 6))
    assert [line["name"] for line in lines] == selection.names
    assert [int(line["id"]) for line in lines] == selection.features.tolist()
    assert [float(line["weight"]) for line in lines] == selection.weights.tolist()  # to the last bit
    assert [int(line["times chosen"]) for line in lines] == [3, 3, 3, 3, 2]


def test_weights_of_every_class_in_table_and_csv(runs, chromium):
    selection = daskfs.load_selection(runs / "news")
    with chromium.page(Path(write_report(runs / "news"))) as page:
        labels = page.evaluate("[...document.querySelectorAll('#features td.class')].map((cell) => cell.textContent)")
        page.evaluate(
            "const of = document.getElementById('class'); of.value = '2'; of.dispatchEvent(new Event('change'))"
        )
        shown = page.evaluate("[...document.querySelectorAll('#features td.weight')].map((cell) => cell.textContent)")
        lines = table(page.download(DOWNLOAD, "selected-features.csv"))
    assert labels == [CLASSES[at] for at in np.abs(selection.weights).argmax(axis=1)]
    found = [float(text.replace("−", "-")) for text in shown]
    np.testing.assert_allclose(found, selection.weights[:, 2], rtol=1e-3)
    columns = [[float(line[f"weight of {label}"]) for label in CLASSES] for line in lines]
    assert columns == selection.weights.tolist()


def test_weights_of_every_target_in_table_and_csv(tmp_path, chromium, monkeypatch):
    weights = np.array([[1.0, -2e6, 0.5], [-3.0, 1e6, 0.25]])
    made = selection_of([7, 4], weights, intercept=[0.0, 1.0, 2.0], targets=("mass", "=height", "age"))
    made.save(tmp_path / "run")
    options = "[...document.querySelectorAll('#class option')].map((option) => option.textContent)"
    weighed = "[...document.querySelectorAll('#features td.weight')].map((cell) => cell.textContent)"
    with chromium.page(Path(write_report(tmp_path / "run"))) as page:
        assert page.evaluate(options) == ["mass", "=height", "age"]
        assert page.evaluate(weighed) == ["+1.000", "−3.000"]  # of the first target: units of others differ
        page.evaluate(
            "const of = document.getElementById('class'); of.value = '2'; of.dispatchEvent(new Event('change'))"
        )
        assert page.evaluate(weighed) == ["+0.5000", "+0.2500"]
        lines = table(page.download(DOWNLOAD, "selected-features.csv"))
        said = page.evaluate("document.body.innerText")
        assert page.complaints == []
    assert [[float(line[f"weight of {name}"]) for name in made.targets] for line in lines] == weights.tolist()
    assert "2 of 12 features, selected to predict 3 numbers (mass, =height, age)" in said
    assert "Every target has weights of its own, in its own units." in said
    monkeypatch.setattr("daskfs.observe.report.MOST_WEIGHTS", 4)
    with chromium.page(Path(write_report(tmp_path / "run"))) as page:
        assert page.evaluate(options) == ["mass", "=height"]
        assert page.evaluate(weighed) == ["+1.000", "−3.000"]
        said = page.evaluate("document.body.innerText")
    assert "here are those of the first 2 targets, selection.json has all." in said


def test_pairs_name_their_parents(tmp_path, chromium):
    none, pair = [NO_PARENT, NO_PARENT], [2**63 - 1, 4]
    made = Products(np.array([pair, none, [4, 1]], np.uint64), [("left", "right"), ("", ""), ("right", "one")])
    names = ["left × right", "plain", "right × one"]
    replace(selection_of([8, 1, 9], names=names), products=made).save(tmp_path / "run")
    with chromium.page(Path(write_report(tmp_path / "run"))) as page:
        lines = table(page.download(DOWNLOAD, "selected-features.csv"))
        said = page.evaluate("document.body.innerText")
        assert page.complaints == []
    parents = [(line["parent 1"], line["parent 2"]) for line in lines]
    assert parents == [("9223372036854775807", "4"), ("", ""), ("4", "1")]
    assert "2 of the 3 features are products of two others." in said
    assert "right\t2\nleft\t1\none\t1" in said


def test_a_hundred_thousand_features(tmp_path, chromium):
    rng = np.random.default_rng(2)
    count, weights = 100_000, rng.normal(size=100_000)
    ids = rng.permutation(2**63 - 1 - np.arange(count, dtype=np.uint64))
    selection_of(ids.tolist(), weights, names=[f"namespace^feature{i}" for i in range(count)]).save(tmp_path / "run")
    out = Path(write_report(tmp_path / "run"))
    assert out.stat().st_size < 7e6
    with chromium.page(out) as page:
        page.evaluate(click_header("Id"))
        smallest = np.argsort(ids)[:25]
        assert page.evaluate(RANKS) == (1 + smallest).tolist()  # ids beyond 2^53 are told apart
        page.evaluate(search("feature99999"))
        assert page.evaluate(RANKS) == [100_000]
        lines = table(page.download(DOWNLOAD, "selected-features.csv"))
    assert [float(line["weight"]) for line in lines] == weights.tolist()
    assert [int(line["id"]) for line in lines] == ids.tolist()
