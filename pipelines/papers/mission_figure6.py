"""MISSION, figure 6: accuracy over rounds of new reads; DNA with all species there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import learned
from _report import Record
from mission_figure4_dna import dna

NAMES = ("FH", "IHT", "MISSION, paper", "MISSION, active")


def cells(
    places: Places, length: int, coverage: float, rounds: Sequence[int], test_coverage: float, k: int, width: int
) -> Cells:
    """After so many rounds, each of reads that cover every base `coverage` times, learned once."""

    def measure(number: int, name: str) -> list[Record]:
        task = dna(places, length, coverage * number, test_coverage)
        return [record | {"round": number} for record in learned(task, name, k, width)]

    return {f"round {number}, {name}": partial(measure, number, name) for number in rounds for name in NAMES}


ACCURACY = View("Accuracy after rounds", "round", "accuracy", "higher")
EXHIBIT = Exhibit(
    name="mission_figure6",
    title="Figure 6: accuracy over rounds of new reads",
    cells=cells,
    quick={"length": 8, "coverage": 0.03, "rounds": [1, 2, 3], "test_coverage": 0.02, "k": 2048, "width": 2**14},
    full={
        "length": 12,
        "coverage": 0.25,
        "rounds": [1, 2, 4, 8, 12, 16, 20],
        "test_coverage": 1,
        "k": 50_000,
        "width": 2**18,
    },
    views=(ACCURACY, View("CPU seconds", "round", "cpu seconds", "lower", plot=False)),
    claims=(
        Claim(
            "MISSION converges faster than IHT",
            ACCURACY,
            NAMES[2:],
            ("IHT",),
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
        Claim(
            "after some rounds, MISSION closely matches FH",
            ACCURACY,
            NAMES[2:],
            ("FH",),
            0.05,
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
    ),
    notes=(
        "15 species, not 193. A round of the paper covers every base .25 times.",
        "The accuracies of the claims are means over all rounds.",
    ),
    needs="*.fna.gz",
)

if __name__ == "__main__":
    run(EXHIBIT)
