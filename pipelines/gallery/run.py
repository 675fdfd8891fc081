"""python pipelines/gallery/run.py [NAME ...]: run the commands of the pages in docs/gallery, and keep their reports.

Commands run at the root of the source tree and write to `gallery/`. What they print is compared with what the pages
say. The reports are copied to docs/gallery/reports, where `make docs` finds them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "pipelines" / "docs"))

from transcripts import commands_of, run  # noqa: E402

PAGES = ROOT / "docs" / "gallery"
NAMES = ("genes", "clicks", "text", "dna", "sensors", "images")


def main() -> None:
    names = sys.argv[1:] or NAMES
    wrong = 0
    for name in names:
        begun = perf_counter()
        shutil.rmtree(ROOT / "gallery" / name, ignore_errors=True)
        (ROOT / "gallery" / name).mkdir(parents=True)
        for command in commands_of((PAGES / f"{name}.md").read_text("utf-8")):
            print(f"$ {command.line}", flush=True)
            for line in run(command, ROOT):
                wrong += 1
                print(f"  not printed: {line}", file=sys.stderr, flush=True)
        for report in copy_reports(name):
            print(f"report: {report.relative_to(ROOT)}")
        print(f"{name}: {perf_counter() - begun:.0f} s\n", flush=True)
    sys.exit(f"{wrong} lines of the pages were not printed" if wrong else 0)


def copy_reports(name: str) -> list[Path]:
    """Copy the published reports of a page's selections to the documentation, and return the copies."""
    copies = []
    for published in sorted((ROOT / "gallery" / name).glob("*/published.json")):
        run_folder = published.parent / json.loads(published.read_text("utf-8"))["run"]
        copy = PAGES / "reports" / f"{name}-{published.parent.name}.html"
        copy.parent.mkdir(exist_ok=True)
        copies.append(Path(shutil.copyfile(run_folder / "report.html", copy)))
    return copies


if __name__ == "__main__":
    main()
