"""Draw the table of runs in docs/faults.md from docs/faults.json, which `make faults` writes.

python pipelines/docs/faults_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from marked_tables import drawn

DOCS = Path(__file__).parents[2] / "docs"
HEADER = "| fault | runs | survived | exact | worst recovery |\n|---|---|---|---|---|\n"


def rows(records: list[dict[str, Any]]) -> list[str]:
    """Return a line for every fault, over all files of tests that bring it about."""
    lines = []
    for fault in sorted({record["fault"] for record in records}):
        some = [record for record in records if record["fault"] == fault]
        runs, survived, exact = (sum(record[name] for record in some) for name in ("runs", "survived", "exact"))
        times = [record["worst"] for record in some if record["worst"] is not None]
        worst = f"{max(times):.1f} s" if times else ""
        cells = [f"F{fault}", f"{runs:,}", f"{survived:,}", f"{exact:,}" if exact else "", worst]
        lines.append(f"| {' | '.join(cells)} |\n")
    return lines


def page_with(page: str, records: list[dict[str, Any]]) -> str:
    """Return the page with the table drawn anew."""
    return drawn(page, {"runs": HEADER + "".join(rows(records))})


def main() -> None:
    records = json.loads((DOCS / "faults.json").read_text())
    page = DOCS / "faults.md"
    page.write_text(page_with(page.read_text(), records))


if __name__ == "__main__":
    main()
