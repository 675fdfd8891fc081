"""Sentences, key figures and tables of the report, from a selection and the records beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import compress

from daskfs.errors import public_url
from daskfs.observe.report.text import count, interval, label, number, seconds, size, visible
from daskfs.observe.tables import TITLES
from daskfs.protocol import Words
from daskfs.selection.records import Record
from daskfs.selection.selection import Selection

ENGINE_COLUMNS = {"objective": "objective", "seconds": "time", "bytes": "read"}
"""Titles of the columns that the history of every algorithm has."""
MOST_NAMED = 3  # classes that a sentence names
MOST_CLASSES = 200  # lines of a table
MOST_PARENTS = 10
LONGEST_URL = 300
LONGEST_METHOD = 500
SAME = "They are the same to the last bit: the seed makes no difference here, and that says nothing about other rows."


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure, such as score or time, at the top of the report's page."""

    label: str
    value: str
    note: str
    band: tuple[float, float, float] | None = None
    """The low end, value and high end of a score between 0 and 1, which the page draws."""
    main: bool = False
    """Whether the page shows this key figure larger than the others."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text with column titles, where the first cell of a row is the row's header."""

    titles: list[str]
    rows: list[list[str]]
    note: str = ""


@dataclass(frozen=True, eq=False)
class RunRecords:
    """A selection and the records of metrics, sizes, stability and costs in the same folder."""

    selection: Selection
    words: Words
    """The algorithm's title, titles of history columns, and explanation of the history."""
    run_record: Record
    """The record of time, memory and versions of the selection run; empty if there is no record."""
    metrics: Record | None
    sizes: Record | None
    stability: Record | None

    @property
    def times(self) -> dict[int, int] | None:
        """The number of selections under several seeds that have each feature, by feature id; None if unknown."""
        record = self.stability
        if record is None or record.get("of") == "inputs" or record.get("identical"):
            return None
        return {feature["id"]: feature["times"] for feature in record["features"]}


def headline(selection: Selection) -> str:
    """Return a line on the number of selected features, the number of all features, and the target they predict."""
    selected, source, purpose = len(selection.features), selection.source, _purpose(selection)
    if selection.inputs is not None:
        return f"{count(selected, 'random feature')} of {count(len(selection.inputs.names), 'column')} {purpose}"
    if selection.products is not None:
        return f"{count(selected, 'feature')} and pairs of {source['n_features']:,} {purpose}"
    return f"{selected:,} of {count(source['n_features'], 'feature')} {purpose}"


def _purpose(selection: Selection) -> str:
    ending = "s" if len(selection.features) == 1 else ""
    if selection.classes is None:
        return f"predict{ending} a number"
    if len(selection.classes) > MOST_NAMED:
        return f"tell{ending} {len(selection.classes):,} classes apart"
    *first, last = [visible(label(name), 40) for name in selection.classes]
    return f"tell{ending} the classes {', '.join(first)} and {last} apart"


def origin(run: RunRecords) -> tuple[str, str, str]:
    """Return the URL of the selection's dataset, the dataset's number of samples, and the title of the algorithm."""
    source = run.selection.source
    return address(source["url"]), count(source["n_samples"], "sample"), visible(run.words.title) or "hand"


def default_words(selection: Selection) -> Words:
    """Return the `Words` of an algorithm that is not registered, with its class name and column names as titles."""
    columns = {str(name): str(name).replace("_", " ") for name in selection.history if name not in ENGINE_COLUMNS}
    return Words(str(selection.algorithm.get("name", "")), columns)


def figures(run: RunRecords) -> list[Figure]:
    """Return the known key figures for the top of the page: score, stability, time and memory."""
    return [figure for figure in (_score(run), _stability(run), _time(run), _memory(run)) if figure is not None]


def _score(run: RunRecords) -> Figure | None:
    if run.metrics is None:
        return _held_back(run.selection)
    metrics, name = run.metrics["metrics"], main_metric(run.selection)
    value, ends = metrics.get(name), run.metrics["intervals"].get(name)
    if value is None:
        return None
    known = interval(ends)
    band = (ends[0], value, ends[1]) if known and min(*ends, value) >= 0 and max(*ends, value) <= 1 else None
    note = f"{TITLES[name]}, 95 % interval {known}" if known else TITLES[name]
    return Figure(f"Score on {_seen(run)}", number(value), note, band, main=True)


