"""Online Substitution, figure 1: sparse regression; recall and recovery error over p, over scans and over workers.

p columns of which s make the target, n = 1.2 s log2 p rows, noise of .1; every method chooses s columns and reads them
twice, and they are fitted again by least squares. Workers are simulated in one process, as the paper does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import _problems
import peers
from _exhibit import NO_WORSE, Cells, Claim, Exhibit, Places, View, run
from _problems import Problem
from substitution import REGRESSION, Judges, Method, measured, peer, product

OURS = ("OS, block", "OS, paper")
NAIVE = ("naive, projection", "naive, proximal")
METHODS: dict[str, Method] = {
    "OS, block": product(passes=2),
    "OS, paper": product(method="paper", passes=2),
    "Proj-GD": peer(peers.proj_gd),
    "LASSO": peer(peers.lasso),
    "Grafting": peer(peers.grafting),
    "naive, projection": peer(peers.cd_projection),
    "naive, proximal": peer(peers.cd_proximal),
}


def cells(places: Places, p: Sequence[int], s: int, scans: Sequence[int], workers: Sequence[int], seeds: int) -> Cells:
    """Also used by figure 2, with problems, methods and judges of its own."""
    make = partial(_problem, s=s)
    return cells_of(make, METHODS, scanned, simulated, REGRESSION, p, s, scans, workers, seeds)


def cells_of(
    make: Callable[[int, int], Problem],
    methods: dict[str, Method],
    scanned: Callable[[int], dict[str, Method]],
    simulated: Callable[[int], dict[str, Method]],
    judges: Judges,
    p: Sequence[int],
    s: int,
    scans: Sequence[int],
    workers: Sequence[int],
    seeds: int,
) -> Cells:
    """For every p all methods; for the middle p, ours over scans and simulated workers."""
    middle = p[len(p) // 2]

    def runs(variable: str, value: int, of: dict[str, Method], size: int, seed: int) -> list[dict[str, object]]:
        return measured([({variable: value, "seed": seed}, make(size, seed))], of, judges, k=s)

    cells: Cells = {}
    for seed in range(seeds):
        for size in p:
            cells[f"p {size}, seed {seed}"] = partial(runs, "p", size, methods, size, seed)
        for number in scans:
            cells[f"scans {number}, seed {seed}"] = partial(runs, "scans", number, scanned(number), middle, seed)
        for number in workers:
            cells[f"workers {number}, seed {seed}"] = partial(runs, "workers", number, simulated(number), middle, seed)
    return cells


def scanned(number: int) -> dict[str, Method]:
    return {"OS, block": product(passes=number), "OS, paper": product(method="paper", passes=number)}


def simulated(number: int) -> dict[str, Method]:
    return {"Asy-OS": product(method="async", budget="faithful", workers=number, passes=2)}


def _problem(p: int, seed: int, s: int) -> Problem:
    return _problems.regression(p, seed, "--s", str(s))


RECALL = View("Recall", "p", "recall", "higher")
ERROR = View("Recovery error", "p", "error", "lower")
EXHIBIT = Exhibit(
    name="substitution_figure1",
    title="Figure 1: sparse regression",
    cells=cells,
    quick={"p": [500, 1000, 1500], "s": 30, "scans": [1, 2, 3, 4], "workers": [1, 2, 4, 8], "seeds": 4},
    full={
        "p": [2000, 3000, 4000, 5000, 6000],
        "s": 100,
        "scans": [1, 2, 3, 4, 5],
        "workers": [1, 2, 4, 8],
        "seeds": 30,
    },
    views=(
        RECALL,
        ERROR,
        View("Recall by scans", "scans", "recall", "higher"),
        View("Recall by workers", "workers", "recall", "higher"),
    ),
    claims=(
        Claim(
            "L0 methods (OS and Proj-GD) have a higher recall than L1 methods", RECALL, (*OURS, "Proj-GD"), ("LASSO",)
        ),
        Claim("OS has almost the same recall as its batch counterpart Proj-GD", RECALL, OURS, ("Proj-GD",), 0.02),
        Claim("OS does as well as Grafting", RECALL, OURS, ("Grafting",), NO_WORSE),
        Claim("OS is better than the naive online methods", RECALL, OURS, NAIVE),
        Claim("L1 methods have a low recovery error, too", ERROR, ("LASSO",), OURS, 0.02),
    ),
    notes=("The paper plots its means and prints none, so that there is no number of its to set beside ours.",),
)

if __name__ == "__main__":
    run(EXHIBIT)
