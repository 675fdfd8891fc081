"""The page "daskfs" of Dask's dashboard: live plots of the newest selection run, in Bokeh.

Names of features come from datasets and may contain any text, so names are drawn on canvases or escaped.

All changes reach the browser in one message (`BrowserUpdates`, page.js). Bokeh by itself sends a message for every
property that is set, may draw a plot for each, and lays out the whole page whenever the text of a `Div` changes.
A browser needs nearly twice as long to apply Bokeh's own update messages, perhaps on a worker's core. The Bokeh
models on the scheduler stay empty, and the browser receives the models' properties as JSON and sets those that changed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import chain
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.layouts import column
from bokeh.model import Model
from bokeh.models import (
    AdaptiveTicker,
    BasicTicker,
    ColumnDataSource,
    CustomJS,
    FactorRange,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.widgets import Div
from bokeh.plotting import figure

from daskfs.observe.dashboard.live_runs import BIN_SECONDS, LiveRun, LiveRuns
from daskfs.observe.dashboard.series import (
    NO_WORKER,
    SERIES,
    SPENT,
    TIMES,
    Room,
    Series,
    feature_table,
    headline,
    series_of,
    span_of,
)

EVERY_MS = 5000  # texts, and plots of a run that has just begun
SLOWEST = 15.0  # seconds from one drawing of the plots to the next, at most
_STEPS = 30  # drawings in which a plot over time becomes twice as long
AGAIN = 12  # updates without news after which everything is sent again
COLOURS = dict(zip(TIMES, ("#4c78a8", "#f58518", "#eeca3b", "#d8d8d8", "#b279a2"), strict=True))
OF_WORKERS = dict(zip(SPENT, ("#9ecae9", "#4c78a8", "#f58518", "#d8d8d8"), strict=True))
BLUE, GREEN, ORANGE, RED, GREY = "#4c78a8", "#54a24b", "#f58518", "#e45756", "#888888"
_HEAD, _HEIGHT = 24, 230
_TABLE = 470  # twenty features
_WIDE, _TALL = "wide", "tall"
_ACROSS: dict[str, Any] = {"sizing_mode": "stretch_width"}
_GRID = """
:host { display: grid !important; grid-auto-flow: dense; gap: 6px 14px;
        grid-template-columns: repeat(auto-fit, minmax(min(100%, 310px), 1fr)); }
"""
"""Style of the grid, with as many plots side by side as fit."""
_LINES = """
@media (max-width: 700px) { :host { min-height: 64px !important; } }
@media (min-width: 700px) and (max-width: 1050px) { :host { margin-top: 44px !important; } }
"""
"""Style that leaves room for a headline of several lines, and for Dask's own bar of two lines."""
_CELL = f"""
:host {{ min-width: 0; }}
:host(.{_TALL}) {{ grid-row: span 3; }}
@media (min-width: 1100px) {{ :host(.{_WIDE}) {{ grid-column: span 2; }} }}
"""
"""Style of a grid cell, where wide plots and the table span several cells."""

Properties = Mapping[str, Any]


def page(live_runs: LiveRuns, extra: dict[str, Any], doc: Document) -> None:
    """Fill the Bokeh document of a browser that opens the page, when Dask calls this function."""
    content = DashboardPage(live_runs)
    content.update()
    doc.add_root(content.root)
    content.updates.listen(content.root, doc)
    doc.title = "Dask: daskfs"
    doc.add_periodic_callback(content.update, EVERY_MS)
    _like_the_others(doc, extra)


def _like_the_others(doc: Document, extra: dict[str, Any]) -> None:
    """Use the tabs and colours of Dask's own pages if this version of Dask has them."""
    try:
        from distributed.dashboard.components.scheduler import BOKEH_THEME, env

        template = env.get_template("simple.html")
    except Exception:  # the page works without them
        return
    doc.theme, doc.template = BOKEH_THEME, template
    doc.template_variables.update(extra)


def pause_after(age: float) -> float:
    """Return the seconds between two drawings of the plots of a selection run of this age, longer for older runs.

    Drawing the plots takes a browser two tenths of a second, perhaps on a core that a worker could use.

    >>> from daskfs.observe.dashboard.page import pause_after
    >>> pause_after(10), pause_after(300), pause_after(3600)
    (5.0, 10.0, 15.0)
    """
    return min(max(EVERY_MS / 1000, age / _STEPS), SLOWEST)


@dataclass(slots=True)
class Fit:
    """A plot's axis that spans the values of some columns, or the sums of the columns if bars are stacked."""

    source: str
    columns: tuple[str, ...]
    is_stacked: bool = False
    room: Room = "above"
    axis: Range1d = field(default_factory=lambda: Range1d(start=0, end=1, syncable=False))

    def to(self, data: Series) -> Properties:
        """Return the properties "start" and "end" of the axis for these data."""
        columns = [data[self.source][name] for name in self.columns]
        values = [sum(row) for row in zip(*columns, strict=True)] if self.is_stacked else list(chain(*columns))
        start, end = span_of(values, self.room)
        return {"start": start, "end": end}


