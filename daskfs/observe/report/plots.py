"""The report's plots: SVG without scripts, whose colours are those of the style sheet, so that all show light or dark.

Every mark that stands for numbers has them in a <title>, which browsers show under the pointer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from daskfs.observe.report.text import number
from daskfs.protocol import ErrorControl
from daskfs.selection.records import Record

WIDTH, HEIGHT = 440, 230
SMALL_WIDTH, SMALL_HEIGHT = 240, 84
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 40  # the margins for ticks and titles
MOST_TICKS = 6
MOST_SEEDS = 1000
COLOURS = 6  # of classes, in the style sheet

Numbers = Sequence[float] | NDArray[Any]


class Chart:
    """A plot in the making: marks are added in order, in the units of the data.

    Parameters
    ----------
    x, y
        Values that both axes must cover.
    titles
        The titles of both axes.
    logarithmic
        Whether the horizontal axis is logarithmic.
    """

    def __init__(self, x: Numbers, y: Numbers, titles: tuple[str, str], *, logarithmic: bool = False) -> None:
        self._log = logarithmic
        self._x_ends, self._y_ends = _ends(x), _ends(y)
        self._parts: list[Markup] = []
        self._titles = titles
        self._x_ticks: Sequence[float] = ticks(*self._x_ends)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is drawn."""
        low, high = (math.log(end) for end in self._x_ends) if self._log else self._x_ends
        across = ((math.log(x) if self._log else x) - low) / (high - low)
        up = (y - self._y_ends[0]) / (self._y_ends[1] - self._y_ends[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def x_ticks(self, values: Sequence[float]) -> None:
        """Draw ticks of the horizontal axis at these values."""
        self._x_ticks = values

    def line(self, x: Numbers, y: Numbers, kind: str = "line") -> None:
        """Draw a line through points; `kind` is a class of the style sheet."""
        self._parts.append(_path([self.place(*pair) for pair in zip(x, y, strict=True)], kind))

    def band(self, x: Numbers, low: Numbers, high: Numbers) -> None:
        """Fill the area between two lines."""
        around = [*zip(x, high, strict=True), *reversed(list(zip(x, low, strict=True)))]
        self._parts.append(_path([self.place(*pair) for pair in around], "band", closed=True))

    def dots(self, x: Numbers, y: Numbers, titles: Iterable[str], kind: str = "dot", radius: float = 3.5) -> None:
        """Draw a dot for every point, with a title each."""
        for pair, title in zip(zip(x, y, strict=True), titles, strict=True):
            across, up = self.place(*pair)
            self._parts.append(
                Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>').format(
                    kind, across, up, radius, title
                )
            )

    def bars(self, x: Numbers, heights: Numbers, titles: Iterable[str]) -> None:
        """Draw a bar at every whole number, with a title each."""
        for at, height, title in zip(x, heights, titles, strict=True):
            (left, top), (right, bottom) = self.place(at - 0.35, height), self.place(at + 0.35, 0)
            self._parts.append(_rectangle(left, top, right - left, bottom - top, title))

    def svg(self, label: str) -> Markup:
        """Return the plot, with a label for those who do not see it."""
        axes = []
        for value in ticks(*self._y_ends):
            _, up = self.place(self._x_ends[0], value)
            axes.append(_path([(LEFT, up), (WIDTH - RIGHT, up)], "grid-line"))
            axes.append(_text(LEFT - 6, up + 4, _tick(value), "end"))
        for value in self._x_ticks:
            across, _ = self.place(value, self._y_ends[0])
            axes.append(_text(across, HEIGHT - BOTTOM + 16, _tick(value), "middle"))
        axes.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, self._titles[0], "middle"))
        if self._titles[1]:
            middle = (TOP + HEIGHT - BOTTOM) / 2
            turned = Markup(
                '<text class="tick" transform="translate(12 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>'
            )
            axes.append(turned.format(middle, self._titles[1]))
        return _svg(WIDTH, HEIGHT, "chart", label, [*axes, *self._parts])


