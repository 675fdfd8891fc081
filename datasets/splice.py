"""Splice sites among decoys, as positional k-mers: the setting of MISSION's splice-site (ICML 2018, section 6.2).

The design: a row is a window of sequence around a place where an intron might end; a feature is a k-mer
at a position of the window, for every k = 1 … 6; the label, 1 or -1, says whether it is a true site.
The paper's set is human, with 50 million windows and 11.7 million features (Sonnenburg and Franc, 2010);
the file expected here, of C. elegans acceptor sites, has 100,000 windows of 398 bases, 3.3 % of them true.

Neighbouring windows overlap, so training and test are not split at random: every fifth run of 1,000
windows is the test set. That leaves windows of the test between windows to learn from, of the same genes;
with `--split position` the test set is the last fifth of the file, a stretch of chromosome of its own.

Known truth: the labels; which k-mers matter is not known.

    python datasets/splice.py splice.zarr --from DIR --part train
    python datasets/splice.py splice-test.zarr --from DIR --part test
    python datasets/splice.py splice-far.zarr --from DIR --part test --split position
"""

from __future__ import annotations

import bz2
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from _recipe import announce, find_files, lengths_option, recipe, source_folder, weighting_option

import daskfs

ORIGIN = (
    "the splice site data of Sonnenburg et al. (2007), C. elegans acceptor sites "
    "(expected: C_elegans_acc_*.fasta.bz2 with label=1 or label=-1 in every header)"
)
LABEL = r"header:label=([-+]?1)\b"
RUN, FOLDS = 1000, 5


@recipe
@source_folder
@click.option("--part", type=click.Choice(["train", "test", "all"]), default="all", help="Which windows.")
@click.option("--split", type=click.Choice(["runs", "position"]), default="runs", help="What the test set is.")
@lengths_option("--k", "1,2,3,4,5,6", "Lengths of the k-mers.")
@weighting_option("unit")
def main(
    out: str, folder: Path | None, part: str, split: str, k: tuple[int, ...], weighting: str, overwrite: bool
) -> None:
    """Windows around true and false splice sites, as k-mers at their positions."""
    (source,) = find_files(folder, ["C_elegans_acc_*.fasta.bz2"], ORIGIN)
    with tempfile.TemporaryDirectory() as temporary:
        windows = source if part == "all" else _write_part(source, part, split, Path(temporary))
        daskfs.ingest(
            [str(windows)],
            out,
            format="fasta",
            k=k,
            position=True,
            label=LABEL,
            labels="numbers",
            weighting=weighting,
            overwrite=overwrite,
        )
    announce(out)


def _write_part(source: Path, part: str, split: str, folder: Path) -> Path:
    """The windows of one part, in a file of their own."""
    path = folder / f"{part}.fasta"
    is_test = _in_fifth_runs if split == "runs" else _behind(_count(source) * (FOLDS - 1) // FOLDS)
    with bz2.open(source, "rt") as lines, path.open("w") as file:
        file.writelines(records_of_part(lines, part, is_test))
    return path


def _in_fifth_runs(record: int) -> bool:
    return record // RUN % FOLDS == FOLDS - 1


def _behind(first: int) -> Callable[[int], bool]:
    return lambda record: record >= first


def _count(source: Path) -> int:
    """How many windows there are."""
    with bz2.open(source, "rt") as lines:
        return sum(line.startswith(">") for line in lines)


def records_of_part(lines: Iterable[str], part: str, is_test: Callable[[int], bool]) -> Iterator[str]:
    """The lines of the records that belong to ``"train"`` or ``"test"``."""
    record = -1
    for line in lines:
        record += line.startswith(">")
        if is_test(record) == (part == "test"):
            yield line


if __name__ == "__main__":
    main()
