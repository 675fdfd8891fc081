"""MISSION, figure 4 (text): accuracy over the number of features; 20 newsgroups in place of RCV1 and webspam."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import _real
from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import over_k
from mission_figure4_dna import NAMES


def cells(places: Places, words: str, chars: str, k: Sequence[int], width: int) -> Cells:
    def measure(name: str) -> list[dict[str, object]]:
        assert places.source is not None
        return over_k(_real.news20(places.source, places.work, 1, words, chars), (name,), k, width)

    return {name: partial(measure, name) for name in NAMES}


ACCURACY = View("Accuracy on text", "k", "accuracy", "higher")
EXHIBIT = Exhibit(
    name="mission_figure4_text",
    title="Figure 4 (text): accuracy over the number of features",
    cells=cells,
    quick={"words": "1", "chars": "", "k": [256, 1024, 4096], "width": 2**15},
    full={"words": "1,2", "chars": "3", "k": [1000, 5000, 10_000, 50_000, 100_000], "width": 2**18},
    views=(ACCURACY,),
    claims=(
        Claim("MISSION surpasses IHT, whatever the number of features", ACCURACY, NAMES[2:], ("IHT",)),
        Claim("MISSION closely matches FH", ACCURACY, NAMES[2:], ("FH",), 0.05),
    ),
    notes=(
        "20 newsgroups by date (20 classes, n-grams as strings) stand for RCV1, webspam and KDD 2012 (two classes).",
        "k counts features that all classes share, each with a weight for every class.",
    ),
    needs="20news-bydate.tar.xz",
)

if __name__ == "__main__":
    run(EXHIBIT)
