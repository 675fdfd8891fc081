"""Criteo's click logs, as tokens: the setting of MISSION's Criteo 1TB (ICML 2018, section 6.2, table 4).

The design: a row is an ad shown, with 13 counts (I1 … I13) and 26 hashed categories (C1 … C26), each of
them missing at times; the label says whether it was clicked. Every text in a column is a feature of its
own, ``C1=68fd1e64``; so is every count, ``I1=5``, for counts in the millions would drown the rest
(`--counts numeric` keeps them as numbers). The paper hashes to 1 million features.

Two forms are read: the raw logs, tab-separated without a header, label first; and comma-separated files
with a header that names the label ``Label`` or ``label`` (and perhaps an ``Id``, which is no feature).

Known truth: the labels; which tokens matter is not known.

    python datasets/criteo.py criteo.zarr --from DIR --files "train.tiny.csv"
    python datasets/criteo.py day0.zarr --from DIR --files "day_0.gz"
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import click
from _recipe import RecipeError, announce, find_all, recipe, source_folder

import daskfs

ORIGIN = (
    "Criteo AI Lab, display advertising challenge or 1TB click logs (expected: train.txt, day_0.gz … or train*.csv)"
)
COUNTS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]


@recipe
@source_folder
@click.option("--files", default="train*", metavar="GLOB", help="Which files.")
@click.option("--counts", type=click.Choice(["tokens", "numeric"]), default="tokens", help="What I1 … I13 become.")
def main(out: str, folder: Path | None, files: str, counts: str, overwrite: bool) -> None:
    """Ads shown and clicked, as tokens of 13 counts and 26 categories."""
    sources = find_all(folder, files, ORIGIN)
    kinds: dict[str, Any] = {"numeric": COUNTS, "categorical": CATEGORIES}
    if counts == "tokens":
        kinds = {"categorical": COUNTS + CATEGORIES}
    daskfs.ingest([str(path) for path in sources], out, overwrite=overwrite, **columns_of(sources[0]), **kinds)
    announce(out)


def columns_of(path: Path) -> dict[str, Any]:
    """Format and columns, by the first line of a file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt") as file:
        first = file.readline().rstrip("\n")
    if "\t" in first:
        return {"format": "tsv", "header": False, "columns": ["Label", *COUNTS, *CATEGORIES], "label": "Label"}
    names = first.split(",")
    label = next((name for name in names if name.lower() == "label"), None)
    if label is None:
        raise RecipeError(f"{path}: neither tab-separated nor with a header that names the label; origin: {ORIGIN}")
    return {"format": "csv", "label": label, "ignore": [name for name in names if name == "Id"]}


if __name__ == "__main__":
    main()
