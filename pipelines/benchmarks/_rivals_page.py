"""docs/rivals.md from what was measured: tables, and sentences that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from _rivals import Record

METRICS = {"AUC": "higher", "recall": "higher", "R²": "higher", "CPU s": "lower", "wall s": "lower", "MiB": "lower"}
QUALITY = [metric for metric, better in METRICS.items() if better == "higher"]
LEVEL = 0.002  # differences of quality below this say nothing
AS_GOOD = 0.01  # no worse than this: cost is compared among these
GROWN = 1.2
PUBLISHED = 1_340_000  # columns of biglasso's example
FARTHEST = 30  # times the largest size that was measured: growth says nothing of more
TITLES = {
    "_rivals_rows": (
        "Sparse rows",
        "rows",
        "Two classes, about 85 of 1,000,000 words a row, 1,000 of which decide. Everybody has 3 to 4 MiB of cells or "
        "weights, and 1,000 features but where it says *all weights*. Columns of hashed words count as found where any "
        "of their words is true. Vowpal Wabbit reads its cache, scikit-learn arrays, daskfs its dataset.",
    ),
    "_rivals_columns": (
        "Dense columns",
        "columns",
        "3,000 rows, the shape of biglasso's example; 100 columns make the target. All choose 100. daskfs reads from "
        "disk, the others have all columns in memory, as they must.",
    ),
    "_rivals_curves": (
        "No straight line",
        "rows",
        "Friedman's first function of 5 of 20 columns, with noise.",
    ),
}
HEAD = """# Beside other tools

