"""MISSION, figure 4 (DNA): accuracy over the number of features; species of reads by their k-mers.

Reads have 200 bases, and k-mers a length of 12 in the full form, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import _real
from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import PER_CLASS, over_k
from _real import Task

NAMES = ("FH", "IHT", "MISSION, paper", "MISSION, active", *PER_CLASS)


def cells(places: Places, length: int, coverage: float, test_coverage: float, k: Sequence[int], width: int) -> Cells:
    def task() -> Task:
        return dna(places, length, coverage, test_coverage)

    return {name: partial(lambda name: over_k(task(), (name,), k, width), name) for name in NAMES}


def dna(places: Places, length: int, coverage: float, test_coverage: float) -> Task:
    """Reads as k-mers of a length, which are learned once, and others to judge by."""
    assert places.source is not None
    options = {"coverage": coverage, "test_coverage": test_coverage, "strains_coverage": test_coverage}
    return _real.dna(Path(places.source), Path(places.work), str(length), passes=1, **options)


ACCURACY = View("Accuracy on DNA", "k", "accuracy", "higher")
STRAINS = View("Accuracy on strains that were not learned", "k", "on strains", "higher", plot=False)
EXHIBIT = Exhibit(
    name="mission_figure4_dna",
    title="Figure 4 (DNA): accuracy over the number of features",
    cells=cells,
    quick={"length": 8, "coverage": 0.03, "test_coverage": 0.02, "k": [256, 1024, 4096], "width": 2**14},
    full={
        "length": 12,
        "coverage": 0.1,
        "test_coverage": 1,
        "k": [1000, 5000, 10_000, 50_000, 100_000, 200_000],
        "width": 2**18,
    },
    views=(ACCURACY, STRAINS),
    claims=(
        Claim(
            "MISSION surpasses IHT, whatever the number of features",
            ACCURACY,
            NAMES[2:],
            ("IHT",),
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
        Claim(
            "MISSION closely matches FH",
            ACCURACY,
            NAMES[2:],
            ("FH",),
            0.05,
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
    ),
    notes=(
        "Other species than the paper's, one genome each: compare curves, not values.",
        "k counts features that all classes share, each with a weight for every class. `per class`: k for each class, "
        "as in the paper.",
        "The quick form has 8-mers: few reads say nothing of 12-mers.",
        "A read is learned once. FH keeps a weight for every cell of its table, and selects nothing.",
    ),
    needs="*.fna.gz",
)

if __name__ == "__main__":
    run(EXHIBIT)
