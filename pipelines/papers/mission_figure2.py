"""MISSION, figure 2: the phase transition, the largest number of columns that is recovered from n rows.

See `mission.py`, whose `figure2` command prints the same with other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _report import Record
from mission import WHOLE_GRADIENT, WIDTH, missions, streamed, transitions


def cells(places: Places, n: Sequence[int], p: int, rows_seen: int, trials: int) -> Cells:
    return {f"n {size}": partial(_transitions, size, p, rows_seen, trials) for size in n}


def _transitions(n: int, p: int, rows_seen: int, trials: int) -> list[Record]:
    fading = {FADING: streamed(rows_seen, method="paper", width=WIDTH, fading=0.99)}
    return list(transitions(n, p, missions(rows_seen) | fading | WHOLE_GRADIENT, range(trials)))


FADING = "MISSION, paper, fading"
OURS = ("MISSION, paper", FADING)
LARGEST = View("Largest k that is recovered in most trials", "n", "k", "higher")
EXHIBIT = Exhibit(
    name="mission_figure2",
    title="Figure 2: phase transition",
    cells=cells,
    quick={"n": [50, 100], "p": 300, "rows_seen": 2000, "trials": 3},
    full={"n": [100, 200, 300, 400, 500], "p": 1000, "rows_seen": 10_000, "trials": 20},
    views=(LARGEST,),
    claims=(
        Claim(
            "MISSION is better than the thresholding algorithms by a large margin",
            LARGEST,
            OURS,
            ("IHT", "ITI", "PHT"),
            too_small="300 columns and few trials leave thresholding no room to fail",
        ),
        Claim(
            "MISSION is better than IHT",
            LARGEST,
            OURS,
            ("IHT",),
            too_small="300 columns and few trials leave thresholding no room to fail",
        ),
    ),
    notes=(
        "The paper plots its curves and prints none. It used an identity sketch and scaled what is not among the k "
        "largest by γ; here it is the count-sketch itself, so wide that columns hardly collide. `fading` is that γ, "
        "which falls from 1 to .01 (`Mission(fading=0.99)`).",
        "`MISSION, active` takes steps that are made for sparse rows; rows here have no zeros.",
    ),
)

if __name__ == "__main__":
    run(EXHIBIT)