What people use today, each at the best of a few settings, chosen on validation rows; every run in a process of its own,
with one thread for linear algebra. Times are from files to a result, after everything is imported and compiled; memory
is the peak beyond that. A rival that asks for more than 4 GiB, or takes more than 15 minutes for all its settings, is
stopped, and the table says so. `python pipelines/benchmarks/rivals.py --full --keep` measures all of it anew and writes
this page; its sentences follow from the numbers. Cost is compared among those whose quality (the first column) is at
most a hundredth below that of daskfs.
"""


def write_page(records: Sequence[Record], path: Path) -> None:
    """Write the page of all tasks that were measured."""
    path.write_text("\n".join([HEAD, *(section_of(task, records) for task in TITLES)]), "utf-8")


def section_of(task: str, records: Sequence[Record]) -> str:
    """Return heading, table and sentences of a task."""
    title, variable, text = TITLES[task]
    own = [record for record in records if record["task"] == task]
    metrics = [metric for metric in METRICS if any(metric in record for record in own)]
    head = [f"| {variable} | | {' | '.join(metrics)} | settings |", f"|---:|---|{'---:|' * len(metrics)}---|"]
    rows = [
        f"| {r[variable]:,} | {r['method']} | " + " | ".join(_cell(r, metric) for metric in metrics)
        + f" | {_settings(r.get('setting', {}))} |"
        for r in own
    ]  # fmt: skip
    lines = [f"* {line}" for line in [*sentences_of(task, own), *extrapolated(task, own)]]
    return "\n".join([f"## {title}\n", f"{text} {_circumstances(own)}\n", *head, *rows, "", *lines, ""])


def sentences_of(task: str, own: Sequence[Record]) -> list[str]:
    """Return where daskfs is first and where it is not, with the largest size that another tool managed, too."""
    variable = TITLES[task][1]
    done = [r for r in own if "note" not in r]
    largest = max((r[variable] for r in done if not r["method"].startswith("daskfs")), default=0)
    last = [r for r in done if r[variable] == largest]
    ours = next((r for r in last if r["method"].startswith("daskfs")), None)
    if ours is None:
        return []
    alone = max(r[variable] for r in done)
    lines = [f"{ours['method']} alone managed {alone:,} {variable}."] if alone > largest else []
    for metric, better in METRICS.items():
        others = [r for r in last if metric in r and not r["method"].startswith("daskfs")]
        if metric == "wall s" or metric not in ours or not others:
            continue
        if better == "lower":  # what is cheap and bad is no rival
            quality = next(metric for metric in QUALITY if metric in ours)
            others = [r for r in others if r.get(quality, -math.inf) >= ours[quality] - AS_GOOD]
            if not others:
                lines.append(f"{metric}: no other tool is as good by {quality}.")
                continue
        best = (max if better == "higher" else min)(others, key=lambda r: r[metric])
        lines.append(_sentence(metric, better, ours, best))
    return lines


def _sentence(metric: str, better: str, ours: Record, best: Record) -> str:
    a, b = ours[metric], best[metric]
    if better == "higher":
        if abs(a - b) <= LEVEL:
            return f"{metric}: {ours['method']} and {best['method']} are level, {a:.3f} and {b:.3f}."
        order = "is first" if a > b else "**is not first**"
        return f"{metric}: {ours['method']} {order}: {a:.3f}, {best['method']} has {b:.3f}."
    ratio = a / max(b, 1e-9)
    order = "is first" if ratio < 1 else "**is not first**"
    return f"{metric}, among those as good: {ours['method']} {order}: {ratio:.2g} times what {best['method']} takes."


def _circumstances(own: Sequence[Record]) -> str:
    """Return the form in which records were measured, and how busy the machine was, as far as they know."""
    forms = " and ".join(sorted({r["form"] for r in own if "form" in r})) or "quick or full"
    loads = [r["load"] for r in own if "load" in r]
    busy = f"{min(loads):g} to {max(loads):g} processes for each core" if loads else "a load that was not noted"
    return f"Measured in the {forms} form, with seed 0, at {busy}."


def _settings(setting: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}".strip() for name, value in setting.items())


def extrapolated(task: str, own: Sequence[Record]) -> list[str]:
    """Return the time at the size of biglasso's example by the growth between the two largest sizes, said to be so.

    Only large sizes say something of it.
    """
    if task != "_rivals_columns":
        return []
    lines = []
    for method in dict.fromkeys(r["method"] for r in own):
        sizes = sorted((r["columns"], r["CPU s"]) for r in own if r["method"] == method and "CPU s" in r)
        if len(sizes) > 1 and sizes[-1][0] * FARTHEST >= PUBLISHED:
            (p0, t0), (p1, t1) = sizes[-2:]
            growth = math.log(t1 / t0) / math.log(p1 / p0)
            seconds = t1 * (PUBLISHED / p1) ** growth
            lines.append(
                f"{method}: CPU time grows as columns^{growth:.2f}; with {PUBLISHED:,} columns, *extrapolated*, "
                f"{seconds:,.0f} s."
            )
    return lines


def ratios_of(records: Sequence[Record]) -> dict[str, float]:
    """Return the CPU time of daskfs as a multiple of each rival's, by task, size and rival."""
    ratios = {}
    for ours in (r for r in records if r["method"].startswith("daskfs, ") and "CPU s" in r):
        variable = TITLES[ours["task"]][1]
        for r in records:
            if r["task"] == ours["task"] and r[variable] == ours[variable] and r is not ours and "CPU s" in r:
                key = f"{ours['method']} / {r['method']}, {r[variable]:,} {variable}"
                ratios[key] = round(ours["CPU s"] / max(r["CPU s"], 1e-9), 3)
    return ratios


def slower(before: dict[str, float], now: dict[str, float]) -> list[str]:
    """Return a line for every ratio that has grown by more than a fifth since the run before."""
    return [
        f"slower than the run before: {key}: {now[key]:.3g} where it was {ratio:.3g}"
        for key, ratio in before.items()
        if key in now and now[key] > GROWN * ratio
    ]


def _cell(record: Record, metric: str) -> str:
    if "note" in record and metric == "CPU s":
        return str(record["note"])
    if metric not in record:
        return ""
    return f"{record[metric]:.3f}" if metric in QUALITY else f"{record[metric]:,.3g}"