def size_curve(record: Record, metric: str) -> Markup:
    """Return a plot of scores by number of features, with the 95 % intervals as a band."""
    known = [at for at, score in enumerate(record["scores"]) if score is not None]
    sizes, scores = ([record[name][at] for at in known] for name in ("sizes", "scores"))
    bounds = [(at, *record["intervals"][at]) for at in known if None not in record["intervals"][at]]
    is_wide = max(sizes) > 10 * min(sizes)
    heights = [*scores, *(end for bound in bounds for end in bound[1:])]
    chart = Chart(sizes, heights, ("number of features", metric), logarithmic=is_wide)
    chart.x_ticks(_few(sizes) if is_wide else whole_ticks(min(sizes), max(sizes)))
    if len(bounds) > 1:
        chart.band(
            [record["sizes"][at] for at, *_ in bounds], [low for _, low, _ in bounds], [high for *_, high in bounds]
        )
    chart.line(sizes, scores)
    chart.dots(
        sizes, scores, (f"{size:,} features: {number(score)}" for size, score in zip(sizes, scores, strict=True))
    )
    return chart.svg(f"Line: {metric} by number of features, with 95 % intervals; the numbers follow")


def expected_false(control: ErrorControl) -> Markup:
    """Return a line of how many of the first features are expected to be false, with the cut of those reported."""
    ranks, expected = range(1, control.n_searched + 1), control.expected_false
    chart = Chart([0.5, control.n_searched + 0.5], [0, *expected], ("number of features", "expected to be false"))
    chart.x_ticks(whole_ticks(1, control.n_searched))
    cut = control.n_reported + 0.5
    chart.line([cut, cut], [0, max(expected)], "reference")
    chart.line(ranks, expected)
    lines = zip(ranks, expected, control.q_values, strict=True)
    titles = (f"first {rank:,}: at most about {count:.3g} false, q-value {q:.3g}" for rank, count, q in lines)
    chart.dots(ranks, expected, titles, radius=2.5)
    return chart.svg(
        f"Line: how many of the first features are expected to be false; {control.n_reported:,} are reported"
    )


def history_curve(steps: Numbers, values: Numbers, title: str) -> Markup:
    """Return a line plot of a number by pass."""
    chart = Chart(steps, values, ("pass", ""))
    chart.x_ticks(whole_ticks(int(steps[0]), int(steps[-1])))
    chart.line(steps, values)
    chart.dots(steps, values, (f"pass {step}: {value:.6g}" for step, value in zip(steps, values, strict=True)))
    return chart.svg(f"Line: {title} by pass; the numbers follow")


def stability_bars(record: Record) -> Markup | None:
    """Return bars for how many features were selected how often, or None if there is nothing to draw."""
    seeds, often = len(record["seeds"]), Counter(feature["times"] for feature in record["features"])
    heights = [often[times] for times in range(1, seeds + 1)]
    if not any(heights) or not 1 < seeds <= MOST_SEEDS:
        return None
    what = "inputs" if record.get("of") == "inputs" else "features"
    chart = Chart([0.5, seeds + 0.5], [0, *heights], ("times chosen", what))
    chart.x_ticks(whole_ticks(1, seeds))
    chart.bars(range(1, seeds + 1), heights, (f"{often[at]:,} {what} {at:,} times" for at in range(1, seeds + 1)))
    return chart.svg(f"Bars: how many {what} were chosen how often, of {seeds} times")


def roc_curve(record: Record, area: float | None) -> Markup:
    """Return the ROC curve, beside the diagonal of a guess."""
    chart = Chart([0, 1], [0, 1], ("share of other rows", "share of rows found"))
    chart.line([0, 1], [0, 1], "reference")
    chart.line(record["false_positive"], record["true_positive"])
    return chart.svg(f"ROC curve, area {number(area)}")


def calibration_curve(record: Record) -> Markup:
    """Return the share of rows of a class by predicted probability, beside the diagonal of a calibrated model."""
    chart = Chart([0, 1], [0, 1], ("predicted probability", "share of rows"))
    chart.line([0, 1], [0, 1], "reference")
    chart.line(record["predicted"], record["share"])
    lines = zip(record["predicted"], record["share"], record["rows"], strict=True)
    chart.dots(
        record["predicted"],
        record["share"],
        (f"predicted {number(p)}, true {number(share)}, {rows:,.0f} rows" for p, share, rows in lines),
    )
    return chart.svg("Calibration: the share of rows of the class by predicted probability")


