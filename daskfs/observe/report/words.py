"""What the report says in words and figures, from a selection and the records beside it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from daskfs.errors import public_url
from daskfs.observe.report.text import count, interval, label, number, seconds, size, visible
from daskfs.observe.tables import TITLES
from daskfs.protocol import Words
from daskfs.selection.records import METRICS, RUN_RECORD, SIZES, STABILITY, Record
from daskfs.selection.selection import Selection

ENGINE_COLUMNS = {"objective": "objective", "seconds": "time", "bytes": "read"}
"""Titles of columns that the history of every algorithm has."""
MOST_NAMED = 3  # classes that a sentence names
MOST_CLASSES = 200  # lines of a table
MOST_PARENTS = 10
LONGEST_URL = 300
LONGEST_HOW = 500
SAME = "They are the same to the last bit: the seed makes no difference here, and that says nothing about other rows."


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the few figures at the top of the page."""

    label: str
    value: str
    note: str
    band: tuple[float, float, float] | None = None
    """Low end, value and high end of a score between 0 and 1, to be drawn."""
    main: bool = False
    """Whether it is what people look for first."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text below a line of titles; the first column says what the row is about."""

    titles: list[str]
    rows: list[list[str]]
    note: str = ""


@dataclass(frozen=True, eq=False)
class RunRecords:
    """A selection, and whatever is known of it besides, by the name of the record."""

    selection: Selection
    records: dict[str, Record]
    words: Words
    """How to speak of the algorithm and of its history."""

    @property
    def metrics(self) -> Record | None:
        return self.records.get(METRICS)

    @property
    def sizes(self) -> Record | None:
        return self.records.get(SIZES)

    @property
    def stability(self) -> Record | None:
        return self.records.get(STABILITY)

    @property
    def made(self) -> Record:
        """How the run went; empty if nobody wrote it down."""
        return self.records.get(RUN_RECORD, {})

    @property
    def times(self) -> dict[int, int] | None:
        """How often features were chosen under several seeds."""
        record = self.stability
        if record is None or record.get("of") == "inputs" or record.get("identical"):  # or there is nothing in it
            return None
        return {feature["id"]: feature["times"] for feature in record["features"]}


def headline(selection: Selection) -> str:
    """The answer in a line: so many of so many features, and what they are good for."""
    chosen, source = len(selection.features), selection.source
    if selection.inputs is not None:
        columns = count(len(selection.inputs.names), "column")
        return f"{count(chosen, 'random feature')} of {columns} {_purpose(selection, chosen)}"
    if selection.products is not None:
        return f"{count(chosen, 'feature')} and pairs of {source['n_features']:,} {_purpose(selection, chosen)}"
    return f"{chosen:,} of {count(source['n_features'], 'feature')} {_purpose(selection, chosen)}"


def _purpose(selection: Selection, chosen: int) -> str:
    one = chosen == 1
    if selection.classes is None:
        return f"{'predicts' if one else 'predict'} a number"
    if len(selection.classes) > MOST_NAMED:
        return f"{'tells' if one else 'tell'} {len(selection.classes):,} classes apart"
    *first, last = [visible(label(name), 40) for name in selection.classes]
    return f"{'tells' if one else 'tell'} the classes {', '.join(first)} and {last} apart"


def origin(run: RunRecords) -> tuple[str, str, str]:
    """Return the dataset that features were selected from, its number of samples, and the title of the algorithm."""
    source = run.selection.source
    return address(source["url"]), count(source["n_samples"], "sample"), visible(run.words.title) or "hand"


def default_words(selection: Selection) -> Words:
    """Return words for an algorithm that is not registered: the names of its class and of its columns as they are."""
    columns = {str(name): str(name).replace("_", " ") for name in selection.history if name not in ENGINE_COLUMNS}
    return Words(str(selection.algorithm.get("name", "")), columns)


def figures(run: RunRecords) -> list[Figure]:
    """The figures at the top of the page, as far as they are known."""
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
    """What the algorithm itself saw on rows it had put aside, where nobody has evaluated the selection."""
    history = selection.history
    values = [] if "held_back" not in history else [x for x in history["held_back"].values.tolist() if x == x]
    if not values:
        return None
    note = "while it was selected; daskfs evaluate says how good it is on unseen data"
    return Figure("Score on held-back rows", number(values[-1]), note, main=True)


