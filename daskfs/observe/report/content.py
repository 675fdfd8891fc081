"""What the template of the report shows: the records of a run, and all that is computed from them."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import tomli_w
from markupsafe import Markup

from daskfs.errors import without_secrets
from daskfs.observe.report import features as report_features
from daskfs.observe.report import plots as report_plots
from daskfs.observe.report.text import counted, interval, label, number, seconds, size, visible
from daskfs.observe.tables import (
    TITLES,
    ValueTable,
    class_table,
    inputs_that_matter,
    kept_table,
    metric_table,
    size_table,
    target_table,
)
from daskfs.protocol import Words
from daskfs.selection.records import Record
from daskfs.selection.selection import Selection
from daskfs.selection.stability import sentence_on_halves
from daskfs.store.dataset.json_checks import is_number

ENGINE_COLUMNS = {"objective": "objective", "seconds": "time", "bytes": "read"}
"""Titles of the columns that the history of every algorithm has."""
MOST_NAMED = 3  # classes that a sentence names
MOST_CLASSES = 200  # lines of a table
MOST_PARENTS = 10
MOST_BALANCED = 20  # classes whose shares are drawn
MOST_PASSES = 200
LONGEST_COMMAND = 4_000
SHORTEST_STEP = 0.05  # seconds


@dataclass(frozen=True, eq=False)
class RunRecords:
    """A selection and the records of metrics, profiles, sizes, stability and costs in the same folder."""

    selection: Selection
    words: Words
    """The algorithm's title, titles of history columns, and explanation of the history."""
    record: Record
    """The record of time, memory and versions of the selection run; empty if there is no record."""
    metrics: Record | None
    sizes: Record | None
    stability: Record | None
    profiles: Record | None = None
    """The distributions, effects and alternatives of the most important features."""

    @property
    def times(self) -> dict[int, int] | None:
        """The number of selections under several seeds that have each feature, by feature id; None if unknown."""
        record = self.stability
        if record is None or record.get("of") == "inputs" or record.get("identical"):
            return None
        return {feature["id"]: feature["times"] for feature in record["features"]}

    def total(self, name: str, column: str) -> float | None:
        """Return a recorded total, or the sum of a column of the history if there is no record, or None."""
        if self.record.get(name) is not None:
            return float(self.record[name])
        steps = self.selection.steps
        return float(np.nansum(steps[column])) if column in steps else None


def default_words(selection: Selection) -> Words:
    """Return the `Words` of an algorithm that is not registered, with its class name and column names as titles."""
    columns = {name: name.replace("_", " ") for name in selection.steps if name not in ENGINE_COLUMNS}
    return Words(str(selection.algorithm.get("name", "")), columns)