def scatter(record: Record) -> Markup:
    """Return predicted against true values, beside the diagonal of perfect predictions."""
    values = [*record["true"], *record["predicted"]]
    chart = Chart(record["true"], values, ("true", "predicted"))
    low, high = min(record["true"]), max(record["true"])
    lines = zip(record["true"], record["predicted"], strict=True)
    titles = (f"true {number(true)}, predicted {number(predicted)}" for true, predicted in lines)
    chart.dots(record["true"], record["predicted"], titles, "point", 2)
    chart.line([low, high], [low, high], "reference")
    return chart.svg("Predicted against true values of some rows")


def distributions(shares: Sequence[Numbers], label: str) -> Markup:
    """Return small filled outlines, one for each class, of the shares of rows in bins of equal width."""
    top = max(max(each) for each in shares) or 1.0
    parts = []
    for at, each in enumerate(shares):
        width, outline = SMALL_WIDTH / len(each), [(0.0, float(SMALL_HEIGHT))]
        for place, share in enumerate(each):
            up = SMALL_HEIGHT - (SMALL_HEIGHT - 4) * share / top
            outline += [(place * width, up), ((place + 1) * width, up)]
        outline.append((SMALL_WIDTH, SMALL_HEIGHT))
        parts.append(_path(outline, f"class-{at % COLOURS} outline", closed=True))
    return _svg(SMALL_WIDTH, SMALL_HEIGHT, "small", label, parts)


def small_lines(x: Numbers, lines: Sequence[Numbers], ends: tuple[float, float], label: str, *, dots: bool) -> Markup:
    """Return small lines, one for each class, in a plot whose lower and upper edge are at `ends`."""
    (left, right), (low, high) = _ends(x), _ends(ends)
    parts = []
    wide, tall = (SMALL_WIDTH - 8) / (right - left), (SMALL_HEIGHT - 10) / (high - low)
    for at, line in enumerate(lines):
        pairs = zip(x, line, strict=True)
        points = [(4 + wide * (across - left), SMALL_HEIGHT - 5 - tall * (up - low)) for across, up in pairs]
        kind = f"class-{at % COLOURS}"
        parts.append(_path(points, f"{kind} line"))
        for (across, up), a, b in zip(points, x, line, strict=True) if dots else ():
            dot = Markup('<circle class="{} dot" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{}: {}</title></circle>')
            parts.append(dot.format(kind, across, up, number(a), number(b)))
    return _svg(SMALL_WIDTH, SMALL_HEIGHT, "small", label, parts)


def ticks(low: float, high: float) -> list[float]:
    """Return at most about `MOST_TICKS` round numbers between two numbers.

    >>> ticks(0.0, 1.0), ticks(0.69, 0.85)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.7, 0.75, 0.8, 0.85])
    """
    rough = (high - low) / (MOST_TICKS - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next((unit * each for each in (1, 2, 5) if unit * each >= rough * 0.999), unit * 10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{at * step:.12g}") for at in range(first, last + 1)]


def whole_ticks(first: int, last: int) -> list[int]:
    """Return at most about `MOST_TICKS` equidistant whole numbers.

    >>> whole_ticks(1, 12)
    [1, 3, 5, 7, 9, 11]
    """
    return list(range(first, last + 1, -(-(last - first + 1) // MOST_TICKS)))


def _few(values: Sequence[int]) -> list[int]:
    """Return no more than `MOST_TICKS` of the values, evenly spaced, including the first and the last."""
    at = np.unique(np.linspace(0, len(values) - 1, MOST_TICKS).round().astype(int))
    return [values[place] for place in at.tolist()]


def _ends(values: Numbers) -> tuple[float, float]:
    """Return the lowest and the highest value, apart from each other even if all values are equal."""
    low, high = float(min(values)), float(max(values))
    return (low, high) if high - low > 1e-12 * max(abs(low), abs(high)) else (low - 0.5, high + 0.5)


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and 1000 <= abs(value) < 1e7 else f"{value:.6g}".replace("-", "−")


def _path(points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    drawn = "L".join(f"{across:.1f} {up:.1f}" for across, up in points)
    return Markup('<path class="{}" d="M{}{}"/>').format(kind, drawn, "Z" if closed else "")


def _rectangle(x: float, y: float, width: float, height: float, title: str) -> Markup:
    shape = Markup('<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>')
    return shape.format(x, y, width, height, title)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _svg(width: int, height: int, kind: str, label: str, parts: Iterable[Markup]) -> Markup:
    start = Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(kind, width, height, label)
    return start + Markup("").join(parts) + Markup("</svg>")
