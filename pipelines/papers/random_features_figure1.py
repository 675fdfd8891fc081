"""Sparse Random Features, figure 1: objective and error over features drawn, beside boosting; perceptrons on IJCNN.

Both minimise λ ‖w‖₁ + Σ max(0, 1 - y f(x))²: Sparse Random Features with features drawn at random (`screen=False`),
boosting with features found one by one by a least-squares surrogate (`boosting`). The kernel's machine has the same
kernel, and is a line across.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _random_features_cells import shortened
from _random_features_peers import InMemory, support_vectors
from _report import Record
from boosting import Boosting, objective
from numpy.typing import NDArray
from random_features import Task, fitted, in_memory, sampled, scores_of, wrong
from random_features_table2 import task_of

PER_ROUND, MOST = 500, 2500  # features that may enter in a round, and be in the model
END = "the last number of features"


def cells(
    places: Places, rows: int, features: Sequence[int], boosted: int, gamma: float, penalty: float, exact_rows: int
) -> Cells:
    def data() -> tuple[Task, InMemory, NDArray[np.float64]]:
        task = shortened(task_of(places), places, rows)
        return task, *in_memory(task)

    def sparse(number: int) -> list[Record]:
        task, in_mem, y_test = data()
        # the loss of daskfs has ½ in it: half the penalty, and twice the objective
        options = {"kernel": "perceptron", "gamma": gamma, "penalty": penalty / 2, "screen": False}
        rounds, per_round = -(-number // PER_ROUND), min(number, PER_ROUND)
        selection = fitted(task, **options, rounds=rounds, per_round=per_round, max_features=MOST)
        w, scores = np.ravel(selection.weights), scores_of(selection, task.train)
        value = objective(scores, in_mem.y, w, penalty) / len(in_mem.y)
        error, is_last = wrong(y_test, scores_of(selection, task.test)), number == max(features)
        return [_record("Sparse-RF, paper", number, value, error, is_last)]

    def boosting() -> list[Record]:
        _, in_mem, y_test = data()
        X, X_test, model = in_mem.X.astype(np.float64), in_mem.X_test.astype(np.float64), Boosting(penalty)
        return [
            _record("Boosting", number, value / len(in_mem.y), wrong(y_test, model.scores(X_test)), number == boosted)
            for number, value in enumerate(model.rounds(X, in_mem.y, boosted), 1)
            if number in features or number == boosted
        ]

    def kernel() -> list[Record]:
        task, in_mem, y_test = data()
        peer = support_vectors(sampled(in_mem, exact_rows, 0), "perceptron", gamma, task.loss)
        error = wrong(y_test, peer.scores)
        return [{"method": "Kernel", "features": number, "error": error, "at": END} for number in features]

    drawn = {f"Sparse-RF, {number} features": partial(sparse, number) for number in features}
    return drawn | {"Boosting": boosting, "Kernel": kernel}


def _record(method: str, number: int, value: float, error: float, is_last: bool) -> Record:
    record = {"method": method, "features": number, "objective": value, "error": error}
    return record | {"at": END} if is_last else record


OBJECTIVE = View("Objective a row, by features drawn", "features", "objective", "lower")
ERROR = View("Error rate, by features drawn", "features", "error", "lower")
AT_END = (View("Objective", "at", "objective", "lower"), View("Error", "at", "error", "lower"))
EXHIBIT = Exhibit(
    name="random_features_figure1",
    title="Figure 1: Sparse Random Features and boosting",
    cells=cells,
    quick={
        "rows": 3000,
        "features": [10, 30, 100, 300, 1000, 3000],
        "boosted": 60,
        "gamma": 1.0,
        "penalty": 1.0,
        "exact_rows": 1500,
    },
    full={
        "rows": 114_000,
        "features": [10, 30, 100, 300, 1000, 3000],
        "boosted": 1000,
        "gamma": 1.0,
        "penalty": 1.0,
        "exact_rows": 10_000,
    },
    views=(OBJECTIVE, ERROR),
    claims=(
        Claim(
            "boosting with approximate steps ends at a higher objective",
            AT_END[0],
            ("Sparse-RF, paper",),
            ("Boosting",),
        ),
        Claim(
            "Sparse-RF comes to an error like the kernel's",
            AT_END[1],
            ("Sparse-RF, paper",),
            ("Kernel",),
            0.01,
            too_small="the exact kernel has a small part of the rows",
        ),
    ),
    notes=(
        "The paper plots its curves and prints none; its sets are Cod-RNA, IJCNN and Covtype, of which IJCNN is here.",
        "Boosting ends after fewer features than are drawn at random: each takes a least-squares fit and a fit of all "
        "weights.",
    ),
    needs="ijcnn1.trn.bz2",
)

if __name__ == "__main__":
    run(EXHIBIT)
