"""Cards of the report on single features: distributions, effects and correlated alternatives, from `profiles.json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from daskfs.observe.report import plots
from daskfs.observe.report.text import label, number, visible
from daskfs.selection.records import Record

OPEN = 12  # cards that are shown at once
LONGEST = 60  # characters of a name


@dataclass(frozen=True, slots=True)
class Card:
    """What the report says of one feature.

    Parameters
    ----------
    name, share
        Its name, and its share in the importance of all.
    plots
        Small plots: a caption, the plot, and the texts below its left and its right end.
    shares
        For a sparse feature, a line for every class: the class, the share of its rows that have the feature, the share
        as a length of at most 1 that compares between features, and the mean value there.
    lines
        Sentences.
    """

    name: str
    share: float
    plots: list[tuple[str, Markup, str, str]]
    shares: list[tuple[str, float, float, str]]
    lines: list[str]


def can_be_drawn(feature: Record) -> bool:
    """Return whether the numbers of a feature's plots are there, and are as many as belong together."""
    fits, effect = True, feature.get("effect")
    if "edges" in feature:
        fits = len(feature["edges"]) > 0 and _are_lines(feature.get("counts", []))
    if "places" in feature:
        fits = fits and _are_lines([feature["places"], feature.get("means", [])])
    return fits and (not effect or _are_lines([effect["values"], *effect["means"]], least=2))


def _are_lines(lines: Sequence[object], least: int = 1) -> bool:
    """Return whether these are at least `least` lists, none of them empty, all of the same length."""
    lengths = {len(line) if isinstance(line, list) else 0 for line in lines}
    return len(lines) >= least and len(lengths) == 1 and 0 not in lengths


def cards(profiles: Record | None, target: str) -> list[Card]:
    """Return a card for every feature of a record of profiles; `target` is a word for what is predicted."""
    if profiles is None:
        return []
    return [_card(feature, profiles, target) for feature in profiles["features"]]


def shown_classes(profiles: Record | None) -> list[str]:
    """Return the labels of the classes that the plots of features show, in the order of their colours."""
    classes = None if profiles is None else profiles.get("classes")
    if profiles is None or not classes:
        return []
    return [label(classes[at]["class"]) for at in profiles.get("shown", []) if at < len(classes)]


def explanation(profiles: Record | None) -> str:
    """Return sentences on how to read the cards, and on the rows behind them."""
    if not profiles or not profiles["features"]:
        return ""
    feature, rows = profiles["features"][0], profiles["rows"]
    of = f"{rows:,} rows"
    if (sampled := profiles.get("sampled", rows)) < rows:
        of = f"{sampled:,} evenly spaced of {rows:,} rows"
    if "places" in feature:
        return f"The dots are mean targets of rows with about the same value, from {of}; all have the same scale."
    if "edges" in feature:
        return f"The shapes are the distributions of its values in {of}; all have the same area."
    return f"The bars are shares of the {rows:,} rows."


def balance(profiles: Record | None, most: int) -> list[tuple[str, int, float]]:
    """Return label, rows and share of the most frequent classes, most frequent first."""
    classes = (profiles or {}).get("classes") or []
    total = max(sum(each["rows"] for each in classes), 1)
    ordered = sorted(classes, key=lambda each: -int(each["rows"]))[:most]
    return [(label(each["class"]), each["rows"], each["rows"] / total) for each in ordered]


def _card(feature: Record, profiles: Record, target: str) -> Card:
    name = visible(feature["name"], LONGEST)
    small, lines = [], []
    classes = shown_classes(profiles)
    if effect := feature.get("effect"):
        small.append(_effect(effect, profiles, name, target))
    if "edges" in feature:
        small.append(_distribution(feature, classes, name))
    if "places" in feature:
        small.append(_means(feature, profiles, name, target))
    shares = _presence(feature, profiles, classes)
    if feature.get("with") is not None:
        lines.append(f"Mean {target}: {number(feature['with'])} with it, {number(feature.get('without'))} without.")
    if alternatives := feature.get("alternatives"):
        some = ", ".join(
            f"{visible(other['name'], LONGEST)} ({_signed(other['correlation'])})" for other in alternatives
        )
        lines.append(f"Correlated: {some}.")
    return Card(name, feature["importance"], small, shares, lines)


def _distribution(feature: Record, classes: Sequence[str], name: str) -> tuple[str, Markup, str, str]:
    """Return the distribution of the values of each class; every class has the same area."""
    shares = [[count / max(sum(counts), 1) for count in counts] for counts in feature["counts"]]
    caption = "Values by class" if classes else "Values"
    plot = plots.distributions(shares, f"Distribution of {name}{' by class' if classes else ''}")
    return caption, plot, number(feature["edges"][0]), number(feature["edges"][-1])


def _means(feature: Record, profiles: Record, name: str, target: str) -> tuple[str, Markup, str, str]:
    low, high = min(feature["means"]), max(feature["means"])
    ends = _shared_ends(other["means"] for other in profiles["features"] if "places" in other)
    plot = plots.small_lines(feature["places"], [feature["means"]], ends, f"Mean {target} by {name}", dots=True)
    caption = f"Mean {target}, {number(low)} to {number(high)}"
    return caption, plot, number(feature["places"][0]), number(feature["places"][-1])


def _shared_ends(lines: Iterable[Sequence[float]]) -> tuple[float, float]:
    """Return the lowest and the highest value of all features, so that their plots compare."""
    values = [value for line in lines for value in line]
    return min(values), max(values)


def _effect(effect: Record, profiles: Record, name: str, target: str) -> tuple[str, Markup, str, str]:
    """Return the effect of an input: of two classes on the second class, of several on each class that is shown."""
    means = effect["means"]
    if len(means) > 1:
        means = [means[at] for at in profiles.get("shown", []) if at < len(means)] or means
    what = {"probability": "probability", "score": "score"}.get(profiles.get("effect_of", ""), target)
    low, high = min(map(min, means)), max(map(max, means))
    ends = _shared_ends(
        line for other in profiles["features"] if "effect" in other for line in other["effect"]["means"]
    )
    plot = plots.small_lines(effect["values"], means, ends, f"Predicted {what} by {name}", dots=False)
    of = ""
    if len(effect["means"]) == 1 and len(profiles.get("classes") or ()) == 2:
        of = f" of {label(profiles['classes'][1]['class'])}"
    caption = f"Predicted {what}{of}, {number(low)} to {number(high)}"
    return caption, plot, number(effect["values"][0]), number(effect["values"][-1])


def _presence(feature: Record, profiles: Record, classes: Sequence[str]) -> list[tuple[str, float, float, str]]:
    shares = _shares(feature, profiles)
    longest = max((share for other in profiles["features"] for share in _shares(other, profiles)), default=0.0) or 1.0
    names = classes or ["all rows"]
    means = [number(value) for value in feature.get("values", [])] or [""] * len(names)
    lines = zip(names, shares, means, strict=False)
    return [(name, share, share / longest, mean) for name, share, mean in lines]


def _shares(feature: Record, profiles: Record) -> list[float]:
    """Return the share of rows that have a sparse feature: of every class that is shown, or of all rows."""
    classes = profiles.get("classes") or []
    rows = [classes[at]["rows"] for at in profiles.get("shown", []) if at < len(classes)] or [profiles["rows"]]
    return [count / max(of, 1) for count, of in zip(feature.get("present", []), rows, strict=False)]


def _signed(correlation: float) -> str:
    return number(correlation, "{:+.2f}")
