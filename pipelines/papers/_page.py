"""docs/papers.md from what was measured: our numbers beside the paper's, and a line on every difference.

No number is in this file, and those of the papers are in the files of their tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _exhibit import Claim, Exhibit, View
from _plot import draw
from _report import Record
from _systems import systems_of

HEAD = """# The papers, measured again

Every table and figure of the three papers, rerun by `make papers` ([how](#how-to-run-it)). This page is written by
`pipelines/papers/run.py` from what it measured (`docs/papers.json`); only the numbers that the papers print are typed
in by hand.

The quick form has small sizes and few repetitions: what fails in it may hold in the full form, and the other way round.
Some sentences of the papers it cannot decide, and says so, and its numbers are not counted against those that the
papers print. After ± is the standard deviation over repetitions. Where a cell is empty, a method was not measured, or
did not attain what the table asks for.
"""
PAPERS = {
    "substitution": (
        "Online Substitution (KDD 2016)",
        "H. Yang, R. Fujimaki, Y. Kusumura, J. Liu: *Online Feature Selection: A Limited-Memory Substitution Algorithm "
        "and Its Asynchronous Parallel Variation*. [Our algorithm](algorithms/substitution.md): `OS, block` is the "
        "default, `OS, paper` the published algorithm 1, `Asy-OS` its algorithms 2 and 3.",
    ),
    "mission": (
        "MISSION (ICML 2018)",
        "A. Aghazadeh, R. Spring, D. LeJeune, G. Dasarathy, A. Shrivastava, R. Baraniuk: *MISSION: Ultra Large-Scale "
        "Feature Selection using Count-Sketches*. [Our algorithm](algorithms/mission.md): `MISSION, active` is the "
        "default, `MISSION, paper` the published listing.",
    ),
    "random_features": (
        "Sparse Random Features (NIPS 2014)",
        "I. E.-H. Yen, T.-W. Lin, S.-D. Lin, P. Ravikumar, I. Dhillon: *Sparse Random Features Algorithm as Coordinate "
        "Descent in Hilbert Space*. [Our algorithm](algorithms/random-features.md): `Sparse-RF` is the default with "
        "screening, `Sparse-RF, paper` its algorithm 1 to the letter (`screen=False`).",
    ),
}
TAIL = """## How to run it

```
make papers                  # what needs no public files
make papers FROM=DIR         # everything, with public files below DIR: datasets/README.md says where they come from
make papers FROM=DIR FULL=1  # the sizes of the papers where that is sensible: hours; stopped, it goes on where it was
python pipelines/papers/mission_table1.py     # one of them
```
"""


def write_page(exhibits: Sequence[Exhibit], saved: dict[str, Any], docs: Path) -> None:
    """Write papers.md and its plots below `docs`."""
    (docs / "papers").mkdir(exist_ok=True)
    pictures = {name: svg for exhibit in exhibits for name, svg in plots_of(exhibit, saved).items()}
    for old in (docs / "papers").glob("*.svg"):
        if old.name not in pictures:
            old.unlink()
    for name, svg in pictures.items():
        (docs / "papers" / name).write_text(svg, encoding="utf-8")
    (docs / "papers.md").write_text(page_of(exhibits, saved), encoding="utf-8")


def page_of(exhibits: Sequence[Exhibit], saved: dict[str, Any]) -> str:
    """Return the page of all exhibits."""
    parts = [HEAD, _summary(exhibits, saved)]
    for prefix, (title, authors) in PAPERS.items():
        parts += [f"## {title}\n", authors + "\n"]
        parts += [section_of(exhibit, saved) for exhibit in exhibits if exhibit.name.startswith(prefix)]
    return "\n".join([*parts, systems_of([exhibit.name for exhibit in exhibits], saved), TAIL])


def plots_of(exhibit: Exhibit, saved: dict[str, Any]) -> dict[str, str]:
    """Return the plots of an exhibit by the names of their files."""
    records = saved.get(exhibit.name, {}).get("records", [])
    pictures = {}
    for number, view in enumerate(exhibit.views):
        ours, theirs = view.means(records), view.means(exhibit.printed)
        if not view.plot or not _is_curve(ours):
            continue
        paper = {f"{method} (the paper)": curve for method, curve in theirs.items()}
        pictures[_file_of(exhibit, number)] = draw(view.title, view.across, ours | paper, list(paper))
    return pictures


def section_of(exhibit: Exhibit, saved: dict[str, Any]) -> str:
    """Return what the page says of an exhibit."""
    parts = [f"### {exhibit.title}\n"]
    measured = saved.get(exhibit.name)
    if measured is None:
        return "\n".join([*parts, f"Not measured yet: `python pipelines/papers/{exhibit.name}.py`.\n"])
    parts.append(f"`pipelines/papers/{exhibit.name}.py`, {measured['form']} form: {_sizes(measured['sizes'])}.\n")
    pictures = plots_of(exhibit, saved)
    for number, view in enumerate(exhibit.views):
        if _file_of(exhibit, number) in pictures:
            parts.append(f"![{view.title}](papers/{_file_of(exhibit, number)})\n")
        comparable = exhibit.printed if exhibit.same_data else ()
        parts.append(table_of(view, measured["records"], comparable, measured["sizes"].get(view.cap)))
    is_full = measured["form"] == "full"
    lines = [sentence_of(claim, measured["records"], is_full) for claim in exhibit.claims]
    if is_full and exhibit.same_data:
        lines += [line for view in exhibit.views for line in differences_of(view, measured["records"], exhibit)]
    if not exhibit.same_data:
        lines += [line for view in exhibit.views for line in elsewhere(view, exhibit.printed)]
    parts += [f"* {line}" for line in [*lines, *exhibit.notes]]
    return "\n".join(parts) + "\n"


def table_of(view: View, records: Sequence[Record], printed: Sequence[Record], cap: float | None = None) -> str:
    """Return the table of a view, with the paper's number in brackets where it prints one.

    Means at the cap are said to be at least as much.
    """
    ours, theirs, spreads = view.means(records), view.means(printed), view.spreads(records)
    if not ours:
        return f"{view.title}: not measured yet.\n"
    is_whole = all(isinstance(r[view.metric], int) for r in view.records(records))
    columns = list(dict.fromkeys(x for curve in ours.values() for x in curve))
    if all(isinstance(x, int | float) for x in columns):
        columns.sort()
    head = f"| {view.title} | " + " | ".join(f"{view.across} {_name(x)}" for x in columns) + " |"
    rows = [head, "|---|" + "---:|" * len(columns)]
    for method, curve in ours.items():
        paper, cells = theirs.get(method, {}), []
        for x in columns:
            least = "≥ " if cap is not None and curve.get(x) == cap else ""
            spread = f" ± {_cell(spreads[method][x])}" if spreads[method].get(x) else ""
            text = _cell(curve.get(x), is_whole) + spread
            cells.append(least + text + (f" ({_cell(paper[x], is_whole)})" if x in paper else ""))
        rows.append(f"| {method} | " + " | ".join(cells) + " |")
    bracket = ["", "In brackets: the paper's."] if theirs else []
    if cap is not None:
        bracket += ["", f"No more than {_name(cap)} was tried."]
    return "\n".join([*rows, *bracket]) + "\n"


def sentence_of(claim: Claim, records: Sequence[Record], is_full: bool = True) -> str:
    """Return whether what the paper says holds here, if the form can decide that."""
    verdict = claim.verdict(records)
    if verdict is None:
        return f"The paper says: {claim.says}. Not measured here."
    holds, values = verdict
    means = ", ".join(f"{name} {_cell(value)}" for name, value in values.items())
    failing = [name for name, is_true in holds.items() if not is_true]
    if claim.too_small and not is_full:
        why = f"The quick form cannot decide that, since {claim.too_small}"
        return f"The paper says: {claim.says}. {why}: {claim.view.metric} {means}."
    if len(failing) == len(holds):
        found = "**it does not hold**"
    elif failing:
        others = [name for name in holds if name not in failing]
        found = f"it holds for {', '.join(others)} and **not for {', '.join(failing)}**"
    else:
        found = "it holds"
    return f"The paper says: {claim.says}. Here {found}: {claim.view.metric} {means}."


def elsewhere(view: View, printed: Sequence[Record]) -> list[str]:
    """Return a line with what the paper prints of other data."""
    means = [f"{method} {_cell(value)}" for method, of_x in view.means(printed).items() for value in of_x.values()]
    return [f"The paper, on other data: {view.metric} {', '.join(means)}."] if means else []


def differences_of(view: View, records: Sequence[Record], exhibit: Exhibit) -> list[str]:
    """Return a line for every method of which the paper prints numbers: in how many cells ours is at least as good."""
    if not view.better:
        return []
    sign, lines, theirs = -1 if view.better == "lower" else 1, [], view.means(exhibit.printed)
    for method, curve in view.means(records).items():
        both = [x for x in curve if x in theirs.get(method, {})]
        worse = [x for x in both if sign * curve[x] < sign * theirs[method][x]]
        if not both or method in view.chosen:
            continue
        line = (
            f"{method}, {view.metric}: at least as good as the paper's in {len(both) - len(worse)} of {len(both)} cells"
        )
        below = "; ".join(
            f"{view.across} {_name(x)} {_cell(curve[x])} against {_cell(theirs[method][x])}" for x in worse
        )
        reason = f" {exhibit.reasons[method]}" if method in exhibit.reasons else ""
        lines.append(f"{line}, and worse in {below}.{reason}" if worse else f"{line}.")
    return lines


def _summary(exhibits: Sequence[Exhibit], saved: dict[str, Any]) -> str:
    done = [exhibit for exhibit in exhibits if exhibit.name in saved]
    lines = [
        f"{len(done)} of {len(exhibits)} tables and figures are measured below, in "
        f"{sum(saved[e.name]['seconds'] for e in done) / 60:.0f} minutes in all "
        f"({sum(saved[e.name]['cpu_seconds'] for e in done) / 60:.0f} of CPU time; the rest is what other work on the "
        f"machine took, and worker processes).",
        *(_counted([e for e in done if saved[e.name]["form"] == form], saved, form) for form in ("full", "quick")),
    ]
    left = [f"`{exhibit.name}`" for exhibit in exhibits if exhibit.name not in saved]
    return "\n".join([*lines, *([f"Not measured: {', '.join(left)}."] if left else [])]) + "\n"


def _counted(exhibits: Sequence[Exhibit], saved: dict[str, Any], form: str) -> str:
    """Return how many sentences of the papers hold in a form, and how many that form cannot decide."""
    if not exhibits:
        return f"Nothing is measured in the {form} form yet."
    claims = [(claim, saved[e.name]["records"]) for e in exhibits for claim in e.claims]
    open_ones = [claim for claim, _ in claims if claim.too_small and form == "quick"]
    verdicts = [v[0] for claim, r in claims if claim not in open_ones and (v := claim.verdict(r)) is not None]
    said = (
        f"In the {form} form there are {len(exhibits)}: of {len(verdicts)} sentences of the papers that it can decide, "
        f"{sum(all(holds.values()) for holds in verdicts)} hold here, and "
        f"{sum(any(holds.values()) and not all(holds.values()) for holds in verdicts)} more for some of our methods."
    )
    return f"{said} {len(open_ones)} more it cannot decide." if open_ones else said


def _is_curve(means: dict[str, dict[Any, float]]) -> bool:
    xs = {x for curve in means.values() for x in curve}
    return len(xs) > 1 and all(isinstance(x, int | float) for x in xs)


def _file_of(exhibit: Exhibit, number: int) -> str:
    return f"{exhibit.name}-{number + 1}.svg"


def _sizes(sizes: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_name(value)}" for name, value in sizes.items())


def _name(value: Any) -> str:
    if isinstance(value, dict):
        return " / ".join(f"{name} {_name(of_name)}" for name, of_name in value.items())
    if isinstance(value, list):
        return " / ".join(map(_name, value))
    if value in ("", None):
        return "none"
    return f"{value:,.6g}" if isinstance(value, int | float) else str(value)


def _cell(value: float | None, is_whole: bool = False) -> str:
    if value is None:
        return ""
    if is_whole and value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"
