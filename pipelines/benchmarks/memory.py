"""Peak memory of an ingest: a 2 GB file with ``--memory 512MB``, above an interpreter with the same imports.

python pipelines/benchmarks/memory.py [--megabytes 2000]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
from _measure import show
from ingest import make_text

ENTRY_BYTES, ROW_ENTRIES = 17, 85


# Asked of the process itself: what its parent is told includes the parent's own memory at the fork.
REPORT = """
import atexit, re, sys
def report():
    print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
atexit.register(report)
from daskfs.cli import main
"""


def peak_megabytes(*arguments: str) -> tuple[float, float]:
    """Peak resident memory of the command (of its imports alone, without arguments) and wall seconds."""
    start = time.perf_counter()
    code = REPORT + ("main()" if arguments else "")
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1024, time.perf_counter() - start


@click.command()
@click.option("--megabytes", default=2000)
@click.option("--memory", default="512MB")
def main(megabytes: int, memory: str) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder) / "big.svm", Path(folder) / "big.zarr"
        make_text(text, megabytes * 1_000_000 // (ENTRY_BYTES * ROW_ENTRIES))
        base, _ = peak_megabytes()
        peak, wall = peak_megabytes(
            *("ingest", str(text), str(out), "--format", "svmlight", "--memory", memory, "--overwrite")
        )
        speed = text.stat().st_size / 1e6 / wall
        show(
            f"ingest of {text.stat().st_size / 1e6:.0f} MB of svmlight text with --memory {memory}",
            ["", "peak MiB", "above imports", "wall s", "MB/s"],
            [
                ["imports alone", f"{base:.0f}", "", "", ""],
                ["ingest", f"{peak:.0f}", f"{peak - base:.0f}", f"{wall:.1f}", f"{speed:.0f}"],
            ],
        )


if __name__ == "__main__":
    main()
