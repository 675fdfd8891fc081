"""Plots as small SVGs: lines of means over a variable, one for each method, and the paper's own as dashes.

A line that lies on an earlier one has gaps, in which the other shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 400, 40, 252
COLOURS = ("#0b6e7f", "#c2571a", "#6b4fa0", "#3d8b40", "#b0336b", "#8a6d1a", "#3566b0", "#777777", "#a04545", "#2b9a8f")
STYLE = """
    :root { --paper: #ffffff; --line: #dde3e6; --ink: #172026; }
    @media (prefers-color-scheme: dark) { :root { --paper: #14181c; --line: #323b42; --ink: #e6ebee; } }
    text { fill: var(--ink); font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
    .title { font-size: 14px; font-weight: 620; }
    .end { text-anchor: end; } .middle { text-anchor: middle; }
    .grid { stroke: var(--line); } .curve { fill: none; stroke-width: 2; }
"""

Curve = dict[float, float]


def draw(title: str, across: str, curves: dict[str, Curve], dashed: Sequence[str] = ()) -> str:
    """Return the plot of some curves, each from values of the variable to means."""
    xs = sorted({x for curve in curves.values() for x in curve})
    ys = [y for curve in curves.values() for y in curve.values()]
    low, high, step = ticks_of(min(ys), max(ys))
    logarithmic = xs[0] > 0 and xs[-1] / xs[0] >= 8

    def at_x(x: float) -> float:
        share = [math.log(v) if logarithmic else v for v in (x, xs[0], xs[-1])]
        return LEFT + (RIGHT - LEFT) * ((share[0] - share[1]) / (share[2] - share[1]) if len(xs) > 1 else 0.5)

    def at_y(y: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (y - low) / (high - low)

    parts = [_text(24, 24, title, "title")]
    for number in range(round((high - low) / step) + 1):
        y = low + number * step
        parts += [
            f'  <path class="grid" d="M{LEFT} {at_y(y):.1f} H{RIGHT}"/>',
            _text(LEFT - 8, at_y(y) + 4, f"{y:.4g}", "end"),
        ]
    parts += [_text(at_x(x), BOTTOM + 18, f"{x:,.6g}", "middle") for x in _some(xs)]
    parts.append(_text((LEFT + RIGHT) / 2, BOTTOM + 36, across, "middle"))
    for number, (name, curve) in enumerate(curves.items()):
        colour, dashes = COLOURS[number % len(COLOURS)], ' stroke-dasharray="5 4"' if name in dashed else ""
        dashes = dashes or ' stroke-dasharray="9 9"' * (curve in list(curves.values())[:number])
        points = [(at_x(x), at_y(curve[x])) for x in sorted(curve)]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'  <path class="curve" stroke="{colour}"{dashes} d="M{path}"/>')
        parts += [f'  <circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        y = TOP + 6 + 19 * number
        parts.append(f'  <path class="curve" stroke="{colour}"{dashes} d="M{RIGHT + 16} {y} h22"/>')
        parts.append(_text(RIGHT + 44, y + 4, name))
    height = max(HEIGHT, TOP + 19 * len(curves) + 12)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"  <title>{escape(title)}</title>",
            f"  <style>{STYLE}  </style>",
            f'  <rect width="{WIDTH}" height="{height}" rx="10" fill="var(--paper)" stroke="var(--line)"/>',
            *parts,
            "</svg>\n",
        ]
    )


def ticks_of(least: float, largest: float) -> tuple[float, float, float]:
    """The ends of an axis around two values, and the step between its ticks: about five, at round numbers.

    >>> ticks_of(0.12, 0.97)
    (0.0, 1.0, 0.2)
    """
    span = (largest - least) or abs(largest) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= span / 5)
    low, high = math.floor(least / step), math.ceil(largest / step)
    return round(low * step, 10), round(max(high, low + 1) * step, 10), round(step, 10)


def _some(xs: Sequence[float]) -> list[float]:
    """At most six of the values, the first and the last among them."""
    every = max(1, math.ceil((len(xs) - 1) / 5))
    return [*xs[:-1:every], xs[-1]]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'  <text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>'
