"""The page "daskfs" of Dask's dashboard: live plots of the newest selection run, in Bokeh.

Names of features come from datasets and may contain any text, so names are drawn on canvases or escaped.

All changes reach the browser in one message, which page.js applies. Bokeh by itself sends a message for every property
that is set, may draw a plot for each, and lays out the whole page whenever the text of a `Div` changes. A browser needs
nearly twice as long for Bokeh's messages as for the single message, and may share its cores with workers. So the data
sources and texts on the scheduler stay empty (``syncable=False``), and the browser receives their content as JSON.
"""

from __future__ import annotations

import json
import time
from importlib.resources import files
from typing import Any

from bokeh.document import Document
from bokeh.events import DocumentReady
from bokeh.layouts import column
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
from daskfs.observe.dashboard.series import SERIES, SPENT, TIMES, feature_table, headline, series_of

EVERY_MS = 5000  # texts, and plots of a run that has just begun
SLOWEST = 15.0  # seconds from one drawing of the plots to the next, at most
_STEPS = 30  # drawings in which a plot over time becomes twice as long
AGAIN = 12  # updates without news after which everything is sent again
BLUE, GREEN, ORANGE, RED, GREY, VIOLET = "#4c78a8", "#54a24b", "#f58518", "#e45756", "#888888", "#b279a2"
OF_TIMES = (BLUE, ORANGE, "#eeca3b", "#d8d8d8", VIOLET)
OF_WORKERS = ("#9ecae9", BLUE, ORANGE, "#d8d8d8")
AxisRange = tuple[list[str], str]
"""The columns that an axis shows, and the room that page.js gives to their values: "above", "around", "bars", …"""
OVER_TIME: AxisRange = ["x"], "around"
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
_CELL = """
:host { min-width: 0; }
:host(.tall) { grid-row: span 3; }
@media (min-width: 1100px) { :host(.wide) { grid-column: span 2; } }
"""
"""Style of a grid cell, where wide plots and the table span several cells."""


def page(live_runs: LiveRuns, extra: dict[str, Any], doc: Document) -> None:
    """Fill the Bokeh document of a browser that opens the page, when Dask calls this function."""
    content = DashboardPage(live_runs, doc)
    content.update()
    doc.title = "Dask: daskfs"
    doc.add_periodic_callback(content.update, EVERY_MS)
    try:
        from distributed.dashboard.components.scheduler import BOKEH_THEME, env

        template = env.get_template("simple.html")
    except Exception:  # this version of Dask does not have these; the page works without tabs and colours of the others
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


class DashboardPage:
    """The plots, headline and table of features for one browser, which sends nothing back."""

    def __init__(self, live_runs: LiveRuns, doc: Document) -> None:
        self._live_runs, self._shown, self._quiet = live_runs, (-1, -1), 0
        self._drawn: tuple[LiveRun | None, float] = None, 0.0
        self._parts = dict.fromkeys(("head", "table", *SERIES), "")  # the last JSON of every part of the page
        self._count, self._message = 0, ColumnDataSource({"json": list(self._parts.values())})
        head = _text_area("head", height=24, stylesheets=[_LINES])
        table = _text_area("table", height=470, css_classes=["tall"], stylesheets=[_CELL])  # twenty features
        sources = {
            name: ColumnDataSource({key: [] for key in keys}, name=name, syncable=False)
            for name, keys in SERIES.items()
        }
        plots = _figures(sources)
        cells = [*plots[:3], table, *plots[3:]]
        root = column(head, column(cells, stylesheets=[_GRID], **_ACROSS), **_ACROSS)
        root.tags = [self._message]  # Bokeh keeps models up to date that are part of something shown
        doc.add_root(root)
        script = files("daskfs.observe.dashboard").joinpath("page.js").read_text(encoding="utf-8")
        models = [head, table, *sources.values()]
        callback = CustomJS(args={"message": self._message, "models": models, "plots": plots}, code=script)
        self._message.js_on_change("data", callback)
        doc.js_on_event(DocumentReady, callback)

    def update(self) -> None:
        """Send changed parts to the browser; while nothing changes, send all parts again once in a while."""
        now, run = time.time(), self._live_runs.latest
        self._live_runs.look(now)
        time_bin = 0 if run is None or run.ended else int(now / BIN_SECONDS)  # rates of a run change as time passes
        if (self._live_runs.version, time_bin) == self._shown:
            self._quiet += 1
            if self._quiet % AGAIN == 0:  # a browser that reconnected starts with an empty page
                self._send({})
            return
        self._shown, self._quiet = (self._live_runs.version, time_bin), 0
        changed: dict[str, Any] = {"head": headline(run, now, self._live_runs.refused)}
        if run is not None:
            changed["table"] = feature_table(run)
            if self._is_due(run, now):
                changed |= series_of(run, now)
                self._drawn = run, now
        self._send(changed)

    def _is_due(self, run: LiveRun, now: float) -> bool:
        """Return whether to draw the plots: at once for a new or finished run, and after a pause for other runs."""
        before, when = self._drawn
        tolerance = EVERY_MS / 2000  # updates do not come exactly on time
        return run is not before or run.ended or now - when > pause_after(now - run.began) - tolerance

    def _send(self, changed: dict[str, Any]) -> None:
        self._parts |= {name: json.dumps(part) for name, part in changed.items()}
        self._count += 1  # Bokeh sends nothing if the data are equal
        self._message.data = {"json": [*self._parts.values(), str(self._count)]}


