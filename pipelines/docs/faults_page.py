"""Draw the table of runs in docs/faults.md from docs/faults.json, which `make faults` writes.

    python pipelines/docs/faults_page.py

The table follows the line ``<!-- table: runs -->`` and ends with an empty line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

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


def drawn(page: str, records: list[dict[str, Any]]) -> str:
    """Return the page with the table drawn anew."""
    table = HEADER + "".join(rows(records))
    return re.sub(r"(<!-- table: runs -->)\n\n(?:\|.*\n)*\n?", lambda found: f"{found[1]}\n\n{table}\n", page)


def main() -> None:
    records = json.loads((DOCS / "faults.json").read_text())
    page = DOCS / "faults.md"
    page.write_text(drawn(page.read_text(), records))


if __name__ == "__main__":
    main()
