"""Draw docs/front-door.svg, the picture of the README, from docs/front-door.json.

    python pipelines/docs/front_door.py

`pipelines/benchmarks/front_door.py --json docs/front-door.json` measures the scores. No number is in this file.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from statistics import mean
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
WORDS = {
    "mixed": "numbers and categories",
    "wide": "few of many columns count",
    "text": "documents",
    "classes": "eight classes, many scales",
    "dates": "dates, and an identifier",
    "gaps": "a tenth of it missing",
    "rare": "one in a hundred positive",
    "regression": "a price",
    "ordered": "sorted by class",
    "tiny": "hardly any rows",
    "breast cancer": "malignant or benign",
    "digits": "ten classes of pixels",
    "wine": "three growers",
    "diabetes": "progress of a disease",
}
WIDTH, LEFT, RIGHT, TOP, ROW = 940, 320, 630, 136, 25
STYLE = """
    :root {
      --paper: #ffffff; --line: #dde3e6; --ink: #172026; --quiet: #55626b; --accent: #0b6e7f; --rival: #c2571a;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --paper: #14181c; --line: #323b42; --ink: #e6ebee; --quiet: #a3b0b9; --accent: #4fc3d6; --rival: #f0985c;
      }
    }
    text { fill: var(--ink); font: 13.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
    .title { font-size: 18px; font-weight: 650; }
    .quiet { fill: var(--quiet); font-size: 12.5px; }
    .head { font-weight: 620; }
    .end { text-anchor: end; font-variant-numeric: tabular-nums; }
    .middle { text-anchor: middle; }
    .ours { fill: var(--accent); }
    .theirs { fill: none; stroke: var(--rival); stroke-width: 2.2; }
    .line { stroke: var(--line); }
"""


class Plot:
    """Rows of two scores on one axis.

    Parameters
    ----------
    lowest
        The score at the left end of the axis; the right end is 1.
    """

    def __init__(self, lowest: float) -> None:
        self.lowest, self.y, self.parts = lowest, TOP, list[str]()

    def at(self, score: float) -> float:
        return LEFT + (RIGHT - LEFT) * (score - self.lowest) / (1 - self.lowest)

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        self.parts.append(f'  <text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>')

    def mark(self, x: float, y: float, kind: str) -> None:
        radius = 5 if kind == "ours" else 7.5
        self.parts.append(f'  <circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="{kind}"/>')

    def head(self, title: str) -> None:
        self.text(24, self.y + 12, title, "head")
        self.y += ROW

    def row(self, table: dict[str, Any]) -> None:
        """Add a table with both scores, as marks and as numbers."""
        ours, theirs, y = mean(table["daskfs"]), mean(table["sklearn"]), self.y + 12
        name = table["table"]
        self.parts.append(f'  <path class="line" d="M{LEFT} {y - 4} H{RIGHT}"/>')
        self.text(24, y, name)
        self.text(130, y, WORDS[name], "quiet")
        self.mark(self.at(theirs), y - 4, "theirs")
        self.mark(self.at(ours), y - 4, "ours")
        self.text(690, y, f"{ours:.3f}", "end")
        self.text(780, y, f"{theirs:.3f}", "end")
        self.text(796, y, table["metric"], "quiet")
        self.y += ROW

    def axis(self) -> None:
        for tenth in range(round(self.lowest * 10), 11, 2 if self.lowest < 0.5 else 1):
            x = self.at(tenth / 10)
            self.parts.insert(0, f'  <path class="line" d="M{x:.0f} {TOP + 8} V{self.y}"/>')
            self.text(x, self.y + 16, f"{tenth / 10:g}", "quiet middle")


def draw(saved: dict[str, Any]) -> str:
    """Return the picture of saved results."""
    tables = saved["tables"]
    plot = Plot(int(10 * min(mean(table[who]) for table in tables for who in ("daskfs", "sklearn"))) / 10)
    plot.text(24, 36, "One command beside a pipeline written by hand", "title")
    plot.text(24, 58, "Scores on rows that neither has seen, with the same number of features. 1 is perfect.", "quiet")
    plot.mark(30, 80, "ours")
    plot.text(44, 85, "daskfs select TABLE -k K --label y, and nothing else")
    plot.mark(30, 104, "theirs")
    plot.text(44, 109, "scikit-learn: impute, encode, scale, then the best of SelectKBest and L1, and a fit")
    plot.text(690, TOP + 12, "daskfs", "end quiet")
    plot.text(780, TOP + 12, "scikit-learn", "end quiet")
    for title, is_real in (("Real tables", True), ("Made tables, each with a trouble", False)):
        plot.head(title)
        for table in tables:
            if table["real"] == is_real:
                plot.row(table)
        plot.y += 8
    plot.axis()
    height = plot.y + 34
    title = "Scores of daskfs select and of a scikit-learn pipeline on real and made tables"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"  <title>{title}</title>",
            f"  <style>{STYLE}  </style>",
            f'  <rect width="{WIDTH}" height="{height}" rx="12" fill="var(--paper)" stroke="var(--line)"/>',
            *plot.parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    results = json.loads((DOCS / "front-door.json").read_text("utf-8"))
    (DOCS / "front-door.svg").write_text(draw(results), encoding="utf-8")