def _text_area(name: str, **options: Any) -> Div:
    """Return a `Div` for a text that page.js writes into an element within, so that the page is not laid out anew."""
    text = f'<div class="daskfs-{name}"></div>'
    return Div(name=name, text=text, disable_math=True, syncable=False, **_ACROSS, **options)


def _figures(sources: dict[str, ColumnDataSource]) -> list[figure]:
    """Return the plots of the page, which draw the columns of `series.SERIES`."""
    objective = _figure("objective", "Objective", "passes", OVER_TIME, (["y"], "around"))
    objective.line("x", "y", source=sources["objective"], line_width=2, color=BLUE)
    objective.scatter("x", "y", source=sources["objective"], size=5, color=BLUE)

    changes = _figure("changes", "Changes of the set, by pass", "pass", (["number"], "bars"), (["changes"], "above"))
    changes.vbar("number", top="changes", width=0.7, source=sources["changes"], color=GREEN)

    rates, speeds = sources["rates"], (["bytes", "storage", "fastest"], "above")
    read = _figure("rates", "Bytes read per second", "seconds", OVER_TIME, speeds)
    read.yaxis.formatter = NumeralTickFormatter(format="0.[0] ib")
    read.yaxis.ticker = AdaptiveTicker(base=1024, mantissas=[2**power for power in range(10)], desired_num_ticks=4)
    read.line("x", "bytes", source=rates, line_width=2, color=BLUE)
    read.line("x", "storage", source=rates, color=RED, line_dash="dashed", legend_label="reading alone, at best")
    read.line("x", "fastest", source=rates, color=GREY, line_dash="dashed", legend_label="fastest so far")

    title, parts = "Where the time of a pass went: seconds of all workers", list(TIMES)
    times = _figure("times", title, "pass", (["number"], "bars"), (parts, "stacked"), css_classes=["wide"])
    look: dict[str, Any] = {"color": OF_TIMES, "legend_label": parts}
    times.vbar_stack(parts, x="number", width=0.8, source=sources["times"], **look)

    items = _figure("rates", "Rows or columns per second", "seconds", OVER_TIME, (["items"], "above"))
    items.yaxis.formatter = NumeralTickFormatter(format="0.0a")
    items.line("x", "items", source=rates, line_width=2, color=GREEN)

    title, parts, names = "Seconds by worker (red: late)", list(SPENT), FactorRange(factors=[" "], syncable=False)
    workers = _figure("workers", title, "", (parts, "stacked"), (["worker"], "factors"), y_range=names)
    look = {"fill_color": OF_WORKERS, "line_color": "edge", "line_width": 1.5, "legend_label": parts}
    workers.hbar_stack(parts, y="worker", height=0.7, source=sources["workers"], **look)
    spent = [(name, f"@{name}{{0,0.0}} s") for name in parts]
    workers.add_tools(HoverTool(tooltips=[("worker", "@worker"), ("read", "@bytes"), *spent]))

    staleness = _figure("staleness", "Staleness of offers", "versions behind", (["lag"], "bars"), (["offers"], "above"))
    staleness.vbar("lag", top="offers", width=0.8, source=sources["staleness"], color=ORANGE)

    checkpoints = _figure("checkpoints", "Seconds of checkpoints", "seconds", OVER_TIME, (["seconds"], "above"))
    checkpoints.yaxis.formatter = NumeralTickFormatter(format="0.[0000]")
    checkpoints.scatter("x", "seconds", source=sources["checkpoints"], size=7, color=VIOLET)

    for plot in (read, times, workers):
        plot.add_layout(plot.legend[0], "below")
        plot.legend.update(orientation="horizontal", label_text_font_size="8pt", border_line_alpha=0.0, margin=0)
    return [objective, changes, read, times, items, workers, staleness, checkpoints]


def _figure(source: str, title: str, label: str, x: AxisRange, y: AxisRange, **options: Any) -> figure:
    """Return an empty plot of columns of a source, with tags from which page.js knows how to scale the axes."""
    ranges = {"x_range": Range1d(syncable=False), "y_range": Range1d(syncable=False)}
    look = {"height": 230, "frame_align": False, "toolbar_location": None, "tools": "", "stylesheets": [_CELL]}
    plot = figure(title=title, x_axis_label=label, tags=[source, x, y], **{**_ACROSS, **look, **ranges, **options})
    if x[1] == "bars":
        plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    return plot
