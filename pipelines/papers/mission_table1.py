"""MISSION, table 1: how far the columns that count may be attenuated before a method does not find them any more.

See `mission.py`, whose `table1` command prints the same with other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from _exhibit import NO_WORSE, Cells, Claim, Exhibit, Places, View, run
from _recovery import streamed
from _report import Record
from mission import STEP, WHOLE_GRADIENT, comparable, missions, withstood

PAPER = {  # (n, k): for each method the share found at α = 1, and the mean of the largest α
    (100, 2): {"MISSION, paper": (1.00, 2.68), "IHT": (1.00, 1.49), "ITI": (0.91, 1.33), "PHT": (0.64, 2.42)},
    (100, 3): {"MISSION, paper": (1.00, 2.52), "IHT": (0.92, 1.36), "ITI": (0.70, 1.15), "PHT": (0.42, 2.05)},
    (100, 4): {"MISSION, paper": (1.00, 2.53), "IHT": (0.72, 1.92), "ITI": (0.37, 1.03), "PHT": (0.39, 2.13)},
    (200, 5): {"MISSION, paper": (1.00, 4.07), "IHT": (0.99, 2.34), "ITI": (0.37, 1.15), "PHT": (0.83, 2.75)},
    (200, 6): {"MISSION, paper": (1.00, 4.17), "IHT": (0.97, 2.64), "ITI": (0.23, 1.11), "PHT": (0.73, 2.26)},
    (200, 7): {"MISSION, paper": (1.00, 4.07), "IHT": (0.83, 1.64), "ITI": (0.14, 1.11), "PHT": (0.75, 3.39)},
}


def cells(places: Places, rows: Sequence[Sequence[int]], p: int, most: float, rows_seen: int, trials: int) -> Cells:
    levels = np.arange(1, most + STEP / 2, STEP).tolist()
    return {f"n {n}, k {k}": partial(_row, n, p, k, levels, rows_seen, trials) for n, k in rows}


def _row(n: int, p: int, k: int, levels: Sequence[float], rows_seen: int, trials: int) -> list[Record]:
    methods = missions(rows_seen) | {"IHT, a row a step": streamed(rows_seen, method="iht")} | WHOLE_GRADIENT
    records = comparable(withstood(n, p, k, levels, methods, trials))
    return [record | {"n, k": f"{n}, {k}"} for record in records]


ALPHA = View("Attenuation withstood, α", "n, k", "α", "higher", plot=False, cap="most")
RECOVERED = View("Share of trials recovered at α = 1", "n, k", "recovered at 1", "higher", plot=False)
EXHIBIT = Exhibit(
    name="mission_table1",
    title="Table 1: attenuated columns",
    cells=cells,
    quick={"rows": [[100, 2], [100, 4], [200, 6]], "p": 1000, "most": 5.0, "rows_seen": 2000, "trials": 2},
    full={"rows": [list(row) for row in PAPER], "p": 1000, "most": 5.0, "rows_seen": 10_000, "trials": 100},
    views=(ALPHA, RECOVERED),
    claims=(
        Claim(
            "MISSION withstands more attenuation than IHT, ITI and PHT",
            ALPHA,
            ("MISSION, active", "MISSION, paper"),
            ("IHT", "ITI", "PHT"),
            too_small="its trials are two",
        ),
        Claim(
            "MISSION recovers at α = 1 at least as often as IHT",
            RECOVERED,
            ("MISSION, active", "MISSION, paper"),
            ("IHT",),
            NO_WORSE,
            too_small="its trials are two",
        ),
    ),
    printed=tuple(
        {"method": method, "n, k": f"{n}, {k}", "recovered at 1": share, "α": alpha}
        for (n, k), row in PAPER.items()
        for method, (share, alpha) in row.items()
    ),
    reasons={
        "MISSION, paper": "It sees a limited number of rows (`rows_seen`), and its rate is of a grid.",
        "IHT": "Its rate is of a grid; the paper does not say its own.",
        "ITI": "Its rate is of a grid; the paper does not say its own.",
        "PHT": "Its rate is of a grid; the paper does not say its own.",
    },
    notes=(
        "IHT, ITI and PHT go by the whole gradient, each with the rate that does best on draws of its own; the paper "
        "does not say its rates.",
        "The paper's equation for IHT has a step for every row (`IHT, a row a step`): on rows without zeros it fails "
        "whatever the rate, so that the paper's numbers for IHT cannot be its.",
        "MISSION sees a limited number of rows (`rows_seen`), in passes; the paper does not say how many.",
    ),
)

if __name__ == "__main__":
    run(EXHIBIT)
