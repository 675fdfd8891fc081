"""Draw the tables of docs/as-it-is.md from docs/as-it-is.json, which `pipelines/benchmarks/as_it_is.py` writes.

    python pipelines/docs/as_it_is.py

A table follows a line ``<!-- table: NAME -->`` and ends with an empty line. A part without figures has no table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from marked_tables import drawn
from scaling import DOCS, table

Record = dict[str, Any]
SELECTING = ("Online Substitution", "MISSION")
OURS = (*SELECTING, "Sparse Random Features")  # the last has random features of all columns
CLOSE, FAR, AS_GOOD = 0.01, 0.03, 0.005


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def trials(records: Sequence[Record]) -> str:
    return table(["trial", "once", "now"], [[of["trial"], of["once"], of["now"]] for of in records])


def scores(records: Sequence[Record], kind: str) -> str:
    """Return a row for each set and k, with the scores of all methods, and of ours less the best of the others."""
    names = list(dict.fromkeys(name for of in records for name in of[kind]))
    names = [name for name in OURS if name in names] + [name for name in names if name not in OURS]
    rows = [
        [of["set"], str(of["k"]), str(of["splits"]), *(number(of[kind].get(name)) for name in names),
         f"{best_of_ours(of[kind]) - best_of_others(of[kind]):+.3f}"] for of in records
    ]  # fmt: skip
    return table(["set", "k", "splits", *names, "best of ours - best of others"], rows)


def best_of_ours(values: dict[str, float]) -> float:
    return max(values[name] for name in SELECTING)


def best_of_others(values: dict[str, float]) -> float:
    return max(value for name, value in values.items() if name not in OURS)


def within(records: Sequence[Record]) -> str:
    """Return how often each algorithm is within `CLOSE` of the best of the others, or ahead of it."""
    rows = []
    for name in (*SELECTING, "the better of both"):
        row = [name]
        for kind in ("refitted", "own"):
            gaps = [of[kind].get(name, best_of_ours(of[kind])) - best_of_others(of[kind]) for of in records]
            good, bad = sum(gap >= -CLOSE for gap in gaps), sum(gap < -FAR for gap in gaps)
            row += [f"{good} of {len(gaps)}", str(bad), f"{min(gaps):+.3f}"]
        rows.append(row)
    header = ["", "same refit: within .01, or ahead", "more than .03 below", "worst"]
    return table([*header, "own predictions: within .01, or ahead", "more than .03 below", "worst"], rows)


def weights(records: Sequence[Record]) -> str:
    """Return how far own weights are from a cross-validated refit of the same columns."""
    rows = []
    for name in OURS:
        gaps = [of["own"][name] - of["refitted"][name] for of in records if name in of["own"]]
        good = f"{sum(gap >= -AS_GOOD for gap in gaps)} of {len(gaps)}"
        rows.append([name, good, f"{sum(gaps) / len(gaps):+.3f}", f"{min(gaps):+.3f}"] if gaps else [name, "", "", ""])
    return table(["", "at most .005 below the refit", "own - refitted, mean", "worst"], rows)


def columns(*names: str) -> Callable[[Sequence[Record]], str]:
    """Return a function that draws one column for each name in records."""

    def draw(records: Sequence[Record]) -> str:
        rows = [[_cell(of.get(name)) for name in names] for of in records]
        return table(names, rows)

    return draw


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, float) or value is None else f"{value}"


def texts(records: Sequence[Record]) -> str:
    kinds = {"own": "own weights", "without a refit": "largest weights", "idf": "idf"}
    rows = [
        [
            of["set"],
            str(of["k"]),
            *(number(of[name]) for name in kinds),
            *(number(of[f"{name}, refitted"]) for name in kinds),
        ]
        for of in records
    ]
    return table(["set", "k", *kinds.values(), *(f"{name}, refitted" for name in kinds.values())], rows)


def memory(records: Sequence[Record]) -> str:
    rows = [
        [of["run"], f"{of['promised MiB']:.0f}", f"{of['used MiB']:.0f}", f"{of['used MiB'] / of['promised MiB']:.2f}"]
        for of in records
    ]
    return table(["", "promised, MiB", "used, MiB", "used / promised"], rows)


PARTS: dict[str, tuple[str, Callable[[Sequence[Record]], str]]] = {
    "trials": ("trials", trials),
    "sets": ("sets", lambda records: scores(records, "refitted")),
    "own": ("sets", lambda records: scores(records, "own")),
    "within": ("sets", within),
    "weights": ("sets", weights),
    "texts": ("texts", texts),
    "wide": ("wide", columns("set", "k", "splits", "own", "refitted", "ridge 1.0", "squared", "logistic")),
    "passes": ("passes", columns("set", "k", "passes", "splits", "own")),
    "gamma": ("gamma", columns("set", "splits", "auto", "x 1", "x 4", "x 16")),
    "quarter": (
        "quarter",
        columns("set", "k", "algorithm", "splits", "all", "first quarter", "selected anew", "share"),
    ),
    "rare": ("rare", columns("algorithm", "default", "balanced", "refitted")),
    "damage": ("damage", columns("damage", "algorithm", "accuracy", "true")),
    "memory": ("memory", memory),
}  # fmt: skip
"""Of every table: the part of the figures that it shows, and how it is drawn."""


def page_with(page: str, figures: dict[str, list[Record]]) -> str:
    """Return the page with all tables drawn anew; of a part that was not run, a line that says so."""

    def draw(part: str, drawing: Callable[[Sequence[Record]], str]) -> str:
        return drawing(figures[part]) if figures.get(part) else "| not run |\n|---|\n"

    return drawn(page, {name: draw(*part) for name, part in PARTS.items()})


def main() -> None:
    page = DOCS / "as-it-is.md"
    page.write_text(page_with(page.read_text(), json.loads((DOCS / "as-it-is.json").read_text())))


if __name__ == "__main__":
    main()