class DashboardPage:
    """The plots, headline and table of features for one browser."""

    def __init__(self, live_runs: LiveRuns) -> None:
        self._live_runs, self._shown, self._quiet, self._fits = live_runs, (-1, -1), 0, list[Fit]()
        self._drawn: tuple[LiveRun | None, float] = None, 0.0
        self._sources = {
            name: ColumnDataSource({key: [] for key in keys}, name=name, syncable=False)
            for name, keys in SERIES.items()
        }
        self._head = text_area("head", height=_HEAD, stylesheets=[_LINES], **_ACROSS)
        self._table = text_area("table", height=_TABLE, css_classes=[_TALL], stylesheets=[_CELL], **_ACROSS)
        self._workers = FactorRange(factors=[NO_WORKER], syncable=False)
        plots = [self._objective(), self._changes(), self._bytes(), self._table, self._times(), self._items()]
        plots += [self._workers_plot(), self._staleness(), self._checkpoints()]
        grid = column(plots, stylesheets=[_GRID], **_ACROSS)
        self.root = column(self._head, grid, **_ACROSS)
        axes = [fit.axis for fit in self._fits]
        self.updates = BrowserUpdates([self._head, self._table, self._workers, *axes, *self._sources.values()])

    def update(self) -> None:
        """Send changed properties to the browser; while nothing changes, send all properties again once in a while."""
        now, run = time.time(), self._live_runs.latest
        self._live_runs.look(now)
        time_bin = 0 if run is None or run.ended else int(now / BIN_SECONDS)  # rates of a run change as time passes
        if (self._live_runs.version, time_bin) == self._shown:
            self._quiet += 1
            if self._quiet % AGAIN == 0:
                self.updates.repeat()
            return
        self._shown, self._quiet = (self._live_runs.version, time_bin), 0
        changed: dict[Model, Properties] = {
            self._head: text_properties(self._head, headline(run, now, self._live_runs.refused))
        }
        if run is not None:
            changed[self._table] = text_properties(self._table, feature_table(run))
            if self._is_due(run, now):
                changed |= self._plot_properties(series_of(run, now))
                self._drawn = run, now
        self.updates.send(changed)

    def _is_due(self, run: LiveRun, now: float) -> bool:
        """Return whether to draw the plots: at once for a new or finished run, and after a pause for other runs."""
        before, when = self._drawn
        tolerance = EVERY_MS / 2000  # updates do not come exactly on time
        return run is not before or run.ended or now - when > pause_after(now - run.began) - tolerance

    def _plot_properties(self, data: Series) -> dict[Model, Properties]:
        return {
            self._workers: {"factors": data["workers"]["worker"] or [NO_WORKER]},
            **{fit.axis: fit.to(data) for fit in self._fits},
            **{self._sources[name]: source_properties(columns) for name, columns in data.items()},
        }

    def _plot(
        self, title: str, x: str, source: str, of_x: str, *of_y: str, across: Room = "around", **how: Any
    ) -> figure:
        """Return a figure whose axes follow the data."""
        x_fit = Fit(source, (of_x,), room=across)
        y_fit = Fit(source, of_y, **how)
        self._fits += x_fit, y_fit
        plot = _figure(title, x, x_range=x_fit.axis, y_range=y_fit.axis)
        if across == "bars":
            plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
        return plot

    def _objective(self) -> figure:
        plot = self._plot("Objective", "passes", "objective", "x", "y", room="around")
        plot.line("x", "y", source=self._sources["objective"], line_width=2, color=BLUE)
        plot.scatter("x", "y", source=self._sources["objective"], size=5, color=BLUE)
        return plot

    def _changes(self) -> figure:
        plot = self._plot("Changes of the set, by pass", "pass", "changes", "number", "changes", across="bars")
        plot.vbar("number", top="changes", width=0.7, source=self._sources["changes"], color=GREEN)
        return plot

    def _bytes(self) -> figure:
        plot = self._plot("Bytes read per second", "seconds", "rates", "x", "bytes", "storage", "fastest")
        _in_bytes(plot.yaxis)
        source = self._sources["rates"]
        plot.line("x", "bytes", source=source, line_width=2, color=BLUE)
        plot.line("x", "storage", source=source, color=RED, line_dash="dashed", legend_label="reading alone, at best")
        plot.line("x", "fastest", source=source, color=GREY, line_dash="dashed", legend_label="fastest so far")
        return _with_legend(plot)

    def _items(self) -> figure:
        plot = self._plot("Rows or columns per second", "seconds", "rates", "x", "items")
        plot.yaxis.formatter = NumeralTickFormatter(format="0.0a")
        plot.line("x", "items", source=self._sources["rates"], line_width=2, color=GREEN)
        return plot

    def _times(self) -> figure:
        names, colours = list(COLOURS), list(COLOURS.values())
        title = "Where the time of a pass went: seconds of all workers"
        plot = self._plot(title, "pass", "times", "number", *names, across="bars", is_stacked=True)
        source = self._sources["times"]
        plot.vbar_stack(names, x="number", width=0.8, source=source, color=colours, legend_label=names)
        plot.css_classes = [_WIDE]
        return _with_legend(plot)

    def _workers_plot(self) -> figure:
        fit, names, colours = Fit("workers", SPENT, is_stacked=True), list(OF_WORKERS), list(OF_WORKERS.values())
        self._fits.append(fit)
        plot = _figure("Seconds by worker (red: late)", "", x_range=fit.axis, y_range=self._workers)
        look = {"height": 0.7, "fill_color": colours, "line_color": "edge", "line_width": 1.5}
        plot.hbar_stack(names, y="worker", source=self._sources["workers"], legend_label=names, **look)
        spent = [(name, f"@{name}{{0,0.0}} s") for name in names]
        plot.add_tools(HoverTool(tooltips=[("worker", "@worker"), ("read", "@bytes"), *spent]))
        return _with_legend(plot)

    def _staleness(self) -> figure:
        plot = self._plot("Staleness of offers", "versions behind", "staleness", "lag", "offers", across="bars")
        plot.vbar("lag", top="offers", width=0.8, source=self._sources["staleness"], color=ORANGE)
        return plot

    def _checkpoints(self) -> figure:
        plot = self._plot("Seconds of checkpoints", "seconds", "checkpoints", "x", "seconds")
        plot.yaxis.formatter = NumeralTickFormatter(format="0.[0000]")
        plot.scatter("x", "seconds", source=self._sources["checkpoints"], size=7, color=COLOURS["closing"])
        return plot


