"""The page "daskfs" of Dask's dashboard: live plots of the newest run, in Bokeh.

Everything that is shown comes from `watched`; names are drawn on canvases or escaped, whatever they are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column
from bokeh.model import Model
from bokeh.models import (
    AdaptiveTicker,
    BasicTicker,
    ColumnDataSource,
    FactorRange,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.plotting import figure

from daskfs.observe.dashboard.news import News, Properties, drawn, text_area, written
from daskfs.observe.dashboard.series import (
    NOBODY,
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
from daskfs.observe.dashboard.watched import BIN_SECONDS, Watched, WatchedRun

EVERY_MS = 5000  # texts, and plots of a run that has just begun
SLOWEST = 15.0  # seconds from one drawing of plots to the next
_STEPS = 30  # drawings in which a plot over time becomes twice as long
AGAIN = 12  # times that nothing is new, after which everything is said again
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
"""As many plots side by side as there is room for, on a phone one."""
_LINES = """
@media (max-width: 700px) { :host { min-height: 64px !important; } }
@media (min-width: 700px) and (max-width: 1050px) { :host { margin-top: 44px !important; } }
"""
"""Where a line does not go across, and where Dask's own bar takes two."""
_CELL = f"""
:host {{ min-width: 0; }}
:host(.{_TALL}) {{ grid-row: span 3; }}
@media (min-width: 1100px) {{ :host(.{_WIDE}) {{ grid-column: span 2; }} }}
"""
"""All are of one width; what has more to show takes several places."""


def page(watched: Watched, extra: dict[str, Any], doc: Document) -> None:
    """Fill a document: what Dask calls for every browser that opens the page."""
    view = DashboardPage(watched)
    view.update()
    doc.add_root(view.root)
    view.news.listen(view.root, doc)
    doc.title = "Dask: daskfs"
    doc.add_periodic_callback(view.update, EVERY_MS)
    _like_the_others(doc, extra)


def _like_the_others(doc: Document, extra: dict[str, Any]) -> None:
    """Tabs and colours of Dask's own pages, where they are to be had."""
    try:
        from distributed.dashboard.components.scheduler import BOKEH_THEME, env

        template = env.get_template("simple.html")
    except Exception:  # the page stands without them
        return
    doc.theme, doc.template = BOKEH_THEME, template
    doc.template_variables.update(extra)


def pause_after(age: float) -> float:
    """Seconds until plots of a run of this age are drawn again: a second is less and less of a pixel there.

    Drawing takes a browser two tenths of a second, perhaps on a core that a worker could use.

    >>> from daskfs.observe.dashboard.page import pause_after
    >>> pause_after(10), pause_after(300), pause_after(3600)
    (5.0, 10.0, 15.0)
    """
    return min(max(EVERY_MS / 1000, age / _STEPS), SLOWEST)


@dataclass(slots=True)
class Fit:
    """An axis that is kept as long as the data are."""

    source: str
    columns: tuple[str, ...]
    is_stacked: bool = False
    room: Room = "above"
    axis: Range1d = field(default_factory=lambda: Range1d(start=0, end=1, syncable=False))

    def to(self, data: Series) -> Properties:
        columns = [data[self.source][name] for name in self.columns]
        values = [sum(row) for row in zip(*columns, strict=True)] if self.is_stacked else list(chain(*columns))
        start, end = span_of(values, self.room)
        return {"start": start, "end": end}


class DashboardPage:
    """The plots of one browser."""

    def __init__(self, watched: Watched) -> None:
        self._watched, self._shown, self._quiet, self._fits = watched, (-1, -1), 0, list[Fit]()
        self._drawn: tuple[WatchedRun | None, float] = None, 0.0
        self._sources = {
            name: ColumnDataSource({key: [] for key in keys}, name=name, syncable=False)
            for name, keys in SERIES.items()
        }
        self._head = text_area("head", height=_HEAD, stylesheets=[_LINES], **_ACROSS)
        self._table = text_area("table", height=_TABLE, css_classes=[_TALL], stylesheets=[_CELL], **_ACROSS)
        self._workers = FactorRange(factors=[NOBODY], syncable=False)
        plots = [self._objective(), self._changes(), self._bytes(), self._table, self._times(), self._items()]
        plots += [self._shares(), self._lags(), self._checkpoints()]
        grid = column(plots, stylesheets=[_GRID], **_ACROSS)
        self.root = column(self._head, grid, **_ACROSS)
        axes = [fit.axis for fit in self._fits]
        self.news = News([self._head, self._table, self._workers, *axes, *self._sources.values()])

    def update(self) -> None:
        """Show what is new; while nothing happens, the same is said once in a while."""
        now, run = time.time(), self._watched.latest
        self._watched.look(now)
        passing = 0 if run is None or run.ended else int(now / BIN_SECONDS)  # of time, which itself is news of a run
        if (self._watched.version, passing) == self._shown:
            self._quiet += 1
            if self._quiet % AGAIN == 0:
                self.news.repeat()
            return
        self._shown, self._quiet = (self._watched.version, passing), 0
        told: dict[Model, Properties] = {self._head: written(self._head, headline(run, now, self._watched.refused))}
        if run is not None:
            told[self._table] = written(self._table, feature_table(run))
            if self._is_due(run, now):
                told |= self._plotted(series_of(run, now))
                self._drawn = run, now
        self.news.tell(told)

    def _is_due(self, run: WatchedRun, now: float) -> bool:
        """Whether plots shall be drawn: another run and the end of one at once, else after a while."""
        before, when = self._drawn
        between = EVERY_MS / 2000  # two looks, of which none is on the dot
        return run is not before or run.ended or now - when > pause_after(now - run.began) - between

    def _plotted(self, data: Series) -> dict[Model, Properties]:
        return {
            self._workers: {"factors": data["workers"]["worker"] or [NOBODY]},
            **{fit.axis: fit.to(data) for fit in self._fits},
            **{self._sources[name]: drawn(columns) for name, columns in data.items()},
        }

    def _plot(
        self, title: str, x: str, source: str, of_x: str, *of_y: str, across: Room = "around", **how: Any
    ) -> figure:
        """A figure whose axes follow the data."""
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

    def _shares(self) -> figure:
        fit, names, colours = Fit("workers", SPENT, is_stacked=True), list(OF_WORKERS), list(OF_WORKERS.values())
        self._fits.append(fit)
        plot = _figure("Seconds by worker (red: late)", "", x_range=fit.axis, y_range=self._workers)
        look = {"height": 0.7, "fill_color": colours, "line_color": "edge", "line_width": 1.5}
        plot.hbar_stack(names, y="worker", source=self._sources["workers"], legend_label=names, **look)
        spent = [(name, f"@{name}{{0,0.0}} s") for name in names]
        plot.add_tools(HoverTool(tooltips=[("worker", "@worker"), ("read", "@bytes"), *spent]))
        return _with_legend(plot)

    def _lags(self) -> figure:
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
    """Ticks at round numbers of KiB, MiB and so on."""
    axis.formatter = NumeralTickFormatter(format="0.[0] ib")
    axis.ticker = AdaptiveTicker(base=1024, mantissas=[2**power for power in range(10)], desired_num_ticks=4)


def _with_legend(plot: figure) -> figure:
    plot.add_layout(plot.legend[0], "below")
    plot.legend.orientation, plot.legend.label_text_font_size = "horizontal", "8pt"
    plot.legend.border_line_alpha, plot.legend.margin = 0.0, 0
    return plot
