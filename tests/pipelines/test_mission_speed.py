"""The page of benchmarks repeats figures of MISSION's speed, which a benchmark has written to a file."""

from __future__ import annotations

import json
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def as_page(ratio: float) -> str:
    """A ratio as the pages write it, such as .75x."""
    return f"{ratio:.2f}x".removeprefix("0")


def test_the_page_has_the_figures_of_the_file():
    figures = json.loads((DOCS / "mission-speed.json").read_text(encoding="utf-8"))
    small, large = (figures[f"mission.py learn --width {width}"] for width in (2**18, 2**22))
    given, raced = "MISSION, active", "MISSION, active, rate raced"
    ratios = [of[name]["x SGDClassifier"] for of in (small, large) for name in (given, raced)]
    first, second, third, fourth = map(as_page, ratios)
    sentence = (
        f"{first} the CPU time of scikit-learn's `SGDClassifier` with a given rate, and {second} with the rate chosen "
        f"by itself; {third} and {fourth} with a sketch of 64 MiB"
    )
    assert sentence in (DOCS / "benchmarks.md").read_text(encoding="utf-8")