def _figure(title: str, x: str, **ranges: Any) -> figure:
    size: dict[str, Any] = {"height": _HEIGHT, "frame_align": False, **_ACROSS}
    look: dict[str, Any] = {"toolbar_location": None, "tools": "", "stylesheets": [_CELL]}
    return figure(title=title, x_axis_label=x, **size, **look, **ranges)


def _in_bytes(axis: Any) -> None:
    """Set the ticks of an axis at round numbers of KiB, MiB and so on."""
    axis.formatter = NumeralTickFormatter(format="0.[0] ib")
    axis.ticker = AdaptiveTicker(base=1024, mantissas=[2**power for power in range(10)], desired_num_ticks=4)


def _with_legend(plot: figure) -> figure:
    plot.add_layout(plot.legend[0], "below")
    plot.legend.orientation, plot.legend.label_text_font_size = "horizontal", "8pt"
    plot.legend.border_line_alpha, plot.legend.margin = 0.0, 0
    return plot


def text_area(name: str, **options: Any) -> Div:
    """Return a `Div` for a text that changes (see `text_properties`)."""
    return Div(name=name, text=f'<div class="{_css_class(name)}"></div>', disable_math=True, syncable=False, **options)


def text_properties(area: Div, html: str) -> Properties:
    """Return the HTML that page.js writes into an area, and the CSS class of the element to write it into."""
    return {"place": _css_class(str(area.name)), "html": html}


def source_properties(columns: Mapping[str, Sequence[Any]]) -> Properties:
    """Return the columns of a Bokeh data source for JSON, with None for NaN, which is not drawn."""
    return {"data": {name: [_finite(value) for value in values] for name, values in columns.items()}}


class BrowserUpdates:
    """Sender of the properties of Bokeh models to one browser, which sends nothing back (``syncable=False``)."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._models, self._last, self._count = models, [""] * len(models), 0
        self._source = ColumnDataSource({"json": self._last})
        script = files("daskfs.observe.dashboard").joinpath("page.js").read_text(encoding="utf-8")
        self._callback = CustomJS(args={"updates": self._source, "models": list(models)}, code=script)
        self._source.js_on_change("data", self._callback)

    def listen(self, root: Model, doc: Document) -> None:
        """Make the page apply earlier updates as soon as the document is ready, and later updates as they come."""
        root.tags = [self._source]  # Bokeh keeps models up to date that are part of something shown
        doc.js_on_event(DocumentReady, self._callback)

    def send(self, changed: Mapping[Model, Properties]) -> None:
        """Send the new properties of the models in `changed`, and the last properties of all other models."""
        last = zip(self._models, self._last, strict=True)
        self._last = [json.dumps(changed[model]) if model in changed else text for model, text in last]
        self.repeat()

    def repeat(self) -> None:
        """Send the last properties of all models again, since a browser that reconnected starts with empty models."""
        self._count += 1  # Bokeh sends nothing if the data are equal
        self._source.data = {"json": [*self._last, str(self._count)]}


def _css_class(name: str) -> str:
    return f"daskfs-{name}"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
