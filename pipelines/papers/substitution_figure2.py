"""Online Substitution, figure 2: signs of a sparse linear function; recall and test error over p, scans and workers.

The data of figure 1 with the signs of the target as labels, and as many rows again to test on. All methods have the
squared hinge loss; their columns are fitted again by logistic regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import _problems
import peers
from _exhibit import NO_WORSE, Cells, Claim, Exhibit, Places, View, run
from _judge import error_rate, recall
from _problems import Problem
from substitution import Judges, Method, peer, product
from substitution_figure1 import NAIVE, OURS, cells_of

HINGE = {"loss": "squared_hinge"}
METHODS: dict[str, Method] = {
    "OS, block": product(passes=2, **HINGE),
    "OS, paper": product(method="paper", passes=2, **HINGE),
    "Proj-GD": peer(peers.proj_gd, **HINGE),
    "L1 hinge": peer(peers.l1_hinge),
    "Grafting": peer(peers.grafting, **HINGE),
    "naive, projection": peer(peers.cd_projection, **HINGE),
    "naive, proximal": peer(peers.cd_proximal, **HINGE),
}
JUDGES: Judges = {"recall": recall, "test error": error_rate}


def cells(places: Places, p: Sequence[int], s: int, scans: Sequence[int], workers: Sequence[int], seeds: int) -> Cells:
    make = partial(_problem, s=s)
    return cells_of(make, METHODS, scanned, simulated, JUDGES, p, s, scans, workers, seeds)


def scanned(number: int) -> dict[str, Method]:
    return {
        "OS, block": product(passes=number, **HINGE),
        "OS, paper": product(method="paper", passes=number, **HINGE),
    }


def simulated(number: int) -> dict[str, Method]:
    return {"Asy-OS": product(method="async", budget="faithful", workers=number, passes=2, **HINGE)}


def _problem(p: int, seed: int, s: int) -> Problem:
    return _problems.classification(p, seed, "--s", str(s))


RECALL = View("Recall of signs", "p", "recall", "higher")
ERROR = View("Test error", "p", "test error", "lower")
EXHIBIT = Exhibit(
    name="substitution_figure2",
    title="Figure 2: hinge loss classification",
    cells=cells,
    quick={"p": [500, 1000, 1500], "s": 30, "scans": [1, 2, 3, 4], "workers": [1, 2, 4, 8], "seeds": 4},
    full={
        "p": [1000, 2000, 3000, 4000, 5000],
        "s": 100,
        "scans": [1, 2, 3, 4, 5],
        "workers": [1, 2, 4, 8],
        "seeds": 30,
    },
    views=(
        RECALL,
        ERROR,
        View("Test error by scans", "scans", "test error", "lower"),
        View("Recall by workers", "workers", "recall", "higher"),
    ),
    claims=(
        Claim(
            "L0 methods (OS and Proj-GD) have a higher recall than L1 hinge", RECALL, (*OURS, "Proj-GD"), ("L1 hinge",)
        ),
        Claim("OS does as well as Grafting", RECALL, OURS, ("Grafting",), NO_WORSE),
        Claim("OS has a lower test error than the naive online methods", ERROR, OURS, NAIVE),
    ),
    notes=("The paper plots its means and prints none, so that there is no number of its to set beside ours.",),
)

if __name__ == "__main__":
    run(EXHIBIT)
