"""The report of a run: one HTML file with everything in it, which asks nobody for anything.

It is made of the selection and of whatever records lie beside it. Names, labels and records may be hostile: text is
escaped where it is put into the page, data are JSON that no parser of HTML can leave, and the page's own policy lets
nothing run but the scripts whose hashes it names, and nothing be loaded at all.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.resources import Resources
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from daskfs.errors import OptionError, SelectionError
from daskfs.observe.report import origin as report_origin
from daskfs.observe.report import plots as report_plots
from daskfs.observe.report import words as report_words
from daskfs.observe.report.features import embedded, feature_columns
from daskfs.observe.report.text import interval, number, visible
from daskfs.observe.report.words import RunRecords, TextTable
from daskfs.observe.tables import TITLES
from daskfs.protocol import Words
from daskfs.selection.records import METRICS, REPORT, RUN_RECORD, SIZES, STABILITY, Record, read_record
from daskfs.selection.run_folder import resolve_run
from daskfs.selection.selection import Selection, load_selection
from daskfs.store.places.location import Location

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
MOST_INPUTS = 30


_GENERATOR, _HEAD_BYTES = b'content="daskfs"', 1 << 16  # what says so of a page, and where


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    words_of: Callable[[str], Words | None] = lambda class_name: None,
) -> str:
    """Write what there is to say about a run as one HTML file, and say where it is.

    Parameters
    ----------
    run
        The run's folder or URL: a selection, and perhaps records of how it was made and how good it is.
    out
        The file or URL to write; by default ``report.html`` in the run, in place of one that is there.
    overwrite
        Replace a file that is there already, if it is not the run's own report.
    storage_options
        Passed on to fsspec.
    words_of
        Returns how to speak of an algorithm, given the name of its class, as `daskfs.algorithms.registry.words_of`
        does. By default the page shows all columns of the history under their own names.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> daskfs.write_dataset("small.zarr", X, X[:, 3] > 0)
    >>> daskfs.select("small.zarr", daskfs.OnlineSubstitution(1)).save("run")
    >>> from daskfs.observe.report import write_report
    >>> write_report("run")
    'run/report.html'
    """
    location = resolve_run(Location(run, storage_options))
    folder, name = (location, REPORT) if out is None else _place(out, storage_options)
    own = name == REPORT and folder.is_same_place(location)
    if not own and not overwrite and folder.exists(name):
        raise OptionError(f"{folder.url}/{name}: is there already; --overwrite replaces it, or choose another name")
    page = rendered(load_run(location, words_of, storage_options))
    folder.write(name, page.encode())
    return f"{location.url}/{name}" if out is None else os.fspath(out)


def _place(out: str | os.PathLike[str], options: Mapping[str, Any] | None) -> tuple[Location, str]:
    """The folder of a file, and its name there."""
    url = os.fspath(out)
    folder, _, name = url.rpartition("/")
    if "://" not in url:
        path = Path(url).absolute()
        folder, name = str(path.parent), path.name if not url.endswith("/") else ""
        if path.is_dir() and name:
            raise OptionError(f"{url}: is a folder; give the report the name of a file")
    if not name or folder.endswith(":/"):
        raise OptionError(f"{url}: give the report the name of a file, such as {url.rstrip('/')}/{REPORT}")
    return Location(folder, options), name


def check_replaceable(out: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
    """OptionError if a report cannot go there, or would replace something that is none."""
    folder, name = _place(out, storage_options)
    if folder.exists(name) and _GENERATOR not in folder.read(name, 0, _HEAD_BYTES):
        raise OptionError(f"{folder.url}/{name}: is there already, and no report; choose another name")


def load_run(
    location: Location, words_of: Callable[[str], Words | None], storage_options: Mapping[str, Any] | None = None
) -> RunRecords:
    """Return the selection of a run and the records beside it; SelectionError if something is damaged."""
    selection = load_selection(location.url, storage_options)
    found = {name: read_record(location, name) for name in (RUN_RECORD, METRICS, SIZES, STABILITY)}
    words = words_of(str(selection.algorithm.get("name", ""))) or report_words.default_words(selection)
    run = RunRecords(selection, {name: record for name, record in found.items() if record is not None}, words)
    if run.sizes is not None:
        lengths = {len(run.sizes[key]) for key in ("sizes", "scores", "intervals")}
        if len(lengths) > 1 or 0 in lengths or not all(1 <= size < 1 << 53 for size in run.sizes["sizes"]):
            raise SelectionError(f"{location.url}/{SIZES}: sizes, scores and intervals do not fit; make it again")
    return run


def rendered(run: RunRecords) -> str:
    """The page."""
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    plots: dict[str, report_plots.PlotJson] = {}
    parts = {
        "title": report_words.headline(run.selection),
        "origin": report_words.origin(run),
        "figures": report_words.figures(run),
        "metrics": report_words.metric_table(run),
        "classes": report_words.class_table(run),
        "sizes": _sizes(run.sizes, plots),
        "curves": _curves(run, plots),
        "about_passes": report_origin.pass_words(run),
        "passes": report_origin.pass_table(run),
        "stability": _stability(run, plots),
        "inputs": _inputs(run.selection),
        "pairs": report_words.pair_table(run.selection),
        "cost": report_origin.cost_facts(run),
        "command": report_origin.command(run),
        "facts": report_origin.origin_facts(run),
        "about_features": report_words.feature_words(run),
        "features": embedded(feature_columns(run.selection, run.times)),
        "count": len(run.selection.features),
    }
    scripts = [_shipped("report.js"), _shipped("report_table.js")]
    if plots:  # a megabyte that nobody needs otherwise
        scripts.insert(0, "\n".join(Resources(mode="inline", components=["bokeh"], log_level="error").js_raw))
    return page.from_string(_shipped("report.html.j2")).render(
        **parts,
        policy=POLICY.format(scripts=" ".join(map(_hash, scripts))),
        style=Markup(_shipped("report.css")),
        scripts=list(map(Markup, scripts)),
        plots=embedded(plots),
    )


def _shipped(name: str) -> str:
    """A file that stands beside this one."""
    return files("daskfs.observe.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _sizes(record: Record | None, plots: dict[str, report_plots.PlotJson]) -> dict[str, Any] | None:
    """Score against the number of features: a plot, its numbers, and how they came about."""
    if record is None:
        return None
    metric = TITLES.get(record["metric"], "score")
    if len(record["sizes"]) > 1:
        plots["sizes"] = report_plots.size_curve(record, metric)
    lines = zip(record["sizes"], record["scores"], record["intervals"], strict=True)
    rows = [[f"{size:,}", number(score), interval(ends)] for size, score, ends in lines]
    return {
        "plot": "sizes" if "sizes" in plots else None,
        "words": report_words.size_words(record, metric),
        "metric": metric,
        "table": TextTable(["features", metric, "95 % interval"], rows),
    }


def _curves(run: RunRecords, plots: dict[str, report_plots.PlotJson]) -> list[tuple[str, str]]:
    """What is drawn of the history: whatever has two numbers at least and is not always the same."""
    drawn, history, titles = [], run.selection.history, report_origin.history_titles(run.words)
    steps = history["step"].values
    for name in ("objective", *run.words.curves):
        values = history[name].values if name in history else np.empty(0)
        known = values[np.isfinite(values)]
        if len(known) > 1 and (name == "objective" or np.ptp(known) > 0):
            title = visible(titles[name])
            make = report_plots.steps if name == "changes" else report_plots.curve
            plots[f"history-{name}"] = make(steps, values, title)
            drawn.append((f"history-{name}", title))
    return drawn


def _stability(run: RunRecords, plots: dict[str, report_plots.PlotJson]) -> dict[str, Any] | None:
    record = run.stability
    if record is None:
        return None
    seeds = len(record["seeds"])
    often = Counter(feature["times"] for feature in record["features"] if 0 < feature["times"] <= seeds)
    what = "inputs" if record.get("of") == "inputs" else "features"
    if often and 1 < seeds <= 1000:
        at = list(range(1, seeds + 1))
        plots["stability"] = report_plots.bars(at, [often[times] for times in at], "times chosen", what)
    words = report_words.stability_words(record)
    return {"plot": "stability" if "stability" in plots else None, "words": words, "seeds": seeds}


def _inputs(selection: Selection) -> dict[str, Any] | None:
    """How much the inputs of random features matter, the most important first."""
    if selection.inputs is None:
        return None
    shares = selection.importance
    first = zip(shares.input.values[:MOST_INPUTS], shares.values[:MOST_INPUTS].tolist(), strict=True)
    largest = max(float(shares.max()), 1e-300) if shares.size else 1.0
    bars = [(visible(str(name)), f"{share:.1%}", max(0.0, 100 * share / largest)) for name, share in first]
    return {"bars": bars, "more": max(0, shares.size - MOST_INPUTS)}