def _held_back(selection: Selection) -> Figure | None:
    """Return the algorithm's own score on held-back rows as a key figure, for a selection that was not evaluated."""
    history = selection.history
    values = [] if "held_back" not in history else [x for x in history["held_back"].values.tolist() if x == x]
    if not values:
        return None
    note = "while it was selected; daskfs evaluate says how good it is on unseen data"
    return Figure("Score on held-back rows", number(values[-1]), note, main=True)


def _seen(run: RunRecords) -> str:
    """Return a phrase for the data of the evaluation: the selection's own data, unseen data, or test data."""
    assert run.metrics is not None
    if run.metrics.get("digest") == run.selection.source["digest"]:
        return "the data it was selected from"
    return "unseen data" if run.metrics.get("held_back") is True else "test data"


def main_metric(selection: Selection) -> str:
    """Return the name of the metric that the page shows first: "r2" or "balanced_accuracy"."""
    return "r2" if selection.classes is None else "balanced_accuracy"


def _stability(run: RunRecords) -> Figure | None:
    record = run.stability
    if record is None or record["index"] is None or record.get("identical"):
        return None
    return Figure("Stability", number(record["index"], "{:.2f}"), f"1 = the same choice {_repeated(record, 'all ')}")


def _time(run: RunRecords) -> Figure | None:
    took, workers = run.run_record.get("seconds"), run.run_record.get("workers")
    if took is None:
        took = total(run.selection, "seconds")
    if not took:
        return None
    return Figure("Time", seconds(took), f"with {count(workers, 'worker')}" if workers else "for all passes")


def _memory(run: RunRecords) -> Figure | None:
    memory = run.run_record.get("memory")
    if memory is None or memory["promised"] is None:
        return None
    used = memory["used"]
    if used is None:
        return Figure("Memory", size(memory["promised"]), "promised before the first read")
    return Figure("Memory", size(used), f"of {size(memory['promised'])} promised")


def total(selection: Selection, column: str) -> float | None:
    """Return the sum of a column of the history over all passes, or None if the history lacks the column."""
    return None if column not in selection.history else float(selection.history[column].sum(skipna=True))


def metric_table(run: RunRecords) -> TextTable | None:
    """Return a table of all metrics with their intervals, or None if the selection was not evaluated."""
    if run.metrics is None:
        return None
    record = run.metrics
    known = {name: value for name, value in record["metrics"].items() if value is not None}
    rows = [
        [_metric(name, run), number(value), interval(record["intervals"].get(name))] for name, value in known.items()
    ]
    where = address(record.get("dataset", "a dataset"))
    weighted = ", weighted" if record.get("weighted") else ""
    unknown = record.get("unknown_rows") or 0
    strange = f", {unknown:,} of them with labels that the selection does not know" if unknown else ""
    note = f"Judged on {_seen(run)}: {where}, {count(record['rows'], 'row')}{weighted}{strange}."
    return TextTable(["metric", "value", "95 % interval"], rows, note) if rows else None


def _metric(name: str, run: RunRecords) -> str:
    """Return the title of a metric, with the name of the class for an area under a curve."""
    title, classes = TITLES.get(name, visible(name)), run.selection.classes
    if name not in ("roc_auc", "average_precision") or classes is None:
        return title
    return f"{title} of {label(classes[1])}" if len(classes) == 2 else f"{title}, mean over classes"


