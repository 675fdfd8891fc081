"""The plots and cards of the report: every mark is where its number says, and every number is that of the data."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from report_runs import CLASSES
from sklearn import metrics

import daskfs
from daskfs.observe.report import features, plots, write_report
from daskfs.protocol import ErrorControl
from daskfs.selection.profiles import feature_profiles
from daskfs.selection.records import PROFILES, write_record
from daskfs.store.places.location import Location


def marks(svg: str, kind: str) -> list[np.ndarray]:
    """The points of all paths of a class."""
    paths = [one for one in ElementTree.fromstring(svg).iter("path") if kind in one.get("class").split()]
    return [np.array(re.findall(r"([\d.-]+) ([\d.-]+)", one.get("d")), float) for one in paths]


def ticks_of(svg: str) -> tuple[np.ndarray, np.ndarray]:
    """Value and place of the ticks: those in a row below, and those in a column on the left."""
    texts = [one for one in ElementTree.fromstring(svg).iter("text") if re.fullmatch(r"[−\d.,]+", one.text)]
    found = [(float(one.text.replace("−", "-").replace(",", "")), one) for one in texts]
    across = [(value, float(one.get("x"))) for value, one in found if one.get("text-anchor") == "middle"]
    up = [(value, float(one.get("y")) - 4) for value, one in found if one.get("text-anchor") == "end"]
    return np.array(across), np.array(up)


def in_units(svg: str, points: np.ndarray) -> np.ndarray:
    """Places on a plot in the units of its axes, as one reads them from its ticks."""
    across, up = ticks_of(svg)
    lines = [np.polyfit(of[:, 1], of[:, 0], 1) for of in (across, up)]
    return np.stack([np.polyval(line, points[:, axis]) for axis, line in enumerate(lines)], axis=1)


def test_the_roc_curve_is_read_from_its_axes(runs):
    selection, dataset = daskfs.load_selection(runs / "two"), daskfs.open_dataset(runs / "two.zarr")
    X, y = dataset.to_xarray()["X"].values, dataset.to_xarray()["y"].values
    svg = plots.roc_curve(selection.evaluate(dataset).curves["roc"], 0.9)
    false, true, _ = metrics.roc_curve(y, selection.decision_function(X), drop_intermediate=False)
    [line] = marks(svg, "line")
    distances = np.abs(in_units(svg, line)[:, None] - np.stack([false, true], axis=1)).sum(axis=2)
    assert distances.min(axis=1).max() < 2e-3
    assert distances.min(axis=0).max() < 1 / 64


@pytest.mark.parametrize(
    ("sizes", "middle"), [([1, 2, 5], 0.25), ([1, 10, 1000], 1 / 3)], ids=["linear", "logarithmic"]
)
def test_sizes_are_where_their_ticks_are(sizes, middle):
    record = {"sizes": sizes, "scores": [0.5, 0.75, 0.8], "intervals": [[0.4, 0.6], [0.7, 0.8], [None, None]]}
    svg = plots.size_curve(record, "R²")
    [line], [band] = marks(svg, "line"), marks(svg, "band")
    assert (line[1, 0] - line[0, 0]) / (line[2, 0] - line[0, 0]) == pytest.approx(middle, abs=1e-3)
    ticks, _ = ticks_of(svg)
    known = [at for at, size in enumerate(sizes) if size in ticks[:, 0]]
    assert len(known) >= 2
    for at in known:
        assert line[at, 0] == pytest.approx(ticks[ticks[:, 0] == sizes[at], 1][0], abs=0.1)
    np.testing.assert_allclose(in_units(svg, line)[:, 1], record["scores"], atol=2e-3)
    np.testing.assert_allclose(in_units(svg, band)[:, 1], [0.6, 0.8, 0.7, 0.4], atol=2e-3)


def test_scatter_calibration_and_bars():
    svg = plots.scatter({"true": [-100.0, 0.0, 300.0], "predicted": [-50.0, 10.0, 350.0], "step": 1})
    dots = ElementTree.fromstring(svg).iter("circle")
    places = np.array([(one.get("cx"), one.get("cy")) for one in dots], float)
    np.testing.assert_allclose(in_units(svg, places), [[-100, -50], [0, 10], [300, 350]], atol=1)
    svg = plots.calibration_curve({"predicted": [0.1, 0.9], "share": [0.25, 0.8], "rows": [3.0, 4.0]})
    np.testing.assert_allclose(in_units(svg, marks(svg, "line")[0]), [[0.1, 0.25], [0.9, 0.8]], atol=2e-3)
    assert "predicted 0.100, true 0.250, 3 rows" in svg
    times = [{"times": 1}, {"times": 3}, {"times": 3}, {"times": 3}]
    svg = plots.stability_bars({"seeds": [0, 1, 2], "features": times})
    tops = [(float(one.get("x")), float(one.get("y"))) for one in ElementTree.fromstring(svg).iter("rect")]
    np.testing.assert_allclose(in_units(svg, np.array(tops))[:, 1], [1, 0, 3], atol=0.02)


def test_small_plots_have_the_shape_of_their_numbers():
    svg = plots.distributions([[0.5, 0.25, 0.25], [0.0, 0.1, 0.4]], "two classes")
    heights = [plots.SMALL_HEIGHT - points[1:-1, 1] for points in marks(svg, "outline")]
    np.testing.assert_allclose(heights[0], 160 * np.repeat([0.5, 0.25, 0.25], 2), atol=0.1)
    np.testing.assert_allclose(heights[1], 160 * np.repeat([0.0, 0.1, 0.4], 2), atol=0.1)
    svg = plots.small_lines([0, 1, 4], [[10, 20, 10]], (0, 40), "a line", dots=True)
    [points] = marks(svg, "line")
    np.testing.assert_allclose(points[:, 0], 4 + 232 * np.array([0, 0.25, 1]), atol=0.1)
    np.testing.assert_allclose(79 - points[:, 1], 74 * np.array([0.25, 0.5, 0.25]), atol=0.1)


def test_equal_values_and_a_single_pass_are_drawn():
    for svg in (
        plots.history_curve([1, 2], [5.0, 5.0], "objective"),
        plots.distributions([[1.0]], "constant"),
        plots.small_lines([1.0], [[2.0]], (2.0, 2.0), "one", dots=True),
    ):
        assert "nan" not in svg
        ElementTree.fromstring(svg)


def cards_in(page: str) -> dict[str, str]:
    """The text of every card by the name of its feature."""
    found = re.findall(r'<article class="card">\s*<h3>(.*?) <span(.*?)</article>', page, re.S)
    return {unescape(name): " ".join(unescape(re.sub("<[^>]*>", " ", f"<span{rest}")).split()) for name, rest in found}


def test_cards_of_dense_features(runs):
    selection = daskfs.load_selection(runs / "two")
    said = cards_in(Path(write_report(runs / "two")).read_text())
    X = daskfs.open_dataset(runs / "two.zarr").to_xarray()["X"].values
    assert list(said) == selection.names
    for name, feature, share in zip(said, selection.features.tolist(), selection.importance.tolist(), strict=True):
        low, high = np.quantile(X[:, feature].astype(float), [0.01, 0.99])
        ends = f"{low:.3f} {high:.3f}".replace("-", "−")
        assert said[name] == f"{100 * share:.1f} % Values by class {ends}"


def test_cards_of_inputs(runs):
    page = Path(write_report(runs / "waves")).read_text()
    first = daskfs.load_selection(runs / "waves").input_importance[0]
    said = cards_in(page)
    dataset = daskfs.open_dataset(runs / "waves.zarr").to_xarray()
    values, y = dataset["X"].values[:, int(first.input.item()[1:])].astype(float), dataset["y"].values
    edges = np.quantile(values, np.linspace(0, 1, 13))
    means = [y[(values >= low) & (values < high)].mean() for low, high in pairwise(edges[:-1])]
    means.append(y[values >= edges[-2]].mean())
    shown = f"Mean target, {min(means):.3f} to {max(means):.3f}".replace("-", "−")
    assert next(iter(said)) == first.input.item()
    assert shown in said[first.input.item()]
    assert said[first.input.item()].startswith(f"{100 * first.item():.1f} % Predicted target,")
    assert "same scale" in page


def test_what_cards_say_of_sparse_features():
    record = {
        "rows": 50,
        "classes": [{"class": "a", "rows": 20}, {"class": -1.0, "rows": 30}],
        "shown": [0, 1],
        "features": [
            {"id": 1, "name": "x", "importance": 0.75, "present": [5, 30], "values": [2.0, None]},
            {"id": 2, "name": "y", "importance": 0.25, "present": [0, 15], "values": [None, 0.5], "alternatives": [
                {"id": 7, "name": "z", "correlation": -0.625}]},
        ],
    }  # fmt: skip
    first, second = features.cards(record, "target")
    assert first.shares == [("a", 0.25, 0.25, "2.000"), ("−1", 1.0, 1.0, "–")]
    assert second.shares == [("a", 0.0, 0.0, "–"), ("−1", 0.5, 0.5, "0.500")]
    assert second.lines == ["Correlated: z (−0.62)."]
    assert features.balance(record, 1) == [("−1", 30, 0.6)]
    number = {"rows": 50, "classes": None, "features": [{"id": 1, "name": "x", "importance": 1, "present": [5]}]}
    number["features"][0] |= {"with": 2.5, "without": -1.0}
    [card] = features.cards(number, "target")
    assert card.shares == [("all rows", 0.1, 1.0, "")]
    assert card.lines == ["Mean target: 2.500 with it, −1.000 without."]


def test_confusion_and_class_balance_on_the_page(runs, chromium):
    selection, dataset = daskfs.load_selection(runs / "news"), daskfs.open_dataset(runs / "news.zarr")
    stored = dataset.to_xarray()
    y = np.array(CLASSES)[dataset.meta.class_codes(np.concatenate(list(dataset.targets())))]
    expected = metrics.confusion_matrix(y, selection.predict(stored["X"].values), labels=selection.classes)
    with chromium.page(Path(write_report(runs / "news"))) as page:
        cells = page.evaluate(
            "[...document.querySelectorAll('.confusion tbody tr')].map((row) => "
            "[...row.querySelectorAll('td')].map((cell) => Number(cell.textContent)))"
        )
        balance = page.evaluate(
            "[...document.querySelectorAll('[aria-labelledby=h-balance] tbody tr')]"
            ".map((row) => row.innerText.split('\\t'))"
        )
    np.testing.assert_array_equal(cells, expected)
    labels, counts = np.unique(y, return_counts=True)
    wanted = sorted(zip(counts.tolist(), labels.tolist(), strict=True), key=lambda pair: -pair[0])
    assert [(line[0].strip(), line[-1].strip()) for line in balance] == [
        (label, f"{count} · {100 * count / 300:.1f} %") for count, label in wanted
    ]


def test_of_many_features_the_first_twelve_are_open(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 80)).astype(np.float32)
    daskfs.write_dataset(tmp_path / "d.zarr", X, X.sum(axis=1))
    selection = daskfs.select(tmp_path / "d.zarr", daskfs.OnlineSubstitution(60))
    selection.save(tmp_path / "run")
    record = feature_profiles(selection, daskfs.open_dataset(tmp_path / "d.zarr"))
    write_record(Location(tmp_path / "run"), PROFILES, record)
    page = Path(write_report(tmp_path / "run")).read_text()
    before, after = page.split("<summary>38 more</summary>")
    assert (before.count('class="card"'), after.count('class="card"')) == (12, 38)


def test_expected_false_features_and_the_cut_are_where_their_numbers_say():
    control = ErrorControl(5, 2, 0.1, None, 0.1, (0.1, 0.2, 1.3, 2.5, 6.0), (0.1, 0.1, 0.43, 0.63, 1.0))
    svg = plots.expected_false(control)
    [line] = marks(svg, "line")
    np.testing.assert_allclose(in_units(svg, line), np.c_[1:6, control.expected_false], atol=0.05)
    [cut] = marks(svg, "reference")
    np.testing.assert_allclose(in_units(svg, cut)[:, 0], 2.5, atol=0.05)
    assert "first 3: at most about 1.3 false, q-value 0.43" in svg
    assert "2 are reported" in svg
