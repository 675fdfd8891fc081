"""The parts of the report on passes, costs, and how to repeat the selection run."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
import tomli_w

from daskfs.errors import public_url
from daskfs.observe.report.text import count, number, plain, seconds, size, visible
from daskfs.observe.report.words import ENGINE_COLUMNS, LONGEST_URL, RunRecords, TextTable, address, total
from daskfs.protocol import Words
from daskfs.selection.selection import Selection

MOST_PASSES = 200
LONGEST_COMMAND = 4_000

Facts = list[tuple[str, str]]


def history_titles(words: Words) -> dict[str, str]:
    """Return the titles of the columns of the history that the page shows, by the names of the columns."""
    return {"objective": ENGINE_COLUMNS["objective"], **words.columns, **ENGINE_COLUMNS}


def pass_table(run: RunRecords) -> TextTable | None:
    """Return a table with a row for every pass, or None if the selection has no history."""
    history, titles = run.selection.history, history_titles(run.words)
    names = [name for name in titles if name in history and np.isfinite(history[name].values).any()]
    steps = history.sizes["step"]
    if not names or not steps:
        return None
    columns = {name: history[name].values.tolist() for name in names}
    rows = [
        [str(step + 1), *(_cell(name, columns[name][step]) for name in names)]
        for step in range(min(steps, MOST_PASSES))
    ]
    more = f"… and {steps - MOST_PASSES:,} more; history.zarr has all." if steps > MOST_PASSES else ""
    return TextTable(["pass", *(visible(titles[name]) for name in names)], rows, more)


def pass_words(run: RunRecords) -> str:
    """Return the algorithm's sentences on how to read its history, such as why the objective may rise."""
    columns = {str(name): column.values for name, column in run.selection.history.items()}
    return run.words.explain_history({name: values[np.isfinite(values)].tolist() for name, values in columns.items()})


def _cell(name: str, value: float) -> str:
    if name == "seconds":
        return seconds(value)
    if name == "bytes":
        return size(value)
    is_count = name != "objective" and value.is_integer() and abs(value) < 1e15
    return number(value, "{:,.0f}" if is_count else "{:,.6g}")


def cost_facts(run: RunRecords) -> Facts:
    """Return name and text of the facts on time, bytes read, workers, and memory."""
    record, memory = run.run_record, run.run_record.get("memory") or {}
    took = record.get("seconds") if record.get("seconds") is not None else total(run.selection, "seconds")
    read = record.get("bytes_read") if record.get("bytes_read") is not None else total(run.selection, "bytes")
    workers, machine = record.get("workers"), record.get("machine") or {}
    facts = [
        ("time", seconds(took) if took else ""),
        ("read", size(read) if read else ""),
        ("rate", f"{size(read / took)}/s" if took and read else ""),
        ("workers", f"{workers:,}" if workers else ""),
        ("memory promised", _promised(memory)),
        ("memory used", _used(memory)),
        ("how far workers were behind", _behind(record.get("offers") or {})),
        ("machine", _machine(machine)),
        ("Dask's performance report", visible(record.get("performance_report") or "", LONGEST_URL)),
    ]
    return [(name, value) for name, value in facts if value]


def _promised(memory: dict[str, Any]) -> str:
    if memory.get("promised") is None:
        return ""
    text = visible(memory.get("text") or "", LONGEST_URL)
    return f"{size(memory['promised'])}: {text}" if text else size(memory["promised"])


def _used(memory: dict[str, Any]) -> str:
    used, promised = memory.get("used"), memory.get("promised")
    if used is None:
        return ""
    return f"{size(used)}, {100 * used / promised:.0f} % of what was promised" if promised else size(used)


def _behind(offers: dict[str, Any]) -> str:
    """Return a text on how many versions the states of asynchronous workers lagged behind, or an empty text."""
    if not offers.get("count"):
        return ""
    mean, most = number(offers.get("staleness"), "{:.1f}"), number(offers.get("staleness_max"), "{:.0f}")
    return f"{mean} versions on average, {most} at most, in {count(int(offers['count']), 'offer')}"


def _machine(machine: dict[str, Any]) -> str:
    cores, memory = machine.get("cores"), machine.get("memory")
    parts = [count(int(cores), "core") if cores else "", size(memory) if memory else ""]
    return ", ".join(part for part in parts if part)


def command(run: RunRecords) -> str:
    """Return text that repeats the selection run: the recorded command or job file, or else a line of Python."""
    recorded = _without_secrets(_recorded_command(run))
    if isinstance(recorded, list):
        recorded = shlex.join(map(str, recorded))
    elif isinstance(recorded, dict):
        recorded = tomli_w.dumps(recorded).rstrip()
    text = str(recorded) if recorded else python_line(run.selection)
    return "\n".join(visible(line, LONGEST_COMMAND) for line in text[:LONGEST_COMMAND].split("\n"))


def _without_secrets(value: Any) -> Any:
    """Return a JSON value without users, passwords and signatures of URLs, and without null, which TOML lacks."""
    if isinstance(value, dict):
        return {key: _without_secrets(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_secrets(member) for member in value if member is not None]
    return " ".join(map(public_url, value.split(" "))) if isinstance(value, str) else value


def _recorded_command(run: RunRecords) -> Any:
    return run.run_record.get("command") or run.run_record.get("job")


def python_line(selection: Selection) -> str:
    """Return the call of `daskfs.select` that repeats a selection, as a line of Python."""
    fields = ", ".join(f"{name}={value!r}" for name, value in selection.algorithm.items() if name != "name")
    algorithm = f"daskfs.{selection.algorithm.get('name', '')}({fields})"
    return f"daskfs.select({selection.source['url']!r}, {algorithm}, seed={selection.seed})"


def origin_facts(run: RunRecords) -> Facts:
    """Return name and text of the facts on which a repeated selection run depends: seed, versions and digests."""
    source, record = run.selection.source, run.run_record
    packages = record.get("packages") or {}
    versions = [("daskfs", record.get("daskfs")), ("Python", record.get("python")), *sorted(packages.items())]
    facts = [
        ("dataset", address(source["url"])),
        ("its digest", visible(source["digest"])),
        ("evaluated on", _evaluated(run)),
        ("algorithm", _algorithm(run.selection) if _recorded_command(run) else ""),  # else the line of Python has it
        ("seed", f"{run.selection.seed}"),
        ("versions", ", ".join(f"{visible(name)} {visible(version)}" for name, version in versions if version)),
        ("started", visible(record.get("started") or "")),
        ("finished", visible(record.get("finished") or "")),
    ]
    return [(name, value) for name, value in facts if value]


def _evaluated(run: RunRecords) -> str:
    dataset, digest = ((run.metrics or {}).get(key) for key in ("dataset", "digest"))
    return ", digest ".join(map(address, filter(None, (dataset, digest))))


def _algorithm(selection: Selection) -> str:
    fields = [f"{visible(name)}={plain(value)}" for name, value in selection.algorithm.items() if name != "name"]
    return f"{visible(str(selection.algorithm.get('name', '')))}({', '.join(fields)})"
