"""The content of the dashboard page, without Bokeh: columns of equal length for every plot, and texts in HTML."""

from __future__ import annotations

from html import escape
from typing import Any

from daskfs.engine.sizes import format_bytes
from daskfs.observe.dashboard.live_runs import LiveRun

TIMES = ("busy", "merging", "scheduler", "idle", "closing")
"""The kinds of time in a pass."""
SPENT = ("reading", "working", "merging", "waiting")
"""The kinds of time of a worker."""
SERIES = {
    "objective": ("x", "y"),
    "changes": ("number", "changes"),
    "rates": ("x", "bytes", "items", "storage", "fastest"),
    "times": ("number", *TIMES),
    "workers": ("worker", *SPENT, "bytes", "edge"),
    "staleness": ("lag", "offers"),
    "checkpoints": ("x", "seconds"),
}
"""The columns of every plot."""
WELCOME = (
    "<b>No selection has run here yet.</b> Start one with <code>daskfs select … --scheduler ADDRESS</code> or "
    "<code>daskfs.select(…, client=client)</code>: what it does shows up here."
)
MOST_BARS = 30
"""The most passes and workers that a plot shows."""
QUIET = 30.0
"""Seconds without an event after which the headline says that there is no news."""
USUAL, LATE = "#ffffff", "#e02020"
"""Colours of the frame of a worker's bar, for usual and for late workers."""
_STYLE = """<style>
table { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: 12px; }
th { text-align: left; border-bottom: 1px solid #aaa; }
td, th { padding: 2px 6px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
td:first-child, th:first-child { width: 20px; padding-left: 0; text-align: right; text-overflow: clip; }
td:last-child, th:last-child { width: 80px; text-align: right; }
tr:nth-child(odd) td { background: #f0f0f0; }
</style>"""
_NAME = 24  # characters of a worker's name beside its bar

Series = dict[str, dict[str, list[Any]]]


def series_of(run: LiveRun, now: float) -> Series:
    """Return the columns of all plots of a selection run, by the names in `SERIES`."""
    x, nbytes, items = run.flow.rates(None if run.ended else now)
    fastest, storage = [max(nbytes, default=0.0)] * len(x), [run.storage_rate or None] * len(x)
    last = run.closed[-MOST_BARS:]
    times = {name: [closed.times.get(name, 0.0) for closed in last] for name in TIMES}
    return {
        "objective": {"x": list(run.objectives.x), "y": list(run.objectives.y)},
        "changes": _changes(run),
        "rates": {"x": x, "bytes": nbytes, "items": items, "storage": storage, "fastest": fastest},
        "times": {"number": [closed.number for closed in last], **times},
        "workers": _workers(run),
        "staleness": {"lag": list(range(len(run.staleness))), "offers": list(run.staleness)},
        "checkpoints": {"x": list(run.checkpoints.x), "seconds": list(run.checkpoints.y)},
    }


def headline(run: LiveRun | None, now: float, refused: str | None = None) -> str:
    """Return a line of HTML on a selection run's progress and problems, and on the last worker that was refused."""
    if run is None:
        return f"{WELCOME} · {escape(refused)}" if refused else WELCOME
    of = f" of {run.passes}" if run.passes and run.number <= run.passes else ""
    done = run.blocks_done if run.fraction else 0  # those of the pass before, until this one has some
    at = f"pass {run.number}{of}, {done:,} of {run.blocks:,} blocks ({run.fraction:.0%})"
    if run.ended:
        passes = _several(run.passes_done, "pass", "passes")
        at = f"finished after {passes}" if run.why is None else f"stopped: {run.why}"
    parts = [
        at,
        f"{format_bytes(run.total.bytes)} read by {_several(len(run.workers) or run.n_workers, 'worker', 'workers')}",
        f"objective {run.objective:.6g}" if run.objective is not None else "",
        _several(run.n_checkpoints, "checkpoint", "checkpoints") if run.n_checkpoints else "",
        f"no news for {now - run.heard:.0f} s" if not run.ended and now - run.heard > QUIET else "",
        refused or "",
        f"{len(run.left):,} left: {', '.join(run.left[-3:])}" if run.left else "",
        f"lagging behind: {', '.join(sorted(run.stragglers())[:3])}" if run.stragglers() else "",
    ]
    status = " · ".join(escape(part) for part in parts if part)
    return f"<b>{escape(run.algorithm)}</b> on {escape(run.dataset)} · {status}"


def _several(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"


def _changes(run: LiveRun) -> dict[str, list[Any]]:
    bars = [(closed.number, closed.changes) for closed in run.closed[-MOST_BARS:] if closed.changes is not None]
    if run.changes and not run.ended:
        bars.append((run.number, run.changes))
    return {"number": [number for number, _ in bars], "changes": [changes for _, changes in bars]}


def _workers(run: LiveRun) -> dict[str, list[Any]]:
    """Return a bar for every worker, sorted by bytes read; of very many workers, those with most and fewest bytes."""
    late, order = run.stragglers(), sorted(run.workers, key=lambda name: -run.workers[name].bytes)
    shown = order if len(order) <= MOST_BARS else [*order[: MOST_BARS // 2], *order[-MOST_BARS // 2 :]]
    return {
        "worker": [f"{name[-_NAME:]} " + "\u200b" * at for at, name in enumerate(shown)],  # distinct even when cut
        **{part: [getattr(run.workers[name], part) for name in shown] for part in SPENT},
        "bytes": [format_bytes(run.workers[name].bytes) for name in shown],
        "edge": [LATE if name in late else USUAL for name in shown],
    }


def feature_table(run: LiveRun) -> str:
    """Return an HTML table of the currently most important features, since Bokeh's own tables do not update cells."""
    if not run.features:
        return ""
    rows = [
        f"<tr><td>{rank}</td><td>{escape(name)}</td><td>{'' if weight is None else f'{weight:+.4g}'}</td></tr>"
        for rank, (name, weight) in enumerate(run.features, 1)
    ]
    return f"{_STYLE}<table><tr><th></th><th>feature</th><th>weight</th></tr>{''.join(rows)}</table>"