def content(run: RunRecords) -> dict[str, Any]:
    """Return the values of the template's variables; texts of datasets and records are still to be escaped."""
    selection, history = run.selection, run.selection.steps
    titles = {"objective": ENGINE_COLUMNS["objective"], **run.words.columns, **ENGINE_COLUMNS}
    finite = {name: column[np.isfinite(column)] for name, column in history.items()}
    target = "prediction" if selection.targets is not None else "target"
    metrics = None if run.metrics is None else metric_table(run.metrics, selection.classes)
    packages = sorted((run.record.get("packages") or {}).items())
    versions = {"daskfs": run.record.get("daskfs"), "Python": run.record.get("python"), **dict(packages)}
    inputs, n_zero = ([], 0) if selection.inputs is None else inputs_that_matter(selection)
    return {
        "run": run,
        "selection": selection,
        "record": run.record,
        "title": headline(run),
        "score": score(run),
        "best": best_feature(run),
        "seen": seen(run),
        "took": run.total("seconds", "seconds"),
        "read": run.total("bytes_read", "bytes"),
        "metrics": metrics and replace(metrics, rows=[row for row in metrics.rows if row[1] is not None]),
        "verdict": visible((run.metrics or {}).get("verdict", ""), 300),
        "classes": class_table(run.metrics or {}, MOST_CLASSES, "metrics.json"),
        "targets": target_table(run.metrics or {}, MOST_CLASSES, "metrics.json"),
        "metric": TITLES.get(run.sizes["metric"], "score") if run.sizes else "",
        "sizes": run.sizes and size_table(run.sizes),
        "curve": history_curve(run, titles),
        "curves": evaluation_curves(run),
        "confusion": confusion(run),
        "cards": report_features.cards(run.profiles, target),
        "open_cards": report_features.OPEN,
        "about_cards": report_features.explanation(run.profiles),
        "colours": report_features.shown_classes(run.profiles),
        "balance": report_features.balance(run.profiles, MOST_BALANCED),
        "about_passes": run.words.explain_history({name: values.tolist() for name, values in finite.items()}),
        "passes": pass_table(run, titles),
        "errors": selection.error_control and selection.error_control.sentence,
        "error_plot": error_plot(selection),
        "is_by_halves": "times_chosen" in selection.statistics,
        "inputs": inputs,
        "inputs_at_zero": n_zero,
        "kept": kept_table(selection, MOST_CLASSES, "selection.json"),
        "pairs": pair_table(selection),
        "command": command(run),
        "fields": [f"{name}={label(value)}" for name, value in selection.algorithm.items() if name != "name"],
        "versions": [f"{name} {version}" for name, version in versions.items() if version],
        "steps": steps(run),
        "size_plot": size_plot(run.sizes),
        "about_halves": sentence_on_halves(halves) if (halves := (run.stability or {}).get("false_bounds")) else "",
        "stability_plot": report_plots.stability_bars(run.stability) if run.stability else None,
    }


def headline(run: RunRecords) -> str:
    """Return a line with the number of selected features and how well they predict.

    The line says only what the features were selected for if there is no score, if the score is of the data from which
    the features were selected, or if there is no baseline.
    """
    subject, is_one = _subject(run.selection), len(run.selection.features) == 1
    metrics, name = run.metrics or {}, main_metric(run.selection)
    value = metrics.get("metrics", {}).get(name)
    baseline = (metrics.get("baseline") or {}).get("metrics", {}).get(name)
    selected = f"{subject}, selected to {_purpose(run.selection)}"
    if value is None or baseline is None or is_same_data(run):
        return selected
    if metrics.get("is_useless"):
        return f"{selected}, {'does' if is_one else 'do'} no better than a guess"
    if metrics.get("verdict"):
        verbs = ("orders", "predicts") if is_one else ("order", "predict")
        return f"{subject} {verbs[0]} rows by class, but {verbs[1]} classes no better than a guess"
    verb, _, rest = _purpose(run.selection).partition(" ")
    title = {"r2": "an R²", "balanced_accuracy": "a balanced accuracy"}[name]
    scores = f"with {title} of {number(value, '{:.2f}')}; a guess has {number(baseline, '{:.2f}')}"
    return f"{subject} {verb}{'s' if is_one else ''} {rest} {scores}"


def main_metric(selection: Selection) -> str:
    """Return the name of the metric that the report leads with."""
    return "r2" if selection.classes is None else "balanced_accuracy"


def _purpose(selection: Selection) -> str:
    """Return what the features are for, as a phrase that begins with a verb."""
    if selection.targets is not None:
        some = ", ".join(visible(name, 40) for name in selection.targets[:MOST_NAMED])
        more = ", …" if len(selection.targets) > MOST_NAMED else ""
        return f"predict {len(selection.targets):,} numbers ({some}{more})"
    if selection.classes is None:
        return "predict a number"
    if len(selection.classes) > MOST_NAMED:
        return f"tell {len(selection.classes):,} classes apart"
    *first, last = [visible(label(name), 40) for name in selection.classes]
    return f"tell the classes {', '.join(first)} and {last} apart"


def _subject(selection: Selection) -> str:
    selected, features = len(selection.features), selection.source["n_features"]
    if selection.inputs is not None:
        return f"{counted(selected, 'random feature')} of {counted(len(selection.inputs.names), 'column')}"
    if selection.products is not None:
        return f"{counted(selected, 'feature')} and pairs of {features:,}"
    return f"{selected:,} of {counted(features, 'feature')}"


