"""The report's plots: small Bokeh figures whose colours are placeholders that the page replaces.

The plots contain no text from datasets or records, since Bokeh may take text for a formula and load a renderer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.embed import json_item
from bokeh.models import BasicTicker, ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure
from numpy.typing import NDArray

INK, FAINT, ACCENT, PAPER = "#000001", "#000002", "#000003", "#000004"
"""Placeholders for the colours of the light or dark page."""
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
HEIGHT, LOW_HEIGHT = 300, 210
MOST_TICKS = 8

PlotJson = dict[str, Any]
"""A figure as `bokeh.embed.json_item` returns it."""


def size_curve(record: dict[str, Any], metric: str) -> PlotJson:
    """Return a plot of scores by number of features, with the 95 % intervals as a band."""
    sizes, scores = np.array(record["sizes"], float), _floats(record["scores"])
    low, high = _floats([pair[0] for pair in record["intervals"]]), _floats([pair[1] for pair in record["intervals"]])
    plot = _plot(
        "number of features", metric, HEIGHT, x_axis_type="log" if sizes.max() > 10 * sizes.min() else "linear"
    )
    data = ColumnDataSource({"x": sizes, "y": scores, "low": low, "high": high})
    plot.varea("x", "low", "high", source=data, fill_color=ACCENT, fill_alpha=0.18)
    plot.line("x", "y", source=data, line_color=ACCENT, line_width=2)
    dots = plot.scatter("x", "y", source=data, size=7, fill_color=PAPER, line_color=ACCENT, line_width=2)
    tips = [("features", "@x{0,0}"), (metric, "@y{0.0000}"), ("95 %", "@low{0.000} – @high{0.000}")]
    plot.add_tools(HoverTool(renderers=[dots], tooltips=tips))
    plot.xaxis.ticker = _whole(sizes) if sizes.max() <= 2 * MOST_TICKS else FixedTicker(ticks=_few(sizes).tolist())
    if (own := record.get("as_selected")) and own["score"] is not None:
        plot.scatter([own["size"]], [own["score"]], size=10, marker="diamond", color=ACCENT)
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    return _item(plot)


def curve(steps: NDArray[Any], values: NDArray[np.float64], title: str) -> PlotJson:
    """Return a line plot of a number by pass."""
    plot = _plot("pass", None, LOW_HEIGHT)
    known = np.isfinite(values)
    data = ColumnDataSource({"x": steps[known], "y": values[known]})
    plot.line("x", "y", source=data, line_color=ACCENT, line_width=2)
    dots = plot.scatter("x", "y", source=data, size=6, fill_color=PAPER, line_color=ACCENT, line_width=2)
    plot.add_tools(HoverTool(renderers=[dots], tooltips=[("pass", "@x{0,0}"), (title, "@y{0,0.[00000]}")]))
    plot.xaxis.ticker = _whole(steps[known])
    return _item(plot)


def steps(steps: NDArray[Any], values: NDArray[np.float64], title: str) -> PlotJson:
    """Return a bar plot of a number by pass."""
    known = np.isfinite(values)
    return bars(steps[known].tolist(), values[known].tolist(), "pass", title, titled=False)


def bars(at: Sequence[int], heights: Sequence[float], across: str, up: str, *, titled: bool = True) -> PlotJson:
    """Return a bar plot of numbers `heights` at the whole numbers `at`."""
    plot = _plot(across, up if titled else None, LOW_HEIGHT)
    data = ColumnDataSource({"x": np.array(at), "y": np.array(heights, float)})
    renderer = plot.vbar(x="x", top="y", source=data, width=0.7, fill_color=ACCENT, line_color=None)
    plot.y_range.start = 0
    plot.add_tools(HoverTool(renderers=[renderer], tooltips=[(across, "@x{0,0}"), (up, "@y{0,0}")]))
    plot.xaxis.ticker = _whole(np.array(at))
    plot.yaxis.ticker = BasicTicker(min_interval=1)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0")
    return _item(plot)


def _plot(across: str, up: str | None, height: int, **options: Any) -> Any:
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


def _item(plot: Any) -> PlotJson:
    """Return a figure for the page with its models renumbered, so that equal figures give equal bytes."""
    text = json.dumps(json_item(plot))
    new = {old: f"p{number}" for number, old in enumerate(dict.fromkeys(re.findall(r'"(p\d+)"', text)), 1)}
    return dict(json.loads(re.sub(r'"(p\d+)"', lambda match: f'"{new[match[1]]}"', text)))


def _whole(values: NDArray[Any]) -> FixedTicker:
    """Return at most about `MOST_TICKS` ticks at equidistant whole numbers."""
    first, last = int(values.min()), int(values.max())
    return FixedTicker(ticks=list(range(first, last + 1, -(-(last - first + 1) // MOST_TICKS))))


def _few(values: NDArray[Any], most: int = MOST_TICKS) -> NDArray[Any]:
    """Return at most `most` of the values, evenly spaced, including the first and the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))] if len(values) else values


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], np.float64)
