"""a9a: a small sparse classification, 32,561 people with 123 binary features (LIBSVM's form of UCI Adult).

The label, 1 (24 %) or -1, says whether somebody earns more than 50,000 dollars a year; 14 features of a row
are 1 and the others 0. Ids are those of the file, from 1.

Known truth: the labels; which features matter is not known.

    python datasets/a9a.py a9a.zarr --from DIR
"""

from __future__ import annotations

from pathlib import Path

from _recipe import announce, find_files, recipe, source_folder

import daskfs

ORIGIN = "LIBSVM data page (a9a) (expected: a9a or a9a.bz2, svmlight text)"


@recipe
@source_folder
def main(out: str, folder: Path | None, overwrite: bool) -> None:
    """Binary features of people, and whether they earn more than 50,000 dollars."""
    (path,) = find_files(folder, ["a9a|a9a.bz2"], ORIGIN)
    daskfs.ingest([str(path)], out, format="svmlight", overwrite=overwrite)
    announce(out)


if __name__ == "__main__":
    main()
