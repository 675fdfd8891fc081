"""MISSION, table 4: clicks on ads; area under the ROC curve of MISSION, IHT and Vowpal Wabbit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import _real
from _contenders import Setting
from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import learned
from _real import Task
from _report import Record
from _vw import vowpal_wabbit

NAMES = ("FH", "IHT", "MISSION, paper", "MISSION, active")
PAPER = {"MISSION, paper": 0.751, "IHT": 0.752, "VW": 0.757}


def cells(places: Places, files: str, k: int, width: int, passes: int) -> Cells:
    def task() -> Task:
        assert places.source is not None
        return _real.clicks(places.source, places.work, files, passes)

    def of_vw() -> list[Record]:
        model = vowpal_wabbit(bits=width.bit_length() + 1)(task(), Setting(k, 0))
        scores = {} if model is None else {what: model.scores(test) for what, test in task().tests.items()}
        return [
            {"method": "VW", what: task().judge(task(), task().tests[what], of_test)}
            for what, of_test in scores.items()
        ]

    measures: dict[str, Callable[[], list[Record]]] = {
        name: partial(lambda name: learned(task(), name, k, width), name) for name in NAMES
    }
    return {name: partial(_as_row, measure) for name, measure in (measures | {"VW": of_vw}).items()}


def _as_row(measure: Callable[[], list[Record]]) -> list[Record]:
    return [record | {"data": "clicks"} for record in measure()]


AUC = View("Area under the ROC curve", "data", "AUC", "higher", plot=False)
EXHIBIT = Exhibit(
    name="mission_table4",
    title="Table 4: clicks",
    cells=cells,
    quick={"files": "train.tiny*", "k": 2000, "width": 2**14, "passes": 3},
    full={"files": "train*", "k": 250_000, "width": 2**20, "passes": 1},
    views=(AUC,),
    claims=(
        Claim(
            "MISSION scores close to VW",
            AUC,
            ("MISSION, paper", "MISSION, active"),
            ("VW",),
            0.01,
            too_small="a few hundred test rows leave differences of some hundredths to chance",
        ),
        Claim(
            "MISSION scores close to IHT",
            AUC,
            ("MISSION, paper", "MISSION, active"),
            ("IHT",),
            0.01,
            too_small="a few hundred test rows leave differences of some hundredths to chance",
        ),
    ),
    printed=tuple({"method": name, "data": "clicks", "AUC": value} for name, value in PAPER.items()),
    same_data=False,
    notes=(
        "The paper learns from more than four billion rows, and has a day of others to judge by. What can be had here "
        "is a sample of two thousand rows, a fifth of them to judge by: the values are not comparable, and differences "
        "between methods of a few hundredths are noise.",
    ),
    needs="train.tiny.csv",
)

if __name__ == "__main__":
    run(EXHIBIT)
