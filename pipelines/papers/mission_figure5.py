"""MISSION, figure 5: accuracy over the memory of the sketch, as a multiple of the number of features; DNA."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import DEPTH, PER_CLASS, learned
from _report import Record
from mission_figure4_dna import dna

SKETCHED = ("MISSION, paper", "MISSION, active", *PER_CLASS)


def cells(
    places: Places,
    length: int,
    coverage: float,
    test_coverage: float,
    k: int,
    ratios: Sequence[float],
    batch_elements: int,
) -> Cells:
    def measure(name: str) -> list[Record]:
        task = dna(places, length, coverage, test_coverage)
        if name in SKETCHED:
            return [record | {"ratio": ratio} for ratio in ratios for record in learned(task, name, k, int(ratio * k))]
        return [
            record | {"ratio": ratio} for record in learned(task, name, k, batch_elements // DEPTH) for ratio in ratios
        ]

    return {name: partial(measure, name) for name in (*SKETCHED, "IHT", "Batch IHT")}


ACCURACY = View("Accuracy by cells of a hash array over features", "ratio", "accuracy", "higher")
EXHIBIT = Exhibit(
    name="mission_figure5",
    title="Figure 5: memory of the sketch",
    cells=cells,
    quick={
        "length": 8,
        "coverage": 0.03,
        "test_coverage": 0.02,
        "k": 2048,
        "ratios": [0.25, 1, 4, 8],
        "batch_elements": 3 * 2**14,
    },
    full={
        "length": 12,
        "coverage": 0.1,
        "test_coverage": 1,
        "k": 2**16,
        "ratios": [0.125, 0.25, 0.5, 1, 2, 4],
        "batch_elements": 3 * 2**19,
    },
    views=(ACCURACY,),
    claims=(
        Claim(
            "MISSION immediately outperforms IHT and batch IHT once there are as many cells as features",
            ACCURACY,
            SKETCHED,
            ("IHT", "Batch IHT"),
            least=1,
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
    ),
    notes=(
        "IHT and batch IHT have no sketch: their line is flat. Batch IHT adds up gradients for `batch_elements` "
        "features between two thresholds.",
        "`per class`: k features for every class, as in the paper; the others have k features for all classes.",
        "The paper has 500,000 features; the widths of sketches here are powers of two, and so is k.",
    ),
    needs="*.fna.gz",
)

if __name__ == "__main__":
    run(EXHIBIT)
