"""Draw the table of asynchronous runs in docs/benchmarks.md from docs/asynchronous.json.

python pipelines/docs/asynchronous.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from marked_tables import drawn

DOCS = Path(__file__).parents[2] / "docs"
DATA = {
    "easy": "20 true columns of 2,000, noise .1",
    "hard": "40 of 3,000",
    "faint": "40 of 3,000, some with weights near 0",
}
HEADER = "| data | method | objective, the worst | within 1 % | with a killed worker |\n|---|---|---|---|---|\n"


def within(record: dict[str, Any] | None) -> str:
    """Return how many of the runs came within 1 % of the serial objective and .01 of its recall."""
    if record is None:
        return "not measured"
    pairs = zip(record["objective"], record["recall"], strict=True)
    good = sum(loss <= 1.01 and recall >= record["serial recall"] - 0.01 for loss, recall in pairs)
    return f"{good} of {len(record['objective'])}"


def page_with(page: str, records: list[dict[str, Any]]) -> str:
    """Return the page with the table drawn anew."""
    runs = {(record["data"], record["method"], record["killed"]): record for record in records}
    lines = []
    for data, method in sorted(
        {(data, method) for data, method, _ in runs}, key=lambda of: (list(DATA).index(of[0]), of[1])
    ):
        calm, killed = (runs.get((data, method, is_killed)) for is_killed in (False, True))
        worst = max(max(record["objective"]) for record in (calm, killed) if record is not None)
        lines.append(f'| {DATA[data]} | `"{method}"` | {worst:.3f} | {within(calm)} | {within(killed)} |\n')
    return drawn(page, {"asynchronous": HEADER + "".join(lines)})


def main() -> None:
    records = json.loads((DOCS / "asynchronous.json").read_text())
    page = DOCS / "benchmarks.md"
    page.write_text(page_with(page.read_text(), records))


if __name__ == "__main__":
    main()
