"""20 newsgroups, split by date, as n-grams of words and characters: many classes, millions of string features.

A stand-in for the text sets of MISSION (ICML 2018, section 6.1: RCV1 and Webspam trigrams). A document is a
message with its headers; its label is the group it was posted to; features are strings (``w:the moon`` for
words, ``c:moo`` for characters). By date means that test messages are later than training messages:
11,314 and 7,532 of them, in 20 groups. They come group by group; `--shuffle` mixes them, as whatever learns from one
row after the other needs them.

Known truth: the labels; which n-grams matter is not known.

    python datasets/news20.py news.zarr --from DIR --shuffle
    python datasets/news20.py news-test.zarr --from DIR --part test
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

import click
from _recipe import (
    RecipeError,
    announce,
    find_files,
    lengths_option,
    mixed,
    recipe,
    shuffle_option,
    source_folder,
    weighting_option,
)

import daskfs

ORIGIN = 'the "20 Newsgroups" page of Jason Rennie, sorted by date (expected: 20news-bydate.tar.gz or .tar.xz)'


@recipe
@source_folder
@click.option("--part", type=click.Choice(["train", "test"]), default="train", help="Which messages.")
@lengths_option("--words", "1,2", "Lengths of the n-grams of words.")
@lengths_option("--chars", "3", "Lengths of the n-grams of characters; '' for none.")
@weighting_option("unit")
@shuffle_option
def main(
    out: str,
    folder: Path | None,
    part: str,
    words: tuple[int, ...],
    chars: tuple[int, ...],
    weighting: str,
    shuffle: bool,
    overwrite: bool,
) -> None:
    """Messages of 20 newsgroups as n-grams of words and characters, labelled with the group."""
    (archive,) = find_files(folder, ["20news-bydate.tar.*"], ORIGIN)
    with tempfile.TemporaryDirectory() as temporary:
        messages = _unpack(archive, f"20news-bydate-{part}", Path(temporary))
        daskfs.ingest(
            mixed(str(path) for path in sorted(messages.glob("*/*"))) if shuffle else [str(messages)],
            out,
            format="text",
            documents="files",
            words=words,
            chars=chars,
            weighting=weighting,
            overwrite=overwrite,
        )
    announce(out)


def _unpack(archive: Path, top: str, folder: Path) -> Path:
    """One top folder of an archive, unpacked; nothing of it can land outside `folder`."""
    with tarfile.open(archive) as tar:
        for member in tar:  # in the order of the archive: going back would unpack it anew
            if Path(member.name).parts[:1] == (top,):
                tar.extract(member, folder, filter="data")
    if not (folder / top).is_dir():
        raise RecipeError(f"{archive} has no folder {top}; its public origin: {ORIGIN}")
    return folder / top


if __name__ == "__main__":
    main()