def class_table(run: RunRecords) -> TextTable | None:
    """Return a table of metrics with a row for every class, or None for two classes or fewer."""
    lines = (run.metrics or {}).get("per_class") or []
    if len(lines) <= 2:
        return None
    names = [name for name in TITLES if any(line.get(name) is not None for line in lines)]
    titles = ["class", "rows", *(TITLES[name] for name in names)]
    rows = [
        [label(line["class"]), number(line.get("rows"), "{:,.0f}"), *(number(line.get(name)) for name in names)]
        for line in lines[:MOST_CLASSES]
    ]
    if any(line.get("recall_interval") for line in lines):
        titles.append("95 % interval of recall")
        rows = [[*row, interval(line.get("recall_interval"))] for row, line in zip(rows, lines, strict=False)]
    more = len(lines) - MOST_CLASSES
    return TextTable(titles, rows, f"… and {more:,} classes more; metrics.json has all." if more > 0 else "")


def size_words(record: Record, metric: str) -> list[str]:
    """Return sentences on how models of fewer features were scored, and on the score of the selection itself."""
    lines = [visible(record["how"], LONGEST_METHOD)] if record.get("how") else []
    own = record.get("as_selected")
    if own and own["score"] is not None:
        ends = interval(own["interval"])
        sure = f" (95 % interval {ends})" if ends else ""
        lines.append(f"As selected, all {own['size']:,} with their own weights: {metric} {number(own['score'])}{sure}.")
    return lines


def feature_words(run: RunRecords) -> list[str]:
    """Return sentences on how to read the table of features."""
    selection, lines = run.selection, ["Most important first."]
    if selection.classes is not None and selection.weights.ndim == 1:
        low, high = map(label, selection.classes)
        lines.append(f"A weight above 0 speaks for {high}, one below 0 for {low}.")
    if selection.inputs is None:
        lines.append(
            "Weights are for columns as they are: one of large numbers has a small weight, and may matter most."
        )
    if run.times is not None and run.stability is not None:
        lines.append(f"“Chosen” counts how often a feature was selected {_repeated(run.stability)}.")
    wanted = selection.algorithm.get("n_select")
    if isinstance(wanted, int) and len(selection.features) < wanted:
        lines.append(f"{wanted:,} were asked for.")
    return lines


def stability_words(record: Record) -> list[str]:
    """Return sentences on the stability of the selection."""
    what = "input" if record.get("of") == "inputs" else "feature"
    seeds, features = len(record["seeds"]), record["features"]
    always = sum(feature["times"] >= seeds for feature in features)
    lines = [
        f"The same selection {_repeated(record)}: {count(record['distinct'], what)} came up at least once, "
        f"{always:,} every time."
    ]
    if record.get("identical"):
        return [*lines, SAME]
    if record["index"] is not None:
        ends = interval(record.get("interval"))
        known = f" (95 % interval {ends})" if ends else ""
        lines.append(
            f"Stability is {number(record['index'], '{:.2f}')}{known}: "
            "1 would be the same choice every time, 0 a choice by chance."
        )
    if record["jaccard"] is not None:
        shared = number(100 * record["jaccard"], "{:.0f}")
        lines.append(f"On average, two of the selections share {shared} % of what they chose between them.")
    if (correlation := record.get("rank_correlation")) is not None:
        lines.append(
            f"Their importance has a rank correlation of {number(correlation, '{:.2f}')}, averaged over pairs."
        )
    return lines


def _repeated(record: Record, every: str = "") -> str:
    """Return a phrase on the repeated selections, such as "under 5 seeds" or "from 10 halves of the rows"."""
    times = len(record["seeds"])
    if record.get("over") == "halves":
        return f"from {every}{times:,} halves of the rows"
    return f"under {every}{count(times, 'seed')}"


def address(url: str) -> str:
    """Return a URL as text for the page, without secrets."""
    return visible(public_url(url), LONGEST_URL)


def pair_table(selection: Selection) -> TextTable | None:
    """Return a table of the features that take part in most products, or None if there are no products."""
    if selection.products is None:
        return None
    pairs = list(compress(selection.products.names, selection.products.is_product))
    taking_part = Counter(name for pair in pairs for name in set(pair)).most_common(MOST_PARENTS)
    note = f"{len(pairs):,} of the {count(len(selection.features), 'feature')} are products of two others."
    return TextTable(
        ["feature", "pairs it is in"], [[visible(name), f"{times:,}"] for name, times in taking_part], note
    )