def score(run: RunRecords) -> tuple[str, str, list[str], Any] | None:
    """Return the label, the value and notes on the main score, and low end, value, high end and baseline to draw."""
    if run.metrics is None:
        scores = run.selection.steps.get("held_back", np.zeros(0))
        held_back = scores[~np.isnan(scores)].tolist()
        note = "while it was selected; daskfs evaluate says how good it is on unseen data"
        return ("Score on held-back rows", number(held_back[-1]), [note], None) if held_back else None
    name = main_metric(run.selection)
    value, ends = run.metrics["metrics"].get(name), run.metrics["intervals"].get(name)
    if value is None:
        return None
    known, baseline = interval(ends), run.metrics.get("baseline")
    guess = None if baseline is None else baseline["metrics"].get(name)
    band = (*ends, value, guess) if known and min(*ends, value) >= 0 and max(*ends, value) <= 1 else None
    title = TITLES[name] if run.selection.targets is None else f"{TITLES[name]}, mean over targets"
    notes = [f"{title}, 95 % interval {known}" if known else title]
    if baseline is not None and guess is not None:
        notes.append(f"always saying {label(baseline['answer'])}: {number(guess)}")
    if run.selection.threshold is not None:
        notes.append("classes are predicted as if they were equally frequent")
    return f"Score on {seen(run)}", number(value), notes, band


def best_feature(run: RunRecords) -> tuple[str, str, list[str]] | None:
    """Return a label, a value and notes on the best single feature, beside the same metric of all features."""
    best = ((run.metrics or {}).get("baseline") or {}).get("best_feature")
    if not best or run.metrics is None or not isinstance(best.get("value"), float):
        return None
    metric = str(best.get("metric"))
    together = run.metrics["metrics"].get(metric)
    note = f"{TITLES.get(metric, metric)} of {visible(str(best.get('name')), 40)}; all together: {number(together)}"
    return "Best single feature", number(best["value"]), [note]


def is_same_data(run: RunRecords) -> bool:
    """Return whether the metrics are of the data that the features were selected from."""
    return run.metrics is not None and run.metrics.get("digest") == run.selection.source["digest"]


def seen(run: RunRecords) -> str:
    """Return a phrase for the data of the evaluation: the selection's own data, unseen data, or test data."""
    if is_same_data(run):
        return "the data it was selected from"
    return "unseen data" if (run.metrics or {}).get("held_back") is True else "test data"


def evaluation_curves(run: RunRecords) -> list[tuple[str, str, Markup]]:
    """Return title, explanation and plot of every curve of the evaluation."""
    curves, classes = (run.metrics or {}).get("curves") or {}, run.selection.classes
    result = []
    if classes is not None and len(classes) == 2:
        second = visible(label(classes[1]), 40)
        if curves.get("roc"):
            area = (run.metrics or {})["metrics"].get("roc_auc")
            about = f"Rows of {second} found, against other rows taken for {second}."
            about += "" if area is None else f" The area is {number(area)}."
            result.append(("ROC curve", about, report_plots.roc_curve(curves["roc"], area)))
        if curves.get("calibration"):
            about = f"The share of {second} among rows of the same predicted probability. On the diagonal both agree."
            result.append(("Calibration", about, report_plots.calibration_curve(curves["calibration"])))
    if scatter := curves.get("scatter"):
        rows = "All rows" if scatter["step"] == 1 else f"One row in {scatter['step']:,}"
        about = f"{rows}. On the diagonal, predictions are perfect."
        result.append(("Predicted against true", about, report_plots.scatter(scatter)))
    return result


def confusion(run: RunRecords) -> tuple[list[str], list[tuple[str, list[tuple[float, float]]]]] | None:
    """Return the confusion matrix as the labels of the predicted classes, and a row for every true class.

    A row is the label of the true class, and for each predicted class the number of samples and their share in the row.
    Return None if there was no evaluation, or no classes.
    """
    cells, classes = ((run.metrics or {}).get("curves") or {}).get("confusion"), run.selection.classes
    if not cells or classes is None or len(cells) != len(classes) or any(len(row) != len(classes) for row in cells):
        return None
    labels = [visible(label(name), 40) for name in classes]
    shares = [[(count, count / (sum(row) or 1.0)) for count in row] for row in cells]
    return labels, list(zip(labels, shares, strict=True))


