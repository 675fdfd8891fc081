"""MISSION, table 6: DNA with all species there are, after all rounds; reads of the genomes, and of other strains."""

from __future__ import annotations

from functools import partial

from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import METHODS, learned
from _report import Record
from mission_figure4_dna import dna


def cells(places: Places, length: int, coverage: float, test_coverage: float, k: int, width: int) -> Cells:
    def measure(name: str) -> list[Record]:
        records = learned(dna(places, length, coverage, test_coverage), name, k, width)
        kinds = ("accuracy", "on strains")
        return [{"method": name, "reads of": _NAMES[kind], "accuracy": r[kind]} for r in records for kind in kinds]

    return {name: partial(measure, name) for name in METHODS}


_NAMES = {"accuracy": "the same genomes", "on strains": "other strains"}
ACCURACY = View("Accuracy", "reads of", "accuracy", "higher", plot=False)
EXHIBIT = Exhibit(
    name="mission_table6",
    title="Table 6: DNA, all species",
    cells=cells,
    quick={"length": 8, "coverage": 0.06, "test_coverage": 0.02, "k": 2048, "width": 2**14},
    full={"length": 12, "coverage": 5, "test_coverage": 1, "k": 50_000, "width": 2**18},
    views=(ACCURACY,),
    claims=(
        Claim(
            "MISSION is more accurate than IHT",
            ACCURACY,
            ("MISSION, paper", "MISSION, active"),
            ("IHT",),
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
        Claim(
            "MISSION closely matches FH",
            ACCURACY,
            ("MISSION, paper", "MISSION, active"),
            ("FH",),
            0.05,
            too_small="few reads with 8-mers say nothing of 12-mers",
        ),
    ),
    notes=("15 species and second strains of three of them, in place of 193 species: compare methods, not values.",),
    needs="*.fna.gz",
)

if __name__ == "__main__":
    run(EXHIBIT)
