"""The report's plots: small Bokeh figures whose colours are placeholders that the page replaces.

The plots contain no text from datasets or records, since Bokeh may take text for a formula and load a renderer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray
from bokeh.embed import json_item
from bokeh.models import BasicTicker, ColumnDataSource, DataRange1d, FixedTicker, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure
from numpy.typing import NDArray

from daskfs.observe.tables import TITLES
from daskfs.selection.records import Record

INK, FAINT, ACCENT, PAPER = "#000001", "#000002", "#000003", "#000004"
"""Placeholders for the colours of the light or dark page."""
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
HEIGHT, LOW_HEIGHT = 300, 210
MOST_TICKS = 8
MOST_SEEDS = 1000

PlotJson = dict[str, Any]
"""A figure as `bokeh.embed.json_item` returns it."""


def plots(
    sizes: Record | None, stability: Record | None, history: xarray.Dataset, curves: Mapping[str, str]
) -> dict[str, PlotJson]:
    """Return the plots of the page by their names, with `curves` for the columns of the history that have a title."""
    result = {}
    if sizes is not None and len(sizes["sizes"]) > 1:
        result["sizes"] = size_curve(sizes, TITLES.get(sizes["metric"], "score"))
    for name, title in curves.items():
        known = np.isfinite(history[name].values)
        steps, values = history["step"].values[known], history[name].values[known]
        drawn = bars(steps, values, "pass", title, None) if name == "changes" else curve(steps, values, title)
        result[f"history-{name}"] = drawn
    if stability is not None:
        seeds = len(stability["seeds"])
        often = Counter(feature["times"] for feature in stability["features"])
        at = np.arange(1, seeds + 1)
        heights = np.array([often[times] for times in at.tolist()])
        if heights.any() and 1 < seeds <= MOST_SEEDS:
            what = "inputs" if stability.get("of") == "inputs" else "features"
            result["stability"] = bars(at, heights, "times chosen", what, what)
    return {name: _item(plot) for name, plot in result.items()}


def size_curve(record: Record, metric: str) -> figure:
    """Return a plot of scores by number of features, with the 95 % intervals as a band."""
    sizes, scores = np.array(record["sizes"], float), np.array(record["scores"], float)  # NaN for None
    low, high = np.array(record["intervals"], float).T
    scale = "log" if sizes.max() > 10 * sizes.min() else "linear"
    plot = _plot("number of features", metric, HEIGHT, x_axis_type=scale)
    data = ColumnDataSource({"x": sizes, "y": scores, "low": low, "high": high})
    plot.varea("x", "low", "high", source=data, fill_color=ACCENT, fill_alpha=0.18)
    plot.line("x", "y", source=data, line_color=ACCENT, line_width=2)
    dots = plot.scatter("x", "y", source=data, size=7, fill_color=PAPER, line_color=ACCENT, line_width=2)
    tips = [("features", "@x{0,0}"), (metric, "@y{0.0000}"), ("95 %", "@low{0.000} – @high{0.000}")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    plot.xaxis.ticker = _whole(sizes) if sizes.max() <= 2 * MOST_TICKS else _few(sizes)
    if (own := record.get("as_selected")) and own["score"] is not None:
        plot.scatter([own["size"]], [own["score"]], size=10, marker="diamond", color=ACCENT)
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return plot


def curve(steps: NDArray[Any], values: NDArray[np.float64], title: str) -> figure:
    """Return a line plot of a number by pass."""
    plot = _plot("pass", None, LOW_HEIGHT)
    data = ColumnDataSource({"x": steps, "y": values})
    plot.line("x", "y", source=data, line_color=ACCENT, line_width=2)
    dots = plot.scatter("x", "y", source=data, size=6, fill_color=PAPER, line_color=ACCENT, line_width=2)
    plot.add_tools(HoverTool(renderers=[dots], tooltips=[("pass", "@x{0,0}"), (title, "@y{0,0.[00000]}")]))
    plot.xaxis.ticker = _whole(steps)
    return plot


def bars(at: NDArray[Any], heights: NDArray[Any], across: str, what: str, title: str | None) -> figure:
    """Return a bar plot of numbers of `what` at the whole numbers `at`."""
    plot = _plot(across, title, LOW_HEIGHT, y_range=DataRange1d(start=0))
    data = ColumnDataSource({"x": at, "y": heights.astype(float)})
    renderer = plot.vbar(x="x", top="y", source=data, width=0.7, fill_color=ACCENT, line_color=None)
    plot.add_tools(HoverTool(renderers=[renderer], tooltips=[(across, "@x{0,0}"), (what, "@y{0,0}")]))
    plot.xaxis.ticker = _whole(at)
    plot.yaxis.ticker = BasicTicker(min_interval=1)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    return plot


def _plot(across: str, up: str | None, height: int, **options: Any) -> figure:
    plot = figure(height=height, sizing_mode="stretch_width", toolbar_location=None, tools="", **options)
    plot.toolbar.logo = None
    plot.background_fill_color = plot.border_fill_color = plot.outline_line_color = None
    plot.min_border = 8
    for axis, text in ((plot.xaxis, across), (plot.yaxis, up)):
        axis.axis_label = text
        axis.axis_label_text_color = axis.major_label_text_color = INK
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px"
        axis.axis_label_text_font_style = "normal"
        axis.axis_line_color = axis.major_tick_line_color = FAINT
        axis.minor_tick_line_color = None
        axis.major_tick_in = 0
    plot.xgrid.grid_line_color = None
    plot.ygrid.grid_line_color = FAINT
    return plot


def _item(plot: figure) -> PlotJson:
    """Return a figure for the page with its models renumbered, so that equal figures give equal bytes."""
    text = json.dumps(json_item(plot))
    new = {old: f"p{number}" for number, old in enumerate(dict.fromkeys(re.findall(r'"(p\d+)"', text)), 1)}
    return dict(json.loads(re.sub(r'"(p\d+)"', lambda match: f'"{new[match[1]]}"', text)))


def _whole(values: NDArray[Any]) -> FixedTicker:
    """Return at most about `MOST_TICKS` ticks at equidistant whole numbers."""
    first, last = int(values.min()), int(values.max())
    return FixedTicker(ticks=list(range(first, last + 1, -(-(last - first + 1) // MOST_TICKS))))


def _few(values: NDArray[Any]) -> FixedTicker:
    """Return ticks at no more than `MOST_TICKS` of the values, evenly spaced, including the first and the last."""
    at = np.unique(np.linspace(0, len(values) - 1, MOST_TICKS).round().astype(int))
    return FixedTicker(ticks=values[at].tolist())
