"""MISSION, table 5: splice sites; average precision of MISSION, batch IHT, IHT and feature hashing."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import _real
from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _learned import METHODS, learned
from _report import Record

FILES = "C_elegans_acc_*.fasta.bz2"
PAPER = {"FH": 0.522, "MISSION, paper": 0.510, "Batch IHT": 0.498, "IHT": 0.498}


def cells(places: Places, every: int, k: int, width: int, passes: int) -> Cells:
    def measure(name: str) -> list[Record]:
        work = places.work / f"splice-every-{every}"
        task = _real.splice(thinned(places, work, every), work, "runs" if every == 1 else "position", passes)
        return [record | {"data": "splice"} for record in learned(task, name, k, width)]

    return {name: partial(measure, name) for name in METHODS}


def thinned(places: Places, work: Path, every: int) -> Path:
    """A folder with every so many of the windows, in a file of the same name."""
    assert places.source is not None
    (source,) = places.source.rglob(FILES)
    if every == 1:
        return source.parent
    work.mkdir(parents=True, exist_ok=True)
    if not (work / source.name).exists():
        with bz2.open(source, "rt") as file:
            text = "".join(islice(_records(file), 0, None, every))
        (work / source.name).write_bytes(bz2.compress(text.encode()))
    return work


def _records(lines: Iterator[str]) -> Iterator[str]:
    """The records of a FASTA file."""
    record = ""
    for line in lines:
        if line.startswith(">") and record:
            yield record
            record = ""
        record += line
    yield record


PRECISION = View("Average precision", "data", "average precision", "higher", plot=False)
EXHIBIT = Exhibit(
    name="mission_table5",
    title="Table 5: splice sites",
    cells=cells,
    quick={"every": 20, "k": 4096, "width": 2**16, "passes": 1},
    full={"every": 1, "k": 16_384, "width": 2**18, "passes": 1},
    views=(PRECISION, View("CPU seconds", "data", "cpu seconds", "lower", plot=False)),
    claims=(
        Claim("MISSION outperforms batch IHT and IHT", PRECISION, ("MISSION, paper",), ("Batch IHT", "IHT")),
        Claim("MISSION comes close to FH", PRECISION, ("MISSION, paper",), ("FH",), 0.02),
    ),
    printed=tuple({"method": name, "data": "splice", "average precision": value} for name, value in PAPER.items()),
    same_data=False,
    notes=(
        "The paper's set is human, with 50 million windows; here it is C. elegans, with 100,000 (every so many of them "
        "in the quick form): compare methods, not values.",
    ),
    needs=FILES,
)

if __name__ == "__main__":
    run(EXHIBIT)
