"""MISSION, figure 3: recall over p, and the least memory with which every trial recovers all columns.

See `mission.py`, whose `figure3` command prints the same with other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _report import Record
from mission import by_memory, least_widths

DEPTH = 3  # rows of the published sketch


def cells(
    places: Places, n: int, k: int, p: Sequence[int], widths: Sequence[int], rows_seen: int, trials: int
) -> Cells:
    return {f"p {size}": partial(_of_size, n, size, k, widths, rows_seen, trials) for size in p}


def _of_size(n: int, p: int, k: int, widths: Sequence[int], rows_seen: int, trials: int) -> list[Record]:
    """Recall by width, recall with the widest sketch over p, and the least width in numbers."""
    records = [record | {"columns": p} for record in by_memory(n, p, k, widths, rows_seen, range(trials))]
    over_p = [record | {"p": p} for record in records if record["width"] in (0, max(widths))]
    needed = [{"p": p, "method": r["method"], "numbers": DEPTH * r["width"]} for r in least_widths(records)]
    return [*over_p, *needed]


RECALL = View("Recall with the widest sketch", "p", "recall", "higher")
MEMORY = View("Least numbers in the sketch that recover all columns", "p", "numbers", "lower")
EXHIBIT = Exhibit(
    name="mission_figure3",
    title="Figure 3: accuracy and memory as p grows",
    cells=cells,
    quick={"n": 100, "k": 3, "p": [300, 1000, 3000], "widths": [64, 256, 1024], "rows_seen": 1500, "trials": 2},
    full={
        "n": 100,
        "k": 5,
        "p": [1000, 3000, 10_000, 30_000],
        "widths": [2**bits for bits in range(5, 15)],
        "rows_seen": 10_000,
        "trials": 100,
    },
    views=(RECALL, MEMORY),
    claims=(
        Claim(
            "MISSION is more accurate than IHT",
            RECALL,
            ("MISSION, paper",),
            ("IHT",),
            too_small="all columns are found",
        ),
    ),
    notes=(
        "The paper plots its curves and prints none. Its memory grows as log² p; a width here is a power of two or "
        "four, so that the curve has steps. A method that no width suffices for is not in the second table.",
        "IHT here goes by the whole gradient, in memory for all p weights.",
    ),
)

if __name__ == "__main__":
    run(EXHIBIT)