def _seen(run: RunRecords) -> str:
    """Whether the data of the evaluation are those of the selection, others, or rows held back from the same source."""
    assert run.metrics is not None
    if run.metrics.get("digest") == run.selection.source["digest"]:
        return "the data it was selected from"
    return "unseen data" if run.metrics.get("held_back") is True else "test data"


def main_metric(selection: Selection) -> str:
    """The metric that speaks for all."""
    return "r2" if selection.classes is None else "balanced_accuracy"


def _stability(run: RunRecords) -> Figure | None:
    record = run.stability
    if record is None or record["index"] is None or record.get("identical"):
        return None
    return Figure("Stability", number(record["index"], "{:.2f}"), f"1 = the same choice {_repeated(record, 'all ')}")


def _time(run: RunRecords) -> Figure | None:
    took, workers = run.made.get("seconds"), run.made.get("workers")
    if took is None:
        took = total(run.selection, "seconds")
    if not took:
        return None
    return Figure("Time", seconds(took), f"with {count(workers, 'worker')}" if workers else "for all passes")


def _memory(run: RunRecords) -> Figure | None:
    memory = run.made.get("memory")
    if memory is None or memory["promised"] is None:
        return None
    used = memory["used"]
    if used is None:
        return Figure("Memory", size(memory["promised"]), "promised before the first read")
    return Figure("Memory", size(used), f"of {size(memory['promised'])} promised")


def total(selection: Selection, column: str) -> float | None:
    """The sum of a column of the history over all passes."""
    return None if column not in selection.history else float(selection.history[column].sum(skipna=True))


def metric_table(run: RunRecords) -> TextTable | None:
    """Every metric with its interval."""
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
    """A metric's title; of an area, whose it is."""
    title, classes = TITLES.get(name, visible(name)), run.selection.classes
    if name not in ("roc_auc", "average_precision") or classes is None:
        return title
    return f"{title} of {label(classes[1])}" if len(classes) == 2 else f"{title}, mean over classes"


def class_table(run: RunRecords) -> TextTable | None:
    """A line for every class, where there are more than two: of two, the metrics say it all."""
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
    """How scores of fewer features came about, and what the selection itself scores."""
    lines = [visible(record["how"], LONGEST_HOW)] if record.get("how") else []
    own = record.get("as_selected")
    if own and own["score"] is not None:
        ends = interval(own["interval"])
        told = f" (95 % interval {ends})" if ends else ""
        lines.append(f"As selected, all {own['size']:,} with their own weights: {metric} {number(own['score'])}{told}.")
    return lines


def feature_words(run: RunRecords) -> list[str]:
    """How to read the table of features."""
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
    asked = selection.algorithm.get("n_select")
    if isinstance(asked, int) and len(selection.features) < asked:
        lines.append(f"{asked:,} were asked for.")
    return lines


def stability_words(record: Record) -> list[str]:
    """How much of the choice is chance, in a few sentences."""
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
        told = f" (95 % interval {ends})" if ends else ""
        lines.append(
            f"Stability is {number(record['index'], '{:.2f}')}{told}: "
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
    """Under which circumstances a selection was made again and again."""
    times = len(record["seeds"])
    if record.get("over") == "halves":
        return f"from {every}{times:,} halves of the rows"
    return f"under {every}{count(times, 'seed')}"


def address(url: str) -> str:
    """A URL as the page shows it, without keys."""
    return visible(public_url(url), LONGEST_URL)


def pair_table(selection: Selection) -> TextTable | None:
    """Which features take part in most products."""
    if selection.products is None:
        return None
    pairs = [
        names for names, is_one in zip(selection.products.names, selection.products.is_product, strict=True) if is_one
    ]
    taking_part = Counter(name for pair in pairs for name in set(pair)).most_common(MOST_PARENTS)
    note = f"{len(pairs):,} of the {count(len(selection.features), 'feature')} are products of two others."
    return TextTable(
        ["feature", "pairs it is in"], [[visible(name), f"{times:,}"] for name, times in taking_part], note
    )