def steps(run: RunRecords) -> list[str]:
    """Return name and time of the steps of the job that took a while, the longest first."""
    known = [(str(name), value) for name, value in (run.record.get("steps") or {}).items() if is_number(value)]
    longest = sorted((pair for pair in known if pair[1] >= SHORTEST_STEP), key=lambda pair: -pair[1])
    return [f"{visible(name)} {seconds(value)}" for name, value in longest]


def history_curve(run: RunRecords, titles: dict[str, str]) -> tuple[str, Markup] | None:
    """Return title and plot of the history column that compares best from pass to pass, or None if none does."""
    history = run.selection.steps
    for name in run.words.curves:
        if name in history and name in titles:
            known = np.flatnonzero(np.isfinite(history[name]))
            steps, values = (known + 1).tolist(), history[name][known].tolist()
            if len(set(values)) > 1:
                title = visible(titles[name])
                return title, report_plots.history_curve(steps, values, title)
    return None


def size_plot(sizes: Record | None) -> Markup | None:
    """Return the plot of scores by number of features, or None of fewer than two scores."""
    if sizes is None or sum(score is not None for score in sizes["scores"]) < 2:
        return None
    return report_plots.size_curve(sizes, TITLES.get(sizes["metric"], "score"))


def error_plot(selection: Selection) -> Markup | None:
    """Return the plot of how many of the first features are expected to be false, or None without error control."""
    control = selection.error_control
    if control is None or control.n_searched < 2:
        return None
    return report_plots.expected_false(control)


def pass_table(run: RunRecords, titles: dict[str, str]) -> ValueTable | None:
    """Return a table with a row for every pass, or None if the selection has no history."""
    history = run.selection.steps
    columns = {name: history[name] for name in titles if name in history}
    columns = {name: values for name, values in columns.items() if np.isfinite(values).any()}
    if not columns:
        return None
    cells = [[_cell(name, value) for value in values[:MOST_PASSES].tolist()] for name, values in columns.items()]
    more = len(history["objective"]) - MOST_PASSES
    note = f"… and {more:,} more; history.zarr has all." if more > 0 else ""
    rows = [(str(number), *row) for number, row in enumerate(zip(*cells, strict=True), 1)]
    return ValueTable(["pass", *(titles[name] for name in columns)], rows, note)


def _cell(name: str, value: float) -> str:
    if name in ("seconds", "bytes"):
        return seconds(value) if name == "seconds" else size(value)
    is_count = name != "objective" and value.is_integer() and abs(value) < 1e15
    return number(value, "{:,.0f}" if is_count else "{:,.6g}")


def pair_table(selection: Selection) -> ValueTable | None:
    """Return a table of the features that take part in most products, or None if there are no products."""
    if selection.products is None:
        return None
    pairs = list(compress(selection.products.names, selection.products.is_product))
    taking_part = Counter(name for pair in pairs for name in set(pair)).most_common(MOST_PARENTS)
    note = f"{len(pairs):,} of the {counted(len(selection.features), 'feature')} are products of two others."
    return ValueTable(("feature", "pairs it is in"), taking_part, note)


def command(run: RunRecords) -> list[str]:
    """Return lines that repeat the selection run: the recorded command or job file, or else a line of Python."""
    recorded = without_secrets(run.record.get("command") or run.record.get("job"))
    if isinstance(recorded, list):
        recorded = shlex.join(map(str, recorded))
    elif isinstance(recorded, dict):
        recorded = tomli_w.dumps(recorded)
    selection = run.selection
    fields = ", ".join(f"{name}={value!r}" for name, value in selection.algorithm.items() if name != "name")
    algorithm = f"daskfs.{selection.algorithm.get('name', '')}({fields})"
    python = f"daskfs.select({selection.source['url']!r}, {algorithm}, seed={selection.seed})"
    return str(recorded or python)[:LONGEST_COMMAND].rstrip().split("\n")
